package kv

import "math"

// Volume is how much a transaction writes.
type Volume struct {
	Bytes  int // of keys and values, and some for each write
	Writes int // rows and entries of indexes
}

// Measured is a transaction that says how much it has written. A Txn that is none has bounds that
// only its errors tell.
type Measured interface {
	// Written is what the transaction has written, and the most that it may write.
	Written() (now, most Volume)
	// Stretch lets the transaction write an eighth more than the most, or no longer. Its caller
	// looks between writes whether there is more than the most, and then commits, or takes
	// something back. So it need not foresee how much the next step is going to write.
	Stretch(on bool)
}

// Holder is a transaction that says what it holds in memory until it ends. A Txn that is none holds
// little, or nobody knows.
type Holder interface {
	// Held is what the transaction holds, in bytes.
	Held() int64
	// Spill moves what may lie in files there.
	Spill() error
}

// Stretched is how much a transaction may write that may write an eighth more.
func (v Volume) Stretched() Volume {
	if v == Unbounded {
		return v
	}
	return Volume{v.Bytes + v.Bytes/8, v.Writes + v.Writes/8}
}

// Over reports whether it is more than most.
func (v Volume) Over(most Volume) bool { return v.Bytes > most.Bytes || v.Writes > most.Writes }

// Unbounded is the most of a transaction without bounds.
var Unbounded = Volume{math.MaxInt, math.MaxInt}
