package group

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// A candidate that cannot be elected, because voters with longer logs refuse it, has the one with
// the longest log stand in its place (GRP-13). All messages are those of raft: a refusal says where
// the log of the voter ends, in fields that raft does not use there, and MsgTimeoutNow names the
// voter. Builds that do not say so go by turns alone, and one that is named without knowing this
// rule stands all the same.

// canvass is what a candidate has heard in answer to its pre-votes.
type canvass struct {
	until   uint64              // tick from which on who has not answered is not waited for; 0: there is none
	granted map[uint64]bool     // voters
	longer  map[uint64]position // those that refuse, and where their logs end
}

// answered is how many ticks a voter has to answer a pre-vote: as long as a round trip takes, also
// over a detour.
const answered = 3

// noteState follows raft's state, of which it is told before what changed it is sent.
func (c *canvass) noteState(was, is raft.StateType, lead, now uint64) {
	switch {
	case is == raft.StatePreCandidate && was != is:
		*c = canvass{until: now + answered, granted: map[uint64]bool{}, longer: map[uint64]position{}}
	case lead != 0 || is == raft.StateCandidate || is == raft.StateLeader:
		c.until = 0
	}
}

// tellEnd says in a refusal where this log ends.
func (g *Group) tellEnd(m *pb.Message) {
	if at, ok := g.logEnd(); ok {
		m.Index, m.LogTerm = &at.index, &at.term
	}
}

// granting puts this voter's own turn off: who gets its pre-vote may be elected. If this one stands
// itself, it gives way to a candidate whose turn is before its own (GRP-16).
func (g *Group) granting(candidate uint64) {
	o := &g.host.opts
	if o.StubbornLosers {
		return
	}
	if g.state == raft.StatePreCandidate && !o.SplitVotes && g.turnIsBefore(candidate) {
		g.yields, g.campaign, g.queued = g.now+campaignGap, campaignGap, 0
	}
	if g.campaign > 0 {
		g.campaign = max(g.campaign, campaignGap)
	}
}

// turnIsBefore reports whether another voter stands before this one.
func (g *Group) turnIsBefore(other uint64) bool {
	return g.standsBefore(other, uint64(g.host.opts.Self))
}

// noteSplit has a candidate stand again in its turn, and not when raft's timer says so, if the
// votes are split: some voters have given theirs to others, or have not answered for as long as it
// takes to be elected (GRP-16). The second time takes longer, since answers may.
func (g *Group) noteSplit(is raft.StateType, lead uint64) {
	o := &g.host.opts
	if lead != 0 || !g.voter || o.SplitVotes {
		return
	}
	switch {
	case is == raft.StateCandidate && g.state != is:
		g.splits++
		g.queue()
		g.campaign += min(g.splits*campaignGap, o.ElectionTicks)
	case is == raft.StateFollower && g.state == raft.StateCandidate:
		g.queue()
	case is == raft.StatePreCandidate && g.state == raft.StateFollower:
		g.askAgain() // raft's timer may have had it ask
	}
}

// askAgain has a voter that asks for pre-votes ask once more soon: a message may have been lost
// (GRP-20).
func (g *Group) askAgain() {
	if !g.host.opts.AsksOnce {
		g.asked++
		g.askIn = min(g.asked*askGap, g.host.opts.ElectionTicks)
	}
}

// askGap is how many ticks after it has asked for pre-votes for the first time a voter asks again:
// less than campaignGap, so that the next one does not stand meanwhile.
const askGap = campaignGap - 2

// noteAnswer takes an answer to a pre-vote.
func (g *Group) noteAnswer(m *pb.Message) {
	c := &g.canvass
	if c.until == 0 {
		return
	}
	if !m.GetReject() {
		c.granted[m.GetFrom()] = true
		return
	}
	own, ok := g.logEnd()
	if at := (position{m.GetIndex(), m.GetLogTerm()}); ok && own.before(at) {
		c.longer[m.GetFrom()] = at
	}
}

// standAgain has a candidate whose pre-vote was refused by a voter of a later term stand in that
// term at once, unless the other one has a longer log (GRP-18).
func (g *Group) standAgain(refusal *pb.Message) {
	own, ok := g.logEnd()
	if !ok || own.before(position{refusal.GetIndex(), refusal.GetLogTerm()}) || !g.voter || !g.mayStand() {
		return
	}
	if s := g.rn.BasicStatus(); s.RaftState == raft.StateFollower && s.Lead == raft.None {
		g.campaign, g.queued = 1, 0
	}
}

// yield names the voter with the longest log once this candidate cannot be elected, because too few
// are left that do not refuse it.
func (g *Group) yield() {
	c := &g.canvass
	if c.until == 0 || len(c.longer) == 0 || g.host.opts.StubbornLosers || len(g.conf.VotersOutgoing) > 0 {
		return
	}
	best, could := uint64(0), 0
	for _, id := range g.conf.Voters {
		at, refuses := c.longer[id]
		switch {
		case refuses:
			if best == 0 || c.longer[best].before(at) {
				best = id
			}
		case id == uint64(g.host.opts.Self), c.granted[id], g.now < c.until && !g.away(id):
			could++
		}
	}
	if best == 0 || 2*could > len(g.conf.Voters) {
		return
	}
	c.until = 0
	g.send(naming(uint64(g.host.opts.Self), best, g.term))
}

// naming is the message that has a voter stand.
func naming(from, to, term uint64) *pb.Message {
	return &pb.Message{Type: pb.MsgTimeoutNow.Enum(), From: &from, To: &to, Term: &term}
}

// named has this voter stand at once, if it is without a leader: a candidate that it has refused
// cannot be elected. It reports whether that is what a message says; else it is of a leader.
func (g *Group) named(m *pb.Message) bool {
	if m.GetType() != pb.MsgTimeoutNow || g.lead == m.GetFrom() {
		return false
	}
	if g.lead == 0 && g.voter && g.state == raft.StateFollower && g.mayStand() {
		g.campaign, g.queued = 0, 0
		_ = g.rn.Campaign()
	}
	return true
}

// logEnd is the position of the last entry of the log.
func (g *Group) logEnd() (at position, ok bool) {
	last, err := g.log.LastIndex()
	if err != nil {
		return at, false
	}
	term, err := g.log.Term(last)
	return position{last, term}, err == nil
}

// before reports whether a log that ends at q is longer, as voters judge, than one that ends at p.
func (p position) before(q position) bool {
	return p.term < q.term || p.term == q.term && p.index < q.index
}
