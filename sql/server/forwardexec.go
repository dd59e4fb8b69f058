package server

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/standin"
	"github.com/godwitdb/godwit/wire"
)

const (
	defaultForwarded = 256
	// remoteIDs is above the ids of clients' connections.
	remoteIDs = 1 << 31
)

// remotes are the sessions that execute statements of other gateways. One is
// used again for statements of the same state; so its variables are set once.
type remotes struct {
	slots chan struct{} // bounds statements in execution
	seq   atomic.Uint32

	mu     sync.Mutex
	closed bool
	idle   map[string][]*remote // by state
	kept   int
}

// remote is a session and the connection that the engine believes it to have.
type remote struct {
	conn *mysql.Conn
	s    *session.Session
	fake *standin.Conn
}

func newRemotes(n int) *remotes {
	if n <= 0 {
		n = defaultForwarded
	}
	return &remotes{slots: make(chan struct{}, n), idle: map[string][]*remote{}}
}

func refusal(code base.Code, format string, args ...any) *wire.ForwardResponse {
	return &wire.ForwardResponse{Status: &wire.Status{Code: uint32(code), Msg: base.Errorf(code, format, args...).Msg}}
}

// Execute runs a statement that another gateway has forwarded, in all respects as one of a client
// here, but for the session's state. Its status is set if it was refused, with nothing done.
func (s *Server) Execute(ctx context.Context, q *wire.ForwardRequest) *wire.ForwardResponse {
	select {
	case s.remotes.slots <- struct{}{}:
		defer func() { <-s.remotes.slots }()
	default:
		return refusal(base.CodeOverloaded, "%d forwarded statements are running", cap(s.remotes.slots))
	}
	if err := s.g.catchUp(ctx, q); err != nil {
		return refusal(base.CodeUnavailable, "the catalog is behind the asker's: %v", err)
	}
	r, err := s.remote(ctx, q.Session)
	if err != nil {
		return refusal(base.CodeUnavailable, "no session for the statement: %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.fake.Running(cancel)
	resp := r.execute(ctx, s.h, q)
	r.fake.Running(nil)
	s.release(string(q.Session), r)
	return resp
}

// catchUp waits until this node knows the schema and the grants that the asker knew.
func (g *gateway) catchUp(ctx context.Context, q *wire.ForwardRequest) error {
	if base.Timestamp(q.UsersTs) > g.users.TS() {
		data, ts, err := g.users.Read(ctx)
		if err == nil && data != nil {
			err = g.users.Apply(ctx, data, ts)
		}
		if err != nil {
			return err
		}
	}
	snap, err := g.Catalog.Current(ctx)
	if err == nil && uint64(snap.Changed) < q.SchemaTs {
		_, err = g.Catalog.Fresh(ctx)
	}
	return err
}

// remote takes a session of the state, or makes one.
func (s *Server) remote(ctx context.Context, state []byte) (*remote, error) {
	p := s.remotes
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errors.New("the server closes")
	}
	if free := p.idle[string(state)]; len(free) > 0 {
		r := free[len(free)-1]
		if p.idle[string(state)] = free[:len(free)-1]; len(free) == 1 {
			delete(p.idle, string(state))
		}
		p.kept--
		p.mu.Unlock()
		return r, nil
	}
	p.mu.Unlock()
	st := new(wire.SessionState)
	if err := st.UnmarshalVT(state); err != nil {
		return nil, err
	}
	r := &remote{fake: &standin.Conn{Host: st.Host}}
	r.conn = &mysql.Conn{
		Conn: r.fake, ConnectionID: remoteIDs | p.seq.Add(1), Capabilities: st.Capabilities, User: st.User,
		UserData: sql.MysqlConnectionUser{User: st.User, Host: st.Host}, PrepareData: map[uint32]*mysql.PrepareData{},
		ClientData: base.RegionID(st.Region), StatusFlags: uint16(mysql.ServerStatusAutocommit),
	}
	s.h.sm.AddConn(r.conn)
	err := s.h.sm.ConnReady(ctx, r.conn)
	if err == nil {
		r.s = s.h.session(r.conn)
		err = r.s.Assume(ctx, st)
	}
	if err != nil {
		s.h.ConnectionClosed(r.conn)
		return nil, err
	}
	return r, nil
}

// release keeps a session for the next statement of its state, if it is clean.
func (s *Server) release(state string, r *remote) {
	p := s.remotes
	p.mu.Lock()
	keep := !p.closed && r.s.Txn() == nil && !r.s.GetIgnoreAutoCommit() && !r.conn.IsClosed()
	var drop []*remote
	if keep {
		for k, free := range p.idle { // any other one goes first
			if p.kept < cap(p.slots) {
				break
			}
			drop = append(drop, free...)
			p.kept -= len(free)
			delete(p.idle, k)
		}
		p.idle[state] = append(p.idle[state], r)
		p.kept++
	} else {
		drop = append(drop, r)
	}
	p.mu.Unlock()
	for _, r := range drop {
		s.h.ConnectionClosed(r.conn)
	}
}

// closeRemotes ends the idle sessions, and lets no statement in any more.
func (s *Server) closeRemotes() {
	p := s.remotes
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle, p.kept = nil, 0
	p.mu.Unlock()
	for _, free := range idle {
		for _, r := range free {
			s.h.ConnectionClosed(r.conn)
		}
	}
}

// execute runs one statement in the session.
func (r *remote) execute(ctx context.Context, h *handler, q *wire.ForwardRequest) *wire.ForwardResponse {
	s := r.s
	s.BeginForwarded(q)
	info := s.GetLastQueryInfo()
	info.LastInsertId.Store(0)
	info.RowCount.Store(0)
	hops, bytes, msgs, moves := s.Trace.Hops(), s.Trace.Bytes(), s.Trace.Messages(), s.Trace.Moves()
	resp := &wire.ForwardResponse{}
	rows := &forwardedRows{resp: resp}
	var err error
	if q.Prepared {
		p := &mysql.PrepareData{PrepareStmt: q.Query, ParamsCount: uint16(len(q.Args)),
			BindVars: map[string]*querypb.BindVariable{}}
		for i, a := range q.Args {
			p.BindVars["v"+strconv.Itoa(i+1)] = &querypb.BindVariable{Type: querypb.Type(a.Type), Value: a.Value}
		}
		err = h.ComStmtExecute(ctx, r.conn, p, rows.add)
	} else {
		err = h.ComQuery(ctx, r.conn, q.Query, func(got *sqltypes.Result, _ bool) error { return rows.add(got) })
	}
	if rows.size > maxForwardedRows { // queries alone have rows, and have done nothing
		return refusal(base.CodeOverloaded, "the result is larger than %d bytes", maxForwardedRows)
	}
	resp.LastInsertId, resp.RowCount, resp.FoundRows = info.LastInsertId.Load(), info.RowCount.Load(), info.FoundRows.Load()
	if strayed := s.Forwarded(resp, err); strayed {
		return refusal(base.CodeUnavailable, "%v", err)
	}
	resp.Hops, resp.Bytes, resp.Messages = uint32(s.Trace.Hops()-hops), uint64(s.Trace.Bytes()-bytes),
		uint64(s.Trace.Messages()-msgs)
	resp.Reached = s.Reached()
	resp.Moves = uint64(s.Trace.Moves() - moves)
	for _, w := range s.Warnings() {
		resp.Warnings = append(resp.Warnings, &wire.ForwardWarning{Level: w.Level, Code: uint32(w.Code), Message: w.Message})
	}
	if err != nil {
		e := sqlError(err)
		resp.Error, resp.State, resp.Message = uint32(e.Num), e.State, e.Message
	}
	return resp
}

// maxForwardedRows bounds the bytes of a result that travels. A query that has more is executed by
// the asker itself.
const maxForwardedRows = 4 << 20

var errLargeResult = base.Errorf(base.CodeOverloaded, "the result of a forwarded query is larger than %d bytes", maxForwardedRows)

// forwardedRows puts a result into the answer.
type forwardedRows struct {
	resp *wire.ForwardResponse
	size int
}

// add takes the next part of it; what that points to is used again after the call.
func (f *forwardedRows) add(r *sqltypes.Result) error {
	f.resp.Affected, f.resp.InsertId, f.resp.Info = r.RowsAffected, r.InsertID, r.Info
	if len(f.resp.Fields) == 0 {
		for _, c := range r.Fields {
			f.resp.Fields = append(f.resp.Fields, &wire.ForwardField{Name: c.Name, OrgName: c.OrgName, Table: c.Table,
				OrgTable: c.OrgTable,
				Database: c.Database, Type: int32(c.Type), Length: c.ColumnLength, Charset: c.Charset,
				Decimals: c.Decimals, Flags: c.Flags})
		}
	}
	for _, row := range r.Rows {
		p := sqltypes.RowToProto3(row)
		if f.size += len(p.Values) + 2*len(p.Lengths); f.size > maxForwardedRows {
			return errLargeResult
		}
		f.resp.Rows = append(f.resp.Rows, &wire.ForwardRow{Lengths: p.Lengths, Values: p.Values})
	}
	return nil
}

func sqlError(err error) *mysql.SQLError {
	var e *mysql.SQLError
	if !errors.As(err, &e) {
		e = sql.CastSQLError(err)
	}
	return e
}
