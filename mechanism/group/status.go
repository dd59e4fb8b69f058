package group

import (
	"context"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/godwitdb/godwit/base"
)

// Progress is what a leader knows of a member.
type Progress struct {
	Match   uint64 // the member's log agrees with the leader's up to here
	Next    uint64 // the next entry to send
	State   string // probe, replicate or snapshot
	Active  bool   // heard of within an election timeout
	Learner bool
}

// Status is a replica's view of its group.
type Status struct {
	Group    base.GroupID
	Term     uint64
	Leader   base.NodeID // 0 unknown
	IsLeader bool        // this replica is raft's leader
	Serving  bool        // and its state machine knows
	Applied  uint64
	Commit   uint64
	First    uint64 // oldest entry kept
	Last     uint64
	LogBytes int64
	Pending  int // proposals not answered
	Voters   []base.NodeID
	Outgoing []base.NodeID // old voters during a joint change
	Learners []base.NodeID
	Transfer base.NodeID              // the lead is being handed to; 0 none
	Progress map[base.NodeID]Progress // on the leader
	Err      error                    // why the replica stopped for good
}

// Status asks the group's goroutine. A replica that is stopped or does not
// answer within a second gives what it published last.
func (g *Group) Status() Status {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	got := make(chan Status, 1)
	if g.do(ctx, func() { got <- g.status() }) == nil {
		return <-got
	}
	w := g.published.Load()
	return Status{Group: g.id, Term: w.term, Leader: w.lead, IsLeader: w.leads, Serving: w.serving, Applied: g.applied.Load(),
		Pending: int(g.pendingN.Load()), Voters: w.voters, Outgoing: w.outgoing, Learners: w.learners, Err: w.err}
}

func (g *Group) status() Status {
	b := g.rn.BasicStatus()
	s := Status{Group: g.id, Term: g.term, Leader: base.NodeID(g.lead), IsLeader: g.state == raft.StateLeader, Serving: g.serving,
		Applied: g.applied.Load(), Commit: b.HardState.GetCommit(), LogBytes: g.log.Bytes(), Pending: int(g.pendingN.Load()),
		Voters: nodeIDs(g.conf.Voters), Outgoing: nodeIDs(g.conf.VotersOutgoing), Learners: nodeIDs(g.conf.Learners),
		Err: g.failed}
	s.First, _ = g.log.FirstIndex()
	s.Last, _ = g.log.LastIndex()
	if g.xfer != nil {
		s.Transfer = base.NodeID(g.xfer.to)
	}
	if s.IsLeader {
		s.Progress = map[base.NodeID]Progress{}
		g.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			state := map[tracker.StateType]string{tracker.StateProbe: "probe", tracker.StateReplicate: "replicate",
				tracker.StateSnapshot: "snapshot"}[pr.State]
			s.Progress[base.NodeID(id)] = Progress{Match: pr.Match, Next: pr.Next, State: state,
				Active: pr.RecentActive, Learner: pr.IsLearner}
		})
	}
	return s
}
