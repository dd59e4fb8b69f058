package node

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/overlay"
	"github.com/godwitdb/godwit/sqlfront"
)

// networkParams are the settings of how consensus messages travel between regions.
type networkParams struct {
	Relay    bool    `json:"relay"`
	FanOut   bool    `json:"fan_out"`
	MinGain  float64 `json:"relay_min_gain_ms"`
	MinShare float64 `json:"relay_min_gain_share"`
	Window   float64 `json:"relay_window_ms"`
}

// networkDefaults are what docs/figures/geococo.md speaks for.
var networkDefaults = networkParams{MinGain: 2, MinShare: 0.05, Window: 3000}

func (p networkParams) overlay() overlay.Params {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return overlay.Params{Relay: p.Relay, FanOut: p.FanOut, MinGain: ms(p.MinGain), MinShare: p.MinShare, Window: ms(p.Window)}
}

func (n *Node) networkSettings() settingGroup {
	read := func(data []byte) (p networkParams, err error) {
		if err = json.Unmarshal(data, &p); err == nil && (p.MinGain < 0.1 || p.MinShare < 0.01 || p.MinShare > 1 || p.Window < 250) {
			err = base.Errorf(base.CodeInvalid, "network.relay_*: min_gain_ms is at least 0.1, min_gain_share from 0.01 to 1, window_ms at least 250")
		}
		return p, err
	}
	return settingsOf("network.", networkDefaults, map[string]string{
		"relay":                "consensus messages go over another node where that is faster: a triangle violation that probes confirm",
		"fan_out":              "what several nodes of a region append to a group's log is sent to that region once",
		"relay_min_gain_ms":    "least time that a relay must save, one way",
		"relay_min_gain_share": "least share of the direct path's time that it must save",
		"relay_window_ms":      "how long it must have saved that before it is used",
	}, read, func(p networkParams) error {
		n.over.SetParams(p.overlay())
		return nil
	})
}

// liveNodes are those that pulses have come from lately.
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

// between is the round trip between two nodes; negative if it is not known.
func (d *directory) between(a, b base.NodeID) time.Duration {
	if d.Cluster == nil {
		return -1
	}
	return d.Between(a, b)
}

var networkTopics = []sqlfront.Topic{
	{Name: "links", Comment: "traffic of this node with the others, and how its consensus messages reach them", Columns: slices.Concat(
		columns(sqlfront.TopicInt, "peer"), columns(sqlfront.TopicText, "region"), columns(sqlfront.TopicBool, "connected"),
		columns(sqlfront.TopicInt, "sent_messages", "sent_bytes", "wire_bytes", "received_messages", "received_bytes", "relay"), columns(sqlfront.TopicFloat, "relay_gain_ms"),
		columns(sqlfront.TopicInt, "relayed_messages", "relayed_bytes", "door", "shared_messages", "saved_bytes", "fallbacks", "resent_messages", "resent_bytes", "passed_messages", "passed_bytes"))},
}

func (n *Node) linkRows() (rows [][]any) {
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
		rows = append(rows, []any{l.Peer, orNull(t.RegionName(l.Region)), l.Connected, l.SentMsgs, l.StreamSent, l.WireSent, l.RecvMsgs, l.StreamRecv, id(o.Via), gain,
			o.RelayedMsgs, o.RelayedBytes, id(o.Door), o.SharedMsgs, o.SavedBytes, o.Fallbacks, o.ResentMsgs, o.ResentBytes, o.PassedMsgs, o.PassedBytes})
	}
	return rows
}
