package home

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
)

// Mode says who decides where a row lives.
type Mode string

// Modes. Always and Never are the baselines of PolyBase section 6.5.
const (
	Hotness Mode = "hotness" // the rules of the package comment
	Always  Mode = "always"  // every access of another region moves the row
	Never   Mode = "never"   // rows stay where they were made
)

// Duration is a time.Duration that JSON and SQL settings write as text: "1m0s".
type Duration time.Duration

// MarshalText writes "1m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// String shows the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// Bounds of the parameters; they bound memory and time.
const (
	maxHeatLimit = 100_000
	maxFreq      = 16       // timestamps in a vector
	maxPrefetch  = 32       // rows that go along
	maxMining    = 100_000  // rows in the mining table
	minMemory    = 64 << 10 // bytes
	maxDuration  = 24 * time.Hour
)

// Params are all settings of a [Policy]. A zero field takes its default; where
// it says so, a negative one switches the feature off. decay_time, lookahead,
// min_freq, rsize and mining_rows are PolyBase's, with the values of its section
// 6.2.
type Params struct {
	Mode   Mode `json:"mode"`
	DryRun bool `json:"dry_run"` // decide and report, but move nothing

	// DecayTime: a region that has left a row alone for longer loses half of its heat. Default 60
	// s.
	DecayTime Duration `json:"decay_time"`
	// ReadWeight and WriteWeight are what a transaction adds to the heat of its region; negative:
	// not counted at all. Default 1 and 1, since both cost a foreign region the same trip (the
	// paper counts writes only).
	ReadWeight  float64 `json:"read_weight"`
	WriteWeight float64 `json:"write_weight"`
	// MinHeat is the least heat, and the shortest run, that moves a row. Default 3.
	MinHeat int `json:"min_heat"`
	// Margin is how many times hotter than the home a region must be. Default 2.
	Margin float64 `json:"margin"`
	// MaxHeat halves all counters of a row when one of them reaches it, so that a busy row can
	// change its mind. Default 256.
	MaxHeat int `json:"max_heat"`
	// MinStay is how long a row that has moved stays; it doubles with every further move soon
	// after, up to MaxStay. Default 3 s (negative: none) and 60 s.
	MinStay Duration `json:"min_stay"`
	MaxStay Duration `json:"max_stay"`

	// Prefetch is the most rows that go along with one; negative: none, nothing is mined. Default
	// 8.
	Prefetch int `json:"prefetch"`
	// Lookahead is the largest distance, in transactions, of two accesses that belong together.
	// Default 5.
	Lookahead int `json:"lookahead"`
	// MinFreq is the number of accesses after which a row is mined. Default 10, at most 16.
	MinFreq int `json:"min_freq"`
	// RSize is the number of rows whose accesses are recorded. Default 100,000.
	RSize int `json:"rsize"`
	// MiningRows is the size of the mining table: so many rows are compared at a time. Default
	// 1,250.
	MiningRows int `json:"mining_rows"`
	// MineInterval bounds how long a mining table waits to fill up. Default 10 s.
	MineInterval Duration `json:"mine_interval"`
	// Confidence is the share of accesses that two rows must have together. Default 0.8.
	Confidence float64 `json:"confidence"`
	// MineWritesOnly leaves reads out of the mining, as in the paper.
	MineWritesOnly bool `json:"mine_writes_only"`

	// Memory bounds all of it, in bytes: half for heat, half for mining. Default 64 MiB; PolyBase
	// gives 5 % of the memory that is available.
	Memory int64 `json:"memory"`
}

// Defaults are the values that zero fields take.
func Defaults() Params {
	return Params{
		Mode:         Hotness,
		DecayTime:    Duration(60 * time.Second),
		ReadWeight:   1,
		WriteWeight:  1,
		MinHeat:      3,
		Margin:       2,
		MaxHeat:      256,
		MinStay:      Duration(3 * time.Second),
		MaxStay:      Duration(60 * time.Second),
		Prefetch:     8,
		Lookahead:    5,
		MinFreq:      10,
		RSize:        100_000,
		MiningRows:   1250,
		MineInterval: Duration(10 * time.Second),
		Confidence:   0.8,
		Memory:       64 << 20,
	}
}

// Filled returns p with the default in every zero field.
func (p Params) Filled() Params {
	d := Defaults()
	d.MaxStay = max(d.MaxStay, p.MinStay)
	to, from := reflect.ValueOf(&p).Elem(), reflect.ValueOf(d)
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return p
}

// complaints collects what is wrong with parameters.
type complaints []error

func (c *complaints) check(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

func (c *complaints) duration(name string, d Duration, least time.Duration) {
	c.check(time.Duration(d) >= least && time.Duration(d) <= maxDuration, "%s is %v; it must be between %v and %v",
		name, d, least, maxDuration)
}

func (c *complaints) number(name string, v, least, most int) {
	c.check(v >= least && v <= most, "%s is %d; it must be between %d and %d", name, v, least, most)
}

func (c *complaints) weight(name string, w float64) {
	c.check(finite(w) && w <= 100, "%s is %v; it must be at most 100", name, w)
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Validate reports every bad option of filled parameters together.
func (p Params) Validate() error {
	var c complaints
	c.check(p.Mode == Hotness || p.Mode == Always || p.Mode == Never, "mode is %q; it must be hotness, always or never", p.Mode)
	p.validateHeat(&c)
	p.validateMining(&c)
	c.check(p.Memory >= minMemory, "memory is %d bytes; it must be at least %d", p.Memory, minMemory)
	return errors.Join(c...)
}

// validateHeat checks what says when a row is hot enough to move.
func (p Params) validateHeat(c *complaints) {
	c.duration("decay_time", p.DecayTime, 10*time.Millisecond)
	c.weight("read_weight", p.ReadWeight)
	c.weight("write_weight", p.WriteWeight)
	c.number("min_heat", p.MinHeat, 1, 100)
	c.check(finite(p.Margin) && p.Margin >= 1 && p.Margin <= 100, "margin is %v; it must be between 1 and 100", p.Margin)
	c.number("max_heat", p.MaxHeat, 16, maxHeatLimit)
	c.check(float64(p.MaxHeat) >= p.Margin*float64(p.MinHeat),
		"max_heat is %d; it must be at least margin times min_heat", p.MaxHeat)
	c.check(time.Duration(p.MinStay) <= maxDuration, "min_stay is %v; it must be at most %v", p.MinStay, maxDuration)
	c.duration("max_stay", p.MaxStay, time.Duration(max(p.MinStay, 1)))
}

// validateMining checks what says which rows are used together.
func (p Params) validateMining(c *complaints) {
	c.check(p.Prefetch <= maxPrefetch, "prefetch is %d; it must be at most %d", p.Prefetch, maxPrefetch)
	c.number("lookahead", p.Lookahead, 1, 1000)
	c.number("min_freq", p.MinFreq, 2, maxFreq)
	c.number("rsize", p.RSize, 2, 100_000_000)
	c.number("mining_rows", p.MiningRows, 2, maxMining)
	c.duration("mine_interval", p.MineInterval, 10*time.Millisecond)
	c.check(p.Confidence > 0 && p.Confidence <= 1, "confidence is %v; it must be above 0 and at most 1", p.Confidence)
}

// settings are Params ready for use.
type settings struct {
	Params
	decay, minStay, maxStay, mineEvery uint32 // ticks
	read, write, upgrade               *steps // nil: not counted
	maxRows, maxVecs, vecBytes         int    // per stripe
	mine                               bool
}

func compile(p Params) (*settings, error) {
	p = p.Filled()
	if err := p.Validate(); err != nil {
		return nil, err
	}
	ticks := func(d Duration) uint32 { return uint32(max(d, 0) >> tickShift) }
	s := &settings{
		Params:    p,
		decay:     max(1, ticks(p.DecayTime)),
		minStay:   ticks(p.MinStay),
		maxStay:   ticks(p.MaxStay),
		mineEvery: max(1, ticks(p.MineInterval)),
		maxRows:   max(4, int(p.Memory/2/rowBytes/stripes)),
		maxVecs:   max(2, p.RSize/stripes),
		vecBytes:  int(p.Memory / 2 / stripes),
		mine:      p.Prefetch > 0 && p.Mode == Hotness,
	}
	if p.ReadWeight > 0 {
		s.read = makeSteps(p.ReadWeight)
	}
	if p.WriteWeight > 0 {
		s.write = makeSteps(p.WriteWeight)
		// A transaction that has read and now writes has its heaviest access counted.
		if more := p.WriteWeight - max(p.ReadWeight, 0); more > 0 {
			s.upgrade = makeSteps(more)
		}
	}
	return s, nil
}
