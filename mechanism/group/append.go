package group

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// crowdBatches is for how many batches after proposals came in company a sole voter does not stand
// still while the disk works: it applies one batch while the next is being synced.
const crowdBatches = 4

// maxFlights bounds the appends of one group whose fsync has not ended.
const maxFlights = 16

// commitLoop waits for the disk on behalf of the group, so that messages flow
// meanwhile. The batches are in the store's log already, in order; the store
// shares one fsync among all that wait.
func (g *Group) commitLoop(c <-chan *store.Batch) {
	for b := range c {
		err := b.Wait()
		b.Close()
		g.mb.putSynced(err)
		g.Push()
	}
}

// startAppend writes everything raft wants stored, as one batch. It returns
// true if raft learnt something new by that.
func (g *Group) startAppend() bool {
	if len(g.appends) == 0 || len(g.flights) >= maxFlights || g.parked {
		return false
	}
	msgs := g.nextAppends()
	if len(msgs) == 0 {
		return false
	}
	b, err := g.buildAppend(msgs)
	if err != nil {
		g.fail(err)
		return false
	}
	if b == nil {
		// Nothing to write: the answers wait only for what is under way.
		if n := len(g.flights); n > 0 {
			g.flights[n-1].msgs = append(g.flights[n-1].msgs, msgs...)
			return false
		}
		g.flights = append(g.flights, flight{msgs, g.now})
		g.appendDone()
		return true
	}
	if g.crowd > 0 {
		g.crowd--
	} else if g.sole && len(g.flights) == 0 && !g.guest {
		return g.commitHere(b, msgs)
	}
	if err := b.CommitAsync(true); err != nil {
		b.Close()
		g.fail(base.Errorf(base.CodeOf(err), "group %v: log entries cannot be stored: %v", g.id, err))
		return false
	}
	g.flights = append(g.flights, flight{msgs, g.now})
	g.commitc <- b
	return false
}

// nextAppends takes what goes into the next batch. What comes before a snapshot goes first, and
// alone. When the snapshot's turn has come and nothing is under way, the group is parked until the
// snapshot has been installed or refused.
func (g *Group) nextAppends() []*pb.Message {
	msgs := g.appends
	g.appends = nil
	i := slices.IndexFunc(msgs, func(m *pb.Message) bool { return !raft.IsEmptySnap(m.GetSnapshot()) })
	if i < 0 {
		return msgs
	}
	if i == 0 && len(g.flights) == 0 {
		msgs, g.appends = msgs[:1], msgs[1:]
		g.flights = append(g.flights, flight{msgs, g.now})
		g.parked = true
		g.staged.decide(true)
		return nil
	}
	g.appends = msgs[i:]
	return msgs[:i]
}

// commitHere waits for the disk on the group's own goroutine. A sole voter has no one to talk to
// while the disk works, and nothing to apply: waiting here spares two changes of goroutine.
func (g *Group) commitHere(b *store.Batch, msgs []*pb.Message) bool {
	err := b.Commit(true)
	b.Close()
	if g.mb.proposals() {
		g.crowd = crowdBatches
	}
	if err != nil {
		g.fail(base.Errorf(base.CodeOf(err), "group %v: log entries cannot be stored: %v", g.id, err))
		return false
	}
	g.flights = append(g.flights, flight{msgs, g.now})
	g.appendDone()
	return true
}

// buildAppend makes the batch; nil if nothing has to be written. A commit index
// alone is not: raft finds it again, and applied entries prove their own.
func (g *Group) buildAppend(msgs []*pb.Message) (*store.Batch, error) {
	var b *store.Batch
	batch := func() *store.Batch {
		if b == nil {
			b = g.host.opts.Store.NewBatch()
		}
		return b
	}
	fail := func(err error) (*store.Batch, error) {
		if b != nil {
			b.Close()
		}
		return nil, base.Errorf(base.CodeOf(err), "group %v: log entries cannot be stored: %v", g.id, err)
	}
	for _, m := range msgs {
		var hs *pb.HardState
		if m.Term != nil && (m.GetTerm() != g.saved.GetTerm() || m.GetVote() != g.saved.GetVote()) {
			hs = &pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
			g.saved = pb.HardState{Term: m.Term, Vote: m.Vote}
		}
		if hs != nil || len(m.Entries) > 0 {
			if err := g.log.Append(batch(), hs, m.Entries); err != nil {
				return fail(err)
			}
		}
	}
	return b, nil
}

// appendDone gives out the acknowledgements and votes that waited for the disk.
func (g *Group) appendDone() {
	msgs := g.flights[0].msgs
	g.flights[0] = flight{}
	g.flights = g.flights[1:]
	var resps []*pb.Message
	for _, m := range msgs {
		resps = append(resps, m.Responses...)
	}
	for i, m := range resps {
		switch {
		case m.GetType() == pb.MsgAppResp && !m.GetReject() && acknowledgedLater(resps[i+1:], m):
		case m.GetTo() == uint64(g.host.opts.Self):
			_ = g.rn.Step(m)
		default:
			g.send(m)
		}
	}
}

// acknowledgedLater tells whether a later acknowledgement says all that m does.
func acknowledgedLater(later []*pb.Message, m *pb.Message) bool {
	for _, n := range later {
		if n.GetType() == pb.MsgAppResp && !n.GetReject() && n.GetTo() == m.GetTo() && n.GetTerm() == m.GetTerm() &&
			n.GetIndex() >= m.GetIndex() {
			return true
		}
	}
	return false
}

// runApplies applies committed entries.
func (g *Group) runApplies() bool {
	if len(g.applies) == 0 {
		return false
	}
	todo := g.applies
	g.applies = nil
	for _, m := range todo {
		ents := m.Entries
		for len(ents) > 0 && ents[0].GetIndex() <= g.applied.Load() { // applyKnown has
			ents = ents[1:]
		}
		if len(ents) > 0 {
			if err := g.apply(ents); err != nil {
				g.fail(err)
				return false
			}
		}
		for _, r := range m.Responses {
			_ = g.rn.Step(r)
		}
	}
	g.maybeTruncate()
	return true
}

// verdict is an answer to a proposer that waits until the batch is visible.
type verdict struct {
	p     *proposal
	ent   int // which of the applied entries is the proposal's; -1: err
	index uint64
	err   error
}

// apply applies entries, in more than one batch if some of them do much more than they say.
func (g *Group) apply(ents []*pb.Entry) error {
	for len(ents) > 0 {
		n := lightRun(ents)
		if err := g.applyBatch(ents[:n]); err != nil {
			return err
		}
		ents = ents[n:]
	}
	return nil
}

// lightRun is how many of the entries, one at least, make one batch: those before the first one
// that settles a piece of a large transaction. Such an entry is a batch of its own. It is small and
// writes megabytes, so that raft's bound of what is applied at once does not bound it; and it reads
// what entries before it have stored.
func lightRun(ents []*pb.Entry) int {
	for i, e := range ents {
		if e.GetType() == pb.EntryNormal && settles(e.Data) {
			return max(i, 1)
		}
	}
	return len(ents)
}

// The parts of an encoded wire.Command that settles looks at.
const (
	maxSettle   = 1024 // no such entry is larger, with its vector and a lease
	settleField = 15
)

// settles reports whether an entry is a wire.Settle. Commands have their fields in order.
func settles(data []byte) bool {
	if len(data) > maxSettle {
		return false
	}
	for len(data) > 0 {
		field, _, n := protowire.ConsumeField(data)
		if n < 0 || field == settleField {
			return n > 0
		}
		data = data[n:]
	}
	return false
}

// applyBatch hands entries to the state machine, and stores what it makes of them and the applied
// index as one batch (GRP-2). Proposers are answered when the batch is visible.
func (g *Group) applyBatch(raftEnts []*pb.Entry) error {
	b := g.host.opts.Store.NewBatch()
	defer b.Close()
	g.ents, g.verdicts = g.ents[:0], g.verdicts[:0]
	confChanged := false
	last := raftEnts[len(raftEnts)-1]
	for _, e := range raftEnts {
		own := g.proposalOf(e)
		switch {
		case e.GetType() != pb.EntryNormal:
			if err := g.applyConf(e); err != nil {
				return err
			}
			confChanged = true
		case len(e.Data) > 0: // else it is raft's own
			if err := g.addCommand(e, own); err != nil {
				return err
			}
		}
	}
	var results []any
	if len(g.ents) > 0 {
		var err error
		if results, err = g.sm.Apply(b, g.ents); err != nil {
			return base.Errorf(base.CodeOf(err), "group %v: entries %d to %d cannot be applied: %v", g.id,
				raftEnts[0].GetIndex(), last.GetIndex(), err)
		}
	}
	if err := g.disk.setApplied(b, last.GetIndex(), confChanged); err != nil {
		return err
	}
	if err := b.Commit(false); err != nil {
		return base.Errorf(base.CodeOf(err), "group %v: applied entries cannot be stored: %v", g.id, err)
	}
	g.setApplied(last.GetIndex())
	g.arrivals.applied(last.GetIndex())
	g.sm.Applied(last.GetIndex())
	g.answerAll(results)
	if g.state == raft.StateLeader && g.first == 0 && last.GetTerm() == g.term {
		g.first = last.GetIndex()
	}
	g.tellLeading()
	return nil
}

// proposalOf is this node's proposal that an entry holds, if it is one. Proposals of other terms
// that waited for the same index have been lost (GRP-3).
func (g *Group) proposalOf(e *pb.Entry) *proposal {
	index, term := e.GetIndex(), e.GetTerm()
	own := g.pend.at(index, term)
	for _, p := range g.pend.takeLost(index) {
		if p.term == term {
			own = p
			continue
		}
		g.verdicts = append(g.verdicts, verdict{p, -1, 0, base.Errorf(base.CodeAborted,
			"group %v: the leader of term %d lost its lead and the command was not kept; retry", g.id, p.term)})
	}
	return own
}

// addCommand adds an entry's command to those that the state machine is to apply.
func (g *Group) addCommand(e *pb.Entry, own *proposal) error {
	came, ok := g.arrivals.of(e.GetIndex())
	if !ok {
		came = arrival{tick: g.now, at: time.Now()} // before this process began
	}
	x := Entry{Index: e.GetIndex(), Term: e.GetTerm(), Data: e.Data, Arrived: came.at}
	if own != nil {
		x.Cmd = own.cmd
		g.verdicts = append(g.verdicts, verdict{own, len(g.ents), x.Index, nil})
	} else {
		x.Cmd = new(wire.Command)
		if err := x.Cmd.UnmarshalVT(e.Data); err != nil {
			return base.Errorf(base.CodeCorrupt, "group %v: entry %d of term %d cannot be decoded: %v; "+
				"rebuild this replica from another node", g.id, x.Index, x.Term, err)
		}
	}
	g.noteLease(x.Cmd, came.tick)
	g.ents = append(g.ents, x)
	return nil
}

// answerAll answers the proposers of what was applied.
func (g *Group) answerAll(results []any) {
	verdicts := g.verdicts
	g.verdicts = nil // an answer may lead back here
	for i := range verdicts {
		v := &verdicts[i]
		var result any
		if v.ent >= 0 && v.ent < len(results) {
			result = results[v.ent]
		}
		g.answer(v.p, result, v.index, v.err)
		v.p = nil
	}
	g.verdicts = verdicts[:0]
	clear(g.ents)
}
