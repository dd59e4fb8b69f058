package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/health"
	"github.com/godwitdb/godwit/cluster/report"
	"github.com/godwitdb/godwit/policy/placement"
)

// sound is the status of a cluster in which every node answers and every group serves, led from
// where it should be.
func sound(t base.Topology) *Status {
	s := &Status{Topology: t}
	for _, n := range t.Nodes {
		if !n.Gone {
			s.Nodes = append(s.Nodes, NodeStatus{ID: n.ID, Region: t.RegionName(n.Region),
				Addr: fmt.Sprintf("h%d:1", n.ID), Live: true,
				Clock: &ClockStatus{Mode: "gclock", Source: "kernel", Verdict: "fine", Bound: time.Millisecond,
					MaxBound: 250 * time.Millisecond, Right: time.Second}})
		}
	}
	for _, g := range t.Groups() {
		voters, learners := placement.Members(&t, g)
		gs := GroupStatus{ID: g, Name: g.String(), Leader: placement.Preferred(&t, g, func(base.NodeID) bool {
			return true
		}), Voters: voters, Learners: learners, Serving: true}
		if g != base.MetaGroup {
			gs.Home = t.RegionName(t.Home(g))
		}
		s.Groups = append(s.Groups, gs)
	}
	return s
}

// args reads the arguments of a scripted command.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) text(key string) (out string) {
	a.d.ScanArgs(a.t, key, &out)
	return strings.ReplaceAll(out, "_", " ")
}

func (a args) duration(key string) time.Duration {
	d, err := time.ParseDuration(a.text(key))
	if err != nil {
		a.d.Fatalf(a.t, "%s: %v", key, err)
	}
	return d
}

// numbers are the values of key=(1,2).
func (a args) numbers(key string) (out []int) {
	for _, arg := range a.d.CmdArgs {
		if arg.Key != key {
			continue
		}
		for _, v := range arg.Vals {
			n, err := strconv.Atoi(v)
			if err != nil {
				a.d.Fatalf(a.t, "%s: %v", key, err)
			}
			out = append(out, n)
		}
	}
	return out
}

func (a args) nodes(key string) (out []base.NodeID) {
	for _, n := range a.numbers(key) {
		out = append(out, base.NodeID(n))
	}
	return out
}

// node is the node that a command is about, n1 for node 1.
func (a args) node() base.NodeID {
	n, err := strconv.Atoi(strings.TrimPrefix(a.d.CmdArgs[0].Key, "n"))
	if err != nil {
		a.d.Fatalf(a.t, "the first argument is a node, like n1: %v", err)
	}
	return base.NodeID(n)
}

func (a args) group() base.GroupID {
	g, err := base.ParseGroup(a.d.CmdArgs[0].Key)
	if err != nil {
		a.d.Fatalf(a.t, "%v", err)
	}
	return g
}

// TestConditions tells what an operator is told of a cluster: each condition, and how they go
// together. A command that makes a status begins with a sound cluster; the others break it.
func TestConditions(t *testing.T) {
	datadriven.Walk(t, "testdata/conditions", func(t *testing.T, path string) {
		var top base.Topology
		var s *Status
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			a := args{t, d}
			switch d.Cmd {
			case "cluster": // regions=(1,2) shards=1 [async]: so many nodes in each region
				shards := 1
				d.MaybeScanArgs(t, "shards", &shards)
				top = topo(shards, a.numbers("regions")...)
				if a.has("async") {
					top.Async = shards
				}
				top = placement.Place(top)
				s = sound(top)
			case "promoted": // lost=1 seat=2
				p := base.Promotion{ID: 1, Region: base.RegionID(a.numbers("lost")[0]), Seat: base.RegionID(a.numbers("seat")[0])}
				p.Lost = p.Region
				for _, g := range top.AsyncGroups(p.Region) {
					p.Groups = append(p.Groups, base.Promoted{Group: g, Source: 2})
				}
				top.Promotions = append(top.Promotions, p)
				top = placement.Place(top)
				s = sound(top)
			case "down": // n1 [heard=12s] [no-address]
				for i := range s.Nodes {
					n := &s.Nodes[i]
					if n.ID != a.node() {
						continue
					}
					n.Live, n.Clock = false, nil
					if a.has("heard") {
						n.LastHeard = a.duration("heard")
					}
					if a.has("no-address") {
						n.Addr = ""
					}
				}
			case "gone": // n1: decommissioned, after the status was what it is
				top.Node(a.node()).Gone = true
				s.Topology = placement.Place(top)
			case "group": // s1@r1 [leader=2] [without-leader] [starting] [voters=(1,2)] [behind=3] [active=3]
				for i := range s.Groups {
					g := &s.Groups[i]
					if g.ID != a.group() {
						continue
					}
					for _, n := range a.nodes("leader") {
						g.Leader = n
					}
					if a.has("without-leader") {
						g.Leader = 0
					}
					g.Serving = !a.has("starting")
					if a.has("voters") {
						g.Voters = a.nodes("voters")
					}
					for _, n := range a.nodes("behind") {
						g.Lag = append(g.Lag, ReplicaLag{Node: n, Snapshot: true, Active: true})
					}
					for _, n := range a.nodes("active") {
						g.Lag = append(g.Lag, ReplicaLag{Node: n, Active: true})
					}
				}
			case "region": // r2 opening|joining|leaving|gone [into=1] [waits=text]
				id := base.RegionID(a.d.CmdArgs[0].Key[1] - '0')
				r := top.Region(id)
				r.State = base.RegionState(a.d.CmdArgs[1].Key)
				if a.has("into") {
					r.Into = base.RegionID(a.numbers("into")[0])
				}
				s = sound(top)
				if a.has("waits") {
					s.RegionWaits = map[base.RegionID]string{id: a.text("waits")}
				}
			case "sick": // n1 disk [why=text] [recovering=3s]
				o := map[string]health.Organ{"disk": health.Disk, "store": health.Store, "process": health.Process,
					"links": health.Links}[d.CmdArgs[1].Key]
				st := health.OrganStatus{Organ: o.String(), State: "sick", Why: a.text("why"), Advice: o.Advice(),
					Leaves: o&health.Leading != 0, Patience: 10 * time.Second}
				if a.has("recovering") {
					st.State, st.For = "recovering", a.duration("recovering")
				}
				for i := range s.Nodes {
					if s.Nodes[i].ID == a.node() {
						s.Nodes[i].Health = &health.Status{Organs: []health.OrganStatus{st}}
					}
				}
			case "clock": // n1 field=value...
				for i := range s.Nodes {
					if s.Nodes[i].ID == a.node() {
						setClock(a, s.Nodes[i].Clock)
					}
				}
			default:
				d.Fatalf(t, "no command %s", d.Cmd)
			}
			var out strings.Builder
			for _, p := range report.Examine(s) {
				fmt.Fprintf(&out, "%s: %s\n", p.Name, p.Text)
			}
			if out.Len() == 0 {
				return "no problems"
			}
			return out.String()
		})
	})
}

func setClock(a args, c *ClockStatus) {
	c.Fenced = a.has("fenced")
	for _, f := range []struct {
		key string
		at  *string
	}{{"verdict", &c.Verdict}, {"source", &c.Source}, {"blocked", &c.Blocked}} {
		if a.has(f.key) {
			*f.at = a.text(f.key)
		}
	}
	for _, f := range []struct {
		key string
		at  *time.Duration
	}{{"off", &c.Off}, {"stepped", &c.Stepped}, {"bound", &c.Bound}, {"lease", &c.Right}} {
		if a.has(f.key) {
			*f.at = a.duration(f.key)
		}
	}
}
