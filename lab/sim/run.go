package sim

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/history"
)

// Outcome is the result of a run, to be judged.
type Outcome struct {
	Config  Config
	Faults  Schedule
	History *history.History
	// Err is a failure during the run: liveness, convergence, or a node that stopped by itself.
	Err error
	// Journal is what the nodes and the simulation logged, in virtual time.
	Journal string
	Elapsed time.Duration // virtual
	// Steps counts the steps of the clock mode.
	Steps int
	// Relayed counts the messages that nodes sent over relays, Shared those to several nodes at
	// once, and Refused those that came over more than one node.
	Relayed, Shared, Refused uint64
	// Shipped counts the shipped updates that nodes have evaluated at their slots, ShipWaits the
	// writers that waited for such updates, and ShipsLost the updates that were not defined then.
	Shipped, ShipWaits, ShipsLost int
	// Locked counts the reads of transfers that did not wait and did not get both accounts
	// (Config.Impatient).
	Locked int64
	// Messages counts the messages of the hand-over (Config.Handover).
	Messages int
	// Served is how long after the last fault each row that is written by a gateway alone was
	// written, at most.
	Served time.Duration
	// Paused is the longest time for which rows were not written during faults that left a majority
	// whole (Config.Lively), PausedLost the same once a majority was whole again.
	Paused, PausedLost time.Duration
	// Latency is that of own rows before the faults and ten seconds after them, by region; nil if
	// it was not measured.
	Latency [][2]time.Duration

	bench    *bench
	healedAt time.Time
}

// Run runs a cluster under the faults of its seed. It must be called in a testing/synctest bubble.
func Run(cfg Config) *Outcome {
	o := &Outcome{Config: cfg, Faults: Compose(&cfg)}
	w := newWorld(cfg)
	b := &bench{w: w, ks: newKeyspace(), stop: make(chan struct{}), versions: map[[2]string]base.Timestamp{},
		kinds: map[string]*[3]int{}, through: map[int64]int{}, errors: map[string]int{}}
	b.rec = history.NewRecorder(func() int64 { return int64(w.now()) })
	o.bench = b
	load := newLoad(b, &cfg)
	for _, h := range w.hosts {
		h.boot()
	}
	b.probe()
	load.prepare()
	var clients sync.WaitGroup
	load.start(&clients)
	if cfg.Break.LyingDisk {
		clients.Go(func() { w.lie(b.stop) })
	}
	time.Sleep(cfg.Warmup)
	before := b.latencies()
	var v *vigil
	if cfg.Lively {
		v = b.watch()
	}
	if cfg.play != nil {
		cfg.play(w)
		o.Faults = nil
	}
	late := make(chan struct{})
	go func() {
		defer close(late)
		w.joinLate()
		w.leave()
	}()
	trying := make(chan struct{})
	if cfg.Upgrade {
		clients.Go(func() { w.tryUpgrade(trying) })
		clients.Go(func() { w.checkBuilds(b.stop) })
	}
	w.torment(o.Faults)
	close(trying)
	if cfg.Upgrade {
		w.finishUpgrade()
	}
	o.healed(w)
	<-late
	if cfg.Late > 0 || cfg.Leave > 0 {
		w.awaitRegions()
	}
	o.Served = b.probe()
	if cfg.Lively {
		v.end()
		o.Paused, o.PausedLost = v.longest, v.longestLost
		b.returned(o, before, wholeBound)
	}
	w.checkClocks()
	time.Sleep(time.Second) // with all clients, as before the faults
	close(b.stop)
	clients.Wait()
	b.drain()
	w.checkLeft()
	w.checkResidency()
	b.setFinal(load.final())
	load.close()
	if w.own.checked == 0 && cfg.Break == (Break{}) {
		w.fail("no owner was seen at work")
	}
	o.Elapsed = w.now()
	o.count(w)
	w.close()
	o.Messages, o.Locked = w.messages, w.locked.Load()
	o.History, o.Err, o.Journal = b.rec.History(), w.err(), w.log.text()
	return o
}

// load is the work of the clients of a run.
type load struct {
	b   *bench
	cfg *Config
	// one makes the function that a client repeats.
	one      func(*client) func()
	accounts []string   // of the bank
	sqls     []*sqlWork // the clients that speak SQL
}

func newLoad(b *bench, cfg *Config) *load {
	d := &load{b: b, cfg: cfg}
	switch cfg.Workload {
	case "bank":
		d.accounts, d.one = newBank(b.ks, cfg)
	case "sql":
		d.one = func(c *client) func() {
			s := &sqlWork{client: c, keys: cfg.Keys, dbs: map[*life]*sql.DB{}}
			d.sqls = append(d.sqls, s)
			return s.one
		}
	default:
		d.one = newMixed(b.ks, cfg)
	}
	return d
}

// prepare makes the rows and tables that the clients begin with.
func (d *load) prepare() {
	w := d.b.w
	if d.cfg.Workload == "bank" && w.err() == nil && !openBank(d.b.client(1, 99), d.accounts) {
		w.fail("the accounts cannot be opened")
	}
	if d.cfg.SQL && w.err() == nil {
		found(&sqlWork{client: d.b.client(1, 99), dbs: map[*life]*sql.DB{}})
	}
}

// start starts the clients of all regions; they end when the run stops them.
func (d *load) start(clients *sync.WaitGroup) {
	for r := range d.cfg.Regions {
		for n := range d.cfg.Clients {
			c := d.b.client(base.RegionID(r+1), n)
			one := d.one(c)
			clients.Go(func() {
				for !c.stopped() {
					one()
					sleep(context.Background(), time.Duration(c.rng.Int64N(int64(2*d.cfg.Think)+1)))
				}
			})
		}
	}
}

// final reads the state that the clients leave.
func (d *load) final() map[string]string {
	if !d.cfg.SQL {
		return d.b.final()
	}
	checkCounts(d.sqls)
	if d.cfg.Epochs {
		d.b.w.checkEpochs()
		d.b.w.checkAnswers(d.sqls[0])
	}
	return d.sqls[0].final()
}

func (d *load) close() {
	for _, s := range d.sqls {
		s.close()
	}
}

// setFinal records the final state, if it could be read. For a list that is its last element, as
// the checkers want it.
func (b *bench) setFinal(s map[string]string) {
	if s == nil {
		return
	}
	for k, v := range s {
		if isList(k) {
			s[k] = v[strings.LastIndexByte(v, ',')+1:]
		}
	}
	b.rec.SetFinal(s)
}

// count adds the counters of the nodes that are up.
func (o *Outcome) count(w *world) {
	for _, h := range w.hosts {
		l := h.up()
		if l == nil {
			continue
		}
		for _, s := range l.node.Cluster().ClockHistory() {
			o.Steps = max(o.Steps, int(s.Epoch)-1)
		}
		for _, s := range l.node.Overlay().OverStats() {
			o.Relayed += s.RelayedMsgs
			o.Shared += s.SharedMsgs
			o.Refused += s.Refused
		}
		for _, r := range l.node.Owners().Replicas() {
			s := r.Stats()
			o.Shipped, o.ShipWaits, o.ShipsLost = o.Shipped+int(s.Patches.Load()),
				o.ShipWaits+int(s.PatchWaits.Load()), o.ShipsLost+int(s.PatchesLost.Load())
		}
	}
}

// linearLimit bounds, in real time, what the search for a linearization may take.
const linearLimit = 2 * time.Second

// Check judges the run. It must be called outside of the bubble, in real time.
func (o *Outcome) Check() error {
	errs := []error{o.Err}
	if err := o.History.Validate(); err != nil {
		return errors.Join(append(errs, err)...)
	}
	judge := func(v *history.Violation) {
		if v != nil {
			errs = append(errs, v)
		}
	}
	h := o.canonical()
	judge(history.NoTornReads(h))
	judge(o.promised(h))
	if !o.Config.Concurrency.Ordered() {
		judge(history.RelayConsistent(o.grouped(h)))
	}
	judge(history.CommitOrder(h))
	judge(history.MonotoneSnapshots(o.byProcess()))
	if h.Final != nil {
		judge(history.NoLostWrites(h))
	}
	switch o.Config.Workload {
	case "bank":
		judge(checkBank(h, len(o.bench.ks.keys)))
	case "mixed":
		_, v := history.Linearizable(registers(h), linearLimit)
		judge(v)
	}
	errs = append(errs, o.checkTimestamps(), o.checkExists())
	return errors.Join(errs...)
}

// grouped is the history with the shard groups of its transactions (Relay, section 3.1). The group
// of a key is the region of its section. Rows may move, but strict serializability implies the
// definition for any fixed division of the keys.
func (o *Outcome) grouped(h *history.History) *history.History {
	out := *h
	out.Txns = slices.Clone(h.Txns)
	homes := map[string]string{}
	for i := range out.Txns {
		t := &out.Txns[i]
		var in []string
		for _, op := range t.Ops {
			name, ok := homes[op.Key]
			if !ok {
				if s := o.bench.ks.of(op.Key); s != nil {
					name = fmt.Sprint("r", s.home)
				}
				homes[op.Key] = name
			}
			if name != "" && !slices.Contains(in, name) {
				in = append(in, name)
			}
		}
		t.Regions = in
	}
	return &out
}

// byProcess is the history for the check of the order of snapshots. Snapshots certainly grow only
// for a client that stays with one process, as clocks differ, and only if the system chose them.
func (o *Outcome) byProcess() *history.History {
	h := *o.History
	h.Txns = slices.DeleteFunc(slices.Clone(h.Txns), func(t history.Txn) bool { return t.Stale })
	for i := range h.Txns {
		h.Txns[i].Client = h.Txns[i].Client<<16 | o.bench.through[h.Txns[i].ID]
	}
	return &h
}

// registers is the history without lists, which the single-key checker does not know.
func registers(h *history.History) *history.History {
	out := *h
	out.Txns, out.Final = slices.Clone(h.Txns), maps.Clone(h.Final)
	maps.DeleteFunc(out.Final, func(k, _ string) bool { return isList(k) })
	for i := range out.Txns {
		out.Txns[i].Ops = slices.DeleteFunc(slices.Clone(out.Txns[i].Ops), func(op history.Op) bool { return isList(op.Key) })
	}
	return &out
}

// checkTimestamps compares the timestamps shown with rows with those that Commit answered.
func (o *Outcome) checkTimestamps() error {
	for i := range o.History.Txns {
		t := &o.History.Txns[i]
		if t.Outcome != history.Committed || t.Timestamp == 0 {
			continue
		}
		for _, op := range t.Ops {
			if op.Kind != history.OpWrite {
				continue
			}
			if ts, ok := o.bench.versions[[2]string{op.Key, op.Value}]; ok && uint64(ts) != t.Timestamp {
				return fmt.Errorf("%s committed at %d, but its %s=%s was shown with timestamp %d", t.Name(),
					t.Timestamp, op.Key, op.Value, ts)
			}
		}
	}
	return nil
}

// checkExists checks the answers "the key exists": there must have been a row to see. A transaction
// that may have committed wrote it, and it was not certainly deleted before the question.
func (o *Outcome) checkExists() error {
	writers := map[string][]*history.Txn{}
	deletes := map[string][]*history.Txn{}
	for i := range o.History.Txns {
		t := &o.History.Txns[i]
		if t.Outcome == history.Aborted {
			continue
		}
		for _, op := range t.Ops {
			switch op.Kind {
			case history.OpWrite:
				writers[op.Key] = append(writers[op.Key], t)
			case history.OpDelete:
				deletes[op.Key] = append(deletes[op.Key], t)
			}
		}
	}
	for _, e := range o.bench.exists {
		if !couldExist(e.from, e.at, e.txn, writers[e.key], deletes[e.key]) {
			return fmt.Errorf("transaction T%d was told that %s exists, at %v, when it cannot have", e.txn, e.key,
				time.Duration(e.at))
		}
	}
	return nil
}

// couldExist reports whether some row can have been there when a transaction asked between from and
// at: another transaction wrote it before, and it was not certainly deleted before the question.
func couldExist(from, at, txn int64, writers, deletes []*history.Txn) bool {
	return slices.ContainsFunc(writers, func(w *history.Txn) bool {
		if w.Invoke > at || w.ID == txn {
			return false
		}
		return !slices.ContainsFunc(deletes, func(d *history.Txn) bool {
			return d.Outcome == history.Committed && w.Outcome == history.Committed && d.ID != w.ID &&
				d.Invoke > w.Return && d.Return < from
		})
	})
}

// Summary is one line of figures.
func (o *Outcome) Summary() string {
	b := o.bench
	return fmt.Sprintf("%d committed, %d aborted, %d unknown in %v", b.committed.Load(), b.aborted.Load(),
		b.unknown.Load(), o.Elapsed.Round(time.Millisecond))
}

// Kinds lists the counts by kind of transaction and by error.
func (o *Outcome) Kinds() string {
	var out strings.Builder
	b := o.bench
	for _, k := range sorted(b.kinds) {
		fmt.Fprintf(&out, "  %-18s %v\n", k, *b.kinds[k])
	}
	for _, k := range sorted(b.errors) {
		fmt.Fprintf(&out, "  error %-18s %d\n", k, b.errors[k])
	}
	return out.String()
}

func sorted[V any](m map[string]V) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

func asError(err error) (*base.Error, bool) {
	var e *base.Error
	ok := errors.As(err, &e)
	return e, ok
}
