package bind

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
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
	// Steps are the views through which the statement names the table, outermost first, and the
	// table itself.
	Steps []Step
	// Sets are the values of columns, in the order of their assignment. The second one of a column
	// counts.
	Sets []Set
	// Olds are the virtual columns as they are: the stored row has none.
	Olds []Set
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
	// Read: something else of the statement uses the value, as it is before it is made to fit.
	Read bool
}

// CheckValue is the value of a condition. One of the table must not be FALSE, one of a view with
// CHECK OPTION (View) must be TRUE.
type CheckValue struct {
	Name  string
	Value expr.ColID
	View  bool
}

// BindChange binds a statement that changes rows.
func BindChange(stmt Stmt, s *Session) (c *Change, err error) {
	err = expr.Settle(s.UserVar, s.Collation, func(a *expr.Assigned) (err error) {
		c, err = (&binder{s: s, next: 1, db: s.DB, vars: a}).change(stmt)
		return err
	})
	return c, err
}

func (b *binder) change(stmt Stmt) (*Change, error) {
	q := newQuery(b, nil)
	q.merges = true
	c := &changer{query: q, out: &Change{Query: &Query{}}}
	var err error
	switch n := stmt.(type) {
	case *ast.DeleteStmt:
		err = c.delete(n)
	case *ast.UpdateStmt:
		err = c.update(n)
	case *ast.InsertStmt:
		err = c.insert(n, tree.RowAlias{})
	case *tree.Aliased:
		err = c.insert(n.InsertStmt, n.Alias)
	default:
		err = unsupported("statement %s", kindOf(stmt))
	}
	if err != nil {
		return nil, b.final(err)
	}
	if c.out.Uses, c.out.Updates, c.out.Next = b.uses, b.updates, b.next; c.rel == nil {
		return c.out, nil
	}
	c.out.Rel = &algebra.Project{In: c.rel, Items: c.items}
	if len(b.vars.Found) > 0 {
		if err := inPlace(c.out.Rel); err != nil {
			return nil, err
		}
	}
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
	into  *intoView // the view of an INSERT
}

// String is the word of a statement.
func (k ChangeKind) String() string { return [...]string{"delete", "update", "insert"}[k] }

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
	for _, t := range c.bases {
		t.scan.Lock = algebra.ForUpdate
	}
	c.out.Joined = c.several
	if where == nil {
		return nil
	}
	x := &exprs{q: c.query, s: c.scope, clause: "where clause"}
	conds, err := x.conjunction(where)
	if err != nil {
		return err
	}
	c.facts = append(c.facts, conds...)
	c.rel = &algebra.Filter{In: c.rel, Conds: c.byColumns(slices.Clone(conds))}
	return nil
}

// first binds ORDER BY and LIMIT, which say which rows are changed, and in which order.
func (c *changer) first(order *ast.OrderByClause, limit *ast.Limit) error {
	if order == nil && limit == nil {
		return nil
	}
	if c.out.Joined {
		what := "ORDER BY"
		if order == nil {
			what = "LIMIT"
		}
		return refuse(1221, "HY000", "Incorrect usage of %s and %s", strings.ToUpper(c.out.Kind.String()), what)
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
func (c *changer) target(b *fromTable) (*Target, error) {
	s := b.scan
	if b.past {
		return nil, refuse(1105, "HY000", "table %s is read AS OF a time and cannot be changed", s.Table.Name())
	}
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
	out := &Target{Table: t, Row: id, Steps: b.steps()}
	row := b.cols[t.RowColumn()]
	row.of = nil // nobody is told what is in it
	c.items = append(c.items, algebra.Item{ID: id, Node: row.node()})
	if v, ok := s.Table.(computer); ok {
		for pos := range t.RowColumn() {
			if v.Computed()[pos] == nil {
				continue
			}
			col := b.cols[pos]
			col.of = nil
			c.items = append(c.items, algebra.Item{ID: col.id, Node: col.node()})
			out.Olds = append(out.Olds, Set{Col: pos, Value: col.id})
		}
	}
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
		if len(c.levels) > 0 && c.levels[0].several {
			return noDelete(c.levels[0])
		}
		if len(c.bases) != 1 || c.bases[0].blocked() || c.several {
			return notUpdatable(tree.FirstTable(n.TableRefs.TableRefs), "DELETE")
		}
		_, err := c.target(c.bases[0])
		return err
	}
	c.out.Joined = true
	for _, name := range n.Tables.Tables {
		t, err := c.named(name)
		if err != nil {
			return err
		}
		if _, err := c.target(t); err != nil {
			return err
		}
	}
	return nil
}

// named is the table of FROM that a DELETE names.
func (c *changer) named(n *ast.TableName) (*fromTable, error) {
	is := func(db, name string) bool {
		return strings.EqualFold(name, n.Name.O) && (n.Schema.O == "" || strings.EqualFold(db, n.Schema.O))
	}
	var found *fromTable
	for _, t := range c.bases {
		db, name := t.scan.Table.DB(), t.scan.Alias
		if len(t.path) > 0 {
			db, name = t.path[0].view.DB, t.path[0].cols[0].table
		}
		switch {
		case !is(db, name):
			continue
		case len(t.path) > 0 && t.path[0].several:
			return nil, noDelete(t.path[0])
		case t.blocked():
			return nil, notUpdatable(n.Name.O, "DELETE")
		case found != nil:
			return nil, unsupported("change of one of two tables of a name")
		}
		found = t
	}
	if found != nil {
		return found, nil
	}
	for _, col := range c.scope.cols {
		if is(col.db, col.table) {
			return nil, notUpdatable(n.Name.O, "DELETE")
		}
	}
	return nil, refuse(1109, "42S02", "Unknown table '%s' in MULTI DELETE", n.Name.O)
}

func (c *changer) update(n *ast.UpdateStmt) error {
	c.out.Kind, c.out.Ignore = Update, n.IgnoreErr
	if err := c.rows(n.With, n.TableRefs, n.Where); err != nil {
		return err
	}
	if err := c.first(n.Order, n.Limit); err != nil {
		return err
	}
	all := map[*fromTable]*assigned{}
	var order []*assigned
	for _, a := range n.List {
		b, pos, err := c.assignee(a.Column)
		if err != nil {
			return err
		}
		t := all[b]
		if t == nil {
			if err := apart(all, b); err != nil {
				return err
			}
			if t, err = c.assign(b); err != nil {
				return err
			}
			all[b], order = t, append(order, t)
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

// apart refuses to change two tables of one view.
func apart(all map[*fromTable]*assigned, b *fromTable) error {
	for o := range all {
		if len(o.path) > 0 && len(b.path) > 0 && o.path[0] == b.path[0] {
			return severalTables(b.path[0])
		}
	}
	return nil
}

// assigned is a table while its new values are bound.
type assigned struct {
	*Target
	base *fromTable // nil of a new row
	// names are the columns as the statement names them, where these are others (INSERT).
	names []column
	ids   []expr.ColID // of its columns, as they are before
	cols  []column
	// vals are the new values of columns that have any.
	vals map[expr.ColID]expr.Node
}

func (c *changer) assign(b *fromTable) (*assigned, error) {
	t, err := c.target(b)
	if err != nil {
		return nil, err
	}
	return &assigned{Target: t, base: b, ids: b.scan.IDs, cols: readInto(b.cols, nil), vals: map[expr.ColID]expr.Node{}}, nil
}

// assignee finds the column that is assigned to.
func (c *changer) assignee(n *ast.ColumnName) (*fromTable, int, error) {
	col, err := c.scope.find(n.Schema.O, n.Table.O, n.Name.O, "field list")
	if err != nil {
		return nil, 0, err
	}
	if col == nil {
		return nil, 0, unknownColumn(tree.Qualified(n.Schema.O, n.Table.O, n.Name.O), "field list")
	}
	for _, t := range c.bases {
		pos := slices.Index(t.scan.IDs, col.id)
		switch {
		case pos < 0:
			continue
		case t.blocked():
			return nil, 0, notUpdatable(col.table, "UPDATE")
		}
		return t, pos, nil
	}
	for _, l := range c.levels {
		if slices.ContainsFunc(l.cols, func(c column) bool { return c.id == col.id }) && !l.blocked {
			return nil, 0, refuse(1348, "HY000", "Column '%s' is not updatable", n.Name.O)
		}
	}
	return nil, 0, notUpdatable(col.table, "UPDATE")
}

// set binds an assignment. It sees what those before it have assigned to the same table, as MySQL
// has it for one table; with several tables the order is nobody's promise.
func (c *changer) set(t *assigned, pos int, e ast.ExprNode, all []*assigned) error {
	rule := t.Table.Rule(pos)
	if d, ok := e.(*ast.DefaultExpr); rule.Generated != "" {
		if ok && d.Name == nil {
			return nil // it follows from the others anyway
		}
		return generatedGiven(t.Target, pos)
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
		was := n
		if n, err = c.now(o, n); err != nil {
			return err
		}
		if n != was && o != t {
			return unsupported("assignment that uses one before it, of several tables")
		}
	}
	if err := typedDocument(n, t.cols[pos].typ); err != nil {
		return err
	}
	if t.cols[pos].typ.Numeric() {
		n = expr.Exact(n) // the column rounds it
	}
	if expr.HasSub(n) || expr.Volatile(n) {
		n = c.settle(n)
	}
	t.Sets = append(t.Sets, Set{Col: pos, Value: c.yield(t.cols[pos].name, n)})
	return t.note(pos, n)
}

// typedDocument leaves CAST(x AS JSON) for a column to go-mysql-server if the document would have
// to keep the type of x: the text of a document does not tell it.
func typedDocument(n expr.Node, to expr.Type) error {
	c, ok := n.(*expr.Cast)
	if !ok || to.Kind != expr.JSON || c.T.Kind != expr.JSON {
		return nil
	}
	switch t := c.Arg.Type(); {
	case t.Kind == expr.Uint || t.Kind == expr.Decimal || t.Temporal():
		return unsupported("typed value as a JSON document")
	}
	return nil
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
	t.vals[t.ids[pos]], err = stored(n, t.cols[pos].typ)
	return err
}

// stored is a value as a column has it. A text that is stored in a column of JSON is a document.
func stored(n expr.Node, t expr.Type) (expr.Node, error) {
	if t.Kind == expr.JSON && n.Type().Kind == expr.Text {
		return expr.NewCast(n, t), nil
	}
	return castNode(n, t)
}

// now is an expression with the new values of a table in the place of its columns.
func (c *changer) now(t *assigned, n expr.Node) (expr.Node, error) {
	if len(t.vals) == 0 {
		return n, nil
	}
	if err := c.settleFor(t, n); err != nil {
		return nil, err
	}
	return expr.Rewrite(n, func(n expr.Node) (expr.Node, error) {
		switch n := n.(type) {
		case *expr.Col:
			if v := t.vals[n.ID]; v == noValue {
				return nil, unsupported("use of an assigned column")
			} else if v != nil {
				t.read(n.ID)
				return v, nil
			}
		case *expr.Sub:
			return renamedSub(n, t.vals), nil
		}
		return n, nil
	})
}

// read notes that something uses the new value of a column.
func (t *assigned) read(id expr.ColID) {
	for i, s := range t.Sets {
		t.Sets[i].Read = s.Read || t.ids[s.Col] == id
	}
}

// settleFor makes columns of the new values that subqueries of an expression use.
func (c *changer) settleFor(t *assigned, n expr.Node) (err error) {
	expr.Walk(n, func(n expr.Node) bool {
		s, ok := n.(*expr.Sub)
		if !ok {
			return true
		}
		for _, id := range s.Outer {
			v := t.vals[id]
			if v == noValue {
				err = unsupported("use of an assigned column")
			} else if v != nil {
				t.read(id)
				t.vals[id] = c.settle(v)
			}
		}
		return true
	})
	return err
}

// settle makes a column of the query of an expression, so that it is evaluated once.
func (c *changer) settle(n expr.Node) expr.Node {
	if col, ok := n.(*expr.Col); ok {
		return col
	}
	col := &expr.Col{ID: c.b.newID(), T: n.Type()}
	p := &algebra.Project{In: c.rel, Items: append(c.hand(c.rel), c.settled...)}
	p.Items = append(p.Items, algebra.Item{ID: col.ID, Node: n})
	c.rel, c.settled = p, append(c.settled, algebra.Item{ID: col.ID, Node: col})
	return col
}

// renamedSub is a subquery in which outer columns have other numbers.
func renamedSub(s *expr.Sub, by map[expr.ColID]expr.Node) *expr.Sub {
	if !slices.ContainsFunc(s.Outer, func(id expr.ColID) bool { return by[id] != nil }) {
		return s
	}
	out := *s
	out.Rel = withCols(s.Rel.(algebra.Rel), by)
	out.Outer = renamedIDs(s.Outer, by)
	return &out
}

func renamedIDs(ids []expr.ColID, by map[expr.ColID]expr.Node) []expr.ColID {
	out := slices.Clone(ids)
	for i, id := range out {
		if col, ok := by[id].(*expr.Col); ok {
			out[i] = col.ID
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// withCols is a relation in which columns of outer queries are others.
func withCols(r algebra.Rel, by map[expr.ColID]expr.Node) algebra.Rel {
	rename := func(n expr.Node) expr.Node {
		n, _ = expr.Rewrite(n, func(n expr.Node) (expr.Node, error) {
			switch n := n.(type) {
			case *expr.Col:
				if col, ok := by[n.ID].(*expr.Col); ok {
					return col, nil
				}
			case *expr.Sub:
				return renamedSub(n, by), nil
			}
			return n, nil
		})
		return n
	}
	return algebra.Rewrite(r, func(r algebra.Rel) algebra.Rel {
		r = r.MapNodes(rename)
		if a, ok := r.(*algebra.Apply); ok {
			out := *a
			out.Outer = renamedIDs(a.Outer, by)
			return &out
		}
		return r
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
	x := &exprs{q: q, s: &scope{q: q, cols: cols}, clause: "field list", definition: true}
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
			t.Checks = append(t.Checks, CheckValue{Name: k.Name, Value: c.yield(k.Name, n)})
		}
	}
	if t.base == nil || len(t.base.path) == 0 {
		return nil
	}
	l := t.base.path[0]
	for _, cond := range l.mustHold(false) {
		n, err := c.now(t, cond)
		if err != nil {
			return err
		}
		if n != cond {
			t.Checks = append(t.Checks, CheckValue{l.named(), c.yield(l.named(), n), true})
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
	n, err = c.now(t, n)
	return n, changed, err
}
