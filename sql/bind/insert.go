package bind

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// Insertion is what a Change of the kind Insert has besides its query. A row gets its values from
// VALUES (Rows) or from the rows of the query (Target.Sets). What follows from them (Derived,
// Checks) is computed from the row as it is stored.
type Insertion struct {
	// IDs are the columns of the new row in the formulas below.
	IDs []expr.ColID
	// Rows are those of VALUES; each has the cells of the columns Cols.
	Values bool
	Cols   []int
	// Given are the columns that the statement gives values of. Listed: it names them.
	Given  []int
	Listed bool
	Rows   [][]Cell
	// Missing are the columns that get no value though they have no default.
	Missing []int
	// Derived are generated columns, Checks the conditions of the table.
	Derived, Checks []Formula
	// Replace: a new row takes the place of those that are in its way.
	Replace bool
	// Updates are those of ON DUPLICATE KEY UPDATE, over the row that is there (Old) and the new
	// one (IDs); OnUpdate are columns that get a value where the row changes.
	Updates, OnUpdate []Formula
	Old               []expr.ColID
}

// Formula is an expression for a column, or a condition with its name.
type Formula struct {
	Col  int
	Name string
	// View: the condition is one of a view with CHECK OPTION, and must be TRUE. Late: it uses what
	// AUTO_INCREMENT gives.
	View, Late bool
	// Node is nil for DEFAULT of a column that has none.
	Node expr.Node
}

// Cell is a value of VALUES: a constant, a column of the query, or DEFAULT of a column that has
// none.
type Cell struct {
	Const   *expr.Const
	Value   expr.ColID
	Missing bool
}

// insert binds INSERT and REPLACE.
func (c *changer) insert(n *ast.InsertStmt, alias tree.RowAlias) error {
	c.out.Kind = Insert
	if len(n.PartitionNames) > 0 {
		return unsupported("TABLESAMPLE or PARTITION")
	}
	t, err := c.intoTable(n.Table)
	if err != nil {
		return err
	}
	var cols []int
	if c.into != nil {
		if cols, err = c.into.given(n.Columns); err == nil {
			err = c.intoBase(t)
		}
	} else {
		cols, err = c.given(t, n.Columns)
	}
	if err != nil {
		return err
	}
	ins := &Insertion{Replace: n.IsReplace, Values: n.Select == nil, Given: cols, Listed: n.Columns != nil}
	c.out.Insert, c.out.Ignore = ins, n.IgnoreErr
	a := c.newRow(t, t.Table.Name())
	ins.IDs = a.ids
	if ins.Values {
		err = c.valueRows(n, a, cols)
	} else {
		err = c.queryRows(n, a, cols)
	}
	if err != nil {
		return err
	}
	if err := c.formulas(a); err != nil {
		return err
	}
	return c.onDuplicate(n.OnDuplicate, a, alias)
}

// newRow makes the columns of a table those of a row that is not in it, under a name.
func (c *changer) newRow(t *Target, name string) *assigned {
	a := &assigned{Target: t, vals: map[expr.ColID]expr.Node{}}
	for _, col := range t.Table.Columns()[:t.Table.RowColumn()] {
		id := c.b.newID()
		a.ids = append(a.ids, id)
		a.cols = append(a.cols, column{id: id, name: col.Name, table: name, db: t.Table.DB(), typ: col.Type,
			org: Origin{t.Table.DB(), name, t.Table.Name(), col.Name}})
	}
	if a.names = a.cols; c.into != nil {
		a.names = nil
		for _, col := range c.into.cols {
			if in, pos := c.into.of(col.id); in == c.into.fromTable {
				col.id, col.of = a.ids[pos], nil
				a.names = append(a.names, col)
			}
		}
	}
	return a
}

// generatedGiven is error 3105, also as a kind of go-mysql-server.
func generatedGiven(t *Target, pos int) error {
	col := t.Table.Columns()[pos].Name
	r := refuse(3105, "HY000", "The value specified for generated column '%s' in table '%s' is not allowed.", col, t.Table.Name())
	r.(*Refusal).Kind = sql.ErrGeneratedColumnValue.New(col, t.Table.Name())
	return r
}

// wrongCount is error 1136.
func wrongCount(row int) error {
	r := refuse(1136, "21S01", "Column count doesn't match value count at row %d", row)
	r.(*Refusal).Kind = sql.ErrInsertIntoMismatchValueCount.New()
	return r
}

// queryRows binds the query of INSERT ... SELECT.
func (c *changer) queryRows(n *ast.InsertStmt, a *assigned, cols []int) error {
	for _, pos := range cols {
		if a.Table.Rule(pos).Generated != "" {
			return generatedGiven(a.Target, pos)
		}
	}
	if sel, ok := n.Select.(*ast.SelectStmt); ok && sel.LockInfo != nil {
		return unsupported("locking clause")
	}
	src, err := c.b.query(n.Select, nil)
	if err != nil {
		return err
	}
	if len(src.cols) != len(cols) {
		return wrongCount(1)
	}
	c.rel = src.rel
	for i, pos := range cols {
		v := src.cols[i].node()
		if err := typedSource(c.rel, v.ID, a.cols[pos].typ); err != nil {
			return err
		}
		if a.cols[pos].typ.Numeric() {
			v = algebra.AllDigits(c.rel, v)
		}
		a.Sets = append(a.Sets, Set{Col: pos, Value: c.yield(a.cols[pos].name, v)})
		if err := a.note(pos, v); err != nil {
			return err
		}
	}
	return c.others(a)
}

// typedSource is typedDocument for a column of a query.
func typedSource(rel algebra.Rel, id expr.ColID, to expr.Type) error {
	p, ok := rel.(*algebra.Project)
	if !ok {
		return nil
	}
	for _, it := range p.Items {
		if it.ID == id {
			return typedDocument(it.Node, to)
		}
	}
	return nil
}

// others gives the columns their values that a query does not give.
func (c *changer) others(a *assigned) error {
	for pos := range a.Table.RowColumn() {
		if a.vals[a.ids[pos]] != nil || c.byRule(a.Target, pos) {
			continue
		}
		n, err := c.byDefault(a.Table, pos)
		if err != nil {
			return err
		}
		if n, err = c.overNew(a, n); err != nil {
			return err
		}
		if _, null := n.(*expr.Const); !null || a.Table.Rule(pos).Default != "" {
			a.Sets = append(a.Sets, Set{Col: pos, Value: c.yield(a.cols[pos].name, n)})
		}
		if err := a.note(pos, n); err != nil {
			return err
		}
	}
	return nil
}

// byRule reports whether a column that gets no value has none, or gets it later.
func (c *changer) byRule(t *Target, pos int) bool {
	r := t.Table.Rule(pos)
	switch {
	case r.Generated != "" || r.AutoInc:
		return true
	case lacksDefault(t.Table, pos):
		c.out.Insert.Missing = append(c.out.Insert.Missing, pos)
		return true
	}
	return r.Default == ""
}

// valueRows binds VALUES.
func (c *changer) valueRows(n *ast.InsertStmt, a *assigned, cols []int) error {
	ins := c.out.Insert
	empty := len(n.Columns) == 0
	for _, l := range n.Lists {
		empty = empty && len(l) == 0
	}
	if empty {
		cols, ins.Given = nil, nil
	}
	given := map[int]bool{}
	for _, pos := range cols {
		given[pos] = true
	}
	ins.Cols = append(ins.Cols, cols...)
	for pos := range a.ids {
		if !given[pos] && !c.byRule(a.Target, pos) {
			ins.Cols = append(ins.Cols, pos)
		}
	}
	c.rel = &algebra.Values{Rows: [][]expr.Node{{}}}
	c.scope.cols = readInto(a.names, &c.out.Reads)
	for i, l := range n.Lists {
		if len(l) != len(cols) {
			return wrongCount(i + 1)
		}
		row := &valueRow{changer: c, a: a}
		for k, pos := range ins.Cols {
			var e ast.ExprNode
			if k < len(l) {
				e = l[k]
			}
			if err := row.cell(pos, e); err != nil {
				return err
			}
		}
		ins.Rows = append(ins.Rows, row.cells)
	}
	if len(c.items) == 0 {
		c.rel = nil
	}
	return nil
}

// valueRow is a row of VALUES while it is bound.
type valueRow struct {
	*changer
	a     *assigned
	cells []Cell
	nodes []expr.Node // of the cells
}

// cell binds the value of a column; nil stands for one that is not given.
func (r *valueRow) cell(pos int, e ast.ExprNode) error {
	rule := r.a.Table.Rule(pos)
	d, isDefault := e.(*ast.DefaultExpr)
	isDefault = e == nil || isDefault && d.Name == nil
	var n expr.Node
	var err error
	switch {
	case rule.Generated != "" && !isDefault:
		return generatedGiven(r.a.Target, pos)
	case isDefault && (rule.Generated != "" || rule.AutoInc):
		n = expr.NullConst()
	case isDefault && lacksDefault(r.a.Table, pos):
		r.cells, r.nodes = append(r.cells, Cell{Missing: true}), append(r.nodes, nil)
		return nil
	case isDefault:
		n, err = r.byDefault(r.a.Table, pos)
	default:
		x := &exprs{q: r.query, s: r.scope, clause: "field list"}
		n, err = x.scalar(e)
	}
	if err == nil {
		err = typedDocument(n, r.a.cols[pos].typ)
	}
	if err != nil {
		return err
	}
	if k, ok := n.(*expr.Const); ok {
		r.cells, r.nodes = append(r.cells, Cell{Const: k}), append(r.nodes, n)
		return nil
	}
	if r.uses(n) {
		clear(r.a.vals)
		for i, n := range r.nodes {
			if n == nil {
				return unsupported("use of a column without a value")
			}
			if expr.HasSub(n) || expr.Volatile(n) {
				n = r.settle(n)
				r.nodes[i] = n
				at := slices.IndexFunc(r.items, func(it algebra.Item) bool { return it.ID == r.cells[i].Value })
				r.items[at].Node = n
			}
			if err := r.a.note(r.out.Insert.Cols[i], n); err != nil {
				return err
			}
		}
		if n, err = r.overNew(r.a, n); err != nil {
			return err
		}
	}
	if r.a.cols[pos].typ.Numeric() {
		n = expr.Exact(n)
	}
	id := r.yield(r.a.cols[pos].name, n)
	r.cells, r.nodes = append(r.cells, Cell{Value: id}), append(r.nodes, n)
	return nil
}

// uses reports whether an expression has columns of the new row in it.
func (r *valueRow) uses(n expr.Node) bool {
	found := false
	expr.Walk(n, func(n expr.Node) bool {
		switch n := n.(type) {
		case *expr.Col:
			found = found || n.ID >= r.a.ids[0] && n.ID <= r.a.ids[len(r.a.ids)-1]
		case *expr.Sub:
			found = found || len(n.Outer) > 0
		}
		return !found
	})
	return found
}

// overNew is an expression over the values that the new row has so far; a column that has none yet
// has its default.
func (c *changer) overNew(a *assigned, n expr.Node) (expr.Node, error) {
	var err error
	expr.Cols(n, func(id expr.ColID) {
		pos := int(id - a.ids[0])
		if err != nil || id < a.ids[0] || pos >= len(a.ids) || a.vals[id] != nil {
			return
		}
		rule := a.Table.Rule(pos)
		var v expr.Node
		switch {
		case rule.Generated != "":
			err = unsupported("use of a generated column in VALUES")
			return
		case rule.AutoInc:
			v = expr.IntConst(0)
		default:
			if v, err = c.byDefault(a.Table, pos); err != nil {
				return
			}
		}
		err = a.note(pos, v)
	})
	if err != nil {
		return nil, err
	}
	return c.now(a, n)
}

// formulas binds what follows from the values of a new row.
func (c *changer) formulas(a *assigned) error {
	ins := c.out.Insert
	for pos := range a.ids {
		if g := a.Table.Rule(pos).Generated; g != "" {
			n, err := c.formula(a, g)
			if err != nil {
				return err
			}
			ins.Derived = append(ins.Derived, Formula{Col: pos, Name: a.cols[pos].name, Node: n})
		}
	}
	for _, k := range a.Table.Checks() {
		n, err := c.formula(a, k.Text)
		if err != nil {
			return err
		}
		ins.Checks = append(ins.Checks, Formula{Col: -1, Name: k.Name, Node: n})
	}
	if c.into == nil {
		return nil
	}
	return c.checkOption(a)
}

// checkOption binds what WITH CHECK OPTION asks of a new row.
func (c *changer) checkOption(a *assigned) error {
	ins, l, t := c.out.Insert, c.into.level, c.into.fromTable
	by := map[expr.ColID]expr.Node{}
	for pos, id := range t.scan.IDs[:len(a.ids)] {
		by[id] = a.cols[pos].node()
	}
	for _, cond := range l.mustHold(false) {
		other := false
		expr.Cols(cond, func(id expr.ColID) { other = other || by[id] == nil })
		if other {
			return refuse(1235, "42000", "This version of Godwit doesn't yet support 'INSERT into the join view %s "+
				"WITH CHECK OPTION': insert into its table", l.named())
		}
		n, err := expr.Rewrite(cond, func(n expr.Node) (expr.Node, error) {
			switch n := n.(type) {
			case *expr.Col:
				return by[n.ID], nil
			case *expr.Sub:
				return renamedSub(n, by), nil
			}
			return n, nil
		})
		if err != nil {
			return err
		}
		f := Formula{Col: -1, Name: l.named(), Node: n, View: true}
		expr.Cols(n, func(id expr.ColID) { f.Late = f.Late || a.Table.Rule(int(id-a.ids[0])).AutoInc })
		ins.Checks = append(ins.Checks, f)
	}
	return nil
}

// formula binds an expression of a definition over the columns of a row.
func (c *changer) formula(a *assigned, text string) (expr.Node, error) {
	n, err := c.definition(text, a.cols)
	if err != nil {
		return nil, err
	}
	counted := false
	expr.Cols(n, func(id expr.ColID) { counted = counted || a.Table.Rule(int(id-a.ids[0])).AutoInc })
	if counted {
		return nil, unsupported("expression of a definition over AUTO_INCREMENT")
	}
	return n, nil
}

// onDuplicate binds ON DUPLICATE KEY UPDATE.
func (c *changer) onDuplicate(list []*ast.Assignment, a *assigned, alias tree.RowAlias) error {
	ins := c.out.Insert
	if len(list) == 0 {
		return nil
	}
	old := c.newRow(a.Target, a.Table.Name())
	ins.Old = old.ids
	cols := readInto(old.names, &c.out.Reads)
	if alias.Name != "" {
		named, err := aliasColumns(alias, a, ins.Cols)
		if err != nil {
			return err
		}
		cols = append(cols, named...)
	}
	x := &exprs{q: c.query, s: &scope{q: c.query, cols: cols}, clause: "field list", inserted: a.names}
	assigned := map[int]bool{}
	for _, u := range list {
		col, err := (&scope{cols: old.names}).find(u.Column.Schema.O, u.Column.Table.O, u.Column.Name.O, "field list")
		if err != nil {
			return err
		}
		if col == nil {
			return unknownColumn(tree.Qualified(u.Column.Schema.O, u.Column.Table.O, u.Column.Name.O), "field list")
		}
		f := Formula{Col: int(col.id - old.ids[0]), Name: col.name}
		if a.Table.Rule(f.Col).Generated != "" {
			return generatedGiven(a.Target, f.Col)
		}
		if f.Node, err = c.instead(x, a, f.Col, u.Expr); err != nil {
			return err
		}
		assigned[f.Col] = true
		ins.Updates = append(ins.Updates, f)
	}
	for pos := range a.ids {
		if u := a.Table.Rule(pos).OnUpdate; u != "" && !assigned[pos] {
			n, err := c.definition(u, nil)
			if err != nil {
				return err
			}
			ins.OnUpdate = append(ins.OnUpdate, Formula{Col: pos, Name: a.cols[pos].name, Node: n})
		}
	}
	return nil
}

// instead binds an assignment of ON DUPLICATE KEY UPDATE.
func (c *changer) instead(x *exprs, a *assigned, pos int, e ast.ExprNode) (expr.Node, error) {
	if d, ok := e.(*ast.DefaultExpr); ok && d.Name == nil {
		if lacksDefault(a.Table, pos) {
			return nil, nil
		}
		return c.byDefault(a.Table, pos)
	}
	if !c.out.Insert.Values {
		// The tables of the query can be named, too.
		if tree.BareNames(e) {
			return nil, unsupported("column without its table in ON DUPLICATE KEY UPDATE of a query")
		}
	}
	n, err := x.scalar(e)
	if err == nil && a.cols[pos].typ.Numeric() {
		n = expr.Exact(n)
	}
	return n, err
}

// aliasColumns are those of the new row under the names of the alias. Without names of their own
// they are found with the alias only.
func aliasColumns(r tree.RowAlias, a *assigned, given []int) (out []column, err error) {
	if r.Cols == nil {
		for _, c := range a.names {
			c.table, c.db, c.second = r.Name, "", true
			out = append(out, c)
		}
		return out, nil
	}
	if len(r.Cols) > len(given) {
		return nil, unsupported("names of a row alias")
	}
	for i, name := range r.Cols {
		c := a.cols[given[i]]
		c.name, c.table, c.db = name, r.Name, ""
		out = append(out, c)
	}
	return out, nil
}

// intoBase makes the table that the columns of a view belong to the target.
func (c *changer) intoBase(t *Target) error {
	target, ok := c.into.scan.Table.(algebra.Target)
	if !ok {
		return unsupported("change of a table of another kind")
	}
	t.Table, t.Steps = target, c.into.steps()
	return nil
}

// intoTable is the table of an INSERT; that of a view is known when its columns are.
func (c *changer) intoTable(n *ast.TableRefsClause) (*Target, error) {
	src, ok := n.TableRefs.Left.(*ast.TableSource)
	if !ok || n.TableRefs.Right != nil {
		return nil, unsupported("INSERT into several tables")
	}
	name, ok := src.Source.(*ast.TableName)
	if !ok {
		return nil, unsupported("INSERT into several tables")
	}
	db := name.Schema.O
	if db == "" {
		db = c.b.db
	}
	if db == "" {
		return nil, fail(1046, "3D000", "No database selected")
	}
	t, v, err := c.b.s.Catalog.Resolve(db, name.Name.O)
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		out := &Target{}
		c.out.Targets = append(c.out.Targets, out)
		c.into, err = c.view(v)
		return out, err
	case t == nil:
		return nil, fail(1146, "42S02", "Table '%s.%s' doesn't exist", db, name.Name.O)
	}
	target, ok := t.(algebra.Target)
	if !ok {
		return nil, unsupported("change of a table of another kind")
	}
	s := Step{DB: target.DB(), Name: target.Name(), As: c.b.as, Names: map[int]string{}}
	for pos, col := range target.Columns() {
		s.Names[pos] = col.Name
	}
	out := &Target{Table: target, Steps: []Step{s}}
	c.out.Targets = append(c.out.Targets, out)
	return out, nil
}

// given are the positions of the columns that an INSERT gives values of.
func (c *changer) given(t *Target, names []*ast.ColumnName) (out []int, err error) {
	cols := t.Table.Columns()[:t.Table.RowColumn()]
	if names == nil {
		for pos, col := range cols {
			if !col.Invisible {
				out = append(out, pos)
			}
		}
	}
	seen := map[int]bool{}
	for _, n := range names {
		at := -1
		for pos, col := range cols {
			if strings.EqualFold(col.Name, n.Name.O) {
				at = pos
			}
		}
		if at < 0 {
			return nil, &Refusal{Err: unknownColumn(n.Name.O, "field list"), Kind: sql.ErrUnknownColumn.New(n.Name.O, t.Table.Name())}
		}
		if seen[at] {
			r := refuse(1110, "42000", "Column '%s' specified twice", n.Name.O)
			r.(*Refusal).Kind = sql.ErrColumnSpecifiedTwice.New(n.Name.O)
			return nil, r
		}
		seen[at] = true
		out = append(out, at)
	}
	return out, nil
}

// Consequences are what follows from the values of a row of a table, whatever statement it comes
// from: generated columns, conditions, and columns ON UPDATE.
type Consequences struct {
	IDs                       []expr.ColID
	Derived, Checks, OnUpdate []Formula
}

// Follows binds the consequences of a row of a table.
func Follows(t algebra.Target, s *Session) (*Consequences, error) {
	b := &binder{s: s, next: 1, db: s.DB, vars: expr.NewAssigned(nil)}
	q := newQuery(b, nil)
	c := &changer{query: q, out: &Change{Query: &Query{}, Insert: &Insertion{}}}
	a := c.newRow(&Target{Table: t}, t.Name())
	if err := c.formulas(a); err != nil {
		return nil, err
	}
	out := &Consequences{IDs: a.ids, Derived: c.out.Insert.Derived, Checks: c.out.Insert.Checks}
	for pos := range a.ids {
		if u := t.Rule(pos).OnUpdate; u != "" {
			n, err := c.definition(u, nil)
			if err != nil {
				return nil, err
			}
			out.OnUpdate = append(out.OnUpdate, Formula{Col: pos, Name: a.cols[pos].name, Node: n})
		}
	}
	return out, nil
}
