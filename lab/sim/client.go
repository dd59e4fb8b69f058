package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/history"
	"github.com/godwitdb/godwit/obs"
)

// bench is the state that the clients of a run share.
type bench struct {
	w    *world
	ks   *keyspace
	rec  *history.Recorder
	next atomic.Int64 // client ids
	stop chan struct{}
	// Counts of transactions by outcome.
	committed, aborted, unknown atomic.Int64

	mu sync.Mutex
	// versions has the commit timestamp that was shown with each value. exists has the answers "the
	// key exists".
	versions map[[2]string]base.Timestamp
	exists   []existed
	kinds    map[string]*[3]int
	through  map[int64]int // the process through which a transaction ran
	errors   map[string]int
}

type existed struct {
	key  string
	at   int64
	txn  int64
	from int64
}

// client runs one transaction at a time through the nodes of its region.
type client struct {
	*bench
	id     int
	region base.RegionID
	rng    *rand.Rand
	hosts  []*host
}

// clientTimeout is how long a client waits for one transaction.
const clientTimeout = 40 * time.Second

func (b *bench) client(region base.RegionID, n int) *client {
	c := &client{bench: b, region: region, rng: rand.New(rand.NewPCG(b.w.cfg.Seed, uint64(region)<<16|uint64(n)))}
	c.id = int(b.next.Add(1))
	for _, h := range b.w.hosts {
		if h.region == region {
			c.hosts = append(c.hosts, h)
		}
	}
	return c
}

// tx is a transaction that records what it sees.
type tx struct {
	kv.Txn
	c   *client
	rec *history.Active
	ctx context.Context
	n   int
}

// value makes a unique value.
func (t *tx) value() string {
	t.n++
	return fmt.Sprintf("%d.%d", t.rec.ID(), t.n)
}

func (t *tx) get(lock kv.LockMode, names ...string) ([]string, error) {
	keys := make([]base.Key, len(names))
	for i, n := range names {
		keys[i] = t.c.ks.keys[n]
	}
	rows, err := t.Get(t.ctx, keys, lock)
	if err != nil {
		return nil, err
	}
	vals := make([]string, len(names))
	for i, r := range rows {
		vals[i] = string(r.Value)
		t.c.shown(names[i], r)
	}
	return vals, nil
}

// read gets and records registers.
func (t *tx) read(lock kv.LockMode, names ...string) ([]string, error) {
	vals, err := t.get(lock, names...)
	for i := range vals {
		t.rec.Read(names[i], vals[i])
	}
	return vals, err
}

// scan reads [from, to) of a section and records it.
func (t *tx) scan(lock kv.LockMode, s *section, from, to, batch int, reverse bool) ([]history.KV, error) {
	sp, start, end := t.c.ks.span(s, from, to)
	rows, err := t.rows(kv.ScanRequest{Spans: []base.Span{sp}, Lock: lock, Limit: batch, Reverse: reverse})
	if err == nil {
		t.rec.Scan(start, end, rows)
	}
	return rows, err
}

// rows runs a scan to its end.
func (t *tx) rows(req kv.ScanRequest) ([]history.KV, error) {
	var out []history.KV
	for next := &req; next != nil; {
		res, err := t.Scan(t.ctx, *next)
		if err != nil {
			return nil, err
		}
		for _, r := range res.Rows {
			name, ok := t.c.ks.names[string(r.Key)]
			if !ok {
				t.c.w.fail("a scan of %v shows %v, a key that nobody writes", req.Spans, r.Key)
				continue
			}
			out = append(out, history.KV{Key: name, Value: string(r.Value)})
			t.c.shown(name, r)
		}
		next = res.Next
	}
	return out, nil
}

func (t *tx) put(name, value string, home base.RegionID) {
	value, home = t.marked(name, value), t.placed(name, home)
	t.rec.Write(name, value)
	t.Put(t.c.ks.keys[name], []byte(value), home)
	if t.c.rng.IntN(100) < t.c.w.cfg.Moves {
		t.move(name)
	}
}

// move moves a row to some region, mostly the client's, with or without a write of the row.
func (t *tx) move(name string) {
	to := cmp.Or(t.c.living(t.c.region), 1)
	if t.c.rng.IntN(4) == 0 {
		to = cmp.Or(t.c.living(base.RegionID(1+t.c.rng.IntN(t.c.w.cfg.Regions))), to)
	}
	t.Move(t.c.ks.keys[name], t.placed(name, to), kv.MoveOptions{Soft: t.c.rng.IntN(2) == 0, Pin: kv.Pin(t.c.rng.IntN(3))})
}

// insert writes a key that must be absent. present reports that the transaction knows already that
// it is not.
func (t *tx) insert(name, value string, home base.RegionID) (present bool) {
	value, home = t.marked(name, value), t.placed(name, home)
	err := t.Insert(t.c.ks.keys[name], []byte(value), home)
	if err != nil {
		return true
	}
	t.rec.Read(name, "")
	t.rec.Write(name, value)
	return false
}

func (t *tx) del(name string) {
	t.rec.Delete(name)
	t.Delete(t.c.ks.keys[name])
}

// shown records the timestamp that came with a value.
func (b *bench) shown(name string, r kv.Row) {
	if r.Value == nil || r.TS == 0 {
		return
	}
	if b.w.homes.moved(r.Key, r.TS) {
		return // a move made the version; the row may have been written long before
	}
	k := [2]string{name, string(r.Value)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.versions[k]; ok && old != r.TS {
		b.w.fail("%s=%s was shown with the timestamps %d and %d", name, r.Value, old, r.TS)
	}
	b.versions[k] = r.TS
}

// errRollback makes a transaction roll back by its own decision.
var errRollback = base.Errorf(base.CodeOther, "rolled back by the client")

// run runs fn as a transaction until it commits, its outcome is unknown, or
// some attempts have failed. It reports whether it committed.
func (c *client) run(kind string, opts kv.Options, fn func(t *tx) error) bool {
	backoff := 2 * time.Millisecond
	for range 20 {
		l := c.gateway()
		if l == nil {
			return false
		}
		if opts.Age == 0 {
			opts.Age = l.node.DB().Clock()
		}
		done, again := c.attempt(l, kind, opts, fn)
		if done || !again || c.stopped() {
			return done
		}
		if c.rng.IntN(2) == 0 {
			opts.Relay = false
		}
		sleep(context.Background(), backoff/2+time.Duration(c.rng.Int64N(int64(backoff))))
		backoff = min(2*backoff, 500*time.Millisecond)
	}
	return false
}

func (c *client) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// gateway is a living node of the region; nil when the run ends.
func (c *client) gateway() *life {
	for !c.stopped() {
		for range 3 {
			if l := c.hosts[c.rng.IntN(len(c.hosts))].up(); l != nil {
				return l
			}
		}
		sleep(context.Background(), 50*time.Millisecond)
	}
	return nil
}

func (c *client) attempt(l *life, kind string, opts kv.Options, fn func(t *tx) error) (done, again bool) {
	ctx, cancel := context.WithTimeout(l.ctx, clientTimeout)
	defer cancel()
	trace := &obs.Trace{}
	t := &tx{c: c, ctx: obs.WithTrace(ctx, trace)}
	t.rec = c.rec.Begin(c.id, fmt.Sprint("r", c.region))
	c.via(t.rec.ID(), l)
	from := int64(c.w.now())
	t.Txn = l.node.DB().Begin(opts)
	err := fn(t)
	committing := err == nil
	var ts base.Timestamp
	if committing {
		ts, err = t.Commit(t.ctx)
	}
	if opts.ReadOnly && t.ReadTimestamp() != 0 {
		t.rec.ReadAt(uint64(t.ReadTimestamp()), opts.ReadTS != 0)
		// Which replicas answered is what the history of a wrong snapshot does not say.
		c.w.log.printf("T%d of process %d read at %d: %d here, %d here after a wait, %d of owners near and %d far",
			t.rec.ID(), l.number, t.ReadTimestamp(), trace.Reads(obs.ReadLocal), trace.Reads(obs.ReadWaited),
			trace.Reads(obs.ReadOwner), trace.Reads(obs.ReadFar))
	}
	// A crash between the answer and here counts as one before the answer.
	if l.dead.Load() {
		if committing {
			t.rec.Unknown(0)
			c.count(kind, 2, nil)
			c.renew()
		} else {
			t.rec.Abort()
			c.count(kind, 1, nil)
		}
		return false, false
	}
	switch {
	case err == nil:
		if !t.Wrote() {
			ts = 0 // its place in the order is its snapshot, or any instant at which it held its locks
		}
		if c.w.cfg.Concurrency.Ordered() {
			t.touch()
		}
		t.rec.Commit(uint64(ts))
		c.count(kind, 0, nil)
		return true, false
	case !committing, base.Retryable(err), base.CodeOf(err) == base.CodeExists:
		t.rec.Abort()
		t.Rollback(ctx)
		if base.CodeOf(err) == base.CodeExists {
			c.noteExists(err, t.rec.ID(), from)
		}
		c.count(kind, 1, err)
		return false, base.Retryable(err)
	}
	t.rec.Unknown(0)
	t.Rollback(ctx)
	c.count(kind, 2, err)
	c.renew()
	return false, false
}

func (b *bench) via(txn int64, l *life) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.through[txn] = l.number
}

// renew gives the client a new id, as its last transaction may still be running.
func (c *client) renew() { c.id = int(c.next.Add(1)) }

func (b *bench) noteExists(err error, txn, from int64) {
	e, ok := asError(err)
	if !ok || e.Key == nil {
		b.w.fail("CodeExists without its key: %v", err)
		return
	}
	name, ok := b.ks.names[string(e.Key)]
	if !ok {
		b.w.fail("CodeExists names %v, a key that nobody writes", e.Key)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.exists = append(b.exists, existed{key: name, at: int64(b.w.now()), txn: txn, from: from})
}

func (b *bench) count(kind string, outcome int, err error) {
	[]*atomic.Int64{&b.committed, &b.aborted, &b.unknown}[outcome].Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kinds[kind]
	if k == nil {
		k = new([3]int)
		b.kinds[kind] = k
	}
	k[outcome]++
	if err != nil {
		b.errors[base.CodeOf(err).String()]++
		if c := base.CodeOf(err); outcome == 2 || c != base.CodeAborted && c != base.CodeExists && err != error(errRollback) {
			b.w.log.printf("%s %v: %s", kind, [...]string{"committed", "failed", "unknown"}[outcome],
				strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}
