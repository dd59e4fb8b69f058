package clock

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Simulated is a clock that is off, over the process's own: by an offset, a drift that adds to it,
// jitter with every reading, and jumps. What it says of its bound is up to its maker.
type Simulated struct {
	mu     sync.Mutex
	rng    *rand.Rand
	since  time.Time
	off    time.Duration // at since
	rate   float64
	jitter time.Duration
	limit  time.Duration // of the offset, either way; 0: none
	bound  time.Duration
}

// NewSimulated makes one without error.
func NewSimulated(bound time.Duration, seed uint64) *Simulated {
	return &Simulated{rng: rand.New(rand.NewPCG(seed, 7)), since: time.Now(), bound: bound}
}

// Set gives it an offset and a drift (1e-6 is a microsecond a second) from now on, kept within
// limit if that is not 0.
func (s *Simulated) Set(off time.Duration, rate float64, limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.off, s.rate, s.limit = time.Now(), off, rate, limit
}

// Jump moves it.
func (s *Simulated) Jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.off, s.since, s.limit = s.offset(now)+d, now, 0
}

// Jitter has readings scatter by up to d either way, which the bound has to cover.
func (s *Simulated) Jitter(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jitter = d
}

// Claim changes the bound that it states.
func (s *Simulated) Claim(bound time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound = bound
}

func (s *Simulated) offset(now time.Time) time.Duration {
	off := s.off + time.Duration(s.rate*float64(now.Sub(s.since)))
	if s.limit > 0 {
		off = max(-s.limit, min(s.limit, off))
	}
	return off
}

// Read implements Source.
func (s *Simulated) Read() (base.Timestamp, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	off := s.offset(now)
	if s.jitter > 0 {
		off += time.Duration(s.rng.Int64N(2*int64(s.jitter)+1)) - s.jitter
	}
	return base.FromTime(now.Add(off)), s.bound
}
