package recall

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Unasked are the releases that nodes have sent unasked, the newest of each, and the holders that
// the leader of a term here waits for. The zero value is of one that has heard none. Its user
// guards it.
type Unasked struct {
	// Any has them count in every later term (Breaks.AnyRelease).
	Any bool

	newest map[base.NodeID]*wire.GroupRelease
	term   uint64
	waits  []*Holder
}

// Await has the leader of a term wait for holders: those whose release has come are told of it, and
// so are the others when theirs comes.
func (u *Unasked) Await(term uint64, holders []*Holder) {
	u.term, u.waits = term, holders
	for from, q := range u.newest {
		u.tell(from, q)
	}
}

// Note takes a release.
func (u *Unasked) Note(from base.NodeID, q *wire.GroupRelease) {
	if u.newest == nil {
		u.newest = map[base.NodeID]*wire.GroupRelease{}
	}
	u.newest[from] = q
	u.tell(from, q)
}

// tell tells the holders that a release is of. It says that its sender serves no more in its term
// and before. So it is worth something in the next term alone, before which there is no other in
// which the sender may have led; and only if the newest lease in the log is of the same process,
// which has begun above those of the processes before it.
func (u *Unasked) tell(from base.NodeID, q *wire.GroupRelease) {
	if q.Term+1 != u.term && !u.Any {
		return
	}
	for _, h := range u.waits {
		if h.Node == from && base.Timestamp(q.Least) <= h.End && h.End <= base.Timestamp(q.Most) {
			h.release(&wire.ReleaseResponse{Floor: q.Floor, Held: q.Held})
		}
	}
}
