package crossing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// The scripts in testdata: "set tier=auto window=10s", "commit 60 crossed=10 over=10s" (evenly
// spaced), each followed by what is in force; "seen" shows what was counted last.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		start := time.Unix(1000, 0)
		now := start
		p := New(now)
		params := Defaults()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "set":
				var tier, window string
				for _, a := range d.CmdArgs {
					switch a.Key {
					case "tier":
						d.ScanArgs(t, "tier", &tier)
						params.Setting = Setting(tier)
					case "window":
						d.ScanArgs(t, "window", &window)
						params.Window, _ = time.ParseDuration(window)
					case "least":
						d.ScanArgs(t, "least", &params.Least)
					case "above":
						params.Above = scanFloat(t, d, "above")
					case "below":
						params.Below = scanFloat(t, d, "below")
					}
				}
				if err := params.Validate(); err != nil {
					return err.Error()
				}
				p.Set(params, now)
			case "commit":
				var n, crossed int
				var over string
				d.ScanArgs(t, "n", &n)
				d.ScanArgs(t, "crossed", &crossed)
				d.ScanArgs(t, "over", &over)
				length, err := time.ParseDuration(over)
				if err != nil {
					t.Fatal(err)
				}
				for i := range n {
					now = now.Add(length / time.Duration(n))
					p.Committed((i+1)*crossed/n > i*crossed/n, now)
				}
			case "seen":
				s := p.Seen()
				return fmt.Sprintf("%d transactions, %d crossed\n", s.Transactions, s.Crossed)
			case "decisions":
				var b strings.Builder
				for _, x := range p.Decisions() {
					fmt.Fprintf(&b, "%v %s relay=%v: %s (%d of %d)\n", x.At.Sub(start).Round(100*time.Millisecond),
						x.Setting, x.Relay, x.Why, x.Crossed, x.Transactions)
				}
				return b.String()
			}
			relay, _ := p.Relay()
			return fmt.Sprintf("relay=%v", relay)
		})
	})
}

func scanFloat(t *testing.T, d *datadriven.TestData, key string) float64 {
	var s string
	d.ScanArgs(t, key, &s)
	var f float64
	if _, err := fmt.Sscan(s, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestValidate(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Fatal(err)
	}
	bad := Params{Setting: "both", Window: -1, Least: 0, Above: math.NaN(), Below: 2}
	err := bad.Validate()
	if err == nil {
		t.Fatal("nonsense passes")
	}
	for _, name := range []string{"tier is", "tier_window", "tier_least", "tier_above"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v: nothing about %s", err, name)
		}
	}
}

// Under any load the mode changes at most once a window, and never twice without the share having
// crossed both bounds.
func TestHysteresis(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 7))
		now := time.Unix(0, 0)
		p := New(now)
		params := Defaults()
		params.Setting, params.Window, params.Least = Auto, time.Second, 5
		p.Set(params, now)
		share := rng.Float64()
		for range 20_000 {
			now = now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
			if rng.IntN(2000) == 0 {
				share = rng.Float64()
			}
			p.Committed(rng.Float64() < share, now)
		}
		made := p.Decisions()
		for i := 1; i < len(made); i++ {
			a, b := made[i-1], made[i]
			if b.Setting != Auto || a.Setting != Auto {
				continue
			}
			if b.At.Sub(a.At) < params.Window {
				t.Fatalf("seed %d: %+v follows %+v within a window", seed, b, a)
			}
			got := float64(b.Crossed) / float64(b.Transactions)
			if a.Relay == b.Relay || b.Relay && got > params.Below || !b.Relay && got < params.Above {
				t.Fatalf("seed %d: %+v follows %+v", seed, b, a)
			}
		}
	}
}

// Few decisions are remembered, however many are made; the one in force is.
func TestDecisionsAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	p := New(now)
	params := Defaults()
	for i := range 1000 {
		params.Setting = []Setting{Relay, Strict}[i%2]
		p.Set(params, now)
	}
	if n := len(p.Decisions()); n > maxDecisions {
		t.Errorf("%d decisions are remembered", n)
	}
	if relay, _ := p.Relay(); relay {
		t.Error("the last word was strict")
	}
}
