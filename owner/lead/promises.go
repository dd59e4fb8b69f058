package lead

import "github.com/godwitdb/godwit/base"

// Promise is a closed timestamp that a leader sent outside the log (TIME-3). It holds once the
// entry at Index is applied.
type Promise struct {
	Index  uint64
	Closed base.Timestamp
	Held   base.Timestamp // the catalog hold that came with it (OWN-17)
}

// Promises are those that have come before their entries, a few at most.
type Promises []Promise

const maxPromises = 16

// Add keeps a promise. Of too many, one of the middle is dropped.
func (p *Promises) Add(x Promise) {
	if len(*p) == maxPromises {
		*p = append((*p)[:maxPromises/2], (*p)[maxPromises/2+1:]...)
	}
	*p = append(*p, x)
}

// Due takes the promises that hold once an index is applied.
func (p *Promises) Due(index uint64) (due []Promise) {
	n := 0
	for _, x := range *p {
		if x.Index <= index {
			due = append(due, x)
			continue
		}
		(*p)[n] = x
		n++
	}
	*p = (*p)[:n]
	return due
}
