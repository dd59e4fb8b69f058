package split

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// facts are of a region with four nodes and one with a single node, and of a table with two shards
// of its own, of so many bytes; the first node has the load.
func facts(bytes int64, load float64, at time.Duration) Facts {
	f := Facts{At: start.Add(at), Tables: []Table{
		{ID: 7, Name: "d.t", Shards: []base.ShardID{101, 102}, Regions: []base.RegionID{1, 2}, Each: 2, Own: true, Bytes: bytes}}}
	for i := range base.NodeID(4) {
		f.Nodes = append(f.Nodes, Node{ID: i + 1, Region: 1, Load: map[base.ShardID]float64{1: 10}})
	}
	f.Nodes = append(f.Nodes, Node{ID: 5, Region: 2})
	f.Nodes[0].Load[101] = load
	return f
}

const gib = 1 << 30

func TestDecisions(t *testing.T) {
	p := Defaults()
	none := func(*Facts) {}
	for name, c := range map[string]struct {
		bytes  int64
		load   float64
		change func(*Facts)
		want   string
	}{
		"small and idle":           {gib, 5, none, ""},
		"large":                    {9 * gib, 5, none, "size"},
		"large enough":             {8 * gib, 5, none, ""},
		"loaded":                   {gib, 2500, none, "load"},
		"loaded, but little":       {gib, 1900, none, ""},
		"loaded by others":         {gib, 2500, func(f *Facts) { f.Nodes[0].Load[1] = 2600 }, ""},
		"loaded shards are shared": {gib, 2500, func(f *Facts) { f.Tables[0].Own = false }, ""},
		"all nodes are busy": {gib, 2500, func(f *Facts) {
			for i := 1; i < 4; i++ {
				f.Nodes[i].Load[1] = 700
			}
		}, ""},
		"large, with a shard for each node": {90 * gib, 5, func(f *Facts) { f.Tables[0].Each = 4 }, ""},
		"large, and the disks are full": {9 * gib, 5, func(f *Facts) {
			for i := range 4 {
				f.Nodes[i].Free = 4 * gib
			}
		}, ""},
		"large, and there is room": {9 * gib, 5, func(f *Facts) {
			for i := range 4 {
				f.Nodes[i].Free = 5 * gib
			}
		}, "size"},
		"large, and another one is being moved": {9 * gib, 5, func(f *Facts) { f.Busy = true }, ""},
	} {
		d := NewDecider()
		look := func(at time.Duration) *Decision {
			f := facts(c.bytes, c.load, at)
			c.change(&f)
			return d.Look(p, f)
		}
		if x := look(0); x != nil {
			t.Errorf("%s: it is split at once: %+v", name, x)
		}
		x := look(10 * time.Minute)
		got := ""
		if x != nil {
			got = x.Reason
			if x.From != 2 || x.To != 4 || x.Table != 7 || x.Why.HeldS != 600 || x.Why.Nodes != 4 {
				t.Errorf("%s: %+v", name, x)
			}
		}
		if got != c.want {
			t.Errorf("%s: it is split for %q, want %q", name, got, c.want)
		}
	}
}

// TestHysteresis: a reason must hold all the time, and a table that was split is left alone, as are
// all after a failure.
func TestHysteresis(t *testing.T) {
	p, d := Defaults(), NewDecider()
	look := func(bytes int64, at time.Duration) bool { return d.Look(p, facts(bytes, 0, at)) != nil }
	for _, s := range []struct {
		bytes int64
		at    time.Duration
		want  bool
	}{{9 * gib, 0, false}, {9 * gib, 9 * time.Minute, false}, {gib, 9*time.Minute + 30*time.Second, false},
		{9 * gib, 11 * time.Minute, false}, {9 * gib, 20 * time.Minute, false}, {9 * gib, 21 * time.Minute, true},
		{9 * gib, 22 * time.Minute, false}, {9 * gib, 20 * time.Hour, false}, {9 * gib, 25 * time.Hour, true}} {
		if got := look(s.bytes, s.at); got != s.want {
			t.Errorf("at %v it is split: %v", s.at, got)
		}
	}
	d = NewDecider()
	look(9*gib, 0)
	d.Failed(p, start)
	if look(9*gib, time.Hour) || !look(9*gib, 25*time.Hour) {
		t.Error("a failure changes nothing, or too much")
	}
	p.Mode = "off"
	if d = NewDecider(); look(9*gib, 0) || look(9*gib, time.Hour) {
		t.Error("off is not off")
	}
	for _, bad := range []string{`{"mode":"on"}`, `{"mode":"auto"}`, `{"mode":"auto","shard_mb":4,"node_requests_per_s":3,"after":"x","pause":"1h"}`} {
		if _, err := Read([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
