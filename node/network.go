package node

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/node/moments"
	"github.com/godwitdb/godwit/sql/server"
)

// networkParams are the settings of how consensus messages travel between regions.
type networkParams struct {
	Relay    bool    `json:"relay"`
	FanOut   bool    `json:"fan_out"`
	MinGain  float64 `json:"relay_min_gain_ms"`
	MinShare float64 `json:"relay_min_gain_share"`
	Window   float64 `json:"relay_window_ms"`
	Above    int     `json:"coordinates_above"`
	Detour   bool    `json:"detour"`
}

// networkDefaults follow from docs/figures/geococo.md. docs/design.md says why relays are off.
var networkDefaults = networkParams{FanOut: true, Detour: true, MinGain: 2, MinShare: 0.05, Window: 3000,
	Above: cluster.DefaultCoordinatesAbove}

func (p networkParams) overlay() overlay.Params {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return overlay.Params{Relay: p.Relay, FanOut: p.FanOut, MinGain: ms(p.MinGain), MinShare: p.MinShare,
		Window: ms(p.Window), Direct: !p.Detour}
}

func (n *Node) networkSettings() knobs.Group {
	read := func(data []byte) (p networkParams, err error) {
		if err = json.Unmarshal(data, &p); err == nil &&
			(p.MinGain < 0.1 || p.MinShare < 0.01 || p.MinShare > 1 || p.Window < 250) {
			err = base.Errorf(base.CodeInvalid, "network.relay_*: min_gain_ms is at least 0.1, "+
				"min_gain_share from 0.01 to 1, window_ms at least 250")
		}
		if err == nil && p.Above < 0 {
			err = base.Errorf(base.CodeInvalid, "network.coordinates_above is a number of peers, or 0 for never")
		}
		return p, err
	}
	return knobs.Of("network.", networkDefaults, map[string]string{
		"relay": "consensus messages go over another node where that is faster: " +
			"a triangle violation that probes confirm",
		"fan_out":              "what several nodes of a region append to a group's log is sent to that region once",
		"relay_min_gain_ms":    "least time that a relay must save, one way",
		"relay_min_gain_share": "least share of the direct path's time that it must save",
		"relay_window_ms":      "how long it must have saved that before it is used",
		"detour":               "while the direct path to a node is cut, messages go over nodes that both ends hear",
		"coordinates_above": "above so many peers a node does not measure all round trips, " +
			"but has a network coordinate and samples them; 0: never",
	}, read, func(p networkParams) error {
		if !n.networkGiven {
			n.over.SetParams(p.overlay())
		}
		n.cluster.SetCoordinates(p.Above)
		return nil
	})
}

// liveNodes lists the nodes whose heartbeats have arrived lately.
func (d *directory) liveNodes() (out []base.NodeID) {
	if d.Cluster == nil {
		return nil
	}
	for _, x := range d.Topology().Nodes {
		if !x.Gone && d.Live(x.ID) {
			out = append(out, x.ID)
		}
	}
	return out
}

// members lists the nodes of the topology.
func (d *directory) members() (out []base.NodeID) {
	if d.Cluster == nil {
		return nil
	}
	for _, x := range d.Topology().Nodes {
		if !x.Gone {
			out = append(out, x.ID)
		}
	}
	return out
}

// between is the round trip between two nodes; negative if it is not known.
func (d *directory) between(a, b base.NodeID) time.Duration {
	if d.Cluster == nil {
		return -1
	}
	return d.Between(a, b)
}

// mayPass reports whether what two nodes send each other may go over a third one (PLACE-3).
func (d *directory) mayPass(from, to, over base.NodeID) bool {
	return d.Cluster != nil && d.Topology().MayPass(from, to, over)
}

var networkTopics = []server.Topic{
	{Name: "links", Comment: "traffic of this node with the others, and how its consensus messages reach them",
		Columns: slices.Concat(
			columns(server.TopicInt, "peer"), columns(server.TopicText, "region"), columns(server.TopicBool, "connected"),
			columns(server.TopicFloat, "rtt_ms"), columns(server.TopicBool, "rtt_estimated"),
			columns(server.TopicInt, "sent_messages", "writes", "sent_bytes", "wire_bytes", "received_messages",
				"received_bytes", "relay"), columns(server.TopicFloat, "relay_gain_ms"),
			columns(server.TopicInt, "relayed_messages", "relayed_bytes", "fan_out_proxy", "shared_messages", "saved_bytes",
				"fallbacks", "resent_messages", "resent_bytes", "passed_messages", "passed_bytes"),
			columns(server.TopicText, "detour"), columns(server.TopicInt, "detours", "detour_messages", "detour_bytes",
				"packets", "resent_packets"), columns(server.TopicFloat, "loss"), columns(server.TopicInt, "lost_messages"))},
	{Name: "round_trips", Comment: "round trips between regions, as far as this node knows them: " +
		"the least between a node of one and a node of the other", Columns: slices.Concat(
		columns(server.TopicText, "from_region", "to_region"), columns(server.TopicFloat, "rtt_ms"))},
}

// askShare asks a node for its part of what regions have sent each other.
const askShare = "share"

func (n *Node) share() moments.Share {
	own := n.db.Region()
	s := moments.Share{Node: n.ID(), Region: own, Links: moments.Links(own, n.trans.Stats())}
	if srv, err := n.server(); err == nil {
		s.Answers = srv.Statements().Answers.All()
	}
	return s
}

func (n *Node) shares(ctx context.Context) []moments.Share {
	return append(askAll[moments.Share](ctx, n, askShare), n.share())
}

// startMoments keeps moments until the node closes.
func (n *Node) startMoments() {
	n.untilClosed(func(ctx context.Context) {
		n.moments.Run(ctx, moments.Source{Self: n.ID(), Topology: n.cluster.Topology, Live: n.cluster.Live, Leader: n.cluster.Leader,
			Between: n.roundTripRows, Shares: n.shares, Ask: n.cluster.Ask})
	})
}

func (n *Node) momentRows(context.Context) [][]any { return moments.MomentRows(n.moments.All()) }

func (n *Node) regionLinkRows(ctx context.Context) [][]any {
	return moments.LinkRows(n.cluster.Topology(), n.shares(ctx))
}

func (n *Node) answerRows(ctx context.Context) [][]any {
	return moments.AnswerRows(n.cluster.Topology(), n.shares(ctx))
}

// roundTripRows are the pairs of regions between whose nodes a round trip is known.
func (n *Node) roundTripRows(context.Context) (rows [][]any) {
	t := n.cluster.Topology()
	for i, a := range t.Regions {
		for _, b := range t.Regions[i+1:] {
			if least := n.between(t, a.ID, b.ID); least > 0 {
				rows = append(rows, []any{a.Name, b.Name, millis(least)})
			}
		}
	}
	return rows
}

func (n *Node) linkRows(context.Context) (rows [][]any) {
	over := map[base.NodeID]overlay.Stats{}
	for _, s := range n.over.OverStats() {
		over[s.Peer] = s
	}
	id := func(n base.NodeID) any {
		if n == 0 {
			return nil
		}
		return n
	}
	t := n.cluster.Topology()
	for _, l := range n.trans.Stats() {
		o := over[l.Peer]
		var gain any
		if o.Via != 0 {
			gain = millis(o.Gain)
		}
		var rtt any
		d, estimated := n.cluster.Way(l.Peer)
		if d >= 0 {
			rtt = millis(d)
		}
		var packets, resent any
		if l.Packets > 0 {
			packets, resent = l.Packets, l.Resent
		}
		rows = append(rows, []any{l.Peer, orNull(t.RegionName(l.Region)), l.Connected, rtt, estimated, l.SentMsgs,
			l.Writes, l.StreamSent, l.WireSent, l.RecvMsgs, l.StreamRecv, id(o.Via), gain,
			o.RelayedMsgs, o.RelayedBytes, id(o.Proxy), o.SharedMsgs, o.SavedBytes, o.Fallbacks, o.ResentMsgs,
			o.ResentBytes, o.PassedMsgs, o.PassedBytes,
			orNull(overNodes(o.Detour)), o.Detours, o.DetourMsgs, o.DetourBytes, packets, resent, moments.Loss(l.Lately), l.Dropped})
	}
	return rows
}

// overNodes names the nodes of a detour, without its end.
func overNodes(path []base.NodeID) string {
	var out []string
	for i, id := range path {
		if i < len(path)-1 {
			out = append(out, strconv.Itoa(int(id)))
		}
	}
	return strings.Join(out, ", ")
}

// mapCollector shows the network map to Prometheus.
type mapCollector struct{ n *Node }

var (
	mapPeers = prometheus.NewDesc("godwit_map_peers",
		"Nodes heard of lately, by how the round trip to them is known.", []string{"by"}, nil)
	mapProbes  = prometheus.NewDesc("godwit_map_probes_total", "Heartbeats sent of which an echo was wanted.", nil, nil)
	mapSamples = prometheus.NewDesc("godwit_map_samples_total", "Round trips measured.", nil, nil)
	mapError   = prometheus.NewDesc("godwit_map_error",
		"Relative error of the newest estimates by coordinates that samples verified.", []string{"quantile"}, nil)
)

// Describe implements prometheus.Collector.
func (c mapCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{mapPeers, mapProbes, mapSamples, mapError} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c mapCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.n.cluster.Map()
	put := func(d *prometheus.Desc, typ prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, typ, v, labels...)
	}
	put(mapPeers, prometheus.GaugeValue, float64(s.Peers-s.Estimated), "samples")
	put(mapPeers, prometheus.GaugeValue, float64(s.Estimated), "coordinates")
	put(mapProbes, prometheus.CounterValue, float64(s.Probes))
	put(mapSamples, prometheus.CounterValue, float64(s.Samples))
	if s.Coordinates {
		put(mapError, prometheus.GaugeValue, s.Error, "0.5")
		put(mapError, prometheus.GaugeValue, s.Error95, "0.95")
	}
}
