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

// A planned hand-over of the lead (GeoLM, section V-C; TIME-6), as the group sees it: first the old
// leader's part, then the target's. What the owner does meanwhile is its own.
//
//	leading --Transfer--> revoking --the owner has ended its lease--> transferring --+
//	   ^                     |                                                       +--> another
//	   leads |                     +-----the owner has appointed the target--> appointed --+ |
//	                 |                                               | +----the owner fails or is
//	   late---------the target does not take over-+
//
// The target has a candidacy from Stand until its log is long enough to campaign; Committed tells
// it what it may apply as soon as it is elected.

// A phase is how far a hand-over has come.
type phase uint8

const (
	revoking     phase = iota // the owner prepares, and serves; proposals go on
	transferring              // raft moves the lead; nothing is proposed
	appointed                 // the owner has had the target stand, and serves reads until another leads; nothing is proposed
)

// ErrAcquires is what Revoking answers if the owner has asked for a lease in the term and does not
// serve yet.
var ErrAcquires = base.Errorf(base.CodeNotLeader, "the owner does not serve yet")

// handover is the lead being given to another node.
type handover struct {
	to    uint64
	phase phase
	// deadline is the tick at which the phase has lasted too long; not for transferring. Nothing
	// is proposed while the target is appointed, no lease either. So that ends before the others
	// take this leader for dead, which they do a second after its lease (GRP-8): a target that
	// handles late what arrives would hold everything up for an election timeout more.
	deadline uint64
	votes    []*pb.Message // requests for this leader's vote, one a node; see early
	kept     uint64        // the tick at which the first of them came
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

// PassOn begins to hand the lead to another voter, because this node leads in term and cannot
// serve: each time to the next one, by number, of those that are alive and up to date. It does not
// wait.
func (g *Group) PassOn(term uint64) {
	g.later(func() {
		if g.state == raft.StateLeader && g.term == term {
			g.passOn(g.conf.Voters)
		}
	})
}

// passOn begins to hand the lead to one of the voters, first of those that are fit to lead, or to
// none that can take it.
func (g *Group) passOn(voters []uint64) {
	order := slices.Clone(voters)
	slices.Sort(order)
	i, _ := slices.BinarySearch(order, g.passed+1)
	order = slices.Concat(order[i:], order[:i])
	slices.SortStableFunc(order, func(a, b uint64) int { return g.unfit(a) - g.unfit(b) })
	for _, id := range order {
		if id != uint64(g.host.opts.Self) && slices.Contains(g.conf.Voters, id) && g.beginHandover(id) == nil {
			g.passed = id
			return
		}
	}
}

// unfit is 1 for a node that is not fit to lead, and 0 for any other.
func (g *Group) unfit(id uint64) int {
	if o := &g.host.opts; o.Fit == nil || o.HastyLeavers || o.Fit(base.NodeID(id)) {
		return 0
	}
	return 1
}

// passStalled gives the lead of a leader away whose disk has taken nothing for half a second, and
// that has applied no entry of its own term (GRP-21). It has never served in it, so there is no
// state to send, and its owner cannot revoke anything.
func (g *Group) passStalled() {
	o := &g.host.opts
	if g.sole || o.KeepsStalled || g.xfer != nil || g.first == 0 || g.applied.Load() >= g.first ||
		g.diskAge() < g.inTicks(lapsePatience)/2 || g.now < g.passes {
		return
	}
	to, match := uint64(0), uint64(0)
	for _, id := range g.conf.Voters {
		pr, ok := g.progress(id)
		if id == uint64(o.Self) || !ok || !pr.RecentActive || pr.State != tracker.StateReplicate {
			continue
		}
		if to == 0 || g.unfit(id) < g.unfit(to) || g.unfit(id) == g.unfit(to) && pr.Match > match {
			to, match = id, pr.Match
		}
	}
	if to == 0 {
		return
	}
	g.passes = g.now + campaignGap
	o.Logger.Info("this node's disk stands still: another one is to lead", "group", g.id.String(), "term", g.term, "to", to)
	g.rn.TransferLeader(to)
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
		return base.Errorf(base.CodeUnavailable,
			"group %v: node %d is behind with the log and catches up first; retry later", g.id, to)
	}
	x := &handover{to: to, phase: revoking, deadline: g.now + uint64(2*g.host.opts.ElectionTicks)}
	g.xfer = x
	g.sm.Revoking(g.term, base.NodeID(to), func(targetAppointed bool, err error) {
		g.later(func() { g.revoked(x, targetAppointed, err) })
	})
	return nil
}

// revoked goes on when the owner has done its part.
func (g *Group) revoked(x *handover, targetAppointed bool, err error) {
	if g.xfer != x || x.phase != revoking {
		return
	}
	if err == ErrAcquires && g.unfit(uint64(g.host.opts.Self)) > g.unfit(x.to) && !g.host.opts.SickFirst {
		err, targetAppointed = nil, false // it has not served, so there is no state to send (GRP-22)
	}
	if err != nil {
		g.host.opts.Logger.Info("hand-over given up by the owner", "group", g.id.String(), "to", x.to, "err", err)
		g.resume()
		return
	}
	x.deadline = g.now + uint64(2*g.host.opts.HeartbeatTicks)
	if targetAppointed {
		x.phase = appointed
	} else {
		x.phase = transferring
		g.rn.TransferLeader(x.to)
	}
	g.letIn(x)
}

// early reports whether a message comes too early for a leader whose hand-over is being prepared:
// it would end the term before what is under way in it is committed. A node that grants its vote to
// the target says so in all that it sends, to this leader too. Requests for this leader's vote wait
// until the owner is ready to leave or somebody leads already. The rest counts as lost, as any
// message may be.
func (g *Group) early(m *pb.Message) bool {
	x := g.xfer
	if x == nil || x.phase != revoking || m.GetTerm() <= g.term {
		return false
	}
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		return false
	case pb.MsgVote:
		if len(x.votes) == 0 {
			x.kept = g.now
		}
		if i := slices.IndexFunc(x.votes, func(o *pb.Message) bool { return o.GetFrom() == m.GetFrom() }); i >= 0 {
			x.votes[i] = m
		} else {
			x.votes = append(x.votes, m)
		}
	}
	return true
}

// letInLate lets the requests in that have been kept back for as long as a heartbeat. What is under
// way may never be committed in this term: a voter that has granted its vote to the target takes
// no more of it. Without this leader's vote the target may not be elected either (TIME-6b).
func (g *Group) letInLate() {
	o := &g.host.opts
	if x := g.xfer; x != nil && len(x.votes) > 0 && g.now-x.kept >= uint64(o.HeartbeatTicks) && !o.KeepsVotes {
		g.letIn(x)
	}
}

// letIn gives raft the requests for votes that were kept back.
func (g *Group) letIn(x *handover) {
	for _, m := range x.votes {
		_ = g.rn.Step(m)
	}
	x.votes = nil
}

// watchHandover gives up a hand-over that does not come about. The leader calls it at each
// heartbeat.
func (g *Group) watchHandover() {
	x := g.xfer
	if x == nil {
		return
	}
	why := ""
	switch late := g.now >= x.deadline; {
	case x.phase == revoking && late:
		why = "the owner did not revoke in time"
	case x.phase == transferring && g.rn.BasicStatus().LeadTransferee == raft.None, x.phase == appointed && late:
		why = "the target did not take over"
	default:
		return
	}
	g.host.opts.Logger.Info("hand-over given up: "+why, "group", g.id.String(), "to", x.to)
	g.resume()
}

// targetDown gives up a hand-over to a node that has died. Raft watches over its own transfers.
func (g *Group) targetDown(node uint64) {
	if x := g.xfer; x != nil && x.to == node && x.phase != transferring {
		g.host.opts.Logger.Info("hand-over given up: the target is gone", "group", g.id.String(), "to", x.to)
		g.resume()
	}
}

// resume leads on in the same term.
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

// keepsUp reports whether a follower has about what it can have at its distance, so that a
// hand-over, with proposals shut out, does not wait for the log: GeoLM's pre-synchronisation. A log
// that grows fast is always a round trip ahead.
func (g *Group) keepsUp(pr tracker.Progress) bool {
	return pr.Match+lagAllowed >= g.past[len(g.past)-1]
}

// A candidacy is the wish of this group's leader that this node stands for election, as soon as its
// log ends where the leader's does.
type candidacy struct {
	term, from, index uint64
	until             uint64 // tick
}

// A position is one in the log: there is one entry of that term at that index, ever.
type position struct{ index, term uint64 }

// Stand has this node campaign on behalf of the leader of term as soon as its log ends with index,
// as the leader's does: voters do not hold against it that they hear of that leader. It is an error
// if the group is not, or no longer, in that term.
func (g *Group) Stand(term uint64, from base.NodeID, index uint64) error {
	var err error
	if e := g.do(context.Background(), func() {
		if g.term != term || g.state != raft.StateFollower || g.lead != uint64(from) || !g.voter {
			err = base.Errorf(base.CodeUnavailable, "group %v: node %d does not follow node %d in term %d", g.id,
				g.host.opts.Self, from, term)
			return
		}
		g.candidacy = &candidacy{term, uint64(from), index, g.now + uint64(g.host.opts.ElectionTicks)}
		g.tryCampaign()
	}); e != nil {
		return e
	}
	return err
}

// tryCampaign begins the campaign of the candidacy once the log is there. The entries need not be
// on the disk yet: this node's own vote waits for that. If the log goes on, the leader has changed
// its mind, and the candidacy ends.
func (g *Group) tryCampaign() {
	c := g.candidacy
	last, err := g.log.LastIndex()
	if err != nil || !g.mayStand() || g.term != c.term || g.state != raft.StateFollower || last > c.index || g.now >= c.until {
		g.candidacy = nil
		return
	}
	if last < c.index {
		return
	}
	g.candidacy = nil
	self := uint64(g.host.opts.Self)
	_ = g.rn.Step(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), From: &c.from, To: &self, Term: &c.term})
}

// Committed takes over what a former leader knows: that the entry of term at index is committed.
// Then so is all that lies before it in a log that has that entry. Raft would find out with the
// first entry that this node commits as leader, a quorum's round trip later (TIME-6e).
func (g *Group) Committed(term, index uint64) {
	g.later(func() { g.known = position{index, term} })
}

// applyKnown applies what the log of a new leader has before its first entry, if that is known to
// be committed. Since this node was elected, it has all of it on its disk.
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
