package workload

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations in log-linear buckets, as HdrHistogram does: exact below 128 us,
// above that 64 buckets for each doubling, so a percentile is at most 1/64 too high. Counters are
// atomic: clients record while the reporter reads; a reader may miss the latest records but never
// sees one twice.
type histogram struct {
	buckets [histogramBuckets]atomic.Uint64
	sum     atomic.Uint64 // microseconds
	max     atomic.Uint64 // microseconds
}

const (
	histogramMaxShift = 29 // the last bucket ends above 19 hours
	histogramBuckets  = 64*histogramMaxShift + 128
)

func bucketOf(us uint64) int {
	if us < 128 {
		return int(us)
	}
	shift := bits.Len64(us) - 7
	if shift > histogramMaxShift {
		return histogramBuckets - 1
	}
	return 64*shift + int(us>>shift)
}

// bucketTop is the largest value of a bucket, in microseconds.
func bucketTop(i int) uint64 {
	if i < 128 {
		return uint64(i)
	}
	shift := i/64 - 1
	return (uint64(i-64*shift)+1)<<shift - 1
}

func (h *histogram) record(d time.Duration) {
	us := uint64(max(d.Microseconds(), 0))
	h.buckets[bucketOf(us)].Add(1)
	h.sum.Add(us)
	for {
		m := h.max.Load()
		if us <= m || h.max.CompareAndSwap(m, us) {
			return
		}
	}
}

// distribution is a histogram at rest: a copy, a difference of copies or a sum.
type distribution struct {
	counts [histogramBuckets]uint64
	n, sum uint64
	max    uint64
}

// read copies the histogram.
func (h *histogram) read() *distribution {
	d := &distribution{sum: h.sum.Load(), max: h.max.Load()}
	for i := range h.buckets {
		c := h.buckets[i].Load()
		d.counts[i] = c
		d.n += c
	}
	return d
}

func (d *distribution) add(o *distribution) {
	for i, c := range o.counts {
		d.counts[i] += c
	}
	d.n += o.n
	d.sum += o.sum
	d.max = max(d.max, o.max)
}

// since subtracts an earlier copy. The maximum of the difference is known only to its bucket.
func (d *distribution) since(o *distribution) *distribution {
	r := &distribution{n: d.n - o.n, sum: d.sum - o.sum}
	for i, c := range d.counts {
		r.counts[i] = c - o.counts[i]
		if r.counts[i] > 0 {
			r.max = min(bucketTop(i), d.max)
		}
	}
	return r
}

// percentile returns the value below or at which p percent of the records lie; 0 when there is
// none.
func (d *distribution) percentile(p float64) time.Duration {
	if d.n == 0 {
		return 0
	}
	want := uint64(float64(d.n)*p/100 + 0.5)
	want = min(max(want, 1), d.n)
	var seen uint64
	for i, c := range d.counts {
		if seen += c; seen >= want {
			return time.Duration(min(bucketTop(i), d.max)) * time.Microsecond
		}
	}
	return time.Duration(d.max) * time.Microsecond
}

func (d *distribution) mean() time.Duration {
	if d.n == 0 {
		return 0
	}
	return time.Duration(d.sum/d.n) * time.Microsecond
}
