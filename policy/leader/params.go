package leader

import (
	"errors"
	"fmt"
	"time"
)

// Commit says what the time of a commit is estimated from.
type Commit string

// Estimates of q, see the package comment.
const (
	Quorum Commit = "quorum" // the round trip to the nearest majority
	Median Commit = "median" // the paper's: the median round trip to all other voters
)

// Load says what is made of the requests that nodes count.
type Load string

// Uses of the load.
const (
	Measured Load = "measured" // popularity and write ratio, as GeoLM
	Uniform  Load = "uniform"  // every node counts alike: the paper's GeoLM-Poor
	Ignored  Load = "ignored"  // the fastest quorum leads: as Raft-Plus
)

// Params are the settings of a [Policy]. A zero field takes its default; where it says so, a
// negative one switches the feature off.
type Params struct {
	// Window is the first and shortest damping window, in heartbeats. Default 40, the paper's.
	Window int `json:"window"`
	// MaxWindow bounds its doubling. Default 16 times Window.
	MaxWindow int `json:"max_window"`
	// HoldDown is how many heartbeats after a change of the leader are not looked at, and how long
	// a node must have been able before placement makes it lead. Default 10; negative: none.
	HoldDown int `json:"hold_down"`
	// MinGain is the least that an average request must save. Default 1 ms; negative: anything
	// above nothing.
	MinGain time.Duration `json:"min_gain"`
	// MinGainShare is the same as a share of what an average request takes now. Default 0.05;
	// negative: any.
	MinGainShare float64 `json:"min_gain_share"`
	Commit       Commit  `json:"commit"` // default quorum
	Load         Load    `json:"load"`   // default measured
}

// Bounds of the parameters.
const maxWindow = 1 << 20

// Undamped switches off all that keeps the lead from moving: the baseline of the paper's Figure
// 12(a).
func (p Params) Undamped() Params {
	p.Window, p.MaxWindow, p.HoldDown, p.MinGain, p.MinGainShare = 1, 1, -1, -1, -1
	return p
}

func (p Params) filled() (Params, error) {
	if p.Window == 0 {
		p.Window = 40
	}
	if p.MaxWindow == 0 {
		p.MaxWindow = min(16*p.Window, maxWindow)
	}
	if p.HoldDown == 0 {
		p.HoldDown = 10
	}
	if p.MinGain == 0 {
		p.MinGain = time.Millisecond
	}
	if p.MinGainShare == 0 {
		p.MinGainShare = .05
	}
	if p.Commit == "" {
		p.Commit = Quorum
	}
	if p.Load == "" {
		p.Load = Measured
	}
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(p.Window < 1 || p.Window > maxWindow, "window %d: 1 to %d heartbeats", p.Window, maxWindow)
	bad(p.MaxWindow < p.Window || p.MaxWindow > maxWindow, "max_window %d: at least the window of %d, at most %d",
		p.MaxWindow, p.Window, maxWindow)
	bad(p.HoldDown > maxWindow, "hold_down %d: at most %d heartbeats", p.HoldDown, maxWindow)
	bad(p.MinGainShare >= 1 || p.MinGainShare != p.MinGainShare, "min_gain_share %v: less than 1", p.MinGainShare)
	bad(p.Commit != Quorum && p.Commit != Median, "commit %q: %s or %s", p.Commit, Quorum, Median)
	bad(p.Load != Measured && p.Load != Uniform && p.Load != Ignored, "load %q: %s, %s or %s", p.Load, Measured, Uniform, Ignored)
	p.HoldDown, p.MinGain, p.MinGainShare = max(p.HoldDown, 0), max(p.MinGain, 0), max(p.MinGainShare, 0)
	return p, errors.Join(errs...)
}
