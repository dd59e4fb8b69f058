package history

import (
	"strings"
	"testing"
)

func TestCheckSnapshots(t *testing.T) {
	writes := []SnapshotWrite{{Key: "a", Value: "1", TS: 10}, {Key: "b", Value: "1", TS: 10},
		{Key: "a", Value: "2", TS: 20}, {Key: "b", Value: "2", TS: 20},
		{Key: "c", Value: "lost", Unknown: true}}
	row := func(a, b string) map[string]string { return map[string]string{"a": a, "b": b} }
	for name, c := range map[string]struct {
		reads []SnapshotRead
		want  string
	}{
		"fine":             {[]SnapshotRead{{1, 1, 5, row("", "")}, {1, 2, 15, row("1", "1")}, {1, 1, 20, row("2", "2")}}, ""},
		"two clients":      {[]SnapshotRead{{1, 1, 25, row("2", "2")}, {2, 2, 15, row("1", "1")}}, ""},
		"torn":             {[]SnapshotRead{{1, 1, 25, row("2", "1")}}, "b"},
		"incomplete":       {[]SnapshotRead{{1, 1, 15, row("", "")}}, "snapshot of 15"},
		"from the future":  {[]SnapshotRead{{1, 1, 15, row("2", "2")}}, "snapshot of 15"},
		"backwards":        {[]SnapshotRead{{1, 1, 25, row("2", "2")}, {1, 2, 15, row("1", "1")}}, "and then 15"},
		"unknown, shown":   {[]SnapshotRead{{1, 1, 25, map[string]string{"c": "lost"}}}, ""},
		"unknown, not yet": {[]SnapshotRead{{1, 1, 25, map[string]string{"c": ""}}}, ""},
	} {
		err := CheckSnapshots(writes, c.reads)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
