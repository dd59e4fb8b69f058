package group

import (
	"fmt"
	"runtime/debug"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// run is the group's goroutine. Raft, the log and the state machine are touched only in its
// turns, one at a time (Group.turns); a proposer may do one in its place (Push).
//
// One turn takes everything that waits in the mailbox: acknowledgements of the
// disk, ticks, messages, control functions, proposals. Then it handles what
// raft makes of them (AsyncStorageWrites), in this order:
//
//  1. messages to other nodes go out; a leader's appends do not wait for its own disk.
//  2. entries and votes go to the disk, one synced batch at a time; what comes
//     meanwhile gathers for the next. Acknowledgements and votes are held back
//     until their batch is durable.
//  3. committed entries are applied, in one unsynced batch with the applied
//     index, and their proposers are answered.
func (g *Group) run() {
	commits, committed := make(chan *store.Batch, maxFlights), make(chan struct{})
	g.commitc = commits
	go func() {
		g.commitLoop(commits)
		close(committed)
	}()
	defer func() {
		close(commits)
		<-committed
		close(g.done)
	}()
	// The turn is not given back at the end: nobody may help any more.
	defer g.shutdown()
	g.turns <- struct{}{}
	g.guarded(g.begin)
	for g.failed == nil && !g.removed {
		<-g.turns
		select {
		case <-g.mb.sig:
			g.turns <- struct{}{}
		case <-g.stopc:
			g.turns <- struct{}{}
			return
		}
		g.guarded(g.takeTurn)
	}
}

// guarded runs a piece of the group's life; a panic stops the replica, not the process.
func (g *Group) guarded(f func()) {
	defer func() {
		if r := recover(); r != nil {
			g.failed = base.Errorf(base.CodeCorrupt, "group %v: replica stopped: %v", g.id, r)
			g.host.opts.Logger.Error("replica stopped", "group", g.id.String(), "panic", fmt.Sprint(r), "stack",
				string(debug.Stack()))
		}
	}()
	f()
}

func (g *Group) takeTurn() {
	// else a turn of another ended the replica: shutdown answers the rest
	if g.failed == nil && !g.removed {
		g.turn(g.mb.take())
	}
}

// Push sees to what Enqueue queued, or the disk has done: if no turn is under way, the caller does
// one, which saves two changes of goroutine; else the group's goroutine will. The caller may hold
// no lock that the state machine takes. It does not wait for the disk: a statement that does while
// the disk stands still cannot be answered.
func (g *Group) Push() {
	select {
	case g.turns <- struct{}{}:
	default:
		g.mb.wake()
		return
	}
	if g.mb.pushed() {
		g.guest = !g.host.opts.GuestsWait
		g.guarded(g.takeTurn)
		g.guest = false
	}
	ended := g.failed != nil || g.removed
	<-g.turns
	if ended {
		g.mb.wake()
	}
}

func (g *Group) turn(in mail) {
	if in.err != nil {
		g.fail(base.Errorf(base.CodeOf(in.err), "group %v: log entries cannot be stored: %v", g.id, in.err))
		return
	}
	for range in.synced {
		g.appendDone()
	}
	if in.placed != nil {
		g.snapshotPlaced(in.placed)
	}
	g.tick(in.msgs)
	for _, m := range in.msgs {
		if !g.heeds(m) || g.early(m) {
			continue
		}
		g.step(m)
	}
	for _, s := range in.snaps {
		g.stepSnapshot(s)
	}
	for _, f := range in.ctl {
		f()
	}
	if len(in.props)+len(g.props) > 0 {
		g.collect() // so that term and leader are those the proposals are judged by
		g.handIn(in.props)
	}
	g.drain()
	g.flushLazy(len(in.rounds) > 0)
	g.publish()
	for _, r := range in.rounds {
		r.done()
	}
}

// step gives a message to raft. A leader whose term ends with an answer of a later one stands again
// soon, unless it hears of another leader (GRP-11), and so does a candidate (GRP-18).
func (g *Group) step(m *pb.Message) {
	if m.GetType() == pb.MsgPreVote && g.state == raft.StateFollower && g.lead != 0 {
		g.noteOutrun(m)
	}
	if m.GetType() == pb.MsgPreVoteResp {
		g.noteAnswer(m)
		defer g.yield()
	}
	ends := g.state == raft.StateLeader && m.GetType() == pb.MsgAppResp && m.GetTerm() > g.term
	outdated := g.state == raft.StatePreCandidate && m.GetType() == pb.MsgPreVoteResp && m.GetTerm() > g.term && m.GetReject()
	// Errors are of messages that come too late or from nodes that were removed.
	if _ = g.rn.Step(m); ends {
		g.lostLead()
	} else if outdated && !g.host.opts.QuietLosers {
		g.standAgain(m)
	}
}

// lostLead has a leader whose term raft may just have ended stand again soon, if that made no other
// node the leader (GRP-11).
func (g *Group) lostLead() {
	if s := g.rn.BasicStatus(); s.RaftState == raft.StateFollower && s.Lead == raft.None && g.voter && !g.host.opts.QuietLosers {
		g.campaign, g.queued, g.regains = campaignGap, 0, g.now+uint64(g.host.opts.ElectionTicks)
		if g.sick() {
			g.queue()
		}
	}
}

// heeds reports whether a message may be given to raft. What is not is of an earlier membership of
// its sender or of this node, of which raft, for which members do not forget, knows nothing.
func (g *Group) heeds(m *pb.Message) bool {
	if g.shuns(m) {
		if m.GetType() == pb.MsgHeartbeat {
			g.answerShunned(m)
		}
		return false
	}
	if g.suspicion.bars(m) || g.named(m) {
		return false
	}
	switch m.GetType() {
	case pb.MsgPreVoteResp:
		return g.now >= g.yields || m.GetReject()
	case pb.MsgAppResp:
		return len(g.newcomers) == 0 || m.GetReject() || !g.newcomers[m.GetFrom()]
	case pb.MsgVote, pb.MsgPreVote:
		// Without state this node is a member for nobody but those who have not heard of its
		// removal; to its empty log any other looks complete, also one that lacks what was
		// committed since.
		return len(g.conf.Voters) > 0
	case pb.MsgHeartbeat:
		// A leader names a commit index that this node has acknowledged. To an empty log that is a
		// heartbeat of before the removal, overtaken by the word of it: that may come in an append
		// over another node, or be asked for on another connection.
		if m.GetCommit() == 0 {
			return true
		}
		if len(g.conf.Voters)+len(g.conf.Learners) > 0 {
			g.lacks(m)
			return g.failed == nil
		}
		last, err := g.log.LastIndex()
		return err != nil || m.GetCommit() <= last
	}
	return true
}

// drain handles what raft has ready until nothing is left to do without waiting.
func (g *Group) drain() {
	for g.failed == nil {
		g.collect()
		g.flush()
		more := g.startAppend()
		if g.candidacy != nil {
			g.tryCampaign()
		}
		more = g.runApplies() || more
		if err := g.applyKnown(); err != nil {
			g.fail(err)
			return
		}
		g.tellLeading()
		if !more && !g.rn.HasReady() {
			return
		}
	}
}

// collect sorts what raft has ready into messages to send, appends and applies.
func (g *Group) collect() {
	for g.rn.HasReady() {
		rd := g.rn.Ready()
		g.noteReady(rd)
		if g.state == raft.StateLeader {
			g.placeProposals(rd.Entries)
		}
		ahead := rd.Entries
		if n := len(ahead); n > 0 {
			g.arrivals.add(ahead[0].GetIndex(), ahead[n-1].GetIndex(), g.now, time.Now())
		}
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				g.appends = append(g.appends, m)
			case raft.LocalApplyThread:
				g.applies = append(g.applies, m)
			default:
				g.send(m)
			}
		}
		if g.state == raft.StateLeader && len(ahead) > 0 {
			g.foretell(ahead)
		}
	}
}

func (g *Group) placeProposals(ents []*pb.Entry) {
	for _, e := range ents {
		// Only proposals are normal entries with data; raft's own are empty.
		if e.GetType() == pb.EntryNormal && len(e.Data) > 0 && e.GetTerm() == g.term {
			if g.pend.appended(e.GetIndex(), e.GetTerm()) == nil {
				panic(fmt.Sprintf("entry %d of term %d was proposed by nobody", e.GetIndex(), e.GetTerm()))
			}
		}
	}
}

func (g *Group) send(m *pb.Message) {
	if m.GetType() == pb.MsgSnap {
		delete(g.newcomers, m.GetTo())
		g.host.snaps.enqueue(g, m)
		return
	}
	switch t := m.GetType(); {
	case (t == pb.MsgPreVote || t == pb.MsgVote) && g.now < g.regains:
		m.Context = []byte(lostToNobody)
	case t == pb.MsgPreVoteResp && m.GetReject() && g.lead == 0:
		g.tellEnd(m)
	}
	to := base.NodeID(m.GetTo())
	o := g.outbox(to, m)
	if !o.put(g, m) {
		g.host.stats.dropped.Add(1)
		if m.GetType() == pb.MsgApp {
			g.later(func() { g.rn.ReportUnreachable(uint64(to)) })
		}
		return
	}
	switch m.GetType() {
	case pb.MsgHeartbeat, pb.MsgHeartbeatResp:
		g.lazy = true
	case pb.MsgPreVoteResp:
		g.touched[o] = struct{}{}
		if m.GetReject() {
			g.refused(m.GetTo())
		} else {
			g.granting(m.GetTo())
		}
	default:
		g.touched[o] = struct{}{}
	}
}

// outbox is the one for a message: that of its receiver's region, if other members there get about
// the same.
func (g *Group) outbox(to base.NodeID, m *pb.Message) *outbox {
	h := g.host
	if h.share == nil || m.GetType() != pb.MsgApp {
		return h.outbox(to)
	}
	r := h.opts.Transport.Region(to)
	if !h.share.FansOut(r) {
		return h.outbox(to)
	}
	for _, ids := range [][]uint64{g.conf.Voters, g.conf.Learners, g.conf.VotersOutgoing} {
		for _, id := range ids {
			if n := base.NodeID(id); n != to && h.opts.Transport.Region(n) == r {
				return h.fan(r)
			}
		}
	}
	return h.outbox(to)
}

func (g *Group) flush() {
	for o := range g.touched {
		delete(g.touched, o)
		o.flush()
	}
}

// flushLazy sends heartbeats, unless a round will.
func (g *Group) flushLazy(inRound bool) {
	if g.lazy && !inRound {
		g.host.flushAll()
	}
	g.lazy = false
}

// handIn gives proposals to raft, as one message.
func (g *Group) handIn(props []*proposal) {
	if g.sole && len(g.flights) > 0 {
		// Nobody else could use them before the disk is done: let the batch grow.
		g.props = append(g.props, props...)
		return
	}
	if len(g.props) > 0 {
		props = append(g.props, props...)
		g.props = nil
	}
	ents := make([]*pb.Entry, 0, len(props))
	first := len(g.pend.fresh)
	for _, p := range props {
		if p.index == 0 && !p.state.CompareAndSwap(propQueued, propTaken) {
			g.pendingN.Add(-1)
			g.pendingBytes.Add(-int64(len(p.data)))
			continue
		}
		if err := g.refuse(p); err != nil {
			g.answer(p, nil, 0, err)
			continue
		}
		g.pend.fresh = append(g.pend.fresh, p)
		ents = append(ents, &pb.Entry{Data: p.data})
	}
	if len(ents) == 0 {
		return
	}
	if len(ents) > 1 {
		g.crowd = crowdBatches
	}
	self := uint64(g.host.opts.Self)
	if err := g.rn.Step(&pb.Message{Type: pb.MsgProp.Enum(), From: &self, Entries: ents}); err != nil {
		dropped := g.pend.fresh[first:]
		g.pend.fresh = g.pend.fresh[:first:first]
		for _, p := range dropped {
			g.answer(p, nil, 0, base.Errorf(base.CodeOverloaded,
				"group %v: too much of the log is uncommitted; retry later (%v)", g.id, err))
		}
		return
	}
	g.collect()
}

// refuse is why a proposal cannot be handed in now.
func (g *Group) refuse(p *proposal) error {
	switch {
	case p.err != nil:
		return p.err
	case g.state != raft.StateLeader:
		return g.notLeader(g.lead)
	case p.want != 0 && p.want != g.term:
		return base.Errorf(base.CodeAborted, "group %v: the command was made for term %d, but the term is %d; retry",
			g.id, p.want, g.term)
	case g.xfer != nil && g.xfer.phase != revoking:
		return g.notLeader(g.xfer.to)
	}
	return g.stalled()
}

func (g *Group) notLeader(hint uint64) error {
	if hint == uint64(g.host.opts.Self) {
		hint = 0
	}
	e := base.Errorf(base.CodeNotLeader, "group %v: node %d does not lead", g.id, g.host.opts.Self)
	if hint != 0 {
		e = base.Errorf(base.CodeNotLeader, "group %v: node %d does not lead, node %d does", g.id, g.host.opts.Self, hint)
		e.Node = base.NodeID(hint)
	}
	return e
}

// publish shows other goroutines what the group is now, if that changed.
func (g *Group) publish() {
	w := g.published.Load()
	leads := g.state == raft.StateLeader
	if w.term != g.term || uint64(w.lead) != g.lead || w.leads != leads || w.serving != g.serving || w.conf != g.conf ||
		w.err != g.failed {
		n := &published{term: g.term, lead: base.NodeID(g.lead), leads: leads, serving: g.serving, conf: g.conf, err: g.failed}
		if g.conf != nil {
			n.voters, n.outgoing, n.learners = nodeIDs(g.conf.Voters), nodeIDs(g.conf.VotersOutgoing), nodeIDs(g.conf.Learners)
		}
		g.published.Store(n)
		g.waitMu.Lock()
		close(g.changed)
		g.changed = make(chan struct{})
		g.waitMu.Unlock()
	}
	g.wakeAt.Store(g.nextWake())
}

func nodeIDs(ids []uint64) []base.NodeID {
	out := make([]base.NodeID, len(ids))
	for i, id := range ids {
		out[i] = base.NodeID(id)
	}
	return out
}

// fail stops the replica for good.
func (g *Group) fail(err error) {
	if g.failed == nil {
		g.failed = err
	}
}

// shutdown ends everything that waits for the group.
func (g *Group) shutdown() {
	if g.serving {
		g.serving = false
		g.sm.Stopped(g.term)
	}
	g.state, g.lead = raft.StateFollower, 0
	err := g.failed
	if err == nil && g.removed {
		err = base.Errorf(base.CodeUnavailable, "group %v: this replica was removed from the group", g.id)
	}
	if g.failed == nil {
		g.failed = err // so that gone() says so
	}
	g.publish()
	in := g.mb.close()
	if err == nil {
		err = g.gone()
	}
	for _, p := range append(in.props, g.props...) {
		if p.state.CompareAndSwap(propQueued, propTaken) || p.index == 0 {
			g.answer(p, nil, 0, err)
		}
	}
	for _, p := range g.pend.takeAll() {
		g.answer(p, nil, 0, ambiguous(g, p, err.Error()))
	}
	if g.staged != nil && !g.parked {
		in.snaps = append(in.snaps, g.staged)
	}
	for _, s := range in.snaps {
		s.decide(false)
	}
	for _, r := range in.rounds {
		r.done()
	}
	g.host.ended(g, err)
}
