package digest

import (
	"math"
	"math/bits"
	"time"
)

// Quantiles are within a 16th of the true ones. Most digests use a few powers of two, so counts are
// kept for those only.
const (
	subBits = 4
	sub     = 1 << subBits
	powers  = 64 - subBits
)

// histogram counts durations by powers of two of nanoseconds, each in 16 parts. The caller locks.
type histogram struct {
	counts [powers]*[sub]uint32
	n      uint64
}

func (h *histogram) observe(d time.Duration) {
	v := uint64(max(d, 0))
	p := 0
	if v >= sub {
		p = bits.Len64(v) - subBits
		v >>= p - 1
		v -= sub
	}
	c := h.counts[p]
	if c == nil {
		c = new([sub]uint32)
		h.counts[p] = c
	}
	if c[v] == math.MaxUint32 {
		h.halve()
	}
	c[v]++
	h.n++
}

// halve makes room: the shares of the counts stay.
func (h *histogram) halve() {
	h.n = 0
	for _, c := range h.counts {
		if c == nil {
			continue
		}
		for i := range c {
			c[i] /= 2
			h.n += uint64(c[i])
		}
	}
}

// quantile is the least bound that the share q of the durations does not exceed; 0 if there are
// none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.n)))
	seen := uint64(0)
	for p, c := range h.counts {
		if c == nil {
			continue
		}
		for i, n := range c {
			if seen += uint64(n); n > 0 && seen >= rank {
				return upper(p, i)
			}
		}
	}
	return 0
}

// upper is the longest duration of a bucket.
func upper(p, i int) time.Duration {
	if p == 0 {
		return time.Duration(i)
	}
	return time.Duration((uint64(i+sub+1) << (p - 1)) - 1)
}

// buckets are those that are not empty.
func (h *histogram) buckets() (out []Bucket) {
	for p, c := range h.counts {
		if c == nil {
			continue
		}
		for i, n := range c {
			if n == 0 {
				continue
			}
			b := Bucket{High: upper(p, i), Count: uint64(n)}
			switch {
			case i > 0:
				b.Low = upper(p, i-1)
			case p > 0:
				b.Low = upper(p-1, sub-1)
			}
			out = append(out, b)
		}
	}
	return out
}
