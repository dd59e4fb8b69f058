package clock

import (
	"time"

	"github.com/godwitdb/godwit/base"
)

// Sample is one answer of a time server: what it said, and when the question left and the answer
// came by this process's monotonic clock.
type Sample struct {
	Now           base.Timestamp
	Bound         time.Duration
	Sent, Arrived time.Time
}

// Silent is in the name of a source that has given no time for a while; its bound grows with the
// drift of this process's clock.
const Silent = "silent for "

// At is the time and its bound at t: the server read its clock some time between Sent and Arrived,
// and since then this process's clock has run by it with its drift.
func (s *Sample) At(t time.Time) (base.Timestamp, time.Duration) {
	half := s.Arrived.Sub(s.Sent) / 2
	age := t.Sub(s.Sent)
	return s.Now.Add(half + t.Sub(s.Arrived)), s.Bound + half + time.Duration(drift*float64(max(age, 0))) + 1
}

// Better reports whether s bounds the time at t more tightly than o.
func (s *Sample) Better(o *Sample, t time.Time) bool {
	_, a := s.At(t)
	_, b := o.At(t)
	return a <= b
}
