package bind

import (
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// groupBy binds the keys of GROUP BY.
func (q *query) groupBy(g *ast.GroupByClause) error {
	if g == nil {
		return nil
	}
	q.grouped = true
	if g.Rollup {
		q.level = q.b.newID()
	}
	for _, it := range g.Items {
		n, err := q.groupKey(it.Expr)
		if err == nil {
			err = q.b.interrupted() // it is compared with all keys before
		}
		if err != nil {
			return err
		}
		if len(q.aggsIn(n)) > 0 {
			return fail(1056, "42000", "Can't group on '%s'", n)
		}
		if _, ok := n.(*expr.Const); ok && q.level == 0 {
			continue // one group
		}
		if q.level != 0 && (q.isKey(n) || isConst(n)) {
			return unsupported("ROLLUP of a constant or of a key twice")
		}
		if !q.isKey(n) {
			k := algebra.Item{Node: n}
			if c, ok := n.(*expr.Col); ok {
				k.ID, k.Name = c.ID, c.Name
			} else {
				k.ID = q.b.newID()
			}
			q.keys = append(q.keys, k)
		}
	}
	return nil
}

func isConst(n expr.Node) bool {
	_, ok := n.(*expr.Const)
	return ok
}

func (q *query) isKey(n expr.Node) bool {
	for _, k := range q.keys {
		if expr.Equal(k.Node, n) {
			return true
		}
	}
	return false
}

// groupKey binds a key: a position, a column of FROM, an alias, or an expression.
func (q *query) groupKey(n ast.ExprNode) (expr.Node, error) {
	if p, ok := n.(*ast.PositionExpr); ok {
		if p.N < 1 || p.N > len(q.items) {
			return nil, unknownColumn(positionText(p), "group statement")
		}
		return q.itemAsKey(&q.items[p.N-1])
	}
	if c, ok := n.(*ast.ColumnNameExpr); ok && c.Name.Table.O == "" {
		col, err := q.scope.find("", "", c.Name.Name.O, "group statement")
		if err != nil {
			return nil, err
		}
		if col == nil {
			it, err := q.itemNamed(c.Name, "group statement")
			if err != nil {
				return nil, err
			}
			if it != nil {
				return q.itemAsKey(it)
			}
		}
	}
	x := &exprs{q: q, s: q.scope, clause: "group statement", agg: false, names: inGroup}
	k, err := x.scalar(n)
	if err == nil && expr.HasSub(k) {
		k = q.settleKey(q.b.newID(), "", k)
	}
	return k, err
}

// settleKey makes a column of the rows of FROM of a key that has a subquery in it.
func (q *query) settleKey(id expr.ColID, name string, n expr.Node) expr.Node {
	col := &expr.Col{ID: id, Name: name, T: n.Type()}
	p := &algebra.Project{In: q.fromRel, Items: append(q.hand(q.fromRel), q.settled...)}
	p.Items = append(p.Items, algebra.Item{ID: id, Name: name, Node: n})
	q.fromRel, q.settled = p, append(q.settled, algebra.Item{ID: id, Name: name, Node: col})
	return col
}

func (q *query) itemAsKey(it *item) (expr.Node, error) {
	if len(q.aggsIn(it.node)) > 0 || len(q.winsIn(it.node)) > 0 {
		return nil, fail(1056, "42000", "Can't group on '%s'", it.name)
	}
	if expr.Ordered(it.node) {
		return nil, unsupported("GROUP BY of an assignment")
	}
	if expr.HasSub(it.node) {
		it.node = q.settleKey(it.id, it.name, it.node)
	}
	return it.node, nil
}

// aggsIn are the aggregates of this query that an expression uses.
func (q *query) aggsIn(n expr.Node) (out []expr.ColID) {
	expr.Cols(n, func(id expr.ColID) {
		for _, a := range q.aggs {
			if a.ID == id {
				out = append(out, id)
			}
		}
	})
	return out
}

// group adds the grouping, and rewrites everything behind it to use its columns.
func (q *query) group(rel algebra.Rel, c *clauses, g *ast.GroupByClause) (algebra.Rel, error) {
	if len(q.aggs) > 0 {
		q.grouped = true
	}
	if len(q.groupings) > 0 && q.level == 0 {
		return nil, refuse(1111, "HY000", "Invalid use of group function")
	}
	if !q.grouped {
		return rel, nil
	}
	q.sealed, q.keyed = true, g != nil
	var err error
	for i := range q.items {
		q.place = fmt.Sprintf("expression #%d of SELECT list", i+1)
		if q.items[i].node, err = q.regroup(q.items[i].node); err != nil {
			return nil, err
		}
	}
	for i := range c.having {
		q.place = "expression #1 of HAVING clause"
		if c.having[i], err = q.regroup(c.having[i]); err != nil {
			return nil, err
		}
	}
	for i := range c.order {
		if q.place = ""; q.keyed {
			q.place = fmt.Sprintf("expression #%d of ORDER BY clause", i+1)
		}
		if c.order[i].Expr, err = q.regroup(c.order[i].Expr); err != nil {
			return nil, err
		}
	}
	for _, w := range q.wins {
		q.place = fmt.Sprintf("expression #%d of SELECT list", 1+max(0, slices.IndexFunc(q.items, w.in)))
		if err := w.mapNodes(q.regroup); err != nil {
			return nil, err
		}
	}
	return &algebra.GroupBy{In: rel, Keys: q.keys, Aggs: q.aggs, Keyed: g != nil, Rollup: q.level != 0, Level: q.level}, nil
}

// regroup rewrites an expression over the rows of FROM to one over groups.
func (q *query) regroup(n expr.Node) (expr.Node, error) {
	for _, k := range q.keys {
		// A quotient that is a key has the digits that are shown, also where one has all of them.
		if _, plain := k.Node.(*expr.Col); !plain && (expr.Equal(k.Node, n) || expr.Equal(expr.Exact(k.Node), n)) {
			return q.keyCol(k), nil
		}
	}
	switch n := n.(type) {
	case *expr.Call:
		if n.Fn.Name == "any_value" { // which row of a group its columns are of does not matter
			defer func(was bool) { q.anyValue = was }(q.anyValue)
			q.anyValue = true
		}
	case *expr.Col:
		if args, ok := q.groupings[n.ID]; ok {
			return q.grouping(args)
		}
		for _, k := range q.keys {
			if k.ID == n.ID {
				return q.keyCol(k), nil
			}
		}
		if q.level != 0 && q.aliases[n.ID] {
			return &expr.Col{ID: n.ID, Name: n.Name, T: n.T.AsNull()}, nil // it may be made of keys
		}
		return n, q.grouped1(n.ID, n.Name, n.T)
	case *expr.Sub:
		for _, id := range n.Outer {
			if c := q.ownColumn(id); c != nil {
				if q.level != 0 {
					return nil, unsupported("ROLLUP with a subquery over the groups")
				}
				if err := q.grouped1(id, c.name, c.typ); err != nil {
					return nil, err
				}
			}
		}
	}
	ch := n.Children()
	var fresh []expr.Node
	for i, x := range ch {
		y, err := q.regroup(x)
		if err != nil {
			return nil, err
		}
		if y != x && fresh == nil {
			fresh = append([]expr.Node(nil), ch...)
		}
		if fresh != nil {
			fresh[i] = y
		}
	}
	if fresh == nil {
		return n, nil
	}
	return n.With(fresh)
}

// keyCol is the column of a key behind the grouping. ROLLUP makes NULLs of keys.
func (q *query) keyCol(k algebra.Item) expr.Node {
	t := k.Node.Type()
	if q.level != 0 {
		t.NotNull = false
	}
	return &expr.Col{ID: k.ID, Name: k.Name, T: t}
}

// isGrouping binds GROUPING(key, ...). The keys are not known yet: a column stands for it until
// then.
func (x *exprs) isGrouping(args []ast.ExprNode) (expr.Node, error) {
	if !x.agg {
		return nil, refuse(1111, "HY000", "Invalid use of group function")
	}
	in := &exprs{q: x.q, s: x.s, clause: x.clause, names: x.names}
	list, err := in.list(args)
	if err != nil {
		return nil, err
	}
	c := &expr.Col{ID: x.q.b.newID(), Name: "grouping", T: expr.TypeInt}
	c.T.NotNull = true
	if x.q.groupings == nil {
		x.q.groupings = map[expr.ColID][]expr.Node{}
	}
	x.q.groupings[c.ID] = list
	return c, nil
}

// grouping computes GROUPING: a bit for each argument, the last one the lowest, that says whether a
// row has lost it. A row that has lost n keys has lost the last n.
func (q *query) grouping(args []expr.Node) (expr.Node, error) {
	var sum expr.Node = expr.IntConst(0)
	for i, a := range args {
		at := slices.IndexFunc(q.keys, func(k algebra.Item) bool { return expr.Equal(k.Node, a) })
		if at < 0 {
			return nil, refuse(3148, "HY000", "Argument #%d of GROUPING function is not in GROUP BY", i+1)
		}
		t := expr.TypeInt
		t.NotNull = true
		bit, err := call(">=", &expr.Col{ID: q.level, Name: "level", T: t}, expr.IntConst(int64(len(q.keys)-at)))
		if err == nil {
			sum, err = call("*", sum, expr.IntConst(2))
		}
		if err == nil {
			sum, err = call("+", sum, bit)
		}
		if err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// grouped1 makes a column of FROM usable behind the grouping: it is a key, or has one value in each
// group, or any will do.
func (q *query) grouped1(id expr.ColID, name string, t expr.Type) error {
	if q.ownColumn(id) == nil {
		return nil // an aggregate, an item, or of an outer query
	}
	for _, k := range q.keys {
		if k.ID == id {
			return nil
		}
	}
	if q.b.s.Mode.OnlyFullGroupBy && !q.anyValue && !q.follows(id) {
		if q.keyed {
			return fail(1055, "42000", "E%s is not in GROUP BY clause and contains nonaggregated column '%s' which is not functionally "+
				"dependent on columns in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by", q.place[1:], q.fullName(id))
		}
		if q.place == "" { // MySQL has it, and go-mysql-server aggregates the rows in that order
			return unsupported("ORDER BY of one row")
		}
		return fail(1140, "42000", "In aggregated query without GROUP BY, %s contains nonaggregated column '%s'; "+
			"this is incompatible with sql_mode=only_full_group_by", q.place, q.fullName(id))
	}
	for _, a := range q.aggs {
		if a.ID == id {
			return nil
		}
	}
	t.NotNull = false
	a, err := expr.NewAgg(expr.LookupAgg("any_value"), []expr.Node{&expr.Col{ID: id, Name: name, T: t}}, false, nil, "")
	if err != nil {
		return err
	}
	q.aggs = append(q.aggs, algebra.Agg{ID: id, Name: name, Call: a.(*expr.Agg)})
	return nil
}

// follows reports whether a column of FROM has one value in each group.
func (q *query) follows(id expr.ColID) bool {
	if q.closed == nil {
		keys := map[expr.ColID]bool{}
		for _, k := range q.keys {
			if c, ok := k.Node.(*expr.Col); ok {
				keys[c.ID] = true
			}
		}
		q.closed = algebra.Determined(q.fromRel, keys)
	}
	return q.closed[id]
}

// fullName is a column of FROM for messages.
func (q *query) fullName(id expr.ColID) string {
	c := q.ownColumn(id)
	return tree.Qualified(c.org.DB, c.table, c.name)
}
