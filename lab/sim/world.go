package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/replace"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/mechanism/wan/pipe"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/txn"
	"github.com/godwitdb/godwit/txn/multimaster"
	"github.com/godwitdb/godwit/wire"
)

// world is the cluster and its surroundings.
type world struct {
	cfg   Config
	ident *join.Identity
	net   *wan.Network
	hosts []*host // by id-1
	start time.Time
	log   *journal

	mu     sync.Mutex
	errs   []error // what went wrong; guarded by mu
	dying  sync.WaitGroup
	lives  atomic.Int64
	locked atomic.Int64 // Outcome.Locked
	faults atomic.Int64 // that have begun or ended
	policy atomic.Pointer[clock.Policy]
	homes  homes
	own    owners
	// spy sees each ordered message before it arrives at a node. It may order its loss.
	spy      atomic.Pointer[func(from, to base.NodeID, kind wire.Kind, body []byte) (lose bool)]
	forged   forgery
	epochs   epochs
	seen     func(gauge.Service) // besides own; may be nil
	messages int                 // of the hand-over
	newer    atomic.Bool         // all processes are of this build from now on; see upgrade.go
	refused  atomic.Int64        // processes of the build of before, by their stores
}

// host is a machine. Its disk and clock outlive the processes on it.
type host struct {
	w      *world
	id     base.NodeID
	region base.RegionID
	clock  *clock.Simulated
	jumped atomic.Bool  // clock is off by more than its bound
	wrong  atomic.Bool  // the same since the process started
	slow   atomic.Int64 // ns that every arriving message waits
	disk   atomic.Int64 // ns of a sync
	frozen atomic.Int64 // until when the disk takes nothing, ns of w.now
	drains atomic.Int64 // until when it may still take what it began to while it was slow, ns of w.now
	rng    *rand.Rand   // for crashes; guarded by power

	// power is held while the process starts, crashes or stops: a channel, because starting takes
	// virtual time, and a goroutine that waits for a mutex stops it.
	power chan struct{}
	fs    *vfs.MemFS // guarded by power
	stale *vfs.MemFS // with Break.LyingDisk: what a crash leaves; guarded by power
	life  atomic.Pointer[life]
	ident atomic.Pointer[join.Identity] // nil: it has not joined yet, or is gone with its region
}

// life is one process on a host.
type life struct {
	number int // in order of starting
	node   *node.Node
	store  *store.Store
	sql    *pipe.Listener // with Config.SQL
	// ctx ends when the process does; dead is set before.
	ctx  context.Context
	kill context.CancelFunc
	dead atomic.Bool
	// crashed is set when no message of the process arrives any more. A process that stops in good
	// order is dead to clients before that.
	crashed atomic.Bool
}

func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, start: time.Now(), epochs: newEpochs()}
	w.log = newJournal(w.start)
	w.own.age = cfg.GCAge
	w.net = wan.NewNetwork(wan.NetOptions{Seed: cfg.Seed, LAN: wan.LinkSpec{Delay: cfg.LAN}, DropSends: true,
		Backlog: cfg.Backlog, Logger: w.log.slog(slog.LevelWarn)})
	w.calm()
	w.setPolicy(clock.Auto)
	names := make([]string, cfg.Regions)
	for i := range names {
		names[i] = fmt.Sprintf("r%d", i+1)
	}
	w.ident = node.LocalIdentity(names[:cfg.Regions-cfg.Late], cfg.NodesPerRegion, cfg.Shards)
	w.ident.First.Concurrency = cfg.Concurrency
	w.place()
	if cfg.Upgrade {
		w.ident.First.ClusterVersion = base.VersionFirst
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 2))
	for _, n := range node.LocalIdentity(names, cfg.NodesPerRegion, cfg.Shards).First.Nodes {
		h := &host{w: w, id: n.ID, region: n.Region, power: make(chan struct{}, 1), fs: vfs.NewCrashableMem(),
			rng: rand.New(rand.NewPCG(cfg.Seed, 100+uint64(n.ID)))}
		if w.ident.First.Node(n.ID) != nil {
			id := *w.ident
			id.Node = n.ID
			if cfg.Believes != nil {
				cfg.Believes(&id)
			}
			h.ident.Store(&id)
		}
		h.clock = clock.NewSimulated(cfg.ClockBound, cfg.Seed+uint64(n.ID))
		w.setClock(h, rng)
		h.disk.Store(int64(cfg.SyncDelay))
		w.hosts = append(w.hosts, h)
	}
	return w
}

// setClock sets a clock as a time daemon does: to an offset within the clocks' bound, with a drift.
func (w *world) setClock(h *host, r *rand.Rand) time.Duration {
	limit := float64(w.cfg.ClockBound) * max(1, w.cfg.Break.ClockBeyond)
	off := time.Duration((2*r.Float64() - 1) * limit)
	h.clock.Set(off, (2*r.Float64()-1)*1e-3, time.Duration(limit))
	h.wrong.Store(false)
	return off
}

// setPolicy sets the operator's clock mode on all present and future processes. Without SQL there
// are no cluster settings for this.
func (w *world) setPolicy(m clock.Setting) {
	p := clock.DefaultPolicy()
	p.Mode, p.Recovery = m, 2*time.Second
	w.policy.Store(&p)
	for _, h := range w.hosts {
		if l := h.up(); l != nil {
			l.node.Cluster().SetClockPolicy(p)
		}
	}
}

// checkClocks waits until all nodes are back in GClock mode. The clocks are right again, so they
// must.
func (w *world) checkClocks() {
	deadline := time.Now().Add(3 * time.Minute)
	for {
		var what []string
		for _, h := range w.hosts {
			if l := h.up(); l != nil {
				if c := l.node.Cluster().Clock(); c.Mode != clock.GClock.String() || c.Fenced || c.Blocked != "" {
					what = append(what, fmt.Sprintf("node %d: %+v", h.id, *c))
				}
			}
		}
		if len(what) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.fail("the clocks are good, and these nodes are not in GClock mode: %v", what)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// calm sets all paths to their state without faults.
func (w *world) calm() {
	for i, row := range w.cfg.Delay {
		for j := range row {
			a, b := base.RegionID(i+1), base.RegionID(j+1)
			w.net.SetPath(a, b, w.calmPath(a, b))
		}
	}
}

// calmPath is a path without faults.
func (w *world) calmPath(a, b base.RegionID) wan.LinkSpec {
	if a == b {
		return wan.LinkSpec{Delay: w.cfg.LAN}
	}
	return wan.LinkSpec{Delay: w.cfg.Delay[a-1][b-1], Jitter: w.cfg.Jitter, Loss: w.cfg.Loss}
}

// now is the virtual time since the start.
func (w *world) now() time.Duration { return time.Since(w.start) }

// fail records an error of the run.
func (w *world) fail(format string, args ...any) {
	err := fmt.Errorf("%v: %w", w.now().Round(time.Millisecond), fmt.Errorf(format, args...))
	w.log.printf("FAILURE %v", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

func (w *world) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.errs...)
}

// syncDelay draws how long a disk takes.
func (h *host) syncDelay() time.Duration {
	d := time.Duration(h.disk.Load())
	return max(d/2+rand.N(d/2+1), time.Duration(h.frozen.Load())-h.w.now())
}

// freeze has the disk take nothing for d: what is synced meanwhile is durable afterwards.
func (h *host) freeze(d time.Duration) {
	h.frozen.Store(max(h.frozen.Load(), int64(h.w.now()+d)))
}

// boot starts the process of a host. It is an error of the run if that fails.
func (h *host) boot() {
	h.power <- struct{}{}
	defer func() { <-h.power }()
	ident := h.ident.Load()
	if h.life.Load() != nil || ident == nil {
		return
	}
	w := h.w
	if h.jumped.Swap(false) { // a machine that starts sets its clock
		w.setClock(h, rand.New(rand.NewPCG(w.cfg.Seed, uint64(h.id))))
	}
	l := &life{number: int(w.lives.Add(1))}
	l.ctx, l.kill = context.WithCancel(context.Background())
	log := w.log.slog(slog.LevelInfo).With("node", h.id)
	log = slog.New(mortal{log.Handler(), l})
	st, err := h.open(store.Options{Dir: "db", FS: h.fs, Simulation: true, SyncDelay: h.syncDelay,
		DelayAll: w.cfg.SyncAll, Logger: log}, l.number)
	if err != nil {
		w.fail("node %d: store does not open: %w", h.id, err)
		return
	}
	l.store = st
	parts := node.Parts{
		Store: st, Identity: ident, Transport: slowed{w.net.Join(h.id, h.region), &h.slow, &w.cfg.Break, new(sync.Map), w,
			h.id}, Source: h.clock,
		NoFence: w.cfg.Break.ClockBeyond > 1, NoProof: w.cfg.Break.NoProof, FarLeads: w.cfg.Break.FarLeads,
		Log: log, GCAge: w.cfg.GCAge, Seed: w.cfg.Seed + uint64(h.id), Tune: w.tune(l), Homes: w.cfg.Homes,
		Network: &w.cfg.Network,
	}
	w.cfg.Network.AnyPath = w.cfg.Break.AnyPath
	if w.cfg.Epochs {
		parts.TuneEpochs = func(c *multimaster.Config) {
			c.Patient = w.cfg.Break.PatientSealed
			w.watchEpochs(c, l)
		}
	}
	if w.cfg.Never {
		parts.Homes = &home.Params{Mode: home.Never}
	}
	if w.cfg.SQL {
		l.sql = pipe.Listen("tcp", "127.0.0.1:3306")
		parts.SQLListener = l.sql
	}
	l.node, err = node.Assemble(parts)
	if err != nil {
		w.fail("node %d does not start: %w", h.id, err)
		return
	}
	l.node.Cluster().SetClockPolicy(*w.policy.Load())
	if after := w.cfg.ReplaceAfter; after > 0 {
		if err := l.node.Cluster().SetReplaceParams(replace.Params{Mode: "auto", After: after.String()}); err != nil {
			w.fail("node %d: %w", h.id, err)
		}
	}
	h.life.Store(l)
	w.dying.Go(func() {
		select {
		case <-l.ctx.Done():
		case err := <-l.node.Failed():
			if n := l.node.Cluster().Topology().Node(h.id); n.Gone {
				w.log.printf("node %d is gone with its region", h.id)
				h.ident.Store(nil)
				go h.shutdown()
			} else if !l.dead.Load() {
				w.fail("node %d stopped by itself: %w", h.id, err)
			}
		}
	})
	w.log.printf("node %d is up, as process %d", h.id, l.number)
}

func (w *world) tune(l *life) func(*group.HostOptions, *owner.Config, *txn.Config) {
	return func(ho *group.HostOptions, oc *owner.Config, tc *txn.Config) {
		w.tuneOwners(l, ho, oc)
		if w.cfg.Pieces > 0 {
			tc.Limits.EntryBytes, tc.Limits.PieceWrites = 1, w.cfg.Pieces
		}
		if w.cfg.Break.NoHedges {
			tc.Reads.Replica = nil
		}
		tc.EarlyPrograms, tc.SameSlots = w.cfg.Break.EarlyPrograms, w.cfg.Break.SameSlots
		tc.BlindPrograms, tc.NearOwners = w.cfg.Break.BlindPrograms, w.cfg.Break.NearOwners
	}
}

func (w *world) tuneOwners(l *life, ho *group.HostOptions, oc *owner.Config) {
	ho.MinShared = 1 // rows are small here
	if w.cfg.ShortLogs {
		ho.LogKeepEntries, ho.LogKeepBytes, ho.LogMaxBytes = 20, 16<<10, 64<<10
	}
	if w.cfg.GCAge < w.cfg.Duration {
		oc.GCInterval = time.Second
	}
	oc.Limits.Total = w.cfg.MaxLocks
	if w.cfg.Seed%3 == 1 { // commits here write few rows
		oc.Bulk.Walk, oc.Bulk.Together = 1, 2
	}
	if w.cfg.Pieces > 0 {
		oc.Bulk.Escalate = 4
	}
	b := &w.cfg.Break
	ho.PatientRefusers, ho.HastyRefusers, ho.PatientReturns = b.PatientRefusers, b.HastyRefusers, b.PatientReturns
	ho.FixedTurns, ho.StubbornLeaders, ho.KeepsVotes = b.FixedTurns, b.StubbornLeaders, b.KeepsVotes
	ho.HastyReturns, ho.SplitVotes, ho.AsksOnce, ho.SickFirst = b.HastyReturns, b.SplitVotes, b.AsksOnce, b.SickFirst
	oc.NoEarlyClose, oc.NoAboveHold, oc.NoHoldTransferred = b.NoEarlyClose, b.NoAboveHold, b.NoHoldTransferred
	oc.HoldRest = w.cfg.HoldRest
	oc.EarlySuccessors, oc.NoRefusal = b.EarlySuccessors, b.NoRefusal
	oc.NoRelease, oc.ServesOn, oc.Forgetful, oc.PatientSeals = b.NoRelease, b.ServesOn, b.Forgetful, b.PatientSeals
	if b.LongLeases {
		oc.Farthest = nil
	}
	if b.NoHold {
		oc.Hold = nil
	}
	if b.NoLeaving {
		oc.MayLive = nil
	}
	if b.AnyHome {
		oc.MayLive, oc.HomeIn = nil, func(_ base.ShardID, r base.RegionID) base.RegionID { return r }
	}
	oc.LateWriters = b.LateWriters
	oc.NoBounds, oc.NoMarks, oc.NoTransferredState = b.NoBounds, b.NoMarks, b.NoTransferredState
	oc.Serves = func(s gauge.Service) {
		if l.dead.Load() {
			return // its messages are lost
		}
		if m, _ := oc.Clock.Mode(); m != clock.GClock {
			w.own.leftGClock()
		}
		if err := w.own.serves(s, time.Now()); err != nil {
			w.fail("%w", err)
		}
		if w.seen != nil {
			w.seen(s)
		}
	}
	if w.cfg.Stay {
		oc.Homes = nil
	} else {
		oc.Homes = tap{oc.Homes, &w.homes}
	}
}

// crash kills the process and loses what the disk had not synced.
func (h *host) crash() bool {
	h.power <- struct{}{}
	defer func() { <-h.power }()
	l := h.life.Swap(nil)
	if l == nil {
		return false
	}
	l.dead.Store(true)
	l.crashed.Store(true)
	h.w.net.Crash(h.id)
	if l.sql != nil {
		l.sql.Sever()
	}
	if h.w.cfg.Break.LyingDisk && h.stale != nil {
		h.fs = h.stale.CrashClone(vfs.CrashCloneCfg{})
	} else {
		h.fs = h.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: h.rng.IntN(3) * 50, RNG: h.rng})
	}
	l.kill()
	h.w.bury(l)
	return true
}

// lie keeps an old state of the disks, for Break.LyingDisk, until stop.
func (w *world) lie(stop <-chan struct{}) {
	for {
		for _, h := range w.hosts {
			h.power <- struct{}{}
			h.stale = h.fs.CrashClone(vfs.CrashCloneCfg{})
			<-h.power
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
	}
}

// bury ends the goroutines of a dead process.
func (w *world) bury(l *life) {
	w.dying.Go(func() { _ = l.node.Kill() })
}

// shutdown stops a process in good order.
func (h *host) shutdown() {
	h.power <- struct{}{}
	defer func() { <-h.power }()
	l := h.life.Swap(nil)
	if l == nil {
		return
	}
	l.dead.Store(true)
	l.kill()
	if l.sql != nil {
		l.sql.Sever()
	}
	if err := l.node.Close(context.Background()); err != nil {
		h.w.fail("node %d does not stop in good order: %w", h.id, err)
	}
}

// groupOf is the process's replica of a group; nil if it has none.
func (l *life) groupOf(g base.GroupID) *group.Group { return l.node.Groups().Group(g) }

// up is the process on the host; nil if it is down.
func (h *host) up() *life { return h.life.Load() }

// close stops everything; the bubble must be empty afterwards.
func (w *world) close() {
	var wg sync.WaitGroup
	for _, h := range w.hosts {
		wg.Go(h.shutdown)
	}
	wg.Wait()
	w.dying.Wait()
	// Statements of dead processes still ask for outcomes until they time out.
	time.Sleep(2 * time.Minute)
	if err := w.net.Close(); err != nil {
		w.fail("network: %w", err)
	}
}

// sleep waits in virtual time.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
