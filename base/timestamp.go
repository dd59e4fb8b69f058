package base

import (
	"fmt"
	"time"
)

// Timestamp is nanoseconds since the Unix epoch. Two events never share one
// within a group; a tie is broken by adding 1, so the low bits act as the
// logical part of a hybrid logical clock. 0 is no timestamp.
type Timestamp uint64

// MaxTimestamp is above every timestamp ever issued.
const MaxTimestamp Timestamp = 1<<63 - 1

// Next is the smallest timestamp above t.
func (t Timestamp) Next() Timestamp { return t + 1 }

// Prev is the largest timestamp below t; 0 stays 0.
func (t Timestamp) Prev() Timestamp {
	if t == 0 {
		return 0
	}
	return t - 1
}

// Add moves t by d, which may be negative; it never wraps below zero.
func (t Timestamp) Add(d time.Duration) Timestamp {
	if d < 0 && uint64(-d) > uint64(t) {
		return 0
	}
	return Timestamp(int64(t) + int64(d))
}

// Sub is the duration from o to t.
func (t Timestamp) Sub(o Timestamp) time.Duration { return time.Duration(int64(t) - int64(o)) }

// Time is the wall-clock reading of t.
func (t Timestamp) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

// FromTime is the timestamp of a wall-clock reading.
func FromTime(t time.Time) Timestamp { return Timestamp(t.UnixNano()) }

// String shows seconds since 1970 with nine decimals; "0" for the zero timestamp.
func (t Timestamp) String() string {
	if t == 0 {
		return "0"
	}
	return fmt.Sprintf("%d.%09d", uint64(t)/1e9, uint64(t)%1e9)
}
