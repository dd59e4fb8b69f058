package bind

import (
	"errors"
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// from binds a table reference. The scope of the query has meanwhile the columns that a LATERAL
// table may use.
func (q *query) from(n ast.ResultSetNode) (algebra.Rel, []column, error) {
	if err := q.b.interrupted(); err != nil {
		return nil, nil, err
	}
	switch n := n.(type) {
	case *ast.Join:
		if n.Right == nil {
			return q.from(n.Left)
		}
		return q.join(n)
	case *ast.TableSource:
		return q.source(n)
	case *ast.TableName:
		return q.table(n, "")
	}
	return nil, nil, unsupported("table reference %T", n)
}

func (q *query) source(n *ast.TableSource) (algebra.Rel, []column, error) {
	if _, nested := n.Source.(*ast.Join); !nested {
		if q.inFrom++; q.inFrom > mostTables {
			return nil, nil, refuse(1116, "HY000", "Too many tables; Godwit can only use %d tables in a join", mostTables)
		}
	}
	switch src := n.Source.(type) {
	case *ast.TableName:
		return q.table(src, n.AsName.O)
	case *ast.Join:
		return q.from(src)
	case *tree.JSONTable:
		return q.jsonTable(n, src)
	case *ast.SelectStmt, *ast.SetOprStmt:
		if n.AsName.O == "" {
			return nil, nil, fail(1248, "42000", "Every derived table must have its own alias")
		}
		q.several = true
		if n.Lateral {
			return q.lateralTable(n)
		}
		r, err := q.b.query(src, q.scope.outer)
		if err != nil {
			return nil, nil, err
		}
		q.takes(r.outer)
		cols, err := derived(r.cols, n.AsName.O, tree.Names(n.ColumnNames))
		return r.rel, cols, err
	}
	return nil, nil, unsupported("table reference %T", n.Source)
}

// lateralTable binds a derived table that may use columns of the tables before it.
func (q *query) lateralTable(n *ast.TableSource) (algebra.Rel, []column, error) {
	s := &scope{outer: q.scope.outer, q: q, cols: q.before}
	r, err := q.b.query(n.Source, s)
	if err != nil {
		return nil, nil, err
	}
	for i := range q.before {
		if id := q.before[i].id; r.outer[id] {
			q.lateral[id] = true
		}
	}
	cols, err := derived(r.cols, n.AsName.O, tree.Names(n.ColumnNames))
	return r.rel, cols, err
}

// laterally is a join whose right side uses columns of the left one, which lc are; nil if it does
// not.
func (q *query) laterally(j *algebra.Join, lc []column, alias string, right bool) (algebra.Rel, error) {
	var uses []expr.ColID
	for i := range lc {
		if id := lc[i].id; q.lateral[id] {
			uses = append(uses, id)
			delete(q.lateral, id)
		}
	}
	if uses == nil {
		return nil, nil
	}
	if right {
		return nil, fail(3668, "HY000", "INNER or LEFT JOIN must be used for LATERAL references made by '%s'", alias)
	}
	sortIDs(uses)
	a := &algebra.Apply{Kind: j.Kind, L: j.L, R: j.R, Outer: slices.Compact(uses)}
	if len(j.On) > 0 {
		a.R = &algebra.Filter{In: j.R, Conds: j.On}
	}
	return a, nil
}

// takes notes outer columns that a part of the query uses, which is no subquery of it.
func (q *query) takes(outer map[expr.ColID]bool) {
	for id := range outer {
		q.outer[id] = true
	}
}

// derived are the columns of a derived table, a view or a common table expression.
func derived(in []column, alias string, names []string) ([]column, error) {
	if names != nil && len(names) != len(in) {
		return nil, fail(1353, "HY000", "In definition of view, derived table or common table expression, "+
			"SELECT list and column names list have different column counts")
	}
	out := make([]column, len(in))
	seen := map[string]bool{}
	for i, c := range in {
		out[i] = column{id: c.id, name: c.name, table: alias, typ: c.typ, org: c.org}
		if names != nil {
			out[i].name = names[i]
		}
		if seen[fold(out[i].name)] {
			return nil, fail(1060, "42S21", "Duplicate column name '%s'", out[i].name)
		}
		seen[fold(out[i].name)] = true
	}
	return out, nil
}

// table binds the name of a table, a view or a common table expression.
func (q *query) table(n *ast.TableName, alias string) (algebra.Rel, []column, error) {
	b := q.b
	if n.TableSample != nil || len(n.PartitionNames) > 0 {
		return nil, nil, unsupported("TABLESAMPLE or PARTITION")
	}
	if alias == "" {
		alias = n.Name.O
	}
	if n.Schema.O == "" {
		if d := b.ctes.find(n.Name.L); d != nil {
			if n.AsOf != nil {
				return nil, nil, refuse(1064, "42000", "%s is a common table expression: write AS OF behind the tables in it", n.Name.O)
			}
			return q.cte(d, alias)
		}
		if n.Name.L == "dual" && b.db == "" {
			return &algebra.Values{Rows: [][]expr.Node{{}}}, nil, nil
		}
	}
	db := n.Schema.O
	if db == "" {
		db = b.db
	}
	if db == "" {
		return nil, nil, fail(1046, "3D000", "No database selected")
	}
	past := b.past
	if n.AsOf != nil {
		at, err := q.moment(n.AsOf.TsExpr)
		if err != nil {
			return nil, nil, err
		}
		b.past = at
		defer func() { b.past = past }()
	}
	t, v, err := b.resolve(db, n.Name.O)
	switch {
	case err != nil:
		return nil, nil, err
	case v != nil:
		return q.view(v, alias)
	case t == nil && n.Schema.O == "" && n.Name.L == "dual":
		return &algebra.Values{Rows: [][]expr.Node{{}}}, nil, nil
	case t == nil:
		return nil, nil, fail(1146, "42S02", "Table '%s.%s' doesn't exist", db, n.Name.O)
	}
	u := b.use(t.DB(), t.Name())
	rel, cols, err := q.scan(t, n, alias)
	cols = readInto(cols, u.Columns)
	if s, ok := rel.(*algebra.Scan); ok {
		b.of = append(b.of, scanned{s, u})
		q.bases = append(q.bases, &fromTable{scan: s, use: u, cols: slices.Clone(cols), past: b.past != nil})
	}
	return rel, cols, err
}

// moment binds the operand of AS OF.
func (q *query) moment(n ast.ExprNode) (expr.Node, error) {
	x := &exprs{q: q, s: &scope{q: q}, clause: "AS OF"}
	at, err := x.scalar(n)
	if err != nil {
		return nil, err
	}
	if expr.HasSub(at) {
		return nil, refuse(1064, "42000", "AS OF takes no subquery: read the time into a variable before")
	}
	return at, nil
}

// resolve finds a table or view, as it was where AS OF says so.
func (b *binder) resolve(db, name string) (algebra.Table, *algebra.View, error) {
	if b.past == nil {
		return b.s.Catalog.Resolve(db, name)
	}
	c, ok := b.s.Catalog.(algebra.Historic)
	if !ok {
		return nil, nil, unsupported("AS OF")
	}
	return c.ResolveAt(b.past, db, name)
}

// rename makes an account the one with whose rights tables are read from now on.
func (b *binder) rename(account [2]string) {
	b.as = account
	if c, ok := b.s.Catalog.(algebra.Definers); ok {
		c.As(account)
	}
}

// use notes that the statement reads a table or view.
func (b *binder) use(db, name string) Use {
	u := Use{db, name, slices.Clone(b.views), b.as, &Columns{}}
	b.uses = append(b.uses, u)
	return u
}

func (q *query) scan(t algebra.Table, n *ast.TableName, alias string) (algebra.Rel, []column, error) {
	s := &algebra.Scan{Table: t, Alias: alias}
	var cols []column
	for _, c := range t.Columns() {
		id := q.b.newID()
		s.IDs = append(s.IDs, id)
		cols = append(cols, column{
			id: id, name: c.Name, table: alias, db: t.DB(), typ: c.Type, hidden: c.Invisible,
			org: Origin{DB: t.DB(), Table: alias, OrgTable: t.Name(), Column: c.Name},
		})
	}
	for _, h := range n.IndexHints {
		names := tree.Names(h.IndexNames)
		for _, name := range names {
			if !hasIndex(t, name) {
				return nil, nil, fail(1176, "42000", "Key '%s' doesn't exist in table '%s'", name, alias)
			}
		}
		switch h.HintType {
		case ast.HintIgnore:
			s.Ignore = append(s.Ignore, names...)
		case ast.HintForce:
			s.Use, s.Force = append(s.Use, names...), true
		case ast.HintUse:
			s.Use = append(s.Use, names...)
		}
	}
	q.scans = append(q.scans, s)
	return s, cols, nil
}

func hasIndex(t algebra.Table, name string) bool {
	for _, x := range t.Indexes() {
		if strings.EqualFold(x.Name, name) {
			return true
		}
	}
	return false
}

// maxViews bounds how deep views may be nested.
const maxViews = 32

// view binds the text of a view as a derived table.
func (q *query) view(v *algebra.View, alias string) (algebra.Rel, []column, error) {
	b := q.b
	if len(b.views) >= maxViews {
		return nil, nil, unsupported("deep views")
	}
	u := b.use(v.DB, v.Name)
	stmt, err := Parse(v.Text, ModeOf(v.SQLMode))
	if err != nil {
		return nil, nil, unsupported("text of a view")
	}
	n, ok := stmt.(ast.ResultSetNode)
	if !ok {
		return nil, nil, unsupported("text of a view")
	}
	db, ctes, as := b.db, b.ctes, b.as
	b.db, b.ctes, b.views = v.DB, nil, append(b.views, v.DB+"."+v.Name)
	if v.Definer != ([2]string{}) {
		b.rename(v.Definer)
	}
	defer func() {
		b.db, b.ctes, b.views = db, ctes, b.views[:len(b.views)-1]
		b.rename(as)
	}()
	if sel, ok := n.(*ast.SelectStmt); ok && q.merges && mergeable(v, sel) {
		rel, cols, err := q.merged(v, sel, u, alias)
		return rel, cols, invalidView(v, err)
	}
	q.several = true
	r, err := b.query(n, nil)
	if err != nil {
		return nil, nil, invalidView(v, err)
	}
	cols, err := derived(r.cols, alias, v.Columns)
	for i := range cols {
		cols[i].db, cols[i].of = v.DB, u.Columns
	}
	return r.rel, cols, err
}

// invalidView is the error of a view whose text cannot be bound: something that it names has been
// changed or dropped.
func invalidView(v *algebra.View, err error) error {
	var me *mysql.SQLError
	if !errors.As(err, &me) {
		return err
	}
	switch me.Num {
	case 1054, 1060, 1146, 1222, 1241, 1305, 1353, 1356:
		return refuse(1356, "HY000", "View '%s.%s' references invalid table(s) or column(s) or "+
			"function(s) or definer/invoker of view lack rights to use them", v.DB, v.Name)
	}
	if _, ok := Reason(err); !ok {
		return unsupported("error in a view")
	}
	return err
}

// join binds a join.
func (q *query) join(n *ast.Join) (algebra.Rel, []column, error) {
	q.several = true
	first := len(q.bases)
	l, lc, err := q.from(n.Left)
	if err != nil {
		return nil, nil, err
	}
	before, left := q.before, len(q.bases)
	q.before = append(slices.Clone(before), lc...)
	r, rc, err := q.from(n.Right)
	q.before = before
	if err != nil {
		return nil, nil, err
	}
	if err := uniqueTables(lc, rc); err != nil {
		return nil, nil, err
	}
	j := &algebra.Join{Kind: algebra.Inner, L: l, R: r, Straight: n.StraightJoin}
	switch n.Tp {
	case ast.LeftJoin:
		j.Kind = algebra.Left
		nullable(rc)
		q.nullableBases(left, len(q.bases))
	case ast.RightJoin:
		j.Kind, j.L, j.R = algebra.Left, r, l
		nullable(lc)
		q.nullableBases(first, left)
	}
	if n.Tp == ast.RightJoin && (n.NaturalJoin || len(n.Using) > 0) {
		lc, rc = rc, lc // the columns come as those of the LEFT JOIN with the sides exchanged
	}
	names, err := mergedNames(n, lc, rc)
	if err != nil {
		return nil, nil, err
	}
	cols, err := q.merge(j, names, lc, rc)
	if err != nil {
		return nil, nil, err
	}
	if n.On != nil {
		s := &scope{outer: q.scope.outer, cols: cols, q: q}
		x := &exprs{q: q, s: s, clause: "on clause"}
		if j.On, err = x.conjunction(n.On.Expr); err != nil {
			return nil, nil, err
		}
	}
	if j.Kind == algebra.Inner {
		q.facts = append(q.facts, j.On...)
	}
	if len(q.lateral) > 0 {
		if a, err := q.laterally(j, lc, tree.AliasOf(n.Right), n.Tp == ast.RightJoin); a != nil || err != nil {
			return a, cols, err
		}
	}
	return j, cols, nil
}

// nullableBases makes tables of FROM those of the side of an outer join that may have no row.
func (q *query) nullableBases(from, to int) {
	for _, t := range q.bases[from:to] {
		nullable(t.cols)
	}
}

func nullable(cols []column) {
	for i := range cols {
		cols[i].typ.NotNull = false
	}
}

// uniqueTables refuses a name of a table that is used twice.
func uniqueTables(l, r []column) error {
	seen := map[[2]string]bool{}
	for _, c := range l {
		if c.table != "" {
			seen[[2]string{fold(c.db), fold(c.table)}] = true
		}
	}
	for _, c := range r {
		if c.table != "" && seen[[2]string{fold(c.db), fold(c.table)}] {
			return fail(1066, "42000", "Not unique table/alias: '%s'", c.table)
		}
	}
	return nil
}

// mergedNames are the columns that USING or NATURAL makes one of.
func mergedNames(n *ast.Join, l, r []column) (names []string, err error) {
	if n.NaturalJoin {
		for _, c := range l {
			if d, _ := visible(r, c.name); d != nil && !c.second && !c.hidden {
				names = append(names, c.name)
			}
		}
		return names, nil
	}
	for _, c := range l { // in the order of the first table
		if c.second || c.hidden {
			continue
		}
		if slices.ContainsFunc(n.Using, func(u *ast.ColumnName) bool { return strings.EqualFold(u.Name.O, c.name) }) {
			names = append(names, c.name)
		}
	}
	for _, c := range n.Using {
		if !slices.ContainsFunc(names, func(s string) bool { return strings.EqualFold(s, c.Name.O) }) {
			names = append(names, c.Name.O) // merge says that it is unknown
		}
	}
	return names, nil
}

// visible finds a column by its name alone; twice says that there are two.
func visible(cols []column, name string) (found *column, twice bool) {
	for i := range cols {
		c := &cols[i]
		if c.second || c.hidden || !strings.EqualFold(c.name, name) {
			continue
		}
		if found != nil && found.id != c.id {
			return found, true
		}
		found = c
	}
	return found, false
}

// merge makes the columns of a join: the merged ones first, which are those of the side that is
// preserved.
func (q *query) merge(j *algebra.Join, names []string, lc, rc []column) ([]column, error) {
	var merged []column
	for _, name := range names {
		a, twiceA := visible(lc, name)
		b, twiceB := visible(rc, name)
		if a == nil || b == nil {
			return nil, unknownColumn(name, "from clause")
		}
		if twiceA || twiceB {
			return nil, ambiguous(name, "from clause")
		}
		eq, err := call("=", a.node(), b.node())
		if err != nil {
			return nil, err
		}
		j.On = append(j.On, eq)
		m := *a
		m.name, m.table, m.db = a.name, "", ""
		merged = append(merged, m)
		a.second, b.second = true, true
	}
	return append(append(merged, lc...), rc...), nil
}
