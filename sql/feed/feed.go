package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
	"github.com/godwitdb/godwit/sql/schema"
)

// Env is what the readers of one gateway share.
type Env struct {
	DB  kv.DB
	Log *slog.Logger
	// Virtual makes the function that computes the columns of a table's rows that are not stored;
	// nil: they stay NULL. The function is called from one goroutine.
	Virtual func(t *schema.Table) (func(sql.Row) error, error)
}

// Name is that of a table.
type Name struct{ DB, Table string }

// Options say what to read.
type Options struct {
	// Databases and Tables are those to follow; both empty: all, also those that are made later.
	Databases []string
	Tables    []Name
	// Since is up to when all has been delivered; 0: now.
	Since base.Timestamp
	// Again reports whether the rows of a table that was rewritten are to follow as inserts; nil:
	// never.
	Again func(Definition) bool
	// MostBehind is how far Next may fall behind before old versions are let go; 0: an hour.
	MostBehind time.Duration
	// Why is what the hold of old versions says.
	Why string
}

// Change is what one transaction did to one row of one table.
type Change struct {
	Table *schema.Table
	// Key is where the row is or was. It tells rows of tables without primary key apart.
	Key base.Key
	// Before is nil for an insert, After for a delete. Both have a value for each column of Table,
	// in its order.
	Before, After sql.Row
	Home          base.RegionID // of the row, after the transaction
}

// Tx is what one transaction committed, or a part of it.
type Tx struct {
	TS          base.Timestamp
	Definitions []Definition // only in the first part
	Changes     []Change
	More        bool // the next Tx goes on with this one
}

// Bounds of what a reader keeps. Tests have less.
var (
	keptBytes = 16 << 20 // of versions
	nextBytes = 4 << 20  // that Next returns
	pageBytes = 1 << 20  // of an answer
)

const (
	beforeRows = 256                   // images from before that are read at once
	atOnce     = 4                     // shards that are read side by side
	everyLeast = 50 * time.Millisecond // from one look to the next
	load       = 4                     // a look is followed by so many times the time that it took replicas
	patience   = 2 * time.Second       // the longest wait after a failure
	mostAge    = time.Second           // that a look takes a timestamp to need
	mostBehind = time.Hour
)

// Reader reads transactions. Next and Close are for one goroutine.
type Reader struct {
	env    Env
	o      Options
	snap   *schema.Snapshot // as of from
	tables map[base.TableID]*schema.Table
	// from is up to when all is delivered, but for what the fields below have.
	from base.Timestamp
	// to and moments are of the newest look: when the catalog changed, above from and up to to.
	to      base.Timestamp
	moments []base.Timestamp
	win     *window // that is being delivered; nil: none
	again   time.Time
	// work is how long the replicas have read since the look began, in ns. What they wait for the
	// end of the period is no work: a region far away does not make looks rare. waited is the
	// longest of these waits.
	work, waited atomic.Int64
	// age is how old a timestamp is when all groups here are closed up to it, as far as looks have
	// seen. A look reads up to one of that age: to wait for a newer one puts off what is there.
	age time.Duration

	failed  time.Duration // the wait after the newest failure
	virtual map[*schema.Table]func(sql.Row) error

	// mu guards what the keeper of the hold reads.
	mu     sync.Mutex
	safe   base.Timestamp
	late   bool
	cancel context.CancelFunc
	done   chan struct{}
}

// Open begins to read. ctx bounds the opening alone.
func Open(ctx context.Context, env Env, o Options) (*Reader, error) {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	if o.MostBehind <= 0 {
		o.MostBehind = mostBehind
	}
	now := env.DB.Clock()
	switch {
	case o.Since == 0:
		o.Since = now
	case o.Since > now:
		return nil, base.Errorf(base.CodeInvalid, "the feed is to go on behind %s, which lies ahead of this cluster (%s): "+
			"is the position another cluster's?", o.Since, now)
	}
	if env.DB.Time().Sub(o.Since) > o.MostBehind {
		return nil, tooOld(o.Since, o.MostBehind)
	}
	r := &Reader{env: env, o: o, from: o.Since, to: o.Since, safe: o.Since, done: make(chan struct{}),
		virtual: map[*schema.Table]func(sql.Row) error{}}
	h, err := hold.Take(ctx, env.DB, r.from, o.Why)
	if err != nil {
		return nil, err
	}
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	go r.keep(keep, h)
	if r.snap, err = schema.LoadSnapshot(ctx, env.DB, nil, r.from); err == nil {
		err = r.check()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	r.tables = r.choose(r.snap)
	return r, nil
}

func tooOld(since base.Timestamp, most time.Duration) error {
	return base.Errorf(base.CodeTooOld, "the feed is to go on behind %s, and old versions are kept for followers for %v at most: "+
		"begin again with a copy of the data", since.Time().Format(time.RFC3339Nano), most)
}

// check refuses options that name what is not there, or cannot be followed.
func (r *Reader) check() error {
	for _, d := range r.o.Databases {
		if r.snap.Database(d) == nil {
			return base.Errorf(base.CodeInvalid, "database %s does not exist", d)
		}
	}
	for _, n := range r.o.Tables {
		t := r.snap.Table(n.DB, n.Table)
		if t == nil {
			return base.Errorf(base.CodeInvalid, "table %s.%s does not exist", n.DB, n.Table)
		}
		if why := unfit(t); why != "" {
			return base.Errorf(base.CodeInvalid, "table %s.%s cannot be followed: it is %s", n.DB, n.Table, why)
		}
	}
	return nil
}

// unfit says what keeps a table out of every feed; "": nothing.
func unfit(t *schema.Table) string {
	switch l := t.Desc.Locality; {
	case l.Kind == schema.MultiMaster:
		return "MULTI MASTER"
	case l.Async:
		return "REPLICATION ASYNC"
	case l.Restricted():
		return "one of a placement, whose rows would leave its regions"
	}
	return ""
}

func (r *Reader) wants(db, table string) bool {
	if len(r.o.Databases) == 0 && len(r.o.Tables) == 0 {
		return true
	}
	for _, d := range r.o.Databases {
		if strings.EqualFold(d, db) {
			return true
		}
	}
	for _, n := range r.o.Tables {
		if strings.EqualFold(n.DB, db) && strings.EqualFold(n.Table, table) {
			return true
		}
	}
	return false
}

// choose are the tables of a snapshot that the feed has, by id.
func (r *Reader) choose(s *schema.Snapshot) map[base.TableID]*schema.Table {
	out := map[base.TableID]*schema.Table{}
	for _, db := range s.Databases {
		own := db.FulltextTables()
		for name, t := range db.Tables {
			if !own[name] && unfit(t) == "" && r.wants(t.Desc.DB, t.Desc.Name) {
				out[t.Desc.ID] = t
			}
		}
	}
	return out
}

// Skipped are the tables of the filter that cannot be followed, as of the newest definitions, with
// why.
func (r *Reader) Skipped() map[Name]string {
	out := map[Name]string{}
	for _, db := range r.snap.Databases {
		for _, t := range db.Tables {
			if why := unfit(t); why != "" && r.wants(t.Desc.DB, t.Desc.Name) {
				out[Name{t.Desc.DB, t.Desc.Name}] = why
			}
		}
	}
	return out
}

// Snapshot is all definitions as of what was delivered.
func (r *Reader) Snapshot() *schema.Snapshot { return r.snap }

// Tables are those that the feed has, as of what was delivered, by id. They are not to be changed.
func (r *Reader) Tables() map[base.TableID]*schema.Table { return r.tables }

// keep renews the hold until the reader is closed.
func (r *Reader) keep(ctx context.Context, h *hold.Hold) {
	defer close(r.done)
	tick := time.NewTicker(hold.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			r.mu.Lock()
			h.Advance(r.safe)
			r.late = r.late || r.env.DB.Time().Sub(r.safe) > r.o.MostBehind
			late, safe := r.late, r.safe
			r.mu.Unlock()
			if late {
				r.env.Log.Warn("a follower of changes is too far behind: old versions are not kept for it any longer",
					"why", r.o.Why, "since", safe.Time())
				r.cancel()
				continue
			}
			if err := h.Renew(kv.WithPatience(ctx, kv.NewPatience())); err != nil && ctx.Err() == nil {
				r.env.Log.Warn("the snapshot of a follower of changes could not be held for longer yet", "err", err)
			}
		}
	}
	off, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := h.Release(kv.WithPatience(off, kv.NewPatience())); err != nil {
		r.env.Log.Info("the hold of a follower of changes ends by itself", "err", err)
	}
}

// Close ends the reader.
func (r *Reader) Close() {
	r.cancel()
	<-r.done
}

// Next waits for something new. All transactions up to resolved have been delivered, with those
// that it returns now; there may be none. It fails with [base.CodeTooOld] if versions that it would
// have to read have been collected, and else only with ctx or if what is stored is damaged.
func (r *Reader) Next(ctx context.Context) (txs []Tx, resolved base.Timestamp, err error) {
	for {
		r.mu.Lock()
		late := r.late
		r.mu.Unlock()
		if late {
			return nil, r.safe, tooOld(r.safe, r.o.MostBehind)
		}
		txs, resolved, err := r.step(ctx)
		switch {
		case err == nil:
			r.failed = 0
			if len(txs) == 0 && resolved <= r.safe {
				continue
			}
			r.mu.Lock()
			r.safe = max(r.safe, resolved)
			r.mu.Unlock()
			return txs, r.safe, nil
		case ctx.Err() != nil:
			return nil, r.safe, context.Cause(ctx)
		case base.CodeOf(err) == base.CodeTooOld || base.CodeOf(err) == base.CodeCorrupt || errors.As(err, new(*final)):
			return nil, r.safe, err
		}
		r.failed = min(max(2*r.failed, everyLeast), patience)
		r.again = time.Now().Add(r.failed)
		r.env.Log.Debug("changes could not be read yet", "why", r.o.Why, "since", r.from.Time(), "err", err)
		if err := r.wait(ctx); err != nil {
			return nil, r.safe, err
		}
	}
}

// final is an error that trying again does not mend.
type final struct{ error }

func (f *final) Unwrap() error { return f.error }

func (r *Reader) wait(ctx context.Context) error {
	d := time.Until(r.again)
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// step delivers some of the window, or makes the next one. What fails can be tried again.
func (r *Reader) step(ctx context.Context) ([]Tx, base.Timestamp, error) {
	if r.win == nil && r.from >= r.to {
		if err := r.look(ctx); err != nil {
			return nil, 0, err
		}
	}
	if r.win == nil {
		to := r.to
		if len(r.moments) > 0 {
			to = max(r.moments[0].Prev(), r.from.Next())
		}
		w, err := r.open(ctx, to)
		if err != nil {
			return nil, 0, err
		}
		r.win = w
	}
	w := r.win
	txs, err := w.next(ctx)
	if err != nil {
		return nil, 0, err
	}
	if !w.over() {
		return txs, w.resolved(), nil
	}
	r.win, r.from = nil, w.to
	if w.is != nil {
		r.snap, r.tables, r.moments = w.is, w.tables, r.moments[1:]
	}
	return txs, r.from, nil
}

// look finds the next period, and when the catalog changed in it.
func (r *Reader) look(ctx context.Context) error {
	if err := r.wait(ctx); err != nil {
		return err
	}
	began := time.Now()
	r.work.Store(0)
	r.waited.Store(0)
	to := max(r.env.DB.Clock().Add(-r.age), r.from.Next())
	moments := map[base.Timestamp]bool{}
	err := r.changes(ctx, []base.Span{base.CatalogSpan}, r.from, func() base.Timestamp { return to }, func(row *kv.Row) {
		moments[row.TS] = true
	})
	if err != nil {
		return err
	}
	r.to, r.moments = to, sorted(moments)
	defer func() {
		r.again = time.Now().Add(max(everyLeast-time.Since(began), load*time.Duration(r.work.Load())))
		r.age = aged(r.age, time.Duration(r.waited.Load()))
	}()
	// What follows is part of what the look costs, if nothing has changed.
	if len(moments) == 0 {
		if r.win, err = r.open(ctx, to); err != nil {
			r.to = r.from
		}
	}
	return err
}

// aged is the age of timestamps for the next look, after one that has waited. What takes less than
// a millisecond is no wait: to find that nothing is to be waited for takes a moment, too.
func aged(age, waited time.Duration) time.Duration {
	if waited > time.Millisecond {
		return min(age+waited, mostAge)
	}
	return age - age/8
}

func (r *Reader) computed(t *schema.Table, row sql.Row) error {
	if !t.Virtual || r.env.Virtual == nil || row == nil {
		return nil
	}
	fn, ok := r.virtual[t]
	if !ok {
		var err error
		if fn, err = r.env.Virtual(t); err != nil {
			return &final{fmt.Errorf("generated columns of table %s.%s: %w", t.Desc.DB, t.Desc.Name, err)}
		}
		if len(r.virtual) > 1000 {
			clear(r.virtual) // definitions that are gone
		}
		r.virtual[t] = fn
	}
	if fn == nil {
		return nil
	}
	return fn(row)
}
