package geolm

import (
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/lab/sim"
	"github.com/godwitdb/godwit/policy/matrix"
)

// handover measures what a change of leader costs the clients of the database (the paper's table
// I): a planned one beside the loss of the leader, in the same cluster of three regions 80 to 140
// ms apart, under the same load, in virtual time.
func (b *geolm) handover() error {
	const ms = time.Millisecond
	delay := [][]time.Duration{{0, 40 * ms, 70 * ms}, {40 * ms, 0, 60 * ms}, {70 * ms, 60 * ms, 0}}
	var planned, lost sim.HandoverCost
	for _, x := range []struct {
		lost bool
		cost *sim.HandoverCost
	}{{false, &planned}, {true, &lost}} {
		err := rig.Virtual(func() (err error) {
			*x.cost, err = sim.MeasureHandover(delay, x.lost)
			return err
		})
		if err != nil {
			return err
		}
	}
	millis := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	rtt := 2 * delay[0][1]
	paper := rig.Float(154.0 / ((384.0 + 534.0) / 2))
	line := func(metric, unit string, value, base float64, paper *float64) rig.Line {
		return rig.Line{Figure: "table1", Series: "planned", X: "80 ms round trip", Metric: metric, Unit: unit,
			Value: value, Baseline: rig.Float(base), Paper: paper, Better: rig.Lower}
	}
	alone := func(metric, unit string, value float64) rig.Line {
		return rig.Line{Figure: "table1", Series: "planned", X: "80 ms round trip", Metric: metric, Unit: unit,
			Value: value, Better: rig.Lower}
	}
	return b.emit(
		line("until another node leads", "ms", millis(planned.Elected), millis(lost.Elected), nil),
		line("pause of reads", "ms", millis(planned.Reads), millis(lost.Reads), paper),
		line("pause of commits", "ms", millis(planned.Commits), millis(lost.Commits), nil),
		alone("pause of reads in round trips", "RTT", float64(planned.Reads)/float64(rtt)),
		alone("pause of commits in round trips", "RTT", float64(planned.Commits)/float64(rtt)),
		line("failed requests", "requests", float64(planned.Failed), max(float64(lost.Failed), 1), nil),
		alone("requests passed on", "requests", float64(planned.Passed)),
	)
}

// measurement counts the messages by which nodes measure what leaders are chosen by: in the
// database, ten regions, one node each, no load.
func (b *geolm) measurement() error {
	points, err := matrix.Seattle()
	if err != nil {
		return err
	}
	var c sim.MeasurementCost
	if err := rig.Virtual(func() (err error) {
		c, err = sim.MeasureMeasurement(points[0].OneWays())
		return err
	}); err != nil {
		return err
	}
	line := func(metric, unit string, value float64) rig.Line {
		return rig.Line{Figure: "measurement", Series: "a node", X: "ten regions", Metric: metric, Unit: unit,
			Value: value, Better: rig.Lower}
	}
	return b.emit(
		line("heartbeats sent", "messages/s", c.Heartbeats),
		line("bytes of heartbeats", "B/s", c.HeartbeatBytes),
		line("of these for round trips", "B/s", c.ProbeBytes),
	)
}
