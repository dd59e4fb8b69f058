package gaussdb

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/cluster"
)

// Staleness is the age of the snapshots that one node used for reads at its region's consistency
// point.
type Staleness struct {
	Reads       int
	Failed      int // found no consistency point in time
	Median, P99 time.Duration
	// OneWay is half the longest round trip of the node: no closed timestamp arrives faster. The
	// goal is stated in multiples of it: at most 1.0, plus one heartbeat.
	OneWay time.Duration
}

// MeasureStaleness reads the consistency point at a node every few milliseconds until ctx ends or d
// has passed, as bounded-stale reads do. It first reads for a second, so that the leaders notice
// the reader.
func MeasureStaleness(ctx context.Context, c *cluster.Cluster, d time.Duration) Staleness {
	var s Staleness
	var ages []time.Duration
	began := time.Now()
	for n := 0; time.Since(began) < d+time.Second && ctx.Err() == nil; n++ {
		at, ok := c.ReadPoint(ctx, 0, time.Second)
		switch {
		case time.Since(began) < time.Second:
		case ok:
			ages = append(ages, time.Since(at.Time()))
		default:
			s.Failed++
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(3+n%5) * time.Millisecond): // out of step with the heartbeats
		}
	}
	slices.Sort(ages)
	if s.Reads = len(ages); s.Reads > 0 {
		s.Median, s.P99 = ages[len(ages)/2], ages[len(ages)*99/100]
	}
	s.OneWay = c.Farthest() / 2
	return s
}
