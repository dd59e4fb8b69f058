package group

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// A replica is suspect when its log may lack what it has acknowledged: the end of the store's log
// was bad (store.Suspicion), or a leader says that it has acknowledged what it does not have, as
// after an old copy of the directory was put in place. The rules RECOVER-2 and RECOVER-3 say what
// it may do then. It asks all voters, once a second, where they are:
//
//	suspect --a leader's log, which holds all that is committed, is known--> catching up
//	catching up --it has that log--> sound
//	suspect --all voters answer, too few are sound--> backing the longest log --> catching up

// suspicion is what a suspect replica knows; the zero value is of a sound one.
type suspicion struct {
	why    string   // empty: the replica is sound
	since  uint64   // tick
	asked  uint64   // tick of the last round
	target position // in the log of a leader that has all that is committed; zero: unknown
	back   uint64   // the only node that it may vote for: its log is the longest of all; 0: none
	above  uint64   // and the term that the vote must be above
}

// askEvery is the pause between rounds, and how long an answer may take.
const askEvery = time.Second

func (g *Group) suspect() bool { return g.suspicion.why != "" }

// mayStand reports whether this replica may campaign. While its disk stands still it may not: the
// others' votes are enough to elect it, and it could serve nothing (GRP-9).
func (g *Group) mayStand() bool {
	if g.suspect() && g.suspicion.back != uint64(g.host.opts.Self) {
		return false
	}
	return g.sole || g.host.opts.Store.DiskUse().Age < lapsePatience/2
}

// becomeSuspect puts the suspicion on the disk before anything else is done.
func (g *Group) becomeSuspect(why string) {
	b := g.host.opts.Store.NewBatch()
	defer b.Close()
	b.SetSuspicion(g.id, why)
	if err := b.Commit(true); err != nil {
		g.fail(base.Errorf(base.CodeOf(err), "group %v: %v", g.id, err))
		return
	}
	g.suspicion = suspicion{why: why, since: g.now}
	g.host.opts.Logger.Error("this replica lacks what it has acknowledged: it neither votes nor leads until it has it "+
		"from the others",
		"group", g.id.String(), "why", why)
}

// lacks looks at a heartbeat. A leader names no commit index but one that this node has
// acknowledged. If it is not there, the store is older than that: raft would stop the process.
func (g *Group) lacks(m *pb.Message) {
	last, err := g.log.LastIndex()
	if err != nil || m.GetCommit() <= last || m.GetTerm() < g.term || g.host.opts.TrustTails {
		return
	}
	if !g.suspect() {
		g.becomeSuspect("the leader has its acknowledgement of entries that it does not have: " +
			"the store is an old copy, or its disk has lost what was synced. " +
			"If a copy of the directory was put in place, replace the node: start a new one with an empty --store")
	}
	m.Commit = &last
}

// bars reports whether a message is kept from a suspect replica: what asks for its vote, or has it
// stand.
func (s *suspicion) bars(m *pb.Message) bool {
	if s.why == "" {
		return false
	}
	switch m.GetType() {
	case pb.MsgVote, pb.MsgPreVote:
		return m.GetFrom() != s.back || m.GetType() == pb.MsgVote && m.GetTerm() <= s.above
	case pb.MsgTimeoutNow:
		return true
	}
	return false
}

// inquire starts a round, and looks whether this replica has what it lacked.
func (g *Group) inquire() {
	s := &g.suspicion
	if g.recovered() {
		b := g.host.opts.Store.NewBatch()
		defer b.Close()
		b.SetSuspicion(g.id, "")
		if err := b.Commit(true); err != nil {
			g.fail(base.Errorf(base.CodeOf(err), "group %v: %v", g.id, err))
			return
		}
		g.host.opts.Logger.Info("this replica has again all that is committed", "group", g.id.String(), "index", s.target.index)
		*s = suspicion{}
		return
	}
	if s.asked != 0 && g.now < s.asked+g.inTicks(askEvery) {
		return
	}
	s.asked = g.now
	last, err := g.log.LastIndex()
	if err != nil || len(g.conf.Voters) == 0 {
		return
	}
	q := &wire.SuspectRequest{Group: uint32(g.id), Incarnation: g.incarnation, Last: last}
	voters, outgoing := slices.Clone(g.conf.Voters), slices.Clone(g.conf.VotersOutgoing)
	g.host.wg.Go(func() {
		answers := g.host.askVoters(q, append(slices.Clone(voters), outgoing...))
		g.later(func() { g.judge(voters, outgoing, answers) })
	})
}

// recovered reports whether this replica has all that was committed when it asked. Two election
// timeouts give candidates that may still count a vote which it has forgotten the time to give up.
func (g *Group) recovered() bool {
	s := &g.suspicion
	if g.state == raft.StateLeader {
		return true // its log was the longest of all
	}
	if s.target.index == 0 || g.now < s.since+2*uint64(g.host.opts.ElectionTicks) || len(g.flights) > 0 || g.parked {
		return false
	}
	if g.applied.Load() >= s.target.index {
		return true
	}
	t, err := g.log.Term(s.target.index)
	return err == nil && t == s.target.term
}

// askVoters asks voters where they are, and leaves out those that do not answer in time.
func (h *Host) askVoters(q *wire.SuspectRequest, voters []uint64) map[uint64]*wire.SuspectResponse {
	ctx, cancel := context.WithTimeout(context.Background(), askEvery)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers := map[uint64]*wire.SuspectResponse{}
	for _, id := range voters {
		if id == uint64(h.opts.Self) {
			continue
		}
		wg.Go(func() {
			var r wire.SuspectResponse
			if h.opts.Transport.Call(ctx, base.NodeID(id), wire.KindSuspect, q, &r) == nil && r.Known {
				mu.Lock()
				defer mu.Unlock()
				answers[id] = &r
			}
		})
	}
	wg.Wait()
	return answers
}

// judge takes the answers of a round.
//
// The leader of the newest term among a majority, all sound and without this replica, has all that
// is committed: whoever committed something had a majority, one of that majority is among those
// that answered, and it knows of no newer leader. If all voters answer, what they have is all there
// is.
func (g *Group) judge(voters, outgoing []uint64, answers map[uint64]*wire.SuspectResponse) {
	s := &g.suspicion
	if !g.suspect() {
		return
	}
	s.back = 0
	self := uint64(g.host.opts.Self)
	answered := func(id uint64) bool { return id == self || answers[id] != nil }
	sound := func(id uint64) bool { return id != self && answers[id] != nil && !answers[id].Suspect }
	all := !slices.ContainsFunc(append(slices.Clone(voters), outgoing...), func(id uint64) bool { return !answered(id) })
	enough := majority(voters, sound) && (len(outgoing) == 0 || majority(outgoing, sound))
	if !enough && !all {
		return
	}
	newest, leader := g.term, (*wire.SuspectResponse)(nil)
	for _, r := range answers {
		newest = max(newest, r.Term)
	}
	for _, r := range answers {
		if r.Leads && r.Term == newest {
			leader = r
		}
	}
	if leader != nil {
		s.target = position{leader.Last, leader.LastTerm}
		return
	}
	if !enough {
		s.back, s.above = g.longest(answers), newest
		_ = g.rn.ForgetLeader()
	}
}

func majority(of []uint64, is func(uint64) bool) bool {
	n := 0
	for _, id := range of {
		if is(id) {
			n++
		}
	}
	return n > len(of)/2
}

// longest is the voter whose log is the longest, as elections compare them; of equal ones the
// first.
func (g *Group) longest(answers map[uint64]*wire.SuspectResponse) uint64 {
	best := uint64(g.host.opts.Self)
	last, _ := g.log.LastIndex()
	term, _ := g.log.Term(last)
	for id, r := range answers {
		if r.LastTerm > term || r.LastTerm == term && (r.Last > last || r.Last == last && id < best) {
			best, last, term = id, r.Last, r.LastTerm
		}
	}
	return best
}

// onSuspect answers a suspect replica of another node.
func (h *Host) onSuspect(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.SuspectRequest
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed request: %v", err)
	}
	r := &wire.SuspectResponse{}
	g := h.Group(base.GroupID(q.Group))
	if g == nil || g.incarnation != q.Incarnation || g.frozen.Load() {
		return r, nil
	}
	err := g.do(ctx, func() { g.answerSuspect(uint64(from), &q, r) })
	return r, err
}

func (g *Group) answerSuspect(from uint64, q *wire.SuspectRequest, r *wire.SuspectResponse) {
	last, err := g.log.LastIndex()
	if err != nil || len(g.conf.Voters) == 0 {
		return
	}
	term, err := g.log.Term(last)
	if err != nil {
		return
	}
	r.Known, r.Suspect, r.Term, r.Last, r.LastTerm, r.Leads = true, g.suspect(), g.term, last, term, g.state == raft.StateLeader
	if pr, ok := g.progress(from); r.Leads && ok && pr.Match > q.Last {
		// Raft goes by what the member acknowledged, and would never send it again: only a new
		// leader finds out what the others have.
		g.makeWay(from)
	}
}

// makeWay ends this leader's term: another voter is to lead, or this one again.
func (g *Group) makeWay(sick uint64) {
	if g.xfer != nil {
		return
	}
	best, match := uint64(0), uint64(0)
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id != sick && id != uint64(g.host.opts.Self) && !pr.IsLearner && pr.RecentActive && pr.Match > match {
			best, match = id, pr.Match
		}
	})
	g.madeWay++
	if best != 0 && g.madeWay < 3 && g.beginHandover(best) == nil {
		return
	}
	g.host.opts.Logger.Info("the term is given up: a member has lost what it had acknowledged", "group", g.id.String(),
		"member", sick)
	self := uint64(g.host.opts.Self)
	_ = g.rn.Step(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: &sick, To: &self, Term: new(g.term + 1)})
	g.campaign, g.queued = 2, 0
}
