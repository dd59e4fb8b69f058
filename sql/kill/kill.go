// Package kill has KILL end statements.
package kill

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/admit"
)

// List is the engine's list of processes, in which KILL ends a statement of a client as a whole.
// One statement may stand in the engine's list several times, one after the other: our own engine
// leaves it to go-mysql-server, or it is tried again after a conflict. Between them the list knows
// nothing that it could end, and a KILL would be lost.
type List struct {
	sql.ProcessList
	// Sessions are a Session for each connection's id, a uint32.
	Sessions *sync.Map
}

// ErrInterrupted is the error of a statement that was killed.
var ErrInterrupted = mysql.NewSQLError(1317, "70100", "Query execution was interrupted")

// State says of a session whether a statement of its client runs, and was killed. The zero value
// is one where none runs.
type State struct {
	state atomic.Int32
	stop  atomic.Pointer[context.CancelCauseFunc] // ends a wait outside of the engine's list; nil: there is none
	fate  fate
}

const (
	idle int32 = iota
	runs
	killed
)

// Statement is one of a client that has begun. Over must be called; the zero value does nothing.
type Statement struct {
	of     *State
	ctx    context.Context
	cancel context.CancelFunc // nil: it may take as long as it takes
	late   error
	told   *time.Timer
}

// Kind is what a statement is.
type Kind struct {
	// Limit is how long it may take, 0 is without a limit; Late is the error when it takes longer.
	Limit time.Duration
	Late  *mysql.SQLError
	// Gated: [State.Commits] is called before all that it commits; of others, only
	// [State.Executes].
	Gated bool
	// Waits: its client has sent all that it needs, and only waits.
	Waits bool
}

// Begin says that a statement of the client begins. Its context ends when it has taken as long as
// its kind may.
func (r *State) Begin(ctx context.Context, k Kind) (context.Context, Statement) {
	r.fate.begin(k.Gated, k.Waits)
	r.state.Store(runs)
	if k.Limit == 0 {
		return ctx, Statement{of: r}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, k.Limit, k.Late)
	st := Statement{of: r, ctx: ctx, cancel: cancel, late: k.Late}
	if answer := r.fate.answer.Load(); answer != 0 {
		st.told = time.AfterFunc(k.Limit+tellAfter, func() { r.fate.tell(answer, k.Late) })
	}
	return ctx, st
}

// Enter begins the statement at a gate, where the engine's list does not know it yet: KILL ends its
// wait there, with [ErrInterrupted].
func (r *State) Enter(ctx context.Context, g *admit.Gate, user string, first bool) (admit.Pass, error) {
	if p, ok := g.TryEnter(); ok {
		return p, nil
	}
	ctx, done := r.interruptible(ctx)
	defer done()
	return g.Enter(ctx, user, first)
}

// Wait waits between two attempts of the statement, for d. KILL ends that: the error is
// [ErrInterrupted] then, and there must be no other attempt.
func (r *State) Wait(ctx context.Context, d time.Duration) error {
	ctx, done := r.interruptible(ctx)
	defer done()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	if r.state.Load() == killed {
		return ErrInterrupted
	}
	return nil
}

// interruptible is a context that KILL ends. done must be called.
func (r *State) interruptible(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.stop.Store(&cancel)
	if r.state.Load() == killed {
		cancel(ErrInterrupted)
	}
	return ctx, func() {
		r.stop.Store(nil)
		cancel(nil)
	}
}

func (r *State) kill() {
	answer := r.fate.answer.Load() // before it is known which statement is killed: it may be none then
	if !r.state.CompareAndSwap(runs, killed) {
		return
	}
	r.tellSoon(answer)
	// interruptible stores it before it looks whether the statement was killed.
	if stop := r.stop.Load(); stop != nil {
		(*stop)(ErrInterrupted)
	}
}

// Ends says that the statement that was begun last has ended, which had no limit.
func (r *State) Ends() { r.state.Store(idle) }

// Over says that it has ended, with an error or without, and gives the client's.
func (s Statement) Over(err error) error {
	if s.cancel != nil {
		if err != nil && errors.Is(context.Cause(s.ctx), s.late) {
			err = s.late
		}
		s.cancel()
		if s.told != nil {
			s.told.Stop()
		}
	}
	if s.of != nil {
		s.of.state.Store(idle)
	}
	return err
}

// KillState implements Session.
func (r *State) KillState() *State { return r }

// Session is a session with its State.
type Session interface {
	sql.Session
	KillState() *State
}

// BeginQuery implements sql.ProcessList. A part of a statement that was killed ends at once.
func (l *List) BeginQuery(ctx *sql.Context, query string) (*sql.Context, error) {
	s, ours := ctx.Session.(Session)
	ctx, err := l.ProcessList.BeginQuery(ctx, query)
	if err == nil && ours && s.KillState().state.Load() == killed {
		l.ProcessList.Kill(s.ID())
	}
	return ctx, err
}

// Kill implements sql.ProcessList.
func (l *List) Kill(id uint32) {
	if s, ok := l.Sessions.Load(id); ok {
		// before the list is asked: see BeginQuery
		s.(Session).KillState().kill()
	}
	l.ProcessList.Kill(id)
}
