package report

import (
	"strings"
	"testing"
	"time"
)

// TestConditionNames: names are unique, as scripts and documents go by them.
func TestConditionNames(t *testing.T) {
	seen := map[string]bool{}
	var names []string
	for _, c := range conditions {
		names = append(names, c.name)
	}
	for _, c := range append(append([]clockCondition{}, sourceConditions...), modeConditions...) {
		names = append(names, c.name)
	}
	for _, n := range names {
		if seen[n] || n == "" {
			t.Errorf("the name %q is used twice", n)
		}
		seen[n] = true
	}
}

// TestDisksFilling: somebody is told before a disk is full, and not of a disk that the store has
// little to do with.
func TestDisksFilling(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name string
		node NodeStatus
		want string // empty: nothing is told
	}{
		{"room", NodeStatus{Live: true, DiskBytes: 10 * gib, DiskFree: 50 * gib, DiskTotal: 100 * gib}, ""},
		{"little", NodeStatus{Live: true, DiskBytes: 80 * gib, DiskFree: 9 * gib, DiskTotal: 100 * gib}, "9 % (9.0 GiB) of its disk is free:"},
		{"others fill it", NodeStatus{Live: true, DiskBytes: gib, DiskFree: 9 * gib, DiskTotal: 100 * gib}, ""},
		{"soon", NodeStatus{Live: true, DiskBytes: gib, DiskFree: 50 * gib, DiskTotal: 100 * gib, DiskFullIn: 5 * time.Hour},
			"50 % (50.0 GiB) of its disk is free, and as it is being used it is full in about 5 hours:"},
		{"in a week", NodeStatus{Live: true, DiskBytes: gib, DiskFree: 50 * gib, DiskTotal: 100 * gib, DiskFullIn: 200 * time.Hour}, ""},
		{"a node that is down", NodeStatus{DiskBytes: 80 * gib, DiskFree: gib, DiskTotal: 100 * gib}, ""},
		{"not known", NodeStatus{Live: true, DiskBytes: 80 * gib}, ""},
	} {
		c.node.ID, c.node.Region = 3, "eu"
		got := strings.Join((&examination{Status: &Status{Nodes: []NodeStatus{c.node}}}).disksFilling(), "; ")
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, "node 3 in eu: "+c.want) && c.want != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
