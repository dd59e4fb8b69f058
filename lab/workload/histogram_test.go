package workload

import (
	"slices"
	"testing"
	"time"
)

func TestHistogramBuckets(t *testing.T) {
	last := -1
	for _, us := range []uint64{0, 1, 127, 128, 129, 255, 256, 1000, 65_535, 65_536, 1e6, 1e9, 1e12, 1 << 63} {
		b := bucketOf(us)
		if b < last || b >= histogramBuckets {
			t.Errorf("bucket of %d us is %d after %d", us, b, last)
		}
		last = b
		top := bucketTop(b)
		if b < histogramBuckets-1 && (top < us || top > us+us/64) {
			t.Errorf("top of the bucket of %d us is %d", us, top)
		}
	}
	for i := range histogramBuckets - 1 {
		if bucketOf(bucketTop(i)) != i || bucketOf(bucketTop(i)+1) != i+1 {
			t.Fatalf("bucket %d does not end at %d", i, bucketTop(i))
		}
	}
}

// TestHistogramMatchesSorting compares percentiles with those of the sorted records.
func TestHistogramMatchesSorting(t *testing.T) {
	rng := newRand(1)
	var h histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(rng.ExpFloat64() * float64(5*time.Millisecond)).Truncate(time.Microsecond)
		h.record(d)
		all = append(all, d)
	}
	slices.Sort(all)
	d := h.read()
	for _, p := range []float64{0, 1, 50, 90, 99, 99.9, 100} {
		want := all[min(max(int(float64(len(all))*p/100+0.5), 1), len(all))-1]
		got := d.percentile(p)
		if got < want || got > want+want/64+time.Microsecond {
			t.Errorf("p%v is %v, want %v", p, got, want)
		}
	}
	if d.percentile(100) != all[len(all)-1] {
		t.Errorf("the maximum is %v, want %v", d.percentile(100), all[len(all)-1])
	}

	before := h.read()
	h.record(time.Second)
	h.record(time.Second)
	diff := h.read().since(before)
	if diff.n != 2 || diff.percentile(50) != time.Second || diff.mean() != time.Second {
		t.Errorf("difference has %d records, median %v, mean %v", diff.n, diff.percentile(50), diff.mean())
	}
	var empty distribution
	if empty.percentile(99) != 0 || empty.mean() != 0 {
		t.Error("an empty distribution has values")
	}
	sum := &distribution{}
	sum.add(before)
	sum.add(diff)
	if sum.n != 20_002 || sum.percentile(100) != time.Second {
		t.Errorf("sum has %d records, maximum %v", sum.n, sum.percentile(100))
	}
}
