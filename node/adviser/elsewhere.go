package adviser

import (
	"math"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/advice"
	"github.com/godwitdb/godwit/sql/server"
	"github.com/godwitdb/godwit/sql/virtual"
)

// ElsewhereTopic is what the database godwit shows of what statements would cost in other regions.
var ElsewhereTopic = server.Topic{Name: "elsewhere",
	Comment: "what statements would cost if clients in another region executed them, on the same rows, while these stay where they are",
	Columns: slices.Concat(
		columns(server.TopicText, "schema_name", "digest", "digest_text", "region"), columns(server.TopicInt, "statements"),
		columns(server.TopicFloat, "p50_ms", "p99_ms", "avg_ms", "wan_round_trips", "wan_bytes"),
		columns(server.TopicText, "other_region"),
		columns(server.TopicFloat, "p50_ms_there", "p99_ms_there", "avg_ms_there", "wan_round_trips_there", "wan_bytes_there"),
		columns(server.TopicText, "why_not"))}

var columns = virtual.TopicColumns

// Elsewhere are the rows of that table. leader is the node that leads a group; 0: none is known.
func Elsewhere(f *advice.Facts, t *base.Topology, leader func(base.GroupID) base.NodeID) (rows [][]any) {
	round := func(x float64) float64 { return math.Round(x*100) / 100 }
	for _, e := range f.Elsewhere(ledIn(t, 1, t.Shards, leader), ledIn(t, t.Shards+1, t.AllShards(), leader)) {
		u := &e.Use
		row := []any{orNull(u.Schema), u.Hash, u.Digest, f.Regions[u.Region], u.Count, round(u.P50), round(u.P99), round(u.Mean),
			round(u.Trips), round(u.Bytes), f.Regions[e.Region]}
		if e.Unknown != "" {
			rows = append(rows, append(row, nil, nil, nil, nil, nil, e.Unknown))
			continue
		}
		rows = append(rows, append(row, round(e.P50), round(e.P99), round(e.Mean), round(e.Trips), round(e.Bytes), nil))
	}
	return rows
}

// orNull is a text, or NULL for an empty one.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// ledIn is where the groups of some shards are led.
func ledIn(t *base.Topology, first, last int, leader func(base.GroupID) base.NodeID) advice.Led {
	var groups []base.GroupID
	for _, home := range t.Regions {
		for s := first; s <= last; s++ {
			groups = append(groups, base.DataGroup(base.ShardID(s), home.ID))
		}
	}
	return led(t, groups, func(i int) base.NodeID { return leader(groups[i]) })
}
