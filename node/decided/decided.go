// Package decided shows what nodes have decided about themselves and about the rounds of epochs:
// which organ was judged sick or well, and how rounds travel. The nodes remember the newest of
// both; the caller asks them.
package decided

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/sql/server"
	"github.com/godwitdb/godwit/sql/virtual"
	"github.com/godwitdb/godwit/txn/multimaster"
)

// Topics are what the database godwit shows of these decisions.
var Topics = []server.Topic{
	{Name: "health_history", Comment: "newest verdicts of nodes on their organs: sick, recovering or well", Columns: slices.Concat(
		columns(server.TopicTime, "at"), columns(server.TopicInt, "node"),
		columns(server.TopicText, "region", "organ", "from_state", "to_state", "why"),
		columns(server.TopicBool, "leads_leave"), columns(server.TopicFloat, "patience_s"))},
	{Name: "plan_history", Comment: "newest plans of how the rounds of epochs travel", Columns: slices.Concat(
		columns(server.TopicTime, "at"), columns(server.TopicInt, "node", "view_number"),
		columns(server.TopicText, "from_plan", "to_plan", "why"),
		columns(server.TopicFloat, "planned_ms", "flat_ms"), columns(server.TopicInt, "wan_bytes", "messages"))},
}

var columns = virtual.TopicColumns

// Health are the rows of godwit.health_history, the newest first.
func Health(t *base.Topology, all []cluster.NodeHealth) (rows [][]any) {
	for _, h := range all {
		for _, c := range h.Changes {
			rows = append(rows, []any{c.At.UTC(), h.Node, t.RegionName(t.RegionOf(h.Node)), c.Organ, c.From, c.To, c.Why, c.Leaves,
				c.Patience.Seconds()})
		}
	}
	return newestFirst(rows)
}

// Plans are the rows of godwit.plan_history, the newest first.
func Plans(all map[base.NodeID]*multimaster.Status) (rows [][]any) {
	for node, s := range all {
		for _, r := range s.Replans {
			var from any
			why := fmt.Sprintf("a round is predicted to take %.1f ms by it", millis(r.Planned))
			if r.From != "" {
				from = r.From
			} else {
				why = "the first plan of this view: " + why
			}
			why += fmt.Sprintf(", and %.1f ms if all send to all; it sends %.0f bytes between regions, in %d messages", millis(r.Flat), r.Bytes, r.Messages)
			rows = append(rows, []any{r.At.UTC(), node, r.View, from, r.To, why, millis(r.Planned), millis(r.Flat), int64(r.Bytes), r.Messages})
		}
	}
	return newestFirst(rows)
}

func newestFirst(rows [][]any) [][]any {
	slices.SortStableFunc(rows, func(a, b []any) int {
		if d := b[0].(time.Time).Compare(a[0].(time.Time)); d != 0 {
			return d
		}
		return cmp.Compare(a[1].(base.NodeID), b[1].(base.NodeID))
	})
	return rows
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
