package cluster

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/leader"
)

// LeaderParams are the settings leader.*.
type LeaderParams struct {
	Mode         string  `json:"mode"` // on, off, dry_run
	Window       int     `json:"window"`
	MaxWindow    int     `json:"max_window"`
	HoldDown     int     `json:"hold_down"`
	MinGainMs    float64 `json:"min_gain_ms"`
	MinGainShare float64 `json:"min_gain_share"`
	Commit       string  `json:"commit"`
	Load         string  `json:"load"`
	MayLead      string  `json:"may_lead"` // regions, with commas; empty: all
	Pin          string  `json:"pin"`      // GROUP=NODE, with blanks
}

// DefaultLeaderParams are the settings' defaults.
func DefaultLeaderParams() LeaderParams {
	return LeaderParams{Mode: "on", Window: 40, MaxWindow: 640, HoldDown: 10, MinGainMs: 1, MinGainShare: .05,
		Commit: string(leader.Quorum), Load: string(leader.Measured)}
}

func (p *LeaderParams) policy() leader.Params {
	return leader.Params{Window: p.Window, MaxWindow: p.MaxWindow, HoldDown: p.HoldDown,
		MinGain:      time.Duration(p.MinGainMs * float64(time.Millisecond)),
		MinGainShare: p.MinGainShare, Commit: leader.Commit(p.Commit), Load: leader.Load(p.Load)}
}

// Validate reports every bad setting.
func (p *LeaderParams) Validate() error {
	var errs []error
	if p.Mode != "on" && p.Mode != "off" && p.Mode != "dry_run" {
		errs = append(errs, base.Errorf(base.CodeInvalid, "leader.mode is %q; it must be on, off or dry_run", p.Mode))
	}
	if _, err := leader.New(p.policy()); err != nil {
		errs = append(errs, err)
	}
	if _, err := leader.ParsePins(p.Pin); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// mayLead reports whether the settings let a region lead.
func (p *LeaderParams) mayLead(t *base.Topology, r base.RegionID) bool {
	in := p.regions(t)
	return len(in) == 0 || slices.Contains(in, r)
}

// regions are those that may lead; empty: all.
func (p *LeaderParams) regions(t *base.Topology) (out []base.RegionID) {
	for _, name := range strings.Split(p.MayLead, ",") {
		for _, r := range t.Regions {
			if r.Name == strings.TrimSpace(name) {
				out = append(out, r.ID)
			}
		}
	}
	return out
}
