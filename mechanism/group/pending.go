package group

import (
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// The states of a proposal until it is handed to raft.
const (
	propQueued    int32 = iota
	propTaken           // by the group's goroutine: from now on only that answers it
	propWithdrawn       // by its proposer, before it was taken
)

// proposal is one command on its way. It is answered exactly once.
type proposal struct {
	cmd  *wire.Command
	data []byte // cmd encoded
	want uint64 // term it must be appended in; 0 any
	done func(result any, index uint64, err error)
	// placed is told the index as soon as the entry is in this leader's log; nil if nobody asks.
	placed func(index uint64)
	state  atomic.Int32
	err    error // refused before it was queued

	index, term uint64 // where it was appended
	deadline    uint64 // loop tick at which a proposal of a lost leadership becomes ambiguous
}

// pending are the proposals handed to raft and not yet answered. Only the
// group's goroutine touches it.
//
// While the replica leads, proposals are in log order in live. When it loses
// the lead they move to lost, by index: an entry that is applied at that index
// tells what became of them. The same (index, term) is the same entry (Raft's
// log matching), another term there means that the entry will never commit.
type pending struct {
	fresh []*proposal // handed to raft, index not known yet; same order as their entries
	live  []*proposal // appended under the present leadership, by index
	lost  map[uint64][]*proposal
	nLost int
}

// appended gives the oldest fresh proposal its place; nil if there is none.
func (p *pending) appended(index, term uint64) *proposal {
	if len(p.fresh) == 0 {
		return nil
	}
	x := p.fresh[0]
	p.fresh[0] = nil
	p.fresh = p.fresh[1:]
	x.index, x.term = index, term
	p.live = append(p.live, x)
	if x.placed != nil {
		x.placed(index)
	}
	return x
}

// at is the live proposal with that place.
func (p *pending) at(index, term uint64) *proposal {
	for len(p.live) > 0 && p.live[0].index <= index {
		x := p.live[0]
		p.live[0] = nil
		p.live = p.live[1:]
		if x.index == index && x.term == term {
			return x
		}
		// Cannot happen while the log is the leader's own; be careful all the same.
		p.lose(x, 0)
	}
	return nil
}

func (p *pending) lose(x *proposal, deadline uint64) {
	if p.lost == nil {
		p.lost = make(map[uint64][]*proposal)
	}
	x.deadline = deadline
	p.lost[x.index] = append(p.lost[x.index], x)
	p.nLost++
}

// loseAll moves everything to lost. Fresh proposals have an index at the latest
// when the Ready after them was handled, so there are none at this point.
func (p *pending) loseAll(deadline uint64) {
	for _, x := range p.live {
		p.lose(x, deadline)
	}
	p.live = nil
}

// takeLost returns the lost proposals at an index, of any term.
func (p *pending) takeLost(index uint64) []*proposal {
	if p.nLost == 0 {
		return nil
	}
	xs := p.lost[index]
	if len(xs) > 0 {
		delete(p.lost, index)
		p.nLost -= len(xs)
	}
	return xs
}

// takeIf removes and returns the lost proposals for which f is true.
func (p *pending) takeIf(f func(*proposal) bool) []*proposal {
	var out []*proposal
	for i, xs := range p.lost {
		keep := xs[:0]
		for _, x := range xs {
			if f(x) {
				out = append(out, x)
			} else {
				keep = append(keep, x)
			}
		}
		if len(keep) == 0 {
			delete(p.lost, i)
		} else {
			p.lost[i] = keep
		}
	}
	p.nLost -= len(out)
	return out
}

// takeAll empties everything.
func (p *pending) takeAll() []*proposal {
	out := append(p.fresh, p.live...)
	p.fresh, p.live = nil, nil
	return append(out, p.takeIf(func(*proposal) bool { return true })...)
}

// answer ends a proposal.
func (g *Group) answer(p *proposal, result any, index uint64, err error) {
	g.pendingN.Add(-1)
	g.pendingBytes.Add(-int64(len(p.data)))
	p.done(result, index, err)
}

func ambiguous(g *Group, p *proposal, why string) error {
	return base.Errorf(base.CodeAmbiguous, "group %v: outcome of the proposal at index %d of term %d is unknown: %s; "+
		"it may still commit", g.id, p.index, p.term, why)
}
