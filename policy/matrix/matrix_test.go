package matrix

import (
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

func TestBuiltinMatricesAreComplete(t *testing.T) {
	want := map[string]int{AWS: 33, AWSP90: 33, AWS2022: 21, Clouds: 69, PlanetLab: 490, Relay: 5, ThreeCity: 3}
	for _, name := range Builtin() {
		m, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if m.Len() != want[name] {
			t.Errorf("%s has %d regions", name, m.Len())
		}
		if _, err := m.First(m.Len()); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open("mars"); base.CodeOf(err) != base.CodeInvalid {
		t.Error(err)
	}
}

func TestDefaultRegions(t *testing.T) {
	m, err := Default(DefaultRegions)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.Names, " "); got != "us-east-1 us-west-2 eu-west-1 ap-northeast-1 sa-east-1" {
		t.Error(got)
	}
	for i := range m.Names {
		for j := range m.Names {
			if d := m.OneWay(i, j); i != j && (d < 10*time.Millisecond || d > 200*time.Millisecond) {
				t.Errorf("%s to %s takes %v", m.Names[i], m.Names[j], d)
			}
		}
	}
	if _, err := Default(7); err != nil {
		t.Error(err)
	}
	for _, n := range []int{0, 8} {
		if _, err := Default(n); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("%d regions: %v", n, err)
		}
	}
}

func TestOneWayIsHalfTheRoundTrip(t *testing.T) {
	m, err := Open(ThreeCity)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Pick("C", "A")
	if err != nil {
		t.Fatal(err)
	}
	if d := p.OneWay(0, 1); d != 17500*time.Microsecond {
		t.Error(d)
	}
	if w := m.OneWays(); w[0][1] != 12500*time.Microsecond || w[1][1] != 0 || w[1][2] != 27500*time.Microsecond {
		t.Error(w)
	}
	for i, want := range []time.Duration{25, 25, 35} {
		if q := m.Quorum(i); q != want*time.Millisecond {
			t.Errorf("quorum of %s is %v", m.Names[i], q)
		}
	}
}

func TestBlankTakesTheOppositeDirection(t *testing.T) {
	m, err := Parse(strings.NewReader("a,b,c\n,10,\n,1.5,7\n,8,\n"), "test")
	if err != nil {
		t.Fatal(err)
	}
	if m.RTT[1][0] != 10*time.Millisecond || m.RTT[0][0] != 0 || m.RTT[1][1] != 1500*time.Microsecond ||
		m.RTT[2][1] != 8*time.Millisecond {
		t.Error(m.RTT)
	}
	if _, err := m.Pick("a", "b"); err != nil {
		t.Error(err)
	}
	if _, err := m.First(3); err == nil || !strings.Contains(err.Error(), "between a and c was not measured") {
		t.Error(err)
	}
}

func TestBadInputIsExplained(t *testing.T) {
	for in, want := range map[string]string{
		"":                    "needs a header",
		"a,b\n":               "needs a header",
		"a,b\n0,1\n":          "must be square",
		"a,b\n0,1\n1\n":       "has 1 values instead of 2",
		"a,a\n0,1\n1,0\n":     "columns 1 and 2",
		"a,\n0,1\n1,0\n":      "column 2 of the header has no name",
		"a,b\n0,x\n1,0\n":     `from a to b: "x" is not a number`,
		"a,b\n0,-1\n1,0\n":    "from a to b: -1 ms is not",
		"a,b\n0,NaN\n1,0\n":   "is not a round-trip time",
		"a,b\n0,90000\n1,0\n": "the unit is ms",
		"a,b\n0,\"1\n1,0\n":   "latency matrix test",
	} {
		_, err := Parse(strings.NewReader(in), "test")
		if base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
	m, _ := Open(Relay)
	for _, names := range [][]string{nil, {"Ohio", "Ohio"}, {"Atlantis"}} {
		if _, err := m.Pick(names...); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("%q: %v", names, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a,b\n0,1\n1,0\n")
	f.Add("a,b\n,1\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		m, err := Parse(strings.NewReader(in), "fuzz")
		if err == nil && len(m.RTT) != len(m.Names) {
			t.Error("not square")
		}
	})
}

func TestSeriesIsComplete(t *testing.T) {
	ms, err := Seattle()
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) != 688 {
		t.Fatalf("%d times", len(ms))
	}
	for _, m := range ms {
		if _, err := m.First(10); err != nil {
			t.Fatal(err)
		}
	}
	// The file's first line.
	if got := ms[0].RTT[0][3]; got != 200*time.Millisecond {
		t.Error(got)
	}
}
