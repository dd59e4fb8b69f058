package opt

import (
	"fmt"
	"sync"
	"time"

	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

// Actual is what an operator of a plan did when it ran. Time and Trips are those of the operator
// and of what is below it.
type Actual struct {
	// Loops is how often the operator was opened, Rows how many rows it yielded in all loops.
	Loops, Rows int64
	Time        time.Duration
	// Trips are the round trips to other regions that it waited for.
	Trips float64
	// Workers is how many goroutines did it at once; 0: one. Time is that of all of them.
	Workers int
}

// Meter measures the operators of a plan for EXPLAIN ANALYZE.
type Meter struct {
	// Trips counts the round trips of the statement so far.
	Trips func() float64
	by    map[*Plan]*Actual

	mu     sync.Mutex
	copies map[*Actual][]*Actual // that worked in other goroutines
}

// Of is what an operator did; nil if it did not run as one of its own.
func (m *Meter) Of(p *Plan) *Actual {
	if m == nil || m.by[p] == nil {
		return nil
	}
	all := *m.by[p]
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.copies[m.by[p]] {
		all.Rows, all.Time = all.Rows+c.Rows, all.Time+c.Time
	}
	return &all
}

func (m *Meter) watch(p *Plan, op exec.Op) exec.Op {
	if m.by == nil {
		m.by, m.copies = map[*Plan]*Actual{}, map[*Actual][]*Actual{}
	}
	a := &Actual{}
	m.by[p] = a
	return &watched{Op: op, m: m, a: a, trips: m.Trips}
}

// watched is an operator that is measured.
type watched struct {
	exec.Op
	m     *Meter
	a     *Actual
	trips func() float64 // nil: nobody counts them
}

// Unwrap is the operator itself.
func (w *watched) Unwrap() exec.Op { return w.Op }

// Rewrap measures a copy of the operator, which works in another goroutine.
func (w *watched) Rewrap(op exec.Op) exec.Op {
	c := &watched{Op: op, m: w.m, a: &Actual{}}
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.m.copies[w.a] = append(w.m.copies[w.a], c.a)
	return c
}

// Shared notes how many goroutines have worked at once.
func (w *watched) Shared(workers int) { w.a.Workers = max(w.a.Workers, workers) }

// during adds what a call takes.
func (w *watched) during(f func() error) error {
	start, trips := time.Now(), 0.0
	if w.trips != nil {
		trips = w.trips()
	}
	err := f()
	w.a.Time += time.Since(start)
	if w.trips != nil {
		w.a.Trips += w.trips() - trips
	}
	return err
}

// Open implements exec.Op.
func (w *watched) Open(ctx *exec.Ctx) error {
	w.a.Loops++
	return w.during(func() error { return w.Op.Open(ctx) })
}

// Next implements exec.Op.
func (w *watched) Next() (b *expr.Batch, err error) {
	err = w.during(func() (err error) {
		b, err = w.Op.Next()
		return err
	})
	if b != nil {
		w.a.Rows += int64(len(b.Sel))
	}
	return b, err
}

// text is the end of a line of EXPLAIN ANALYZE. Rows are those of one loop, as in MySQL.
func (a *Actual) text() string {
	if a == nil {
		return ""
	}
	if a.Loops == 0 {
		return " (never executed)"
	}
	s := fmt.Sprintf(" (actual time=%.3f ms rows=%.4g loops=%d", float64(a.Time.Microseconds())/1000, a.perLoop(), a.Loops)
	if a.Trips > 0 {
		s += fmt.Sprintf(" trips=%.4g", a.Trips)
	}
	if a.Workers > 1 {
		s += fmt.Sprintf(" workers=%d", a.Workers)
	}
	return s + ")"
}

func (a *Actual) perLoop() float64 { return float64(a.Rows) / float64(max(a.Loops, 1)) }
