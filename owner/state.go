package owner

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// replicated is the part of the state that is a function of the log; guarded
// by mu, changed by Apply only.
type replicated struct {
	leases   map[base.NodeID]lease
	bequest  bequest
	join     [16]uint64 // join of all vectors in the log (C3), by region
	closed   base.Timestamp
	lastTS   base.Timestamp // largest commit timestamp
	prepared map[base.TxnID]*wire.Vote
	// aborted are transactions that were refused or aborted here and are young enough to matter.
	aborted map[base.TxnID]struct{}
	// clock are the steps of the clock mode, the newest last (meta group). The slice is never changed in place.
	clock []*wire.ClockOrder
	// fresh are outcomes that may not be visible in the store yet.
	fresh map[base.TxnID]base.Timestamp
}

// lease is the newest one of a holder. revoked: its holder has ended it
// before its time and serves no more, so nobody need wait for end.
type lease struct {
	end     base.Timestamp
	revoked bool
	length  time.Duration // its holder stops so long after proposing it; 0: not known
	virtual bool          // end says nothing of true time
	learned time.Time     // when this replica learned of it: after it was proposed
}

// horizon: attempts that began before it are refused (RecordAge).
func (s *replicated) horizon() base.Timestamp { return s.closed.Add(-RecordAge) }

const stateName = "owner"

// encode: version 3: closed, lastTS, join (16), the bequest's heir, and if that is not 0 its term, index, end, flags and length; then
// per lease: holder, end, flags (1 revoked, 2 virtual), length in ns; all uvarints. Version 2 has no bequest, version 1 no length.
func (s *replicated) encode() []byte {
	b := make([]byte, 0, 64)
	b = append(b, 3)
	b = binary.AppendUvarint(b, uint64(s.closed))
	b = binary.AppendUvarint(b, uint64(s.lastTS))
	for _, v := range s.join {
		b = binary.AppendUvarint(b, v)
	}
	put := func(l *lease) {
		b = binary.AppendUvarint(b, uint64(l.end))
		flags := uint64(0)
		if l.revoked {
			flags |= 1
		}
		if l.virtual {
			flags |= 2
		}
		b = binary.AppendUvarint(b, flags)
		b = binary.AppendUvarint(b, uint64(l.length))
	}
	if q := &s.bequest; q.heir == 0 {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(q.heir))
		b = binary.AppendUvarint(b, q.term)
		b = binary.AppendUvarint(b, q.index)
		put(&q.lease)
	}
	for _, n := range slices.Sorted(maps.Keys(s.leases)) {
		b = binary.AppendUvarint(b, uint64(n))
		l := s.leases[n]
		put(&l)
	}
	return b
}

func (s *replicated) decode(b []byte) bool {
	if len(b) == 0 || b[0] < 1 || b[0] > 3 {
		return false
	}
	version := b[0]
	b = b[1:]
	ok := true
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			ok = false
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	s.closed, s.lastTS = base.Timestamp(next()), base.Timestamp(next())
	for i := range s.join {
		s.join[i] = next()
	}
	get := func() lease {
		l := lease{end: base.Timestamp(next()), learned: time.Now()}
		flags := next()
		l.revoked, l.virtual = flags&1 != 0, flags&2 != 0
		if version > 1 {
			l.length = time.Duration(next())
		}
		return l
	}
	if version > 2 {
		if heir := base.NodeID(next()); heir != 0 {
			s.bequest = bequest{heir: heir, term: next(), index: next(), lease: get()}
		}
	}
	for ok && len(b) > 0 {
		n := base.NodeID(next())
		s.leases[n] = get()
	}
	return ok
}

// A transaction record is its state and, by state, the vote or the commit timestamp.
func preparedRecord(v *wire.Vote) ([]byte, error) {
	b := make([]byte, 1+v.SizeVT())
	b[0] = byte(wire.TxnState_PREPARED)
	_, err := v.MarshalToSizedBufferVT(b[1:])
	return b, err
}

func committedRecord(ts base.Timestamp) []byte {
	b := make([]byte, 0, 9)
	return binary.BigEndian.AppendUint64(append(b, byte(wire.TxnState_COMMITTED)), uint64(ts))
}

// boundRecord follows the commit timestamp of a transaction that bound groups beyond those that are lost with this one.
const boundRecord = 1

var abortedRecord = []byte{byte(wire.TxnState_ABORTED)}

func (r *Replica) parseRecord(id base.TxnID, b []byte) (st wire.TxnState, ts base.Timestamp, v *wire.Vote, err error) {
	return parseRecord(r.id, id, b)
}

func parseRecord(g base.GroupID, id base.TxnID, b []byte) (st wire.TxnState, ts base.Timestamp, v *wire.Vote, err error) {
	switch {
	case (len(b) == 9 || len(b) == 10 && b[9] == boundRecord) && b[0] == byte(wire.TxnState_COMMITTED):
		return wire.TxnState_COMMITTED, base.Timestamp(binary.BigEndian.Uint64(b[1:])), nil, nil
	case len(b) == 1 && b[0] == byte(wire.TxnState_ABORTED):
		return wire.TxnState_ABORTED, 0, nil, nil
	case len(b) > 1 && b[0] == byte(wire.TxnState_PREPARED):
		v = new(wire.Vote)
		if err = v.UnmarshalVT(b[1:]); err == nil {
			return wire.TxnState_PREPARED, base.Timestamp(v.Lo), v, nil
		}
	}
	return 0, 0, nil, base.Errorf(base.CodeCorrupt, "group %v: the record of transaction %v is damaged: restore this replica from the others (remove its store and let it join again)", g, id)
}

// load fills the replicated state from the store.
func (r *Replica) loadState() error {
	s := replicated{leases: map[base.NodeID]lease{}, prepared: map[base.TxnID]*wire.Vote{},
		aborted: map[base.TxnID]struct{}{}, fresh: map[base.TxnID]base.Timestamp{}}
	b, ok, err := r.store.GetState(r.id, stateName)
	if err != nil {
		return err
	}
	if ok && !s.decode(b) {
		return base.Errorf(base.CodeCorrupt, "group %v: the owner's record is damaged or of a newer version: restore this replica from the others, or start a newer godwit", r.id)
	}
	if s.clock, err = r.loadClock(); err != nil {
		return err
	}
	err = r.store.ScanTxns(r.id, base.TxnID{}, base.TxnID{}, func(id base.TxnID, rec []byte) error {
		st, _, v, err := r.parseRecord(id, rec)
		if err != nil {
			return err
		}
		switch st {
		case wire.TxnState_PREPARED:
			s.prepared[id] = v
		case wire.TxnState_ABORTED:
			s.aborted[id] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return err
	}
	index, err := r.store.Applied(r.id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.rep = s
	r.applied.Store(max(index, r.applied.Load()))
	r.closed.Store(max(uint64(s.closed), r.closed.Load()))
	r.wake()
	r.mu.Unlock()
	return nil
}
