package advice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The scripts in testdata: "regions a b c rtt=(30,90,60)" names regions and the round trips of a-b,
// a-c, b-c; "table t [in=a|global|multi]", "use t by=a [write|insert] n=100 p50=30 trips=0.5" and
// "homes t by=a at=(1,0,3)", where the rows live that a uses, add facts, and so does "rows t n=5
// by=a reads=2 writes=3 named=0.9", rows that a uses, and "other", a text that is not understood;
// "placeable [name=(a,b,c)]" lets tables have placements, of which there is one; "led home=a
// at=(0,0,1)" says where rows of a home are led, and "stop home=a at=(1,0,0)" where they would be
// without a setting; "strict crossing=(0.3,0,0.9)" says that transactions cross regions with locks,
// and how many do; "relays" that they cross without; "advise" shows what follows.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		f := Facts{}
		rows := map[string]*sample{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "regions":
				f = Facts{Tick: 10, Epoch: 10, Lead: 300, Beat: 100}
				f.regions(t, d)
				clear(rows)
			case "table":
				f.Tables = append(f.Tables, f.readTable(t, d))
			case "homes":
				f.readHomes(t, d)
			case "rows":
				f.readRows(t, d, rows)
			case "placeable":
				f.Placeable = true
				for _, a := range d.CmdArgs {
					n := Named{Name: a.Key}
					for _, v := range a.Vals {
						n.Regions = append(n.Regions, f.region(t, v))
					}
					f.Placements = append(f.Placements, n)
				}
			case "led":
				if f.Led == nil {
					f.Led = f.athome()
				}
				f.readLed(t, d, f.Led)
			case "stop":
				s := Stop{Why: "somebody has set x", Do: "SET CLUSTER SETTING x = DEFAULT", GivesUp: "x", Led: f.athome()}
				f.readLed(t, d, s.Led)
				f.Stops = append(f.Stops, s)
			case "strict":
				f.Strict = true
				for _, v := range d.CmdArgs[0].Vals {
					var x float64
					fmt.Sscan(v, &x)
					f.Crossing, f.CouldRelay = append(f.Crossing, x), append(f.CouldRelay, x > 0 && x < 0.8)
				}
			case "relays":
				f.Relays = slices.Repeat([]bool{true}, len(f.Regions))
			case "other":
				f.Others = append(f.Others, d.Input)
			case "use":
				f.Uses = append(f.Uses, f.readUse(t, d))
			case "advise":
				return f.show(Advise(f))
			default:
				t.Fatalf("what is %s?", d.Cmd)
			}
			return ""
		})
	})
}

func (f *Facts) regions(t *testing.T, d *datadriven.TestData) {
	var rtt []float64
	for _, a := range d.CmdArgs {
		if a.Key == "rtt" {
			for _, v := range a.Vals {
				var x float64
				if _, err := fmt.Sscan(v, &x); err != nil {
					t.Fatal(err)
				}
				rtt = append(rtt, x)
			}
			continue
		}
		f.Regions = append(f.Regions, a.Key)
		f.Voters = append(f.Voters, 1)
		f.Age = append(f.Age, 60)
	}
	for range f.Regions {
		f.RTT = append(f.RTT, make([]float64, len(f.Regions)))
	}
	for i := range f.Regions {
		for j := i + 1; j < len(f.Regions); j++ {
			f.RTT[i][j], f.RTT[j][i] = rtt[0], rtt[0]
			rtt = rtt[1:]
		}
	}
}

func (f *Facts) region(t *testing.T, name string) int {
	i := slices.Index(f.Regions, name)
	if i < 0 {
		t.Fatalf("no region %s", name)
	}
	return i
}

func (f *Facts) readTable(t *testing.T, d *datadriven.TestData) Table {
	x := Table{Name: d.CmdArgs[0].Key, Quote: d.CmdArgs[0].Key, Key: []string{"id"}}
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "in":
			x.Locality, x.Region = ByTable, f.region(t, a.Vals[0])
		case "global":
			x.Locality = Global
		case "multi":
			x.Locality = MultiMaster
		case "async":
			x.Async = true
		case "single":
			x.Single = "it has foreign keys"
		case "unique":
			x.Unique, x.UniqueNames = append(x.Unique, a.Vals), append(x.UniqueNames, "by_"+strings.Join(a.Vals, "_"))
		}
	}
	return x
}

func (f *Facts) readHomes(t *testing.T, d *datadriven.TestData) {
	x := f.table(d.CmdArgs[0].Key)
	if x.Homes == nil {
		x.Homes = make([][]float64, len(f.Regions))
	}
	var by string
	d.ScanArgs(t, "by", &by)
	var row []float64
	for _, v := range d.CmdArgs[len(d.CmdArgs)-1].Vals {
		var x float64
		if _, err := fmt.Sscan(v, &x); err != nil {
			t.Fatal(err)
		}
		row = append(row, x)
	}
	x.Homes[f.region(t, by)] = row
}

func (f *Facts) athome() (out [][]float64) {
	for i := range f.Regions {
		out = append(out, make([]float64, len(f.Regions)))
		out[i][i] = 1
	}
	return out
}

func (f *Facts) readLed(t *testing.T, d *datadriven.TestData, led [][]float64) {
	var home string
	d.ScanArgs(t, "home", &home)
	at := led[f.region(t, home)]
	for i, v := range d.CmdArgs[len(d.CmdArgs)-1].Vals {
		if _, err := fmt.Sscan(v, &at[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// sample are the rows of a table that are used.
type sample struct {
	reads, writes [][]float64
	made          []int
}

func (f *Facts) readRows(t *testing.T, d *datadriven.TestData, all map[string]*sample) {
	x := f.table(d.CmdArgs[0].Key)
	s := all[x.Name]
	if s == nil {
		s = &sample{}
		all[x.Name] = s
	}
	var by string
	n, reads, writes, named := 0, 0, 0, 1.0
	d.ScanArgs(t, "by", &by)
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "n":
			a.Scan(t, 0, &n)
		case "reads":
			a.Scan(t, 0, &reads)
		case "writes":
			a.Scan(t, 0, &writes)
		case "named":
			fmt.Sscan(a.Vals[0], &named)
		}
	}
	for range n {
		r, w := make([]float64, len(f.Regions)), make([]float64, len(f.Regions))
		r[f.region(t, by)], w[f.region(t, by)] = float64(reads), float64(writes)
		s.reads, s.writes, s.made = append(s.reads, r), append(s.writes, w), append(s.made, -1)
	}
	x.Rows = RowHomes(s.reads, s.writes, s.made, named, x.Region)
}

func (f *Facts) readUse(t *testing.T, d *datadriven.TestData) Use {
	u := Use{Tables: []string{d.CmdArgs[0].Key}, Count: 100}
	for _, a := range d.CmdArgs[1:] {
		var x float64
		if len(a.Vals) == 1 {
			fmt.Sscan(a.Vals[0], &x)
		}
		switch a.Key {
		case "by":
			u.Region = f.region(t, a.Vals[0])
		case "with":
			u.Tables = append(u.Tables, a.Vals...)
		case "write":
			u.Kind = Write
		case "insert":
			u.Kind = Insert
		case "locks":
			u.Locks = true
		case "past":
			u.Past = true
		case "whole":
			u.Whole = true
		case "equal":
			u.Equal = a.Vals
		case "says":
			u.Digest = "`" + a.Vals[0] + "`"
		case "inside":
			u.Inside = x
		case "n":
			u.Count = uint64(x)
		case "p50":
			u.Least, u.P50, u.P99, u.Mean = x, x, x, x
		case "least":
			u.Least = x
		case "trips":
			u.Trips, u.Crossed = x, u.Count
		case "bytes":
			u.Bytes = x
		}
	}
	if u.Crossed > 0 {
		u.Crossed = u.Count
	}
	return u
}

// show is advice as text.
func (f *Facts) show(all []Advice) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "%s: %s\n  why: %s\n", a.Kind, a.Do, a.Why)
		if a.GivesUp != "" {
			fmt.Fprintf(&b, "  gives up: %s\n", a.GivesUp)
		}
		for _, e := range a.Effects {
			fmt.Fprintf(&b, "  %d %ss from %s: p50 %.1f -> %.1f ms, p99 %.1f -> %.1f, avg %.1f -> %.1f, trips %.2f -> %.2f, bytes %.0f -> %.0f\n",
				e.Statements, e.Kind, f.Regions[e.Region], e.Before.P50, e.After.P50, e.Before.P99, e.After.P99, e.Before.Mean, e.After.Mean, e.Before.Trips,
				e.After.Trips, e.Before.Bytes, e.After.Bytes)
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// TestQuorum: the nearest majority of the voters, in clusters of one to five regions.
func TestQuorum(t *testing.T) {
	for _, c := range []struct {
		voters []int
		want   []float64
	}{
		{[]int{1}, []float64{0}},
		{[]int{3}, []float64{0}},
		{[]int{2, 1}, []float64{0, 10}},
		{[]int{1, 1}, []float64{10, 10}},
		{[]int{1, 1, 1}, []float64{10, 10, 10}},
		{[]int{1, 1, 1, 1, 1}, []float64{20, 10, 10, 10, 20}},
	} {
		f := Facts{Voters: c.voters}
		for i := range c.voters { // on a line, 10 ms apart
			f.Regions = append(f.Regions, fmt.Sprint(i))
			row := make([]float64, len(c.voters))
			for j := range row {
				row[j] = 10 * float64(max(i-j, j-i))
			}
			f.RTT = append(f.RTT, row)
		}
		for i, want := range c.want {
			if got := f.quorum(Place{}, i); got != want {
				t.Errorf("voters %v: the quorum of region %d is %v away, want %v", c.voters, i, got, want)
			}
		}
	}
}

// TestElsewhereOfSeveralNodes: what the nodes of a region have counted of a digest is one use, and
// what the model does not explain has no figures.
func TestElsewhereOfSeveralNodes(t *testing.T) {
	use := Use{Digest: "UPDATE t", Tables: []string{"d.t"}, Kind: Write, Trips: 1, Bytes: 220}
	one, two, odd := use, use, use
	one.Count, one.Crossed, one.P50, one.P99, one.Mean, one.Least = 30, 30, 30, 33, 30, 30
	two.Count, two.Crossed, two.P50, two.P99, two.Mean, two.Least = 10, 10, 34, 80, 38, 31
	odd.Digest, odd.Trips, odd.Count = "UPDATE t, with a unique index", 2, 50
	f := Facts{Regions: []string{"a", "b", "c"}, RTT: [][]float64{{0, 30, 90}, {30, 0, 60}, {90, 60, 0}}, Voters: []int{1, 1, 1},
		Tables: []Table{{Name: "d.t", Place: Place{Locality: ByTable}}}, Uses: []Use{one, odd, two}}
	got := f.Elsewhere(nil, nil)
	if len(got) != 4 {
		t.Fatalf("%d predictions, want those of two digests in two regions: %+v", len(got), got)
	}
	for i, want := range []struct {
		region    int
		ms, trips float64
	}{{1, 60, 2}, {2, 120, 2}} {
		e := got[i]
		if u := e.Use; u.Count != 40 || u.Mean != 32 || u.P50 != 30 || u.P99 != 80 || u.Least != 30 {
			t.Errorf("both nodes together have %+v", u)
		}
		if e.Region != want.region || e.P50 != want.ms || e.P99 != want.ms || e.Trips != want.trips || e.Unknown != "" {
			t.Errorf("in region %d: %+v, want %+v", e.Region, e.Figures, want)
		}
		if e = got[2+i]; !strings.Contains(e.Unknown, "2.0 round trips in a, where its tables and rows explain 1.0") || e.Figures != (Figures{}) {
			t.Errorf("what is not explained is %+v", e)
		}
	}
	// If another region leads the groups, it is near to them.
	if got = f.Elsewhere(Led{{0, 0.5, 0.5}}, nil); got[0].Region != 1 || got[0].Unknown == "" {
		t.Errorf("a use that was measured while the table was led elsewhere: %+v", got[0])
	}
}
