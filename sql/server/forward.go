package server

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/wire"
)

// Statement forwarding: an autocommit statement that changes or locks rows of one other region,
// named by their primary keys, is sent as a whole to the node that leads them and runs there as a
// statement of its own region would. That costs one round trip and, if it changes something, the
// commit's quorum there, where executing it here would cost a round trip more (to lock in one shard
// only: none more). The executor goes through everything a statement of its own clients does; if
// the rows have moved meanwhile it runs a cross-region transaction, so nothing is forwarded twice.

// Forwarder carries statements to other gateways.
type Forwarder interface {
	// Forward asks a node to execute a statement, the first of whose rows has the key; its
	// [Server.Execute] answers. It gives the statement a name, under which it commits at most once.
	// ran is false, with an error, if the statement certainly was not and will not be executed
	// there.
	Forward(ctx context.Context, to base.NodeID, first base.Key, q *wire.ForwardRequest) (resp *wire.ForwardResponse,
		ran bool, err error)
	// Settle finds out what became of a statement, sent then, whose answer did not come, because of
	// why. Neither answer nor error: it has not committed, and never will.
	Settle(ctx context.Context, q *wire.ForwardRequest, sent time.Time, why error) (*wire.ForwardResponse, error)
}

// execution is where a statement should run.
type execution struct {
	node    base.NodeID
	region  base.RegionID // 0: the keys are not known
	several bool          // regions
	first   base.Key      // of the rows
}

// elsewhere reports whether the statement should be forwarded.
func (e execution) elsewhere(own base.RegionID) bool {
	return e.region != 0 && !e.several && e.region != own && e.node != 0
}

// forward sends a statement to the region of its rows if that pays; done is false if it has to run
// here.
func (h *handler) forward(ctx context.Context, s *session.Session, c *mysql.Conn, query string, p *mysql.PrepareData,
	sent *bool, send func(*sqltypes.Result) error) (done bool, err error) {
	g := h.g
	if !g.mayForward(s, query) {
		return false, nil
	}
	_ = s.CommandBegin()
	sctx := sql.NewContext(ctx, sql.WithSession(s))
	if s.Explicit(sctx) {
		return false, nil
	}
	var binds map[string]*querypb.BindVariable
	if p != nil {
		binds = p.BindVars
	}
	r, args := g.route(sctx, query, p != nil, binds)
	if r == nil {
		return false, nil
	}
	ex := g.execution(sctx, s, r, args)
	if !ex.elsewhere(g.DB.Region()) {
		return false, nil
	}
	if sctx, err = h.sm.NewContextWithQuery(ctx, c, query); err != nil {
		return false, nil
	}
	q := g.forwardRequest(s, query, p != nil, binds)
	if q == nil {
		return false, nil
	}
	if sctx, err = g.engine.ProcessList.BeginQuery(sctx, query); err != nil {
		return true, err
	}
	defer g.engine.ProcessList.EndQuery(sctx)
	resp, err := g.send(sctx, s, ex, q)
	if resp == nil && err == nil {
		return false, nil
	}
	sql.IncrementStatusVariable(sctx, "Questions", 1)
	*sent = true // whatever came of it, it is not tried again here
	s.ClearWarnings()
	if err != nil {
		return true, err
	}
	return true, answer(sctx, s, resp, send)
}

// mayForward reports whether a statement of the session may run in another region at all: it is an
// autocommit statement that changes or locks rows.
func (g *gateway) mayForward(s *session.Session, query string) bool {
	if g.fwd == nil || s.NoForward || s.Remote || !locksRows(query) || len(g.DB.Topology().Regions) < 2 {
		return false
	}
	if s.NextLevel != session.DefaultLevel || s.NextAsOf != 0 || s.GetIgnoreAutoCommit() {
		return false
	}
	t := s.Txn()
	return t == nil || t.KV == nil && !t.Over && t.Schema == nil && !t.ReadOnly
}

// answer gives the client what the executor's own client would have been given.
func answer(ctx *sql.Context, s *session.Session, resp *wire.ForwardResponse, send func(*sqltypes.Result) error) error {
	for _, w := range resp.Warnings {
		s.Warn(&sql.Warning{Level: w.Level, Code: int(w.Code), Message: w.Message})
	}
	if resp.Error != 0 {
		return answeredError(resp)
	}
	info := ctx.GetLastQueryInfo()
	info.RowCount.Store(resp.RowCount)
	if len(resp.Fields) > 0 {
		info.FoundRows.Store(resp.FoundRows)
	}
	if resp.LastInsertId != 0 {
		info.LastInsertId.Store(resp.LastInsertId)
	}
	return send(answeredResult(resp))
}

// locksRows is a cheap look at the ends of a statement.
func locksRows(q string) bool {
	for i := 0; i < len(q); i++ {
		switch q[i] | 0x20 {
		case ' ', '\t' | 0x20, '\n' | 0x20, '\r' | 0x20:
			continue
		case 'u', 'd', 'i', 'r': // UPDATE, DELETE, INSERT, REPLACE
			return true
		case 's': // SELECT ... FOR UPDATE [OF t] [NOWAIT], ... LOCK IN SHARE MODE
			return locking(q[max(i, len(q)-lockingTail):])
		}
		return false
	}
	return false
}

// lockingTail is longer than FOR UPDATE OF a table NOWAIT.
const lockingTail = 128

// locking reports whether the end of a query may be a locking clause.
func locking(q string) bool {
	for i := range len(q) {
		switch q[i] | 0x20 {
		case 'u':
			if len(q) >= i+6 && strings.EqualFold(q[i:i+6], "update") {
				return true
			}
		case 's':
			if len(q) >= i+5 && strings.EqualFold(q[i:i+5], "share") {
				return true
			}
		}
	}
	return false
}

// route is the route of a statement and its constants.
func (g *gateway) route(ctx *sql.Context, query string, prepared bool, binds map[string]*querypb.BindVariable) (*route,
	[]fast.Literal) {
	var args []fast.Literal
	text, plain := query, true
	if prepared {
		for i := range len(binds) {
			v := binds["v"+strconv.Itoa(i+1)]
			if v == nil {
				return nil, nil
			}
			l, ok := fast.BindLiteral(v)
			if !ok {
				l = fast.Literal{Kind: fast.LitNull, Text: ""} // no key has it
			}
			args = append(args, l)
		}
	} else if text, args, plain = fast.Normalize(query); !plain {
		text = strings.TrimRight(query, "; \t\r\n")
	}
	if plain {
		if r, ok := g.routes.get(text); ok {
			return r, args
		}
	}
	var r *route
	stmt, rest, err := sqlparser.ParseOneWithOptions(ctx, text, sql.LoadSqlMode(ctx).ParserOptions())
	if err == nil && rest >= len(text) {
		r = routeOf(stmt)
	}
	if plain {
		g.routes.put(text, r)
	}
	return r, args
}

// execution finds out where a statement should run.
func (g *gateway) execution(ctx *sql.Context, s *session.Session, r *route, args []fast.Literal) (ex execution) {
	db := r.db
	if db == "" {
		db = s.GetCurrentDatabase()
	}
	snap, err := s.Snapshot(ctx)
	if err != nil || db == "" {
		return ex
	}
	t := routedTable(snap, db, r)
	if t == nil || t.Desc.Temporary() || s.HasTemporary() && len(snap.Database(db).Objects[schema.IxTrigger]) > 0 {
		return ex // triggers may be about temporary tables
	}
	keys := r.keys(ctx, t, args)
	if keys == nil || triggersBound(snap, db) {
		return ex
	}
	for _, k := range keys {
		n, region := g.DB.Owner(k)
		switch {
		case n == 0:
			return execution{}
		case ex.region == 0:
			ex.node, ex.region, ex.first = n, region, k
		case ex.region != region:
			ex.several = true
		}
	}
	if ex.elsewhere(g.DB.Region()) && !g.privileged(ctx, r, t) {
		return execution{} // it is refused here
	}
	return ex
}

// routedTable is the table that a statement is about; t__homes for moves and pins.
func routedTable(snap *schema.Snapshot, db string, r *route) *schema.Table {
	if t := snap.Table(db, r.table); t != nil {
		return t
	}
	name, ok := strings.CutSuffix(r.table, table.HomesSuffix)
	if !ok || r.kind != fast.Update {
		return nil
	}
	of := snap.Table(db, name)
	if of == nil || len(of.PK) == 0 || of.Desc.Locality.Kind == schema.Global {
		return nil
	}
	t, _ := table.HomesOf(of)
	return t
}

// privileged reports whether the user may do all that the statement does, to the table as a whole.
func (g *gateway) privileged(ctx *sql.Context, r *route, t *schema.Table) bool {
	need := fast.Privileges[r.kind]
	if r.kind == fast.Insert {
		need = []sql.PrivilegeType{sql.PrivilegeType_Insert, sql.PrivilegeType_Update}
		if r.replace {
			need[1] = sql.PrivilegeType_Delete
		}
	}
	db := g.engine.Analyzer.Catalog.MySQLDb
	// A SELECT comes here because it locks rows.
	if r.kind == fast.Select && !rights.Of(ctx, db).Locks(t.Desc.DB, t.Desc.Name) {
		return false
	}
	return db.UserHasPrivileges(ctx, sql.NewPrivilegedOperation(
		sql.PrivilegeCheckSubject{Database: t.Desc.DB, Table: t.Desc.Name}, need...))
}

// forwardRequest is a statement with all that its meaning takes from the session; nil if something
// cannot travel.
func (g *gateway) forwardRequest(s *session.Session, query string, prepared bool,
	binds map[string]*querypb.BindVariable) *wire.ForwardRequest {
	q := &wire.ForwardRequest{Query: s.Trace.Carry(query), Prepared: prepared, Session: s.StateBytes(), UsersTs: uint64(g.users.TS())}
	if q.Session == nil {
		return nil
	}
	for i := range len(binds) {
		v := binds["v"+strconv.Itoa(i+1)]
		if v == nil || len(v.Values) > 0 {
			return nil
		}
		q.Args = append(q.Args, &wire.BoundValue{Type: int32(v.Type), Value: v.Value})
	}
	if s.Stmt.Snap != nil {
		q.SchemaTs = uint64(s.Stmt.Snap.Changed)
	}
	q.Age = uint64(s.RetryAge())
	return q
}

// send has a statement executed. Neither answer nor error means that it was not, never will be, and
// has to run here.
func (g *gateway) send(ctx *sql.Context, s *session.Session, ex execution,
	q *wire.ForwardRequest) (*wire.ForwardResponse, error) {
	if err := s.State.Commits(); err != nil {
		return nil, err
	}
	kctx, sent := s.KVContext(ctx), time.Now()
	resp, ran, err := g.fwd.Forward(kctx, ex.node, ex.first, q)
	switch {
	case err != nil && ran || resp.GetUnknown():
		resp, err = g.settle(kctx, ex, q, sent, resp, err)
	case err != nil && ctx.Err() != nil:
		return nil, schema.ClientError(ctx.Err())
	case err != nil:
		g.Log.Debug("a statement could not be forwarded", "node", ex.node, "err", err)
		s.State.Again()
		return nil, nil
	}
	switch {
	case err != nil:
		return nil, err
	case resp == nil && ctx.Err() != nil:
		return nil, schema.ClientError(ctx.Err())
	case resp == nil:
		return nil, nil
	}
	s.Trace.AddHops(int(resp.Hops))
	s.Trace.AddBytes(int(resp.Messages), int(resp.Bytes))
	s.Trace.AddMoves(int(resp.Moves))
	if st := resp.Status; st != nil && st.Code != 0 {
		g.Log.Debug("a forwarded statement was refused", "node", ex.node, "why", st.Msg)
		s.State.Again()
		return nil, nil
	}
	for _, t := range resp.Reached {
		db, name, _ := strings.Cut(t, ".")
		s.Reach(db, name)
	}
	s.EndForwarded(int(resp.Committed), base.Timestamp(resp.Ts), resp.Aborted, base.Timestamp(resp.Age))
	return resp, nil
}

// settle finds out what became of a statement whose answer was lost, or did not know. It returns
// neither answer nor error if the statement has not committed: then it never will.
func (g *gateway) settle(ctx context.Context, ex execution, q *wire.ForwardRequest, sent time.Time,
	unsure *wire.ForwardResponse, err error) (*wire.ForwardResponse, error) {
	if err == nil {
		err = answeredError(unsure)
	}
	resp, serr := g.fwd.Settle(ctx, q, sent, err)
	region := g.DB.Topology().RegionName(ex.region)
	g.Log.Info("the outcome of a forwarded statement was asked for", "region", region, "node", ex.node, "because", err,
		"committed", resp != nil, "err", serr)
	if serr != nil {
		return nil, schema.ClientError(base.Errorf(base.CodeAmbiguous,
			"the statement was forwarded to region %s and its outcome could not be found out: %v", region, serr))
	}
	return resp, nil
}

// answeredResult is what the executor's own client would have been sent.
func answeredResult(resp *wire.ForwardResponse) *sqltypes.Result {
	res := &sqltypes.Result{RowsAffected: resp.Affected, InsertID: resp.InsertId, Info: resp.Info}
	for _, f := range resp.Fields {
		res.Fields = append(res.Fields, &querypb.Field{Name: f.Name, OrgName: f.OrgName, Table: f.Table,
			OrgTable: f.OrgTable, Database: f.Database,
			Type: querypb.Type(f.Type), ColumnLength: f.Length, Charset: f.Charset, Decimals: f.Decimals, Flags: f.Flags})
	}
	for _, r := range resp.Rows {
		res.Rows = append(res.Rows, sqltypes.MakeRowTrusted(res.Fields, &querypb.Row{Lengths: r.Lengths, Values: r.Values}))
	}
	return res
}

// answeredError is the error that the executor's own client would have seen.
func answeredError(resp *wire.ForwardResponse) error {
	return mysql.NewSQLError(int(resp.Error), resp.State, "%s", resp.Message)
}
