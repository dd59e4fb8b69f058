package bound

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/exec"
)

// Account is the memory of one statement.
type Account struct {
	mem *exec.Mem

	mu   sync.Mutex
	kept map[any]*charge // what outlives an iterator, by what keeps it
}

type accountKey struct{}

// With begins the account of a statement; done ends it.
func With(ctx context.Context, mem *exec.Mem) (_ context.Context, done func()) {
	a := &Account{mem: mem, kept: map[any]*charge{}}
	return context.WithValue(ctx, accountKey{}, a), mem.Release
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
	return context.Cause(ctx)
}
