package node

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/policy/leader"
	"github.com/godwitdb/godwit/sql/server"
)

// leaderSettings are the settings of the policy of leaders.
func (n *Node) leaderSettings() knobs.Group {
	read := func(data []byte) (p cluster.LeaderParams, err error) {
		if err = json.Unmarshal(data, &p); err == nil {
			err = p.Validate()
		}
		return p, err
	}
	return knobs.Of("leader.", cluster.DefaultLeaderParams(), map[string]string{
		"mode": "whether the leads of groups move to where requests are served faster: on, off, " +
			"dry_run (decide and report only)",
		"window":         "first and shortest damping window, in heartbeats of 200 ms",
		"max_window":     "bound of its doubling",
		"hold_down":      "heartbeats after a change of leader that are not looked at; negative: none",
		"min_gain_ms":    "least time that an average request must save; negative: any",
		"min_gain_share": "the same as a share of what it takes now; negative: any",
		"commit":         "what the time of a commit is estimated from: quorum (the nearest majority), median (GeoLM's)",
		"load":           "what requests count for: measured, uniform (all nodes alike), ignored (the fastest quorum leads)",
		"may_lead":       "regions whose nodes may lead, with commas; empty: all",
		"pin":            "groups and the nodes that are to lead them, like 's1@r2=5 meta=1'",
	}, read, n.cluster.SetLeaderParams)
}

var leaderTopics = []server.Topic{
	{Name: "leaders", Comment: "how each node would do as leader of each group, as the groups' leaders see it",
		Columns: slices.Concat(
			columns(server.TopicText, "group_name", "home_region"), columns(server.TopicBool, "follows_load"),
			columns(server.TopicInt, "leader", "node"),
			columns(server.TopicText, "region"), columns(server.TopicBool, "leads", "candidate", "pinned"),
			columns(server.TopicFloat, "requests_per_s", "writes_per_s", "access_ms", "commit_ms", "cost_ms", "utility_ms"),
			columns(server.TopicText, "state"), columns(server.TopicInt, "window", "seen", "hold_down"))},
	{Name: "leader_moves", Comment: "newest decisions to move the lead of a group", Columns: slices.Concat(
		columns(server.TopicTime, "at"), columns(server.TopicText, "group_name"),
		columns(server.TopicInt, "from_node", "to_node"),
		columns(server.TopicText, "reason"), columns(server.TopicFloat, "gain_ms"), columns(server.TopicInt, "window"),
		columns(server.TopicJSON, "utilities_ms"), columns(server.TopicBool, "dry_run"), columns(server.TopicFloat, "took_ms"),
		columns(server.TopicText, "error"))},
}

func (n *Node) leaderRows(ctx context.Context) (rows [][]any) {
	t := n.cluster.Topology()
	for _, r := range n.cluster.AllLeaderRows(ctx) {
		home := any(nil)
		if r.Group != base.MetaGroup {
			home = t.RegionName(r.Group.Region())
		}
		s := r.Standing
		row := []any{r.Group.String(), home, r.Free, r.Leader, s.Node, t.RegionName(t.RegionOf(s.Node)),
			s.Node == r.Leader, s.Candidate, r.Pinned,
			r.Requests, r.Writes, nil, nil, nil, nil, r.Reason, r.Window, r.Seen, r.HoldDown}
		if s.Known {
			row[11], row[12], row[13], row[14] = millis(s.Access), millis(s.Commit), millis(s.Cost), millis(s.Utility)
		}
		rows = append(rows, row)
	}
	return rows
}

func (n *Node) leaderMoveRows(ctx context.Context) (rows [][]any) {
	for _, m := range n.cluster.AllLeaderMoves(ctx) {
		utilities, err := json.Marshal(m.Utilities)
		if err != nil {
			utilities = []byte("null")
		}
		row := []any{m.At.UTC(), m.Group.String(), m.From, m.To, m.Reason, millis(m.Gain), m.Window, string(utilities),
			m.Dry, nil, orNull(m.Error)}
		if m.Took > 0 {
			row[9] = millis(m.Took)
		}
		rows = append(rows, row)
	}
	return rows
}

// serveLeader answers POST cluster.PathLeader: it moves a lead, or pins it by the cluster setting
// leader.pin.
func (n *Node) serveLeader(w http.ResponseWriter, r *http.Request) {
	var q cluster.LeaderRequest
	if !decode(w, r, &q) {
		return
	}
	g, err := base.ParseGroup(q.Group)
	if err == nil && q.Pin {
		err = n.pinLeader(r.Context(), g, q.Node)
	}
	if err == nil && q.Node != 0 {
		err = n.cluster.MoveLeader(r.Context(), g, q.Node)
	}
	if err != nil {
		answer(w, http.StatusConflict, err)
		return
	}
	answer(w, http.StatusOK, nil)
}

func (n *Node) pinLeader(ctx context.Context, g base.GroupID, node base.NodeID) error {
	srv, err := n.server()
	if err != nil {
		return err
	}
	if err := n.cluster.CanLead(g, node); err != nil {
		return err
	}
	pins := n.cluster.LeaderPins()
	if pins[g] = node; node == 0 {
		delete(pins, g)
	}
	return srv.SetClusterSetting(ctx, "leader.pin", leader.FormatPins(pins))
}
