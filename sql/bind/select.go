package bind

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// query is one SELECT while it is bound.
type query struct {
	b      *binder
	inFrom int // tables that FROM names
	scope  *scope
	outer  map[expr.ColID]bool
	// facts are conditions that hold in all rows: WHERE, and ON of inner joins.
	facts []expr.Node
	items []item
	// aliases are the numbers of items that are no columns of FROM.
	aliases  map[expr.ColID]bool
	aggs     []algebra.Agg
	wins     []*window
	specs    map[string]*ast.WindowSpec
	keys     []algebra.Item
	grouped  bool
	keyed    bool // there is GROUP BY
	anyValue bool // inside of ANY_VALUE
	// level is the column that says how many keys a row of ROLLUP has lost; 0: no ROLLUP.
	level expr.ColID
	// groupings are the calls of GROUPING, by the columns that stand for them.
	groupings map[expr.ColID][]expr.Node
	// sealed: the grouping is done, and no aggregate can be added.
	sealed bool
	// scans are the tables that FROM names itself.
	scans []*algebra.Scan
	// merges: rows may be changed through views of FROM, which are merged (levels) if they are made
	// for that. bases are the tables of FROM, with those of levels. several: it is no single table.
	merges, several bool
	bases           []*fromTable
	levels          []*level
	// match is how well a row fits a MATCH in WHERE; nil: there is none.
	match expr.Node
	// settled are columns that were added to the rows of FROM: values with subqueries that are used
	// more than once.
	settled []algebra.Item
	// fromRel is what FROM and WHERE come to.
	fromRel algebra.Rel
	// closed are the columns that the grouping keys determine; nil: nobody has asked.
	closed map[expr.ColID]bool
	// before are the columns of the tables before the one that is bound, which LATERAL may use;
	// lateral are those that it has used, until the join with them is made.
	before  []column
	lateral map[expr.ColID]bool
	// takesAggs: aggregates of subqueries in what is bound now may belong to this query.
	takesAggs bool
	// inAgg: what is bound now is an argument of an aggregate of this query.
	inAgg bool
	// place is what of the query is checked against the grouping, for messages.
	place string
}

// item is an element of the SELECT list.
type item struct {
	id    expr.ColID
	name  string
	node  expr.Node // over the rows of FROM
	alias bool      // the name was given with AS
	col   column    // if it is a plain column
	wild  bool
}

func (b *binder) selectStmt(n *ast.SelectStmt, outer *scope) (*bound, error) {
	ctes := b.ctes
	defer func() { b.ctes = ctes }()
	if err := b.with(n.With, outer); err != nil {
		return nil, err
	}
	if n.Kind == ast.SelectStmtKindValues {
		return b.values(n, outer)
	}
	if err := plainSelect(n); err != nil {
		return nil, err
	}
	if o := n.SelectStmtOpts; o != nil && o.CalcFoundRows && n != b.first { // only the first may have it
		return nil, refuse(1234, "42000", "Incorrect usage/placement of 'SQL_CALC_FOUND_ROWS'")
	}
	q := newQuery(b, outer)
	rel, err := q.body(n)
	if err != nil {
		return nil, err
	}
	if err := q.lock(rel, n.LockInfo); err != nil {
		return nil, err
	}
	return q.finish(rel, n)
}

func newQuery(b *binder, outer *scope) *query {
	q := &query{
		b: b, outer: map[expr.ColID]bool{}, aliases: map[expr.ColID]bool{}, lateral: map[expr.ColID]bool{},
		specs: map[string]*ast.WindowSpec{},
	}
	q.scope = &scope{outer: outer, q: q}
	return q
}

// plainSelect refuses what only go-mysql-server knows.
func plainSelect(n *ast.SelectStmt) error {
	if n.SelectIntoOpt != nil {
		return unsupported("SELECT INTO")
	}
	return nil
}

// body binds FROM and WHERE.
func (q *query) body(n *ast.SelectStmt) (algebra.Rel, error) {
	var rel algebra.Rel = &algebra.Values{Rows: [][]expr.Node{{}}}
	if n.From != nil {
		var err error
		if rel, q.scope.cols, err = q.from(n.From.TableRefs); err != nil {
			return nil, err
		}
		if o := n.SelectStmtOpts; o != nil && o.StraightJoin {
			rel = straight(rel)
		}
	}
	if n.Where != nil {
		x := &exprs{q: q, s: q.scope, clause: "where clause"}
		conds, err := x.conjunction(n.Where)
		if err != nil {
			return nil, err
		}
		q.facts = append(q.facts, conds...)
		rel = &algebra.Filter{In: rel, Conds: q.byColumns(slices.Clone(conds))}
	}
	return rel, nil
}

// straight marks all joins of a tree for the order in which they were written.
func straight(r algebra.Rel) algebra.Rel {
	return algebra.Rewrite(r, func(r algebra.Rel) algebra.Rel {
		if j, ok := r.(*algebra.Join); ok {
			c := *j
			c.Straight = true
			return &c
		}
		return r
	})
}

// clauses are the parts of a SELECT behind WHERE, bound over the rows of FROM.
type clauses struct {
	having []expr.Node
	order  []algebra.Order
}

// finish binds the SELECT list, grouping, HAVING, windows, ORDER BY and LIMIT.
func (q *query) finish(rel algebra.Rel, n *ast.SelectStmt) (*bound, error) {
	q.fromRel = rel
	if err := q.named(n.WindowSpecs); err != nil {
		return nil, err
	}
	if err := q.list(n.Fields, q.b.exists == n); err != nil {
		return nil, err
	}
	if err := q.unused(n.WindowSpecs); err != nil {
		return nil, err
	}
	if err := q.groupBy(n.GroupBy); err != nil {
		return nil, err
	}
	c, err := q.clauses(n)
	if err != nil {
		return nil, err
	}
	if rel, err = q.group(q.fromRel, c, n.GroupBy); err != nil {
		return nil, err
	}
	if len(c.having) > 0 {
		rel = &algebra.Filter{In: rel, Conds: c.having}
	}
	if q.match != nil && len(c.order) == 0 && !q.grouped && !q.several && !n.Distinct {
		c.order = append(c.order, algebra.Order{Expr: q.match, Desc: true}) // the best rows first
	}
	if rel, err = q.windows(rel); err != nil {
		return nil, err
	}
	if q.assigns() && !n.Distinct {
		if sorted, ok, err := q.inOrder(rel, c, n.Limit); ok || err != nil {
			return &bound{rel: sorted, cols: q.output(), outer: q.outer}, err
		}
	}
	rel = q.project(rel, c)
	if n.Distinct {
		if rel, err = q.distinct(rel, c); err != nil {
			return nil, err
		}
	}
	if len(c.order) > 0 {
		rel = &algebra.Sort{In: rel, Keys: c.order}
	}
	if rel, err = q.limit(rel, n.Limit); err != nil {
		return nil, err
	}
	return &bound{rel: rel, cols: q.output(), outer: q.outer}, nil
}

// output are the columns of the result.
func (q *query) output() []column {
	out := make([]column, len(q.items))
	for i, it := range q.items {
		out[i] = column{id: it.id, name: it.name, typ: it.node.Type(), table: it.col.table, org: it.col.org}
	}
	return out
}

// list binds the SELECT list. unread: nobody reads what * stands for.
func (q *query) list(fields *ast.FieldList, unread bool) error {
	x := &exprs{q: q, s: q.scope, clause: "field list", agg: true, win: true}
	for _, f := range fields.Fields {
		if f.WildCard != nil {
			if err := q.star(f.WildCard, !unread); err != nil {
				return err
			}
			continue
		}
		n, err := x.scalar(f.Expr)
		if err != nil {
			return err
		}
		it := item{node: n, name: nameOf(f), alias: f.AsName.O != ""}
		if c, ok := n.(*expr.Col); ok && q.ownColumn(c.ID) != nil {
			it.id, it.col = c.ID, *q.ownColumn(c.ID)
			if !it.alias && isSystemView(it.col.org) {
				it.name = it.col.name
			}
		} else {
			it.id = q.b.newID()
			q.aliases[it.id] = true
		}
		q.items = append(q.items, it)
	}
	return nil
}

// isSystemView reports whether a column is one of a view of MySQL's, whatever it is here. Those
// have their own names in a result, and not the words of the statement.
func isSystemView(o Origin) bool {
	switch fold(o.DB) {
	case "information_schema":
		return !slices.Contains([]string{"column_privileges", "engines", "optimizer_trace", "plugins", "processlist", "profiling",
			"schema_privileges", "table_privileges", "user_privileges"}, fold(o.OrgTable))
	case "sys":
		return true
	}
	return false
}

func (q *query) ownColumn(id expr.ColID) *column {
	for i := range q.scope.cols {
		if q.scope.cols[i].id == id {
			return &q.scope.cols[i]
		}
	}
	return nil
}

// star expands * and t.*.
func (q *query) star(w *ast.WildCardField, read bool) error {
	found := false
	for _, c := range q.scope.cols {
		if c.hidden || w.Table.O == "" && c.second {
			continue
		}
		if w.Table.O != "" &&
			(!strings.EqualFold(c.table, w.Table.O) || w.Schema.O != "" && !strings.EqualFold(c.db, w.Schema.O)) {
			continue
		}
		found = true
		if read {
			c.read(true)
		}
		c.of = nil
		q.items = append(q.items, item{id: c.id, name: c.name, node: c.node(), col: c, wild: true})
	}
	switch {
	case found:
		return nil
	case w.Table.O != "":
		return fail(1051, "42S02", "Unknown table '%s'", w.Table.O)
	case len(q.scope.cols) == 0:
		return fail(1096, "HY000", "No tables used")
	}
	return nil
}

// nameOf is the name of a column of a result.
func nameOf(f *ast.SelectField) string {
	if f.AsName.O != "" {
		return f.AsName.O
	}
	e := f.Expr
	for {
		p, ok := e.(*ast.ParenthesesExpr)
		if !ok {
			break
		}
		e = p.Expr
	}
	switch e := e.(type) {
	case *ast.ColumnNameExpr:
		return e.Name.Name.O
	case *tree.Literal:
		if s, ok := e.V.(string); ok {
			if n := e.Offset; n >= 0 && n <= len(s) {
				s = s[:n]
			}
			return strings.TrimLeft(s, " \t\r\n")
		}
	}
	return strings.TrimSpace(strings.TrimSuffix(tree.Unsigned(f.Text()), ";"))
}

// clauses binds HAVING and ORDER BY.
func (q *query) clauses(n *ast.SelectStmt) (*clauses, error) {
	c := &clauses{}
	if n.Having != nil {
		x := &exprs{q: q, s: q.scope, clause: "having clause", agg: true, names: inHaving}
		var err error
		if c.having, err = x.conjunction(n.Having.Expr); err != nil {
			return nil, err
		}
	}
	if n.OrderBy == nil {
		return c, nil
	}
	for _, o := range n.OrderBy.Items {
		k, err := q.orderKey(o)
		if err != nil {
			return nil, err
		}
		c.order = append(c.order, k)
	}
	return c, nil
}

func positionText(p *ast.PositionExpr) string { return fmt.Sprint(p.N) }

// orderKey binds a key of ORDER BY: a position, a name of the SELECT list, or an expression.
func (q *query) orderKey(o *ast.ByItem) (algebra.Order, error) {
	if p, ok := o.Expr.(*ast.PositionExpr); ok {
		if p.N < 1 || p.N > len(q.items) {
			return algebra.Order{}, unknownColumn(positionText(p), "order clause")
		}
		return algebra.Order{Expr: q.itemCol(&q.items[p.N-1]), Desc: o.Desc}, nil
	}
	if c, ok := o.Expr.(*ast.ColumnNameExpr); ok {
		it, err := q.itemNamed(c.Name, "order clause")
		if err != nil {
			return algebra.Order{}, err
		}
		if it != nil {
			return algebra.Order{Expr: q.itemCol(it), Desc: o.Desc}, nil
		}
	}
	x := &exprs{q: q, s: q.scope, clause: "order clause", agg: true, win: true, names: inOrder}
	n, err := x.scalar(o.Expr)
	if err != nil {
		return algebra.Order{}, err
	}
	for i := range q.items {
		if it := &q.items[i]; expr.Equal(it.node, n) {
			n = q.itemCol(it)
			break
		}
	}
	return algebra.Order{Expr: n, Desc: o.Desc}, nil
}

// itemCol names an item of the SELECT list by its number.
func (q *query) itemCol(it *item) expr.Node {
	return &expr.Col{ID: it.id, Name: it.name, T: it.node.Type()}
}

// itemNamed finds an element of the SELECT list by its name; nil if there is none.
func (q *query) itemNamed(n *ast.ColumnName, clause string) (*item, error) {
	var found *item
	for i := range q.items {
		it := &q.items[i]
		if n.Table.O == "" {
			if !strings.EqualFold(it.name, n.Name.O) {
				continue
			}
		} else if it.col.id == 0 || !it.col.is(n.Schema.O, n.Table.O, n.Name.O) {
			continue
		}
		if found != nil && found.id != it.id && !expr.Equal(found.node, it.node) {
			if found.alias == it.alias {
				r := ambiguous(n.Name.O, clause)
				r.Kind = sql.ErrAmbiguousColumnOrAliasName.New(n.Name.O)
				return nil, r
			}
			if found.alias {
				continue
			}
		}
		if found == nil || it.alias && !found.alias {
			found = it
		}
	}
	return found, nil
}

// project makes the columns of the SELECT list, and hands on those that ORDER BY uses besides.
func (q *query) project(rel algebra.Rel, c *clauses) algebra.Rel {
	p := &algebra.Project{In: rel}
	have := map[expr.ColID]bool{}
	for _, it := range q.items {
		if !have[it.id] {
			have[it.id] = true
			p.Items = append(p.Items, algebra.Item{ID: it.id, Name: it.name, Node: it.node})
		}
	}
	in := map[expr.ColID]bool{}
	for _, id := range rel.Cols() {
		in[id] = true
	}
	for _, k := range c.order {
		cols(k.Expr, func(n *expr.Col) {
			if !have[n.ID] && in[n.ID] {
				have[n.ID] = true
				p.Items = append(p.Items, algebra.Item{ID: n.ID, Name: n.Name, Node: n})
			}
		}, func(id expr.ColID) {
			if !have[id] && in[id] {
				have[id] = true
				p.Items = append(p.Items, algebra.Item{ID: id, Node: &expr.Col{ID: id, T: q.typeOf(id)}})
			}
		})
	}
	return p
}

// typeOf is the type of a column of FROM that only a subquery names.
func (q *query) typeOf(id expr.ColID) expr.Type {
	if c := q.ownColumn(id); c != nil {
		return c.typ
	}
	return expr.Type{}
}

// cols calls f for the columns of an expression, and g for those that its subqueries use.
func cols(n expr.Node, f func(*expr.Col), g func(expr.ColID)) {
	expr.Walk(n, func(n expr.Node) bool {
		switch n := n.(type) {
		case *expr.Col:
			f(n)
		case *expr.Sub:
			for _, id := range n.Outer {
				g(id)
			}
		}
		return true
	})
}

// distinct keeps one of equal rows. ORDER BY of what they do not show is refused. Without
// ONLY_FULL_GROUP_BY any of the values counts.
func (q *query) distinct(rel algebra.Rel, c *clauses) (algebra.Rel, error) {
	shown := map[expr.ColID]bool{}
	for _, it := range q.items {
		shown[it.id] = true
	}
	hidden := map[expr.ColID]*expr.Col{}
	for i, k := range c.order {
		var err error
		cols(k.Expr, func(n *expr.Col) {
			if shown[n.ID] {
				return
			}
			hidden[n.ID] = n
			if !q.b.s.Mode.OnlyFullGroupBy || err != nil {
				return
			}
			if q.ownColumn(n.ID) == nil {
				err = refuse(3066, "HY000", "Expression #%d of ORDER BY clause is not in SELECT list, contains aggregate function; "+
					"this is incompatible with DISTINCT", i+1)
			} else {
				err = refuse(3065, "HY000", "Expression #%d of ORDER BY clause is not in SELECT list, references column '%s' "+
					"which is not in SELECT list; this is incompatible with DISTINCT", i+1, q.fullName(n.ID))
			}
		}, func(id expr.ColID) {
			if !shown[id] && q.ownColumn(id) != nil {
				err = unsupported("ORDER BY of DISTINCT by a subquery")
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if len(hidden) == 0 {
		return &algebra.Distinct{In: rel, On: rel.Cols()}, nil
	}
	g := &algebra.GroupBy{In: rel, Keyed: true}
	by := map[expr.ColID]expr.Node{}
	for _, it := range q.items {
		if col := q.itemCol(&it); shown[it.id] {
			shown[it.id] = false
			g.Keys = append(g.Keys, algebra.Item{ID: it.id, Name: it.name, Node: col})
		}
	}
	for id, n := range hidden {
		a, err := expr.NewAgg(expr.LookupAgg("any_value"), []expr.Node{n}, false, nil, "")
		if err != nil {
			return nil, err
		}
		col := &expr.Col{ID: q.b.newID(), Name: n.Name, T: a.Type()}
		g.Aggs = append(g.Aggs, algebra.Agg{ID: col.ID, Name: n.Name, Call: a.(*expr.Agg)})
		by[id] = col
	}
	for i := range c.order {
		var err error
		c.order[i].Expr, err = expr.Rewrite(c.order[i].Expr, func(n expr.Node) (expr.Node, error) {
			if col, ok := n.(*expr.Col); ok && by[col.ID] != nil {
				return by[col.ID], nil
			}
			return n, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}

// limit adds LIMIT and OFFSET.
func (q *query) limit(rel algebra.Rel, l *ast.Limit) (algebra.Rel, error) {
	if l == nil {
		return rel, nil
	}
	x := &exprs{q: q, s: &scope{q: q}, clause: "limit"}
	out := &algebra.Limit{In: rel}
	var err error
	if l == q.b.limitOf {
		// The statement counts the rows that LIMIT leaves out.
		q.b.page, out.In = out, nil
	}
	if l.Count != nil {
		if out.Count, err = x.count(l.Count); err != nil {
			return nil, err
		}
	}
	if l.Offset != nil {
		if out.Offset, err = x.count(l.Offset); err != nil {
			return nil, err
		}
	}
	if out.In == nil {
		return rel, nil
	}
	return out, nil
}

// values binds VALUES ROW(...), ROW(...).
func (b *binder) values(n *ast.SelectStmt, outer *scope) (*bound, error) {
	q := &query{b: b, outer: map[expr.ColID]bool{}, aliases: map[expr.ColID]bool{}}
	q.scope = &scope{outer: outer, q: q}
	v := &algebra.Values{}
	x := &exprs{q: q, s: q.scope, clause: "field list"}
	for _, r := range n.Lists {
		var row []expr.Node
		for _, e := range r.Values {
			c, err := x.scalar(e)
			if err != nil {
				return nil, err
			}
			row = append(row, c)
		}
		if len(v.Rows) > 0 && len(row) != len(v.Rows[0]) {
			return nil, fail(1136, "21S01", "Column count doesn't match value count at row %d", len(v.Rows)+1)
		}
		v.Rows = append(v.Rows, row)
	}
	res := &bound{outer: q.outer}
	for i := range v.Rows[0] {
		var all []expr.Node
		for _, r := range v.Rows {
			all = append(all, r[i])
		}
		t, err := expr.Merge("values", all...)
		if err != nil {
			return nil, err
		}
		for _, r := range v.Rows {
			if r[i], err = castNode(r[i], t); err != nil {
				return nil, err
			}
		}
		id := b.newID()
		v.IDs = append(v.IDs, id)
		res.cols = append(res.cols, column{id: id, name: fmt.Sprintf("column_%d", i), typ: t})
	}
	res.rel = b.apartRows(v, res)
	r, err := b.ordered(res, n.OrderBy, n.Limit, outer)
	return r, err
}

// apartRows makes a union of rows that have subqueries.
func (b *binder) apartRows(v *algebra.Values, res *bound) algebra.Rel {
	subs := false
	for _, n := range v.Nodes() {
		subs = subs || expr.HasSub(n)
	}
	if !subs || len(v.Rows) == 1 {
		return v
	}
	ids := func() (out []expr.ColID) {
		for range v.IDs {
			out = append(out, b.newID())
		}
		return out
	}
	var out algebra.Rel
	for i, row := range v.Rows {
		one := &algebra.Values{IDs: ids(), Rows: [][]expr.Node{row}}
		if out == nil {
			out = one
			continue
		}
		u := &algebra.SetOp{All: true, L: out, R: one, LeftCols: out.Cols(), RightCols: one.IDs}
		if u.IDs = ids(); i == len(v.Rows)-1 {
			u.IDs = v.IDs
		}
		for _, c := range res.cols {
			u.Names, u.Types = append(u.Names, c.name), append(u.Types, c.typ)
		}
		out = u
	}
	return out
}
