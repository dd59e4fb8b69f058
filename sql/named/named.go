// Package named has the locks that clients name themselves, and the functions for them: GET_LOCK,
// RELEASE_LOCK, RELEASE_ALL_LOCKS, IS_FREE_LOCK and IS_USED_LOCK. They are MySQL's, of one node:
// the sessions of other nodes do not see them.
//
// A wait for a lock can be interrupted. A lock that nobody holds takes no memory, and a session
// holds [mostHeld] at most. A session whose wait would close a cycle gets an error.
package named

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

const (
	// mostHeld is how many locks a session holds at most.
	mostHeld = 1000
	// nameLength is how long a name may be, in characters.
	nameLength = 64
)

// Locks are those of a node.
type Locks struct {
	mu   sync.Mutex
	by   map[string]*lock
	held map[sql.Session]map[string]*lock
	// waits are the locks that sessions wait for.
	waits map[sql.Session]*lock
}

// lock is held by a session, count times. freed is closed when the session has released it.
type lock struct {
	owner sql.Session
	count int
	freed chan struct{}
}

// New makes locks that nobody holds.
func New() *Locks {
	return &Locks{by: map[string]*lock{}, held: map[sql.Session]map[string]*lock{}, waits: map[sql.Session]*lock{}}
}

// errName is the error of a name that no lock can have.
func errName(name string) error {
	if len(name) > nameLength {
		name = strings.ToValidUTF8(name[:nameLength], "")
	}
	return mysql.NewSQLError(3057, "42000", "Incorrect user-level lock name '%s'.", name)
}

var (
	errDeadlock = mysql.NewSQLError(3058, "HY000", "Deadlock found when trying to get user-level lock; try rolling back "+
		"transaction/releasing locks and restarting lock acquisition.")
	errMany = mysql.NewSQLError(1041, "HY000", "Out of memory: a session may hold %d user-level locks", mostHeld)
)

// checked is a name as locks are found by it.
func checked(name string) (string, error) {
	if name == "" || utf8.RuneCountInString(name) > nameLength {
		return "", errName(name)
	}
	return strings.ToLower(name), nil
}

// Get gets a lock, and waits for it: for ever if timeout is negative. It reports whether it was got
// in time.
func (l *Locks) Get(ctx context.Context, s sql.Session, name string, timeout time.Duration) (bool, error) {
	name, err := checked(name)
	if err != nil {
		return false, err
	}
	var late <-chan time.Time
	if timeout >= 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		late = t.C
	}
	for {
		busy, err := l.try(s, name, timeout != 0)
		if err != nil || busy == nil {
			return err == nil, err
		}
		if timeout == 0 {
			return false, nil
		}
		select {
		case <-busy:
		case <-late:
			l.stopWaiting(s)
			return false, nil
		case <-ctx.Done():
			l.stopWaiting(s)
			return false, context.Cause(ctx)
		}
	}
}

// try gets a lock that is free; else busy is closed when the lock is released.
func (l *Locks) try(s sql.Session, name string, waits bool) (busy <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waits, s)
	k := l.by[name]
	switch {
	case k == nil && len(l.held[s]) >= mostHeld:
		return nil, errMany
	case k == nil:
		k = &lock{s, 1, make(chan struct{})}
		l.by[name] = k
		if l.held[s] == nil {
			l.held[s] = map[string]*lock{}
		}
		l.held[s][name] = k
		return nil, nil
	case k.owner == s:
		k.count++
		return nil, nil
	}
	if waits {
		for next := k; next != nil; next = l.waits[next.owner] {
			if next.owner == s {
				return nil, errDeadlock
			}
		}
		l.waits[s] = k
	}
	return k.freed, nil
}

func (l *Locks) stopWaiting(s sql.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waits, s)
}

// Release releases a lock once. mine is false if the session does not hold it, known is false if
// nobody does.
func (l *Locks) Release(s sql.Session, name string) (mine, known bool, err error) {
	if name, err = checked(name); err != nil {
		return false, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.by[name]
	if k == nil || k.owner != s {
		return false, k != nil, nil
	}
	if k.count--; k.count == 0 {
		l.free(name, k)
	}
	return true, true, nil
}

// ReleaseAll releases all locks of a session, and says how often it had got them.
func (l *Locks) ReleaseAll(s sql.Session) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, k := range l.held[s] {
		n += k.count
		l.free(name, k)
	}
	return n
}

func (l *Locks) free(name string, k *lock) {
	delete(l.by, name)
	if delete(l.held[k.owner], name); len(l.held[k.owner]) == 0 {
		delete(l.held, k.owner)
	}
	close(k.freed)
}

// Owner is the session that holds a lock; nil: none does.
func (l *Locks) Owner(name string) (sql.Session, error) {
	name, err := checked(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.by[name]; k != nil {
		return k.owner, nil
	}
	return nil, nil
}
