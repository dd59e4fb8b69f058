// Package kill has KILL end statements.
package kill

import (
	"context"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
)

// List is the engine's list of processes, in which KILL ends a statement of a client as a whole.
// One statement may stand in the engine's list several times, one after the other: our own engine
// leaves it to go-mysql-server, or it is tried again after a conflict. Between them the list knows
// nothing that it could end, and a KILL would be lost.
type List struct {
	sql.ProcessList
	mu      sync.Mutex
	running map[uint32]*statement // by the id of the connection
}

type statement struct{ end context.CancelFunc }

// New makes a list above that of an engine.
func New(of sql.ProcessList) *List {
	return &List{ProcessList: of, running: map[uint32]*statement{}}
}

// Begin says that a statement of a connection begins. Its context ends when it is killed, or has
// taken as long as limit, of which late is the cause; 0: there is no limit. over must be called.
func (l *List) Begin(ctx context.Context, id uint32, limit time.Duration, late error) (_ context.Context, over func()) {
	var end context.CancelFunc
	if limit > 0 {
		ctx, end = context.WithTimeoutCause(ctx, limit, late)
	} else {
		ctx, end = context.WithCancel(ctx)
	}
	st := &statement{end}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[id] = st
	return ctx, func() {
		end()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[id] == st {
			delete(l.running, id)
		}
	}
}

// Kill implements sql.ProcessList.
func (l *List) Kill(id uint32) {
	l.mu.Lock()
	st := l.running[id]
	l.mu.Unlock()
	if st != nil {
		st.end()
	}
	l.ProcessList.Kill(id)
}
