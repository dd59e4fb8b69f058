package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/clock"
)

// TestClockProblems: what an operator is told of a clock.
func TestClockProblems(t *testing.T) {
	good := ClockStatus{Mode: "gclock", Source: "kernel", Verdict: "fine", Bound: time.Millisecond, MaxBound: 250 * time.Millisecond, Right: time.Second}
	for _, c := range []struct {
		change func(*ClockStatus)
		want   string
	}{
		{func(*ClockStatus) {}, ""},
		{func(c *ClockStatus) { c.Fenced, c.Verdict, c.Off = true, "wrong", -time.Second }, "outside its bound, by at least 1s"},
		{func(c *ClockStatus) { c.Fenced = true }, "taken into use again"},
		{func(c *ClockStatus) { c.Verdict, c.Off = "unsure", time.Second }, "cannot be told which is wrong"},
		{func(c *ClockStatus) { c.Stepped = time.Second }, "was set by 1s"},
		{func(c *ClockStatus) { c.Bound = time.Second }, "more than clock.max_bound"},
		{func(c *ClockStatus) { c.Source = "time server a:1, " + clock.Silent + "7s" }, "does not answer"},
		{func(c *ClockStatus) { c.Blocked = "waiting for node 2" }, "cannot change now: waiting for node 2"},
		{func(c *ClockStatus) { c.Right = -1 }, "no word from the meta group's leader"},
	} {
		x := good
		c.change(&x)
		got := clockProblems(&Status{Nodes: []NodeStatus{{ID: 1, Clock: &x}}})
		if c.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || c.want == "" || !strings.Contains(got[0], c.want) {
			t.Errorf("%+v: %q, want %q", x, got, c.want)
		}
	}
}
