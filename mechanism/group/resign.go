package group

import (
	"go.etcd.io/raft/v3"

	"github.com/godwitdb/godwit/base"
)

// A leader that has lost the majority of its voters steps down before raft finds out (GRP-15). What
// it sends may still arrive: then its owner tells the others that it serves no more (TIME-1c), and
// they neither wait for it to be found late nor for its lease to end.

// resignAfter is how many ticks a majority must have been out of reach: a connection that was reset
// is made anew in less.
const resignAfter = 3

// watchMajority steps down if too few voters have been in reach for a while. Raft answers no
// proposal without them anyway.
func (g *Group) watchMajority() {
	switch {
	case g.sole || g.host.opts.StubbornLeaders || g.hasMajority():
		g.alone = 0
	case g.alone == 0:
		g.alone = g.now + resignAfter
	case g.now >= g.alone:
		g.resign()
	}
}

// hasMajority reports whether voters that are not known to be out of reach are a majority, with
// this node.
func (g *Group) hasMajority() bool {
	return g.reaches(g.conf.Voters) && g.reaches(g.conf.VotersOutgoing)
}

func (g *Group) reaches(voters []uint64) bool {
	n := 0
	for _, id := range voters {
		if id == uint64(g.host.opts.Self) || g.now >= g.down[id] && !g.host.opts.Transport.Lost(base.NodeID(id)) {
			n++
		}
	}
	return 2*n > len(voters) || len(voters) == 0
}

// resign ends the term, as raft does when it has heard of too few voters for an election timeout:
// it is told that this time has passed. Raft looks twice, since it may have heard of them before.
func (g *Group) resign() {
	g.alone = 0
	for range 2 * g.host.opts.ElectionTicks {
		if g.rn.BasicStatus().RaftState != raft.StateLeader {
			break
		}
		g.rn.Tick()
	}
	g.host.opts.Logger.Info("a leader steps down: a majority of the voters is out of reach", "group", g.id.String(),
		"term", g.term)
	// It cannot be elected before they are back, and then they may not have left it yet (GRP-11).
	g.campaign, g.regains = 0, g.now+uint64(g.host.opts.ElectionTicks)
}

// Resigned tells that a node has said that it serves no more in a term, whatever raft's messages
// say: it leads no more (GRP-15). If this replica follows it, it stands for election in its turn.
func (g *Group) Resigned(by base.NodeID, term uint64) {
	if lead, at := g.Leader(); lead != by || at != term {
		return
	}
	g.later(func() {
		if g.lead == uint64(by) && g.term == term && g.state == raft.StateFollower && g.voter {
			g.deserted()
		}
	})
}
