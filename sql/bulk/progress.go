package bulk

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
)

// tally counts rows of files.
type tally struct {
	Rows    int64 `json:"rows"` // that were read
	Skipped int64 `json:"skipped,omitempty"`
	Errors  int64 `json:"errors,omitempty"`
}

func (t *tally) add(o tally) {
	t.Rows, t.Skipped, t.Errors = t.Rows+o.Rows, t.Skipped+o.Skipped, t.Errors+o.Errors
}

// part is rows of a file that follow each other, and were loaded.
type part struct {
	From rowfile.Position `json:"from"`
	To   rowfile.Position `json:"to"`
	tally
}

// The records of an import are rows of the meta shard:
//
//	job, 0, 0                the fence: the term of the node that does the job
//	job, file + 1, first row a part
var recordTable = base.MakeTableID(12, 0)

func recordSpan(job uint64) base.Span {
	p := base.Key(base.AppendUint64(base.IndexPrefix(base.MetaShard, recordTable, 0, 0), job))
	return base.Span{Start: p, End: p.PrefixEnd()}
}

func recordKey(job uint64, file int, row int64) base.Key {
	k := base.AppendUint64(recordSpan(job).Start.Clone(), uint64(file+1))
	return base.AppendUint64(k, uint64(row))
}

func fenceKey(job uint64) base.Key { return recordKey(job, -1, 0) }

// fence is the value of the fence.
type fence struct {
	Term uint64 `json:"term"`
}

// records are what was loaded of files.
type records struct {
	db   kv.DB
	job  uint64
	term uint64

	merging sync.Mutex

	mu    sync.Mutex
	files [][]part // by file, in the order of their first rows
	sum   tally
	fresh int // parts since the last merge
}

// openRecords keeps nodes out that did the job before, and reads what they have loaded.
func openRecords(ctx context.Context, db kv.DB, lease *job.Lease, files int) (*records, error) {
	r := &records{db: db, job: lease.ID(), term: lease.Term(), files: make([][]part, files)}
	v, err := json.Marshal(fence{r.term})
	if err != nil {
		return nil, err
	}
	_, err = kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
		now, err := r.fence(ctx, t, kv.LockExclusive)
		if err == nil && now > r.term {
			err = job.ErrLost
		}
		if err == nil {
			t.Put(fenceKey(r.job), v, 0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	_, err = kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
		r.sum = tally{}
		clear(r.files)
		return r.each(ctx, t, func(k base.Key, value []byte) error {
			suffix := k[len(recordSpan(r.job).Start):]
			n, _, err := base.TakeUint64(suffix)
			if err != nil || n == 0 {
				return err
			}
			file := int(n) - 1
			var p part
			if err := json.Unmarshal(value, &p); err != nil || file >= files {
				return base.Errorf(base.CodeCorrupt, "a record of job %d, file %d: %v", r.job, file, err)
			}
			r.files[file] = append(r.files[file], p)
			r.sum.add(p.tally)
			return nil
		})
	})
	return r, err
}

// fence reads the term of the node that may do the job.
func (r *records) fence(ctx context.Context, t kv.Txn, lock kv.LockMode) (uint64, error) {
	rows, err := t.Get(ctx, []base.Key{fenceKey(r.job)}, lock)
	if err != nil || rows[0].Value == nil {
		return 0, err
	}
	var f fence
	err = json.Unmarshal(rows[0].Value, &f)
	return f.Term, err
}

// each reads all records.
func (r *records) each(ctx context.Context, t kv.Txn, f func(base.Key, []byte) error) error {
	for req := (&kv.ScanRequest{Spans: []base.Span{recordSpan(r.job)}}); req != nil; {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return err
		}
		for _, row := range res.Rows {
			if err := f(row.Key, row.Value); err != nil {
				return err
			}
		}
		req = res.Next
	}
	return nil
}

// note writes the record of a part in the transaction that loads it. done: it was loaded before.
func (r *records) note(ctx context.Context, t kv.Txn, file int, p *part) (done bool, err error) {
	now, err := r.fence(ctx, t, kv.LockShared)
	if err == nil && now != r.term {
		err = job.ErrLost
	}
	if err != nil {
		return false, err
	}
	rows, err := t.Get(ctx, []base.Key{recordKey(r.job, file, p.From.Row)}, kv.LockShared)
	if err != nil || rows[0].Value != nil {
		return err == nil, err
	}
	return false, r.put(t, file, p)
}

// put writes the record of a part.
func (r *records) put(t kv.Txn, file int, p *part) error {
	v, err := json.Marshal(p)
	if err == nil {
		t.Put(recordKey(r.job, file, p.From.Row), v, 0)
	}
	return err
}

// loaded notes that a part was loaded, and reports whether records should be merged.
func (r *records) loaded(file int, p part) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := slices.BinarySearchFunc(r.files[file], p, func(a, b part) int { return int(a.From.Row - b.From.Row) })
	r.files[file] = slices.Insert(r.files[file], i, p)
	r.sum.add(p.tally)
	r.fresh++
	if r.fresh < mergeEvery {
		return false
	}
	r.fresh = 0
	return true
}

// mergeEvery is how many records there are before those that follow each other become one.
const mergeEvery = 64

// total is what was loaded so far.
func (r *records) total() tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum
}

// next is where a file goes on at a row: behind what was loaded from there on. most is the row at
// which something begins that was loaded.
func (r *records) next(file int, at rowfile.Position) (to rowfile.Position, most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most = math.MaxInt64
	for _, p := range r.files[file] {
		switch {
		case p.From.Row == at.Row:
			at = p.To
		case p.From.Row > at.Row:
			return at, p.From.Row
		}
	}
	return at, most
}

// merge makes one record of those that follow each other from the beginning of a file.
func (r *records) merge(ctx context.Context) error {
	if !r.merging.TryLock() {
		return nil
	}
	defer r.merging.Unlock()
	all := r.prefixes()
	if len(all) == 0 {
		return nil
	}
	_, err := kv.Run(ctx, r.db, kv.Options{}, func(t kv.Txn) error {
		now, err := r.fence(ctx, t, kv.LockShared)
		if err == nil && now != r.term {
			err = job.ErrLost
		}
		for _, m := range all {
			if err != nil {
				break
			}
			err = r.put(t, m.file, &m.part)
			for _, k := range m.gone {
				t.Delete(k)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range all { // parts that have come meanwhile are behind these
		r.files[m.file] = slices.Replace(r.files[m.file], 0, len(m.gone)+1, m.part)
	}
	return nil
}

// prefix is the parts of a file that follow each other from its beginning, as one.
type prefix struct {
	file int
	part
	gone []base.Key // of the others
}

// prefixes are those of more than one part.
func (r *records) prefixes() (all []prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, ps := range r.files {
		if len(ps) < 2 || ps[0].From.Row > 0 {
			continue
		}
		m := prefix{file: i, part: ps[0]}
		for _, p := range ps[1:] {
			if p.From.Row != m.To.Row {
				break
			}
			m.To = p.To
			m.tally.add(p.tally)
			m.gone = append(m.gone, recordKey(r.job, i, p.From.Row))
		}
		if len(m.gone) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// remove removes all records of a job, in the transaction that ends it.
func (r *records) remove(ctx context.Context, t kv.Txn) error {
	return r.each(ctx, t, func(k base.Key, _ []byte) error {
		t.Delete(k)
		return nil
	})
}
