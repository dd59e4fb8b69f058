package group

import (
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// A leader can go on with its heartbeats and serve nothing: its disk stands still, so that it
// applies nothing and its lease ends; or its owner is stuck. Raft takes it for alive. The rules
// GRP-7 and GRP-8 end that. They rest on no clock that another node reads, and harm no safety: a
// node that campaigns needs the votes of a majority, which has given that leader up too, and waits
// for the leases in the log.

// lapsePatience is how long the disk of a leader may stand still, and how long after a lease has
// ended its followers give it up.
const lapsePatience = time.Second

// leases is what a member sees of its leader's leases in the log.
type leases struct {
	length uint64 // of the newest one, ticks; 0: none has been seen, as in a group without an owner
	due    uint64 // tick at which the leader counts as dead
	// target is the target of the newest lease transfer, until another lease is seen; targetDue is
	// the tick at which it counts as dead, if it leads.
	target, targetDue uint64
	// shunned is the leader that has been given up, in its term; 0: none.
	shunned, shunnedTerm uint64
	// deaf is the tick until which its appends are not taken either. In deafTerm that may begin
	// again at the tick retry, and the time after that is pause.
	deaf, deafTerm, retry, pause uint64
}

// An append of the leader that was given up has this member follow it again, and not vote for
// another one. So it is deaf to appends for an election timeout. If the others do not give that
// leader up, it takes them for deafPause before it is deaf again; twice as long each time, up to
// mostDeafPause.
const (
	deafPause     = 10 * time.Second
	mostDeafPause = 16 * deafPause
)

func (g *Group) inTicks(d time.Duration) uint64 {
	tick := g.host.opts.TickInterval
	return uint64((d + tick - 1) / tick)
}

// noteLease takes a command that is applied: a lease in it is a sign of life as of the tick at
// which it came. It never shortens the time that the leader has: a new leader's first entry commits
// leases of the one before, which came long ago and say nothing of the new one.
func (g *Group) noteLease(c *wire.Command, came uint64) {
	length, l := uint64(0), &g.leases
	switch {
	case c.Lease != nil:
		length, l.target = c.Lease.LengthNs, 0
	case c.LeaseTransfer != nil:
		length, l.target = c.LeaseTransfer.LengthNs, uint64(c.LeaseTransfer.Target)
	default:
		return
	}
	l.length = g.inTicks(time.Duration(length))
	due := came + l.length + g.inTicks(lapsePatience)
	l.due = max(l.due, due)
	if l.targetDue = due; l.target != 0 && l.target == g.lead {
		g.noteTarget()
	}
	if l.due > g.now {
		l.shunned = 0
	}
}

// noteLeader gives a leader that this member has not followed before the time to get a lease.
func (g *Group) noteLeader() {
	l := &g.leases
	if l.shunned == g.lead && l.shunnedTerm == g.term {
		return
	}
	l.shunned = 0
	l.due = g.now + 2*l.length + g.inTicks(lapsePatience)
	if l.target != 0 && l.target == g.lead {
		g.noteTarget()
	}
}

// noteTarget gives the target of a hand-over, which leads, less time than other new leaders: it has
// a lease already, and no other one to wait for.
func (g *Group) noteTarget() {
	if !g.host.opts.PatientTargets {
		g.leases.due = max(g.leases.targetDue, g.now+g.inTicks(lapsePatience))
	}
}

// shuns reports whether a message is a heartbeat of a leader that has been given up, or an append
// of it for as long as this member is deaf.
func (g *Group) shuns(m *pb.Message) bool {
	l := &g.leases
	if l.shunned == 0 || m.GetFrom() != l.shunned || m.GetTerm() != l.shunnedTerm {
		return false
	}
	return m.GetType() == pb.MsgHeartbeat || m.GetType() == pb.MsgApp && g.now < l.deaf
}

// answerShunned answers a heartbeat of a leader that is not followed. It may be well, and this
// member far behind: then it sends what is missing, leases too, once it hears from this member.
func (g *Group) answerShunned(m *pb.Message) {
	self := uint64(g.host.opts.Self)
	g.send(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: &self, To: new(m.GetFrom()), Term: new(m.GetTerm()),
		Context: m.Context})
}

// watched reports whether this member looks at its leader's leases.
func (g *Group) watched() bool {
	return g.leases.length != 0 && g.voter && g.state == raft.StateFollower && g.lead != 0
}

// checkLease gives a leader up whose lease has ended, if this member itself is well.
func (g *Group) checkLease() {
	if !g.watched() || g.now < g.leases.due {
		return
	}
	if !g.fit() || g.applied.Load() < g.rn.BasicStatus().HardState.GetCommit() {
		return
	}
	g.shun("the leader's lease has ended and it takes no other: this node drops its heartbeats and stands for election")
	g.deserted()
}

// fit reports whether this member may find fault with its leader: it is well itself.
func (g *Group) fit() bool { return !g.parked && g.diskAge() < g.inTicks(lapsePatience)/2 }

// shun gives the leader up: its heartbeats are dropped, and its appends for a while.
func (g *Group) shun(why string) {
	if g.leases.shunned == 0 {
		g.host.opts.Logger.Warn(why, "group", g.id.String(), "leader", g.lead, "term", g.term)
	}
	g.leases.shunned, g.leases.shunnedTerm = g.lead, g.term
	g.leases.turnDeaf(g.term, g.now, uint64(g.host.opts.ElectionTicks), g.inTicks(deafPause), g.inTicks(mostDeafPause))
}

// leaderLate gives a leader up that most nodes find late. The others hear of that at about the same
// time, and who has not heard of it yet refuses its vote to this member: so that gives them a
// moment.
func (g *Group) leaderLate(node uint64) {
	// Raft knows at once if it was said to be down in the same turn.
	if g.lead != node || g.rn.BasicStatus().Lead != node || !g.watched() || !g.fit() {
		return
	}
	g.shun("most nodes find the leader late: this node drops its heartbeats and stands for election")
	g.deserted()
	g.campaign, g.patience = g.campaign+lateMoment, lateMoment
}

// lateMoment is in ticks: the time between two heartbeats of nodes, and their way.
const lateMoment = 2

// turnDeaf begins a time without the appends of the leader that has been given up in a term, unless
// the last one was not long ago. All times are ticks.
func (l *leases) turnDeaf(term, now, length, pause, most uint64) {
	if l.deafTerm != term {
		l.deafTerm, l.retry, l.pause = term, 0, 0
	}
	if now < l.retry {
		return
	}
	l.pause = min(max(2*l.pause, pause), most)
	l.deaf = now + length
	l.retry = l.deaf + l.pause
}

// Deposed tells a leader that another node leads in a later term: that one has said so to this
// node's owner, on a way that is faster than that of Raft's messages, which a late node handles in
// turn.
func (g *Group) Deposed(term uint64, by base.NodeID) {
	g.later(func() {
		if g.state != raft.StateLeader || term <= g.term {
			return
		}
		self := uint64(g.host.opts.Self)
		// a heartbeat of that leader, which says of no entry that it is committed
		m := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(by)), To: &self, Term: &term, Commit: new(uint64(0))}
		if g.heeds(m) {
			g.step(m)
		}
	})
}

// diskAge is for how many ticks the oldest append has been on its way to the disk.
func (g *Group) diskAge() uint64 {
	if len(g.flights) == 0 {
		return 0
	}
	return g.now - min(g.now, g.flights[0].at)
}

// stalled is why nothing may be proposed while the disk stands still; nil if it does not (GRP-7). A
// sole voter has nobody to leave the lead to.
func (g *Group) stalled() error {
	if g.sole || g.xfer != nil || g.diskAge() < g.inTicks(lapsePatience) {
		return nil
	}
	return base.Errorf(base.CodeNotLeader,
		"group %v: the disk of node %d, which leads, has taken nothing for %v; another node is to lead; retry",
		g.id, g.host.opts.Self, time.Duration(g.diskAge())*g.host.opts.TickInterval)
}
