package bound

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/exec"
)

// Account is the memory of one statement.
type Account struct {
	mem *exec.Mem
	// The engine works for a statement in several goroutines, of which one waits for its turn.
	pace sync.Mutex
	turn admit.Turn

	mu   sync.Mutex
	kept map[any]*charge // what outlives an iterator, by what keeps it
	// planned: the root of the plan was built. Its rows are those that fly.
	planned bool
	flight  *flight
}

type accountKey struct{}

// With begins the account of a statement; done ends it.
func With(ctx context.Context, mem *exec.Mem, turn admit.Turn) (_ context.Context, done func()) {
	a := &Account{mem: mem, turn: turn, kept: map[any]*charge{}}
	return context.WithValue(ctx, accountKey{}, a), func() {
		a.pace.Lock()
		defer a.pace.Unlock()
		a.turn.End()
		mem.Release()
	}
}

// goOn waits for the statement's turn. The error is why it has to end.
func (a *Account) goOn(ctx *sql.Context) error {
	if err := interrupted(ctx); err != nil {
		return err
	}
	a.pace.Lock()
	defer a.pace.Unlock()
	return a.turn.Yield(ctx)
}

// of is the account of the statement that runs in a context; nil if it has none.
func of(ctx *sql.Context) *Account {
	if ctx == nil || ctx.Context == nil {
		return nil
	}
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}

// keep begins the charge of something that outlives iterators. What was charged for the same
// before is given back: it has been replaced.
func (a *Account) keep(by any) *charge {
	c := &charge{a: a}
	a.mu.Lock()
	old := a.kept[by]
	a.kept[by] = c
	a.mu.Unlock()
	if old != nil {
		old.back()
	}
	return c
}

// has reports whether a charge has not been replaced.
func (a *Account) has(by any, c *charge) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept[by] == c
}

// Keep counts n bytes that something has made, in place of what it has made before: until the
// statement ends, or it makes something else.
func Keep(ctx *sql.Context, by any, n int64) error {
	a := of(ctx)
	if a == nil {
		return nil
	}
	return a.keep(by).take(n)
}

// Hold counts what is in use until Back is called. A nil one counts nothing.
type Hold struct{ charge }

// Holding begins to count for the statement that runs in a context.
func Holding(ctx *sql.Context) *Hold {
	a := of(ctx)
	if a == nil {
		return nil
	}
	return &Hold{charge{a: a}}
}

// Take counts n bytes more.
func (h *Hold) Take(n int64) error {
	if h == nil {
		return nil
	}
	return h.take(n)
}

// Back gives all back.
func (h *Hold) Back() {
	if h != nil {
		h.back()
	}
}

// charge is what one operator has taken. Some of the engine's operators work in several goroutines.
type charge struct {
	a    *Account
	used atomic.Int64
	over atomic.Pointer[error] // it could not take more
}

func (c *charge) take(n int64) error {
	if err := c.a.mem.Grow(n); err != nil {
		c.over.CompareAndSwap(nil, &err)
		return err
	}
	c.used.Add(n)
	return nil
}

// giveBack gives some of it back.
func (c *charge) giveBack(n int64) {
	c.used.Add(-n)
	c.a.mem.Shrink(n)
}

// err is why it could not take more, if that was so.
func (c *charge) err() error {
	if p := c.over.Load(); p != nil {
		return *p
	}
	return nil
}

// back gives back what was taken.
func (c *charge) back() { c.a.mem.Shrink(c.used.Swap(0)) }

// interrupted is why a statement has to end.
func interrupted(ctx *sql.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return Interrupted(context.Cause(ctx))
}

var errInterrupted = mysql.NewSQLError(1317, "70100", "Query execution was interrupted")

// Interrupted gives the error of a statement that was killed MySQL's number and words. The engine
// passes on its text only.
func Interrupted(err error) error {
	var me *mysql.SQLError
	if errors.Is(err, context.Canceled) || errors.As(err, &me) && (strings.HasSuffix(me.Message, context.Canceled.Error()) ||
		strings.Contains(me.Message, errInterrupted.Error())) {
		return errInterrupted
	}
	return err
}
