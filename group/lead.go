package group

import (
	"context"
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/godwitdb/godwit/base"
)

// handover is the lead being given to another node: first the owner revokes
// its lease (PROTOCOLS A1, A6), then raft moves the lead.
type handover struct {
	to       uint64
	moving   bool          // raft, or the target, has been told
	told     bool          // it was the target
	deadline uint64        // tick
	votes    []*pb.Message // asked of this leader, one a node; see early
}

// stand is the wish of this group's leader that this node stands for election, as soon as its log ends where the leader's does.
type stand struct {
	term, from, index uint64
	until             uint64 // tick
}

// place is one of the log: there is one entry of that term at that index, ever.
type place struct{ index, term uint64 }

// Stand has this node campaign on behalf of the leader of term as soon as its log ends with index, as the
// leader's does: voters do not hold against it that they hear of that leader. It is an error if the group is not, or no longer, in that term.
func (g *Group) Stand(term uint64, from base.NodeID, index uint64) error {
	var err error
	if e := g.do(context.Background(), func() {
		if g.term != term || g.state != raft.StateFollower || g.lead != uint64(from) || !g.voter {
			err = base.Errorf(base.CodeUnavailable, "group %v: node %d does not follow node %d in term %d", g.id, g.host.opts.Self, from, term)
			return
		}
		g.stand = &stand{term, uint64(from), index, g.now + uint64(g.host.opts.ElectionTicks)}
		g.tryStand()
	}); e != nil {
		return e
	}
	return err
}

// tryStand begins the campaign that was asked for, when the log is there. The entries need not be on the disk yet: this node's own vote waits for
// that. If the log goes on the leader has thought better of it.
func (g *Group) tryStand() {
	s := g.stand
	last, err := g.log.LastIndex()
	if err != nil || g.term != s.term || g.state != raft.StateFollower || last > s.index || g.now >= s.until {
		g.stand = nil
		return
	}
	if last < s.index {
		return
	}
	g.stand = nil
	self := uint64(g.host.opts.Self)
	_ = g.rn.Step(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), From: &s.from, To: &self, Term: &s.term})
}

// Committed tells what a former leader says: that the entry of term at index is committed. So is, then, all that a log which has
// that entry has before it. Raft would find out with the first entry that this node commits as leader, a quorum's round trip later.
func (g *Group) Committed(term, index uint64) {
	g.later(func() { g.known = place{index, term} })
}

// applyKnown applies what the log of a new leader has before its first entry, if that is known to be committed. Being elected it has all of it
// on its disk.
func (g *Group) applyKnown() error {
	k := g.known
	if g.state != raft.StateLeader || g.serving || g.first == 0 || k.index+1 != g.first || g.applied.Load() >= k.index {
		return nil
	}
	if t, err := g.log.Term(k.index); err != nil || t != k.term {
		return nil
	}
	ents, err := g.log.Entries(g.applied.Load()+1, g.first, math.MaxUint64)
	if err != nil {
		return err
	}
	for _, e := range ents {
		if e.GetType() != pb.EntryNormal { // raft wants to apply changes of its members itself
			return nil
		}
	}
	return g.apply(ents)
}

// begin starts the replica's life.
func (g *Group) begin() {
	g.truncateCheck = g.applied.Load()
	if g.sole && g.voter {
		_ = g.rn.Campaign() // nobody else can be the leader
	} else if g.voter && g.prefers(g.host.opts.Self) {
		g.campaign = 2 // if nobody speaks up; a live leader's followers refuse their votes
	}
	g.drain()
	g.flushLazy(false)
	g.publish()
}

func (g *Group) prefers(n base.NodeID) bool { return g.preferred != nil && g.preferred() == n }

// tick gives raft the host ticks that have passed.
//
// Leaders get theirs in whole heartbeat intervals, at ticks that are the same for all groups of the
// host, so that the heartbeats of all groups leave together. Followers are not
// even woken until their election timeout is near; a word from the leader makes
// the ticks before it irrelevant.
func (g *Group) tick(msgs []*pb.Message) {
	n := int(g.ticks.Swap(0))
	beats := int(g.beats.Swap(0))
	g.now += uint64(n)
	if g.state == raft.StateLeader {
		if beats > 0 {
			for range g.host.opts.HeartbeatTicks {
				g.rn.Tick()
			}
			g.watchHandover()
			g.handToPreferred()
			g.noteLog()
		}
		return
	}
	heard := false
	for _, m := range msgs {
		switch m.GetType() {
		case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
			heard = heard || m.GetTerm() >= g.term
		}
	}
	if heard {
		g.elapsed, g.heard = 0, g.now
	} else if n > 0 {
		// A goroutine that was held up must not take its own delay for the leader's.
		n = min(n, g.host.opts.HeartbeatTicks)
		for range n {
			g.rn.Tick()
		}
		g.elapsed += n
		if g.campaign > 0 {
			if g.campaign -= n; g.campaign <= 0 {
				g.campaign = 0
				if g.lead == 0 {
					_ = g.rn.Campaign()
				}
			}
		}
	}
	if g.pend.nLost > 0 {
		for _, p := range g.pend.takeIf(func(p *proposal) bool { return g.now >= p.deadline }) {
			g.answer(p, nil, 0, ambiguous(g, p, "the lead was lost"))
		}
	}
}

// nextWake is after how many more ticks the goroutine must look at the time;
// 0: a leader's, at the host's heartbeat ticks; -1: never.
func (g *Group) nextWake() int32 {
	if g.state == raft.StateLeader {
		return 0
	}
	w := -1
	at := func(n int) {
		if n = max(n, 1); w < 0 || n < w {
			w = n
		}
	}
	if g.stand != nil {
		at(1)
	}
	if g.voter {
		at(g.host.opts.ElectionTicks - g.elapsed)
		if g.state != raft.StateFollower || g.lead == 0 {
			at(1)
		}
	}
	if g.campaign > 0 {
		at(g.campaign)
	}
	if g.pend.nLost > 0 {
		at(1)
	}
	return int32(w)
}

// noteReady follows raft's leader and term.
func (g *Group) noteReady(rd raft.Ready) {
	term, lead, state := g.term, g.lead, g.state
	if !raft.IsEmptyHardState(rd.HardState) {
		term = rd.HardState.GetTerm()
	}
	if rd.SoftState != nil {
		lead, state = rd.Lead, rd.RaftState
	}
	if term == g.term && lead == g.lead && state == g.state {
		return
	}
	if g.state == raft.StateLeader && (state != raft.StateLeader || term != g.term) {
		g.loseLead()
	}
	won := state == raft.StateLeader && (g.state != raft.StateLeader || term != g.term)
	if lead != g.lead && lead != 0 {
		g.host.opts.Logger.Info("group has a leader", "group", g.id.String(), "leader", lead, "term", term)
	}
	g.term, g.lead, g.state = term, lead, state
	if lead != 0 {
		g.campaign = 0
	}
	if won {
		g.first = 0
		for _, e := range rd.Entries {
			if e.GetTerm() == term {
				g.first = e.GetIndex()
				break
			}
		}
		clear(g.newcomers)
		g.beats.Store(0)
		g.leadTick = g.now
		clear(g.past[:])
		g.nextPref = g.now + uint64(g.host.opts.HeartbeatTicks)
		g.prefWait = 0
	}
}

// tellLeading brings the state machine into service once it has applied all that was committed in earlier terms. The log of who
// is elected holds all of that; what is in it before the term's own first entry and is known to be committed is all
// there is, so a leader that knows need not wait until that entry commits.
func (g *Group) tellLeading() {
	if g.state == raft.StateLeader && !g.serving && g.first != 0 && g.applied.Load()+1 >= g.first {
		g.serving = true
		g.publish()
		g.sm.Leading(g.term, g.first)
	}
}

// foretell sends new entries of a leader that has just been elected behind the term's first one. Raft sends that alone, and
// more only when a follower has answered: the first commits would take another round trip. A follower that
// refuses the first entry refuses these too, and raft ignores what it says of them; one that gets them twice has them once.
func (g *Group) foretell(ents []*pb.Entry) {
	for len(ents) > 0 && (ents[0].GetTerm() != g.term || ents[0].GetIndex() <= g.first) {
		ents = ents[1:]
	}
	if g.first == 0 || len(ents) == 0 {
		return
	}
	if g.applied.Load() >= g.first+foretold {
		return
	}
	var size uint64
	for _, e := range ents {
		size += uint64(len(e.Data))
	}
	if size > g.host.opts.MaxMsgBytes {
		return
	}
	prev, self, term := ents[0].GetIndex()-1, uint64(g.host.opts.Self), g.term
	commit := g.rn.BasicStatus().HardState.GetCommit()
	g.rn.WithProgress(func(id uint64, t raft.ProgressType, pr tracker.Progress) {
		if id == self || t != raft.ProgressTypePeer || pr.State != tracker.StateProbe || !pr.MsgAppFlowPaused || pr.Next > g.first {
			return
		}
		g.send(&pb.Message{Type: pb.MsgApp.Enum(), From: &self, To: new(id), Term: &term, Index: &prev, LogTerm: &term, Entries: ents, Commit: &commit})
	})
}

// foretold is how many entries of a new term are worth a look whether followers have answered yet.
const foretold = 256

// settled reports whether an entry of this term is known to be committed.
func (g *Group) settled() bool { return g.serving && g.applied.Load() >= g.first }

func (g *Group) loseLead() {
	if x := g.xfer; x != nil {
		g.xfer = nil
		g.later(func() { g.letIn(x) })
	}
	g.elapsed = 0
	if g.serving {
		g.serving = false
		g.sm.Stopped(g.term)
	}
	g.pend.loseAll(g.now + uint64(g.host.opts.AmbiguousTicks))
}

// Transfer begins to hand the lead to another voter. The owner is asked to
// revoke first. nil means that it has begun; whether it succeeds shows in
// Leader. CodeNotLeader, CodeInvalid (no voter), CodeUnavailable (another
// hand-over is under way, or the target does not keep up).
func (g *Group) Transfer(to base.NodeID) error {
	var err error
	if e := g.do(context.Background(), func() { err = g.beginHandover(uint64(to)) }); e != nil {
		return e
	}
	return err
}

func (g *Group) beginHandover(to uint64) error {
	if g.state != raft.StateLeader {
		return g.notLeader(g.lead)
	}
	if to == uint64(g.host.opts.Self) {
		return nil
	}
	if !g.serving || g.xfer != nil {
		return base.Errorf(base.CodeUnavailable, "group %v: the lead is on the move already; retry later", g.id)
	}
	pr, ok := g.progress(to)
	switch {
	case !ok || pr.IsLearner:
		return base.Errorf(base.CodeInvalid, "group %v: node %d does not vote in it and cannot lead", g.id, to)
	case !pr.RecentActive || pr.State == tracker.StateSnapshot:
		return base.Errorf(base.CodeUnavailable, "group %v: node %d is not up to date or not alive; retry later", g.id, to)
	case !g.keepsUp(pr):
		return base.Errorf(base.CodeUnavailable, "group %v: node %d is behind with the log and catches up first; retry later", g.id, to)
	}
	x := &handover{to: to, deadline: g.now + uint64(2*g.host.opts.ElectionTicks)}
	g.xfer = x
	g.sm.Revoking(g.term, base.NodeID(to), func(told bool, err error) { g.later(func() { g.revoked(x, told, err) }) })
	return nil
}

// revoked goes on when the owner has done its part.
func (g *Group) revoked(x *handover, told bool, err error) {
	if g.xfer != x || x.moving {
		return
	}
	if err != nil {
		g.host.opts.Logger.Info("hand-over given up by the owner", "group", g.id.String(), "to", x.to, "err", err)
		g.resume()
		return
	}
	x.moving = true
	x.deadline = g.now + uint64(g.host.opts.ElectionTicks+2*g.host.opts.HeartbeatTicks)
	if x.told = told; !told {
		g.rn.TransferLeader(x.to)
	}
	g.letIn(x)
}

// early reports whether a message comes too early for a leader whose hand-over is being prepared: it would end his term before what he has under way
// is committed. Whoever grants his vote to the target says so to all who send him something, this leader too. Requests for his vote
// wait, until the owner is ready to leave or somebody leads already; the rest counts as lost, as any message may be.
func (g *Group) early(m *pb.Message) bool {
	x := g.xfer
	if x == nil || x.moving || m.GetTerm() <= g.term {
		return false
	}
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		return false
	case pb.MsgVote:
		if i := slices.IndexFunc(x.votes, func(o *pb.Message) bool { return o.GetFrom() == m.GetFrom() }); i >= 0 {
			x.votes[i] = m
		} else {
			x.votes = append(x.votes, m)
		}
	}
	return true
}

// letIn gives raft what was held back.
func (g *Group) letIn(x *handover) {
	for _, m := range x.votes {
		_ = g.rn.Step(m)
	}
	x.votes = nil
}

// watchHandover gives up a hand-over that does not come about.
func (g *Group) watchHandover() {
	switch x := g.xfer; {
	case x == nil:
	case !x.moving && g.now >= x.deadline:
		g.host.opts.Logger.Info("hand-over given up: the owner did not revoke in time", "group", g.id.String(), "to", x.to)
		g.resume()
	case x.moving && !x.told && g.rn.BasicStatus().LeadTransferee == raft.None, x.told && g.now >= x.deadline:
		g.host.opts.Logger.Info("hand-over given up: the target did not take over", "group", g.id.String(), "to", x.to)
		g.resume()
	}
}

func (g *Group) resume() {
	x := g.xfer
	g.xfer = nil
	g.sm.Leading(g.term, 0)
	g.letIn(x)
}

// handToPreferred hands the lead to the preferred leader when it is alive and
// up to date. Attempts that fail are repeated ever more seldom.
func (g *Group) handToPreferred() {
	if g.preferred == nil || !g.serving || g.xfer != nil || g.now < g.nextPref {
		return
	}
	to := uint64(g.preferred())
	if f := g.host.opts.HandTo; f != nil {
		to = uint64(f(g.id))
	}
	if to == 0 || to == uint64(g.host.opts.Self) {
		g.prefWait = 0
		return
	}
	pr, ok := g.progress(to)
	if !ok || pr.IsLearner || !pr.RecentActive || pr.State != tracker.StateReplicate || !g.keepsUp(pr) {
		return
	}
	interval := max(1, uint64(g.host.opts.PreferredInterval/g.host.opts.TickInterval))
	g.prefWait = min(max(interval, 2*g.prefWait), 20*interval)
	g.nextPref = g.now + g.prefWait
	_ = g.beginHandover(to)
}

// lagAllowed is how many entries a follower may be behind what the log had some heartbeats ago.
const lagAllowed = 256

// noteLog remembers how long the log is, at each heartbeat of a leader.
func (g *Group) noteLog() {
	copy(g.past[1:], g.past[:])
	g.past[0], _ = g.log.LastIndex()
}

// keepsUp reports whether a follower has about what it can have at its distance, so that a hand-over, with
// proposals shut out, does not wait for the log: GeoLM's pre-synchronisation. A log that grows fast is always a round trip ahead.
func (g *Group) keepsUp(pr tracker.Progress) bool {
	return pr.Match+lagAllowed >= g.past[len(g.past)-1]
}

func (g *Group) progress(id uint64) (tracker.Progress, bool) {
	var out tracker.Progress
	found := false
	g.rn.WithProgress(func(n uint64, _ raft.ProgressType, pr tracker.Progress) {
		if n == id {
			out, found = pr, true
		}
	})
	return out, found
}

// peerDown reacts to the death of a peer. If it led, its followers forget it, so
// that they may vote at once, and stand for election: the preferred leader
// first, the others a little later, each after a time of its own.
func (g *Group) peerDown(node uint64) {
	if g.state == raft.StateLeader {
		g.rn.ReportUnreachable(node)
		if x := g.xfer; x != nil && x.to == node && (x.told || !x.moving) {
			g.host.opts.Logger.Info("hand-over given up: the target is gone", "group", g.id.String(), "to", x.to)
			g.resume()
		}
		return
	}
	if g.lead != node || !g.voter {
		return
	}
	_ = g.rn.ForgetLeader()
	if g.prefers(g.host.opts.Self) {
		g.campaign = 1
	} else {
		g.campaign = 2 + g.rng.IntN(max(1, g.host.opts.ElectionTicks/2))
	}
}
