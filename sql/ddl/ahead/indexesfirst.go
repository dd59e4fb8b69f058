package ahead

import (
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// newNames are what the clauses of an ALTER TABLE rename columns to, as the old names by the new
// ones, in lower case.
func newNames(n *sqlparser.AlterTable) map[string]string {
	out := map[string]string{}
	for _, c := range n.Statements {
		if old, name, ok := renames(c); ok {
			out[name.Lowered()] = old.Lowered()
		}
	}
	return out
}

// indexesFirst has indexes built before anything else is done, by the columns that there are: what
// an index is built from is committed, and its definition is not shown before the end of the
// statement. So a statement whose index cannot be built changes nothing. It leaves indexes where
// they stand that are not built beside writers, and those of columns that the statement adds, or
// changes. olds are the old names of columns by their new ones; the first clauses, as many as made
// says, name columns by their old ones.
func indexesFirst(d *schema.TableDesc, n *sqlparser.AlterTable, made int, olds map[string]string, s *session.Session) error {
	if d.Locality.Kind == schema.MultiMaster || len(n.Statements) < 2 {
		return nil
	}
	f := &first{d: d, changed: map[string]bool{}, named: len(s.Stmt.IndexNames)}
	for _, c := range n.Statements {
		switch strings.ToLower(c.ColumnAction) {
		case sqlparser.ModifyStr, sqlparser.ChangeStr:
			f.changed[c.Column.Lowered()] = true
		case sqlparser.DropStr:
			f.changed[c.Column.Lowered()] = true
		}
	}
	var front, rest, back []*sqlparser.DDL
	for i, c := range n.Statements {
		if f.olds = olds; i < made {
			f.olds = nil
		}
		if !f.moves(n, c) {
			rest = append(rest, c)
			continue
		}
		front = append(front, c)
		name := c.IndexSpec.ToName
		if name.IsEmpty() || d.Index(name.String()) == nil {
			continue
		}
		// another one of that name goes first
		f.named++
		meanwhile := meanwhileName(d, f.named)
		if s.Stmt.IndexNames == nil {
			s.Stmt.IndexNames = map[string]string{}
		}
		s.Stmt.IndexNames[meanwhile] = name.String()
		rename, err := sqlparser.Parse("ALTER TABLE `t` RENAME INDEX " + quoted(meanwhile) + " TO " + quoted(name.String()))
		if err != nil {
			return err
		}
		r := rename.(*sqlparser.AlterTable).Statements[0]
		r.Table, r.Auth = n.Table, c.Auth
		c.IndexSpec.ToName = sqlparser.NewColIdent(meanwhile)
		back = append(back, r)
	}
	n.Statements = slices.Concat(front, rest, back)
	return nil
}

// first moves the clauses of one statement that make indexes.
type first struct {
	d       *schema.TableDesc
	olds    map[string]string
	changed map[string]bool // columns that go, or get another type
	named   int
}

// moves reports whether a clause makes an index that can be built first, and has it name columns as
// they are called then.
func (f *first) moves(n *sqlparser.AlterTable, c *sqlparser.DDL) bool {
	x := c.IndexSpec
	if x == nil || !strings.EqualFold(x.Action, sqlparser.CreateStr) || len(x.Columns) == 0 || x.Expression != nil ||
		x.Type != "" && !strings.EqualFold(x.Type, sqlparser.UniqueStr) {
		return false
	}
	if x.ToName.IsEmpty() && slices.ContainsFunc(n.Statements, changesIndex) {
		return false // what it will be called is not known yet
	}
	var names []string
	for _, col := range x.Columns {
		name := col.Column.Lowered()
		if old, ok := f.olds[name]; ok {
			name = old
		} else if f.olds != nil && slices.ContainsFunc(n.Statements, func(c *sqlparser.DDL) bool {
			old, _, ok := renames(c)
			return ok && old.Lowered() == name
		}) {
			return false
		}
		i := f.d.ColByName(name)
		if i < 0 || f.changed[name] || f.d.Cols[i].Virtual {
			return false
		}
		names = append(names, f.d.Cols[i].Name)
	}
	if was := x.Columns[0].Column; x.ToName.IsEmpty() && !was.EqualString(names[0]) {
		if f.d.Index(was.String()) != nil {
			return false
		}
		x.ToName = was // as it is called by itself behind the renaming
	}
	for i, col := range x.Columns {
		col.Column = sqlparser.NewColIdent(names[i])
	}
	return true
}

// changesIndex reports whether a clause drops or renames an index.
func changesIndex(c *sqlparser.DDL) bool {
	return c.IndexSpec != nil && !strings.EqualFold(c.IndexSpec.Action, sqlparser.CreateStr)
}
