package crossing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Setting is what the operator wants.
type Setting string

// The settings.
const (
	Auto   Setting = "auto"
	Relay  Setting = "relay"
	Strict Setting = "strict"
)

// Params are the parameters of a [Policy].
type Params struct {
	Setting Setting
	Window  time.Duration // least length of a window
	Least   int           // transactions in one
	Above   float64       // share of transactions that cross from which on all use the same locks
	Below   float64       // share down to which the tiers are taken up again
}

// Defaults of the parameters.
func Defaults() Params {
	return Params{Setting: Auto, Window: 10 * time.Second, Least: 50, Above: 0.8, Below: 0.6}
}

// Validate reports everything that is wrong with the parameters.
func (p Params) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	share := func(f float64) bool { return !math.IsNaN(f) && f >= 0 && f <= 1 }
	check(p.Setting == Auto || p.Setting == Relay || p.Setting == Strict,
		"tier is %q; it must be auto, relay or strict", p.Setting)
	check(p.Window >= 100*time.Millisecond && p.Window <= time.Hour,
		"tier_window is %v; it must be between 100ms and 1h", p.Window)
	check(p.Least >= 1 && p.Least <= 1_000_000, "tier_least is %d; it must be between 1 and 1000000", p.Least)
	check(share(p.Above) && share(p.Below), "tier_above is %v and tier_below is %v; both must be between 0 and 1",
		p.Above, p.Below)
	check(!(p.Below >= p.Above), "tier_below is %v; it must be less than tier_above, %v", p.Below, p.Above)
	return errors.Join(errs...)
}

// Decision is a mode and why it was taken.
type Decision struct {
	At           time.Time
	Setting      Setting
	Relay        bool
	Why          string
	Transactions int // of the window that decided
	Crossed      int
}

// maxDecisions bounds the memory of them.
const maxDecisions = 100

// Policy counts one gateway's transactions. It is safe for concurrent use.
type Policy struct {
	mu      sync.Mutex
	p       Params
	relay   bool // of Auto, also while another setting holds
	begun   time.Time
	all     int
	crossed int
	seen    Seen
	made    []Decision // newest last; never empty

	now atomic.Pointer[inForce] // each transaction asks
}

// inForce is what a transaction asks for.
type inForce struct{ relay, auto bool }

// New makes a policy with the default parameters.
func New(now time.Time) *Policy {
	p := &Policy{relay: true, begun: now}
	p.set(Defaults(), now)
	return p
}

// Set takes parameters over, which must be valid.
func (p *Policy) Set(params Params, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(params, now)
}

func (p *Policy) set(params Params, now time.Time) {
	if params == p.p {
		return
	}
	was := p.p.Setting
	p.p = params
	if params.Setting == was {
		return
	}
	d := Decision{At: now, Relay: params.Setting == Relay, Why: "transaction.tier is " + string(params.Setting)}
	if params.Setting == Auto {
		p.restart(now)
		d.Relay, d.Why = p.relay, "transaction.tier is auto: counting begins"
	}
	p.note(d)
}

// note keeps a decision.
func (p *Policy) note(d Decision) {
	d.Setting = p.p.Setting
	if len(p.made) >= maxDecisions {
		p.made = append(p.made[:0], p.made[maxDecisions/2:]...)
	}
	p.made = append(p.made, d)
	p.now.Store(&inForce{relay: d.Relay, auto: d.Setting == Auto})
}

func (p *Policy) restart(now time.Time) { p.begun, p.all, p.crossed = now, 0, 0 }

// Seen is how many transactions a gateway had in some time, and how many of them crossed regions.
type Seen struct{ Transactions, Crossed int }

// Seen is what was counted in the newest window that has ended, whatever the setting was, or before
// the first one has ended.
func (p *Policy) Seen() Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen.Transactions == 0 {
		return Seen{p.all, p.crossed}
	}
	return p.seen
}

// Committed counts a transaction that locked or wrote; crossed tells whether it did so in other
// regions than its gateway's, too.
func (p *Policy) Committed(crossed bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all++
	if crossed {
		p.crossed++
	}
	if p.all < p.p.Least || now.Sub(p.begun) < p.p.Window {
		return
	}
	p.seen = Seen{p.all, p.crossed}
	share := float64(p.crossed) / float64(p.all)
	switch {
	case p.p.Setting != Auto:
	case p.relay && share >= p.p.Above:
		p.relay = false
		p.note(Decision{At: now, Transactions: p.all, Crossed: p.crossed,
			Why: fmt.Sprintf("%.0f %% of the transactions cross regions, at or above %.0f %%: "+
				"one kind of locks for all", 100*share, 100*p.p.Above)})
	case !p.relay && share <= p.p.Below:
		p.relay = true
		p.note(Decision{At: now, Relay: true, Transactions: p.all, Crossed: p.crossed,
			Why: fmt.Sprintf("%.0f %% of the transactions cross regions, at or below %.0f %%: "+
				"nobody inside a region waits for them", 100*share, 100*p.p.Below)})
	}
	p.restart(now)
}

// Relay reports whether transactions that begin now cross in a tier of their own, and whether the
// policy has decided that (Auto) or the operator.
func (p *Policy) Relay() (relay, auto bool) {
	now := p.now.Load()
	return now.relay, now.auto
}

// Params are those in force.
func (p *Policy) Params() Params {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.p
}

// Decisions are the newest ones, the one in force last.
func (p *Policy) Decisions() []Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.made)
}
