package group

import (
	"github.com/godwitdb/godwit/wire"
)

// runKey names the entries of an append: in one log, what has the same index and term is the same,
// and so is what precedes it.
type runKey struct {
	g           *Group
	first, last uint64
	term        uint64
}

func runOf(x outMsg) (k runKey, ok bool) {
	n := len(x.m.Entries)
	if n == 0 || msgSize(x.m) < x.g.host.opts.MinShared || x.m.Snapshot != nil || len(x.m.Responses) > 0 {
		return k, false
	}
	return runKey{x.g, x.m.Entries[0].GetIndex(), x.m.Entries[n-1].GetIndex(), x.m.Entries[n-1].GetTerm()}, true
}

// runsOn reports whether two appends are the same for two nodes: one message to a region, even if
// nothing else is sent together.
func runsOn(a, b outMsg) bool {
	x, xok := runOf(a)
	y, yok := runOf(b)
	return xok && yok && x == y && a.m.GetTo() != b.m.GetTo()
}

// sendFan sends appends for several nodes of a region, and names the entries that some of them have
// in common.
func (o *outbox) sendFan(q []outMsg) {
	for len(q) > 0 {
		n, size := 0, 0
		for n < len(q) && size < maxBatchBytes && (n == 0 || !o.h.single.Load() || runsOn(q[0], q[n])) {
			size += msgSize(q[n].m)
			n++
		}
		o.sendFanned(q[:n])
		q = q[n:]
	}
}

func (o *outbox) sendFanned(q []outMsg) {
	users := map[runKey]map[uint64]bool{}
	for _, x := range q {
		if k, ok := runOf(x); ok {
			if users[k] == nil {
				users[k] = map[uint64]bool{}
			}
			users[k][x.m.GetTo()] = true
		}
	}
	var (
		runs   [][]byte
		at     = map[runKey]uint32{}
		parts  = map[uint64]*wire.RaftShare{}
		shares []*wire.RaftShare
	)
	for _, x := range q {
		to := x.m.GetTo()
		p := parts[to]
		if p == nil {
			p = &wire.RaftShare{To: uint32(to), Batch: &wire.RaftBatch{}}
			parts[to], shares = p, append(shares, p)
		}
		k, ok := runOf(x)
		if !ok || len(users[k]) < 2 {
			addTo(p.Batch, x.g, o.encode(x))
			p.Runs = append(p.Runs, 0)
			continue
		}
		run := at[k]
		if run == 0 {
			runs = append(runs, appendEntries(nil, x.m.Entries))
			run = uint32(len(runs))
			at[k] = run
		}
		addTo(p.Batch, x.g, appendHead(nil, x.m))
		p.Runs = append(p.Runs, run)
	}
	if err := o.h.share.SendShared(o.region, runs, shares); err != nil {
		o.h.stats.sendFailed.Add(int64(len(q)))
		o.unsent(q)
		return
	}
	o.h.stats.batches.Add(1)
	o.h.stats.messages.Add(int64(len(q)))
}
