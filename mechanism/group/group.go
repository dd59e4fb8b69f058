package group

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// Entry is a committed command.
type Entry struct {
	Index, Term uint64
	// Cmd is the proposer's own object where it was proposed, else decoded; read only.
	Cmd *wire.Command
	// Data is Cmd as it is in the log; read only.
	Data []byte
	// Arrived is when the entry came to this node's log, or later: after it was proposed.
	Arrived time.Time
}

// StateMachine is what a group replicates. All methods run in turns of the group, one
// at a time, in log order, and hold up the group while they run. They may begin
// before Host.Open has returned.
type StateMachine interface {
	// Apply writes committed commands into b, which also gets the applied
	// index. Entries of raft itself (a term's first entry, membership changes)
	// are not shown, so indexes have gaps. results[i] goes to the proposer of
	// ents[i]; a nil slice is nil for all. An error stops the replica for good.
	Apply(b *store.Batch, ents []Entry) (results []any, err error)
	// Applied tells that everything up to index is visible in the store; also
	// for entries that Apply was not shown.
	Applied(index uint64)
	// Leading tells that this replica leads in term and has applied everything that was committed
	// in earlier ones: all that its log has before first, the index of the term's own first entry.
	// first is 0 when it follows Revoking because the hand-over was given up: the owner may serve
	// on in the same term, once an entry of it commits.
	Leading(term, first uint64)
	// Revoking asks the owner to stop serving, because the lead is to be handed to another node.
	// The owner calls done, once, from any goroutine; an error there gives the hand-over up.
	// appointed says that it has had the other node stand for election (Group.Stand): nothing is to
	// be proposed in this term any more, but the owner serves on until Stopped. Else raft is to
	// move the lead.
	Revoking(term uint64, to base.NodeID, done func(appointed bool, err error))
	// Stopped tells that the lead told of by Leading in that term is lost.
	Stopped(term uint64)
	// SnapshotInstalled tells that the replica's state was replaced by a
	// snapshot that includes everything up to index: reload from the store.
	SnapshotInstalled(index uint64)
}

// Remover is implemented by state machines that want to know that the replica
// was removed from its group and its raft state destroyed.
type Remover interface{ Removed() }

// published is what a group publishes of itself after every change.
type published struct {
	term     uint64
	lead     base.NodeID
	leads    bool // this replica is raft's leader
	serving  bool // and has told its state machine so
	conf     *pb.ConfState
	voters   []base.NodeID // incoming and, during a joint change, outgoing
	outgoing []base.NodeID
	learners []base.NodeID
	err      error
}

// Group is this node's replica of one consensus group.
type Group struct {
	host      *Host
	id        base.GroupID
	sm        StateMachine
	preferred func() base.NodeID
	// incarnation is how often the group was begun anew from what survived the loss of its region.
	// Replicas of different ones do not speak with each other.
	incarnation uint32
	frozen      atomic.Bool // no message comes in
	mb          *mailbox

	published    atomic.Pointer[published]
	applied      atomic.Uint64
	pendingN     atomic.Int64
	pendingBytes atomic.Int64

	ticks atomic.Int32 // host ticks not yet given to raft
	beats atomic.Int32 // heartbeat ticks of the host not yet seen
	// wake the goroutine when ticks reaches this; 0: on aligned ticks (leaders); <0 never
	wakeAt atomic.Int32

	waitMu  sync.Mutex
	waiters map[chan struct{}]uint64
	nWait   atomic.Int32
	changed chan struct{} // closed and replaced at each change of published; guarded by waitMu

	turns chan struct{} // capacity 1: full while somebody touches loop
	stopc chan struct{} // closed by stop
	stop1 sync.Once
	done  chan struct{} // closed when the goroutine has ended

	loop // owned by the goroutine that does the turn
}

// loop is the state that only a turn touches: the group's goroutine, or one that pushes.
type loop struct {
	rn    *raft.RawNode
	log   *store.Log
	disk  *storage
	now   uint64 // ticks seen
	pend  pending
	props []*proposal // of a sole voter, waiting for the disk

	view
	membership
	leadership
	follower
	leases
	suspicion suspicion
	logWriter
	applier

	lazy    bool // heartbeats are queued that no flush has taken
	touched map[*outbox]struct{}
	removed bool
	failed  error
}

// view is what raft says of the group.
type view struct {
	term  uint64
	lead  uint64
	state raft.StateType
	sole  bool // the only voter is this node
	guest bool // this turn is one of Push
	voter bool // this node votes
}

// membership is who belongs to the group.
type membership struct {
	conf *pb.ConfState
	// confApplied is the index of the last membership change applied since the
	// start; confIndex is where this leader proposed its last one.
	confApplied, confIndex uint64
	// newcomers are the members that this leader has taken in and not sent a snapshot yet: what
	// they acknowledge is of an earlier membership.
	newcomers map[uint64]bool
}

// leadership is what counts while this node leads.
type leadership struct {
	serving  bool      // Leading(term) was called, and Stopped not yet
	first    uint64    // index of the term's own first entry
	xfer     *handover // nil: none is under way
	arrivals arrivals
	passed   uint64    // to whom the lead was passed on last, see passOn
	madeWay  int       // how often the lead was to go, see makeWay
	nextPref uint64    // tick before which no hand-over to the preferred leader begins
	prefWait uint64    // present back-off of those, ticks
	passes   uint64    // tick before which the lead of a stalled leader is not given away again
	leadTick uint64    // tick at which the lead was won
	past     [4]uint64 // index of the last entry at the last heartbeats, the latest first
	alone    uint64    // tick at which it steps down, if no majority is in reach by then; 0: one is
}

// follower is what counts while another node leads, or none.
type follower struct {
	candidacy *candidacy        // this node has been asked to stand for election
	known     position          // of an entry that a former leader has said to be committed
	elapsed   int               // ticks given to raft since the leader was last heard
	campaign  int               // ticks until an early campaign; 0 none
	down      map[uint64]uint64 // until which tick a peer counts as down
	queued    int               // of these, the ticks in which others stand first
	patience  int               // ticks until the others have noticed, too, that the leader is late
	left      uint64            // the leader that was dead, or late, when it was set
	heard     uint64            // tick at which a leader was last heard
	outrun    outrun
	canvass   canvass
	regains   uint64 // tick until which it asks for the lead that it has lost to nobody
	splits    int    // how often it has been a candidate since there was a leader
	asked     int    // how often it has asked for pre-votes since then
	askIn     int    // ticks until it asks again, unless it stands in its turn before; 0: it does not
	yields    uint64 // tick until which it lets one be elected that stood at the same time
}

// logWriter is what goes from raft to the disk.
type logWriter struct {
	saved   pb.HardState  // term and vote that are durable or under way
	appends []*pb.Message // MsgStorageAppend in order, not started
	flights []flight      // those written and being synced, in order
	commitc chan<- *store.Batch
	staged  *stagedSnapshot // stepped into raft, not installed yet
	parked  bool            // the snapshot is being installed: the log is not ours
	crowd   int             // so many batches of a sole voter still expect company, see startAppend
}

// flight is what becomes durable together.
type flight struct {
	msgs []*pb.Message
	at   uint64 // tick at which it was written
}

// applier is what goes from raft to the state machine.
type applier struct {
	applies       []*pb.Message // MsgStorageApply in order
	ents          []Entry       // buffers of apply
	verdicts      []verdict
	truncateCheck uint64 // applied index at which to look at the log's size again
	truncateBytes int64  // the same, in bytes of the log
}

// ID is the group's name.
func (g *Group) ID() base.GroupID { return g.id }

// Leader is the leader and term as far as this replica knows; 0 if unknown.
func (g *Group) Leader() (base.NodeID, uint64) {
	w := g.published.Load()
	return w.lead, w.term
}

// Leads reports whether this replica leads and has told its state machine so, and the term.
func (g *Group) Leads() (term uint64, ok bool) {
	w := g.published.Load()
	return w.term, w.serving
}

// Applied is the index up to which entries are applied and visible in the store.
func (g *Group) Applied() uint64 { return g.applied.Load() }

// Hops is the number of one-way WAN crossings a proposal here waits for: 0 if
// the voters of the leader's region are a quorum, else 2.
func (g *Group) Hops() int {
	w := g.published.Load()
	t := g.host.opts.Transport
	mine := t.Region(g.host.opts.Self)
	cross := func(voters []base.NodeID) bool {
		near := 0
		for _, id := range voters {
			if id == g.host.opts.Self || t.Region(id) == mine {
				near++
			}
		}
		return near < len(voters)/2+1
	}
	if cross(w.voters) || len(w.outgoing) > 0 && cross(w.outgoing) {
		return 2
	}
	return 0
}

// FarCopies is how many members lie in other regions.
func (g *Group) FarCopies() int {
	w := g.published.Load()
	t := g.host.opts.Transport
	mine := t.Region(g.host.opts.Self)
	n := 0
	for _, ids := range [][]base.NodeID{w.voters, w.learners} {
		for _, id := range ids {
			if id != g.host.opts.Self && t.Region(id) != mine {
				n++
			}
		}
	}
	return n
}

// Propose appends cmd in the given term (0: whichever) and waits until it is
// applied here. cmd must not change afterwards. The WAN hops and bytes that
// the proposal costs are counted into the trace of ctx.
//
// Errors: CodeNotLeader (with a hint), CodeAborted (another term, or the entry
// was certainly overwritten), CodeOverloaded, CodeCanceled, CodeInvalid,
// CodeUnavailable: it has not and will not commit. CodeAmbiguous: it may have
// committed or may still.
func (g *Group) Propose(ctx context.Context, cmd *wire.Command, term uint64) (any, uint64, error) {
	type outcome struct {
		result any
		index  uint64
		err    error
	}
	ch := make(chan outcome, 1)
	p := g.propose(cmd, term, nil, func(result any, index uint64, err error) { ch <- outcome{result, index, err} })
	g.mb.wake()
	var o outcome
	if step := obs.TraceOf(ctx).Span().Step("log entry"); step != nil {
		defer func() { step.Done(o.err != nil || o.index == 0, obs.Attr{Key: "godwit.group", Value: g.id.String()}) }()
	}
	select {
	case o = <-ch:
	case <-ctx.Done():
		if p.state.CompareAndSwap(propQueued, propWithdrawn) {
			return nil, 0, base.Errorf(base.CodeCanceled, "group %v: %v before the command was proposed", g.id, ctx.Err())
		}
		select {
		case o = <-ch: // it was being answered
		default:
			return nil, 0, base.Errorf(base.CodeAmbiguous,
				"group %v: %v while the command was being replicated; it may still commit", g.id, ctx.Err())
		}
	}
	if t := obs.TraceOf(ctx); t != nil && o.index != 0 {
		t.AddHops(g.Hops())
		far := g.FarCopies()
		t.AddBytes(far, far*len(p.data))
	}
	return o.result, o.index, o.err
}

// ProposeAsync is Propose without a goroutine that waits: done runs once, in
// a turn of the group, and must be quick; it may propose. Commands proposed
// one after the other are appended in that order.
func (g *Group) ProposeAsync(cmd *wire.Command, term uint64, done func(result any, index uint64, err error)) {
	g.propose(cmd, term, nil, done)
	g.mb.wake()
}

// ProposePlaced is ProposeAsync that also tells the index of the entry as soon as this leader's log
// has it. placed must not block; it is not called for what is not appended.
func (g *Group) ProposePlaced(cmd *wire.Command, term uint64, placed func(index uint64),
	done func(result any, index uint64, err error)) {
	g.propose(cmd, term, placed, done)
	g.mb.wake()
}

// Enqueue is ProposeAsync for a caller that calls Push as soon as it holds no locks.
func (g *Group) Enqueue(cmd *wire.Command, term uint64, done func(result any, index uint64, err error)) {
	g.propose(cmd, term, nil, done)
}

func (g *Group) propose(cmd *wire.Command, term uint64, placed func(uint64), done func(any, uint64, error)) *proposal {
	h := g.host
	if cmd.Proposal == 0 {
		cmd.Proposal = h.nextProposal()
	}
	p := &proposal{cmd: cmd, want: term, placed: placed, done: done}
	if size := cmd.SizeVT(); size > h.opts.MaxCommandBytes {
		p.err = base.Errorf(base.CodeInvalid, "group %v: a command of %d bytes exceeds the limit of %d; "+
			"split the transaction", g.id, size, h.opts.MaxCommandBytes)
	} else if data := make([]byte, size); true { // MarshalVT would look once more how large it is
		n, err := cmd.MarshalToSizedBufferVT(data)
		if p.data = data[size-n:]; err != nil {
			p.err = base.Errorf(base.CodeInvalid, "group %v: command cannot be encoded: %v", g.id, err)
		}
	}
	n, bytes := g.pendingN.Add(1), g.pendingBytes.Add(int64(len(p.data)))
	if p.err == nil && (n > int64(h.opts.MaxPending) || bytes > h.opts.MaxPendingBytes && n > 1) {
		p.err = base.Errorf(base.CodeOverloaded, "group %v: %d proposals of %d bytes wait already; retry later", g.id,
			n-1, bytes-int64(len(p.data)))
	}
	if !g.mb.putProposal(p) {
		p.state.Store(propTaken)
		go g.answer(p, nil, 0, g.gone())
	}
	return p
}

// gone is why a group that has ended takes nothing any more.
func (g *Group) gone() error {
	if w := g.published.Load(); w.err != nil {
		return w.err
	}
	return base.Errorf(base.CodeUnavailable, "group %v: this replica was closed", g.id)
}

// WaitApplied waits until Applied() is at least index.
func (g *Group) WaitApplied(ctx context.Context, index uint64) error {
	if g.applied.Load() >= index {
		return nil
	}
	ch := make(chan struct{})
	g.waitMu.Lock()
	g.waiters[ch] = index
	g.nWait.Store(int32(len(g.waiters)))
	g.waitMu.Unlock()
	defer func() {
		g.waitMu.Lock()
		delete(g.waiters, ch)
		g.nWait.Store(int32(len(g.waiters)))
		g.waitMu.Unlock()
	}()
	if g.applied.Load() >= index {
		return nil
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return base.Errorf(base.CodeCanceled, "group %v: %v while waiting for index %d to be applied (now %d)", g.id,
			ctx.Err(), index, g.applied.Load())
	case <-g.done:
		return g.gone()
	}
}

// setApplied publishes an applied index and wakes those that wait for it.
func (g *Group) setApplied(index uint64) {
	g.applied.Store(index)
	if g.nWait.Load() == 0 {
		return
	}
	g.waitMu.Lock()
	for ch, want := range g.waiters {
		if want <= index {
			close(ch)
			delete(g.waiters, ch)
		}
	}
	g.nWait.Store(int32(len(g.waiters)))
	g.waitMu.Unlock()
}

// change is closed at the next change of leader, term or membership.
func (g *Group) change() <-chan struct{} {
	g.waitMu.Lock()
	defer g.waitMu.Unlock()
	return g.changed
}

// do runs f in the group's goroutine and waits for it.
func (g *Group) do(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	if !g.mb.put(func(in *mail) { in.ctl = append(in.ctl, func() { f(); close(ran) }) }) {
		return g.gone()
	}
	select {
	case <-ran:
		return nil
	case <-ctx.Done():
		return base.Errorf(base.CodeCanceled, "group %v: %v", g.id, ctx.Err())
	case <-g.done:
		return g.gone()
	}
}

// later runs f in the group's goroutine; false if the group has ended. One that
// ends meanwhile may not run it either.
func (g *Group) later(f func()) bool {
	return g.mb.put(func(in *mail) { in.ctl = append(in.ctl, f) })
}

// Campaign makes this replica stand for election now, if it votes and does not lead.
func (g *Group) Campaign() {
	g.later(func() {
		if g.mayStand() {
			_ = g.rn.Campaign()
		}
	})
}
