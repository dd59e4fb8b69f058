// Package known remembers what a transaction has read under locks, at its gateway.
package known

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Rows is what a transaction knows of the keys that it has read under a lock: whether they are
// present, and which group owns them. Where the transaction holds no lock (bySlot, byTimestamp) it
// is a guess that the commit validates.
type Rows struct {
	present map[string]base.GroupID
	absent  map[string]base.GroupID
	ranges  []readRange // present rows of long ranges
	// Shown are rows that their owner has locked and sent unasked, with another one.
	Shown map[string]*wire.KV
}

// readRange are the rows found by one read of a range, by key, and the group that owns them.
type readRange struct {
	keys  []base.Key
	group base.GroupID
}

const (
	Max = 1 << 16 // keys of each kind that are remembered
	// Ranges of at least minRange rows are remembered as they are, up to maxRanges of them: nobody
	// will ask for most of their rows.
	minRange  = 16
	maxRanges = 32
)

// Note remembers rows that a group owns.
func (k *Rows) Note(rows []*wire.KV, g base.GroupID) {
	if k.noteRange(rows, g) {
		return
	}
	for _, r := range rows {
		set := &k.present
		if r.Absent {
			set = &k.absent
		}
		if len(*set) >= Max {
			return
		}
		if *set == nil {
			*set = map[string]base.GroupID{}
		}
		(*set)[string(r.Key)] = g
	}
}

// noteRange remembers many sorted rows at once.
func (k *Rows) noteRange(rows []*wire.KV, g base.GroupID) bool {
	byKey := func(a, b *wire.KV) int { return bytes.Compare(a.Key, b.Key) }
	absent := func(r *wire.KV) bool { return r.Absent }
	if len(rows) < minRange || len(k.ranges) >= maxRanges || !slices.IsSortedFunc(rows, byKey) ||
		slices.ContainsFunc(rows, absent) {
		return false
	}
	keys := make([]base.Key, len(rows))
	for i, r := range rows {
		keys[i] = r.Key
	}
	k.ranges = append(k.ranges, readRange{keys, g})
	return true
}

// NoteShown remembers rows that a group has sent unasked.
func (k *Rows) NoteShown(rows []*wire.KV, g base.GroupID) {
	if len(rows) == 0 {
		return
	}
	k.Note(rows, g)
	if k.Shown == nil {
		k.Shown = map[string]*wire.KV{}
	}
	for _, r := range rows {
		if len(k.Shown) < Max {
			k.Shown[string(r.Key)] = r
		}
	}
}

// IsPresent reports whether a key was found, and in which group.
func (k *Rows) IsPresent(key base.Key) (base.GroupID, bool) {
	if g, ok := k.present[string(key)]; ok {
		return g, true
	}
	for i := range k.ranges {
		r := &k.ranges[i]
		if key.Compare(r.keys[0]) < 0 || r.keys[len(r.keys)-1].Compare(key) < 0 {
			continue
		}
		if _, ok := slices.BinarySearchFunc(r.keys, key, base.Key.Compare); ok {
			return r.group, true
		}
	}
	return 0, false
}

// Walk asks for the owners of many keys in rising order: mostly the next key of the range in
// which the last one was.
type Walk struct {
	of    *Rows
	group base.GroupID // of the range
	rest  []base.Key   // the keys of the range behind the last one that was asked for
	// bare: no range reaches from the last key to the one at until; nil: to the end.
	bare  bool
	until base.Key
}

// WalkOf begins a walk.
func WalkOf(k *Rows) Walk { return Walk{of: k} }

// walkSteps is how many keys of a range are passed over before it is searched.
const walkSteps = 8

// Owner is Rows.owner.
func (k *Walk) Owner(key base.Key) (base.GroupID, bool) {
	for i := 0; i < len(k.rest) && i < walkSteps; i++ {
		c := k.rest[i].Compare(key)
		if c > 0 {
			break
		}
		if c == 0 {
			k.rest = k.rest[i+1:]
			return k.group, true
		}
	}
	if k.bare && (k.until == nil || key.Compare(k.until) < 0) {
		return k.of.single(key)
	}
	k.bare, k.until = true, nil
	for i := range k.of.ranges {
		r := &k.of.ranges[i]
		switch {
		case r.keys[len(r.keys)-1].Compare(key) < 0:
		case key.Compare(r.keys[0]) < 0:
			if k.until == nil || r.keys[0].Compare(k.until) < 0 {
				k.until = r.keys[0]
			}
		default:
			k.bare = false
			if at, ok := slices.BinarySearchFunc(r.keys, key, base.Key.Compare); ok {
				k.group, k.rest = r.group, r.keys[at+1:]
				return r.group, true
			}
		}
	}
	return k.of.single(key)
}

// Owner is the group in which a key was found, or found to be absent.
func (k *Rows) Owner(key base.Key) (base.GroupID, bool) {
	if g, ok := k.IsPresent(key); ok {
		return g, true
	}
	g, ok := k.absent[string(key)]
	return g, ok
}

// single is Owner of a key that is in no range.
func (k *Rows) single(key base.Key) (base.GroupID, bool) {
	if g, ok := k.present[string(key)]; ok {
		return g, true
	}
	g, ok := k.absent[string(key)]
	return g, ok
}

// Full reports whether so many keys more are too many to be remembered.
func (k *Rows) Full(more int) bool { return len(k.present)+len(k.absent)+more > Max }

// Ranges is how many long ranges are remembered as they are.
func (k *Rows) Ranges() int { return len(k.ranges) }
