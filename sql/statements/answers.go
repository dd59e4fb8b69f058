package statements

import (
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Answers counts the statements of a node's clients by the client's region, and by the regions
// that have answered: those whose nodes have answered a request for which the statement waited, or
// the node's own region if there was none. A statement that waited for two regions counts for both.
type Answers struct {
	by [base.MaxRegions + 1][base.MaxRegions + 1]struct{ statements, ns atomic.Int64 }
}

// note counts a statement; others is the set of the other regions, as bits.
func (a *Answers) note(client, here base.RegionID, others uint32, took time.Duration) {
	if client > base.MaxRegions || here > base.MaxRegions {
		return // there is no such region
	}
	others &= 1<<(base.MaxRegions+1) - 1
	if others == 0 {
		others = 1 << here
	}
	for to := range a.by[client] {
		if others&(1<<to) != 0 {
			a.by[client][to].statements.Add(1)
			a.by[client][to].ns.Add(int64(took))
		}
	}
}

// Answer is how many statements of clients of a region another one has answered, or the same, and
// how long they took.
type Answer struct {
	Client     base.RegionID `json:"client"`
	By         base.RegionID `json:"by"`
	Statements int64         `json:"statements"`
	Took       time.Duration `json:"took"`
}

// All are those of which there are any, by client and then by who answered.
func (a *Answers) All() (out []Answer) {
	for c := range a.by {
		for b := range a.by[c] {
			if n := a.by[c][b].statements.Load(); n > 0 {
				out = append(out, Answer{base.RegionID(c), base.RegionID(b), n, time.Duration(a.by[c][b].ns.Load())})
			}
		}
	}
	return out
}
