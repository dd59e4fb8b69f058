package state

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// RecordAge is how far an attempt may lie in the past of a group's log before the group refuses it
// for good and may forget outcomes (OWN-11). It is part of the replicated state machine, hence a
// constant: every replica must agree. A transaction cannot live longer than this.
const RecordAge = 10 * time.Minute

// State is the part of a replica's state that is a function of the log.
type State struct {
	Leases   map[base.NodeID]Lease
	Transfer LeaseTransfer
	Join     [16]uint64 // join of all vectors in the log (HOME-3), by region
	Closed   base.Timestamp
	LastTS   base.Timestamp // largest commit timestamp
	Prepared map[base.TxnID]*wire.Vote
	// Staged is how many pieces each transaction has staged that has neither voted nor was refused.
	Staged map[base.TxnID]uint32
	// Aborted are transactions that were refused or aborted here and are young enough to matter.
	Aborted map[base.TxnID]struct{}
	// Clock are the steps of the clock mode, the newest last (meta group). The slice is never
	// changed in place.
	Clock []*wire.ClockOrder
	// Fresh are outcomes that may not be visible in the store yet.
	Fresh map[base.TxnID]base.Timestamp
	// answers are those of the statements among them.
	answers map[base.TxnID][]byte
	// Standing are the locks of transactions that XA has prepared, by the names under which they
	// stand: encoded (wire.Standing).
	Standing map[base.TxnID][]byte
}

// Lease is the newest one of a holder.
type Lease struct {
	End base.Timestamp
	// Revoked: its holder has ended it before its time and serves no more, so no node need wait for
	// End.
	Revoked bool
	Length  time.Duration // its holder stops so long after proposing it; 0: not known
	Virtual bool          // End says nothing of true time
	Learned time.Time     // when it came to this replica: after it was proposed
}

// LeaseTransfer is the last lease transfer entry in the log; Target is 0 if a lease behind it has
// superseded it.
type LeaseTransfer struct {
	Target base.NodeID
	Term   uint64
	Index  uint64
	Lease
}

// Group is the group whose log is applied, at one replica.
type Group struct {
	ID    base.GroupID
	Store *store.Store
	// Mixed reports whether a vote for these participants binds groups that would not be lost
	// together with this one.
	Mixed func(participants []uint32) bool
	// Moved is called for rows whose home has changed.
	Moved func(w *wire.Write, ts base.Timestamp)
	// Pieces are staged pieces that are decoded already.
	Pieces *PiecesAhead
	// AnyPieces leaves STAGE-1 out, for tests that show what breaks then.
	AnyPieces bool
}

// Horizon is the timestamp before which attempts must have begun to be refused (OWN-11).
func (s *State) Horizon() base.Timestamp { return s.Closed.Add(-RecordAge) }

// Undecided is the timestamp before which every attempt that began is decided here for good: it is
// neither prepared, nor can it still be.
func (s *State) Undecided() base.Timestamp {
	t := s.Horizon()
	for id := range s.Prepared {
		t = min(t, id.Start())
	}
	for id := range s.Staged {
		t = min(t, id.Start())
	}
	return t
}

// ForgetAborted drops refusals that the horizon has passed.
func (s *State) ForgetAborted() {
	old := s.Horizon()
	for id := range s.Aborted {
		if id.Start() < old {
			delete(s.Aborted, id)
		}
	}
}

// Name is the name of the record in the store that holds the encoded state.
const Name = "owner"

// The flags of an encoded lease.
const (
	flagRevoked = 1
	flagVirtual = 2
)

// encode makes the record of the state, which is all of uvarints. Its versions:
//
//	1  closed, LastTS, join (16), and for each lease: holder, end, flags
//	2  a lease has its length in ns behind its flags
//	3  behind the join: the target of the lease transfer entry, and if that is not 0 its term,
//	   index, end, flags and length
func (s *State) encode() []byte {
	b := make([]byte, 0, 64)
	b = append(b, 3)
	b = binary.AppendUvarint(b, uint64(s.Closed))
	b = binary.AppendUvarint(b, uint64(s.LastTS))
	for _, v := range s.Join {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.AppendUvarint(b, uint64(s.Transfer.Target))
	if s.Transfer.Target != 0 {
		b = binary.AppendUvarint(b, s.Transfer.Term)
		b = binary.AppendUvarint(b, s.Transfer.Index)
		b = s.Transfer.Lease.append(b)
	}
	for _, n := range slices.Sorted(maps.Keys(s.Leases)) {
		b = binary.AppendUvarint(b, uint64(n))
		l := s.Leases[n]
		b = l.append(b)
	}
	return b
}

func (l *Lease) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(l.End))
	flags := uint64(0)
	if l.Revoked {
		flags |= flagRevoked
	}
	if l.Virtual {
		flags |= flagVirtual
	}
	b = binary.AppendUvarint(b, flags)
	return binary.AppendUvarint(b, uint64(l.Length))
}

// decoder reads a record; it is bad once something was missing.
type decoder struct {
	version byte
	b       []byte
	bad     bool
}

func (d *decoder) next() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) lease() Lease {
	l := Lease{End: base.Timestamp(d.next()), Learned: time.Now()}
	flags := d.next()
	l.Revoked, l.Virtual = flags&flagRevoked != 0, flags&flagVirtual != 0
	if d.version > 1 {
		l.Length = time.Duration(d.next())
	}
	return l
}

// decode reads a record into s; false if it is damaged, or of a version that is not known.
func (s *State) decode(b []byte) bool {
	if len(b) == 0 || b[0] < 1 || b[0] > 3 {
		return false
	}
	d := decoder{version: b[0], b: b[1:]}
	s.Closed, s.LastTS = base.Timestamp(d.next()), base.Timestamp(d.next())
	for i := range s.Join {
		s.Join[i] = d.next()
	}
	if d.version > 2 {
		if target := base.NodeID(d.next()); target != 0 {
			s.Transfer = LeaseTransfer{Target: target, Term: d.next(), Index: d.next(), Lease: d.lease()}
		}
	}
	for !d.bad && len(d.b) > 0 {
		n := base.NodeID(d.next())
		s.Leases[n] = d.lease()
	}
	return !d.bad
}

// Load reads the state of a group from the store.
func Load(of *Group) (State, error) {
	s := State{Leases: map[base.NodeID]Lease{}, Prepared: map[base.TxnID]*wire.Vote{},
		Staged: map[base.TxnID]uint32{}, Aborted: map[base.TxnID]struct{}{}, Fresh: map[base.TxnID]base.Timestamp{}}
	b, ok, err := of.Store.GetState(of.ID, Name)
	if err != nil {
		return s, err
	}
	if ok && !s.decode(b) {
		return s, base.Errorf(base.CodeCorrupt, "group %v: the owner's record is damaged or of a newer version: "+
			"restore this replica from the others, or start a newer godwit", of.ID)
	}
	if s.Clock, err = loadClock(of); err != nil {
		return s, err
	}
	if s.Standing, err = loadStanding(of); err != nil {
		return s, err
	}
	return s, of.Store.ScanTxns(of.ID, base.TxnID{}, base.TxnID{}, func(id base.TxnID, rec []byte) error {
		r, err := ParseRecord(of.ID, id, rec)
		if err != nil {
			return err
		}
		switch r.State {
		case wire.TxnState_PREPARED:
			s.Prepared[id] = r.Vote
		case wire.TxnState_ABORTED:
			s.Aborted[id] = struct{}{}
		case wire.TxnState_UNKNOWN:
			s.Staged[id] = r.Staged
		}
		return nil
	})
}

// Relied are the entries of other groups of the shard that the log of a region's group relies on
// (HOME-3).
func (s *State) Relied(self base.RegionID) (need []*wire.GroupIndex) {
	for i, v := range s.Join {
		if v > 0 && base.RegionID(i) != self {
			need = append(need, &wire.GroupIndex{Region: uint32(i), Index: v})
		}
	}
	return need
}
