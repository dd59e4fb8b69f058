package clock

import (
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Steady is a source that notices when its inner one is set: when it moves against the monotonic
// clock by more than bounds and drift allow. Which of the two times is right cannot be told from
// here, so from then on the bound covers both, until Accept.
type Steady struct {
	src    Source
	at     timed
	anchor atomic.Pointer[steadyAnchor]
}

type steadyAnchor struct {
	ts    base.Timestamp
	bound time.Duration
	at    time.Time
}

// reanchor is how old an anchor gets while all is well.
const reanchor = time.Second

// NewSteady watches a source.
func NewSteady(src Source) *Steady {
	s := &Steady{src: src}
	s.at, _ = src.(timed)
	return s
}

// Read implements Source.
func (s *Steady) Read() (base.Timestamp, time.Duration) { return s.ReadAt(time.Now()) }

// Raw is the inner source's word, whether it was set or not.
func (s *Steady) Raw() (base.Timestamp, time.Duration) { return s.raw(time.Now()) }

func (s *Steady) raw(t time.Time) (base.Timestamp, time.Duration) {
	if s.at != nil {
		return s.at.ReadAt(t)
	}
	return s.src.Read()
}

// ReadAt is Read at a moment that was just taken.
func (s *Steady) ReadAt(t time.Time) (base.Timestamp, time.Duration) {
	now, bound := s.raw(t)
	a := s.anchor.Load()
	if a == nil {
		s.anchor.CompareAndSwap(nil, &steadyAnchor{now, bound, t})
		return now, bound
	}
	age := t.Sub(a.at)
	if age < 0 { // somebody was faster
		return now, bound
	}
	dev := now.Sub(a.ts.Add(age)).Abs()
	if dev <= bound+a.bound+time.Duration(2*drift*float64(age))+time.Microsecond {
		if age > reanchor {
			s.anchor.CompareAndSwap(a, &steadyAnchor{now, bound, t})
		}
		return now, bound
	}
	return now, bound + a.bound + dev + time.Duration(2*drift*float64(age))
}

// Stepped is how far the source was set; 0 if it was not.
func (s *Steady) Stepped() time.Duration {
	t := time.Now()
	_, wide := s.ReadAt(t)
	if _, raw := s.raw(t); wide > raw {
		return wide - raw
	}
	return 0
}

// Accept takes the source's present time for right.
func (s *Steady) Accept() {
	t := time.Now()
	now, bound := s.raw(t)
	s.anchor.Store(&steadyAnchor{now, bound, t})
}
