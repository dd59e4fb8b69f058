package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// leader asks a node to move or pin a lead.
func (p *proc) leader(t *testing.T, q string) error {
	t.Helper()
	return p.post(t, cluster.PathLeader, q)
}

// TestMoveAndPinLeader: the lead of a group is moved and pinned through any node; what cannot be
// done is refused with what to do, and leaves nothing behind.
func TestMoveAndPinLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cfgs{}, "eu", "us", "us", "asia")
	w.procs[0].settled(t)
	c := w.procs[0].n.cluster
	g := base.DataGroup(1, 1)
	voters := c.Replicas(g)
	var out, other base.NodeID
	for _, p := range w.procs {
		switch id := p.n.ID(); {
		case !slices.Contains(voters, id):
			out = id
		case id != c.Leader(g):
			other = id
		}
	}
	if out == 0 || other == 0 {
		t.Fatalf("voters %v, leader %d: nothing to test with", voters, c.Leader(g))
	}
	for q, want := range map[string]string{
		`{"group":"s9@r3","node":1}`:             "there is no group s9@r3: SELECT name FROM godwit.groups",
		`{"group":"s9@r3","node":1,"pin":true}`:  "there is no group s9@r3",
		`{"group":"s9@r3","node":0,"pin":true}`:  "there is no group s9@r3",
		`{"group":"eu","node":1}`:                "is not a group",
		`{"group":"s1@r1","node":77}`:            "there is no node 77: godwit status lists them",
		`{"group":"s1@r1","node":77,"pin":true}`: "there is no node 77",
		fmt.Sprintf(`{"group":"s1@r1","node":%d}`,
			out): fmt.Sprintf("node %d does not vote in group s1@r1 and cannot lead it; nodes that do: ", out),
		fmt.Sprintf(`{"group":"s1@r1","node":%d,"pin":true}`, out): fmt.Sprintf("node %d does not vote", out),
		`nonsense`: "malformed request",
	} {
		if err := w.procs[3].leader(t, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", q, err, want)
		}
	}
	if pins := c.LeaderPins(); len(pins) != 0 {
		t.Errorf("what was refused is pinned: %v", pins)
	}
	if err := w.procs[3].leader(t, fmt.Sprintf(`{"group":"s1@r1","node":%d,"pin":true}`, other)); err != nil {
		t.Fatal(err)
	}
	until(t, "the lead is pinned", func() string {
		if n, pins := c.Leader(g), c.LeaderPins(); n != other || pins[g] != other {
			return fmt.Sprintf("node %d leads, pins are %v", n, pins)
		}
		return ""
	})
	if err := w.procs[0].leader(t, `{"group":"s1@r1","node":0,"pin":true}`); err != nil {
		t.Fatal(err)
	}
	until(t, "the lead is let go", func() string {
		if n, pins := c.Leader(g), c.LeaderPins(); n == other || len(pins) != 0 {
			return fmt.Sprintf("node %d leads, pins are %v", n, pins)
		}
		return ""
	})
	if err := w.procs[1].leader(t, fmt.Sprintf(`{"group":"s1@r1","node":%d}`, other)); err != nil {
		t.Fatal(err)
	}
}
