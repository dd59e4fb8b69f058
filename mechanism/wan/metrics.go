package wan

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/wire"
)

// Collector exposes the counters of a transport to Prometheus; register it.
// constant labels (for instance node) tell several transports of one process apart.
func Collector(t Transport, constant prometheus.Labels) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("godwit_wan_"+name, help, labels, constant)
	}
	return &collector{
		t:     t,
		msgs:  desc("messages_total", "Messages exchanged with a peer.", "peer", "region", "kind", "direction"),
		bytes: desc("bytes_total", "Bytes of frames exchanged with a peer.", "peer", "region", "kind", "direction"),
		stream: desc("stream_bytes_total", "Bytes of frames that went into connections to a peer or came "+
			"out of them.", "peer", "region", "direction"),
		wire: desc("wire_bytes_total", "Bytes that crossed the network for them, compressed or not.", "peer",
			"region", "direction"),
		writes: desc("writes_total", "Writes to connections to a peer, each of one frame or several that "+
			"had gathered.", "peer", "region"),
		overloaded: desc("overloaded_total", "Messages refused because a queue was full.", "peer", "region"),
		dropped:    desc("dropped_total", "One-way messages lost.", "peer", "region"),
		connects:   desc("connects_total", "Streams opened to a peer.", "peer", "region"),
		connected:  desc("connected", "1 if a stream to the peer is open.", "peer", "region"),
		queueMsgs:  desc("queue_messages", "Messages waiting to be sent.", "peer", "region"),
		queueBytes: desc("queue_bytes", "Bytes waiting to be sent.", "peer", "region"),
		requests:   desc("requests", "Requests of a kind that are answered (running), or wait for that.", "kind", "state"),
		limit:      desc("requests_limit", "How many of each kind may run, or wait. More are refused.", "state"),
	}
}

type collector struct {
	t                                                                                                  Transport
	msgs, bytes, stream, wire, writes, overloaded, dropped, connects, connected, queueMsgs, queueBytes *prometheus.Desc
	requests, limit                                                                                    *prometheus.Desc
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.msgs, c.bytes, c.stream, c.wire, c.writes, c.overloaded, c.dropped,
		c.connects, c.connected, c.queueMsgs, c.queueBytes, c.requests, c.limit} {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	if b, ok := c.t.(interface{ base() *core }); ok {
		b.base().collect(c, ch)
	}
	for _, s := range c.t.Stats() {
		peer, region := strconv.Itoa(int(s.Peer)), strconv.Itoa(int(s.Region))
		put := func(d *prometheus.Desc, typ prometheus.ValueType, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, typ, v, append([]string{peer, region}, labels...)...)
		}
		for _, k := range s.Kinds {
			put(c.msgs, prometheus.CounterValue, float64(k.SentMsgs), k.Kind.String(), "sent")
			put(c.msgs, prometheus.CounterValue, float64(k.RecvMsgs), k.Kind.String(), "received")
			put(c.bytes, prometheus.CounterValue, float64(k.SentBytes), k.Kind.String(), "sent")
			put(c.bytes, prometheus.CounterValue, float64(k.RecvBytes), k.Kind.String(), "received")
		}
		put(c.stream, prometheus.CounterValue, float64(s.StreamSent), "sent")
		put(c.stream, prometheus.CounterValue, float64(s.StreamRecv), "received")
		put(c.wire, prometheus.CounterValue, float64(s.WireSent), "sent")
		put(c.wire, prometheus.CounterValue, float64(s.WireRecv), "received")
		put(c.writes, prometheus.CounterValue, float64(s.Writes))
		put(c.overloaded, prometheus.CounterValue, float64(s.Overloaded))
		put(c.dropped, prometheus.CounterValue, float64(s.Dropped))
		put(c.connects, prometheus.CounterValue, float64(s.Connects))
		up := 0.0
		if s.Connected {
			up = 1
		}
		put(c.connected, prometheus.GaugeValue, up)
		put(c.queueMsgs, prometheus.GaugeValue, float64(s.QueuedMsgs))
		put(c.queueBytes, prometheus.GaugeValue, float64(s.QueuedBytes))
	}
}

// collect shows the requests that the node answers.
func (c *core) collect(to *collector, ch chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	put(to.limit, c.lim.Handlers, "running")
	put(to.limit, c.lim.Waiting, "waiting")
	for k, p := range c.pools {
		if c.handlers[k] == nil {
			continue
		}
		running, waiting := p.load()
		put(to.requests, running, wire.Kind(k).String(), "running")
		put(to.requests, waiting, wire.Kind(k).String(), "waiting")
	}
}

func (c *core) base() *core { return c }
