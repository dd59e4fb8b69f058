package tscache

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Ends are the largest timestamps at which transactions have ended, by when they were reported.
type Ends struct {
	Low  base.Timestamp // of all that is not in list
	list []endMark      // both growing
}

type endMark struct{ reported, ts base.Timestamp }

const (
	maxEnds  = 4096
	endGrain = 200 * time.Microsecond
)

// Newest is the largest timestamp at which a transaction is known to have ended.
func (e *Ends) Newest() base.Timestamp {
	if n := len(e.list); n > 0 {
		return e.list[n-1].ts
	}
	return e.Low
}

// Add notes an end that is reported at reported, a time that has certainly passed by then.
func (e *Ends) Add(ts, reported base.Timestamp) {
	if ts <= e.Newest() {
		return
	}
	n := len(e.list)
	switch {
	case n > 0 && reported.Sub(e.list[n-1].reported) < endGrain:
		e.list[n-1].ts = ts // as if it had been reported a little earlier
		return
	case n == maxEnds:
		e.Low = e.list[n/2-1].ts
		e.list = append(e.list[:0], e.list[n/2:]...)
	}
	e.list = append(e.list, endMark{reported, ts})
}

// Before is the largest end, except those certainly reported after began; 0 is never.
func (e *Ends) Before(began base.Timestamp) base.Timestamp {
	if began == 0 {
		return e.Newest()
	}
	i, _ := slices.BinarySearchFunc(e.list, began, func(m endMark, at base.Timestamp) int {
		if m.reported <= at {
			return -1
		}
		return 1
	})
	if i == 0 {
		return e.Low
	}
	return e.list[i-1].ts
}
