package group

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Host runs the replicas of one node: one store, one transport, one ticker.
type Host struct {
	opts  HostOptions
	share Sharer // the transport, if it is one
	snaps *snapshots
	stats hostStats
	seq   atomic.Uint64 // of proposals

	single atomic.Bool // messages to other regions travel one by one

	opening sync.Mutex

	mu      sync.RWMutex
	groups  map[base.GroupID]*Group
	out     map[base.NodeID]*outbox
	fans    map[base.RegionID]*outbox // of what several nodes of a region get
	started bool
	closed  bool

	stopc chan struct{}
	wg    sync.WaitGroup
}

type hostStats struct {
	batches, messages, dropped, sendFailed        atomic.Int64
	snapSent, snapFailed, snapBytes, snapReceived atomic.Int64
}

// Stats are counters since the host was made.
type Stats struct {
	Batches  int64 // RaftBatches sent
	Messages int64 // raft messages in them
	Dropped  int64 // raft messages dropped because a peer's queue was full
	Failed   int64 // raft messages the transport refused
	// Snapshot streams sent, that failed, and received; payload bytes sent.
	SnapshotsSent, SnapshotsFailed, SnapshotsReceived, SnapshotBytes int64
}

// Stats returns the host's counters.
func (h *Host) Stats() Stats {
	s := &h.stats
	return Stats{s.batches.Load(), s.messages.Load(), s.dropped.Load(), s.sendFailed.Load(),
		s.snapSent.Load(), s.snapFailed.Load(), s.snapReceived.Load(), s.snapBytes.Load()}
}

// NewHost makes a host and registers its handlers with the transport, which
// must not have been started yet.
func NewHost(opts HostOptions) (*Host, error) {
	if err := opts.fill(); err != nil {
		return nil, err
	}
	h := &Host{opts: opts, groups: map[base.GroupID]*Group{}, out: map[base.NodeID]*outbox{},
		fans: map[base.RegionID]*outbox{}, stopc: make(chan struct{})}
	// Proposal ids of successive lives of a process should differ, in logs and in traces.
	h.seq.Store(uint64(time.Now().UnixMilli()) << 10 & (1<<40 - 1))
	h.share, _ = opts.Transport.(Sharer)
	h.snaps = newSnapshots(h)
	opts.Transport.HandleOrdered(wire.KindRaft, h.receive)
	opts.Transport.Handle(wire.KindSnapshot, h.snaps.handle)
	opts.Transport.Handle(wire.KindSuspect, h.onSuspect)
	return h, nil
}

// SetBatching says whether messages of all groups to a node of another region travel together when
// they have gathered, as they do to begin with; or one by one, which shows what that is good for.
func (h *Host) SetBatching(on bool) { h.single.Store(!on) }

func (h *Host) nextProposal() uint64 {
	return uint64(h.opts.Self)<<40 | h.seq.Add(1)&(1<<40-1)
}

// Open starts this node's replica of a group. If the store has state of it,
// members is ignored. Else, if this node is among members, the group is fresh
// and every first member must be opened with the same members; if it is not
// (or members is empty), the replica waits until a leader that was told of it
// by ChangeMembers sends it a snapshot. Never start an empty store under the id of
// a node that has voted before.
//
// preferred, which may be nil, names the node that should lead, or 0; it is
// called often and must be quick.
//
// Errors: CodeCorrupt when what is stored does not fit together.
func (h *Host) Open(id base.GroupID, members Conf, sm StateMachine, preferred func() base.NodeID) (*Group, error) {
	g := &Group{
		host: h, id: id, sm: sm, preferred: preferred, mb: newMailbox(),
		waiters: map[chan struct{}]uint64{}, changed: make(chan struct{}),
		turns: make(chan struct{}, 1), stopc: make(chan struct{}), done: make(chan struct{}),
	}
	g.touched = map[*outbox]struct{}{}
	g.published.Store(&published{})
	h.opening.Lock() // reads the disk: traffic of the other groups goes on
	defer h.opening.Unlock()
	if h.Group(id) != nil {
		return nil, base.Errorf(base.CodeInvalid, "group %v is open already", id)
	}
	if err := g.recover(members); err != nil {
		return nil, err
	}
	if err := g.makeRaft(); err != nil {
		return nil, err
	}
	g.publish()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, base.Errorf(base.CodeUnavailable, "group %v: node %d is closing", id, h.opts.Self)
	}
	h.groups[id] = g
	if h.started {
		go g.run()
	}
	return g, nil
}

// makeRaft starts raft on what is stored. It panics where that is broken.
func (g *Group) makeRaft() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = g.damaged("raft refuses it: %s", fmt.Sprint(r))
		}
	}()
	o := &g.host.opts
	g.rn, err = raft.NewRawNode(&raft.Config{
		ID:                        uint64(o.Self),
		ElectionTick:              o.ElectionTicks,
		HeartbeatTick:             o.HeartbeatTicks,
		Storage:                   g.disk,
		Applied:                   g.applied.Load(),
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             o.MaxMsgBytes,
		MaxCommittedSizePerReady:  1 << 20,
		MaxUncommittedEntriesSize: uint64(o.MaxPendingBytes) + uint64(o.MaxCommandBytes),
		MaxInflightMsgs:           o.MaxInflightMsgs,
		MaxInflightBytes:          o.MaxInflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    raftLogger{o.Logger.With("group", g.id.String())},
	})
	return err
}

// Group is the open replica of a group; nil if there is none.
func (h *Host) Group(id base.GroupID) *Group {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.groups[id]
}

// Groups are the open replicas, by id.
func (h *Host) Groups() []*Group {
	h.mu.RLock()
	gs := make([]*Group, 0, len(h.groups))
	for _, g := range h.groups {
		gs = append(gs, g)
	}
	h.mu.RUnlock()
	slices.SortFunc(gs, func(a, b *Group) int { return int(int64(a.id) - int64(b.id)) })
	return gs
}

// Start sets the replicas going. The transport is started by its owner, before or after.
func (h *Host) Start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.closed {
		return base.Errorf(base.CodeInvalid, "group host of node %d was started or closed before", h.opts.Self)
	}
	h.started = true
	for _, g := range h.groups {
		go g.run()
	}
	h.wg.Go(h.clockwork)
	return nil
}

// Close stops all replicas. Proposals under way are answered CodeAmbiguous.
// The transport and the store are closed by their owner, afterwards.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	started := h.started
	gs := make([]*Group, 0, len(h.groups))
	for _, g := range h.groups {
		gs = append(gs, g)
	}
	h.mu.Unlock()
	close(h.stopc)
	for _, g := range gs {
		g.stop()
	}
	if started {
		for _, g := range gs {
			<-g.done
		}
	}
	h.snaps.close()
	h.wg.Wait()
	return nil
}

func (g *Group) stop() { g.stop1.Do(func() { close(g.stopc) }) }

// Remove stops this node's replica of a group. With destroy it forgets
// everything of the group but term and vote: for a replica that is no longer
// a member and could not learn of it.
func (h *Host) Remove(id base.GroupID, destroy bool) error {
	h.mu.Lock()
	g := h.groups[id]
	delete(h.groups, id)
	started := h.started
	h.mu.Unlock()
	if g == nil {
		return base.Errorf(base.CodeInvalid, "group %v is not open on node %d", id, h.opts.Self)
	}
	g.stop()
	if started {
		<-g.done
	}
	if destroy {
		return g.destroy()
	}
	return nil
}

// ended is told by a group's goroutine that it ends.
func (h *Host) ended(g *Group, err error) {
	switch {
	case g.removed:
		if err := g.destroy(); err != nil {
			h.opts.Logger.Error("state of a removed replica cannot be deleted", "group", g.id.String(), "err", err)
		}
		// not before: Close waits for the groups that are here, then the store may be closed
		h.mu.Lock()
		if h.groups[g.id] == g {
			delete(h.groups, g.id)
		}
		h.mu.Unlock()
		if r, ok := g.sm.(Remover); ok {
			r.Removed()
		}
	case err != nil && g.failed != nil:
		h.opts.Logger.Error("replica stopped", "group", g.id.String(), "err", err)
		if h.opts.Fatal != nil {
			go h.opts.Fatal(g.id, err)
		}
	}
}

// OnPeerDown tells that a node does not answer any more (its connection was
// reset, its heartbeats stopped). Groups that it led elect another leader at once
// instead of waiting for their election timeout. A false alarm does no harm.
func (h *Host) OnPeerDown(node base.NodeID) {
	for _, g := range h.Groups() {
		g.later(func() { g.peerDown(uint64(node)) })
	}
}

// OnPeerBack tells that a node answers that did not, or was not known of. Voters of groups without
// a leader, of which it may complete a majority, stand for election again (GRP-12).
func (h *Host) OnPeerBack(node base.NodeID) {
	if h.opts.PatientReturns {
		return
	}
	for _, g := range h.Groups() {
		g.later(func() { g.peerBack(uint64(node)) })
	}
}

// OnPeerReached tells that messages take a new way to a node, behind a cut. Groups that this node
// leads, or that one, do not wait for the next heartbeat (GRP-14).
func (h *Host) OnPeerReached(node base.NodeID) {
	if h.opts.PatientPaths {
		return
	}
	for _, g := range h.Groups() {
		g.later(func() { g.reached(uint64(node)) })
	}
}

// OnPeerLate tells that most nodes find a node late: it handles late what arrives. Groups that it
// leads elect another leader, though its heartbeats come (GRP-8). It may be called again while that
// lasts.
func (h *Host) OnPeerLate(node base.NodeID) {
	for _, g := range h.Groups() {
		g.later(func() { g.leaderLate(uint64(node)) })
	}
}

// clockwork is the ticker of all groups.
func (h *Host) clockwork() {
	t := time.NewTicker(h.opts.TickInterval)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-t.C:
		case <-h.stopc:
			return
		}
		h.tick(n%h.opts.HeartbeatTicks == 0)
	}
}

func (h *Host) tick(beat bool) {
	h.snaps.giveWay()
	r := &round{h: h}
	r.add()
	h.mu.RLock()
	for _, g := range h.groups {
		n := g.ticks.Add(1)
		if beat {
			g.beats.Add(1)
		}
		if w := g.wakeAt.Load(); w > 0 && n >= w || w == 0 && beat {
			g.mb.put(func(in *mail) {
				r.add()
				in.rounds = append(in.rounds, r)
			})
		}
	}
	h.mu.RUnlock()
	r.done()
}

func (h *Host) outbox(to base.NodeID) *outbox {
	return base.Lazily(&h.mu, h.out, to, func() *outbox { return &outbox{h: h, to: to} })
}

// fan is the outbox of a region.
func (h *Host) fan(r base.RegionID) *outbox {
	return base.Lazily(&h.mu, h.fans, r, func() *outbox { return &outbox{h: h, region: r} })
}

func (h *Host) flushAll() {
	h.mu.RLock()
	out := make([]*outbox, 0, len(h.out)+len(h.fans))
	for _, o := range h.out {
		out = append(out, o)
	}
	for _, o := range h.fans {
		out = append(out, o)
	}
	h.mu.RUnlock()
	for _, o := range out {
		o.flush()
	}
}

// accepted are the messages that nodes send each other. Snapshots come by
// streams, proposals are not forwarded.
func accepted(t pb.MessageType) bool {
	switch t {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgVote, pb.MsgVoteResp,
		pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgTimeoutNow:
		return true
	}
	return false
}

// receive deals a RaftBatch out to the groups.
func (h *Host) receive(from base.NodeID, body []byte) {
	var batch wire.RaftBatch
	if err := batch.UnmarshalVT(body); err != nil || len(batch.Groups) != len(batch.Messages) {
		h.opts.Logger.Warn("raft batch cannot be decoded", "from", from, "err", err)
		return
	}
	r := &round{h: h, peer: h.outbox(from)}
	r.add()
	for i, raw := range batch.Messages {
		g := h.Group(base.GroupID(batch.Groups[i]))
		incarnation := uint32(0)
		if i < len(batch.Incarnations) {
			incarnation = batch.Incarnations[i]
		}
		if g == nil || incarnation != g.incarnation || g.frozen.Load() {
			continue
		}
		m, err := unmarshalMessage(raw)
		if err != nil || m.GetFrom() != uint64(from) || m.GetTo() != uint64(h.opts.Self) || !accepted(m.GetType()) {
			h.opts.Logger.Warn("raft message refused", "from", from, "group", g.id.String(), "type", m.GetType(), "err", err)
			continue
		}
		var in *round
		if m.GetType() == pb.MsgHeartbeat {
			in = r
		}
		g.mb.putMsg(m, len(raw), in)
	}
	r.done()
}
