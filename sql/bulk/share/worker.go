package share

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
)

// Worker is this node, as it does units of a job. Safe for concurrent use.
type Worker struct {
	*Book
	id uint64

	mu    sync.Mutex
	until base.Timestamp
	done  Progress
	mine  map[int]bool // units of which it knows that it has them
}

// Join makes this node a worker of a job that somebody leads; else it fails with [job.ErrLost].
func (b *Book) Join(ctx context.Context) (*Worker, error) {
	w := &Worker{Book: b, id: newID(), mine: map[int]bool{}}
	_, err := kv.Run(ctx, b.db, kv.Options{}, func(t kv.Txn) error {
		h, err := b.head(ctx, t, kv.LockShared)
		switch {
		case err != nil:
			return err
		case h == nil:
			return job.ErrLost
		}
		w.until = b.db.Time().Add(job.Lasts)
		return put(t, keyOf(b.job, workers, w.id), &worker{Node: b.db.Node(), Until: w.until})
	})
	return w, err
}

// ID is the number of the worker, by which [Book.Look] knows it.
func (w *Worker) ID() uint64 { return w.id }

// Did counts what was done.
func (w *Worker) Did(rows, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done.Rows, w.done.Bytes = w.done.Rows+rows, w.done.Bytes+bytes
}

// lookEvery is how often a worker looks whether the job still goes on.
const lookEvery = 500 * time.Millisecond

// Keep tells others that the worker is alive, until stop is called. It calls cancel with
// [job.ErrLost] once others may take its units, or when the job has ended, and with what another
// worker has met if that ends the job. It calls look now and then.
func (w *Worker) Keep(ctx context.Context, cancel context.CancelCauseFunc, log *slog.Logger, look func(context.Context)) (stop func()) {
	renewed := time.Now()
	return job.Regularly(ctx, lookEvery, func(ctx context.Context) bool {
		left := w.ends().Sub(w.db.Time())
		try, done := context.WithTimeout(ctx, max(left, 0))
		defer done()
		try = kv.WithPatience(try, kv.NewPatience())
		var err error
		if time.Since(renewed) >= job.Every {
			if err = w.renew(try); err == nil {
				renewed = time.Now()
			}
		}
		var h *Head
		if err == nil {
			if h, err = w.Head(try); err == nil && h == nil {
				err = job.ErrLost
			}
		}
		switch {
		case ctx.Err() != nil:
			return true
		case err == nil && h.Failed != nil:
			cancel(h.Failed.Err())
			return false
		case errors.Is(err, job.ErrLost):
			cancel(err)
			return false
		case err != nil && w.ends() <= w.db.Time():
			log.Warn("this node could not say that it works for a job: others may do what it was to do", "job", w.job, "err", err)
			cancel(job.ErrLost)
			return false
		case err == nil && look != nil:
			look(try)
		}
		return true
	})
}

func (w *Worker) ends() base.Timestamp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.until
}

// renew lets the worker live for longer.
func (w *Worker) renew(ctx context.Context) error {
	until := base.Timestamp(0)
	err := w.change(ctx, func(r *worker) { until = w.db.Time().Add(job.Lasts); r.Until = until })
	if err == nil {
		w.mu.Lock()
		w.until = until
		w.mu.Unlock()
	}
	return err
}

// Leave ends the worker: others may take its units at once.
func (w *Worker) Leave(ctx context.Context) error {
	err := w.change(ctx, func(r *worker) { r.Until, r.Gone = 0, true })
	if errors.Is(err, job.ErrLost) {
		return nil
	}
	return err
}

// change changes the worker's row, unless it is gone.
func (w *Worker) change(ctx context.Context, fn func(*worker)) error {
	_, err := kv.Run(ctx, w.db, kv.Options{}, func(t kv.Txn) error {
		var r worker
		key := keyOf(w.job, workers, w.id)
		ok, err := read(ctx, t, key, kv.LockExclusive, &r)
		switch {
		case err != nil:
			return err
		case !ok || r.Gone:
			return job.ErrLost
		}
		w.mu.Lock()
		r.Progress = w.done
		w.mu.Unlock()
		fn(&r)
		return put(t, key, &r)
	})
	return err
}

// Claim is a unit that this worker does.
type Claim struct {
	*Worker
	Unit int
	term uint64
}

// Term counts the claims of the unit.
func (c *Claim) Term() uint64 { return c.term }

// mostClaims bounds how many units are claimed at once.
const mostClaims = 32

// Claim takes units that nobody does, of so many: one, or several if there are many more than
// workers. left is how many are not done yet, by whomever.
func (w *Worker) Claim(ctx context.Context, units int) (got []*Claim, left int, err error) {
	_, err = kv.Run(ctx, w.db, kv.Options{}, func(t kv.Txn) error {
		got, left = nil, units
		// Who ends the job writes the head.
		if h, err := w.head(ctx, t, kv.LockShared); err != nil || h == nil {
			return lost(err)
		}
		var me worker
		if ok, err := read(ctx, t, keyOf(w.job, workers, w.id), kv.LockExclusive, &me); err != nil || !ok || me.Gone {
			return lost(err)
		}
		claims, ws, err := w.all(ctx, t)
		if err != nil {
			return err
		}
		now, alive := w.db.Time(), 0
		for _, x := range ws {
			if x.alive(now) {
				alive++
			}
		}
		var free []int
		for u := range units {
			c := claims[u]
			switch {
			case c != nil && c.Done:
				left--
			case c == nil || ws[c.Worker] == nil || !ws[c.Worker].alive(now), c.Worker == w.id && !w.has(u):
				free = append(free, u)
			}
		}
		want := min(max(len(free)/(4*max(alive, 1)), 1), mostClaims)
		for _, u := range free[:min(want, len(free))] {
			c, err := w.take(ctx, t, u, claims[u])
			if err != nil {
				return err
			}
			got = append(got, c)
		}
		return nil
	})
	if err != nil {
		return nil, left, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range got {
		w.mine[c.Unit] = true
	}
	return got, left, nil
}

// has reports whether the worker knows that it has a unit: the outcome of a claim may be unknown.
func (w *Worker) has(unit int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mine[unit]
}

// lost is an error, or that the job is no longer this worker's.
func lost(err error) error {
	if err == nil {
		err = job.ErrLost
	}
	return err
}

// errChanged has a transaction run again.
var errChanged = base.Errorf(base.CodeAborted, "another node was faster")

// take takes a unit that was seen free. Its worker before is gone for ever.
func (w *Worker) take(ctx context.Context, t kv.Txn, u int, seen *claim) (*Claim, error) {
	var now claim
	key := keyOf(w.job, 0, uint64(u)+1)
	ok, err := read(ctx, t, key, kv.LockExclusive, &now)
	if err != nil {
		return nil, err
	}
	if ok != (seen != nil) || ok && now != *seen {
		return nil, errChanged
	}
	if ok && now.Worker != w.id {
		var old worker
		key := keyOf(w.job, workers, now.Worker)
		there, err := read(ctx, t, key, kv.LockExclusive, &old)
		if err != nil {
			return nil, err
		}
		if there && old.alive(w.db.Time()) {
			return nil, errChanged
		}
		if there && !old.Gone {
			old.Gone = true
			if err := put(t, key, &old); err != nil {
				return nil, err
			}
		}
	}
	now.Worker, now.Term = w.id, now.Term+1
	return &Claim{Worker: w, Unit: u, term: now.Term}, put(t, key, &now)
}

// Check fails with [job.ErrLost] in a transaction, unless the unit is still this worker's when it
// commits.
func (c *Claim) Check(ctx context.Context, t kv.Txn) error {
	_, err := c.check(ctx, t, kv.LockShared)
	return err
}

func (c *Claim) check(ctx context.Context, t kv.Txn, lock kv.LockMode) (now claim, err error) {
	ok, err := read(ctx, t, keyOf(c.job, 0, uint64(c.Unit)+1), lock, &now)
	if err != nil || ok && now.Worker == c.id && now.Term == c.term {
		return now, err
	}
	if lock != kv.LockExclusive { // as [Book.head] does
		now = claim{}
		return c.check(ctx, t, kv.LockExclusive)
	}
	return now, job.ErrLost
}

// Has reports whether the unit has a record, in a transaction in which none can come.
func (c *Claim) Has(ctx context.Context, t kv.Txn, n uint64) (bool, error) {
	rows, err := t.Get(ctx, []base.Key{keyOf(c.job, uint64(c.Unit)+1, n)}, kv.LockShared)
	return err == nil && rows[0].Value != nil, err
}

// Put writes a record of the unit, in a transaction that checks the claim.
func (c *Claim) Put(t kv.Txn, n uint64, v any) error {
	return put(t, keyOf(c.job, uint64(c.Unit)+1, n), v)
}

// Delete removes a record of the unit, in a transaction that checks the claim.
func (c *Claim) Delete(t kv.Txn, n uint64) { t.Delete(keyOf(c.job, uint64(c.Unit)+1, n)) }

// Run runs a transaction that checks the claim.
func (c *Claim) Run(ctx context.Context, fn func(kv.Txn) error) error {
	_, err := kv.Run(ctx, c.db, kv.Options{}, func(t kv.Txn) error {
		if err := c.Check(ctx, t); err != nil {
			return err
		}
		return fn(t)
	})
	return err
}

// Finish notes that the unit is done. It may be called again.
func (c *Claim) Finish(ctx context.Context) error {
	_, err := kv.Run(ctx, c.db, kv.Options{}, func(t kv.Txn) error {
		now, err := c.check(ctx, t, kv.LockExclusive)
		if err != nil {
			return err
		}
		now.Done = true
		return put(t, keyOf(c.job, 0, uint64(c.Unit)+1), &now)
	})
	return err
}

// Records reads the records of the unit.
func (c *Claim) Records(ctx context.Context, fn func(n uint64, value []byte) error) error {
	return c.Each(ctx, c.Unit, fn)
}
