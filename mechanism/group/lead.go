package group

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/godwitdb/godwit/base"
)

// begin starts the replica's life.
func (g *Group) begin() {
	g.truncateCheck = g.applied.Load()
	if g.sole && g.voter {
		_ = g.rn.Campaign() // nobody else can be the leader
	} else if g.voter && g.prefers(g.host.opts.Self) && g.mayStand() {
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
	if g.suspect() {
		g.inquire()
	}
	for _, m := range msgs {
		delete(g.down, m.GetFrom())
	}
	if g.state == raft.StateLeader {
		if beats > 0 {
			for range g.host.opts.HeartbeatTicks {
				g.rn.Tick()
			}
			g.lostLead() // to nobody, if it heard of too few
		}
		if g.state == raft.StateLeader && (beats > 0 || g.alone > 0) {
			g.watchMajority()
		}
		g.letInLate()
		if beats > 0 {
			g.watchHandover()
			g.passStalled()
			g.handToPreferred()
			g.noteLog()
		}
		return
	}
	if g.hears(msgs) {
		g.elapsed, g.heard = 0, g.now
	} else if n > 0 && g.mayStand() {
		g.tickFollower(n)
	}
	g.yield()
	g.checkLease()
	if g.pend.nLost > 0 {
		for _, p := range g.pend.takeIf(func(p *proposal) bool { return g.now >= p.deadline }) {
			g.answer(p, nil, 0, ambiguous(g, p, "the lead was lost"))
		}
	}
}

// hears reports whether a message is of a leader that this node follows.
func (g *Group) hears(msgs []*pb.Message) bool {
	return slices.ContainsFunc(msgs, func(m *pb.Message) bool {
		switch m.GetType() {
		case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
			return m.GetTerm() >= g.term && !g.shuns(m)
		}
		return false
	})
}

// tickFollower lets time pass in which nothing was heard of a leader.
func (g *Group) tickFollower(n int) {
	// A goroutine that was held up must not take its own delay for the leader's.
	n = min(n, g.host.opts.HeartbeatTicks)
	if g.holdsBack() {
		if !g.hasMajority() {
			return
		}
		if g.campaign <= 0 && g.askIn <= 0 {
			g.queue()
		}
	} else {
		for range n {
			g.rn.Tick()
		}
	}
	g.elapsed += n
	if g.campaign <= 0 {
		if g.askIn > 0 && g.lead == 0 {
			if g.askIn -= n; g.askIn <= 0 {
				_ = g.rn.Campaign()
				g.askAgain()
			}
		}
		return
	}
	g.moveUp()
	g.patience = max(0, g.patience-n)
	if g.campaign -= n; g.campaign <= 0 {
		g.campaign = 0
		if g.lead == 0 {
			_ = g.rn.Campaign()
			g.askAgain()
		}
	}
}

// nextWake is after how many more ticks the goroutine must look at the time;
// 0: a leader's, at the host's heartbeat ticks; -1: never.
func (g *Group) nextWake() int32 {
	if g.state == raft.StateLeader {
		if x := g.xfer; x != nil && len(x.votes) > 0 {
			return 1
		}
		return int32(min(g.alone, 1))
	}
	w := -1
	at := func(n int) {
		if n = max(n, 1); w < 0 || n < w {
			w = n
		}
	}
	if g.candidacy != nil {
		at(1)
	}
	if g.voter {
		at(g.host.opts.ElectionTicks - g.elapsed)
		if g.state != raft.StateFollower || g.lead == 0 {
			at(1)
		}
	}
	if g.suspect() {
		at(int(g.inTicks(askEvery) / 4))
	}
	if g.watched() {
		at(int(g.leases.due - min(g.leases.due, g.now)))
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
	g.noteSplit(state, lead)
	g.canvass.noteState(g.state, state, lead, g.now)
	g.term, g.lead, g.state = term, lead, state
	if lead != 0 {
		g.campaign, g.regains, g.left, g.splits, g.asked, g.askIn = 0, 0, 0, 0, 0, 0
		g.noteLeader()
	}
	if won {
		g.beginLead(rd.Entries)
	}
}

// beginLead begins a term as leader. The term's first entry is among ents, or comes later.
func (g *Group) beginLead(ents []*pb.Entry) {
	g.first, g.madeWay, g.passed = 0, 0, uint64(g.host.opts.Self)
	if i := slices.IndexFunc(ents, func(e *pb.Entry) bool { return e.GetTerm() == g.term }); i >= 0 {
		g.first = ents[i].GetIndex()
	}
	clear(g.newcomers)
	g.beats.Store(0)
	g.leadTick = g.now
	clear(g.past[:])
	g.alone = 0
	g.nextPref = g.now + uint64(g.host.opts.HeartbeatTicks)
	g.prefWait = 0
}

// tellLeading brings the state machine into service once it has applied all that was committed in
// earlier terms. An elected leader's log holds all of that; what is in it before the term's own
// first entry and is known to be committed is all there is, so a leader that knows need not wait
// until that entry commits.
func (g *Group) tellLeading() {
	if g.state == raft.StateLeader && !g.serving && g.first != 0 && g.applied.Load()+1 >= g.first {
		g.serving = true
		g.publish()
		g.sm.Leading(g.term, g.first)
	}
}

// foretell sends new entries of a leader that has just been elected behind the term's first one.
// Raft sends that alone, and more only when a follower has answered: the first commits would take
// another round trip. A follower that refuses the first entry refuses these too, and raft ignores
// what it says of them; one that gets them twice has them once.
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
		if id == self || t != raft.ProgressTypePeer || pr.State != tracker.StateProbe || !pr.MsgAppFlowPaused ||
			pr.Next > g.first {
			return
		}
		g.send(&pb.Message{Type: pb.MsgApp.Enum(), From: &self, To: new(id), Term: &term, Index: &prev,
			LogTerm: &term, Entries: ents, Commit: &commit})
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

// peerDown reacts to the death of a peer. If it led, its followers stand for election: the
// preferred leader first, the others one after the other.
func (g *Group) peerDown(node uint64) {
	if g.down == nil {
		g.down = map[uint64]uint64{}
	}
	g.down[node] = g.now + uint64(g.host.opts.ElectionTicks)
	if g.state == raft.StateLeader {
		g.rn.ReportUnreachable(node)
		g.targetDown(node)
		g.watchMajority()
		return
	}
	if g.lead != node || !g.voter {
		return
	}
	g.deserted()
}

// peerBack has this voter stand in its turn, if there is no leader and the peer is a voter, too.
// One that waits for its turn lets the peer stand first if that is its turn: all of them come back
// within a moment, and whoever counts only those that came first stands too early.
func (g *Group) peerBack(node uint64) {
	hasty := g.host.opts.HastyReturns
	if delete(g.down, node); g.left == node && !hasty {
		g.left = 0
	}
	if g.state == raft.StateLeader || g.lead != 0 || !g.voter || !g.mayStand() || !slices.Contains(g.conf.Voters, node) {
		return
	}
	if g.campaign <= 0 || g.holdsBack() {
		g.queue()
	} else if late := g.standsAfter() - g.queued; late > 0 && !hasty {
		g.queued, g.campaign = g.queued+late, g.campaign+late
	}
}

// queue has this voter stand in its turn.
func (g *Group) queue() {
	g.queued, g.patience = g.standsAfter(), 0
	g.campaign = 1 + g.queued
}

// holdsBack reports whether this voter, which finds no leader, is not fit to lead. It stands in its
// turn, behind the others, and not when raft's timer says so, nor while there is no majority in
// reach: of those that come back one is to stand first (GRP-22).
func (g *Group) holdsBack() bool { return g.lead == 0 && g.sick() }

// sick reports whether this node is not fit to lead.
func (g *Group) sick() bool {
	o := &g.host.opts
	return !g.sole && !o.SickFirst && g.unfit(uint64(o.Self)) > 0
}

// moveUp takes those out of the queue before this voter that have turned out to be lost since it
// began to wait. One fault may take several nodes, which is not noticed of all at once (GRP-10).
// The time between the others' turns stays: it counts from now on.
func (g *Group) moveUp() {
	if after := g.standsAfter(); after < g.queued && !g.host.opts.FixedTurns {
		g.queued = after
		g.campaign = min(g.campaign, 1+after+g.patience)
	}
}

// standsAfter is how many ticks after the first survivor this one stands.
func (g *Group) standsAfter() int {
	return min(campaignGap*g.campaignRank(uint64(g.host.opts.Self)), g.host.opts.ElectionTicks)
}

// deserted forgets a leader that is dead, or as good as that, so that this node may vote at once,
// and has it stand for election.
func (g *Group) deserted() {
	g.left = g.lead
	_ = g.rn.ForgetLeader()
	g.queue()
	if o := g.outrun; o.of == g.left && g.now < o.at+uint64(g.host.opts.ElectionTicks) {
		g.goFirst(o.candidate)
	}
}

// outrun is a candidate whose log was shorter than this follower's while this one still heard its
// leader: raft has given it no answer.
type outrun struct {
	candidate, of uint64 // it, and the leader that it had given up
	at            uint64 // tick
}

// noteOutrun remembers a candidate that this follower cannot vote for when it has given its leader
// up, too.
func (g *Group) noteOutrun(m *pb.Message) {
	if end, ok := g.logEnd(); ok && (position{m.GetIndex(), m.GetLogTerm()}).before(end) {
		g.outrun = outrun{m.GetFrom(), g.lead, g.now}
	}
}

// campaignGap is how many ticks after another one the next survivor campaigns: as long as it takes
// to be elected and to say so, also over a detour. A survivor that campaigns earlier deposes the
// one that was just elected, and then all wait for an election timeout (TestPartialCuts).
const campaignGap = 5

// lostToNobody has voters judge a request for their votes by the log alone, though they have heard
// of the candidate as their leader not long ago. It is raft's word for a hand-over.
const lostToNobody = "CampaignTransfer"

// campaignRank is how many survivors of the leader that was left campaign before a voter; none that
// is lost counts. Drawn by lot, all might be late.
func (g *Group) campaignRank(of uint64) (rank int) {
	for _, id := range g.conf.Voters {
		if id != of && !g.away(id) && g.standsBefore(id, of) {
			rank++
		}
	}
	return rank
}

// standsBefore reports whether the turn of one voter is before that of another: those that are fit
// to lead first (GRP-22), then the preferred leader, then smaller ids.
func (g *Group) standsBefore(a, b uint64) bool {
	if x, y := g.unfit(a), g.unfit(b); x != y && !g.host.opts.SickFirst {
		return x < y
	}
	if p := g.prefers(base.NodeID(a)); p != g.prefers(base.NodeID(b)) {
		return p
	}
	return a < b
}

// away reports whether a voter is of no help: the leader that was left, or one that is lost or was
// said to be down of late.
func (g *Group) away(id uint64) bool {
	o := &g.host.opts
	return id == g.left || g.now < g.down[id] && !o.FixedTurns ||
		id != uint64(o.Self) && o.Transport.Lost(base.NodeID(id))
}

// refused has this survivor stand, for it has refused a pre-vote to a candidate, because its own
// log is longer or its term later. If that one cannot be elected without this vote, there is
// nothing to wait for but the turns of those in between (GRP-10).
func (g *Group) refused(candidate uint64) {
	if g.campaign > 0 && g.lead == 0 {
		g.goFirst(candidate)
	}
}

// goFirst has this survivor stand before its turn, if a candidate that it does not vote for cannot
// be elected without it.
func (g *Group) goFirst(candidate uint64) {
	o := &g.host.opts
	switch {
	case o.HastyRefusers:
		g.campaign, g.queued = 1, 0
	case !o.PatientRefusers && g.decides():
		self := uint64(o.Self)
		between := g.campaignRank(self) - g.campaignRank(candidate) - 1
		if g.sick() {
			between = max(between, 1) // those that this one does not reach may elect a fit one
		}
		g.queued = min(g.queued, campaignGap*max(between, 0))
		g.campaign = min(g.campaign, 1+g.queued)
	}
}

// decides reports whether nobody is elected against this voter: the others that are not away are no
// majority.
func (g *Group) decides() bool {
	n, others := len(g.conf.Voters), 0
	for _, id := range g.conf.Voters {
		if id != uint64(g.host.opts.Self) && !g.away(id) {
			others++
		}
	}
	return g.voter && len(g.conf.VotersOutgoing) == 0 && 2*others <= n
}
