// Package contended remembers which rows transactions across regions have lost to others when they
// did not lock them, so that the next ones do (docs/protocol.md, REL-16). It is what one gateway
// has seen of its own transactions, and bounded. A wrong guess costs time and nothing else.
package contended

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

const (
	// most is how many rows are remembered.
	most = 4096
	// First is for how long a row is contended. Then it is used again without locks. If that fails
	// soon, it is contended for twice as long, up to Longest: so a row that stays hot costs few
	// lost transactions, and one that has cooled down is not locked for ever.
	First   = 10 * time.Second
	Longest = 5 * time.Minute
	// Again is how new a version is that tells that a row is still being changed: a transaction
	// that had not locked it would likely have been lost.
	Again = 2 * time.Second
)

// Rows are the rows on which transactions have lost. It is safe for concurrent use. The zero value
// is empty.
type Rows struct {
	mu   sync.Mutex
	seed maphash.Seed
	by   map[uint64]row
}

type row struct {
	lost  time.Time     // the last time
	until time.Time     // it is contended
	span  time.Duration // for so long the last time
}

// forgotten reports whether the row was used in peace for as long as it was contended.
func (r row) forgotten(now time.Time) bool { return now.Sub(r.until) >= r.span }

// Lost notes that a transaction has lost because others have changed a row.
func (s *Rows) Lost(key base.Key, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by, s.seed = map[uint64]row{}, maphash.MakeSeed()
	}
	k := maphash.Bytes(s.seed, key)
	r, known := s.by[k]
	switch {
	case now.Before(r.until):
		return // those that lose now had begun before
	case !known && len(s.by) >= most && !s.makeRoom(now):
		return
	case r.forgotten(now):
		r.span = First
	default:
		r.span = min(2*r.span, Longest)
	}
	r.lost, r.until = now, now.Add(r.span)
	s.by[k] = r
}

// Locked notes rows that a transaction has locked: those that are contended, and have just been
// changed, stay so, and no transaction has to be lost to find that out. It takes one after Longest,
// because those that lock may be the only ones that change the row.
func (s *Rows) Locked(rows []*wire.KV, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) == 0 {
		return
	}
	for _, x := range rows {
		k := maphash.Bytes(s.seed, x.Key)
		if r := s.by[k]; now.Before(r.until) && now.Sub(base.Timestamp(x.Ts).Time()) < Again {
			if until := now.Add(r.span); until.Before(r.lost.Add(Longest)) {
				r.until = until
				s.by[k] = r
			}
		}
	}
}

// makeRoom drops what is forgotten, and reports whether that was enough.
func (s *Rows) makeRoom(now time.Time) bool {
	for k, r := range s.by {
		if r.forgotten(now) {
			delete(s.by, k)
		}
	}
	return len(s.by) < most
}

// Has reports whether a row is contended: the next transaction had better lock it.
func (s *Rows) Has(key base.Key, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.by) > 0 && now.Before(s.by[maphash.Bytes(s.seed, key)].until)
}
