package sim

import (
	"fmt"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/homing"
)

// homes records every version that a move of a row made, on whichever node it was applied first.
type homes struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func moveName(key base.Key, ts base.Timestamp) string { return fmt.Sprintf("%s@%d", []byte(key), ts) }

// moved reports whether the version of a key was made by a move that wrote nothing else.
func (h *homes) moved(key base.Key, ts base.Timestamp) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.seen[moveName(key, ts)]
	return ok
}

// tap passes calls on to a node's policy, and records the moves.
type tap struct {
	homing.Homes
	h *homes
}

// Moved implements homing.Homes.
func (t tap) Moved(m homing.Move) {
	t.h.mu.Lock()
	if t.h.seen == nil {
		t.h.seen = map[string]struct{}{}
	}
	if m.Alone {
		t.h.seen[moveName(m.Key, m.TS)] = struct{}{}
	}
	t.h.mu.Unlock()
	t.Homes.Moved(m)
}
