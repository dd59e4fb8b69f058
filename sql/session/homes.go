package session

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// homes are the homes of rows, by key. A statement that reads many rows for update mostly knows
// their homes by itself, and asks for none of them: so they are noted as they come, and sorted out
// when the first one is asked for.
type homes struct {
	byKey map[string]base.RegionID
	noted []byte   // the others: length of the key, key, home
	moved []string // of rows that the transaction moves itself
}

// note keeps the home of a row that was read.
func (h *homes) note(key base.Key, home base.RegionID) {
	h.noted = binary.AppendUvarint(h.noted, uint64(len(key)))
	h.noted = append(append(h.noted, key...), byte(home))
}

// sortOut takes what was noted into the map; what was noted last counts.
func (h *homes) sortOut() {
	if len(h.noted) > 0 && h.byKey == nil {
		h.byKey = map[string]base.RegionID{}
	}
	for b := h.noted; len(b) > 0; {
		n, k := binary.Uvarint(b)
		key := b[k : k+int(n)]
		b = b[k+int(n):]
		h.byKey[string(key)], b = base.RegionID(b[0]), b[1:]
	}
	h.noted = nil
}

func (h *homes) of(key base.Key) (home base.RegionID, ok bool) {
	h.sortOut()
	home, ok = h.byKey[string(key)]
	return home, ok
}

// set changes the home of a row that is known.
func (h *homes) set(key base.Key, home base.RegionID) {
	h.byKey[string(key)] = home
	h.moved = append(h.moved, string(key))
}

// rollback forgets the homes to which the transaction moves rows: the moves may have been dropped.
// The others are where rows are stored. That of a row that the transaction has deleted could not be
// read again, and whoever writes the row anew has to know it.
func (h *homes) rollback() {
	if h.moved == nil {
		return
	}
	h.sortOut()
	for _, k := range h.moved {
		delete(h.byKey, k)
	}
	h.moved = nil
}

func (h *homes) clone() homes {
	h.sortOut()
	return homes{byKey: maps.Clone(h.byKey), moved: slices.Clone(h.moved)}
}
