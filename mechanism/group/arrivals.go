package group

import (
	"slices"
	"time"
)

// maxArrivals bounds how many batches of entries are told apart.
const maxArrivals = 1024

// arrivals has when the entries came that are not applied yet. A lease counts from then on
// (Entry.Arrived): its holder counts it from before it was proposed. A leader that handles late
// what arrives commits it seconds afterwards, when it may have ended.
type arrivals []arrival

// arrival is when the entries up to last came that are behind those of the arrival before.
type arrival struct {
	last uint64
	tick uint64
	at   time.Time
}

// add notes that the entries from first to last have come, in place of those that were there.
func (a *arrivals) add(first, last, tick uint64, at time.Time) {
	all := *a
	for n := len(all); n > 0 && all[n-1].last >= first; n = len(all) {
		if n == 1 || all[n-2].last+1 < first {
			all[n-1].last = first - 1
			break
		}
		all = all[:n-1]
	}
	if len(all) >= maxArrivals {
		// What is forgotten counts as having come with the batch behind it, which is later: a lease
		// is outlived for longer than it need be, and never for less.
		odd := false
		all = slices.DeleteFunc(all, func(arrival) bool { odd = !odd; return odd })
	}
	*a = append(all, arrival{last, tick, at})
}

// of is when the entry at index came; the arrival of a later one if that is not known, or nothing.
func (a arrivals) of(index uint64) (x arrival, ok bool) {
	i, _ := slices.BinarySearchFunc(a, index, func(x arrival, index uint64) int {
		if x.last < index {
			return -1
		}
		return 1
	})
	if i == len(a) {
		return arrival{}, false
	}
	return a[i], true
}

// applied forgets the entries up to index.
func (a *arrivals) applied(index uint64) {
	n := 0
	for n < len(*a) && (*a)[n].last <= index {
		n++
	}
	*a = slices.Delete(*a, 0, n)
}
