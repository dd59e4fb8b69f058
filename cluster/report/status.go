// Package report is what a cluster says of itself to people: the status of its nodes and groups,
// and what is wrong with it, in words. Package cluster gathers the facts.
package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/health"
)

// Status is what `godwit status` shows: one node's view of the cluster,
// completed by asking every node for the groups it holds. Served as JSON on
// the cluster port.
type Status struct {
	ClusterID string        `json:"cluster_id"`
	Asked     base.NodeID   `json:"asked_node"`
	Topology  base.Topology `json:"topology"`
	Nodes     []NodeStatus  `json:"nodes"`
	Groups    []GroupStatus `json:"groups"`
	RTT       []RegionRTT   `json:"rtt"`
	// ClockHistory are the newest steps of the clock mode, the oldest first.
	ClockHistory []ClockStep `json:"clock_history,omitempty"`
	// RegionWaits is what regions wait for that are being added or dropped.
	RegionWaits map[base.RegionID]string `json:"region_waits,omitempty"`
	// ReplaceWaits is why nodes that have been silent for long are not replaced.
	ReplaceWaits map[base.NodeID]string `json:"replace_waits,omitempty"`
	// UpgradeWaits is what an upgrade waits for until it is final.
	UpgradeWaits string `json:"upgrade_waits,omitempty"`
	// what an operator should look at, in words
	Problems []string      `json:"problems,omitempty"`
	Took     time.Duration `json:"took_ns"`
}

// NodeStatus is one process.
type NodeStatus struct {
	ID         base.NodeID   `json:"id"`
	Region     string        `json:"region"`
	Addr       string        `json:"addr"`
	SQL        string        `json:"sql_addr"`
	Admin      string        `json:"admin_addr,omitempty"` // empty: Addr
	Live       bool          `json:"live"`
	LastHeard  time.Duration `json:"last_heard_ns"` // since the asked node heard of it
	RTT        time.Duration `json:"rtt_ns"`        // from the asked node, smoothed
	Leads      int           `json:"leads"`         // groups
	Replicas   int           `json:"replicas"`      // groups
	Statements int64         `json:"statements"`    // since start
	DiskBytes  int64         `json:"disk_bytes"`
	DiskFree   int64         `json:"disk_free,omitempty"`  // of the file system of the store
	DiskTotal  int64         `json:"disk_total,omitempty"` // its size; 0: it is not known
	// DiskFullIn is in how long nothing of it is free, as it is being used; 0: it is not known, or
	// never.
	DiskFullIn time.Duration `json:"disk_full_in_ns,omitempty"`
	Uptime     time.Duration `json:"uptime_ns"`
	Version    string        `json:"version"`
	// Knows is the newest cluster version that the node's build knows; 0: it does not answer.
	Knows    base.ClusterVersion `json:"knows,omitempty"`
	MemBytes int64               `json:"mem_bytes"` // of the process, as its runtime counts it
	Sessions int                 `json:"sessions"`  // MySQL connections
	Clock    *ClockStatus        `json:"clock,omitempty"`
	Health   *health.Status      `json:"health,omitempty"`
	// Cut are the nodes whose direct path from this one is cut.
	Cut []CutPath `json:"cut,omitempty"`
	// Jobs are long statements run there, as JSON that package sql/server reads.
	Jobs json.RawMessage `json:"jobs,omitempty"`
}

// CutPath is a direct path that is cut, and the nodes over which messages go instead; none: no
// other way is known.
type CutPath struct {
	To   base.NodeID   `json:"to"`
	Over []base.NodeID `json:"over,omitempty"`
}

// GroupStatus is one consensus group as its leader sees it.
type GroupStatus struct {
	ID        base.GroupID  `json:"id"`
	Name      string        `json:"name"`
	Home      string        `json:"home"` // region; empty for the meta group
	Leader    base.NodeID   `json:"leader"`
	Term      uint64        `json:"term"`
	Voters    []base.NodeID `json:"voters"`
	Learners  []base.NodeID `json:"learners,omitempty"`
	Committed uint64        `json:"committed"`
	Lag       []ReplicaLag  `json:"lag"`
	ClosedLag time.Duration `json:"closed_lag_ns"` // now minus the closed timestamp
	Lease     time.Duration `json:"lease_left_ns"`
	Locks     int           `json:"locks"`
	Prepared  int           `json:"prepared"`
	// The leader's raft log on disk.
	LogEntries uint64 `json:"log_entries"`
	LogBytes   int64  `json:"log_bytes"`
	// Serving is false while a new leader waits for its predecessor's lease to end, or has lost its
	// own.
	Serving bool `json:"serving"`
}

// State says in a word whether the group serves.
func (g *GroupStatus) State() string {
	switch {
	case g.Leader == 0:
		return "NO LEADER"
	case !g.Serving:
		return "waiting" // for a lease
	}
	return "serving"
}

// LagText lists the replicas that do not keep up, as node:entries, node:snapshot while one is sent
// the whole shard, or node:SILENT if the leader does not hear of it.
func (g *GroupStatus) LagText() string {
	var out []string
	for _, l := range g.Lag {
		switch {
		case l.Snapshot:
			out = append(out, fmt.Sprintf("%d:snapshot", l.Node))
		case !l.Active:
			out = append(out, fmt.Sprintf("%d:SILENT", l.Node))
		case l.Entries > 0:
			out = append(out, fmt.Sprintf("%d:%d", l.Node, l.Entries))
		}
	}
	return strings.Join(out, " ")
}

// ReplicaLag is how far a replica is behind the leader's log.
type ReplicaLag struct {
	Node    base.NodeID `json:"node"`
	Entries uint64      `json:"entries"`
	Active  bool        `json:"active"` // heard of by the leader within an election timeout
	// Snapshot is set while the replica is sent the whole shard, because the log does not reach
	// back to where it is.
	Snapshot bool `json:"snapshot,omitempty"`
}

// RegionRTT is a smoothed round-trip time between two regions.
type RegionRTT struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	RTT  time.Duration `json:"rtt_ns"`
}

// ClockStatus is a node's clock as people see it.
type ClockStatus struct {
	Mode   string        `json:"mode"`
	Epoch  uint64        `json:"epoch"`
	Source string        `json:"source"`
	Bound  time.Duration `json:"bound_ns"`
	// how long the node may go on without hearing the meta group's leader
	Right time.Duration `json:"right_left_ns"`
	// of the comparison with the others: fine, wrong, unsure
	Verdict string        `json:"verdict"`
	Off     time.Duration `json:"off_ns"` // least correction that the others ask for
	Fenced  bool          `json:"fenced"` // its clock is not used
	Needed  bool          `json:"needed"` // clock.mode asks for a mode that uses it, and that is in force
	// how far the clock was set, if that is more than its bound allows
	Stepped time.Duration `json:"stepped_ns"`
	// of the oracle as known here, against the source
	Ahead time.Duration `json:"oracle_ahead_ns"`
	// from the meta group's leader: the mode that a switch leads to
	Target   string        `json:"target,omitempty"`
	Blocked  string        `json:"blocked,omitempty"` // and what it waits for
	Seen     time.Time     `json:"timestamp"`         // newest timestamp handed out or seen
	MaxBound time.Duration `json:"max_bound_ns"`      // clock.max_bound as known here
}

// ClockStep is a step of the clock mode that was taken.
type ClockStep struct {
	At     time.Time     `json:"at"`
	Epoch  uint64        `json:"epoch"`
	From   string        `json:"from"`
	To     string        `json:"to"`
	Target string        `json:"target"`
	Reason string        `json:"reason"`
	By     string        `json:"by"`
	After  time.Duration `json:"after_ns"` // since the step before
}
