package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/kill"
	"github.com/godwitdb/godwit/sql/late"
	"github.com/godwitdb/godwit/sql/quick"
	"github.com/godwitdb/godwit/sql/session"
)

// A server that ends tells its clients to go: the connections that are at rest get error 1053 and
// are closed, and a statement that arrives outside of a transaction is answered with it, and not
// executed. So a client knows of each of its statements whether it was executed, and goes
// elsewhere. Statements that run, and transactions that have begun, go on to their end.

// errShutdown is what clients are told.
var errShutdown = mysql.NewSQLError(1053, "08S01", "Server shutdown in progress: nothing was done, connect to another node")

// What a connection is doing.
const (
	atRest int32 = iota
	inStatement
	inTransaction // between two of its statements
	dismissed     // it was told to go
)

// presence is what a client's connection is doing, as far as its end is concerned.
type presence struct {
	conn  *mysql.Conn
	doing atomic.Int32
	since atomic.Int64 // of being at rest, or between two statements, in ns of Unix time
	limit atomic.Int64 // of that in seconds: the session's wait_timeout
}

// restFor is how long a connection must have been at rest to be told to go: what the last statement
// has answered is with the client then.
const restFor = 200 * time.Millisecond

func (g *gateway) presence(c *mysql.Conn) *presence {
	v, _ := g.presences.Load(c.ConnectionID)
	p, _ := v.(*presence)
	return p
}

// enter begins a statement; false if it must not be executed, as the server ends. p may be nil.
func (g *gateway) enter(p *presence) bool {
	if p == nil {
		return true
	}
	if p.doing.CompareAndSwap(inTransaction, inStatement) {
		return true
	}
	if !p.doing.CompareAndSwap(atRest, inStatement) {
		return false
	}
	if g.draining.Load() {
		p.doing.Store(atRest)
		return false
	}
	return true
}

func (p *presence) rest(s *session.Session) {
	p.idle(s)
	p.doing.Store(atRest)
}

// leave ends a statement.
func (p *presence) leave(s *session.Session) {
	if p == nil {
		return
	}
	if cc := clientOf(p.conn); s.Released && cc != nil {
		cc.released = true
		p.doing.Store(dismissed)
		return
	}
	if t := s.Txn(); s.GetIgnoreAutoCommit() || t != nil && !t.Over && !t.Untouched() {
		p.idle(s)
		p.doing.Store(inTransaction)
		return
	}
	p.rest(s)
}

func (p *presence) idle(s *session.Session) {
	p.since.Store(time.Now().UnixNano())
	if p.limit.Load() != s.WaitTimeout {
		p.limit.Store(s.WaitTimeout)
	}
}

// Runs implements kill.Client.
func (p *presence) Runs() bool { return p.doing.Load() == inStatement }

// Gone implements kill.Client.
func (p *presence) Gone() bool { return quick.Gone(p.conn.Conn) }

// watchGone ends the statements of clients that have gone away, until ctx ends.
func (g *gateway) watchGone(ctx context.Context) {
	kill.WatchGone(ctx, func(each func(id uint32, c kill.Client)) {
		g.presences.Range(func(id, p any) bool { each(id.(uint32), p.(*presence)); return true })
	}, g.engine.ProcessList.Kill)
}

// errIdle is what clients are told that were silent for too long.
var errIdle = mysql.NewSQLError(4031, "HY000", "The client was disconnected by the server because of inactivity. "+
	"See wait_timeout for configuring this behavior.")

// idlePoll is the pause between two looks for silent clients.
const idlePoll = time.Second

// watchIdle closes connections that are silent for longer than their wait_timeout, until ctx ends.
func (g *gateway) watchIdle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(idlePoll):
			g.dismissIdle(time.Now())
		}
	}
}

func (g *gateway) dismissIdle(now time.Time) {
	g.presences.Range(func(_, v any) bool {
		p := v.(*presence)
		limit := time.Duration(p.limit.Load()) * time.Second
		if limit <= 0 || now.Sub(time.Unix(0, p.since.Load())) < limit || p.conn.IsClosed() {
			return true
		}
		if p.doing.CompareAndSwap(atRest, dismissed) || p.doing.CompareAndSwap(inTransaction, dismissed) {
			p.farewell(errIdle, now)
		}
		return true
	})
}

// farewell tells a client why its connection ends, and closes it.
func (p *presence) farewell(why *mysql.SQLError, now time.Time) {
	_ = p.conn.Conn.SetWriteDeadline(now.Add(restFor)) // a client that does not read is no reason to wait
	_, _ = p.conn.Conn.Write(late.Packet(why, 0))
	p.conn.Close()
}

// dismiss tells the connections at rest to go, and reports whether others are left.
func (g *gateway) dismiss(now time.Time) (left bool) {
	g.presences.Range(func(_, v any) bool {
		p := v.(*presence)
		if p.conn.IsClosed() || p.doing.Load() == dismissed {
			return true
		}
		if now.Sub(time.Unix(0, p.since.Load())) < restFor || !p.doing.CompareAndSwap(atRest, dismissed) {
			left = true
			return true
		}
		p.farewell(errShutdown, now)
		return true
	})
	return left
}

// dismissPoll is the pause between two looks at the connections.
const dismissPoll = 10 * time.Millisecond

// drainClients has clients finish and go, for a while.
func (g *gateway) drainClients(limit time.Duration) {
	g.draining.Store(true)
	for end := time.Now().Add(limit); ; time.Sleep(dismissPoll) {
		now := time.Now()
		if !g.dismiss(now) || !now.Before(end) {
			return
		}
	}
}
