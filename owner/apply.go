package owner

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/group"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// outcome is the result of an entry that concerns a transaction.
type outcome struct {
	state wire.TxnState
	ts    base.Timestamp
	vote  *wire.Vote
}

// Apply implements group.StateMachine. It is a function of the log alone: it
// looks at no row, because rows change by other groups' logs as well.
func (r *Replica) Apply(b *store.Batch, ents []group.Entry) ([]any, error) {
	results := make([]any, len(ents))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range ents {
		res, err := r.apply(b, e)
		if err != nil {
			return nil, err
		}
		results[i] = res
	}
	b.SetState(r.id, stateName, r.rep.encode())
	return results, nil
}

func (r *Replica) apply(b *store.Batch, e group.Entry) (any, error) {
	s, c := &r.rep, e.Cmd
	s.closed = max(s.closed, base.Timestamp(c.Closed))
	for _, v := range c.Vector {
		if v.Region < uint32(len(s.join)) {
			s.join[v.Region] = max(s.join[v.Region], v.Index)
		}
	}
	if c.Ended != nil {
		l := s.leases[base.NodeID(c.Ended.Holder)]
		l.end, l.revoked, l.learned = base.Timestamp(c.Ended.End), true, time.Now()
		s.leases[base.NodeID(c.Ended.Holder)] = l
	}
	if c.Lease != nil {
		r.applyLease(e)
	}
	if q := c.Bequest; q != nil {
		s.bequest = bequest{base.NodeID(q.Heir), e.Term, e.Index, lease{end: base.Timestamp(q.End), length: time.Duration(q.LengthNs), virtual: q.Virtual, learned: time.Now()}}
	}
	var res any
	var err error
	switch {
	case c.Commit != nil:
		res, err = r.applyCommit(b, e)
	case c.Prepare != nil:
		res, err = r.applyPrepare(b, c.Prepare)
	case c.Decide != nil:
		res, err = r.applyDecide(b, e)
	case len(c.Refuse) > 0:
		res, err = r.applyRefuse(b, c.Refuse)
	case c.Clock != nil:
		res, err = r.applyClock(b, c.Clock)
	case c.Collect != nil:
		keys := make([]base.Key, len(c.Collect.Keys))
		for i, k := range c.Collect.Keys {
			keys[i] = k
		}
		r.collected.Store(max(r.collected.Load(), c.Collect.Below))
		err = b.CollectKeys(keys, base.Timestamp(c.Collect.Below))
		s.lastTS = max(s.lastTS, base.Timestamp(c.Collect.Below))
	}
	return res, err
}

func (r *Replica) applyLease(e group.Entry) {
	s := &r.rep
	holder, end := base.NodeID(e.Cmd.Lease.Holder), base.Timestamp(e.Cmd.Lease.End)
	s.bequest = bequest{} // whoever logs a lease behind it has reckoned with it
	old := s.leases[holder]
	s.leases[holder] = lease{end: end, revoked: end < old.end, length: time.Duration(e.Cmd.Lease.LengthNs), virtual: e.Cmd.Lease.Virtual, learned: time.Now()}
	for n, l := range s.leases {
		// A lease that ended long before this one was made binds nobody.
		if n != holder && l.end.Add(RecordAge) < end {
			delete(s.leases, n)
		}
	}
	if holder == r.cfg.Self && e.Term == r.lead.term && (r.lead.next == 0 || r.lead.serving) {
		r.lead.leaseEnd = end
		for i, a := range r.lead.asks {
			if a.end == end {
				r.lead.until = a.until
				r.lead.asks = slices.Delete(r.lead.asks, 0, i+1)
				break
			}
		}
		r.wake()
	}
}

func (r *Replica) applyCommit(b *store.Batch, e group.Entry) (any, error) {
	c := e.Cmd.Commit
	id, ok := txnID(c.Txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: entry %d has a malformed transaction id", r.id, e.Index)
	}
	if r.dead(id) {
		return outcome{state: wire.TxnState_ABORTED}, nil
	}
	ts := base.Timestamp(e.Cmd.Ts)
	r.put(b, c.Writes, ts, e.Index)
	b.SetTxn(r.id, id, committedRecord(ts))
	r.rep.fresh[id] = ts
	r.rep.lastTS = max(r.rep.lastTS, ts)
	return outcome{state: wire.TxnState_COMMITTED, ts: ts}, nil
}

// dead reports whether the group has refused the transaction, or does so for its age.
func (r *Replica) dead(id base.TxnID) bool {
	_, refused := r.rep.aborted[id]
	return refused || id.Start() < r.rep.horizon()
}

func (r *Replica) put(b *store.Batch, writes []*wire.Write, ts base.Timestamp, index uint64) {
	for _, w := range writes {
		b.PutVersion(store.Version{
			Key: w.Key, TS: ts, Tombstone: w.Kind == wire.WriteKind_DELETE, Value: w.Value,
			Label:  base.Label(w.Label).WithWriter(r.region, index),
			Writer: base.GroupIndex{Region: r.region, Index: index},
		})
		if w.Move != 0 || w.Kind == wire.WriteKind_MOVE {
			r.moved(w, ts)
		}
	}
}

func (r *Replica) applyPrepare(b *store.Batch, v *wire.Vote) (any, error) {
	id, ok := txnID(v.Txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: a vote has a malformed transaction id", r.id)
	}
	if r.dead(id) {
		return outcome{state: wire.TxnState_ABORTED}, nil
	}
	if _, again := r.rep.prepared[id]; again {
		return outcome{state: wire.TxnState_ABORTED}, nil // the first vote stands
	}
	rec, err := preparedRecord(v)
	if err != nil {
		return nil, err
	}
	b.SetTxn(r.id, id, rec)
	r.rep.prepared[id] = v
	return outcome{state: wire.TxnState_PREPARED, ts: base.Timestamp(v.Lo), vote: v}, nil
}

func (r *Replica) applyDecide(b *store.Batch, e group.Entry) (any, error) {
	d := e.Cmd.Decide
	id, ok := txnID(d.Txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: a decision has a malformed transaction id", r.id)
	}
	v := r.rep.prepared[id]
	if v == nil {
		// Decided before, or aborted before it came to a vote.
		return r.applyRefuse(b, d.Txn)
	}
	delete(r.rep.prepared, id)
	if !d.Commit {
		r.rep.aborted[id] = struct{}{}
		b.SetTxn(r.id, id, abortedRecord)
		return outcome{state: wire.TxnState_ABORTED}, nil
	}
	ts := base.Timestamp(d.Ts)
	writes, ok := filled(v, d)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: the decision in entry %d lacks values", r.id, e.Index)
	}
	r.put(b, writes, ts, e.Index)
	rec := committedRecord(ts)
	if r.mixed(v.Participants) {
		rec = append(rec, boundRecord)
	}
	b.SetTxn(r.id, id, rec)
	r.rep.fresh[id] = ts
	if v.Slot == 0 {
		// A slot may lie ahead, and what commits before it comes behind this entry. A new leader's timestamps
		// lie above it all the same: it is below the end of a lease (I9).
		r.rep.lastTS = max(r.rep.lastTS, ts)
	}
	return outcome{state: wire.TxnState_COMMITTED, ts: ts}, nil
}

// applyRefuse makes sure that a transaction without vote or outcome never gets
// one, and tells how it stands.
func (r *Replica) applyRefuse(b *store.Batch, txn []byte) (any, error) {
	id, ok := txnID(txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: a refusal has a malformed transaction id", r.id)
	}
	if v := r.rep.prepared[id]; v != nil {
		return outcome{state: wire.TxnState_PREPARED, ts: base.Timestamp(v.Lo), vote: v}, nil
	}
	if ts, ok := r.rep.fresh[id]; ok {
		return outcome{state: wire.TxnState_COMMITTED, ts: ts}, nil
	}
	if _, ok := r.rep.aborted[id]; ok {
		return outcome{state: wire.TxnState_ABORTED}, nil
	}
	rec, ok, err := r.store.GetTxn(r.id, id)
	if err != nil {
		return nil, err
	}
	if ok {
		st, ts, _, err := r.parseRecord(id, rec)
		return outcome{state: st, ts: ts}, err
	}
	if id.Start() < r.rep.horizon() {
		return outcome{state: wire.TxnState_UNKNOWN}, nil
	}
	r.rep.aborted[id] = struct{}{}
	b.SetTxn(r.id, id, abortedRecord)
	return outcome{state: wire.TxnState_ABORTED}, nil
}

// Applied implements group.StateMachine.
func (r *Replica) Applied(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied.Store(index)
	if len(r.rep.fresh) > 0 {
		clear(r.rep.fresh)
		r.changes.Add(1)
		r.set.versionsChanged(r)
	}
	c := uint64(r.rep.closed)
	n := 0
	for _, p := range r.pulses {
		if p.index <= index {
			c = max(c, uint64(p.closed))
		} else {
			r.pulses[n] = p
			n++
		}
	}
	r.pulses = r.pulses[:n]
	if r.lead.term == 0 && c > r.closed.Load() {
		r.heardClosed(base.Timestamp(c))
	}
	r.closeTo(c)
	if r.waiting > 0 {
		r.wake()
	}
}

// SnapshotInstalled implements group.StateMachine.
func (r *Replica) SnapshotInstalled(index uint64) {
	if err := r.loadState(); err != nil {
		r.cfg.Logger.Error("replica cannot be read after a snapshot", "group", r.id, "err", err)
		return
	}
	r.collected.Store(max(r.collected.Load(), uint64(r.store.GCThreshold(r.shard))))
	r.Applied(index)
	r.changes.Add(1)
	r.set.versionsChanged(r)
}
