package admit

import (
	"runtime/metrics"
	"time"
)

// schedulerDelay measures how long goroutines that could run have waited for a processor: the 99th
// percentile since the last call.
func schedulerDelay() func() time.Duration {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	var before []uint64
	return func() time.Duration {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
			return 0
		}
		h := sample[0].Value.Float64Histogram()
		counts := make([]uint64, len(h.Counts))
		var all uint64
		for i, n := range h.Counts {
			counts[i] = n
			if before != nil {
				counts[i] -= before[i]
			}
			all += counts[i]
		}
		before = append(before[:0], h.Counts...)
		return percentile(counts, h.Buckets, all)
	}
}

// percentile is the lower bound of the bucket in which the 99th percentile is.
func percentile(counts []uint64, bounds []float64, all uint64) time.Duration {
	var n uint64
	for i, c := range counts {
		if n += c; n*100 >= all*99 && c > 0 {
			return max(0, time.Duration(bounds[i]*float64(time.Second)))
		}
	}
	return 0
}
