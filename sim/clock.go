package sim

import (
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// skewed is a clock that is off: by a constant, and more or less so as time passes. It never admits
// to more than bound.
type skewed struct {
	bound time.Duration

	mu    sync.Mutex
	since time.Time
	off   time.Duration // at since
	rate  float64       // drift
	limit time.Duration // of off, either way
}

func newSkewed(bound, off time.Duration, rate, beyond float64) *skewed {
	return &skewed{bound: bound, since: time.Now(), off: off, rate: rate, limit: time.Duration(max(1, beyond) * float64(bound))}
}

func (s *skewed) offset(now time.Time) time.Duration {
	off := s.off + time.Duration(s.rate*float64(now.Sub(s.since)))
	return max(-s.limit, min(s.limit, off))
}

// Read implements clock.Source.
func (s *skewed) Read() (base.Timestamp, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return base.FromTime(now.Add(s.offset(now))), s.bound
}

// step sets the clock, as a time daemon does.
func (s *skewed) step(off time.Duration, rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.off, s.rate = time.Now(), off, rate
}
