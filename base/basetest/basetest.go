// Package basetest has what tests of several packages need: topologies, and calls that must
// succeed.
package basetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Encode is a message as bytes.
func Encode(t testing.TB, m interface{ MarshalVT() ([]byte, error) }) []byte {
	t.Helper()
	b, err := m.MarshalVT()
	Must(t, err)
	return b
}

// Topology has the given number of nodes in each region; both are numbered from 1.
func Topology(shards int, perRegion ...int) base.Topology {
	t := base.Topology{Version: 1, ClusterVersion: base.VersionNewest, Shards: shards}
	id := base.NodeID(1)
	for i, n := range perRegion {
		r := base.RegionID(i + 1)
		t.Regions = append(t.Regions, base.Region{ID: r, Name: fmt.Sprintf("region-%d", r)})
		for range n {
			t.Nodes = append(t.Nodes, base.Node{ID: id, Region: r})
			id++
		}
	}
	return t
}

// Only reports of a node whether it is one of these.
func Only(ids ...base.NodeID) func(base.NodeID) bool {
	return func(n base.NodeID) bool { return slices.Contains(ids, n) }
}
