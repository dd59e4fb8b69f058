package owner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// Replica is one group at one node: the state machine that its log drives and,
// while the node leads the group under a lease, the owner of its rows.
type Replica struct {
	isAsync     bool        // see async
	incarnation uint32      // of the group, see store.Store.Incarnation
	frozen      atomic.Bool // the words of leaders are not heard
	id          base.GroupID
	shard       base.ShardID
	region      base.RegionID
	cfg         *Config
	set         *Set
	store       *store.Store
	clock       *clock.Clock

	// vouched is, by the region of another group of the shard, up to which entry of its log all that the log names is
	// applied here.
	vouched [16]atomic.Uint64

	attached chan struct{} // closed once group is set
	group    Consensus
	closing  chan struct{}
	close1   sync.Once

	applied atomic.Uint64 // visible in the store
	closed  atomic.Uint64 // nothing more commits here at or below it (I6)
	changes atomic.Uint64 // batches with new versions that became visible
	// collected is the newest timestamp at or below which keys were collected here (wire.Collect).
	collected atomic.Uint64

	// propMu makes the order of timestamps that of the log: it is held while a
	// timestamp is assigned and its command handed to the group. Before mu.
	propMu sync.Mutex
	mu     sync.Mutex

	lead     leadership
	handed   *handing // the last one; guarded by mu
	heir     *heir    // this node has been asked to take over; guarded by mu
	load     loads
	helped   int    // requests that wait for a hand-over, or are served by the new leader on behalf of this one
	attempts uint64 // of takeOver, ever
	rep      replicated

	order    *tsCache     // with timestamp ordering: what was read when
	queued   atomic.Int64 // requests waiting for locks
	locks    *lock.Table
	txns     map[base.TxnID]*txnState
	pending  map[*txnState]struct{} // with writes, proposed or prepared, not yet released
	slots    map[*txnState]struct{} // those of pending that are votes for a slot
	notices  map[base.TxnID]*notices
	finished map[base.TxnID]base.Timestamp
	waiting  int // requests in a bounded wait

	delay  quorumDelay  // guarded by mu
	leadNs atomic.Int64 // ahead() while it leads, as of the last pulse
	lag    lag

	pulses  []pulse // closed timestamps to count when their index is applied
	changed chan struct{}
	stats   Stats
}

// leadership is what an owner keeps in memory only; guarded by mu.
type leadership struct {
	term       uint64 // the term this node leads in; 0 if it does not
	attempt    uint64 // the takeOver that may bring it into service
	serving    bool
	leaseEnd   base.Timestamp // of a lease of this node applied in term (I1)
	until      time.Time      // when that lease ends by the monotonic clock
	asked      base.Timestamp // end of the newest lease proposed in term
	askedUntil time.Time
	asks       []ask          // leases proposed in term and not applied yet
	issued     base.Timestamp // newest timestamp of the oracle (meta group)
	low        base.Timestamp // the next lease ends well above it
	floor      base.Timestamp // every timestamp assigned from now on is above (I2)
	told       base.Timestamp // highest closed timestamp put into a command or told by pulse; at most floor
	ends       ends           // of transactions, told to the region's timestamp manager (Order)
	next       base.NodeID    // while revoking: who gets the lead
	vector     [16]uint64     // siblings' applied indexes already in the log of this term
	handing    *handing       // the lead is being handed to next
	ended      *wire.Lease    // where the predecessor's lease ended, to be logged with the next one
}

// ask is a lease on its way: until is when it ends, by the monotonic clock, counted from before it was proposed.
type ask struct {
	end   base.Timestamp
	until time.Time
}

// txnState is a transaction at its owner.
type txnState struct {
	id       base.TxnID
	born     uint64 // the term in which it came: its locks were held from then on
	age      base.Timestamp
	policy   lock.Policy
	voting   bool // a Prepare is being evaluated
	ordered  bool // by timestamps: it holds locks only of writes under way
	early    bool // it has a timestamp and is pending, but was not proposed yet
	timeout  time.Duration
	last     time.Time // last sign of life
	calls    int       // requests being served; guarded by mu as all below
	phase    phase
	ts       base.Timestamp         // assigned commit timestamp, or lo of the vote
	index    uint64                 // log entry of the commit, once it is known
	hi       base.Timestamp         // upper bound of the vote
	since    time.Time              // when prepared
	keys     []base.Key             // of its writes, sorted; set with phase
	seen     []seenKey              // keys read under its exclusive locks; only appended to
	handover []base.Span            // gaps that its commit gives to other groups
	patches  map[string]*wire.Patch // of its keys, with a slot
	waits    []*lockWait
	advice   map[string][]byte // reasons of the moves advised to it, by key
	asker    base.RegionID     // where they go
	along    map[string]bool   // keys shown to it unasked, of whose use the policy does not know
	crt      bool              // it locks across regions
	bound    bound             // slots below which it must commit
	gone     chan struct{}     // closed when it has ended here; made on demand
	ended    bool
	aborted  bool // set before ended, if it certainly did not commit
	deciding bool
}

type phase uint8

const (
	active     phase = iota
	committing       // one-round commit proposed
	preparing        // vote proposed
	prepared         // vote applied
)

func (p phase) String() string {
	return [...]string{"active", "committing", "preparing", "prepared"}[p]
}

func newReplica(s *Set, g base.GroupID) (*Replica, error) {
	r := &Replica{
		id: g, shard: g.Shard(), region: g.Region(), cfg: &s.cfg, set: s, store: s.cfg.Store, clock: s.cfg.Clock,
		attached: make(chan struct{}), closing: make(chan struct{}), changed: make(chan struct{}),
	}
	r.isAsync = s.cfg.Held != nil && s.cfg.Held.Async(r.shard)
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
	r.close1.Do(func() { close(r.closing) })
	r.mu.Lock()
	r.stopLocked(base.Errorf(base.CodeUnavailable, "group %v: this replica was closed", r.id))
	r.mu.Unlock()
}

// heard is the leader that this replica's group knows of; 0 if none, or while the replica is being opened.
func (r *Replica) heard() base.NodeID {
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

// wake tells all who wait for any change of this replica's state.
func (r *Replica) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// notLeader is the answer of a replica that cannot serve; mu is held.
func (r *Replica) notLeader() *base.Error {
	e := base.Errorf(base.CodeNotLeader, "node %d does not lead group %v", r.cfg.Self, r.id)
	if r.lead.term != 0 {
		e.Node = r.lead.next
	} else {
		e.Node = r.heard()
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
	var timer *time.Timer
	for {
		select {
		case <-r.attached:
		default:
			r.mu.Unlock()
			return base.Errorf(base.CodeUnavailable, "group %v is starting", r.id)
		}
		expects := r.lead.term == 0 && r.expects()
		if r.lead.term == 0 && !expects {
			err := r.notLeader()
			if h := r.helps(); h != nil {
				err = h.err
			}
			r.mu.Unlock()
			return err
		}
		if r.waiting >= r.cfg.MaxWaiting {
			r.mu.Unlock()
			return base.Errorf(base.CodeOverloaded, "group %v: %d requests wait already; retry later", r.id, r.waiting)
		}
		ch := r.changed
		r.waiting++
		r.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(r.cfg.EnterTimeout)
			defer timer.Stop()
		}
		var look <-chan time.Time
		if expects {
			look = time.After(expectEvery)
		}
		var err error
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
		if err != nil {
			r.mu.Unlock()
			return err
		}
		if r.ready(lease, ts) {
			return nil
		}
	}
}

func (r *Replica) ready(lease bool, ts base.Timestamp) bool {
	l := &r.lead
	if r.isAsync && !r.cfg.Held.Confirmed() {
		return false // perhaps others have taken over while this node was away
	}
	if !l.serving || !lease {
		return l.serving
	}
	now := time.Now()
	return l.leaseEnd > ts && l.leaseEnd > r.clock.LatestAt(now) && now.Before(l.until)
}

// waitVector waits until the siblings of this replica have applied what need names.
func (r *Replica) waitVector(ctx context.Context, need []*wire.GroupIndex) error {
	for _, n := range need {
		g := base.DataGroup(r.shard, base.RegionID(n.Region))
		sib := r
		if g != r.id {
			if sib = r.set.Replica(g); sib == nil {
				return base.Errorf(base.CodeUnavailable, "group %v has no replica on node %d, which holds its shard: it is being set up", g, r.cfg.Self)
			}
		}
		if err := sib.WaitApplied(ctx, n.Index, r.cfg.EnterTimeout); err != nil {
			return err
		}
	}
	return nil
}

// WaitApplied waits until everything up to index is visible here.
func (r *Replica) WaitApplied(ctx context.Context, index uint64, atMost time.Duration) error {
	if r.applied.Load() >= index {
		return nil
	}
	return r.await(ctx, atMost, func() bool { return r.applied.Load() >= index },
		"group %v: node %d has not applied index %d in time", r.id, r.cfg.Self, index)
}

// await waits until cond, which is called with mu held, holds. It is told of
// changes by wake.
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

// readWait is commitWait for what was read, which takes its time only where this node may not act at all.
func (r *Replica) readWait(ctx context.Context, ts base.Timestamp) error {
	if r.clock.Settled(ts) || r.cfg.Alone() && ts <= r.clock.Seen() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.EnterTimeout)
	defer cancel()
	return r.clock.Settle(ctx, ts)
}

// life is a context that ends with the replica.
func (r *Replica) life() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-r.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func canceled(ctx context.Context) *base.Error {
	return base.Errorf(base.CodeCanceled, "request ended: %v", context.Cause(ctx))
}

// statusOf is err as it travels; nil for nil.
func statusOf(err error) *wire.Status {
	if err == nil {
		return nil
	}
	var e *base.Error
	if !errors.As(err, &e) {
		return &wire.Status{Code: uint32(base.CodeOther), Msg: err.Error()}
	}
	return &wire.Status{Code: uint32(e.Code), Msg: e.Msg, Node: uint32(e.Node), Key: e.Key, After: uint64(e.After)}
}

// ErrorOf is the error that a status carries; nil if it says that all is well.
func ErrorOf(s *wire.Status) error {
	if s == nil || s.Code == 0 && s.Msg == "" {
		return nil
	}
	return &base.Error{Code: base.Code(s.Code), Msg: s.Msg, Node: base.NodeID(s.Node), Key: s.Key, After: base.Timestamp(s.After)}
}

func txnID(b []byte) (id base.TxnID, ok bool) {
	if len(b) != len(id) {
		return id, false
	}
	return base.TxnID(b), true
}
