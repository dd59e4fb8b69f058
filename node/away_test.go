package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestDeadNodeIsReplaced: a node is killed under load, and the other one of its region gets its
// replicas by itself. Started again, it gets replicas anew, and nothing is lost.
func TestDeadNodeIsReplaced(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{}, "eu", "eu", "us", "asia")
	s := w.procs[0].settled(t)
	w.procs[2].exec(t, "SET CLUSTER SETTING replace.after = '5s'")
	l := startLoad(t, w, 1)
	dead := w.procs[1]
	id := dead.n.ID()
	if shardsAt(s, id) == 0 {
		t.Fatalf("node %d holds nothing: %v", id, s.Topology.Replicas)
	}
	dead.kill(t)
	at := w.procs[2]
	d := until(t, "the node is not replaced", func() string {
		s = at.status(t)
		if !s.Topology.Node(id).Away {
			return "it is not away: " + strings.Join(s.Problems, "\n")
		}
		for _, g := range s.Groups {
			if g.ID != base.MetaGroup && (g.Leader == 0 || slices.Contains(g.Voters, id)) {
				return fmt.Sprintf("group %s has the voters %v", g.Name, g.Voters)
			}
		}
		return ""
	})
	t.Logf("replaced after %v", d)
	if said := strings.Join(s.Problems, "\n"); !strings.Contains(said, "and is away") {
		t.Errorf("nobody is told: %s", said)
	}
	l.progress(t)
	dead.start(t)
	dead.ready(t)
	d = until(t, "the node gets no replicas", func() string {
		if s = at.status(t); shardsAt(s, id) == 0 || s.Topology.Node(id).Away {
			return "it is away: " + strings.Join(s.Problems, "\n")
		}
		return ""
	})
	t.Logf("back after %v", d)
	at.settled(t)
	l.progress(t)
	l.finish(t)
}
