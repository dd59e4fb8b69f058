package owner

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/recall"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/tscache"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Replica is one group at one node: the state machine that its log drives and,
// while the node leads the group under a lease, the owner of its rows.
type Replica struct {
	isAsync     atomic.Bool // see async
	incarnation uint32      // of the group, see store.Store.Incarnation
	frozen      atomic.Bool // heartbeats of leaders are ignored
	id          base.GroupID
	shard       base.ShardID
	region      base.RegionID
	cfg         *Config
	view        view.Group  // what reads have to know of this group
	logged      state.Group // and what applying its log has to
	counter     homing.Counter
	set         *Set
	store       *store.Store
	clock       *clock.Clock

	// vouched is, by the region of another group of the shard, up to which entry of its log all
	// that the log names is applied here.
	vouched [16]atomic.Uint64

	attached chan struct{} // closed once group is set
	group    Consensus
	closing  chan struct{}
	close1   sync.Once

	applied atomic.Uint64 // visible in the store
	closed  atomic.Uint64 // nothing more commits here at or below it (OWN-6)
	held    atomic.Uint64 // the same of the catalog alone (OWN-17)
	changes atomic.Uint64 // batches with new versions that became visible
	// collected is the newest timestamp at or below which keys were collected here (wire.Collect).
	collected atomic.Uint64

	// propMu makes the order of timestamps that of the log: it is held while a
	// timestamp is assigned and its command handed to the group. Before mu.
	propMu sync.Mutex
	mu     sync.Mutex

	lead    lead.Leadership
	past    lead.Past      // guarded by mu
	unasked recall.Unasked // guarded by mu
	lapses  lead.Lapses    // guarded by mu
	// lacks is since when it has served without a replica of each group of its shard; zero: has all
	lacks          time.Time
	changedCatalog time.Time                 // when this node last led a change of the catalog, or its start; guarded by mu
	lastTransfer   *lead.Transfer            // the newest hand-over by this node; guarded by mu
	obtained       atomic.Pointer[time.Time] // when this process last came into service by a lease of its own
	load           gauge.Loads
	passing        int // requests that wait for a hand-over, or that the new leader serves for this one
	rep            state.State

	order  *tscache.Cache // with timestamp ordering: what was read when
	queued atomic.Int64   // requests waiting for locks
	txns.Table
	waiting int // requests in a bounded wait

	delay    gauge.QuorumDelay // guarded by mu
	renewals base.Worst        // how late leases came, beyond a tick; guarded by mu
	terms    lead.Terms        // guarded by mu
	leadNs   atomic.Int64      // ahead() while it leads, as of the last heartbeat
	lag      gauge.Lag

	heartbeats lead.Promises // closed timestamps to count when their index is applied
	changed    chan struct{}
	stats      gauge.Stats
}

func newReplica(s *Set, g base.GroupID) (*Replica, error) {
	r := &Replica{
		id: g, shard: g.Shard(), region: g.Region(), cfg: &s.cfg, set: s, store: s.cfg.Store, clock: s.cfg.Clock,
		attached: make(chan struct{}), closing: make(chan struct{}), changed: make(chan struct{}), changedCatalog: time.Now(),
	}
	r.isAsync.Store(s.cfg.Held != nil && s.cfg.Held.Async(r.shard))
	r.logged = state.Group{ID: g, Store: r.store, Mixed: r.mixed, Moved: r.moved, Pieces: state.NewPiecesAhead(),
		AnyPieces: s.cfg.AnyPieces}
	r.view = view.Group{ID: g, Store: r.store, Missing: r, Async: r.isAsync.Load, NotesAll: s.cfg.Serves != nil,
		MaxBytes: s.cfg.MaxBytes}
	r.counter = homing.Counter{Group: &r.view, Policy: &r.cfg.Policy, Now: r.clock.Latest, Mu: &r.mu, TryLock: r.tryLock}
	var err error
	if r.incarnation, err = s.cfg.Store.Incarnation(g); err != nil {
		return nil, err
	}
	r.forget()
	if err := r.loadState(); err != nil {
		return nil, err
	}
	return r, nil
}

// ID is the group's name.
func (r *Replica) ID() base.GroupID { return r.id }

// Attach gives the replica its group, once, after group.Host.Open.
func (r *Replica) Attach(g Consensus) {
	r.group = g
	close(r.attached)
}

// Close ends the replica's background work; requests get CodeUnavailable.
func (r *Replica) Close() {
	r.close1.Do(func() { close(r.closing); r.logged.Pieces.Close() })
	r.mu.Lock()
	r.lead.To(lead.Closed)
	r.stop(base.Errorf(base.CodeUnavailable, "group %v: this replica was closed", r.id))
	r.mu.Unlock()
}

// Heard is the leader that this replica's group knows of; 0 if none, or while the replica is being
// opened.
func (r *Replica) Heard() base.NodeID {
	select {
	case <-r.attached:
		n, _ := r.group.Leader()
		return n
	default:
		return 0
	}
}

// AppliedIndex is the log index up to which this replica's state is visible.
func (r *Replica) AppliedIndex() uint64 { return r.applied.Load() }

// wake wakes all requests that wait for a change of this replica's state; mu is held.
func (r *Replica) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// wakeWaiting is wake if any request waits; mu is held.
func (r *Replica) wakeWaiting() {
	if r.waiting > 0 {
		r.wake()
	}
}

// notLeader is the answer of a replica that cannot serve; mu is held.
func (r *Replica) notLeader() *base.Error {
	e := base.Errorf(base.CodeNotLeader, "node %d does not lead group %v", r.cfg.Self, r.id)
	switch l := &r.lead; {
	case l.State == lead.Relieved:
		e.Node = l.Successor
	case l.State.In(lead.Seals):
		e.Node = l.Transfer.Target
	case l.Term == 0:
		e.Node = r.Heard()
	}
	if e.Node == r.cfg.Self {
		e.Node = 0
	}
	return e
}

// enter waits until this replica may serve and returns with mu held. lease
// asks for a valid lease that ends after ts. The wait is bounded: a new leader
// queues requests while it waits out its predecessor's lease.
func (r *Replica) enter(ctx context.Context, lease bool, ts base.Timestamp) error {
	r.mu.Lock()
	if r.ready(lease, ts) {
		return nil
	}
	patience := kv.PatienceOf(ctx)
	patience.Failed()
	timer := time.NewTimer(min(r.cfg.EnterTimeout, patience.Left()))
	defer timer.Stop()
	for {
		expects, err := r.mayEnter()
		if err != nil {
			r.mu.Unlock()
			return err
		}
		if err := r.awaitChange(ctx, timer, expects); err != nil {
			r.mu.Unlock()
			return err
		}
		if r.ready(lease, ts) {
			patience.Answered()
			return nil
		}
	}
}

// mayEnter is why a request must not wait here; expects says that this node does not lead, but may
// be elected at any moment. mu is held.
func (r *Replica) mayEnter() (expects bool, err error) {
	if !lead.IsClosed(r.attached) {
		return false, base.Errorf(base.CodeUnavailable, "group %v is starting", r.id)
	}
	if expects = r.lead.Term == 0 && r.expects(); r.lead.Term == 0 && !expects {
		if t := r.forwards(); t != nil {
			return false, t.Err
		}
		return false, r.notLeader()
	}
	if r.waiting >= r.cfg.MaxWaiting {
		return false, base.Errorf(base.CodeOverloaded, "group %v: %d requests wait already; retry later", r.id, r.waiting)
	}
	return expects, nil
}

// awaitChange waits for a change of this replica's state, or for a moment if an election is
// expected. mu is held at entry and exit.
func (r *Replica) awaitChange(ctx context.Context, timer *time.Timer, expects bool) (err error) {
	ch := r.changed
	r.waiting++
	r.mu.Unlock()
	var look <-chan time.Time
	if expects {
		look = time.After(leadPoll)
	}
	select {
	case <-ch:
	case <-look:
	case <-timer.C:
		err = base.Errorf(base.CodeUnavailable, "group %v has no valid lease: is a majority of its replicas reachable?", r.id)
	case <-ctx.Done():
		err = canceled(ctx)
	case <-r.closing:
		err = base.Errorf(base.CodeUnavailable, "group %v: this replica was closed", r.id)
	}
	r.mu.Lock()
	r.waiting--
	return err
}

// waitVector waits until the siblings of this replica have applied what need names.
func (r *Replica) waitVector(ctx context.Context, need []*wire.GroupIndex) error {
	for _, n := range need {
		g := base.DataGroup(r.shard, base.RegionID(n.Region))
		sib := r
		if g != r.id {
			if sib = r.set.Replica(g); sib == nil {
				return base.Errorf(base.CodeUnavailable, "group %v has no replica on node %d, which holds its shard: "+
					"it is being set up", g, r.cfg.Self)
			}
		}
		if err := sib.WaitApplied(ctx, n.Index, r.cfg.EnterTimeout); err != nil {
			return err
		}
	}
	return nil
}

// vectorWithin is waitVector for so long.
func (r *Replica) vectorWithin(ctx context.Context, need []*wire.GroupIndex, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return r.waitVector(ctx, need)
}

// WaitApplied waits until everything up to index is visible here.
func (r *Replica) WaitApplied(ctx context.Context, index uint64, atMost time.Duration) error {
	if r.applied.Load() >= index {
		return nil
	}
	return r.await(ctx, atMost, func() bool { return r.applied.Load() >= index },
		"group %v: node %d has not applied index %d in time", r.id, r.cfg.Self, index)
}

// await waits until cond, which is called with mu held, holds. It is told of changes by wake.
func (r *Replica) await(ctx context.Context, atMost time.Duration, cond func() bool, msg string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cond() {
		return nil
	}
	if r.waiting >= r.cfg.MaxWaiting {
		return base.Errorf(base.CodeOverloaded, "group %v: %d requests wait already; retry later", r.id, r.waiting)
	}
	r.waiting++
	defer func() { r.waiting-- }()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for !cond() {
		ch := r.changed
		r.mu.Unlock()
		var err error
		select {
		case <-ch:
		case <-timer.C:
			err = base.Errorf(base.CodeUnavailable, msg, args...)
		case <-ctx.Done():
			err = canceled(ctx)
		case <-r.closing:
			err = base.Errorf(base.CodeUnavailable, "group %v: this replica was closed", r.id)
		}
		r.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// commitWait returns once every later snapshot anywhere is above ts (commit wait, in GClock mode).
func (r *Replica) commitWait(ctx context.Context, ts base.Timestamp) error {
	if r.clock.Settled(ts) || r.cfg.Alone() && ts <= r.clock.Seen() {
		return nil
	}
	return r.clock.Settle(ctx, ts)
}

// settled is commitWait of what is in the log: it goes on until ts is settled, whatever the oracle
// says meanwhile. False: the replica was closed.
func (r *Replica) settled(ts base.Timestamp) bool {
	ctx, cancel := r.life()
	defer cancel()
	for r.commitWait(ctx, ts) != nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(settleAgain):
		}
	}
	return true
}

const settleAgain = 50 * time.Millisecond // after an attempt that failed

// readWait is commitWait for what was read, which takes its time only where this node may not act
// at all.
func (r *Replica) readWait(ctx context.Context, ts base.Timestamp) error {
	if r.clock.Settled(ts) || r.cfg.Alone() && ts <= r.clock.Seen() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.EnterTimeout)
	defer cancel()
	return r.clock.Settle(ctx, ts)
}

// lifeWithin is life that ends after a while, too.
func (r *Replica) lifeWithin(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := r.life()
	ctx, stop := context.WithTimeout(ctx, d)
	return ctx, func() { stop(); cancel() }
}

// life is a context that ends with the replica.
func (r *Replica) life() (context.Context, context.CancelFunc) { return base.Until(r.closing) }

func canceled(ctx context.Context) *base.Error {
	return base.Errorf(base.CodeCanceled, "request ended: %v", context.Cause(ctx))
}

// statusOf is err as it travels; nil for nil.
func statusOf(err error) *wire.Status { return route.StatusOf(err) }

// ErrorOf is the error that a status carries; nil if it says that all is well.
func ErrorOf(s *wire.Status) error { return route.ErrorOf(s) }
