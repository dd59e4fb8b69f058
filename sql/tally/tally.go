// Package tally counts why something was done in another way than the shortest one.
package tally

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Tally counts by reason.
type Tally struct {
	mu sync.Mutex
	m  map[string]int64
	// On is called with each reason; nil: nobody.
	On func(reason string)
}

// Entry is how often a reason was given.
type Entry struct {
	Reason string
	Count  int64
}

// maxReasons bounds the reasons that are told apart.
const maxReasons = 500

// Add counts one.
func (f *Tally) Add(reason string) {
	f.mu.Lock()
	if f.m == nil {
		f.m = map[string]int64{}
	}
	if _, ok := f.m[reason]; !ok && len(f.m) >= maxReasons {
		reason = "other"
	}
	f.m[reason]++
	f.mu.Unlock()
	if f.On != nil {
		f.On(reason)
	}
}

// All are the reasons so far, the most frequent first.
func (f *Tally) All() []Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Entry, 0, len(f.m))
	for r, n := range f.m {
		out = append(out, Entry{r, n})
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason))
	})
	return out
}
