package session

import (
	"encoding/binary"
	"maps"

	"github.com/godwitdb/godwit/base"
)

// homes are the homes of rows, by key. A statement that reads many rows for update mostly knows
// their homes by itself, and asks for none of them: so they are noted as they come, and sorted out
// when the first one is asked for.
type homes struct {
	byKey map[string]base.RegionID
	noted []byte // the others: length of the key, key, home
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
func (h *homes) set(key base.Key, home base.RegionID) { h.byKey[string(key)] = home }

func (h *homes) clone() homes {
	h.sortOut()
	return homes{byKey: maps.Clone(h.byKey)}
}
