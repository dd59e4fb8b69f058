package group

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/godwitdb/godwit/base"
)

func (g *Group) applyConf(e *pb.Entry) error {
	cc := new(pb.ConfChangeV2)
	if e.GetType() == pb.EntryConfChange {
		v1 := new(pb.ConfChange)
		if err := proto.Unmarshal(e.GetData(), v1); err != nil {
			return base.Errorf(base.CodeCorrupt, "group %v: membership change at %d cannot be decoded: %v", g.id,
				e.GetIndex(), err)
		}
		cc = v1.AsV2()
	} else if err := proto.Unmarshal(e.GetData(), cc); err != nil {
		return base.Errorf(base.CodeCorrupt, "group %v: membership change at %d cannot be decoded: %v", g.id, e.GetIndex(), err)
	}
	was, before := g.member(), g.conf
	g.setConf(g.rn.ApplyConfChange(cc))
	if g.state == raft.StateLeader && e.GetTerm() == g.term {
		for _, id := range slices.Concat(g.conf.Voters, g.conf.Learners) {
			if !slices.Contains(before.Voters, id) && !slices.Contains(before.Learners, id) &&
				!slices.Contains(before.VotersOutgoing, id) {
				if g.newcomers == nil {
					g.newcomers = map[uint64]bool{}
				}
				g.newcomers[id] = true
			}
		}
	}
	g.confApplied = e.GetIndex()
	g.host.opts.Logger.Info("group membership changed", "group", g.id.String(), "conf", raft.DescribeConfState(g.conf))
	if was && !g.member() {
		g.removed = true
	}
	return nil
}

func (g *Group) setConf(cs *pb.ConfState) {
	self := uint64(g.host.opts.Self)
	g.conf = cs
	g.voter = slices.Contains(cs.Voters, self) || slices.Contains(cs.VotersOutgoing, self)
	g.sole = g.voter && len(cs.Voters) == 1 && len(cs.VotersOutgoing) == 0
}

func (g *Group) member() bool {
	self := uint64(g.host.opts.Self)
	return g.voter || slices.Contains(g.conf.Learners, self) || slices.Contains(g.conf.LearnersNext, self)
}

// peer is a leader's view of another member.
type peer struct {
	id      uint64
	match   uint64
	live    bool // heard of within an election timeout
	snap    bool // is being sent a snapshot
	caught  bool // receives the log as it comes, and has all that was committed but a little
	learner bool
}

// caughtLag is how many entries a learner may be behind when it becomes a voter.
const caughtLag = 64

func (g *Group) eachPeer(f func(peer)) {
	self := uint64(g.host.opts.Self)
	applied := g.applied.Load()
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id != self {
			f(peer{id, pr.Match, pr.RecentActive, pr.State == tracker.StateSnapshot,
				pr.State == tracker.StateReplicate && pr.Match+caughtLag >= applied, pr.IsLearner})
		}
	})
}

// ChangeMembers makes voters and learners the members of the group, through
// joint consensus, and waits until it is so. New voters first join as
// learners and catch up. It must be called on the leader; a leader that is not
// among the new voters first hands its lead to one of them and answers
// CodeNotLeader: call again there. A call that was cut short may be repeated,
// also with other members.
//
// A node that was a member before may still have the log of that time: it would acknowledge entries
// to the leader that it forgets a moment later, when it learns of its removal. So a node joins only
// when its replica has no state (HostOptions.Fresh), and nothing that it acknowledges counts before
// it has been sent a snapshot.
//
// A replica that learns of its own removal destroys its raft state; one that
// does not (it was down) is removed with Abandon.
func (g *Group) ChangeMembers(ctx context.Context, voters, learners []base.NodeID) error {
	want := Conf{Voters: voters, Learners: learners}
	if err := checkConf(g.id, want); err != nil {
		return err
	}
	retry := time.NewTicker(g.host.opts.TickInterval)
	defer retry.Stop()
	fresh := newcomers{fresh: map[uint64]bool{}}
	for {
		changed := g.change()
		var done bool
		var err error
		if e := g.do(ctx, func() { done, err = g.stepMembers(want, &fresh) }); e != nil {
			return e
		}
		if done || err != nil {
			return err
		}
		if g.askFresh(ctx, &fresh) {
			continue
		}
		select {
		case <-changed:
		case <-retry.C: // followers catch up, changes get lost
		case <-g.done:
			return g.gone()
		case <-ctx.Done():
			return base.Errorf(base.CodeCanceled,
				"group %v: %v while its members were being changed; repeat the change", g.id, ctx.Err())
		}
	}
}

// newcomers is what is known of nodes that are to become members.
type newcomers struct {
	term  uint64
	fresh map[uint64]bool // without state in term
	ask   []uint64        // not known to be
}

// askFresh asks the nodes of which it is not known whether they have state. It reports whether all
// answered that they have none.
func (g *Group) askFresh(ctx context.Context, n *newcomers) bool {
	all := len(n.ask) > 0
	for _, id := range n.ask {
		ask := g.host.opts.Fresh
		n.fresh[id] = ask == nil || ask(ctx, g.id, base.NodeID(id))
		all = all && n.fresh[id]
	}
	return all
}

// stepMembers takes the next step towards a membership, if nothing is under way:
//
//  1. a leader that is not to vote hands the lead to a voter that stays one, if one of those is fit
//     to lead or all members to be vote already (GRP-17);
//  2. nodes that are not members become learners, once it is known that they have no state;
//  3. learners that have caught up become voters, and members that are to leave do so.
func (g *Group) stepMembers(want Conf, fresh *newcomers) (done bool, err error) {
	if fresh.ask = nil; fresh.term != g.term {
		fresh.term = g.term
		clear(fresh.fresh)
	}
	if g.state != raft.StateLeader {
		return false, g.notLeader(g.lead)
	}
	if len(g.conf.VotersOutgoing) > 0 || !g.settled() || g.xfer != nil {
		return false, nil // raft leaves a joint configuration by itself
	}
	voters, learners := raftIDs(want.Voters), raftIDs(want.Learners)
	if sameIDs(g.conf.Voters, voters) && sameIDs(g.conf.Learners, learners) {
		return true, nil
	}
	if g.yieldLead(voters) {
		return false, nil // ends with notLeader
	}
	changes := g.addLearners(slices.Concat(voters, learners), fresh)
	if len(changes) == 0 {
		if slices.ContainsFunc(fresh.ask, func(id uint64) bool { return slices.Contains(voters, id) }) {
			return false, nil // a newcomer that is only to learn, and is perhaps down, holds nothing up
		}
		changes = g.switchMembers(voters, learners)
	}
	// Dropped or refused while another change is pending: the next step tries again.
	if len(changes) > 0 && g.applied.Load() >= g.confIndex {
		if err := g.rn.ProposeConfChange(&pb.ConfChangeV2{Changes: changes}); err == nil {
			last, _ := g.lastIndex()
			g.confIndex = last
			clear(fresh.fresh)
		}
	}
	return false, nil
}

// yieldLead begins to hand the lead over if this leader is not to vote, and a voter stays one that
// is fit to lead. Where none is, those that are to join may be (GRP-17).
func (g *Group) yieldLead(voters []uint64) bool {
	if slices.Contains(voters, uint64(g.host.opts.Self)) {
		return false
	}
	stay, fit := 0, 0
	for _, id := range voters {
		if slices.Contains(g.conf.Voters, id) {
			stay++
			fit += 1 - g.unfit(id)
		}
	}
	if stay == 0 || fit == 0 && stay < len(voters) {
		return false
	}
	g.passOn(voters)
	return true
}

func confChange(t pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: t.Enum(), NodeId: new(id)}
}

// addLearners makes members of those that are known to have no state. The others are to be asked.
func (g *Group) addLearners(members []uint64, fresh *newcomers) (changes []*pb.ConfChangeSingle) {
	for _, id := range members {
		switch {
		case slices.Contains(g.conf.Voters, id) || slices.Contains(g.conf.Learners, id):
		case !fresh.fresh[id]:
			fresh.ask = append(fresh.ask, id)
		default:
			changes = append(changes, confChange(pb.ConfChangeType_ConfChangeAddLearnerNode, id))
		}
	}
	return changes
}

// switchMembers changes who votes and who leaves, in one step. It waits until all new voters have
// caught up.
func (g *Group) switchMembers(voters, learners []uint64) (changes []*pb.ConfChangeSingle) {
	ready := make(map[uint64]bool)
	g.eachPeer(func(p peer) { ready[p.id] = p.caught })
	for _, id := range voters {
		if slices.Contains(g.conf.Voters, id) {
			continue
		}
		if !ready[id] {
			return nil
		}
		changes = append(changes, confChange(pb.ConfChangeType_ConfChangeAddNode, id))
	}
	if len(changes) > 0 && !slices.Contains(voters, uint64(g.host.opts.Self)) {
		// If neither the leader nor a present voter that could lead is to vote, the new voters
		// first vote beside them. One of them takes the lead over and goes on. Else they would wait
		// out an election.
		return changes
	}
	for _, id := range learners {
		if slices.Contains(g.conf.Voters, id) {
			changes = append(changes, confChange(pb.ConfChangeType_ConfChangeAddLearnerNode, id))
		}
	}
	for _, id := range slices.Concat(g.conf.Voters, g.conf.Learners) {
		if !slices.Contains(voters, id) && !slices.Contains(learners, id) {
			changes = append(changes, confChange(pb.ConfChangeType_ConfChangeRemoveNode, id))
		}
	}
	return changes
}

// lastIndex is that of raft, unstable entries included.
func (g *Group) lastIndex() (uint64, bool) {
	var last uint64
	self := uint64(g.host.opts.Self)
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == self {
			last = pr.Next - 1
		}
	})
	return last, last > 0
}

func sameIDs(a, b []uint64) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// Abandoned reports whether this replica has heard of no leader for twice an
// election timeout, and does not lead: perhaps it was removed and could not hear of it.
func (g *Group) Abandoned() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	got := make(chan bool, 1)
	return g.do(ctx, func() { got <- g.silent() }) == nil && <-got
}

// Fresh reports whether this replica has no state of its group: it waits to be made a member.
func (g *Group) Fresh() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	got := make(chan bool, 1)
	return g.do(ctx, func() {
		last, err := g.log.LastIndex()
		got <- err == nil && last == 0 && g.applied.Load() == 0 && len(g.conf.Voters)+len(g.conf.Learners) == 0 && g.staged == nil
	}) == nil && <-got
}

// Abandon removes this replica as if it had applied its own removal. The caller has
// heard from the present leader that it is no member. Nothing happens if a leader has spoken up
// meanwhile: then it may be a member again.
func (g *Group) Abandon() {
	g.later(func() {
		if g.silent() {
			g.removed = true
		}
	})
}

func (g *Group) silent() bool {
	return g.state != raft.StateLeader && g.now-g.heard >= 2*uint64(g.host.opts.ElectionTicks)
}
