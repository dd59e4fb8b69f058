// Package share divides a job (package kv/job) among nodes. The job has units, which are numbered
// from 0. One node leads: it holds the lease of the job. It and others are workers: each claims
// units, and does them.
//
// What is known of a job is its book, rows of the meta shard:
//
//	job, 0, 0        the head: the term of the node that leads, and what went wrong
//	job, 0, unit+1   a claim: which worker does the unit, or that it is done
//	job, unit+1, n   records of the unit, in the words of the job's kind
//	job, max, id     a worker, and until when it may be believed to be alive
//
// # Once
//
// A worker that is not heard of any more loses its units: another one raises the term of the claim.
// It may still be at work. So all that counts is written in transactions that read the claim
// ([Claim.Check]), and a record of it in the same one ([Claim.Put]): either the next worker, which
// has changed the claim before it reads the records, reads this one, or it does not commit. The
// same holds for the end of the job, which removes the book, and for a node that led before: the
// head is written in a transaction that reads the job's record.
package share

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/schema"
)

var table = base.MakeTableID(12, 0)

// Span is where the book of a job is.
func Span(job uint64) base.Span {
	p := base.Key(base.AppendUint64(base.IndexPrefix(base.MetaShard, table, 0, 0), job))
	return base.Span{Start: p, End: p.PrefixEnd()}
}

func keyOf(job, part, n uint64) base.Key {
	return base.AppendUint64(base.AppendUint64(Span(job).Start.Clone(), part), n)
}

// under is where the rows of one part of a book are.
func under(job, part uint64) base.Span {
	p := base.Key(base.AppendUint64(Span(job).Start.Clone(), part))
	return base.Span{Start: p, End: p.PrefixEnd()}
}

// workers is the part of a book that has them.
const workers = math.MaxUint64

// Head is what is known of a job as a whole.
type Head struct {
	Term uint64 `json:"term"` // of the node that leads
	// Errors counts rows that were left out, and Wrong says what the first ones are.
	Errors int64    `json:"errors,omitempty"`
	Wrong  []string `json:"wrong,omitempty"`
	// Failed is what ends the job.
	Failed *Failure `json:"failed,omitempty"`
}

// MostWrong is how many errors of rows are told.
const MostWrong = 100

// Failure is an error of a worker, as the node that leads hears of it.
type Failure struct {
	Num   int    `json:"num,omitempty"` // 0: it is no error of MySQL's
	State string `json:"state,omitempty"`
	Text  string `json:"text"`
}

// Err is the failure as an error.
func (f *Failure) Err() error {
	if f.Num == 0 {
		return schema.Invalid(f.Text)
	}
	return mysql.NewSQLError(f.Num, f.State, "%s", f.Text)
}

// claim is a row of a unit.
type claim struct {
	Worker uint64 `json:"worker"`
	Term   uint64 `json:"term"` // counts the claims of the unit
	Done   bool   `json:"done,omitempty"`
}

// Progress is what a worker has done.
type Progress struct {
	Rows  int64 `json:"rows,omitempty"`
	Bytes int64 `json:"bytes,omitempty"` // that were read
}

// worker is a row of a worker.
type worker struct {
	Node  base.NodeID    `json:"node"`
	Until base.Timestamp `json:"until"`
	// Gone: its units are for others, whatever it does.
	Gone bool `json:"gone,omitempty"`
	Progress
}

// Book is that of a job.
type Book struct {
	db  kv.DB
	job uint64
}

// Of is the book of a job.
func Of(db kv.DB, job uint64) *Book { return &Book{db, job} }

// Job is whose book it is.
func (b *Book) Job() uint64 { return b.job }

// read reads a row into v.
func read(ctx context.Context, t kv.Txn, key base.Key, lock kv.LockMode, v any) (ok bool, err error) {
	rows, err := t.Get(ctx, []base.Key{key}, lock)
	if err != nil || rows[0].Value == nil {
		return false, err
	}
	return true, decode(key, rows[0].Value, v)
}

func decode(key base.Key, value []byte, v any) error {
	if err := json.Unmarshal(value, v); err != nil {
		return base.Errorf(base.CodeCorrupt, "the book of a job, %s: %v", key, err)
	}
	return nil
}

func put(t kv.Txn, key base.Key, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		t.Put(key, b, 0)
	}
	return err
}

// each reads the rows of a span; n is the last number of their keys. Rows of the meta shard are
// read from the local replica, which may be behind: only under locks they are looked at again when
// the transaction commits. So nothing of a book is read in a transaction that is read-only.
func each(ctx context.Context, t kv.Txn, span base.Span, fn func(n uint64, key base.Key, value []byte) error) error {
	for req := (&kv.ScanRequest{Spans: []base.Span{span}, Lock: kv.LockShared}); req != nil; {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return err
		}
		for _, row := range res.Rows {
			n, rest, err := uint64(0), row.Key[len(base.IndexPrefix(base.MetaShard, table, 0, 0)):], error(nil)
			for range 3 { // job, part, n
				if n, rest, err = base.TakeUint64(rest); err != nil {
					return err
				}
			}
			err = fn(n, row.Key, row.Value)
			if err != nil {
				return err
			}
		}
		req = res.Next
	}
	return nil
}

// Begin opens the book, and keeps out the node that led before. It fails with [job.ErrLost] or
// [job.ErrEnded] if the lease was lost.
func (b *Book) Begin(ctx context.Context, lease *job.Lease) error {
	_, err := kv.Run(ctx, b.db, kv.Options{}, func(t kv.Txn) error {
		if err := lease.HeldIn(ctx, t); err != nil {
			return err
		}
		var h Head
		_, err := read(ctx, t, keyOf(b.job, 0, 0), kv.LockExclusive, &h)
		if err == nil {
			h.Term = lease.Term()
			err = put(t, keyOf(b.job, 0, 0), &h)
		}
		return err
	})
	return err
}

// Head reads the head; nil: the job has ended, or nobody has begun.
func (b *Book) Head(ctx context.Context) (h *Head, err error) {
	_, err = kv.Run(ctx, b.db, kv.Options{}, func(t kv.Txn) error {
		h, err = b.head(ctx, t, kv.LockShared)
		return err
	})
	return h, err
}

// head reads the head. That there is none is looked at under a lock at the owner: a transaction
// that fails because of it does not come to validate what it has read.
func (b *Book) head(ctx context.Context, t kv.Txn, lock kv.LockMode) (*Head, error) {
	h := new(Head)
	ok, err := read(ctx, t, keyOf(b.job, 0, 0), lock, h)
	if err == nil && !ok && lock != kv.LockExclusive {
		return b.head(ctx, t, kv.LockExclusive)
	}
	if err != nil || !ok {
		return nil, err
	}
	return h, nil
}

// Fail notes what ends the job. The first failure counts. With a lease it fails as Begin does.
func (b *Book) Fail(ctx context.Context, f Failure, lease *job.Lease) error {
	_, err := kv.Run(ctx, b.db, kv.Options{}, func(t kv.Txn) error {
		if lease != nil {
			if err := lease.HeldIn(ctx, t); err != nil {
				return err
			}
		}
		h, err := b.head(ctx, t, kv.LockExclusive)
		if err != nil || h == nil || h.Failed != nil {
			return err
		}
		h.Failed = &f
		return put(t, keyOf(b.job, 0, 0), h)
	})
	return err
}

// Going fails with [job.ErrLost] in a transaction, unless nothing has ended the job when it
// commits.
func (b *Book) Going(ctx context.Context, t kv.Txn) error {
	h, err := b.head(ctx, t, kv.LockShared)
	if err == nil && (h == nil || h.Failed != nil) {
		err = job.ErrLost
	}
	return err
}

// LeftOut counts rows that are left out, in the transaction that does so; ok is false if there are
// more than most then.
func (b *Book) LeftOut(ctx context.Context, t kv.Txn, wrong []string, most int64) (ok bool, err error) {
	h, err := b.head(ctx, t, kv.LockExclusive)
	if err == nil && h == nil {
		err = job.ErrLost
	}
	if err != nil {
		return false, err
	}
	if h.Errors += int64(len(wrong)); h.Errors > most {
		return false, nil
	}
	h.Wrong = append(h.Wrong, wrong[:min(len(wrong), max(MostWrong-len(h.Wrong), 0))]...)
	return true, put(t, keyOf(b.job, 0, 0), h)
}

// State is how a job is.
type State struct {
	Begun   int // units that somebody has claimed
	Done    int
	Claimed int // units that somebody does who is alive
	// Workers are those that are alive, and Progress is that of all.
	Workers  int
	Progress map[uint64]Progress
}

// Look reads how the job is.
func (b *Book) Look(ctx context.Context) (s State, err error) {
	_, err = kv.Run(ctx, b.db, kv.Options{}, func(t kv.Txn) error {
		s = State{Progress: map[uint64]Progress{}}
		claims, ws, err := b.all(ctx, t)
		if err != nil {
			return err
		}
		s.Begun = len(claims)
		now := b.db.Time()
		for id, w := range ws {
			s.Progress[id] = w.Progress
			if w.alive(now) {
				s.Workers++
			}
		}
		for _, c := range claims {
			if c.Done {
				s.Done++
			} else if w := ws[c.Worker]; w != nil && w.alive(now) {
				s.Claimed++
			}
		}
		return nil
	})
	return s, err
}

func (w *worker) alive(now base.Timestamp) bool { return !w.Gone && w.Until > now }

// all reads claims and workers.
func (b *Book) all(ctx context.Context, t kv.Txn) (claims map[int]*claim, ws map[uint64]*worker, err error) {
	claims, ws = map[int]*claim{}, map[uint64]*worker{}
	err = each(ctx, t, under(b.job, 0), func(n uint64, key base.Key, value []byte) error {
		if n == 0 {
			return nil
		}
		c := new(claim)
		claims[int(n-1)] = c
		return decode(key, value, c)
	})
	if err == nil {
		err = each(ctx, t, under(b.job, workers), func(n uint64, key base.Key, value []byte) error {
			ws[n] = new(worker)
			return decode(key, value, ws[n])
		})
	}
	return claims, ws, err
}

// record is one of a unit.
type record struct {
	n     uint64
	value []byte
}

// Each reads the records of a unit, in their order.
func (b *Book) Each(ctx context.Context, unit int, fn func(n uint64, value []byte) error) error {
	var all []record
	_, err := kv.Run(ctx, b.db, kv.Options{}, func(t kv.Txn) error {
		all = nil
		return each(ctx, t, under(b.job, uint64(unit)+1), func(n uint64, _ base.Key, value []byte) error {
			all = append(all, record{n, slices.Clone(value)})
			return nil
		})
	})
	for _, r := range all {
		if err == nil {
			err = fn(r.n, r.value)
		}
	}
	return err
}

// Remove removes the book, in the transaction that ends the job.
func (b *Book) Remove(ctx context.Context, t kv.Txn) error {
	// Read first, and locked: who has claimed a unit meanwhile would leave its row.
	if _, err := b.head(ctx, t, kv.LockExclusive); err != nil {
		return err
	}
	return each(ctx, t, Span(b.job), func(_ uint64, key base.Key, _ []byte) error {
		t.Delete(key)
		return nil
	})
}

// newID is the number of a worker: one that comes again has another one.
func newID() uint64 { return rand.Uint64N(workers - 1) }
