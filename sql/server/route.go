package server

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/function"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// route is what a statement that changes or locks rows says about which ones, with its constants
// left out: it names them by their whole primary keys. nil where a route is expected means that it
// does not, or that its meaning hangs on more of the session than travels with a forwarded
// statement.
type route struct {
	kind      fast.Kind
	db, table string
	replace   bool
	sets      []string         // columns assigned
	where     map[string][]int // but of INSERT: constants that a column may equal
	between   map[string][2]int
	cols      []string // INSERT: names, nil for all
	rows      [][]int  // INSERT: constant of each column, -1 for what is none
	fixed     []fast.Literal
}

// routes keeps the routes of statement texts; nil is kept for those that have none.
type routes struct {
	mu sync.RWMutex
	m  map[string]*route
}

// maxRouteKeys is how many rows a forwarded statement may name.
const maxRouteKeys = 64

func (c *routes) get(key string) (*route, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r, ok := c.m[key]
	return r, ok
}

func (c *routes) put(key string, r *route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= fast.MaxTemplates {
		c.m = map[string]*route{}
	}
	c.m[key] = r
}

func newRoute() *route {
	return &route{where: map[string][]int{}, between: map[string][2]int{}}
}

// routeOf reads the route of a statement.
func routeOf(stmt sqlparser.Statement) *route {
	r := newRoute()
	ok := false
	switch s := stmt.(type) {
	case *sqlparser.Update:
		ok = r.update(s)
	case *sqlparser.Delete:
		ok = r.delete(s)
	case *sqlparser.Insert:
		r.kind = fast.Insert
		ok = r.insert(s)
	case *sqlparser.Select:
		ok = session.LockClause(s) != kv.LockNone && r.query(s) && s.Into == nil
	}
	if !ok || sessionBound(stmt) {
		return nil
	}
	return r
}

// update takes an UPDATE of one table.
func (r *route) update(s *sqlparser.Update) bool {
	r.kind = fast.Update
	for _, e := range s.Exprs {
		r.sets = append(r.sets, e.Name.Name.String())
	}
	return s.With == nil && len(s.Returning) == 0 && s.Where != nil && r.from(s.TableExprs, s.Where.Expr)
}

// delete takes a DELETE from one table.
func (r *route) delete(s *sqlparser.Delete) bool {
	r.kind = fast.Delete
	return s.With == nil && len(s.Targets)+len(s.Returning)+len(s.Partitions) == 0 && s.Where != nil &&
		r.from(s.TableExprs, s.Where.Expr)
}

// query takes a query of one table.
func (r *route) query(s *sqlparser.Select) bool {
	r.kind = fast.Select
	return s.With == nil && s.Where != nil && r.from(s.From, s.Where.Expr)
}

// from takes one plain table, and what the condition says of its columns.
func (r *route) from(from sqlparser.TableExprs, cond sqlparser.Expr) bool {
	if len(from) != 1 {
		return false
	}
	a, ok := from[0].(*sqlparser.AliasedTableExpr)
	if !ok || a.AsOf != nil || a.Lateral || len(a.Partitions) > 0 {
		return false
	}
	n, ok := a.Expr.(sqlparser.TableName)
	if !ok || !n.SchemaQualifier.IsEmpty() {
		return false
	}
	r.db, r.table = n.DbQualifier.String(), n.Name.String()
	name := r.table
	if !a.As.IsEmpty() {
		name = a.As.String()
	}
	r.conjunction(cond, name)
	return true
}

// conjunction keeps what binds a column to constants; anything else narrows the rows further.
func (r *route) conjunction(e sqlparser.Expr, table string) {
	switch e := e.(type) {
	case *sqlparser.ParenExpr:
		r.conjunction(e.Expr, table)
	case *sqlparser.AndExpr:
		r.conjunction(e.Left, table)
		r.conjunction(e.Right, table)
	case *sqlparser.ComparisonExpr:
		if c, ok := fast.PlainColumn(e.Left, table); ok {
			r.compared(strings.ToLower(c), e)
		}
	case *sqlparser.RangeCond:
		c, ok := fast.PlainColumn(e.Left, table)
		lo, lok := r.arg(e.From)
		hi, hok := r.arg(e.To)
		if ok && lok && hok && e.Operator == sqlparser.BetweenStr {
			r.between[strings.ToLower(c)] = [2]int{lo, hi}
		}
	}
}

// compared keeps the constants that a column may equal, of = and IN.
func (r *route) compared(column string, e *sqlparser.ComparisonExpr) {
	vals := sqlparser.ValTuple{e.Right}
	switch e.Operator {
	case sqlparser.EqualStr:
	case sqlparser.InStr:
		var ok bool
		if vals, ok = e.Right.(sqlparser.ValTuple); !ok || len(vals) > maxRouteKeys {
			return
		}
	default:
		return
	}
	var args []int
	for _, v := range vals {
		arg, ok := r.arg(v)
		if !ok {
			return
		}
		args = append(args, arg)
	}
	r.where[column] = args
}

// insert takes REPLACE and INSERT ... ON DUPLICATE KEY UPDATE of rows given one by one. A plain
// INSERT needs no trip before its commit, wherever it runs.
func (r *route) insert(s *sqlparser.Insert) bool {
	r.replace = s.Action == sqlparser.ReplaceStr
	if s.With != nil || len(s.Partitions) > 0 || len(s.Returning) > 0 || !r.replace && len(s.OnDup) == 0 ||
		!s.Table.SchemaQualifier.IsEmpty() {
		return false
	}
	v, ok := s.Rows.(*sqlparser.AliasedValues)
	if !ok || len(v.Values) > maxRouteKeys || len(v.Columns) > 0 {
		return false
	}
	r.db, r.table = s.Table.DbQualifier.String(), s.Table.Name.String()
	for _, e := range s.OnDup {
		r.sets = append(r.sets, e.Name.Name.String())
	}
	for _, c := range s.Columns {
		r.cols = append(r.cols, c.String())
	}
	for _, t := range v.Values {
		row := make([]int, len(t))
		for i, e := range t {
			if row[i], ok = r.arg(e); !ok {
				row[i] = -1
			}
		}
		r.rows = append(r.rows, row)
	}
	return true
}

// arg is the number of a constant: a placeholder, or one in the text.
func (r *route) arg(e sqlparser.Expr) (int, bool) {
	l, ok := fast.Constant(e)
	if !ok {
		return fast.Placeholder(e)
	}
	r.fixed = append(r.fixed, l)
	return fast.FixedArg + len(r.fixed) - 1, true
}

// sessionFunctions ask or change what stays with the client's session, or with the node it is
// connected to.
var sessionFunctions = map[string]bool{
	"connection_id": true, "last_insert_id": true, "row_count": true, "found_rows": true, "load_file": true,
	"get_lock": true, "release_lock": true, "release_all_locks": true, "is_free_lock": true, "is_used_lock": true,
}

// sessionBound reports whether a statement uses variables, functions of the session, or subqueries.
func sessionBound(stmt sqlparser.Statement) bool {
	bound := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.ColName:
			bound = bound || strings.HasPrefix(n.Name.String(), "@") || strings.HasPrefix(n.Qualifier.Name.String(), "@")
		case *sqlparser.FuncExpr:
			bound = bound || sessionFunctions[n.Name.Lowered()] || !n.Qualifier.IsEmpty() || !function.Native(n.Name.String())
		case *sqlparser.Subquery, *sqlparser.ExistsExpr:
			bound = true
		}
		return !bound, nil
	}, stmt)
	return bound
}

// sessionWords are found in the text of a trigger that may be bound to the client's session.
var sessionWords = []string{"@", "call", "connection_id", "last_insert_id", "row_count", "found_rows", "load_file", "_lock"}

// triggersBound reports whether a trigger of a database, or a stored function that it may call,
// could be bound to the client's session.
func triggersBound(snap *schema.Snapshot, db string) bool {
	triggers := snap.Database(db).Objects[schema.IxTrigger]
	for _, o := range triggers {
		if saysSession(o.Trigger.CreateStatement) {
			return true
		}
	}
	for _, d := range snap.Databases {
		for _, o := range d.Objects[schema.IxFunction] {
			if len(triggers) > 0 && saysSession(o.Function.Text) {
				return true
			}
		}
	}
	return false
}

func saysSession(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(sessionWords, func(w string) bool { return strings.Contains(text, w) })
}

// keys are the keys of the rows that the statement names; nil if it does not name them exactly.
func (r *route) keys(ctx *sql.Context, t *schema.Table, args []fast.Literal) []base.Key {
	if len(t.PK) == 0 {
		return nil
	}
	for _, c := range r.sets {
		if pos := t.Desc.ColByName(c); pos < 0 || t.InPK(pos) {
			return nil
		}
	}
	lit := func(arg int) (fast.Literal, bool) {
		from := args
		if arg >= fast.FixedArg {
			from, arg = r.fixed, arg-fast.FixedArg
		}
		if arg < 0 || arg >= len(from) {
			return fast.Literal{}, false
		}
		return from[arg], true
	}
	k := &routeKeys{ctx: ctx, t: t, lit: lit, row: make(sql.Row, len(t.Cols))}
	if r.kind == fast.Insert {
		return k.inserted(r)
	}
	return k.named(r, 0)
}

// routeKeys gathers keys.
type routeKeys struct {
	ctx *sql.Context
	t   *schema.Table
	lit func(arg int) (fast.Literal, bool)
	row sql.Row
	out []base.Key
}

// set converts the constant of a primary-key column; false if that needs judgement.
func (k *routeKeys) set(i int, l fast.Literal) bool {
	pos := k.t.PK[i]
	v, ok := fast.Exact(k.ctx, k.t.Cols[pos], l, true)
	k.row[pos] = v
	return ok
}

// add takes the key of the row.
func (k *routeKeys) add() bool {
	ref, err := k.t.RefOf(k.ctx, k.row)
	if err != nil || len(k.out) >= maxRouteKeys {
		return false
	}
	k.out = append(k.out, k.t.RowKey(ref))
	return true
}

// named goes through all values of the primary-key columns from the i-th on.
func (k *routeKeys) named(r *route, i int) []base.Key {
	if i == len(k.t.PK) {
		if !k.add() {
			return nil
		}
		return k.out
	}
	c := k.t.Cols[k.t.PK[i]]
	vals, ok := k.values(r, c, strings.ToLower(c.Desc.Name))
	if !ok {
		return nil
	}
	for _, l := range vals {
		if !k.set(i, l) || k.named(r, i+1) == nil {
			return nil
		}
	}
	return k.out
}

// values are the constants that a column may equal.
func (k *routeKeys) values(r *route, c *schema.Column, name string) (vals []fast.Literal, ok bool) {
	if args, ok := r.where[name]; ok {
		for _, a := range args {
			l, ok := k.lit(a)
			if !ok {
				return nil, false
			}
			vals = append(vals, l)
		}
		return vals, true
	}
	b, ok := r.between[name]
	lo, lok := k.lit(b[0])
	hi, hok := k.lit(b[1])
	if !ok || !lok || !hok || !c.Integer() || lo.Kind != fast.LitInt || hi.Kind != fast.LitInt {
		return nil, false
	}
	return integersBetween(lo.Text, hi.Text)
}

// integersBetween are all integers of a range; ok is false if they are none, or too many.
func integersBetween(lo, hi string) (vals []fast.Literal, ok bool) {
	from, err1 := strconv.ParseInt(lo, 10, 64)
	to, err2 := strconv.ParseInt(hi, 10, 64)
	if err1 != nil || err2 != nil || to < from || uint64(to)-uint64(from) >= maxRouteKeys {
		return nil, false
	}
	for n := from; ; n++ {
		vals = append(vals, fast.Literal{Kind: fast.LitInt, Text: strconv.FormatInt(n, 10)})
		if n == to {
			return vals, true
		}
	}
}

func (k *routeKeys) inserted(r *route) []base.Key {
	at := make([]int, len(k.t.PK)) // of each primary-key column in the values
	for i, pos := range k.t.PK {
		at[i] = -1
		if r.cols == nil {
			at[i] = pos
		}
		for j, c := range r.cols {
			if k.t.Desc.ColByName(c) == pos {
				at[i] = j
			}
		}
	}
	for _, row := range r.rows {
		for i, j := range at {
			if j < 0 || j >= len(row) {
				return nil
			}
			l, ok := k.lit(row[j])
			if !ok || k.t.Cols[k.t.PK[i]].Desc.AutoInc && (l.Kind != fast.LitInt || strings.Trim(l.Text, "-0") == "") ||
				!k.set(i, l) {
				return nil
			}
		}
		if !k.add() {
			return nil
		}
	}
	return k.out
}
