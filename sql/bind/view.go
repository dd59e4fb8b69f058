package bind

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// Rows can be changed through a view if each row of it is made of one row of its tables. Such a
// view is merged into the query of the change: it yields the columns of its tables, also those that
// it does not show, and the columns that it computes. A column of it that is a plain column has the
// number of that one. What must hold of the rows of the view is kept for WITH CHECK OPTION.

// level is a view that is merged.
type level struct {
	view  *algebra.View
	use   Use
	conds []expr.Node // WHERE, and ON of inner joins
	cols  []column    // as the query around it sees them
	below []*level
	// several: it has more than one table. blocked: its rows are none of its tables'.
	several, blocked bool
}

// fromTable is a table of FROM, or of a merged view in it.
type fromTable struct {
	scan *algebra.Scan
	use  Use
	cols []column // by position
	path []*level // the views it is seen through, outermost first
	past bool     // it is read as it was
}

// blocked reports whether rows of the table cannot be changed through its views.
func (b *fromTable) blocked() bool {
	return slices.ContainsFunc(b.path, func(l *level) bool { return l.blocked })
}

// mergeable reports whether rows of a view are made of one row of its tables, by its text.
func mergeable(v *algebra.View, n *ast.SelectStmt) bool {
	if v.TempTable || n.Kind != ast.SelectStmtKindSelect || n.From == nil || n.Distinct || n.GroupBy != nil ||
		n.Having != nil || n.Limit != nil || n.SelectIntoOpt != nil {
		return false
	}
	return !tree.Aggregates(n.Fields)
}

// merged binds a view whose rows may be changed.
func (q *query) merged(v *algebra.View, n *ast.SelectStmt, u Use, alias string) (algebra.Rel, []column, error) {
	b := q.b
	if err := b.with(n.With, nil); err != nil {
		return nil, nil, err
	}
	in := newQuery(b, nil)
	in.merges = true
	uses := len(b.uses)
	rel, err := in.body(n)
	if err != nil {
		return nil, nil, err
	}
	if err := in.list(n.Fields, false); err != nil {
		return nil, nil, err
	}
	l := &level{view: v, use: u, conds: in.facts, below: in.levels, several: in.several}
	l.blocked = in.readsAgain(b.uses[uses:]) || slices.ContainsFunc(in.items, func(it item) bool { return depends(it.node) })
	if l.cols, err = derived(in.output(), alias, v.Columns); err != nil {
		return nil, nil, err
	}
	for i := range l.cols {
		l.cols[i].db, l.cols[i].of = v.DB, u.Columns
	}
	for _, t := range in.bases {
		t.path = append([]*level{l}, t.path...)
	}
	q.bases, q.levels = append(q.bases, in.bases...), append(q.levels, l)
	q.several = q.several || in.several
	p := &algebra.Project{In: rel, Items: in.hand(rel)}
	handed := len(p.Items)
	for _, it := range in.items {
		if in.aliases[it.id] {
			p.Items = append(p.Items, algebra.Item{ID: it.id, Name: it.name, Node: it.node})
		}
	}
	if len(p.Items) == handed {
		return rel, slices.Clone(l.cols), nil
	}
	return p, slices.Clone(l.cols), nil
}

// hand are the columns of a relation, to be handed on.
func (q *query) hand(rel algebra.Rel) (out []algebra.Item) {
	known := map[expr.ColID]*column{}
	for i := range q.scope.cols {
		known[q.scope.cols[i].id] = &q.scope.cols[i]
	}
	for _, t := range q.bases {
		for i := range t.cols {
			known[t.cols[i].id] = &t.cols[i]
		}
	}
	for _, id := range rel.Cols() {
		if c := known[id]; c != nil {
			out = append(out, algebra.Item{ID: id, Name: c.name, Node: &expr.Col{ID: id, Name: c.name, T: c.typ}})
		}
	}
	return out
}

// readsAgain reports whether a subquery reads a table of FROM.
func (q *query) readsAgain(uses []Use) bool {
	return slices.ContainsFunc(uses, func(u Use) bool {
		again := false
		for _, t := range q.bases {
			if t.use.Columns == u.Columns {
				return false
			}
			again = again || strings.EqualFold(t.use.DB, u.DB) && strings.EqualFold(t.use.Name, u.Name)
		}
		return again
	})
}

// depends reports whether an expression has a subquery that uses its row.
func depends(n expr.Node) bool {
	found := false
	expr.Walk(n, func(n expr.Node) bool {
		s, ok := n.(*expr.Sub)
		found = found || ok && len(s.Outer) > 0
		return !found
	})
	return found
}

// mustHold are the conditions that new rows of a view have to fulfil; all: because a view around it
// says so.
func (l *level) mustHold(all bool) (out []expr.Node) {
	if all || l.view.Check != algebra.NoCheck {
		out = append(out, l.conds...)
	}
	for _, b := range l.below {
		out = append(out, b.mustHold(all || l.view.Check == algebra.CheckCascaded)...)
	}
	return out
}

// named is the full name of a view, for messages.
func (l *level) named() string { return l.view.DB + "." + l.view.Name }

// Step is a view through which rows are changed, or their table.
type Step struct {
	DB, Name string
	// As is the account with whose rights that is done; zero: the user's.
	As [2]string
	// Names are those of the table's columns here, by position.
	Names map[int]string
}

// steps are the names by which a statement comes to a table, outermost first.
func (t *fromTable) steps() (out []Step) {
	for _, l := range t.path {
		s := Step{DB: l.use.DB, Name: l.use.Name, As: l.use.As, Names: map[int]string{}}
		for pos, id := range t.scan.IDs {
			for _, c := range l.cols {
				if c.id == id {
					s.Names[pos] = c.name
				}
			}
		}
		out = append(out, s)
	}
	s := Step{DB: t.use.DB, Name: t.use.Name, As: t.use.As, Names: map[int]string{}}
	for pos, c := range t.cols {
		s.Names[pos] = c.name
	}
	return append(out, s)
}

func notUpdatable(name, statement string) error {
	return refuse(1288, "HY000", "The target table %s of the %s is not updatable", name, statement)
}

func notInsertable(name string) error {
	return refuse(1471, "HY000", "The target table %s of the INSERT is not insertable-into", name)
}

func severalTables(l *level) error {
	return refuse(1393, "HY000", "Can not modify more than one base table through a join view '%s'", l.named())
}

func noDelete(l *level) error {
	return refuse(1395, "HY000", "Can not delete from join view '%s'", l.named())
}

// Updatable reports whether rows of a view can be changed.
func Updatable(v *algebra.View, s *Session) (bool, error) {
	b := &binder{s: s, next: 1, db: s.DB}
	q := newQuery(b, nil)
	q.merges = true
	if _, _, err := q.view(v, v.Name); err != nil {
		return false, err
	}
	return len(q.levels) > 0 && slices.ContainsFunc(q.bases, func(t *fromTable) bool { return !t.blocked() && t.shown() }), nil
}

// shown reports whether the outermost view shows a column of the table.
func (t *fromTable) shown() bool { return len(t.steps()[0].Names) > 0 }

// intoView finds the table of an INSERT into a view, and the view's columns by their positions in
// the table.
type intoView struct {
	*fromTable
	level *level
	cols  []column
	all   []*fromTable
}

// view binds the view of an INSERT. What it reads is not read by the statement.
func (c *changer) view(v *algebra.View) (*intoView, error) {
	b := c.b
	uses, of := len(b.uses), len(b.of)
	q := newQuery(b, nil)
	q.merges = true
	if _, _, err := q.view(v, v.Name); err != nil {
		return nil, err
	}
	b.uses, b.of = b.uses[:uses], b.of[:of]
	if len(q.levels) != 1 {
		return nil, notInsertable(v.Name)
	}
	out := &intoView{level: q.levels[0], all: q.bases}
	seen := map[expr.ColID]bool{}
	for _, col := range out.level.cols {
		t, _ := out.of(col.id)
		if t == nil || seen[col.id] || t.blocked() {
			return nil, notInsertable(v.Name)
		}
		seen[col.id] = true
	}
	out.cols = out.level.cols
	return out, nil
}

// of is the table that has a column, and its position there; nil: none.
func (v *intoView) of(id expr.ColID) (*fromTable, int) {
	for _, t := range v.all {
		if pos := slices.Index(t.scan.IDs, id); pos >= 0 {
			return t, pos
		}
	}
	return nil, 0
}

// given are the positions of the columns that an INSERT gives values of, and the table that they
// belong to.
func (v *intoView) given(names []*ast.ColumnName) (out []int, err error) {
	if names == nil && v.level.several {
		return nil, refuse(1394, "HY000", "Can not insert into join view '%s' without fields list", v.level.named())
	}
	cols := v.cols
	if names != nil {
		cols = nil
	}
	for _, n := range names {
		i := slices.IndexFunc(v.cols, func(c column) bool { return strings.EqualFold(c.name, n.Name.O) })
		if i < 0 {
			return nil, &Refusal{Err: unknownColumn(n.Name.O, "field list")}
		}
		cols = append(cols, v.cols[i])
	}
	for _, c := range cols {
		t, pos := v.of(c.id)
		if v.fromTable != nil && v.fromTable != t {
			return nil, severalTables(v.level)
		}
		if v.fromTable = t; slices.Contains(out, pos) {
			return nil, refuse(1110, "42000", "Column '%s' specified twice", c.name)
		}
		out = append(out, pos)
	}
	if v.fromTable == nil {
		v.fromTable = v.all[0]
	}
	return out, nil
}
