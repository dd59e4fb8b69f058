// Package runs says which spans of a read this node's replicas are asked for together.
//
// A look-up of a range or a key is a seek through the levels of the store, of some microseconds,
// and a join asks for hundreds of them at once, whose shards alternate. So those of one shard are
// read together, and two processors share the work.
package runs

import (
	"runtime"
	"sync"

	"github.com/godwitdb/godwit/base"
)

const (
	// fewest is from how many spans on each run gets its share of the limits.
	fewest = 16
	// Many is from how many spans on runs are read at the same time. To begin another read takes as
	// long as some seeks.
	Many = 128
)

// Runs are the positions of spans.
type Runs struct {
	Of [][]int // by run, in their order
	// Shared: the runs do not follow on each other, so that none may have what the ones before have
	// left of the limits: each has its share of them.
	Shared bool
	total  int
}

// New divides spans: those of one shard, in their order, and, with a limit of rows, those that
// follow on each other. apart: each alone.
func New(spans []base.Span, limited, apart bool) Runs {
	r := Runs{Shared: !apart && len(spans) >= fewest, total: len(spans)}
	at := map[base.ShardID]int{}
	last := base.ShardID(0)
	for i, s := range spans {
		sh := s.Start.Shard()
		k, known := at[sh]
		if apart || !known || limited && !r.Shared && sh != last {
			k = len(r.Of)
			at[sh], r.Of = k, append(r.Of, nil)
		}
		r.Of[k], last = append(r.Of[k], i), sh
	}
	if len(r.Of) == 1 && r.Shared && Divides(r.total) {
		all := r.Of[0]
		r.Of = [][]int{all[:len(all)/2], all[len(all)/2:]}
	}
	return r
}

// Divides reports whether a read of so many spans is worth two processors.
func Divides(spans int) bool { return spans >= Many && runtime.GOMAXPROCS(0) > 1 }

// Share is a run's share of a limit, one at least; 0 is none.
func (r *Runs) Share(run, limit int) int {
	if limit <= 0 {
		return 0
	}
	return max(1, limit*len(r.Of[run])/r.total)
}

// Each calls f for each run, for several at once if they are many spans.
func (r *Runs) Each(f func(run int)) {
	if !Divides(r.total) {
		for k := range r.Of {
			f(k)
		}
		return
	}
	var wg sync.WaitGroup
	next := make(chan int, len(r.Of))
	for k := range r.Of {
		next <- k
	}
	close(next)
	work := func() {
		for k := range next {
			f(k)
		}
	}
	for range min(len(r.Of), runtime.GOMAXPROCS(0)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
