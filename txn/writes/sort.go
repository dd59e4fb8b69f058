package writes

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// maxSections is how many tables and indexes a sort tells apart at once.
const maxSections = 32

// place is a write with the beginning of its key: most comparisons need no more, and so do not
// look at memory that lies elsewhere.
type place struct {
	section int    // in the order of sections
	head    uint64 // of what is behind the section
	w       *Write
}

// sortByKey sorts writes by key.
func sortByKey(ws []*Write) {
	byKey := func(x, y *Write) int { return x.Key.Compare(y.Key) }
	if slices.IsSortedFunc(ws, byKey) {
		return
	}
	places, ok := placesOf(ws)
	if !ok {
		slices.SortFunc(ws, byKey)
		return
	}
	slices.SortFunc(places, func(x, y place) int {
		if x.section != y.section {
			return x.section - y.section
		}
		if x.head != y.head {
			return cmp.Compare(x.head, y.head)
		}
		return x.w.Key.Compare(y.w.Key)
	})
	for i := range places {
		ws[i] = places[i].w
	}
}

// placesOf is false where there are too many sections.
func placesOf(ws []*Write) ([]place, bool) {
	var sections []base.Key
	places := make([]place, len(ws))
	for i, w := range ws {
		s := w.Key.Section()
		at := slices.IndexFunc(sections, func(o base.Key) bool { return bytes.Equal(o, s) })
		if at < 0 {
			if at = len(sections); at == maxSections {
				return nil, false
			}
			sections = append(sections, s)
		}
		var head [8]byte
		copy(head[:], w.Key[len(s):])
		places[i] = place{at, binary.BigEndian.Uint64(head[:]), w}
	}
	order := make([]int, len(sections))
	for i, s := range sections {
		for _, o := range sections {
			if o.Compare(s) < 0 {
				order[i]++
			}
		}
	}
	for i := range places {
		places[i].section = order[places[i].section]
	}
	return places, true
}
