package fn

import (
	"context"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/aside"
	"github.com/godwitdb/godwit/sql/expr"
)

// A call of a function for one row is not interrupted. Where it may take tens of milliseconds it
// runs aside, and the statement waits for it no longer than it may go on.

// longCall is from how many bytes of strings on a call runs aside: most functions take 1 to 5 ns
// for each.
const longCall = 4 << 20

// call is a function for rows that are computed here or aside.
type call struct {
	env *expr.Env
	run rowEval
	// make makes the function again, for what runs aside, with what that may know of the statement.
	make func(env *expr.Env) (rowEval, error)
	long func(a []*expr.Vec, i int32) bool
}

func longArgs(a []*expr.Vec, i int32) bool { return together(a, i) >= longCall }

func (c *call) eval(a []*expr.Vec, i int32, v *expr.Vec) error {
	if !c.long(a, i) {
		return c.run(a, i, v)
	}
	apart := &apart{of: c.env}
	run, err := c.make(apart.env())
	if err != nil {
		return err
	}
	args := make([]*expr.Vec, len(a))
	for k, x := range a {
		args[k] = &expr.Vec{}
		args[k].Reset(x.T, 1)
		args[k].Put(0, x.At(i))
	}
	out := &expr.Vec{}
	out.Reset(v.T, 1)
	bytes := 2 * int64(together(a, i)) // its result may be as long as its arguments
	ended := aside.Calls.Run(c.env.Ctx, func() (func(), error) {
		apart.leave()
		if c.env.Held == nil {
			return func() {}, nil
		}
		return c.env.Held(bytes)
	}, func() { err = run(args, 0, out) })
	if ended != nil {
		return ended
	}
	if err == nil {
		v.Put(int(i), out.At(0))
	}
	return err
}

// apart is what a call that runs aside knows of its statement: nothing any more once that has left.
type apart struct {
	mu   sync.Mutex
	left bool
	of   *expr.Env
}

func (p *apart) env() *expr.Env {
	e := *p.of
	e.Ctx = apartContext{e.Ctx, p}
	if e.Mem != nil {
		e.Mem = apartMemory{p}
	}
	if e.Warn != nil {
		e.Warn = func(code int, msg string) { _ = p.with(func() error { p.of.Warn(code, msg); return nil }) }
	}
	if e.Box != nil {
		// That of the statement belongs to its session. What the library looks at there are
		// warnings and collations, which its own arguments have.
		e.Box = sql.NewContext(e.Ctx, sql.WithSession(&apartSession{sql.NewBaseSession(), p}))
	}
	return &e
}

// with calls f unless the statement has left, which waits for it.
func (p *apart) with(f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return context.Canceled
	}
	return f()
}

func (p *apart) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
}

// apartContext ends when the statement does, and has no turn among others after that.
type apartContext struct {
	context.Context
	p *apart
}

// Err implements context.Context.
func (c apartContext) Err() error { return c.p.with(c.p.of.Err) }

// apartMemory is the statement's account.
type apartMemory struct{ p *apart }

// Grow implements expr.Memory.
func (m apartMemory) Grow(n int64) error {
	return m.p.with(func() error { return m.p.of.Mem.Grow(n) })
}

// Shrink implements expr.Memory.
func (m apartMemory) Shrink(n int64) {
	_ = m.p.with(func() error { m.p.of.Mem.Shrink(n); return nil })
}

// apartSession passes warnings of the library on.
type apartSession struct {
	*sql.BaseSession
	p *apart
}

// Warn implements sql.Session.
func (s *apartSession) Warn(w *sql.Warning) {
	_ = s.p.with(func() error {
		if box := s.p.of.Box; box != nil {
			box.Session.Warn(w)
		}
		return nil
	})
}
