package txns

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// A transaction that XA has prepared stands in each group in which it holds locks: it has no
// client, no timestamp and no vote, and keeps its locks until another transaction ends it,
// whichever leaders come and go (docs/protocol.md, XA).

// Standing is what a transaction has to do with those that stand.
type Standing struct {
	Stands   bool       // it is one of them
	Prepares base.TxnID // the name under which it will stand once it has committed; zero: none
	Under    base.TxnID // that of the one that it ends, whose locks it has; zero: none
}

// lasts reports whether locks of the transaction may outlast any timestamp at which it commits, or
// its abort.
func (s *Standing) lasts() bool { return s.Stands || !s.Prepares.IsZero() || !s.Under.IsZero() }

// mostStanding is how many locks of a prepared transaction stand in one group.
const mostStanding = 100_000

// LocksOf are the locks of a transaction, as they will stand, and their spans.
func (t *Table) LocksOf(x *Txn) (*wire.Standing, []base.Span, error) {
	if n := t.LockTable.Count(x.ID); n > mostStanding {
		return nil, nil, base.Errorf(base.CodeInvalid, "the transaction holds %d locks in one group, and a prepared one "+
			"holds %d at most: prepare smaller ones", n, mostStanding)
	}
	all, spans := &wire.Standing{}, []base.Span(nil)
	t.LockTable.Each(x.ID, func(s base.Span, m lock.Mode) bool {
		spans = append(spans, s)
		if w := (&wire.Span{Start: s.Start, End: s.End}); m == lock.Exclusive {
			all.Exclusive = append(all.Exclusive, w)
		} else {
			all.Shared = append(all.Shared, w)
		}
		return true
	})
	return all, spans, nil
}

// LockStanding has all transactions stand that have no locks here yet: none of them is about to
// stand, or being ended.
func (t *Table) LockStanding(standing map[base.TxnID][]byte) error {
	taken := map[base.TxnID]bool{}
	for _, x := range t.ByID {
		taken[x.Prepares], taken[x.Under] = true, true
	}
	for id, locks := range standing {
		if taken[id] || t.ByID[id] != nil {
			continue
		}
		x := t.newStanding(id)
		if err := t.takeStanding(x, locks); err != nil {
			return err
		}
	}
	return nil
}

// newStanding registers a transaction that stands, without locks. It is younger than all others,
// which wait for it as long as they like: it waits for nobody, so there is no deadlock.
func (t *Table) newStanding(id base.TxnID) *Txn {
	x := &Txn{ID: id, Age: base.MaxTimestamp, Activity: Activity{Last: time.Now(), Calls: 1}, Standing: Standing{Stands: true}}
	t.ByID[id] = x
	return x
}

// takeStanding takes the locks of a record for x.
func (t *Table) takeStanding(x *Txn, record []byte) error {
	var locks wire.Standing
	if err := locks.UnmarshalVT(record); err != nil {
		return base.Errorf(base.CodeCorrupt, "the record of the locks of prepared transaction %v is damaged: "+
			"restore this replica from the others (remove its store and let it join again)", x.ID)
	}
	if err := t.takeSpans(x, locks.Shared, lock.Shared); err != nil {
		return err
	}
	return t.takeSpans(x, locks.Exclusive, lock.Exclusive)
}

// takeVote takes the locks that a vote has besides those of its writes: it is the vote of a
// transaction that will stand, or ends one that does.
func (t *Table) takeVote(g *view.Group, x *Txn, v *wire.Vote, standing map[base.TxnID][]byte) error {
	for _, w := range v.Writes {
		id, n, ok := base.PreparedBy(g.ID, w.Key)
		if !ok || n != 0 {
			continue
		}
		locks := w.Value
		if w.Kind == wire.WriteKind_DELETE {
			x.Under, locks = id, standing[id]
		} else {
			x.Prepares = id
		}
		if err := t.takeStanding(x, locks); err != nil {
			return err
		}
	}
	return nil
}

// Adopt gives x, which is new here, the locks of the transaction that it says to end. busy: they
// are not free for that yet.
func (t *Table) Adopt(x *Txn, m *wire.TxnMeta, standing map[base.TxnID][]byte) (busy bool) {
	if len(m.Under) == 0 {
		return false
	}
	id, ok := state.TxnID(m.Under)
	if !ok {
		return true
	}
	for _, y := range t.ByID {
		if y != x && (y.Under == id || y.Prepares == id) {
			return true
		}
	}
	if _, stands := standing[id]; !stands {
		return false // it has ended here
	}
	s := t.ByID[id]
	if s == nil {
		return true
	}
	delete(t.ByID, id)
	t.End(s)
	x.Under = id
	t.LockTable.Rename(id, x.ID, x.Age)
	return false
}

// Free ends all locks of x, but for those of a transaction that stands from now on, or goes on
// standing because x has not ended it.
func (t *Table) Free(x *Txn, standing map[base.TxnID][]byte) lock.Events {
	for _, id := range [2]base.TxnID{x.Prepares, x.Under} {
		if _, stands := standing[id]; stands && !id.IsZero() {
			return t.LockTable.Rename(x.ID, id, t.newStanding(id).Age)
		}
	}
	return t.LockTable.Release(x.ID)
}
