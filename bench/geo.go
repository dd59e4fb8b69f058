package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/group"
	"github.com/godwitdb/godwit/home"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/matrix"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn"
)

// geo is a cluster of one node a region in this process, over emulated oceans
// in real time. Its transactions are those that SQL makes of statements.
type geo struct {
	*node.Local
	name string
	dbs  []kv.DB // by region
	sel  *site   // of the central selector; nil: transactions run where the client is
	all  []*site
	// stale has transactions that only read do so at their region's consistency point.
	stale bool
	// running are transactions, also those whose client has left.
	running sync.WaitGroup
}

// variant is a switch of the same system.
type variant struct {
	name     string
	homes    home.Params
	selector int // region (from 1) of a central site selector; 0: none
	tune     func(*group.HostOptions, *owner.Config, *txn.Config)
}

func openGeo(ctx context.Context, dir string, regions []string, v variant) (*geo, error) {
	m, err := matrix.Open(matrix.AWS)
	if err != nil {
		return nil, err
	}
	if m, err = m.Pick(regions...); err != nil {
		return nil, err
	}
	return openOn(ctx, dir, m, v)
}

func openOn(ctx context.Context, dir string, m *matrix.Matrix, v variant) (_ *geo, err error) {
	if dir, err = os.MkdirTemp(dir, v.name+"-"); err != nil {
		return nil, err
	}
	params := v.homes
	l, err := node.StartLocal(ctx, node.LocalConfig{Matrix: m, Shards: 1, Dir: filepath.Join(dir, "data"), CacheMB: 64, Homes: &params, NoSQL: true, Tune: v.tune}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	g := &geo{Local: l, name: v.name}
	for _, n := range l.Nodes() {
		g.dbs = append(g.dbs, n.DB())
	}
	if v.selector != 0 {
		if err := g.addSites(v.selector); err != nil {
			return nil, errors.Join(err, g.close())
		}
	}
	return g, nil
}

func (g *geo) close() error {
	var errs []error
	for _, s := range g.all {
		errs = append(errs, s.trans.Close())
	}
	g.Network().HealAll()
	g.running.Wait()
	return errors.Join(append(errs, g.Close(context.Background()))...)
}

// moves is how many rows have changed their home since the start.
func (g *geo) moves() int64 {
	var most int64
	for _, n := range g.Nodes() {
		_, total := n.Owners().Moves()
		most = max(most, total)
	}
	return most
}

// key is a row (b) of a user, warehouse or range (a) of a table.
func key(table, a, b int) base.Key {
	k := base.IndexPrefix(1, base.MakeTableID(uint64(100+table), 1), 0, 0)
	return base.AppendInt64(base.AppendInt64(k, int64(a)), int64(b))
}

func keys(table, a, from, n int) []base.Key {
	out := make([]base.Key, n)
	for i := range out {
		out[i] = key(table, a, from+i)
	}
	return out
}

var rowValue = make([]byte, 100)

// load makes rows at home in a region; call it in key order for neighbouring ranges.
func (g *geo) load(ctx context.Context, region int, ks []base.Key) error {
	if err := fill(ctx, g.dbs[region], ks, func() []byte { return rowValue }); err != nil {
		return fmt.Errorf("%s: %w", g.name, err)
	}
	for _, s := range g.all {
		s.know(ks, base.RegionID(region+1))
	}
	return nil
}

// Statements.
const (
	opRead = iota
	opUpdate
	opInsert
	opScan
)

// op is one statement: it reads or writes all its keys at once. A scan has the two ends of its range.
type op struct {
	Kind  int
	Keys  []base.Key
	Ago   time.Duration // how old the snapshot of a transaction is that begins with a read
	Value []byte        // of rows that are written; nil: rowValue
}

// job is a transaction, one statement after the other.
type job []op

func (j job) writes() bool {
	return slices.ContainsFunc(j, func(o op) bool { return o.Kind == opUpdate || o.Kind == opInsert })
}

// runJob runs a transaction as SQL does: rows to be written are locked when they are read, and come
// along with the write when the policy advises so; a transaction that only reads takes a snapshot, or the one given.
func runJob(ctx context.Context, db kv.DB, j job, at base.Timestamp, tr *obs.Trace) error {
	writes := j.writes()
	read := kv.LockNone
	if writes {
		read = kv.LockShared
	}
	opts := kv.Options{ReadOnly: !writes, ReadTS: at, Trace: tr}
	if ago := j[0].Ago; ago > 0 {
		opts.ReadTS = db.Clock().Add(-ago)
	}
	_, err := kv.Run(ctx, db, opts, func(t kv.Txn) error {
		for _, o := range j {
			if err := o.exec(ctx, t, read); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (o op) exec(ctx context.Context, t kv.Txn, read kv.LockMode) error {
	value := o.Value
	if value == nil {
		value = rowValue
	}
	switch o.Kind {
	case opInsert:
		for _, k := range o.Keys {
			if err := t.Insert(k, value, 0); err != nil {
				return err
			}
		}
	case opScan:
		req := &kv.ScanRequest{Spans: []base.Span{{Start: o.Keys[0], End: o.Keys[1]}}, Lock: read}
		for req != nil {
			res, err := t.Scan(ctx, *req)
			if err != nil {
				return err
			}
			req = res.Next
		}
	case opRead:
		_, err := t.Get(ctx, o.Keys, read)
		return err
	case opUpdate:
		rows, err := t.Get(ctx, o.Keys, kv.LockExclusive)
		if err != nil {
			return err
		}
		for _, row := range rows {
			t.Put(row.Key, value, 0)
			if row.Advice != 0 {
				t.Move(row.Key, row.Advice, kv.MoveOptions{Soft: true})
			}
		}
	}
	return nil
}

// run runs a transaction for a client in a region.
func (g *geo) run(ctx context.Context, region int, j job, tr *obs.Trace) error {
	if g.sel != nil {
		return g.all[region].runSelected(ctx, g.sel, j, tr)
	}
	at := base.Timestamp(0)
	if g.stale && !j.writes() {
		// None in time: then it is a strong read.
		at, _ = g.Nodes()[region].Cluster().ReadPoint(ctx, 0, time.Second)
	}
	return runJob(ctx, g.dbs[region], j, at, tr)
}

// client works in a closed loop, in a region that may change.
type client struct {
	home   int // where it belongs, and is counted
	tag    int // group of clients
	region atomic.Int32
	left   chan struct{} // closed when the region is lost
	next   func(r *rand.Rand) job
	done   []outcome
}

func newClient(region, tag int, next func(r *rand.Rand) job) *client {
	c := &client{home: region, tag: tag, next: next, left: make(chan struct{})}
	c.region.Store(int32(region))
	return c
}

// leave goes on in another region; of a transaction under way nothing more will be heard.
func (c *client) leave(to int) {
	c.region.Store(int32(to))
	close(c.left)
}

// outcome is that of one transaction that was done.
type outcome struct {
	at           time.Duration // of its end, since the start of the load
	lat          time.Duration
	hops         int
	writes       bool
	region       int
	home, tag    int
	coordination float64 // round trips besides that of the log
}

// shift is clients at work.
type shift struct {
	g       *geo
	began   time.Time
	clients []*client
	stop    context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// patience is how long a client waits for one transaction.
const patience = 20 * time.Second

// work starts the clients.
func (g *geo) work(ctx context.Context, clients []*client) *shift {
	ctx, cancel := context.WithCancel(ctx)
	s := &shift{g: g, began: time.Now(), clients: clients, stop: cancel}
	for i, c := range clients {
		s.wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 0x90d))
			for ctx.Err() == nil {
				if err := s.one(ctx, c, r); err != nil && ctx.Err() == nil {
					s.mu.Lock()
					s.err = cmp.Or(s.err, fmt.Errorf("%s, client in region %d: %w", g.name, c.region.Load()+1, err))
					s.mu.Unlock()
					return
				}
			}
		})
	}
	return s
}

func (s *shift) one(ctx context.Context, c *client, r *rand.Rand) error {
	region := int(c.region.Load())
	j := c.next(r)
	var tr obs.Trace
	one, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	left := c.left
	if region != c.home {
		left = nil
	}
	begin := time.Now()
	done := make(chan error, 1)
	s.g.running.Go(func() { done <- s.g.run(one, region, j, &tr) })
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-left:
		return nil
	}
	x := outcome{at: time.Since(s.began), lat: time.Since(begin), hops: tr.Hops(), writes: j.writes(), region: region, home: c.home, tag: c.tag}
	x.coordination = float64(x.hops) / 2
	if x.writes {
		x.coordination-- // of the log
	}
	c.done = append(c.done, x)
	return nil
}

// end stops the clients and returns what they did.
func (s *shift) end() (outcomes, error) {
	s.stop()
	s.wg.Wait()
	var all outcomes
	for _, c := range s.clients {
		all = append(all, c.done...)
		c.done = nil
	}
	return all, s.err
}

// outcomes are those of many.
type outcomes []outcome

func (s outcomes) where(f func(x *outcome) bool) outcomes {
	var out outcomes
	for i := range s {
		if f(&s[i]) {
			out = append(out, s[i])
		}
	}
	return out
}

func (s outcomes) between(from, to time.Duration) outcomes {
	return s.where(func(x *outcome) bool { return x.at >= from && x.at < to })
}

func (s outcomes) from(region int) outcomes {
	return s.where(func(x *outcome) bool { return x.home == region })
}
func (s outcomes) tagged(tag int) outcomes {
	return s.where(func(x *outcome) bool { return x.tag == tag })
}

// rate is transactions a second over a time.
func (s outcomes) rate(d time.Duration) float64 { return float64(len(s)) / d.Seconds() }

// ms is a quantile of the latencies.
func (s outcomes) ms(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	lats := make([]time.Duration, len(s))
	for i := range s {
		lats[i] = s[i].lat
	}
	slices.Sort(lats)
	return lats[min(len(lats)-1, int(q*float64(len(lats))))].Seconds() * 1e3
}

func (s outcomes) mean() float64 {
	var sum time.Duration
	for i := range s {
		sum += s[i].lat
	}
	return sum.Seconds() * 1e3 / float64(max(1, len(s)))
}

// share is the part of the transactions that f holds for.
func (s outcomes) share(f func(x *outcome) bool) float64 {
	return float64(len(s.where(f))) / float64(max(1, len(s)))
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
