package overlay

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
)

// Stats are the counters of what is sent to one node, and passed on for it, since the start. Bytes
// are of message bodies; what crosses links is in [wan.LinkStats], under the kinds of this package
// as well.
type Stats struct {
	Peer base.NodeID
	// Via is the relay over which messages go now, and Gain how much earlier probes arrive that
	// way; 0 if they go directly. Proxy is over whom the peer gets what is sent to its region once.
	Via, Proxy base.NodeID
	Gain       time.Duration
	// RelayedMsgs were sent over relays.
	RelayedMsgs, RelayedBytes uint64
	// SharedMsgs were parts of messages to the peer's region that another node there received;
	// SavedBytes are the bytes in them that did not cross for the peer because they crossed for
	// others.
	SharedMsgs, SavedBytes uint64
	// ResentMsgs were not confirmed, and sent again on the direct path.
	ResentMsgs, ResentBytes uint64
	// Stints are how often messages began to go over another node, Fallbacks how often that failed.
	Stints, Fallbacks uint64
	// PassedMsgs came from the peer, and were passed on to others.
	PassedMsgs, PassedBytes uint64
	// Refused came from the peer and had been passed on before.
	Refused uint64
	// Detour is the nodes over which the peer is reached, the peer last, while the direct path is
	// cut; nil if it is not. Detours were made, with so many messages and requests.
	Detour                           []base.NodeID
	Detours, DetourMsgs, DetourBytes uint64
	// Dropped came from the peer on a path that it had left.
	Dropped uint64
	// Received counts what came from the peer over others.
	Received Received
}

// OverStats are the counters by node.
func (o *Overlay) OverStats() []Stats {
	var out []Stats
	for _, p := range o.allPeers() {
		p.mu.Lock()
		s := p.stats
		s.Peer, s.Via, s.Proxy = p.id, p.ways[laneRelay].via, p.ways[laneFan].via
		if s.Via != 0 {
			s.Gain = p.route.gain
		}
		p.mu.Unlock()
		if d := p.out.now.Load(); d != nil {
			s.Detour = d.path
		}
		p.out.mu.Lock()
		s.Detours, s.DetourMsgs, s.DetourBytes = p.out.detours, p.out.msgs, p.out.bytes
		p.out.mu.Unlock()
		r := o.sender(p.id)
		s.Dropped = r.in.dropped.Load()
		r.mu.Lock()
		s.Received = r.stats
		r.mu.Unlock()
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Stats) int { return int(a.Peer) - int(b.Peer) })
	return out
}

// Collector exposes the counters to Prometheus; constant labels tell several nodes of one process
// apart.
func (o *Overlay) Collector(constant prometheus.Labels) prometheus.Collector {
	c := &collector{o: o}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("godwit_overlay_"+name, help, []string{"peer"}, constant)
	}
	c.counters = []counter{
		{desc("relayed_messages_total", "Consensus messages sent to a peer over relays."),
			func(s *Stats) uint64 { return s.RelayedMsgs }},
		{desc("relayed_bytes_total", "Bytes of consensus messages sent to a peer over relays."),
			func(s *Stats) uint64 { return s.RelayedBytes }},
		{desc("shared_messages_total", "Batches that a peer got through another node of its region."),
			func(s *Stats) uint64 { return s.SharedMsgs }},
		{desc("saved_bytes_total", "Bytes that did not cross between regions for a peer because they crossed "+
			"for others."), func(s *Stats) uint64 { return s.SavedBytes }},
		{desc("resent_messages_total", "Messages sent again directly because they were not confirmed."),
			func(s *Stats) uint64 { return s.ResentMsgs }},
		{desc("resent_bytes_total", "Bytes sent again directly because they were not confirmed."),
			func(s *Stats) uint64 { return s.ResentBytes }},
		{desc("stints_total", "Times that messages to a peer began to go over another node."),
			func(s *Stats) uint64 { return s.Stints }},
		{desc("fallbacks_total", "Times that another node on the way to a peer failed."),
			func(s *Stats) uint64 { return s.Fallbacks }},
		{desc("passed_messages_total", "Messages of a peer that were passed on to others."),
			func(s *Stats) uint64 { return s.PassedMsgs }},
		{desc("passed_bytes_total", "Bytes of a peer that were passed on to others."),
			func(s *Stats) uint64 { return s.PassedBytes }},
		{desc("refused_messages_total", "Messages from a peer that had been passed on before."),
			func(s *Stats) uint64 { return s.Refused }},
		{desc("detours_total", "Detours made to a peer because its direct path was cut."),
			func(s *Stats) uint64 { return s.Detours }},
		{desc("detour_messages_total", "Messages and requests sent to a peer on detours."),
			func(s *Stats) uint64 { return s.DetourMsgs }},
		{desc("detour_bytes_total", "Bytes of messages and requests sent to a peer on detours."),
			func(s *Stats) uint64 { return s.DetourBytes }},
		{desc("dropped_messages_total", "Messages of a peer that came on a path that it had left, and were dropped."),
			func(s *Stats) uint64 { return s.Dropped }},
		{desc("received_messages_total", "Messages of a peer that came over others."),
			func(s *Stats) uint64 { return s.Received.Msgs }},
		{desc("late_messages_total", "Messages of a peer that came over others, too late or twice, and were dropped."),
			func(s *Stats) uint64 { return s.Received.Late }},
	}
	c.gain = prometheus.NewDesc("godwit_overlay_gain_seconds",
		"How much earlier messages to a peer arrive over the relay in use.", []string{"peer", "via"}, constant)
	return c
}

type counter struct {
	desc *prometheus.Desc
	of   func(*Stats) uint64
}

type collector struct {
	o        *Overlay
	counters []counter
	gain     *prometheus.Desc
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range c.counters {
		ch <- x.desc
	}
	ch <- c.gain
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.o.OverStats() {
		peer := strconv.Itoa(int(s.Peer))
		for _, x := range c.counters {
			ch <- prometheus.MustNewConstMetric(x.desc, prometheus.CounterValue, float64(x.of(&s)), peer)
		}
		if s.Via != 0 {
			ch <- prometheus.MustNewConstMetric(c.gain, prometheus.GaugeValue, s.Gain.Seconds(), peer, strconv.Itoa(int(s.Via)))
		}
	}
}
