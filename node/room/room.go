// Package room tells when the file system of a store will be full, from how its free space has
// changed.
package room

import (
	"sync"
	"time"
)

const (
	// every is how often the free space is noted, and noted how many of these are kept: 6 h.
	every = 5 * time.Minute
	noted = 73
	// least is for how long it has to be known before it tells anything.
	least = 30 * time.Minute
)

// Forecast is the free space of a file system over the last hours. The zero value knows nothing. It
// is safe for concurrent use.
type Forecast struct {
	mu      sync.Mutex
	samples []sample // the oldest first
}

type sample struct {
	at   time.Time
	free int64
}

// Note tells how many bytes are free now. Full is in how long none will be, if space goes on being
// used as it has been over the last 6 h, or for as long as it is known; 0: that is not known, or
// there is no less than there was.
func (f *Forecast) Note(now time.Time, free int64) (full time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.samples); n == 0 || now.Sub(f.samples[n-1].at) >= every {
		if f.samples = append(f.samples, sample{now, free}); len(f.samples) > noted {
			f.samples = f.samples[1:]
		}
	}
	first := f.samples[0]
	took, used := now.Sub(first.at), first.free-free
	if took < least || used <= 0 {
		return 0
	}
	return max(time.Second, time.Duration(float64(took)*float64(free)/float64(used)))
}
