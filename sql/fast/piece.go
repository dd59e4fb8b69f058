package fast

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/wire"
)

// keyList is the rest of a statement whose condition has column IN (constants).
type keyList struct {
	col  string
	args []int
}

// among takes column IN (constants). The first of them stands in the condition.
func (f *Template) among(e *sqlparser.ComparisonExpr) bool {
	c, ok := PlainColumn(e.Left, f.table)
	list, isList := e.Right.(sqlparser.ValTuple)
	c = strings.ToLower(c)
	if _, twice := f.where[c]; !ok || !isList || twice || f.list != nil || f.kind != Update {
		return false
	}
	f.list = &keyList{col: c}
	for _, x := range list {
		arg, ok := f.arg(x)
		if !ok {
			return false
		}
		f.list.args = append(f.list.args, arg)
	}
	f.where[c] = f.list.args[0]
	return true
}

// Piece is a statement as a part of a program (kv.Program): the rows that it names by their primary
// keys, and what it does to each of them.
type Piece struct {
	// Keys are in the order of the table; of an INSERT none until [Piece.Row].
	Keys []base.Key
	// Patch is what an UPDATE does to each row; nil of others.
	Patch *wire.Patch
	// Table is the row's.
	Table *schema.Table

	call    *Call
	plan    *boundPlan
	vals    values
	row     []byte // of an INSERT
	id      uint64 // the value of its AUTO_INCREMENT column; 0: it has none
	counted bool   // the counter gave it
}

// Why statements are no pieces.
const (
	NotByKey = "a statement is not a plain SELECT, UPDATE or DELETE of rows that it names by their whole primary key with " +
		"constants, nor an INSERT of one row of constants"
	byTable  = "a table is unknown, temporary, MULTI MASTER, being rewritten, or read as of a time"
	byRules  = "a table that it changes has foreign keys, CHECKs, generated columns or full-text indexes, or its database has triggers"
	byColumn = "it assigns a column of an index or of the primary key, or adds to a column that is neither an integer nor a DECIMAL"
	byRow    = "the columns of a row that it inserts are not those of the table, or have defaults that take the engine"
	byGuard  = "a condition besides the key is not on an integer to which the statement adds"
	byTime   = "only an ON UPDATE column is sure to change"
	byRights = "the user lacks a privilege"
	byValue  = "a constant needs judgement to become one of its column"
	byFields = "the columns of a result are not known here yet: the first execution tells them"
)

// Whole recognises a statement that may be a piece: as Text and Prepared do (p is nil for text),
// and UPDATEs of a list of rows besides. nil if it is none.
func (r *Runner) Whole(s *session.Session, c *mysql.Conn, query string, p *mysql.PrepareData) *Call {
	if p != nil {
		return r.prepared(s, c, p)
	}
	if r.off(s) {
		return nil
	}
	text, args, ok := Normalize(query)
	if !ok {
		return nil
	}
	if tmpl := r.template(s, text); tmpl != nil {
		return &Call{r, s, c, query, tmpl, args}
	}
	return nil
}

// Many reports whether the statement names its rows by a list.
func (f *Call) Many() bool { return f.template.list != nil }

// Context is the engine's context of the statement.
func (f *Call) Context(ctx context.Context) (*sql.Context, error) { return f.context(ctx) }

// Piece makes a piece of the statement. Where it cannot be one, why says so in plain words.
func (f *Call) Piece(ctx *sql.Context) (x *Piece, why string) {
	if f.template.span != nil {
		return nil, NotByKey
	}
	p := f.plan(ctx)
	if p == nil {
		return nil, f.unplanned(ctx)
	}
	if why := f.unfit(p); why != "" {
		return nil, why
	}
	p, vals, ok := f.bind(ctx)
	if !ok {
		if p == nil {
			return nil, byRights
		}
		return nil, byValue
	}
	x = &Piece{Table: p.t, call: f, plan: p, vals: vals}
	if f.template.kind == Insert {
		return x, ""
	}
	if x.Keys, ok = f.keys(ctx, p, vals); !ok {
		return nil, byValue
	}
	if f.template.kind == Update {
		if x.Patch = p.patchOf(ctx, vals); x.Patch == nil {
			return nil, byValue
		}
	}
	return x, ""
}

// unfit is why a statement with a plan is no piece; empty: it may be one.
func (f *Call) unfit(p *boundPlan) (why string) {
	d, kind := p.t.Desc, f.template.kind
	switch {
	case d.Temporary(), d.Locality.Kind == schema.MultiMaster, p.t.Next != nil, p.t.HomesOf != nil:
		return byTable
	case kind == Select && p.described(f.s) == nil:
		return byFields
	case kind == Update && !p.tells(f.template):
		return byColumn
	case kind == Update && len(p.own) > 0 && !slices.ContainsFunc(p.sets, func(s boundAssignment) bool { return s.op != 0 }),
		kind == Update && slices.ContainsFunc(p.own, func(o givenByTable) bool { return p.t.InIndex(o.pos) }):
		return byTime
	}
	return ""
}

// unplanned is why there is no plan.
func (f *Call) unplanned(ctx *sql.Context) string {
	db := f.template.db
	if db == "" {
		db = f.s.GetCurrentDatabase()
	}
	snap, err := f.s.Snapshot(ctx)
	if err != nil {
		return byTable
	}
	t := snap.Table(db, f.template.table)
	switch {
	case t == nil || t.Virtual || f.s.NextAsOf != 0:
		return byTable
	case f.template.kind != Select && !plainWrites(t, snap):
		return byRules
	case f.template.kind == Insert:
		return byRow
	case len(f.template.where) != len(t.PK):
		return NotByKey
	}
	for _, pos := range t.PK {
		if _, ok := f.template.where[strings.ToLower(t.Cols[pos].Desc.Name)]; !ok {
			return NotByKey
		}
	}
	if len(f.template.guards) > 0 {
		return byGuard
	}
	return byColumn
}

// keys are the rows that the statement names, each once, in the order of the table.
func (f *Call) keys(ctx *sql.Context, p *boundPlan, vals values) ([]base.Key, bool) {
	row := make(sql.Row, len(p.t.Cols))
	list := -1 // the column of the list, by position
	for i, pos := range p.t.PK {
		row[pos] = vals.at(p.pk[i])
		if l := f.template.list; l != nil && strings.EqualFold(p.t.Cols[pos].Desc.Name, l.col) {
			list = pos
		}
	}
	var out []base.Key
	one := func() bool {
		ref, err := p.t.RefOf(ctx, row)
		if err == nil {
			out = append(out, p.t.RowKey(ref))
		}
		return err == nil
	}
	if list < 0 {
		return out, one() && len(out) == 1
	}
	for _, arg := range f.template.list.args {
		if !f.value(ctx, p, vals, arg, list, true) {
			return nil, false
		}
		if row[list] = vals.at(arg); !one() {
			return nil, false
		}
	}
	slices.SortFunc(out, func(a, b base.Key) int { return bytes.Compare(a, b) })
	return slices.CompactFunc(out, func(a, b base.Key) bool { return bytes.Equal(a, b) }), true
}

// Kind is what the statement does.
func (x *Piece) Kind() Kind { return x.call.template.kind }

// Counts reports whether the table's counter gives a value of the row that an INSERT inserts.
func (x *Piece) Counts() bool {
	for pos, arg := range x.plan.insert {
		if arg == argAutoInc || pos == x.plan.givenInc && x.vals.at(arg) == nil {
			return true
		}
	}
	return false
}

// Row makes the row of an INSERT, which takes a value of its counter if [Piece.Counts], and returns
// what is to be written.
func (x *Piece) Row(ctx *sql.Context) ([]kv.ProgramWrite, error) {
	st := x.stored()
	row, id, counted, err := x.call.newRow(ctx, x.plan, st, x.vals)
	if err != nil {
		return nil, err
	}
	ws, err := st.InsertWrites(ctx, row, x.call.s.Home())
	if err != nil {
		return nil, err
	}
	x.Keys, x.row, x.id, x.counted = []base.Key{ws[0].Key}, ws[0].Value, id, counted
	return ws, nil
}

// Deletes are the rows of a DELETE, with the entries of their indexes.
func (x *Piece) Deletes(ctx *sql.Context) (out []kv.ProgramDelete) {
	st := x.stored()
	for _, k := range x.Keys {
		out = append(out, kv.ProgramDelete{Key: k, Entries: func(row kv.Row) ([]base.Key, error) {
			return st.EntriesOf(ctx, row, x.call.s.Home())
		}})
	}
	return out
}

func (x *Piece) stored() *table.Table {
	return &table.Table{Env: x.call.r.Env, Def: x.Table, Access: &table.Access{}}
}

// Rows is how many rows the statement changes, as a part of a program that commits; -1 of a SELECT.
func (x *Piece) Rows() int64 {
	switch x.Kind() {
	case Select:
		return -1
	case Insert:
		return 1
	}
	return int64(len(x.Keys))
}

// Made is what the statement makes of one of its rows.
func (x *Piece) Made(old []byte) []byte {
	switch x.Kind() {
	case Insert:
		return x.row
	case Delete:
		return nil
	case Update:
		next, _ := patch.Apply(x.Patch, old)
		return next
	}
	return old
}

// Changed is the answer to a change, all of whose rows have become others.
func (x *Piece) Changed() *sqltypes.Result {
	n := uint64(len(x.Keys))
	res := &sqltypes.Result{RowsAffected: n, InsertID: x.id}
	if x.Kind() == Update {
		res.Info = fmt.Sprintf("Rows matched: %d  Changed: %d  Warnings: 0", n, n)
	}
	return res
}

// Answer is the answer to the SELECT, whose row is the one given.
func (x *Piece) Answer(ctx *sql.Context, row kv.Row) (*sqltypes.Result, error) {
	p := x.plan
	res := &sqltypes.Result{Fields: p.described(x.call.s)}
	if row.Value == nil {
		return res, nil
	}
	vals := make(sql.Row, len(p.t.Cols))
	if err := p.t.DecodeCols(ctx, row.Value, vals, p.want); err != nil {
		return nil, schema.ClientError(err)
	}
	var err error
	res.RowsAffected = 1
	res.Rows, err = encodeRows(ctx, p, x.vals.loc, []sql.Row{vals})
	return res, err
}

// Tell answers the client with a result of the piece, as Try does with its own.
func (x *Piece) Tell(ctx context.Context, res *sqltypes.Result, send func(*sqltypes.Result) error) error {
	f := x.call
	sctx, err := f.context(ctx)
	if err != nil {
		return err
	}
	_ = f.s.CommandBegin()
	f.s.Stmt.Planned, f.s.Stmt.Writes = true, x.Kind() != Select
	sctx, err = f.r.Engine.ProcessList.BeginQuery(sctx, f.query)
	if err != nil {
		return err
	}
	defer f.r.Engine.ProcessList.EndQuery(sctx)
	sql.IncrementStatusVariable(sctx, "Questions", 1)
	f.s.ClearWarnings()
	x.Count(sctx, res)
	return send(res)
}

// Count keeps what the session tells about the statement.
func (x *Piece) Count(ctx *sql.Context, res *sqltypes.Result) {
	x.call.s.Reach(x.Table.Desc.DB, x.Table.Desc.Name)
	x.call.count(ctx, res)
	if x.counted {
		ctx.GetLastQueryInfo().LastInsertId.Store(int64(x.id))
	}
	if x.Kind() == Insert {
		x.stored().Inserted(1)
	}
}
