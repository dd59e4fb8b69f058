package owner

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/held"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Set is all replicas of one node: it serves the network's requests, and does
// in the background what time demands: leases, abandoned and undecided transactions, collection.
type Set struct {
	cfg    Config
	router *route.Router

	table *held.Table[Replica]

	settled state.Settled

	meta *view.Changes
	gc   gcState

	moves homing.Log

	rise struct { // see ClosedChanged
		mu sync.Mutex
		ch chan struct{}
		on atomic.Bool // ch is there
	}

	stopc    chan struct{}
	stop1    sync.Once
	wg       sync.WaitGroup
	recover  chan struct{} // bounds resolutions under way
	votes    chan struct{} // bounds what spawn runs
	spawning sync.Mutex    // nothing is spawned once stopc is closed
}

// NewSet makes the set and registers its handlers; the transport must not have been started.
func NewSet(cfg Config) *Set {
	cfg.fill()
	s := &Set{cfg: cfg, stopc: make(chan struct{}),
		recover: make(chan struct{}, 64), votes: make(chan struct{}, 4096)}
	s.table = held.New[Replica](cfg.Groups)
	s.router = &route.Router{Self: s.cfg.Self, Caller: s.cfg.Transport, Directory: s.cfg.Directory, Local: s.server,
		Grace: s.cfg.Grace}
	s.meta = view.NewChanges()
	t := cfg.Transport
	route.Register(s.cfg.Self, t.Handle, func(g base.GroupID) route.Answers {
		if r := s.Replica(g); r != nil {
			return r
		}
		return nil
	})
	t.Handle(wire.KindTxnHeartbeat, s.handleHeartbeat)
	t.Handle(wire.KindTouched, s.handleTouched)
	t.Handle(wire.KindVote, s.handleVote)
	return s
}

// Add makes the replica of a group: the state machine for group.Host.Open,
// after which Replica.Attach must be called.
func (s *Set) Add(g base.GroupID) (*Replica, error) {
	r, err := newReplica(s, g)
	if err != nil {
		return nil, err
	}
	s.table.Put(g, r)
	return r, nil
}

// Remove takes a replica out of service, for one that leaves this node.
func (s *Set) Remove(g base.GroupID) {
	if r := s.Replica(g); r != nil {
		s.table.Put(g, nil)
		r.Close()
	}
}

// Recount takes account of the groups that Config.Groups names now.
func (s *Set) Recount() {
	s.table.Recount()
	for _, r := range s.Replicas() {
		r.isAsync.Store(s.cfg.Held != nil && s.cfg.Held.Async(r.shard))
	}
}

// OldestOpen is when the oldest transaction began that has written, or will, in a group led here
// and is not decided; the largest timestamp if there is none.
func (s *Set) OldestOpen() base.Timestamp {
	oldest := base.MaxTimestamp
	for _, r := range s.Replicas() {
		r.mu.Lock()
		if r.lead.Term != 0 {
			for id := range r.rep.Prepared {
				oldest = min(oldest, id.Start())
			}
			for id := range r.rep.Staged {
				oldest = min(oldest, id.Start())
			}
			for x := range r.Pending {
				oldest = min(oldest, x.ID.Start())
			}
		}
		r.mu.Unlock()
	}
	return oldest
}

// nearlyClosed is how much less a group that is to count may have closed than those that do: as
// long may reads wait when it begins to count.
const nearlyClosed = 500 * time.Millisecond

// Lacks says why a group cannot count here yet; empty: it can.
func (s *Set) Lacks(g base.GroupID) string {
	r := s.Replica(g)
	switch {
	case !s.Holds(g.Shard()):
		return fmt.Sprintf("it has not got shard %d yet", g.Shard())
	case r == nil:
		return fmt.Sprintf("its replica of group %v is not open", g)
	case s.Closed(g.Shard()) == 0 || r.Closed().Add(nearlyClosed) < s.Closed(g.Shard()):
		return fmt.Sprintf("it has not heard what group %v closes", g)
	}
	return ""
}

// Replica is this node's replica of a group; nil if it has none.
func (s *Set) Replica(g base.GroupID) *Replica { return s.table.Get(g) }

// Replicas are all of this node, by group.
func (s *Set) Replicas() []*Replica { return s.table.All() }

// siblings are this node's replicas of a shard's groups, by region.
func (s *Set) siblings(shard base.ShardID) *held.Siblings[Replica] { return s.table.Siblings(shard) }

// Holds reports whether this node holds a shard (held.Table).
func (s *Set) Holds(shard base.ShardID) bool { return s.table.Holds(shard) }

// Closed is the consistency point of a shard here: the smallest closed timestamp of its groups; 0
// if the node does not hold it.
func (s *Set) Closed(shard base.ShardID) base.Timestamp {
	if !s.table.Holds(shard) {
		return 0
	}
	c := base.Timestamp(0)
	for _, r := range s.table.Counted(shard) {
		if r != nil && (c == 0 || r.Closed() < c) {
			if c = r.Closed(); c == 0 {
				return 0
			}
		}
	}
	return c
}

// CloseNow is EnsureClosed where that takes no wait; false if it does.
func (s *Set) CloseNow(shard base.ShardID, ts base.Timestamp) bool {
	if !s.Holds(shard) {
		return false
	}
	for _, r := range s.table.Counted(shard) {
		if r != nil && !r.closeNow(ts, false) {
			return false
		}
	}
	return true
}

// EnsureClosed waits until Closed(shard) is at least ts.
func (s *Set) EnsureClosed(ctx context.Context, shard base.ShardID, ts base.Timestamp) error {
	if !s.Holds(shard) {
		return base.Errorf(base.CodeUnavailable, "node %d does not hold all groups of shard %d", s.cfg.Self, shard)
	}
	for _, r := range s.table.Counted(shard) {
		if r != nil {
			if err := r.EnsureClosed(ctx, ts); err != nil {
				return err
			}
		}
	}
	return nil
}

// server is Replica for the router.
func (s *Set) server(g base.GroupID) route.Server {
	if r := s.Replica(g); r != nil {
		return r
	}
	return nil
}

// Router routes requests to the owners.
func (s *Set) Router() *route.Router { return s.router }

// Leads are what this node's leaders say of themselves, for the heartbeats. It also counts them
// here.
func (s *Set) Leads() []*wire.GroupLead {
	var out []*wire.GroupLead
	for _, r := range s.Replicas() {
		if l := r.Lead(); l != nil {
			out = append(out, l)
		}
	}
	s.settled.Note(out)
	return out
}

// OnLeads takes what another node's leaders say in a heartbeat, also of groups that have no replica
// here.
func (s *Set) OnLeads(leads []*wire.GroupLead) {
	for _, l := range leads {
		if r := s.Replica(base.GroupID(l.Group)); r != nil && r.incarnation == l.Incarnation && !r.frozen.Load() {
			r.OnLead(l)
		}
	}
	s.settled.Note(leads)
}

// ForgetOutcomes removes the records of transactions that began before every
// group of the cluster said that all such are decided. It runs by itself once a minute.
func (s *Set) ForgetOutcomes() error {
	if s.cfg.Groups == nil {
		return nil
	}
	before, more := s.settled.Forget(s.cfg.Groups())
	if !more {
		return nil
	}
	b := s.cfg.Store.NewBatch()
	defer b.Close()
	for _, r := range s.Replicas() {
		b.DelTxnRange(r.id, base.MakeTxnID(before, 0, 0))
	}
	return b.Commit(false)
}

// Start begins the background work.
func (s *Set) Start() { s.wg.Go(s.run) }

// Close ends the background work and all replicas.
func (s *Set) Close() {
	s.stop1.Do(func() {
		s.spawning.Lock()
		close(s.stopc)
		s.spawning.Unlock()
	})
	for _, r := range s.Replicas() {
		r.Close()
	}
	s.wg.Wait()
}

func (s *Set) run() {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	var lastForget, lastGC = time.Now(), time.Now()
	for {
		select {
		case <-s.stopc:
			return
		case <-tick.C:
		}
		now := time.Now()
		s.router.Watch(now)
		for _, r := range s.Replicas() {
			r.renew()
			r.watchLease(now)
			r.watchShard(now)
			stale, term := r.expire(now)
			for _, v := range stale {
				s.resolveStale(r, term, v)
			}
		}
		if now.Sub(lastForget) > time.Minute {
			lastForget = now
			if err := s.ForgetOutcomes(); err != nil {
				s.cfg.Logger.Warn("old transaction records stay", "err", err)
			}
		}
		if s.cfg.GCInterval > 0 && now.Sub(lastGC) > s.cfg.GCInterval && s.gc.running.CompareAndSwap(false, true) {
			lastGC = now
			s.wg.Go(func() {
				defer s.gc.running.Store(false)
				ctx, cancel := s.background()
				defer cancel()
				if err := s.Collect(ctx); err != nil && ctx.Err() == nil {
					s.cfg.Logger.Warn("collection of old versions stopped early", "err", err)
				}
			})
		}
	}
}

// background is a context that ends with the set.
func (s *Set) background() (context.Context, context.CancelFunc) { return base.Until(s.stopc) }

// resolveStale finds out, in the background, what became of a transaction that
// has been prepared here for long: its coordinator may be dead.
func (s *Set) resolveStale(r *Replica, term uint64, v *wire.Vote) {
	id, _ := state.TxnID(v.Txn)
	select {
	case s.recover <- struct{}{}:
	default:
		r.notDeciding(id)
		return
	}
	s.wg.Go(func() {
		defer func() { <-s.recover }()
		defer r.notDeciding(id)
		ctx, cancel := s.background()
		defer cancel()
		ctx, cancel2 := context.WithTimeout(ctx, 10*time.Second)
		defer cancel2()
		ts, commit, err := s.router.Outcome(ctx, id, state.Groups(v.Participants))
		if err == nil {
			_, err = r.decide(ctx, id, term, commit, ts)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Info("a prepared transaction stays undecided", "group", r.id, "txn", id, "err", err)
		}
	})
}

func (s *Set) handleHeartbeat(_ context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.TxnHeartbeatRequest
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed heartbeat: %v", err)
	}
	s.Heartbeat(&q)
	return &wire.TxnHeartbeatResponse{}, nil
}

func (s *Set) handleVote(_ context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.VoteNotice
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed vote notice: %v", err)
	}
	if id, ok := state.TxnID(q.Txn); ok {
		switch r, from := s.Replica(base.GroupID(q.Group)), base.GroupID(q.From); {
		case r == nil:
		case q.Vote == nil:
			r.OnVote(id, from)
		case s.Sees(from):
			s.spawn(func(ctx context.Context) {
				if s.AwaitVote(ctx, from, q.Vote) == nil {
					r.OnVote(id, from)
				}
			})
		}
	}
	return &wire.TxnHeartbeatResponse{}, nil
}

// Concurrency is that of the cluster.
func (s *Set) Concurrency() base.Concurrency { return s.cfg.Concurrency }

// spawn runs f in the background, bounded in number and time. What is too much is left undone.
func (s *Set) spawn(f func(ctx context.Context)) {
	s.spawning.Lock()
	defer s.spawning.Unlock()
	select {
	case <-s.stopc:
		return
	case s.votes <- struct{}{}:
	default:
		return
	}
	s.wg.Go(func() {
		defer func() { <-s.votes }()
		ctx, cancel := s.background()
		defer cancel()
		ctx, cancel2 := context.WithTimeout(ctx, 10*time.Second)
		defer cancel2()
		f(ctx)
	})
}

// Heartbeat keeps transactions alive in all groups led here.
func (s *Set) Heartbeat(q *wire.TxnHeartbeatRequest) {
	ids := make([]base.TxnID, 0, len(q.Txns))
	for _, b := range q.Txns {
		if id, ok := state.TxnID(b); ok {
			ids = append(ids, id)
		}
	}
	for _, r := range s.Replicas() {
		r.Heartbeat(ids)
	}
}

// Segment is a part of a span and the group that owns it, as far as this node knows.
type Segment = view.Owned

// Locate guesses the owner of a key from the local replica; ok is false if the shard is not held
// here.
func (s *Set) Locate(key base.Key) (g base.GroupID, ok bool) {
	shard := key.Shard()
	if shard == base.MetaShard {
		return base.MetaGroup, true
	}
	if !s.Holds(shard) {
		return 0, false
	}
	return view.OwnerOf(s.cfg.Store, key)
}

// Segments guesses who owns the parts of a range, from the local replica, in key order. It looks at
// no more than maxKeys keys and takes the rest for the last one's owner. ok is false if the shard
// is not held here.
func (s *Set) Segments(span base.Span, maxKeys int) (out []Segment, ok bool) {
	if span.Start.Shard() == base.MetaShard {
		return []Segment{{Span: span, Owner: base.MetaGroup}}, true
	}
	if !s.Holds(span.Start.Shard()) {
		return nil, false
	}
	return view.OwnersOf(s.cfg.Store, span, maxKeys)
}
