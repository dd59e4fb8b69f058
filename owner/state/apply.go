package state

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// Apply applies one entry: rows and records of transactions go into b, the rest into s. The result
// is an Outcome if the entry concerns a transaction or the clock mode, else nil. Save must follow.
func (s *State) Apply(of *Group, b *store.Batch, e group.Entry) (any, error) {
	c := e.Cmd
	s.Closed = max(s.Closed, base.Timestamp(c.Closed))
	for _, v := range c.Vector {
		if v.Region < uint32(len(s.Join)) {
			s.Join[v.Region] = max(s.Join[v.Region], v.Index)
		}
	}
	s.applyLeases(e)
	switch {
	case c.Commit != nil:
		return s.applyCommit(of, b, e)
	case c.Prepare != nil:
		return s.applyPrepare(of, b, c.Prepare)
	case c.Decide != nil:
		return s.applyDecide(of, b, e)
	case len(c.Refuse) > 0:
		return s.applyRefuse(of, b, c.Refuse)
	case c.Clock != nil:
		return s.applyClock(of, b, c.Clock)
	case c.Collect != nil:
		return nil, s.applyCollect(b, c.Collect)
	case c.Stage != nil:
		return s.applyStage(of, b, e)
	case c.Settle != nil:
		return s.applySettle(of, b, e)
	}
	return nil, nil
}

// Save puts the state into b.
func (s *State) Save(of *Group, b *store.Batch) { b.SetState(of.ID, Name, s.encode()) }

// applyLeases takes the end of a predecessor's lease, a new lease, and a lease transfer, in that
// order.
func (s *State) applyLeases(e group.Entry) {
	if q := e.Cmd.Ended; q != nil {
		l := s.Leases[base.NodeID(q.Holder)]
		l.End, l.Revoked, l.Learned = base.Timestamp(q.End), true, e.Arrived
		s.Leases[base.NodeID(q.Holder)] = l
	}
	if e.Cmd.Lease != nil {
		s.applyLease(e.Cmd.Lease, e.Arrived)
	}
	if q := e.Cmd.LeaseTransfer; q != nil {
		l := Lease{End: base.Timestamp(q.End), Length: time.Duration(q.LengthNs), Virtual: q.Virtual, Learned: e.Arrived}
		s.Transfer = LeaseTransfer{Target: base.NodeID(q.Target), Term: e.Term, Index: e.Index, Lease: l}
	}
}

func (s *State) applyLease(q *wire.Lease, arrived time.Time) {
	holder, end := base.NodeID(q.Holder), base.Timestamp(q.End)
	s.Transfer = LeaseTransfer{} // a leader that logs a lease behind it has reckoned with it
	old := s.Leases[holder]
	s.Leases[holder] = Lease{End: end, Revoked: end < old.End, Length: time.Duration(q.LengthNs), Virtual: q.Virtual,
		Learned: arrived}
	for n, l := range s.Leases {
		// A lease that ended long before this one was made binds no node.
		if n != holder && l.End.Add(RecordAge) < end {
			delete(s.Leases, n)
		}
	}
}

func (s *State) applyCommit(of *Group, b *store.Batch, e group.Entry) (any, error) {
	c := e.Cmd.Commit
	id, ok := TxnID(c.Txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: entry %d has a malformed transaction id", of.ID, e.Index)
	}
	if s.Dead(id) {
		return Outcome{State: wire.TxnState_ABORTED}, nil
	}
	if over, err := s.statementOver(of, c.Statement); over || err != nil {
		return Outcome{State: wire.TxnState_ABORTED, Settled: true}, err
	}
	ts := base.Timestamp(e.Cmd.Ts)
	s.put(of, b, c.Writes, ts, e.Index)
	rec := committedRecord(ts)
	b.SetTxn(of.ID, id, rec)
	s.endStatement(of, b, c.Statement, rec, c.Answer, ts)
	s.Fresh[id] = ts
	s.LastTS = max(s.LastTS, ts)
	return Outcome{State: wire.TxnState_COMMITTED, TS: ts}, nil
}

// Dead reports whether the group has refused the transaction, or does so for its age.
func (s *State) Dead(id base.TxnID) bool {
	_, refused := s.Aborted[id]
	return refused || id.Start() < s.Horizon()
}

func (s *State) put(of *Group, b *store.Batch, writes []*wire.Write, ts base.Timestamp, index uint64) {
	region := of.ID.Region()
	for _, w := range writes {
		b.PutVersion(store.Version{
			Key: w.Key, TS: ts, Tombstone: w.Kind == wire.WriteKind_DELETE, Value: w.Value,
			Label:  base.Label(w.Label).WithWriter(region, index),
			Writer: base.GroupIndex{Region: region, Index: index},
		})
		if w.Move != 0 || w.Kind == wire.WriteKind_MOVE {
			of.Moved(w, ts)
		}
		s.stand(of, w)
	}
}

func (s *State) applyPrepare(of *Group, b *store.Batch, v *wire.Vote) (any, error) {
	id, ok := TxnID(v.Txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: a vote has a malformed transaction id", of.ID)
	}
	if s.Dead(id) {
		return Outcome{State: wire.TxnState_ABORTED}, nil
	}
	if _, again := s.Prepared[id]; again {
		return Outcome{State: wire.TxnState_ABORTED}, nil // the first vote stands
	}
	if over, err := s.statementOver(of, v.Statement); over || err != nil {
		return Outcome{State: wire.TxnState_ABORTED, Settled: true}, err
	}
	if !s.takesPieces(of, b, id, v) {
		return Outcome{State: wire.TxnState_ABORTED}, nil
	}
	rec, err := preparedRecord(v)
	if err != nil {
		return nil, err
	}
	b.SetTxn(of.ID, id, rec)
	s.Prepared[id] = v
	return Outcome{State: wire.TxnState_PREPARED, TS: base.Timestamp(v.Lo), Vote: v}, nil
}

func (s *State) applyDecide(of *Group, b *store.Batch, e group.Entry) (any, error) {
	d := e.Cmd.Decide
	id, ok := TxnID(d.Txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: a decision has a malformed transaction id", of.ID)
	}
	v := s.Prepared[id]
	if v == nil {
		// Decided before, or aborted before it was prepared.
		return s.applyRefuse(of, b, d.Txn)
	}
	if v.Pieces > 0 && (d.Commit || v.Applied > 0) { // its pieces decide it, one by one
		return Outcome{State: wire.TxnState_PREPARED, TS: base.Timestamp(v.Lo), Vote: v}, nil
	}
	delete(s.Prepared, id)
	if !d.Commit {
		dropPieces(of, b, id, 0, v.Pieces)
		s.abort(of, b, id)
		return Outcome{State: wire.TxnState_ABORTED}, nil
	}
	ts := base.Timestamp(d.Ts)
	writes, ok := filled(v, d)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: the decision in entry %d lacks values", of.ID, e.Index)
	}
	s.put(of, b, writes, ts, e.Index)
	if v.Slot == 0 {
		// A slot may lie ahead, and what commits before it has entries behind this one. A new
		// leader's timestamps lie above it all the same: it is below the end of a lease (OWN-9).
		s.LastTS = max(s.LastTS, ts)
	}
	return s.committed(of, b, id, v, ts), nil
}

// filled are the writes of a vote with the values of its patches, as its decision has them. A value
// that is empty writes nothing. false: there are too few values, or too many.
func filled(v *wire.Vote, d *wire.Decide) ([]*wire.Write, bool) {
	if len(d.Values) == 0 {
		return v.Writes, len(Patches(v.Writes)) == 0
	}
	var out []*wire.Write
	values := d.Values
	for _, w := range v.Writes {
		if w.Patch == nil {
			out = append(out, w)
			continue
		}
		if len(values) == 0 {
			return nil, false
		}
		if value := values[0]; len(value) > 0 {
			out = append(out, &wire.Write{Kind: w.Kind, Key: w.Key, Value: value, Label: w.Label})
		}
		values = values[1:]
	}
	return out, len(values) == 0
}

// Patches are the patches among the writes of a vote, by key; nil if there are none.
func Patches(ws []*wire.Write) map[string]*wire.Patch {
	var out map[string]*wire.Patch
	for _, w := range ws {
		if w.Patch != nil {
			if out == nil {
				out = map[string]*wire.Patch{}
			}
			out[string(w.Key)] = w.Patch
		}
	}
	return out
}

// applyRefuse makes sure that a transaction, or a forwarded statement, without vote or outcome
// never gets one, and says how it stands.
func (s *State) applyRefuse(of *Group, b *store.Batch, txn []byte) (any, error) {
	id, ok := TxnID(txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: a refusal has a malformed transaction id", of.ID)
	}
	v := s.Prepared[id]
	if v == nil {
		v = s.VoteFor(id)
	}
	if v != nil {
		return Outcome{State: wire.TxnState_PREPARED, TS: base.Timestamp(v.Lo), Vote: v}, nil
	}
	if ts, ok := s.Fresh[id]; ok {
		return Outcome{State: wire.TxnState_COMMITTED, TS: ts, Answer: s.answers[id]}, nil
	}
	if _, ok := s.Aborted[id]; ok {
		return Outcome{State: wire.TxnState_ABORTED}, nil
	}
	out, err := Recorded(of, id)
	if err != nil {
		return nil, err
	}
	if out.State != wire.TxnState_UNKNOWN {
		return Outcome{State: out.State, TS: out.TS, Answer: out.Answer}, nil
	}
	if s.Staged[id] > 0 {
		s.unstage(of, b, id)
		b.DelTxn(of.ID, id)
	}
	if id.Start() < s.Horizon() {
		return Outcome{State: wire.TxnState_UNKNOWN}, nil
	}
	s.abort(of, b, id)
	return Outcome{State: wire.TxnState_ABORTED}, nil
}

func (s *State) applyCollect(b *store.Batch, c *wire.Collect) error {
	keys := make([]base.Key, len(c.Keys))
	for i, k := range c.Keys {
		keys[i] = k
	}
	s.LastTS = max(s.LastTS, base.Timestamp(c.Below))
	return b.CollectKeys(keys, base.Timestamp(c.Below))
}
