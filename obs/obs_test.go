package obs

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var h Histogram
	vals := make([]time.Duration, 10000)
	for i := range vals {
		vals[i] = time.Duration(r.ExpFloat64() * float64(3*time.Millisecond))
		h.Observe(vals[i])
	}
	slices.Sort(vals)
	s := h.Snapshot()
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := vals[max(int(q*10000+0.5)-1, 0)]
		if got := s.Quantile(q); got < exact || float64(got) > float64(exact)*(1+1.0/sub)+1 {
			t.Errorf("q%v is %v, exactly %v", q, got, exact)
		}
	}
	if s.Count() != 10000 || s.Sub(s).Count() != 0 || new(Snapshot).Quantile(0.5) != 0 {
		t.Error("counts")
	}
}

func TestHistogramBucketsAreOrderedAndTotal(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, 15, 16, 17, 31, 32, 1000, time.Hour, 1 << 62} {
		b := bucketOf(d)
		if b < 0 || b >= histLen || (d >= 0 && d <= histTopDur && (upper(b) < d || (b > 0 && upper(b-1) >= d))) {
			t.Errorf("%d falls into bucket %d with upper bound %d", d, b, upper(b))
		}
	}
}

func TestTraceParallelTakesTheLongest(t *testing.T) {
	tr := new(Trace)
	tr.AddHops(2)
	br := tr.Parallel(3)
	br[0].AddHops(2)
	br[1].AddHops(4)
	br[2].AddBytes(1, 100)
	tr.Join(br)
	if tr.Hops() != 6 || tr.RTTs() != 3 || tr.Bytes() != 100 || tr.Messages() != 1 {
		t.Errorf("hops %d bytes %d", tr.Hops(), tr.Bytes())
	}
	var none *Trace
	none.AddHops(1)
	none.Join(none.Parallel(2))
	if none.Hops() != 0 || TraceOf(WithTrace(t.Context(), tr)) != tr || TraceOf(t.Context()) != nil {
		t.Error("nil trace")
	}
}
