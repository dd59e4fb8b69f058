package obs

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram of durations keeps 16 buckets per power of two of nanoseconds,
// hence percentiles within 1/16 of the true value, from 1 ns to about 5 hours.
const (
	subBits    = 4
	sub        = 1 << subBits
	histLen    = (44 - subBits + 1) * sub
	histTopDur = 1<<44 - 1
)

// Histogram counts durations; it is safe for concurrent use and never blocks.
type Histogram struct {
	buckets [histLen]atomic.Uint64
	sum     atomic.Int64
}

func bucketOf(d time.Duration) int {
	v := uint64(min(max(d, 0), histTopDur))
	if v < sub {
		return int(v)
	}
	exp := bits.Len64(v) - 1 - subBits
	return (exp+1)*sub + int(v>>exp) - sub
}

// upper is the largest duration of a bucket.
func upper(b int) time.Duration {
	if b < sub {
		return time.Duration(b)
	}
	exp := b/sub - 1
	return time.Duration((uint64(b%sub+sub)+1)<<exp - 1)
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	h.buckets[bucketOf(d)].Add(1)
	h.sum.Add(int64(d))
}

// Snapshot is a copy of a histogram's counts.
type Snapshot struct {
	Counts [histLen]uint64
	Sum    time.Duration
}

// Snapshot copies the counts; concurrent observations may be half in it.
func (h *Histogram) Snapshot() *Snapshot {
	s := &Snapshot{Sum: time.Duration(h.sum.Load())}
	for i := range h.buckets {
		s.Counts[i] = h.buckets[i].Load()
	}
	return s
}

// Sub is what was counted since an older snapshot; nil is the empty one.
func (s *Snapshot) Sub(old *Snapshot) *Snapshot {
	d := *s
	if old != nil {
		for i := range d.Counts {
			d.Counts[i] -= old.Counts[i]
		}
		d.Sum -= old.Sum
	}
	return &d
}

// Merge adds the counts of o to s.
func (s *Snapshot) Merge(o *Snapshot) {
	for i := range s.Counts {
		s.Counts[i] += o.Counts[i]
	}
	s.Sum += o.Sum
}

// Count is the number of durations.
func (s *Snapshot) Count() uint64 {
	n := uint64(0)
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// Quantile is the smallest bucket bound that at least the share q (0..1) of
// the durations do not exceed; 0 if there are none.
func (s *Snapshot) Quantile(q float64) time.Duration {
	n := s.Count()
	if n == 0 {
		return 0
	}
	rank := max(uint64(q*float64(n)+0.5), 1)
	seen := uint64(0)
	for b, c := range s.Counts {
		if seen += c; seen >= rank {
			return upper(b)
		}
	}
	return histTopDur
}

// Mean is the average duration; 0 if there are none.
func (s *Snapshot) Mean() time.Duration {
	if n := s.Count(); n > 0 {
		return s.Sum / time.Duration(n)
	}
	return 0
}
