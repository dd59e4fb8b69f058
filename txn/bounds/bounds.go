// Package bounds keeps what owners have told a transaction of slots below which it must commit
// (docs/protocol.md, REL-4 and REL-17).
package bounds

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

// Bounds are the slots below which a transaction must commit, by the group in which it has read
// what changes there. The zero value has none. It may be used by several goroutines at once.
type Bounds struct {
	mu    sync.Mutex
	least atomic.Uint64 // complement of the least one, so that 0 is none
	by    map[base.GroupID]base.Timestamp
}

// Add notes a slot; 0 is none.
func (b *Bounds) Add(g base.GroupID, slot base.Timestamp) {
	if slot == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.by[g]; old != 0 && old <= slot {
		return
	}
	if b.by == nil {
		b.by = map[base.GroupID]base.Timestamp{}
	}
	b.by[g] = slot
	b.sum()
}

// Passed are the groups whose slots lie at or below a timestamp. Their slots are forgotten.
func (b *Bounds) Passed(ts base.Timestamp) (gs []base.GroupID) {
	if ts == 0 || math.MaxUint64-b.least.Load() > uint64(ts) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for g, slot := range b.by {
		if slot <= ts {
			gs = append(gs, g)
			delete(b.by, g)
		}
	}
	b.sum()
	return gs
}

// Clear forgets all.
func (b *Bounds) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by = nil
	b.sum()
}

func (b *Bounds) sum() {
	least := uint64(math.MaxUint64)
	for _, slot := range b.by {
		least = min(least, uint64(slot))
	}
	b.least.Store(math.MaxUint64 - least)
}
