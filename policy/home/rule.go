package home

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Rule names what decided about an access.
type Rule string

// Rules that move a row, and rules that keep it.
const (
	RuleRun    Rule = "run"    // moves: one region alone has used the row for a while
	RuleHotter Rule = "hotter" // moves: one region uses it far more than the home
	RuleAlways Rule = "always" // moves: mode always

	RuleHome    Rule = "home"     // stays: asked for by its home
	RulePinned  Rule = "pinned"   // stays: the row or its table is pinned
	RuleNever   Rule = "never"    // stays: mode never
	RuleMinStay Rule = "min_stay" // stays: it has moved a moment ago
	RuleCold    Rule = "cold"     // stays: too few accesses so far
	RuleOther   Rule = "other"    // stays: a third region is hotter than the one that asks
	RuleMargin  Rule = "margin"   // stays: the home is too hot
	RuleUnknown Rule = "unknown"  // stays: a region that does not exist, or a row never seen
)

// Moves reports whether the rule moves a row.
func (r Rule) Moves() bool { return r == RuleRun || r == RuleHotter || r == RuleAlways }

// Heats is the heat of a row by region (index: region - 1), in weighted
// transactions. As JSON it is {"r1": 12.3, ...}, cold regions left out.
type Heats [base.MaxRegions]float32

// Of is the heat of a region.
func (h Heats) Of(r base.RegionID) float64 {
	if r < 1 || r > base.MaxRegions {
		return 0
	}
	return float64(h[r-1])
}

// String shows the regions that have heat, by number, as in "r1=3.0 r2=0.5".
func (h Heats) String() string {
	return h.text(func(r base.RegionID) string { return fmt.Sprintf("r%d", r) })
}

func (h Heats) text(name func(base.RegionID) string) string {
	var b strings.Builder
	for i, v := range h {
		if v != 0 {
			fmt.Fprintf(&b, " %s=%.1f", name(base.RegionID(i+1)), v)
		}
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()[1:]
}

// MarshalJSON writes {"r1": 12.3}.
func (h Heats) MarshalJSON() ([]byte, error) {
	m := map[string]float32{}
	for i, v := range h {
		if v != 0 {
			m[fmt.Sprintf("r%d", i+1)] = v
		}
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Heats) UnmarshalJSON(b []byte) error {
	var m map[string]float32
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*h = Heats{}
	for k, v := range m {
		var r int
		if n, err := fmt.Sscanf(k, "r%d", &r); n != 1 || err != nil || r < 1 || r > base.MaxRegions {
			return fmt.Errorf("%q is no region", k)
		}
		h[r-1] = v
	}
	return nil
}

// Reason is why a row moves or stays: the facts and the rule that they met.
type Reason struct {
	Rule   Rule          `json:"rule"`
	Mode   Mode          `json:"mode"`
	DryRun bool          `json:"dry_run,omitempty"`
	From   base.RegionID `json:"from"` // who asked
	Home   base.RegionID `json:"home"` // where the row lives
	Heat   Heats         `json:"heat"` // of each region, this access included
	// the heat that From needs: the larger of min_heat and margin times the home's
	Need   float64  `json:"need"`
	Run    int      `json:"run"` // accesses of From since anybody else was here
	RunFor int      `json:"run_needed"`
	Stay   Duration `json:"stay,omitempty"` // how much longer the row has to stay
	Quick  int      `json:"quick_moves,omitempty"`
	With   int      `json:"with,omitempty"` // correlated rows that go along
}

// String is [Reason.Text] with numbers for the regions.
func (r Reason) String() string {
	return r.Text(func(r base.RegionID) string { return fmt.Sprintf("r%d", r) })
}

// Text says it with names for the regions.
func (r Reason) Text(name func(base.RegionID) string) string {
	var why string
	from, home := name(r.From), name(r.Home)
	switch r.Rule {
	case "":
		return "nothing decided"
	case RuleRun:
		why = fmt.Sprintf("%s alone used it %d times in a row (%d needed)", from, r.Run, r.RunFor)
	case RuleHotter:
		why = fmt.Sprintf("%s has heat %.1f (%.1f needed)", from, r.Heat.Of(r.From), r.Need)
	case RuleAlways:
		why = "mode always"
	case RuleHome:
		why = "asked for by its home"
	case RulePinned:
		why = "pinned"
	case RuleNever:
		why = "mode never"
	case RuleMinStay:
		did := "moved"
		if r.DryRun {
			did = "moved, or would have,"
		}
		why = fmt.Sprintf("%s a moment ago, stays %v longer", did, time.Duration(r.Stay).Round(time.Millisecond))
	case RuleCold, RuleMargin:
		why = fmt.Sprintf("%s has heat %.1f (%.1f needed) and a run of %d (%d needed)", from, r.Heat.Of(r.From), r.Need,
			r.Run, r.RunFor)
	case RuleOther:
		why = fmt.Sprintf("%s has heat %.1f, another region more", from, r.Heat.Of(r.From))
	default:
		why = "never seen"
	}
	verb := fmt.Sprintf("stays at %s", home)
	if r.Rule.Moves() {
		verb = fmt.Sprintf("%s to %s", home, from)
		if r.DryRun {
			verb = "dry run: " + verb
		}
	}
	s := fmt.Sprintf("%s (%s): %s; heat %s", verb, r.Rule, why, r.Heat.text(name))
	if r.With > 0 {
		s += fmt.Sprintf("; %d correlated rows go along", r.With)
	}
	return s
}

// judge is the policy: what the counters of r say about an access by from.
func (s *settings) judge(r *row, from base.RegionID, now uint32) Rule {
	switch {
	case from == r.home:
		return RuleHome
	case r.flags&flagPinned != 0:
		return RulePinned
	case s.Mode == Never:
		return RuleNever
	case s.Mode == Always:
		return RuleAlways
	case r.stay(now, s) > 0:
		return RuleMinStay
	case r.asker == from && int(r.run) >= r.runNeeded(r.home, s):
		return RuleRun
	}
	heat := r.of(from)
	if heat < float64(s.MinHeat) {
		return RuleCold
	}
	for i, v := range r.heat {
		if base.RegionID(i+1) != r.home && estimate[v] > heat {
			return RuleOther
		}
	}
	if heat >= s.Margin*r.of(r.home) {
		return RuleHotter
	}
	return RuleMargin
}

func (s *settings) reason(r *row, rule Rule, from base.RegionID, now uint32) Reason {
	x := Reason{
		Rule: rule, Mode: s.Mode, DryRun: s.DryRun, From: from, Home: r.home, Heat: r.heats(),
		Need:   max(float64(s.MinHeat), s.Margin*r.of(r.home)),
		RunFor: r.runNeeded(r.home, s),
		Stay:   Duration(r.stay(now, s)) << tickShift,
		Quick:  int(r.quick),
	}
	if r.asker == from {
		x.Run = int(r.run)
	}
	return x
}

func (r *row) heats() (h Heats) {
	for i, v := range r.heat {
		h[i] = float32(estimate[v])
	}
	return h
}
