package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/placed"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node/adviser"
	"github.com/godwitdb/godwit/node/certs"
	"github.com/godwitdb/godwit/node/decided"
	"github.com/godwitdb/godwit/node/moments"
	"github.com/godwitdb/godwit/node/waits"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/sql/backup"
	"github.com/godwitdb/godwit/sql/server"
	"github.com/godwitdb/godwit/sql/virtual"
)

// maxShown bounds the rows of SHOW GODWIT LOCKS and TRANSACTIONS.
const maxShown = 10_000

// maxHeatShown bounds the rows of SHOW GODWIT HEAT.
const maxHeatShown = 200

// rowName names a row by its table and primary key, as far as this node can tell.
func (n *Node) rowName(k base.Key) string {
	if srv, err := n.server(); err == nil {
		return srv.RowName(k)
	}
	return k.String()
}

// tableName names the table of a row; empty if this node does not know it.
func (n *Node) tableName(k base.Key) any {
	if srv, err := n.server(); err == nil {
		if name := srv.TableName(k); name != "" {
			return name
		}
	}
	return nil
}

// show makes the rows of SHOW GODWIT and of the database godwit. It implements server.Cluster.
type show struct{ n *Node }

var columns = virtual.TopicColumns

// topics are the states and events of the cluster. The names of columns say whether durations are
// in milliseconds or seconds.
var topics = []server.Topic{
	{Name: "nodes", Comment: "nodes of the cluster", Columns: slices.Concat(
		columns(server.TopicInt, "node"), columns(server.TopicText, "region", "state", "address", "sql_address"),
		columns(server.TopicFloat, "rtt_ms"),
		columns(server.TopicInt, "leads", "replicas", "statements", "sessions", "disk_bytes", "mem_bytes"),
		columns(server.TopicFloat, "uptime_s"),
		columns(server.TopicText, "version"), columns(server.TopicInt, "sent_bytes", "wire_bytes"))},
	{Name: "groups", Comment: "consensus groups, as their leaders see them", Columns: slices.Concat(
		columns(server.TopicText, "name", "home"), columns(server.TopicInt, "leader"),
		columns(server.TopicText, "state"), columns(server.TopicInt, "term"),
		columns(server.TopicText, "voters", "learners"), columns(server.TopicInt, "committed"), columns(server.TopicText, "lag"),
		columns(server.TopicFloat, "closed_lag_ms", "lease_left_ms"),
		columns(server.TopicInt, "log_entries", "log_bytes", "locks", "prepared"))},
	server.JobTopic(),
	{Name: "clock", Comment: "clocks of the nodes: bounds, what the others say of them, the mode in force",
		Columns: slices.Concat(
			columns(server.TopicInt, "node"), columns(server.TopicText, "region", "mode"),
			columns(server.TopicInt, "epoch"), columns(server.TopicText, "source"),
			columns(server.TopicFloat, "bound_ms", "earliest_ms", "latest_ms"), columns(server.TopicText, "verdict"),
			columns(server.TopicFloat, "off_ms"),
			columns(server.TopicBool, "fenced"), columns(server.TopicFloat, "oracle_ahead_ms", "right_left_s"),
			columns(server.TopicText, "waits_for"))},
	{Name: "clock_history", Comment: "newest steps of the clock mode", Columns: slices.Concat(
		columns(server.TopicTime, "at"), columns(server.TopicInt, "epoch"),
		columns(server.TopicText, "from_mode", "to_mode", "target_mode", "reason", "ordered_by"),
		columns(server.TopicFloat, "after_ms"))},
	{Name: "moves", Comment: "newest moves of rows between regions that this region has seen", Columns: slices.Concat(
		columns(server.TopicTime, "at"), columns(server.TopicText, "row_name", "table_name", "from_region", "to_region",
			"triggered_by", "why"),
		columns(server.TopicJSON, "why_json"), columns(server.TopicText, "cost"), columns(server.TopicInt, "bytes"),
		columns(server.TopicBool, "dry_run"))},
	{Name: "heat", Comment: "hottest rows that this node owns, and which regions use them", Columns: slices.Concat(
		columns(server.TopicText, "row_name", "table_name", "home_region"),
		columns(server.TopicFloat, "heat", "home_heat"), columns(server.TopicJSON, "heat_by_region"),
		columns(server.TopicText, "last_region"), columns(server.TopicInt, "run"), columns(server.TopicFloat, "stays_s"),
		columns(server.TopicInt, "correlated"), columns(server.TopicBool, "pinned"))},
	{Name: "replicas", Comment: "nodes as servers of snapshot reads, as this node sees them, " +
		"and which of them are on the skyline of staleness and latency", Columns: slices.Concat(
		columns(server.TopicInt, "node"), columns(server.TopicText, "region"),
		columns(server.TopicFloat, "staleness_ms", "latency_ms"), columns(server.TopicInt, "load"),
		columns(server.TopicBool, "healthy", "skyline", "member", "collector"), columns(server.TopicTime, "consistency_point"))},
	{Name: "consistency", Comment: "how transactions of this gateway's sessions that have not chosen cross regions, " +
		"and why: its newest decisions", Columns: slices.Concat(
		columns(server.TopicTime, "at"), columns(server.TopicText, "setting", "mode", "why"),
		columns(server.TopicInt, "transactions", "crossing"),
		columns(server.TopicBool, "in_force"))},
	{Name: "locks", Comment: "locks of the groups that this node leads", Columns: slices.Concat(
		columns(server.TopicText, "group_name", "span", "mode", "txn", "tier"), columns(server.TopicBool, "granted"),
		columns(server.TopicFloat, "age_ms"), columns(server.TopicText, "table_name", "waits_for"))},
	{Name: "transactions", Comment: "transactions in the groups that this node leads", Columns: slices.Concat(
		columns(server.TopicText, "group_name", "txn"), columns(server.TopicFloat, "age_ms"), columns(server.TopicText, "phase"),
		columns(server.TopicInt, "locks", "waiting"), columns(server.TopicFloat, "idle_ms"))},
}

// EnableAsync implements server.Cluster.
func (s show) EnableAsync(ctx context.Context) error { return s.n.cluster.EnableAsync(ctx) }

// CreatePlacement implements server.Cluster.
func (s show) CreatePlacement(ctx context.Context, spec base.PlacementSpec) error {
	return placed.Create(ctx, s.n.cluster, spec)
}

// DropPlacement implements server.Cluster.
func (s show) DropPlacement(ctx context.Context, name string) error {
	return placed.Drop(ctx, s.n.cluster, name)
}

// PlacementNamed implements server.Cluster.
func (s show) PlacementNamed(ctx context.Context, name string) (base.Placed, error) {
	return placed.Named(ctx, s.n.cluster, name)
}

// OwnShards implements server.Cluster.
func (s show) OwnShards(ctx context.Context, places []base.PlacementID, shards int, used func(before int) bool) (map[base.PlacementID]int, error) {
	return placed.OwnShards(ctx, s.n.cluster, places, shards, used)
}

// DropRegion implements server.Cluster.
func (s show) DropRegion(ctx context.Context, name, into string) (string, error) {
	t, err := s.n.cluster.DropRegion(ctx, name, into)
	if err != nil {
		return "", err
	}
	return t.RegionName(t.HomeFor(t.RegionByName(name))), nil
}

// AwaitHeld implements server.Cluster.
func (s show) AwaitHeld(ctx context.Context) error { return s.n.cluster.AwaitHeld(ctx) }

// Live implements server.Cluster.
func (s show) Live(id base.NodeID) bool { return s.n.cluster.Live(id) }

// Topics implements server.Cluster.
func (s show) Topics() []server.Topic {
	return slices.Concat(topics, promotionTopics, leaderTopics, healthTopics, networkTopics, epochTopics, statementTopics, adviceTopics, upgradeTopics, splitTopics, moments.Topics, waits.Topics, certs.Topics, decided.Topics, []server.Topic{adviser.ElsewhereTopic})
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// orNull is a region's name, or NULL for no region.
func orNull(name string) any {
	if name == "" {
		return nil
	}
	return name
}

const askAdvice, askWaits, askCerts = "home-advice", "waits", "certificates"

// homeAdvice is a question to the owner of a row about the row's home, and the answer.
type homeAdvice struct {
	Key  base.Key      `json:"key,omitempty"`
	Home base.RegionID `json:"home,omitempty"`
	From base.RegionID `json:"from,omitempty"`
	Move bool          `json:"move,omitempty"`
	Why  string        `json:"why,omitempty"`
}

// Advice implements server.Cluster.
func (s show) Advice(ctx context.Context, owner base.NodeID, key base.Key, region base.RegionID) (bool, string) {
	n := s.n
	q, err := json.Marshal(homeAdvice{Key: key, Home: region, From: n.db.Region()})
	if err != nil {
		return false, ""
	}
	var a homeAdvice
	b, err := n.cluster.Ask(ctx, owner, askAdvice, q)
	if err != nil || json.Unmarshal(b, &a) != nil {
		return false, ""
	}
	return a.Move, a.Why
}

// advise answers such a question.
func (n *Node) advise(body []byte) ([]byte, error) {
	var q homeAdvice
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	r := n.homes.Explain(home.Access{Key: q.Key, Home: q.Home, From: q.From, At: n.clock.Latest()})
	switch r.Rule {
	case home.RuleUnknown:
		return json.Marshal(homeAdvice{})
	case home.RuleHome: // the other node's replica has not seen the move yet
		return json.Marshal(homeAdvice{Why: "has just come home"})
	}
	return json.Marshal(homeAdvice{Move: r.Rule.Moves(), Why: r.Text(n.cluster.Topology().RegionName)})
}

// shown are the functions that make the rows of a topic.
var shown = map[string]func(*Node, context.Context) [][]any{
	"nodes":          (*Node).nodeRows,
	"groups":         (*Node).groupRows,
	"jobs":           (*Node).jobRows,
	"promotions":     (*Node).showPromotions,
	"losses":         (*Node).showLosses,
	"clock":          (*Node).clockRows,
	"clock_history":  (*Node).clockHistoryRows,
	"epochs":         (*Node).epochRows,
	"leaders":        (*Node).leaderRows,
	"leader_moves":   (*Node).leaderMoveRows,
	"health":         (*Node).healthRows,
	"links":          (*Node).linkRows,
	"round_trips":    (*Node).roundTripRows,
	"region_links":   (*Node).regionLinkRows,
	"answers":        (*Node).answerRows,
	"moments":        (*Node).momentRows,
	"lock_waits":     (*Node).waitRows,
	"certificates":   (*Node).certificateRows,
	"problems":       (*Node).problemRows,
	"consistency":    (*Node).consistencyRows,
	"moves":          (*Node).moveRows,
	"heat":           (*Node).heatRows,
	"replicas":       (*Node).replicaRows,
	"locks":          (*Node).lockRows,
	"transactions":   (*Node).transactionRows,
	"statements":     (*Node).statementRows,
	"advice":         (*Node).adviceRows,
	"elsewhere":      (*Node).elsewhereRows,
	"health_history": (*Node).healthHistoryRows,
	"plan_history":   (*Node).planRows,
	"versions":       (*Node).versionRows,
	"splits":         (*Node).splitRows,
}

// Status implements server.Cluster: nodes and groups of the cluster, moves that the region has
// seen, and the locks, transactions and rows of the groups that this node leads.
func (s show) Status(ctx context.Context, topic string) [][]any {
	if rows := shown[topic]; rows != nil {
		trace := obs.TraceOf(ctx)
		defer trace.SetRegions(trace.Regions()) // who is asked for this answers no statement of a client
		return rows(s.n, ctx)
	}
	return nil
}

func (n *Node) nodeRows(ctx context.Context) (rows [][]any) {
	links := map[base.NodeID]wan.LinkStats{}
	for _, l := range n.trans.Stats() {
		links[l.Peer] = l
	}
	for _, x := range n.cluster.Status(ctx).Nodes {
		state := "live"
		if !x.Live {
			state = "dead"
		}
		rows = append(rows, []any{x.ID, x.Region, state, x.Addr, x.SQL, millis(x.RTT), x.Leads, x.Replicas, x.Statements,
			x.Sessions, x.DiskBytes, x.MemBytes, seconds(x.Uptime), x.Version, links[x.ID].StreamSent, links[x.ID].WireSent})
	}
	return rows
}

func (n *Node) groupRows(ctx context.Context) (rows [][]any) {
	for _, x := range n.cluster.Status(ctx).Groups {
		var leader any
		if x.Leader != 0 {
			leader = x.Leader
		}
		rows = append(rows, []any{x.Name, orNull(x.Home), leader, x.State(), x.Term, fmt.Sprint(x.Voters), fmt.Sprint(x.Learners),
			x.Committed, x.LagText(), millis(x.ClosedLag), millis(x.Lease), x.LogEntries, x.LogBytes, x.Locks, x.Prepared})
	}
	return rows
}

func (n *Node) jobRows(ctx context.Context) [][]any {
	jobs := map[base.NodeID][]server.Job{}
	for _, x := range n.cluster.Status(ctx).Nodes {
		var of []server.Job
		if len(x.Jobs) > 0 && json.Unmarshal(x.Jobs, &of) == nil {
			jobs[x.ID] = of
		}
	}
	jobs[0] = backup.Waiting(ctx, n.db)
	return server.JobRows(jobs)
}

// moveRows are the newest moves of rows that this region's nodes have seen.
func (n *Node) moveRows(ctx context.Context) (rows [][]any) {
	t := n.cluster.Topology()
	for _, m := range n.moves(ctx) {
		by, why, facts := m.trigger(t.RegionName)
		rows = append(rows, []any{m.TS.Time(), n.rowName(m.Key), n.tableName(m.Key), t.RegionName(m.From),
			t.RegionName(m.To), by, why, facts, m.cost(), m.Bytes, m.Dry})
	}
	return rows[max(0, len(rows)-maxShown):]
}

// heatRows are the hottest rows that this node owns.
func (n *Node) heatRows(context.Context) (rows [][]any) {
	t := n.cluster.Topology()
	for _, h := range n.homes.Top(maxHeatShown, n.clock.Latest()) {
		if h.Key == nil {
			continue
		}
		by, total := map[string]float64{}, 0.0
		for _, r := range t.Regions {
			if x := h.Heat.Heat.Of(r.ID); x > 0 {
				by[r.Name] = x
				total += x
			}
		}
		facts, _ := json.Marshal(by) // strings and numbers can always be encoded
		rows = append(rows, []any{n.rowName(h.Key), n.tableName(h.Key), t.RegionName(h.Home), total,
			h.Heat.Heat.Of(h.Home), string(facts), t.RegionName(h.Last), h.Run,
			seconds(time.Duration(h.Stay)), h.With, h.Pinned})
	}
	return rows
}

// replicaRows describe the nodes as servers of snapshot reads.
func (n *Node) replicaRows(context.Context) (rows [][]any) {
	all, skyline := n.cluster.Servers()
	p, t := n.cluster.Point(), n.cluster.Topology()
	for _, x := range all {
		var at any
		if x.ID == n.ID() && p.Certified && p.Usable != 0 {
			at = p.Usable.Time()
		}
		rows = append(rows, []any{x.ID, t.RegionName(x.Region), millis(x.Staleness), millis(x.Latency), x.Load, x.Healthy,
			slices.Contains(skyline, x.ID), p.View.Has(x.ID), p.View.Collector == x.ID, at})
	}
	return rows
}

func (n *Node) lockRows(context.Context) (rows [][]any) {
	for _, r := range n.owners.Replicas() {
		all := r.Locks(maxShown - len(rows))
		for _, l := range all {
			tier := "irt"
			if l.CRT {
				tier = "crt"
			}
			var age any
			if l.Age != 0 {
				age = millis(time.Since(l.Age.Time()))
			}
			rows = append(rows, []any{r.ID().String(), l.Span.String(), l.Mode.String(), l.Txn.String(), tier, !l.Waiting, age,
				n.tableName(l.Span.Start), waits.Text(all, l)})
		}
	}
	return rows
}

// localWaits are the waits in the groups that this node leads.
func (n *Node) localWaits() []waits.Wait {
	return waits.Of(n.owners.Replicas(), maxShown, func(l owner.LockRow) any { return n.tableName(l.Span.Start) })
}

func (n *Node) waitRows(ctx context.Context) [][]any {
	return waits.Rows(append(slices.Concat(askAll[[]waits.Wait](ctx, n, askWaits)...), n.localWaits()...))
}

func (n *Node) certificateRows(ctx context.Context) [][]any {
	all := append(slices.Concat(askAll[[]certs.End](ctx, n, askCerts)...), n.certs.Ends(n.ID())...)
	return certs.Rows(n.cluster.Topology(), all, time.Now())
}

func (n *Node) transactionRows(context.Context) (rows [][]any) {
	for _, r := range n.owners.Replicas() {
		for _, t := range r.Txns() {
			if len(rows) == maxShown {
				return rows
			}
			rows = append(rows, []any{r.ID().String(), t.ID.String(), millis(time.Since(t.Age.Time())), t.Phase,
				t.Locks, t.Waiting, millis(t.Idle)})
		}
	}
	return rows
}
