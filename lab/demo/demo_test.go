package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/lab/workload"
	"github.com/godwitdb/godwit/obs"
)

// counted makes counts of n statements of each kind, which took ms each.
func counted(n int, ms map[string]int) Counts {
	c := Counts{Kinds: map[string]Kind{}}
	for kind, d := range ms {
		var h obs.Histogram
		for range n {
			h.Observe(time.Duration(d) * time.Millisecond)
		}
		c.Kinds[kind] = Kind{Latency: h.Snapshot()}
	}
	return c
}

func TestFiguresOfAnInterval(t *testing.T) {
	old := counted(100, map[string]int{"select": 500})
	old.Transactions, old.WANHops, old.WANBytes = 10, 100, 1000
	now := counted(100, map[string]int{"select": 500, "update": 2})
	now.add(counted(50, map[string]int{"select": 10}))
	now.Transactions, now.WANHops, now.WANBytes = 30, 130, 5000
	rows := between([]string{"eu"}, map[string]Counts{"eu": old}, map[string]Counts{"eu": now}, 10*time.Second)
	f := rows[0]
	if f.Statements != 150 || f.StatementRate != 15 || f.Transactions != 20 || f.RoundTrips != 0.75 || f.Bytes != 200 {
		t.Errorf("got %+v", f)
	}
	if len(f.Kinds) != 2 || f.Kinds[0].Kind != "select" || f.Kinds[0].Count != 50 {
		t.Fatalf("got %+v", f.Kinds)
	}
	// Histograms are exact to a sixteenth.
	if p := f.Kinds[0].P99; p < 10 || p > 10.7 {
		t.Errorf("p99 of the interval is %v ms, want that of its 10 ms statements", p)
	}
	if rows[1].Region != "all" || rows[1].Statements != f.Statements {
		t.Errorf("got %+v", rows[1])
	}
}

func TestARegionWithoutTrafficOrCounts(t *testing.T) {
	rows := between([]string{"eu", "us"}, nil, map[string]Counts{"eu": counted(1, map[string]int{"select": 1})}, time.Second)
	got := Table(rows, nil)
	want := []string{"region", "eu", "us", "all"}
	for i, l := range got {
		if !strings.HasPrefix(l, want[i]) {
			t.Errorf("line %d is %q", i, l)
		}
	}
	if !strings.Contains(got[2], "-") {
		t.Errorf("no traffic shows as %q", got[2])
	}
}

func TestTableColumnsStay(t *testing.T) {
	rows := between([]string{"a-long-region-name", "b"}, nil, map[string]Counts{
		"a-long-region-name": counted(3, map[string]int{"zzz": 1, "commit": 5, "select": 1})}, time.Second)
	lines := Table(rows, nil)
	if !strings.HasSuffix(lines[0], "select ms  commit ms     zzz ms") {
		t.Errorf("head is %q", lines[0])
	}
	for _, l := range lines {
		if len(l) > len(lines[0]) {
			t.Errorf("%q is longer than the head", l)
		}
	}
}

func TestScreenRedrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, func() (int, int) { return 10, 4 })
	s.Draw([]string{"one", "two"})
	s.Draw([]string{"a much longer line", "2", "3", "4", "5"})
	if got, want := out.String(), "one\ntwo\n\r\x1b[2A\x1b[Ja much lon\n2\n3\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	if _, err := s.Write([]byte("log")); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "\r\x1b[3A\x1b[Jlog\na much lon\n2\n3\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	s.Leave()
	s.Draw([]string{"new"})
	if got := out.String(); got != "new\n" {
		t.Errorf("got %q", got)
	}
}

func TestScreenAppendsElsewhere(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, nil)
	s.Draw([]string{"one"})
	s.Draw([]string{"two"})
	if got := out.String(); got != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

func TestReportSaysWhyItIsNotOK(t *testing.T) {
	good := workload.CheckResult{Name: "total", OK: true}
	for name, c := range map[string]struct {
		checks []workload.CheckResult
		err    error
		errors uint64
		want   string
	}{
		"all is well": {checks: []workload.CheckResult{good}},
		"a failed check": {checks: []workload.CheckResult{good, {Name: "3.3.2.1", Detail: "w 1"}},
			want: "check 3.3.2.1 failed: w 1"},
		"no check":         {err: errors.New("gone"), want: "the checks could not be evaluated: gone"},
		"a client's error": {checks: []workload.CheckResult{good}, errors: 2, want: "clients saw 2 errors, most often boom"},
	} {
		r := &Report{Run: &workload.Report{Total: workload.KindStats{Errors: c.errors, Retries: 7},
			Errors: []workload.ErrorCount{{Text: "boom", Count: 2}}}}
		r.judge(c.checks, c.err)
		switch err := r.Err(); {
		case c.want == "" && (err != nil || !r.OK || !r.ChecksPassed):
			t.Errorf("%s: got %v, %+v", name, err, r)
		case c.want != "" && (err == nil || err.Error() != c.want || r.OK):
			t.Errorf("%s: got %v", name, err)
		}
		var out bytes.Buffer
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "ok: ") != r.OK {
			t.Errorf("%s: report says\n%s", name, out.String())
		}
	}
}

func TestReportJSONHasNoNull(t *testing.T) {
	body, err := json.Marshal(&Report{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(body), "null") {
		t.Errorf("a reader would meet null: %s", body)
	}
}

// counter is a cluster that serves a statement every time it is asked.
type counter struct{ n int }

func (c *counter) Regions() []string        { return []string{"eu"} }
func (c *counter) SQLAddrs(string) []string { return []string{"127.0.0.1:1"} }
func (c *counter) Counts() map[string]Counts {
	c.n++
	return map[string]Counts{"eu": counted(c.n, map[string]int{"select": 1})}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3500*time.Millisecond, cancel)
		var out bytes.Buffer
		r := Watch(ctx, &counter{}, Options{Interval: time.Second, Screen: NewScreen(&out, nil)})
		if got := strings.Count(out.String(), "region"); got != 3 {
			t.Errorf("%d tables, want 3:\n%s", got, out.String())
		}
		if !r.OK || r.All.Statements != 4 || r.Elapsed != 3.5 || len(r.Regions[0].SQL) != 1 {
			t.Errorf("got %+v", r)
		}
		if r = Watch(t.Context(), &counter{}, Options{Duration: 2 * time.Second, Screen: NewScreen(&out, nil)}); r.Elapsed != 2 {
			t.Errorf("ran %v s, want 2", r.Elapsed)
		}
	})
}

func TestTargetsAreTheRegions(t *testing.T) {
	got := targets(&counter{}, "ycsb-t")
	if len(got) != 1 || got[0].Region != "eu" || got[0].URLs[0] != "mysql://root@127.0.0.1:1/ycsb_t" {
		t.Errorf("got %+v", got)
	}
}

func TestTravelTable(t *testing.T) {
	ms := time.Millisecond
	got := TravelTable([]workload.RegionStats{{Region: "eu", Kinds: []workload.KindStats{
		{Kind: "home-read", Count: 9, Rate: 4, P50: ms, P99: 2 * ms, Measured: 9},
		{Kind: "arrived-update", Count: 3, Rate: 1.5, P50: 100 * ms, P99: 200 * ms, Measured: 3, RoundTrips: 2.5},
	}}, {Region: "us"}}, map[string]int64{"eu": 7})
	want := [][]string{
		{"region", "users", "who", "are", "stmt/s", "read", "p50/p99", "ms", "RTT/read", "update", "p50/p99",
			"ms", "RTT/update", "rows", "moved", "here"},
		{"eu", "at", "home", "4.00", "1.00/2.00", "0.00", "-", "-", "7"},
		{"just", "arrived", "1.50", "-", "-", "100/200", "2.50"},
		{"settled", "0", "-", "-", "-", "-"},
		{"us", "at", "home", "0", "-", "-", "-", "-", "0"},
	}
	if len(got) != 7 {
		t.Fatalf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i, w := range want {
		if g := strings.Fields(got[i]); strings.Join(g, " ") != strings.Join(w, " ") {
			t.Errorf("line %d is %q, want %q", i, g, w)
		}
	}
}
