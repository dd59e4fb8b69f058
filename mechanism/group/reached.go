package group

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// reached is called when messages take a new way to a peer, behind a cut (GRP-14). What was sent
// before may be lost. A leader sends again at once what the peer has not acknowledged, as if the
// peer had answered a heartbeat; a follower of the peer gives such an answer.
func (g *Group) reached(node uint64) {
	self := uint64(g.host.opts.Self)
	answer := &pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: &self, To: &node, Term: new(g.term)}
	if g.state != raft.StateLeader {
		if g.lead == node && g.leases.shunned == 0 {
			g.send(answer)
		}
		return
	}
	if _, ok := g.progress(node); ok && node != self {
		g.rn.ReportUnreachable(node)
		answer.From, answer.To = &node, &self
		g.step(answer)
	}
}
