package owner

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// What a node's owners tell the policy of row homes, and learn from it, is in package homing.

// Moves are the newest moves applied on this node, oldest first, and how many there were since it
// started.
func (s *Set) Moves() ([]homing.Move, int64) { return s.moves.Moves() }

// Arrived is how many rows have moved to a region since this node started, of shards of which it
// has the first replica: the sum over all nodes counts each move once.
func (s *Set) Arrived(r base.RegionID) int64 { return s.moves.Arrived(r) }

// first reports whether this is the first of the group's replicas: the one that counts for all.
func (r *Replica) first() bool {
	at := r.cfg.Directory.Replicas(r.id)
	return len(at) > 0 && slices.Min(at) == r.cfg.Self
}

// moved records a move from an applied entry.
func (r *Replica) moved(w *wire.Write, ts base.Timestamp) {
	m := homing.MoveOf(w, r.region, ts)
	r.set.moves.Add(m, r.first())
	if h := r.cfg.Homes; h != nil {
		h.Moved(m)
	}
}

// tryLock takes a lock if it is free.
func (r *Replica) tryLock(x *txns.Txn, term uint64, s base.Span) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current(x, term) {
		return false, r.lost(x, term)
	}
	out, _, ev, err := r.LockTable.Acquire(lock.Request{Txn: x.ID, Age: x.Age, Span: s, Mode: lock.Exclusive,
		Policy: lock.NoWait})
	r.settle(ev)
	return out == lock.Granted, err
}

func (s *Set) handleTouched(_ context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.Touched
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed accesses: %v", err)
	}
	for i := range q.Rows {
		k := base.Key(q.Rows[i].Key)
		if len(k) < base.ShardPrefixLen {
			continue
		}
		if r := s.Replica(view.HomeGroup(k, base.Label(q.Rows[i].Label))); r != nil {
			if _, ok := r.Serving(); ok {
				r.counter.Read(nil, false, &wire.ReadRequest{}, &wire.ReadResponse{Rows: q.Rows[i : i+1]},
					base.RegionID(q.Region))
			}
		}
	}
	return &wire.TouchedResponse{}, nil
}
