// Package hints keeps what a gateway has heard of the owners of keys, where its own copy has not
// caught up with a move yet, or where it has no copy.
package hints

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// Hint is the owner that a key has, when the local replica has not caught up with its move.
type Hint struct {
	Group base.GroupID
	Need  []*wire.GroupIndex // what the owner must have applied to know that it is
	until time.Time
}

const (
	most = 4096
	life = 2 * time.Second
)

// Hints are those of a gateway; they fall out of use as the replica catches up.
type Hints struct {
	mu sync.Mutex
	by map[string]Hint
}

// Set remembers the owner of a key for a while.
func (s *Hints) Set(key base.Key, h Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= most {
		s.by = map[string]Hint{}
	}
	h.until = time.Now().Add(life)
	s.by[string(key)] = h
}

// Get is what was heard of a key lately; ok is false if that is nothing.
func (s *Hints) Get(key base.Key) (h Hint, ok bool) {
	h, ok = s.find(key)
	return h, ok && !time.Now().After(h.until)
}

// Last is the group that was last said to own a key, however long ago, for a gateway that has no
// copy to look it up in (HOME-10). It is a guess: what the owner must have applied is left out.
func (s *Hints) Last(key base.Key) (base.GroupID, bool) {
	h, ok := s.find(key)
	return h.Group, ok
}

func (s *Hints) find(key base.Key) (Hint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.by[string(key)]
	return h, ok
}

// Note remembers what groups that were asked in error say of the owners.
func (s *Hints) Note(foreign []*wire.Foreign) {
	for _, f := range foreign {
		s.Set(f.Span.Start, Hint{Group: base.GroupID(f.Group), Need: f.Since})
	}
}

// CatchUp waits until the copies here show what groups that were asked in error say of ranges: who
// owns the parts of a range is looked up in the copy, and no hint says it. It waits atMost so long,
// and for nothing that has no copy here.
func CatchUp(ctx context.Context, set *owner.Set, foreign []*wire.Foreign, atMost time.Duration) {
	need := map[base.GroupID]uint64{}
	for _, f := range foreign {
		if len(f.Span.End) == 0 {
			continue // a key, of which there is a hint
		}
		for _, s := range f.Since {
			g := base.DataGroup(base.Key(f.Span.Start).Shard(), base.RegionID(s.Region))
			need[g] = max(need[g], s.Index)
		}
	}
	var late []*owner.Replica
	for g, index := range need {
		if r := set.Replica(g); r != nil && r.AppliedIndex() < index {
			late = append(late, r)
		}
	}
	if len(late) == 0 {
		return
	}
	obs.Each(ctx, len(late), func(ctx context.Context, i int) {
		// A copy that does not catch up in time is no error: the next try may fail, and says why.
		_ = late[i].WaitApplied(ctx, need[late[i].ID()], atMost)
	})
}
