package rights

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/session"
)

// judgement is what was found of the columns that a statement uses in go-mysql-server's plan.
type judgement struct {
	tree sqlparser.Statement
	text string
	// binding: the plan is being made. Nobody is asked for privileges for tables meanwhile.
	binding bool
	// unknown: the plan has something of which it is not known what it reads.
	unknown bool
	// tables are those that the plan uses.
	tables map[tableKey]*tableUse
	err    error
}

type tableKey struct{ db, name string }

// tableUse is how a statement uses a table.
type tableUse struct {
	db, name string
	columns  []string
	reads    []string
	// updated and inserted are the columns that get values. unlisted: the statement does not name
	// those that it inserts.
	updated, inserted              []string
	scans                          int
	inserts, unlisted, del, target bool
	// view: it is a view, which is read as a whole.
	view bool
}

// needsColumns reports whether the columns of a table decide, since the privilege for the table is
// not held, or is not enough for what the statement does.
func needsColumns(ctx *sql.Context, mine Set, auth sqlparser.AuthInformation) bool {
	if auth.TargetType != sqlparser.AuthTargetType_SingleTableIdentifier {
		return false
	}
	db, name := DatabaseOf(ctx, auth.TargetNames[0]), auth.TargetNames[1]
	if strings.EqualFold(db, sql.InformationSchemaDatabaseName) {
		return false
	}
	may := func(p sql.PrivilegeType) bool { return mine.Table(db, name, p) }
	some := func(p sql.PrivilegeType) bool { return mine.SomeColumn(db, name, p) }
	switch auth.AuthType {
	case sqlparser.AuthType_SELECT:
		return !may(sql.PrivilegeType_Select) && some(sql.PrivilegeType_Select)
	case sqlparser.AuthType_INSERT:
		return some(sql.PrivilegeType_Insert) && (!may(sql.PrivilegeType_Insert) ||
			updatesDuplicates(ctx) && !(may(sql.PrivilegeType_Update) && may(sql.PrivilegeType_Select)))
	case sqlparser.AuthType_UPDATE, sqlparser.AuthType_DELETE:
		p := sql.PrivilegeType_Update
		if auth.AuthType == sqlparser.AuthType_DELETE {
			p = sql.PrivilegeType_Delete
		}
		return !(may(p) && may(sql.PrivilegeType_Select)) && (some(p) || some(sql.PrivilegeType_Select))
	}
	return false
}

// updatesDuplicates reports whether the statement has ON DUPLICATE KEY UPDATE, for which the engine
// asks no privileges.
func updatesDuplicates(ctx *sql.Context) bool {
	s := session.Of(ctx)
	if s == nil {
		return false
	}
	if j, ok := s.Stmt.Scope.(*judgement); ok {
		return base.ContainsFold(j.text, "DUPLICATE")
	}
	n, ok := statementOf(s).(*sqlparser.Insert)
	return ok && len(n.OnDup) > 0
}

// statementOf is the statement that is executed or explained.
func statementOf(s *session.Session) sqlparser.Statement {
	switch n := s.Stmt.Tree.(type) {
	case *sqlparser.Execute:
		return s.Prepared(n.Name)
	case *sqlparser.Explain:
		return n.Statement
	}
	return s.Stmt.Tree
}

// columns judges the columns that the statement uses, by a plan that is made for this alone: the
// engine asks for privileges while it makes its own, and knows none for columns. It is an error if
// the plan does not have the table, or something of which it is not known what it reads.
func (h handler) columns(ctx *sql.Context, mine Set, auth sqlparser.AuthInformation) error {
	s := session.Of(ctx)
	db, name := DatabaseOf(ctx, auth.TargetNames[0]), auth.TargetNames[1]
	if s == nil || s.Stmt.Tree == nil {
		return Refusal(ctx, commandOf(auth), name)
	}
	j, part := s.Stmt.Scope.(*judgement)
	if !part {
		j, _ = s.Stmt.Columns.(*judgement)
	}
	switch {
	case part && j.tables == nil && j.err == nil && !j.unknown:
		j.tables = map[tableKey]*tableUse{}
		j.judge(ctx, h.cat, mine, j.tree, j.text)
	case !part && (j == nil || j.tree != s.Stmt.Tree):
		j = &judgement{tree: s.Stmt.Tree, tables: map[tableKey]*tableUse{}}
		s.Stmt.Columns = j
		tree := statementOf(s)
		j.judge(ctx, h.cat, mine, tree, sqlparser.String(tree))
	}
	switch {
	case j.binding:
		return nil
	case j.err != nil:
		return j.err
	case j.tables[keyOf(db, name)] == nil:
		return Refusal(ctx, commandOf(auth), name)
	}
	return nil
}

func keyOf(db, name string) tableKey { return tableKey{strings.ToLower(db), strings.ToLower(name)} }

// bind makes the plan.
func (j *judgement) bind(ctx *sql.Context, cat sql.Catalog, tree sqlparser.Statement, text string) (sql.Node, error) {
	j.binding = true
	defer func() { j.binding = false }()
	node, _, err := planbuilder.New(ctx, cat, nil).BindOnly(tree, text, nil)
	return node, err
}

// judge makes the plan, and asks for the privileges that it needs.
func (j *judgement) judge(ctx *sql.Context, cat sql.Catalog, mine Set, tree sqlparser.Statement, text string) {
	if tree == nil {
		return
	}
	node, err := j.bind(ctx, cat, tree, text)
	if err != nil {
		j.err = err
		return
	}
	r := &reader{ctx: ctx, tables: j.tables, ids: map[sql.ColumnId]columnOf{}, names: map[string]*tableUse{}}
	r.query(node)
	for _, read := range r.late {
		read()
	}
	star := hasStar(tree)
	for _, u := range j.tables {
		if j.err = mine.judge(ctx, u, star); j.err != nil {
			return
		}
	}
	if r.unknown != nil {
		j.tables, j.unknown = nil, true // of which the engine's refusal is the answer
	}
}

// judge asks for the privileges for what a statement does with a table.
func (s Set) judge(ctx *sql.Context, u *tableUse, star bool) error {
	if systemDatabase(u.db) && s.Global(sql.PrivilegeType_Process) {
		return nil
	}
	if !s.mayRead(u) {
		return Refusal(ctx, "SELECT", u.name)
	}
	if u.del && !s.Table(u.db, u.name, sql.PrivilegeType_Delete) {
		return Refusal(ctx, "DELETE", u.name)
	}
	if u.inserts {
		if err := s.Writes(ctx, sql.PrivilegeType_Insert, u.db, u.name, u.inserted, !u.unlisted); err != nil {
			return err
		}
	}
	if len(u.updated) > 0 {
		if err := s.Writes(ctx, sql.PrivilegeType_Update, u.db, u.name, u.updated, true); err != nil {
			return err
		}
	}
	var all map[string]bool
	if star && len(u.reads) == len(u.columns) {
		all = map[string]bool{}
		for _, c := range u.reads {
			all[c] = true
		}
	}
	return s.Reads(ctx, u.db, u.name, u.reads, all)
}

// mayRead reports whether the rows of a table, or a view, may be read as a statement does.
func (s Set) mayRead(u *tableUse) bool {
	if u.view {
		return s.Table(u.db, u.name, sql.PrivilegeType_Select)
	}
	return u.target && u.scans <= 1 || s.SomeColumn(u.db, u.name, sql.PrivilegeType_Select)
}

// hasStar reports whether a statement has a * in a SELECT list.
func hasStar(tree sqlparser.Statement) bool {
	found := false
	if n, ok := tree.(sqlparser.SQLNode); ok {
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			_, star := n.(*sqlparser.StarExpr)
			found = found || star
			return !found, nil
		}, n)
	}
	return found
}

// reader finds the columns that a plan uses.
type reader struct {
	ctx    *sql.Context
	tables map[tableKey]*tableUse
	// ids are the columns of the tables by the numbers that the plan gives them, names the tables
	// by those that the statement gives them: ON DUPLICATE KEY UPDATE has numbers of its own.
	ids   map[sql.ColumnId]columnOf
	names map[string]*tableUse
	// named: what is looked at now is such a part.
	named bool
	// yields: what the node yields is the result of a query. Below the projection that makes the
	// result, others may hand on columns that nobody reads.
	yields bool
	// late are what is looked at when all tables are known.
	late []func()
	// others: what is looked at is the text of a view with a definer, who is judged apart.
	others int
	// unknown is a node that is not known here; nil: there is none.
	unknown sql.Node
}

type columnOf struct {
	use  *tableUse
	name string
}

// node looks at a part of the plan. What it does not know may read columns in ways that it does not
// see.
func (r *reader) node(n sql.Node) {
	switch n := n.(type) {
	case nil:
	case *plan.ResolvedTable:
		r.read(r.table(n, n.Name()))
	case *plan.TableAlias:
		if t, ok := n.Child.(*plan.ResolvedTable); ok {
			r.read(r.table(t, n.Name()))
			return
		}
		r.node(n.Child)
	case *plan.Project:
		r.project(n)
	case *plan.InsertInto:
		r.insert(n)
	case *plan.UpdateSource:
		r.update(n.UpdateExprs)
		r.below(n.Child)
	case *plan.Update: // its conditions are of the table
		r.below(n.Child)
	case *plan.DeleteFrom:
		r.delete(n)
	case *plan.DescribeQuery:
		r.query(n.Query())
	case *plan.PrepareQuery:
		r.query(n.Child)
	case *plan.LoadData:
		r.expressions(n.SetExprs)
	case *plan.CreateTable:
		if n.Select() == nil {
			r.unknown = n
		}
		r.query(n.Select())
	case *plan.SubqueryAlias:
		r.alias(n)
	case *plan.CreateTrigger:
		r.query(n.Body)
	case *plan.BeginEndBlock, *plan.Block, *plan.IfElseBlock, *plan.IfConditional, *plan.DeclareVariables,
		*plan.DeclareCondition, *plan.Signal:
		for _, c := range n.Children() {
			r.query(c)
		}
		r.own(n)
	case *plan.CreateView, *plan.SetOp, *plan.RecursiveCte, *plan.Into:
		for _, c := range n.Children() {
			r.query(c)
		}
		r.own(n)
	case *plan.Filter, *plan.Having, *plan.JoinNode, *plan.Sort, *plan.TopN, *plan.Limit, *plan.Offset, *plan.Distinct,
		*plan.RecursiveTable, *plan.Values, *plan.ValueDerivedTable, *plan.EmptyTable, *plan.JSONTable, *plan.Max1Row:
		for _, c := range n.Children() {
			r.node(c)
		}
		r.own(n)
	case *plan.GroupBy, *plan.Window, *plan.Set:
		r.own(n)
		for _, c := range n.Children() {
			r.below(c)
		}
	default:
		r.unknown = n
	}
}

// alias looks at a query with a name. Of what is in a view with a definer nothing is noted.
func (r *reader) alias(n *plan.SubqueryAlias) {
	if db, name, ok := viewOf(n.TextDefinition); ok {
		if r.others == 0 {
			r.tables[keyOf(db, name)] = &tableUse{db: db, name: name, view: true}
		}
		r.others++
		defer func() { r.others-- }()
	}
	r.query(n.Child)
	r.own(n)
}

// own notes what the expressions of a node itself read.
func (r *reader) own(n sql.Node) {
	if x, ok := n.(sql.Expressioner); ok {
		r.expressions(x.Expressions())
	}
}

// query looks at what yields the result of a query, below at what does not.
func (r *reader) query(n sql.Node) { r.with(n, true) }
func (r *reader) below(n sql.Node) { r.with(n, false) }

func (r *reader) with(n sql.Node, yields bool) {
	was := r.yields
	r.yields = yields
	r.node(n)
	r.yields = was
}

// project notes what a projection reads.
func (r *reader) project(n *plan.Project) {
	for _, e := range n.Projections {
		if _, plain := e.(*expression.GetField); r.yields || !plain {
			r.expression(e)
		}
	}
	r.below(n.Child)
}

// read notes that a table is read, and all of its columns if it is the result of a query.
func (r *reader) read(u *tableUse) {
	if u == nil {
		return
	}
	if u.scans++; r.yields {
		u.reads = slices.Clone(u.columns)
	}
}

// table notes a table, and the numbers of its columns.
func (r *reader) table(t *plan.ResolvedTable, as string) *tableUse {
	if plan.IsDualTable(t.Table) || t.SqlDatabase == nil || r.others > 0 {
		return nil
	}
	if strings.EqualFold(t.SqlDatabase.Name(), sql.InformationSchemaDatabaseName) {
		return nil
	}
	key := keyOf(t.SqlDatabase.Name(), t.Name())
	u := r.tables[key]
	if u == nil {
		u = &tableUse{db: t.SqlDatabase.Name(), name: t.Name()}
		for _, c := range t.Schema(r.ctx) {
			u.columns = append(u.columns, c.Name)
		}
		r.tables[key] = u
	}
	r.names[strings.ToLower(as)] = u
	i := 0
	t.Columns().ForEach(func(id sql.ColumnId) {
		if i < len(u.columns) {
			r.ids[id] = columnOf{u, u.columns[i]}
		}
		i++
	})
	return u
}

// column is the column of a table that an expression is; ok is false if it is none.
func (r *reader) column(e sql.Expression, named bool) (c columnOf, ok bool) {
	f, ok := e.(*expression.GetField)
	if !ok {
		return c, false
	}
	if c, ok = r.ids[f.Id()]; ok {
		return c, true
	}
	if u := r.names[strings.ToLower(f.Table())]; u != nil && named {
		for _, name := range u.columns {
			if strings.EqualFold(name, f.Name()) {
				return columnOf{u, name}, true
			}
		}
	}
	return c, false
}

func (r *reader) expressions(es []sql.Expression) {
	for _, e := range es {
		r.expression(e)
	}
}

// expression notes the columns that an expression reads, as soon as all tables are known.
func (r *reader) expression(e sql.Expression) {
	if e == nil {
		return
	}
	named := r.named
	sql.Inspect(r.ctx, e, func(_ *sql.Context, e sql.Expression) bool {
		switch e := e.(type) {
		case *expression.GetField:
			r.late = append(r.late, func() {
				if c, ok := r.column(e, named); ok && !slices.Contains(c.use.reads, c.name) {
					c.use.reads = append(c.use.reads, c.name)
				}
			})
		case *plan.Subquery:
			r.query(e.Query)
		}
		return true
	})
}

// update notes assignments.
func (r *reader) update(x *plan.UpdateExprs) {
	if x == nil {
		return
	}
	named := r.named
	for _, e := range x.ExplicitUpdateExprs() {
		set, ok := e.(*expression.SetField)
		if !ok {
			r.expression(e)
			continue
		}
		r.late = append(r.late, func() {
			if c, ok := r.column(set.LeftChild, named); ok {
				c.use.target, c.use.updated = true, append(c.use.updated, c.name)
			}
		})
		r.expression(set.RightChild)
	}
}

// insert notes what an INSERT, REPLACE or LOAD DATA does.
func (r *reader) insert(n *plan.InsertInto) {
	dest := n.Destination
	if d, ok := dest.(*plan.InsertDestination); ok {
		dest = d.Child
	}
	t, ok := dest.(*plan.ResolvedTable)
	if !ok {
		r.unknown = n
		return
	}
	u := r.table(t, t.Name())
	if u == nil {
		return
	}
	u.scans++
	u.target, u.inserts, u.inserted = true, true, append(u.inserted, n.ColumnNames...)
	if load, ok := n.Source.(*plan.LoadData); ok {
		u.inserted = append(u.inserted, load.ColNames...)
		u.unlisted = len(load.ColNames) == 0
		if u.unlisted {
			u.inserted = u.columns
		}
	} else if s := session.Of(r.ctx); s != nil {
		i, _ := statementOf(s).(*sqlparser.Insert)
		u.unlisted = i != nil && len(i.Columns) == 0
	}
	u.del = u.del || n.IsReplace
	r.named = true
	r.update(n.OnDupExprs)
	r.named = false
	r.expressions(n.Returning)
	r.query(n.Source)
}

// delete notes what a DELETE does.
func (r *reader) delete(n *plan.DeleteFrom) {
	r.below(n.Child)
	for _, t := range n.GetDeleteTargets() {
		for {
			if rt, ok := t.(*plan.ResolvedTable); ok {
				if u := r.table(rt, rt.Name()); u != nil {
					u.target, u.del = true, true
				}
				break
			}
			c := t.Children()
			if len(c) != 1 {
				r.unknown = n
				break
			}
			t = c[0]
		}
	}
	r.expressions(n.Returning)
}
