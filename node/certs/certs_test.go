package certs

import (
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestRows: what ends first stands first, and says so in time.
func TestRows(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	top := &base.Topology{Regions: []base.Region{{ID: 1, Name: "eu"}}, Nodes: []base.Node{{ID: 1, Region: 1}}}
	rows := Rows(top, []End{{1, "authority", now.Add(soon)}, {1, "node", now.Add(soon - time.Second)}, {1, "sql", now}}, now)
	got := ""
	for _, r := range rows {
		got += fmt.Sprintln(r[0], r[1], r[2], r[4], r[5])
	}
	want := "1 eu sql 0 expired\n1 eu node 2.591999e+06 ends soon\n1 eu authority 2.592e+06 good\n"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if ends := (&Set{}).Ends(1); len(ends) != 0 {
		t.Errorf("a node without certificates: %v", ends)
	}
}
