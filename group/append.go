package group

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// crowdBatches is for how many batches after proposals came in company a sole voter does not stand still while the
// disk works: it applies one batch while the next is being synced.
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
	msgs := g.appends
	g.appends = nil
	for i, m := range msgs {
		if raft.IsEmptySnap(m.GetSnapshot()) {
			continue
		}
		if i == 0 && len(g.flights) == 0 {
			msgs, g.appends = msgs[:1], msgs[1:]
			g.flights = append(g.flights, msgs)
			g.parked = true
			g.staged.decide(true)
			return false
		}
		// What comes before the snapshot goes first, and alone.
		msgs, g.appends = msgs[:i], msgs[i:]
		break
	}
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
			g.flights[n-1] = append(g.flights[n-1], msgs...)
			return false
		}
		g.flights = append(g.flights, msgs)
		g.appendDone()
		return true
	}
	if g.crowd > 0 {
		g.crowd--
	} else if g.sole && len(g.flights) == 0 {
		// No one to talk to while the disk works, and nothing to apply: waiting here spares two changes of goroutine.
		err := b.Commit(true)
		b.Close()
		if g.mb.proposals() {
			g.crowd = crowdBatches
		}
		if err != nil {
			g.fail(base.Errorf(base.CodeOf(err), "group %v: log entries cannot be stored: %v", g.id, err))
			return false
		}
		g.flights = append(g.flights, msgs)
		g.appendDone()
		return true
	}
	if err := b.CommitAsync(true); err != nil {
		b.Close()
		g.fail(base.Errorf(base.CodeOf(err), "group %v: log entries cannot be stored: %v", g.id, err))
		return false
	}
	g.flights = append(g.flights, msgs)
	g.commitc <- b
	return false
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
	msgs := g.flights[0]
	g.flights[0] = nil
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
		if n.GetType() == pb.MsgAppResp && !n.GetReject() && n.GetTo() == m.GetTo() && n.GetTerm() == m.GetTerm() && n.GetIndex() >= m.GetIndex() {
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

func (g *Group) apply(raftEnts []*pb.Entry) error {
	b := g.host.opts.Store.NewBatch()
	defer b.Close()
	g.ents = g.ents[:0]
	verdicts := g.verdicts[:0]
	confChanged := false
	last := raftEnts[len(raftEnts)-1]
	for _, e := range raftEnts {
		var own *proposal
		index, term := e.GetIndex(), e.GetTerm()
		own = g.pend.at(index, term)
		for _, p := range g.pend.takeLost(index) {
			if p.term == term {
				own = p
				continue
			}
			verdicts = append(verdicts, verdict{p, -1, 0, base.Errorf(base.CodeAborted,
				"group %v: the leader of term %d lost its lead and the command was not kept; retry", g.id, p.term)})
		}
		switch {
		case e.GetType() != pb.EntryNormal:
			if err := g.applyConf(e); err != nil {
				return err
			}
			confChanged = true
		case len(e.Data) == 0: // raft's own
		default:
			x := Entry{Index: index, Term: term}
			if own != nil {
				x.Cmd = own.cmd
				verdicts = append(verdicts, verdict{own, len(g.ents), index, nil})
			} else {
				x.Cmd = new(wire.Command)
				if err := x.Cmd.UnmarshalVT(e.Data); err != nil {
					return base.Errorf(base.CodeCorrupt, "group %v: entry %d of term %d cannot be decoded: %v; "+
						"rebuild this replica from another node", g.id, index, term, err)
				}
			}
			g.ents = append(g.ents, x)
		}
	}
	var results []any
	if len(g.ents) > 0 {
		var err error
		if results, err = g.sm.Apply(b, g.ents); err != nil {
			return base.Errorf(base.CodeOf(err), "group %v: entries %d to %d cannot be applied: %v", g.id, raftEnts[0].GetIndex(), last.GetIndex(), err)
		}
	}
	if err := g.disk.setApplied(b, last.GetIndex(), confChanged); err != nil {
		return err
	}
	if err := b.Commit(false); err != nil {
		return base.Errorf(base.CodeOf(err), "group %v: applied entries cannot be stored: %v", g.id, err)
	}
	g.setApplied(last.GetIndex())
	g.sm.Applied(last.GetIndex())
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
	if g.state == raft.StateLeader && g.first == 0 && last.GetTerm() == g.term {
		g.first = last.GetIndex()
	}
	g.tellLeading()
	return nil
}
