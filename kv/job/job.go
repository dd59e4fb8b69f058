// Package job keeps records of work that outlives the node that does it, such as a backup.
//
// A job is a row of the meta shard. The node that does the work holds a lease on it, which it
// renews together with how far it has come. When a lease has ended, another node may claim the job,
// and goes on from there. A claim raises the job's term: a node that lost its lease finds a newer
// term when it renews, and must stop. Until then both may be working, so work must be safe to be
// done twice.
//
// Who may end a job, and what a job does, is not this package's matter.
package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

const (
	// Every is how often a lease is renewed, and Lasts how long it outlives the last time.
	Every = 4 * time.Second
	Lasts = 16 * time.Second
	// BriskEvery and BriskLasts are those of brisk jobs: another node goes on soon.
	BriskEvery = time.Second
	BriskLasts = 4 * time.Second
	// Remembered is how long jobs that have ended are kept, and MostEnded how many of them.
	Remembered = 7 * 24 * time.Hour
	MostEnded  = 200 // of each kind
)

// State says how a job is.
type State string

// The states of a job.
const (
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Canceled  State = "canceled"
	// Paused: no node does the job until somebody resumes it.
	Paused State = "paused"
)

var (
	// ErrCanceled: somebody has asked for the job's end.
	ErrCanceled = errors.New("the job was canceled")
	// ErrPaused: somebody has asked that the job stands still.
	ErrPaused = errors.New("the job was paused")
	// ErrLost: the lease has ended, and another node may have claimed the job.
	ErrLost = errors.New("another node goes on with the job")
	// ErrEnded: this node has ended the job before.
	ErrEnded = errors.New("the job has ended")
)

var table = base.MakeTableID(8, 0)

// Span is where the jobs are.
func Span() base.Span {
	p := base.IndexPrefix(base.MetaShard, table, 0, 0)
	return base.Span{Start: p, End: p.PrefixEnd()}
}

func keyOf(id uint64) base.Key { return base.AppendUint64(Span().Start.Clone(), id) }

// Record is a job as it is stored. Fields that a release does not know do not matter to it.
type Record struct {
	ID   uint64 `json:"id"`
	Kind string `json:"kind"` // what is done, in the words of the statement
	What string `json:"what"`
	User string `json:"user"`
	// Spec is what is to be done, and Checkpoint how far it has come, in the words of its kind.
	Spec       json.RawMessage `json:"spec,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Started    base.Timestamp  `json:"started"`
	Ended      base.Timestamp  `json:"ended,omitempty"`
	Done       int64           `json:"done,omitempty"`  // rows
	Total      int64           `json:"total,omitempty"` // 0: nobody knows
	State      State           `json:"state"`
	Error      string          `json:"error,omitempty"`
	// Result is what a job leaves for others when it has succeeded, in the words of its kind.
	Result json.RawMessage `json:"result,omitempty"`
	Cancel bool            `json:"cancel,omitempty"` // somebody has asked for its end
	Pause  bool            `json:"pause,omitempty"`  // somebody has asked that it stands still
	// Brisk: the job must not stand still for long when its node dies. Its lease is renewed often.
	Brisk bool `json:"brisk,omitempty"`

	Node  base.NodeID    `json:"node"` // which holds the lease, or held it last
	Term  uint64         `json:"term"`
	Until base.Timestamp `json:"until"` // when the lease ends
}

// Free reports whether the job may be claimed at the time now.
func (r *Record) Free(now base.Timestamp) bool { return r.State == Running && r.Until <= now }

// terms are how often the job's lease is renewed, and how long it lasts.
func (r *Record) terms() (every, lasts time.Duration) {
	if r.Brisk {
		return BriskEvery, BriskLasts
	}
	return Every, Lasts
}

// until is when a lease ends that is renewed now.
func (r *Record) until(now base.Timestamp) base.Timestamp {
	_, lasts := r.terms()
	return now.Add(lasts)
}

// Lease is a job that this node does. Safe for concurrent use.
type Lease struct {
	db kv.DB

	mu  sync.Mutex
	rec Record
}

// Create makes a job that this node does. A job with an id other than 0 is made once: the second
// time Create returns nil.
func Create(ctx context.Context, db kv.DB, rec Record) (*Lease, error) {
	any := rec.ID == 0
	for {
		if any { // a number that clients can read: microseconds, and the node
			rec.ID = uint64(db.Clock()/1000)<<4 | uint64(db.Node())&15
		}
		l := &Lease{db: db}
		_, err := kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
			var err error
			l.rec, err = CreateIn(ctx, db, t, rec)
			return err
		})
		if err == nil && l.rec.ID == 0 && any {
			continue
		}
		if err != nil || l.rec.ID == 0 {
			return nil, err
		}
		return l, nil
	}
}

// CreateIn is Create within a transaction, for a job with an id; the record has no id if there is
// such a job. Hold makes a lease of it once the transaction has committed.
func CreateIn(ctx context.Context, db kv.DB, t kv.Txn, rec Record) (Record, error) {
	rows, err := t.Get(ctx, []base.Key{keyOf(rec.ID)}, kv.LockExclusive)
	if err != nil || rows[0].Value != nil {
		return Record{}, err
	}
	now := db.Time()
	rec.State, rec.Node, rec.Term, rec.Started, rec.Until = Running, db.Node(), 1, now, rec.until(now)
	return rec, put(t, &rec)
}

// Hold is the lease of a job that CreateIn has made.
func Hold(db kv.DB, rec Record) *Lease { return &Lease{db: db, rec: rec} }

func put(t kv.Txn, r *Record) error {
	v, err := json.Marshal(r)
	if err == nil {
		t.Put(keyOf(r.ID), v, 0)
	}
	return err
}

func get(ctx context.Context, t kv.Txn, id uint64) (*Record, error) {
	rows, err := t.Get(ctx, []base.Key{keyOf(id)}, kv.LockExclusive)
	if err != nil || rows[0].Value == nil {
		return nil, err
	}
	return decode(&rows[0])
}

func decode(row *kv.Row) (*Record, error) {
	r := new(Record)
	if err := json.Unmarshal(row.Value, r); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "job %s: %v", row.Key, err)
	}
	return r, nil
}

// Claim takes a job whose lease has ended; nil if another node was faster.
func Claim(ctx context.Context, db kv.DB, id uint64) (*Lease, error) {
	l := &Lease{db: db}
	_, err := kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
		l.rec = Record{}
		r, err := get(ctx, t, id)
		if err != nil || r == nil || !r.Free(db.Time()) {
			return err
		}
		r.Node, r.Term, r.Until = db.Node(), r.Term+1, r.until(db.Time())
		l.rec = *r
		return put(t, r)
	})
	if err != nil || l.rec.ID == 0 {
		return nil, err
	}
	return l, nil
}

// Record is the job as this node knows it.
func (l *Lease) Record() Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec
}

// ID is that of the job.
func (l *Lease) ID() uint64 { return l.Record().ID }

// Term counts the claims of the job.
func (l *Lease) Term() uint64 { return l.Record().Term }

// Did notes how far the job is. The next Renew stores it.
func (l *Lease) Did(done, total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec.Done, l.rec.Total = done, total
}

// Checkpoint notes where another node would go on. The next Renew stores it.
func (l *Lease) Checkpoint(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec.Checkpoint = b
	return nil
}

// Result notes what the job leaves when it has ended. Finish stores it.
func (l *Lease) Result(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec.Result = b
	return nil
}

// Restore reads the last checkpoint; ok is false if there is none.
func (l *Lease) Restore(v any) (ok bool, err error) {
	b := l.Record().Checkpoint
	if len(b) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, base.Errorf(base.CodeCorrupt, "the checkpoint of job %d: %v", l.ID(), err)
	}
	return true, nil
}

// update changes the stored record while this node holds the lease.
func (l *Lease) update(ctx context.Context, t kv.Txn, fn func(*Record)) error {
	mine := l.Record()
	r, err := get(ctx, t, mine.ID)
	switch {
	case err != nil:
		return err
	case r == nil || r.Term != mine.Term:
		return ErrLost
	case r.State != Running:
		return ErrEnded
	}
	mine.Cancel, mine.Pause = r.Cancel, r.Pause
	fn(&mine)
	return put(t, &mine)
}

// Renew lets the lease last for longer, and stores progress and checkpoint. It fails with ErrLost,
// ErrCanceled, ErrPaused or ErrEnded.
func (l *Lease) Renew(ctx context.Context) error {
	canceled, paused := false, false
	until := base.Timestamp(0)
	_, err := kv.Run(ctx, l.db, kv.Options{}, func(t kv.Txn) error {
		return l.update(ctx, t, func(r *Record) {
			until = r.until(l.db.Time())
			r.Until, canceled, paused = until, r.Cancel, r.Pause
		})
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.rec.Until = until
	l.mu.Unlock()
	switch {
	case canceled:
		return ErrCanceled
	case paused:
		return ErrPaused
	}
	return nil
}

// Suspend ends the lease until somebody resumes the job. why is for people; nil: they have asked
// for it.
func (l *Lease) Suspend(ctx context.Context, why error) error {
	_, err := kv.Run(ctx, l.db, kv.Options{}, func(t kv.Txn) error {
		return l.update(ctx, t, func(r *Record) {
			r.State, r.Until, r.Pause, r.Error = Paused, 0, false, ""
			if why != nil {
				r.Error = why.Error()
			}
		})
	})
	return err
}

// Release ends the lease, so that another node may go on at once.
func (l *Lease) Release(ctx context.Context) error {
	_, err := kv.Run(ctx, l.db, kv.Options{}, func(t kv.Txn) error {
		return l.update(ctx, t, func(r *Record) { r.Until = 0 })
	})
	return err
}

// Finish ends the job.
func (l *Lease) Finish(ctx context.Context, cause error) error {
	_, err := kv.Run(ctx, l.db, kv.Options{}, func(t kv.Txn) error { return l.FinishIn(ctx, t, cause) })
	return err
}

// FinishIn ends the job in the transaction that makes its work visible, so that nobody does it
// again.
func (l *Lease) FinishIn(ctx context.Context, t kv.Txn, cause error) error {
	return l.update(ctx, t, func(r *Record) {
		r.State, r.Ended, r.Until = Succeeded, l.db.Time(), 0
		// The specification may have secrets in it, and nothing needs it when the job has ended.
		r.Spec, r.Checkpoint = nil, nil
		switch {
		case errors.Is(cause, ErrCanceled):
			r.State = Canceled
		case cause != nil:
			r.State, r.Error = Failed, cause.Error()
		}
	})
}

// Cancel asks for the end of a job. The node that does it notices with its next Renew. A job that
// no node does ends when one claims it.
func Cancel(ctx context.Context, db kv.DB, id uint64) error {
	_, err := kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
		r, err := get(ctx, t, id)
		switch {
		case err != nil:
			return err
		case r == nil:
			return base.Errorf(base.CodeInvalid, "there is no job %d that can be canceled", id)
		case r.State == Paused: // no node would notice
			r.State, r.Ended, r.Spec, r.Checkpoint = Canceled, db.Time(), nil, nil
		case r.State != Running:
			return base.Errorf(base.CodeInvalid, "job %d has ended already: its state is %s", id, r.State)
		}
		r.Cancel = true
		return put(t, r)
	})
	return err
}

// Pause asks that a job of a kind stands still. The node that does it notices with its next Renew.
func Pause(ctx context.Context, db kv.DB, id uint64, kind string) error {
	return request(ctx, db, id, kind, Running, func(r *Record) { r.Pause = true })
}

// Resume has a job of a kind that stands still go on, on any node.
func Resume(ctx context.Context, db kv.DB, id uint64, kind string) error {
	return request(ctx, db, id, kind, Paused, func(r *Record) { r.State, r.Until, r.Error = Running, 0, "" })
}

func request(ctx context.Context, db kv.DB, id uint64, kind string, in State, fn func(*Record)) error {
	_, err := kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
		r, err := get(ctx, t, id)
		switch {
		case err != nil:
			return err
		case r == nil:
			return base.Errorf(base.CodeInvalid, "there is no job %d", id)
		case r.Kind != kind:
			return base.Errorf(base.CodeInvalid, "job %d is a %s: only a %s can be paused and resumed", id, r.Kind, kind)
		case r.State != in:
			return base.Errorf(base.CodeInvalid, "job %d is %s, and not %s", id, r.State, in)
		}
		fn(r)
		return put(t, r)
	})
	return err
}

// Find reads a job; nil if there is none.
func Find(ctx context.Context, db kv.DB, id uint64) (r *Record, err error) {
	_, err = kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
		r, err = get(ctx, t, id)
		return err
	})
	return r, err
}

// List reads all jobs, the oldest first.
func List(ctx context.Context, db kv.DB) (out []Record, err error) {
	t := db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.WithoutCancel(ctx))
	for req := (&kv.ScanRequest{Spans: []base.Span{Span()}}); req != nil; {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		for i := range res.Rows {
			r, err := decode(&res.Rows[i])
			if err != nil {
				return nil, err
			}
			out = append(out, *r)
		}
		req = res.Next
	}
	slices.SortStableFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Forget removes jobs that have ended long ago, of those that List has found. Each kind is counted
// by itself: events that fail every second must not push backups out.
func Forget(ctx context.Context, db kv.DB, all []Record) error {
	ended := map[string][]Record{}
	for _, r := range all {
		if r.State != Running && r.State != Paused {
			ended[r.Kind] = append(ended[r.Kind], r)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(ended)) {
		if err := forget(ctx, db, ended[kind]); err != nil {
			return err
		}
	}
	return nil
}

func forget(ctx context.Context, db kv.DB, ended []Record) error {
	old := db.Time().Add(-Remembered)
	for i, r := range ended {
		if i >= len(ended)-MostEnded && r.Ended > old {
			break
		}
		_, err := kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
			t.Delete(keyOf(r.ID))
			return nil
		})
		if err != nil {
			return fmt.Errorf("forget job %d: %w", r.ID, err)
		}
	}
	return nil
}
