package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Kinds of statements. Systems in which all rows are alike have own rows only.
const (
	Own         = "own rows"
	Inserts     = "own inserts"  // AUTO_INCREMENT keys
	Turns       = "keys in turn" // inserts of keys that lie between those of other regions
	Foreign     = "foreign rows"
	Global      = "GLOBAL"
	MultiMaster = "MULTI MASTER"
	Async       = "ASYNC"
)

// Kinds lists them as figures show them.
var Kinds = []string{Own, Inserts, Turns, Foreign, Global, MultiMaster, Async}

const (
	// pace is the pause of a client between two statements, on average: half of it and the same
	// again at most. Else a client's commits would fall into step with the epochs of MULTI MASTER
	// tables, and take 50 or 105 ms each, for as long as nothing disturbs them.
	pace = 40 * time.Millisecond
	// patience is when a client gives a statement up.
	patience = 20 * time.Second
	// Hang is the time above which a statement is counted as one that hangs.
	Hang = 5 * time.Second
)

// outcome is what a client knows of a statement.
type outcome int

const (
	refused outcome = iota // nothing was changed
	unknown                // the answer is missing, or does not say
	served
)

// stream is one client that repeats one statement.
type stream struct {
	region string // of the client
	kind   string
	of     string // the home of a foreign row
	write  bool
	// do runs the statement once.
	do func(ctx context.Context) (outcome, error)

	mu      sync.Mutex
	events  []event
	begun   time.Time // the statement that runs; zero between statements
	lastErr error
	wrong   error // the first answer that contradicts what was acknowledged
}

type event struct {
	begin, end time.Time
	outcome    outcome
}

func (s *stream) String() string {
	what := "reads"
	if s.write {
		what = "writes"
	}
	if s.of != "" {
		return fmt.Sprintf("%s %s %s of %s", s.region, what, s.kind, s.of)
	}
	return fmt.Sprintf("%s %s %s", s.region, what, s.kind)
}

// run repeats the statement until ctx ends.
func (s *stream) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.once(ctx)
		sleep(ctx, pace/2+rand.N(pace))
	}
}

func (s *stream) once(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, patience)
	defer cancel()
	begin := time.Now()
	s.mu.Lock()
	s.begun = begin
	s.mu.Unlock()
	o, err := s.do(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = time.Time{}
	s.events = append(s.events, event{begin, time.Now(), o})
	if err != nil && parent.Err() == nil {
		s.lastErr = err
	}
	if errors.Is(err, errStale) && s.wrong == nil {
		s.wrong = err
	}
}

// violation is the first answer that contradicts what was acknowledged.
func (s *stream) violation() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrong
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Client is what one client met in a window of time.
type Client struct {
	Region string `json:"region"`
	Kind   string `json:"kind"`
	Of     string `json:"of,omitempty"`
	Write  bool   `json:"write"`
	// Gap is the longest time without service.
	Gap time.Duration `json:"gap"`
	// Back is set if the client was served again before the window ended.
	Back bool `json:"back"`
	// Hung counts statements above [Hang], Longest is the longest of all.
	Hung    int           `json:"hung"`
	Longest time.Duration `json:"longest"`
	Served  int           `json:"served"`
	// Before and After are medians of latency, before the fault and at the end.
	Before time.Duration `json:"before"`
	After  time.Duration `json:"after"`
	Err    string        `json:"err,omitempty"` // the last one
}

// window is the time of a fault: it strikes at hit, and is watched until end. Latencies are taken
// from before on, and from after on.
type window struct{ before, hit, after, end time.Time }

// look sums up what happened in a window. Events before it are forgotten.
func (s *stream) look(w window) Client {
	s.mu.Lock()
	events, begun := slices.Clone(s.events), s.begun
	c := Client{Region: s.region, Kind: s.kind, Of: s.of, Write: s.write}
	if s.lastErr != nil {
		c.Err = s.lastErr.Error()
		s.lastErr = nil
	}
	s.events = slices.DeleteFunc(s.events, func(e event) bool { return e.end.Before(w.before) })
	s.mu.Unlock()

	if !begun.IsZero() { // a statement that has not ended yet
		events = append(events, event{begun, w.end, unknown})
	}
	last := w.hit
	for _, e := range events {
		if e.outcome == served && !e.end.After(w.hit) {
			last = e.end
		}
	}
	from := last
	for _, e := range events {
		if e.end.Before(w.hit) || e.begin.After(w.end) {
			continue
		}
		d := e.end.Sub(e.begin)
		c.Longest = max(c.Longest, d)
		if d > Hang {
			c.Hung++
		}
		if e.outcome != served || e.end.After(w.end) {
			continue
		}
		c.Served++
		c.Gap = max(c.Gap, e.end.Sub(last))
		last = e.end
	}
	// A client is back if its last silence is no longer than those of its slowest statements.
	rest := w.end.Sub(last)
	c.Back = last != from && rest < max(2*time.Second, c.Before*4)
	c.Gap = max(c.Gap, rest)
	c.Before, c.After = median(events, w.before, w.hit), median(events, w.after, w.end)
	return c
}

// median is that of the statements that were served within a time.
func median(events []event, from, to time.Time) time.Duration {
	var ds []time.Duration
	for _, e := range events {
		if e.outcome == served && !e.begin.Before(from) && !e.end.After(to) {
			ds = append(ds, e.end.Sub(e.begin))
		}
	}
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[len(ds)/2]
}
