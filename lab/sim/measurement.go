package sim

import (
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// MeasurementCost is the traffic a second by which each node of an idle cluster measures what
// leaders are chosen by. Requests are counted where they arrive, and cost no message.
type MeasurementCost struct {
	// Heartbeats and HeartbeatBytes are the heartbeats, with their frames' headers, which carry the
	// probes and much else.
	Heartbeats, HeartbeatBytes float64
	// ProbeBytes is the part of these bytes that measures round trips and reports them to other
	// nodes.
	ProbeBytes float64
}

const frameHeader = 24

// MeasureMeasurement counts the heartbeats of a cluster with one node a region, one shard, and the
// given delays. It must be called in a testing/synctest bubble.
func MeasureMeasurement(delay [][]time.Duration) (c MeasurementCost, err error) {
	w := newWorld(Config{Seed: 1, Regions: len(delay), NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
		ClockBound: 100 * time.Microsecond, Delay: delay, GCAge: time.Hour, Stay: true})
	for _, h := range w.hosts {
		h.boot()
	}
	time.Sleep(30 * time.Second)
	const length = 20 * time.Second
	var mu sync.Mutex
	spy := func(_, _ base.NodeID, kind wire.Kind, body []byte) bool {
		var m wire.Heartbeat
		if kind != wire.KindHeartbeat {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if e := m.UnmarshalVT(body); e != nil {
			w.fail("a heartbeat cannot be read: %w", e)
			return false
		}
		c.Heartbeats++
		c.HeartbeatBytes += float64(frameHeader + len(body))
		m.SentNs, m.EchoNs, m.EchoDelayNs, m.RttNodes, m.RttUs, m.Row = 0, 0, 0, nil, nil, false
		c.ProbeBytes += float64(len(body) - m.SizeVT())
		return false
	}
	w.spy.Store(&spy)
	time.Sleep(length)
	w.spy.Store(nil)
	mu.Lock()
	n := float64(len(w.hosts)) * length.Seconds()
	c.Heartbeats, c.HeartbeatBytes, c.ProbeBytes = c.Heartbeats/n, c.HeartbeatBytes/n, c.ProbeBytes/n
	mu.Unlock()
	err = w.err()
	w.close()
	return c, err
}
