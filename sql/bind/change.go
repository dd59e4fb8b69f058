package bind

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// ChangeKind is what a statement does to rows.
type ChangeKind uint8

// The kinds of changes.
const (
	Delete ChangeKind = iota
	Update
	Insert
)

// Change is a DELETE, UPDATE, INSERT or REPLACE that is bound: a query that yields the rows to
// change and the new values, and what these columns are. Of a joined one (Joined), a row may come
// several times, or not at all (NULL): the first one counts. An INSERT of constants has no query
// (Rel).
type Change struct {
	*Query
	Kind    ChangeKind
	Targets []*Target
	Joined  bool
	// Ordered: the statement says in which order rows are changed.
	Ordered bool
	// Ignore: what is wrong with a row is a warning.
	Ignore bool
	// Insert is more about an INSERT or REPLACE.
	Insert *Insertion
	// Reads are the columns of the table of an INSERT that its values and ON DUPLICATE KEY UPDATE
	// read.
	Reads Columns
}

// Target is a table whose rows are changed.
type Target struct {
	Table algebra.Target
	// Row is the column that has the row as it is stored; INSERT has none.
	Row expr.ColID
	// Sets are the values of columns, in the order of their assignment. The second one of a column
	// counts.
	Sets []Set
	// Checks are columns that must not be FALSE.
	Checks []CheckValue
}

// Set is a column that gets a value. Derived ones follow from the others: a row of which nothing
// else changes stays as it is.
type Set struct {
	Col     int
	Value   expr.ColID
	Derived bool
	// Missing: the value is DEFAULT, and the column has none.
	Missing bool
}

// CheckValue is the value of a condition of the table.
type CheckValue struct {
	Name  string
	Value expr.ColID
}

// BindChange binds a statement that changes rows.
func BindChange(stmt Stmt, s *Session) (*Change, error) {
	b := &binder{s: s, next: 1, db: s.DB}
	q := &query{b: b, outer: map[expr.ColID]bool{}, aliases: map[expr.ColID]bool{}, specs: map[string]*ast.WindowSpec{}}
	q.scope = &scope{q: q}
	c := &changer{query: q, out: &Change{Query: &Query{}}}
	var err error
	switch n := stmt.(type) {
	case *ast.DeleteStmt:
		err = c.delete(n)
	case *ast.UpdateStmt:
		err = c.update(n)
	case *ast.InsertStmt:
		err = c.insert(n, rowAlias{})
	case *aliased:
		err = c.insert(n.InsertStmt, n.alias)
	default:
		err = unsupported("statement %s", kindOf(stmt))
	}
	if err != nil {
		return nil, err
	}
	if c.out.Uses, c.out.Updates, c.out.Next = b.uses, b.updates, b.next; c.rel == nil {
		return c.out, nil
	}
	c.out.Rel = &algebra.Project{In: c.rel, Items: c.items}
	for _, it := range c.items {
		c.out.Out = append(c.out.Out, Output{ID: it.ID, Name: it.Name, Type: it.Node.Type()})
	}
	return c.out, nil
}

// changer binds one change.
type changer struct {
	*query
	out   *Change
	rel   algebra.Rel
	items []algebra.Item
}

// yield makes an expression a column of the query.
func (c *changer) yield(name string, n expr.Node) expr.ColID {
	id := c.b.newID()
	c.items = append(c.items, algebra.Item{ID: id, Name: name, Node: n})
	return id
}

// rows binds the tables and the condition.
func (c *changer) rows(with *ast.WithClause, refs *ast.TableRefsClause, where ast.ExprNode) error {
	if err := c.b.with(with, nil); err != nil {
		return err
	}
	var err error
	if c.rel, c.scope.cols, err = c.from(refs.TableRefs); err != nil {
		return err
	}
	for _, s := range c.scans {
		s.Lock = algebra.ForUpdate
	}
	_, single := c.rel.(*algebra.Scan)
	c.out.Joined = !single
	if where == nil {
		return nil
	}
	x := &exprs{q: c.query, s: c.scope, clause: "where clause"}
	conds, err := x.conjunction(where)
	if err != nil {
		return err
	}
	c.facts = append(c.facts, conds...)
	c.rel = &algebra.Filter{In: c.rel, Conds: conds}
	return nil
}

// first binds ORDER BY and LIMIT, which say which rows are changed, and in which order.
func (c *changer) first(order *ast.OrderByClause, limit *ast.Limit) error {
	if order == nil && limit == nil {
		return nil
	}
	if c.out.Joined {
		return unsupported("ORDER BY or LIMIT of a joined change")
	}
	if order != nil {
		c.out.Ordered = true
		s := &algebra.Sort{In: c.rel}
		x := &exprs{q: c.query, s: c.scope, clause: "order clause"}
		for _, o := range order.Items {
			n, err := x.scalar(o.Expr)
			if err != nil {
				return err
			}
			s.Keys = append(s.Keys, algebra.Order{Expr: n, Desc: o.Desc})
		}
		c.rel = s
	}
	var err error
	c.rel, err = c.limit(c.rel, limit)
	return err
}

// target makes a table of FROM one whose rows are changed.
func (c *changer) target(s *algebra.Scan) (*Target, error) {
	t, ok := s.Table.(algebra.Target)
	if !ok {
		return nil, unsupported("change of a table of another kind")
	}
	for _, o := range c.out.Targets {
		if o.Table == t {
			return nil, unsupported("change of a table under two names")
		}
	}
	id := s.IDs[t.RowColumn()]
	out := &Target{Table: t, Row: id}
	row := *c.ownColumn(id)
	row.of = nil // nobody is told what is in it
	c.items = append(c.items, algebra.Item{ID: id, Node: row.node()})
	c.out.Targets = append(c.out.Targets, out)
	return out, nil
}

func (c *changer) delete(n *ast.DeleteStmt) error {
	c.out.Kind, c.out.Ignore = Delete, n.IgnoreErr
	if err := c.rows(n.With, n.TableRefs, n.Where); err != nil {
		return err
	}
	if err := c.first(n.Order, n.Limit); err != nil {
		return err
	}
	if n.Tables == nil {
		if len(c.scans) != 1 || c.out.Joined {
			return unsupported("change of a view")
		}
		_, err := c.target(c.scans[0])
		return err
	}
	c.out.Joined = true
	for _, name := range n.Tables.Tables {
		s, err := c.named(name)
		if err != nil {
			return err
		}
		if _, err := c.target(s); err != nil {
			return err
		}
	}
	return nil
}

// named is the table of FROM that a DELETE names.
func (c *changer) named(n *ast.TableName) (*algebra.Scan, error) {
	var found *algebra.Scan
	for _, s := range c.scans {
		if !strings.EqualFold(s.Alias, n.Name.O) || n.Schema.O != "" && !strings.EqualFold(s.Table.DB(), n.Schema.O) {
			continue
		}
		if found != nil {
			return nil, unsupported("change of one of two tables of a name")
		}
		found = s
	}
	if found == nil {
		return nil, unsupported("change of a view")
	}
	return found, nil
}

func (c *changer) update(n *ast.UpdateStmt) error {
	c.out.Kind, c.out.Ignore = Update, n.IgnoreErr
	if err := c.rows(n.With, n.TableRefs, n.Where); err != nil {
		return err
	}
	if err := c.first(n.Order, n.Limit); err != nil {
		return err
	}
	all := map[*algebra.Scan]*assigned{}
	var order []*assigned
	for _, a := range n.List {
		s, pos, err := c.assignee(a.Column)
		if err != nil {
			return err
		}
		t := all[s]
		if t == nil {
			if t, err = c.assign(s); err != nil {
				return err
			}
			all[s], order = t, append(order, t)
		}
		if err := c.set(t, pos, a.Expr, order); err != nil {
			return err
		}
	}
	for _, t := range order {
		if err := c.derive(t); err != nil {
			return err
		}
	}
	return nil
}

// assigned is a table while its new values are bound.
type assigned struct {
	*Target
	ids  []expr.ColID // of its columns, as they are before
	cols []column
	// vals are the new values of columns that have any.
	vals map[expr.ColID]expr.Node
}

func (c *changer) assign(s *algebra.Scan) (*assigned, error) {
	t, err := c.target(s)
	if err != nil {
		return nil, err
	}
	a := &assigned{Target: t, ids: s.IDs, vals: map[expr.ColID]expr.Node{}}
	for _, id := range s.IDs {
		a.cols = append(a.cols, *c.ownColumn(id))
	}
	a.cols = readInto(a.cols, nil)
	return a, nil
}

// assignee finds the column that is assigned to.
func (c *changer) assignee(n *ast.ColumnName) (*algebra.Scan, int, error) {
	col, err := c.scope.find(n.Schema.O, n.Table.O, n.Name.O, "field list")
	if err != nil {
		return nil, 0, err
	}
	if col == nil {
		return nil, 0, unknownColumn(qualified(n.Schema.O, n.Table.O, n.Name.O), "field list")
	}
	for _, s := range c.scans {
		for pos, id := range s.IDs {
			if id == col.id && col.table != "" {
				return s, pos, nil
			}
		}
	}
	return nil, 0, unsupported("change of a view")
}

// set binds an assignment. It sees what those before it have assigned to the same table, as MySQL
// has it for one table; with several tables the order is nobody's promise.
func (c *changer) set(t *assigned, pos int, e ast.ExprNode, all []*assigned) error {
	rule := t.Table.Rule(pos)
	if rule.Generated != "" {
		return unsupported("assignment to a generated column")
	}
	var n expr.Node
	var err error
	if d, ok := e.(*ast.DefaultExpr); ok && d.Name == nil {
		if lacksDefault(t.Table, pos) {
			t.Sets = append(t.Sets, Set{Col: pos, Missing: true})
			return c.noDefault(t, pos)
		}
		n, err = c.byDefault(t.Table, pos)
	} else {
		x := &exprs{q: c.query, s: c.scope, clause: "field list"}
		n, err = x.scalar(e)
	}
	if err != nil {
		return err
	}
	for _, o := range all {
		if n, err = o.now(n); err != nil {
			return err
		}
		if c.out.Joined && o.reads(n) {
			return unsupported("assignment that uses one before it, of several tables")
		}
	}
	t.Sets = append(t.Sets, Set{Col: pos, Value: c.yield(t.cols[pos].name, n)})
	return t.note(pos, n)
}

// noDefault keeps what a column without a default holds after DEFAULT. In strict mode that is an
// error of each row, so that the value is of no interest.
func (c *changer) noDefault(t *assigned, pos int) error {
	typ := t.cols[pos].typ
	strict := c.b.s.Mode.Strict && !c.out.Ignore && typ.Kind != expr.Enum
	switch {
	case strict && c.out.Joined:
		return nil
	case strict:
		return t.note(pos, expr.NullConst())
	case typ.Numeric() && typ.Kind != expr.Bit:
		return t.note(pos, expr.IntConst(0))
	case typ.Kind == expr.Text:
		return t.note(pos, expr.TextConst("", typ.Coll))
	}
	t.vals[t.ids[pos]] = noValue
	return nil
}

// note keeps the new value of a column for the expressions that use it.
func (t *assigned) note(pos int, n expr.Node) (err error) {
	t.vals[t.ids[pos]], err = castNode(n, t.cols[pos].typ)
	return err
}

// reads reports whether an expression has a value of this table in it that was assigned.
func (t *assigned) reads(n expr.Node) bool {
	found := false
	expr.Walk(n, func(n expr.Node) bool {
		for _, v := range t.vals {
			found = found || n == v
		}
		return !found
	})
	return found
}

// now is an expression over the new values of the table.
func (t *assigned) now(n expr.Node) (expr.Node, error) {
	if len(t.vals) == 0 {
		return n, nil
	}
	var err error
	expr.Walk(n, func(n expr.Node) bool {
		s, ok := n.(*expr.Sub)
		if !ok {
			return true
		}
		for _, id := range s.Outer {
			if t.vals[id] != nil {
				err = unsupported("subquery that uses an assigned column")
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return expr.Rewrite(n, func(n expr.Node) (expr.Node, error) {
		col, ok := n.(*expr.Col)
		if !ok || t.vals[col.ID] == nil {
			return n, nil
		}
		if v := t.vals[col.ID]; v != noValue && !hasSub(v) && !volatile(v) {
			return v, nil
		}
		return nil, unsupported("use of an assigned column")
	})
}

// noValue stands for the new value of a column without a default that gets its default.
var noValue expr.Node = expr.NullConst()

func lacksDefault(t algebra.Target, pos int) bool {
	r := t.Rule(pos)
	return r.Default == "" && r.Generated == "" && !r.AutoInc && t.Columns()[pos].Type.NotNull
}

// byDefault is the value of a column that is not given.
func (c *changer) byDefault(t algebra.Target, pos int) (expr.Node, error) {
	r, col := t.Rule(pos), t.Columns()[pos]
	switch {
	case r.Default != "":
		return c.definition(r.Default, nil)
	case col.Type.NotNull || r.Generated != "":
		return nil, unsupported("column without a default")
	}
	return expr.NullConst(), nil
}

// definition binds the text of an expression of a table's definition.
func (q *query) definition(text string, cols []column) (expr.Node, error) {
	stmt, err := Parse("SELECT "+text, Mode{})
	if err != nil {
		return nil, unsupported("expression of a definition")
	}
	s, ok := stmt.(*ast.SelectStmt)
	if !ok || s.Fields == nil || len(s.Fields.Fields) != 1 || s.Fields.Fields[0].WildCard != nil || s.From != nil {
		return nil, unsupported("expression of a definition")
	}
	x := &exprs{q: q, s: &scope{q: q, cols: cols}, clause: "field list"}
	n, err := x.scalar(s.Fields.Fields[0].Expr)
	if err != nil {
		if _, ok := Reason(err); !ok {
			err = unsupported("expression of a definition")
		}
		return nil, err
	}
	return n, nil
}

// derive binds what follows from the new values: columns ON UPDATE, generated columns, conditions.
func (c *changer) derive(t *assigned) error {
	given := map[int]bool{}
	for _, s := range t.Sets {
		given[s.Col] = true
	}
	for pos := range t.Table.RowColumn() {
		if u := t.Table.Rule(pos).OnUpdate; u != "" && !given[pos] {
			n, err := c.definition(u, nil)
			if err != nil {
				return err
			}
			if err := c.derived(t, pos, n); err != nil {
				return err
			}
		}
	}
	for pos := range t.Table.RowColumn() {
		if g := t.Table.Rule(pos).Generated; g != "" {
			n, changed, err := c.over(t, g)
			if err != nil {
				return err
			}
			if !changed {
				continue
			}
			if err := c.derived(t, pos, n); err != nil {
				return err
			}
		}
	}
	for _, k := range t.Table.Checks() {
		n, changed, err := c.over(t, k.Text)
		if err != nil {
			return err
		}
		if changed {
			t.Checks = append(t.Checks, CheckValue{k.Name, c.yield(k.Name, n)})
		}
	}
	return nil
}

func (c *changer) derived(t *assigned, pos int, n expr.Node) error {
	t.Sets = append(t.Sets, Set{Col: pos, Value: c.yield(t.cols[pos].name, n), Derived: true})
	return t.note(pos, n)
}

// over binds an expression of a definition over the new values; changed says that it has any.
func (c *changer) over(t *assigned, text string) (n expr.Node, changed bool, err error) {
	if n, err = c.definition(text, t.cols); err != nil {
		return nil, false, err
	}
	expr.Cols(n, func(id expr.ColID) { changed = changed || t.vals[id] != nil })
	n, err = t.now(n)
	return n, changed, err
}
