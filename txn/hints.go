package txn

import (
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// hint is the owner that a key has, when the local replica has not caught up with its move.
type hint struct {
	group base.GroupID
	need  []*wire.GroupIndex // what the owner must have applied to know that it is
	until time.Time
}

const (
	maxHints = 4096
	hintLife = 2 * time.Second
)

// hints are those of a gateway; they fall out of use as the replica catches up.
type hints struct {
	mu sync.Mutex
	by map[string]hint
}

func (s *hints) set(key base.Key, h hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= maxHints {
		s.by = map[string]hint{}
	}
	h.until = time.Now().Add(hintLife)
	s.by[string(key)] = h
}

func (s *hints) get(key base.Key) (hint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.by[string(key)]
	if ok && time.Now().After(h.until) {
		delete(s.by, string(key))
		ok = false
	}
	return h, ok
}

// note remembers what groups that were asked in error say of the owners.
func (s *hints) note(foreign []*wire.Foreign) {
	for _, f := range foreign {
		s.set(f.Span.Start, hint{group: base.GroupID(f.Group), need: f.Since})
	}
}
