package whatif

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/sql/recording"
)

func recorded() *recording.File {
	f := &recording.File{Shards: 2}
	for i, n := range []string{"us-east-1", "us-west-2", "eu-west-1"} {
		f.Regions = append(f.Regions, recording.Region{Name: n, Nodes: 1})
		for range 4 {
			f.Sessions = append(f.Sessions, recording.Session{Region: i})
		}
	}
	f.RTT = [][]float64{{0, 64, 70}, {64, 0, 134}, {70, 134, 0}}
	return f
}

// TestPlanned: regions, who serves whom, and how far that is, for each change.
func TestPlanned(t *testing.T) {
	for _, c := range []struct {
		change Change
		want   string
	}{
		{Change{}, "us-east-1 us-west-2 eu-west-1 | 4 us-east-1>us-east-1 0s, 4 us-west-2>us-west-2 0s, 4 eu-west-1>eu-west-1 0s"},
		{Change{Drop: []string{"us-west-2"}}, "us-east-1 eu-west-1 | 4 us-east-1>us-east-1 0s, 4 us-west-2>us-east-1 64ms, 4 eu-west-1>eu-west-1 0s"},
		{Change{Add: []string{"ap-northeast-1"}, Clients: []Move{{"us-west-2", "ap-northeast-1", 0.5}}},
			"us-east-1 us-west-2 eu-west-1 ap-northeast-1 | 4 us-east-1>us-east-1 0s, 2 us-west-2>us-west-2 0s, " +
				"2 ap-northeast-1>ap-northeast-1 0s, 4 eu-west-1>eu-west-1 0s"},
		{Change{Add: []string{"atlantis"}}, "invalid: how far is us-east-1 from atlantis? Name a file with round trips (--matrix)"},
		{Change{Add: []string{"us-east-1"}}, "invalid: the cluster has the region us-east-1 already"},
		{Change{Drop: []string{"atlantis"}}, "invalid: the cluster has no region atlantis to drop"},
	} {
		p, err := planned(recorded(), c.change)
		if got := planText(p, err); got != c.want {
			t.Errorf("%+v: %s, want %s", c.change, got, c.want)
		}
	}
}

func planText(p *plan, err error) string {
	if err != nil {
		return err.Error()
	}
	var counts []string
	n := map[string]int{}
	for i, at := range p.at {
		k := fmt.Sprintf("%s>%s %v", at, p.regions[p.gateway[i]].Name, p.trip[i].Round(time.Millisecond))
		if n[k]++; n[k] == 1 {
			counts = append(counts, k)
		}
	}
	for i, k := range counts {
		counts[i] = fmt.Sprint(n[k], " ", k)
	}
	return strings.Join(p.m.Names, " ") + " | " + strings.Join(counts, ", ")
}

// TestInserted: the rows that a recording inserts are known by their keys, in all forms of INSERT.
func TestInserted(t *testing.T) {
	f := recorded()
	f.Tables = []recording.Table{{DB: "d", Name: "t", Columns: []string{"a", "b", "c"}, Key: []string{"b", "a"}}}
	f.Texts = []recording.Text{{Schema: "d", Text: "INSERT INTO t VALUES (?, ?, f(?, ?)), (?, ?, NULL)"},
		{Schema: "x", Text: "insert ignore d.`t` (c, B, a) values (?, ?, ?) ON DUPLICATE KEY UPDATE c = (?)"}, {Schema: "d", Text: "UPDATE t SET a = ?"}}
	f.Sessions[0].Steps = []recording.Step{{Text: 0, Args: []string{"1", "'x'", "5", "6", "2", "'y'"}},
		{Text: 1, Args: []string{"9", "'z'", "3", "7"}}, {Text: 2, Args: []string{"4"}}, {Text: 1, Args: []string{"9", "'w'", "3", "7"}, Failed: true}}
	p, err := planned(f, Change{})
	if err != nil {
		t.Fatal(err)
	}
	got := p.inserted()
	for _, want := range []string{"d.t\x00x\x001", "d.t\x00y\x002", "d.t\x00z\x003"} {
		if !got[want] {
			t.Errorf("%q is missing in %v", want, got)
		}
	}
	if len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// TestRefused: what cannot be played says so, and what fails in the play only is told.
func TestRefused(t *testing.T) {
	f := recorded()
	f.Sessions = nil
	if _, err := Play(t.Context(), f, Change{}, 1); err == nil || !strings.Contains(err.Error(), "nothing was recorded") {
		t.Error(err)
	}
	f = recorded()
	f.Tables = []recording.Table{{DB: "d", Name: "t", Create: "CREATE TABLE t (a INT PRIMARY KEY)", Columns: []string{"a"}, Key: []string{"a"}}}
	f.Texts = []recording.Text{{Schema: "d", Text: "SELECT a FROM t WHERE a = ?"}, {Schema: "d", Text: "SELECT b FROM t"}}
	f.Sessions[1].Steps = []recording.Step{{Text: 0, Args: []string{"1"}}, {Text: 1, Began: 1000}}
	if _, err := Play(t.Context(), f, Change{Do: []string{"ALTER TABLE d.nowhere ADD INDEX (a)"}}, 1); err == nil ||
		!strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
	r, err := Play(t.Context(), f, Change{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	broken := 0
	for _, l := range Compare(Measured(f), r, r) {
		broken += l.Broken
	}
	var text strings.Builder
	if err := Write(&text, Compare(Measured(f), r, r), r, r); err != nil {
		t.Fatal(err)
	}
	if broken != 1 || !strings.Contains(text.String(), "1 of 1 statements failed in the play only") {
		t.Errorf("%d failed:\n%s", broken, text.String())
	}
}
