package ahead

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

// crossing lets columns take each other's names. The engine executes one clause after the other, so
// each of them has a name of its own for a while. All that says something of columns by their old
// names is done before, and what makes keys of the new names behind. It returns false, and does
// nothing, if none takes the old name of another one.
func crossing(d *schema.TableDesc, n *sqlparser.AlterTable) bool {
	to := map[string]sqlparser.ColIdent{} // by old name, in lower case
	var olds []sqlparser.ColIdent
	for _, c := range n.Statements {
		if old, name, ok := renames(c); ok {
			to[old.Lowered()] = name
			olds = append(olds, old)
		}
	}
	if !slices.ContainsFunc(olds, func(old sqlparser.ColIdent) bool {
		_, both := to[to[old.Lowered()].Lowered()]
		return both && !to[old.Lowered()].Equal(old)
	}) {
		return false
	}
	before := map[string]sqlparser.ColIdent{} // by new name
	for _, old := range olds {
		before[to[old.Lowered()].Lowered()] = old
	}
	var first, last, added []*sqlparser.DDL
	for _, c := range n.Statements {
		if o := c.ColumnOrder; o != nil && !o.First {
			if old, ok := before[o.AfterColumn.Lowered()]; ok {
				o.AfterColumn = old
			}
		}
		switch {
		case strings.EqualFold(c.ColumnAction, sqlparser.RenameStr):
		case c.IndexSpec != nil || c.TableSpec != nil && len(c.TableSpec.Constraints) > 0:
			last = append(last, c)
		case strings.EqualFold(c.ColumnAction, sqlparser.AddStr) && takes(c, to):
			added = append(added, c)
		default:
			if strings.EqualFold(c.ColumnAction, sqlparser.ChangeStr) {
				c.ColumnAction, c.TableSpec.Columns[0].Name = sqlparser.ModifyStr, c.Column
			}
			first = append(first, c)
		}
	}
	rename := func(from, to sqlparser.ColIdent) *sqlparser.DDL {
		return &sqlparser.DDL{Auth: n.Statements[0].Auth, Action: sqlparser.AlterStr, Table: n.Table,
			ColumnAction: sqlparser.RenameStr, Column: from, ToColumn: to}
	}
	var away, back []*sqlparser.DDL
	for i, old := range olds {
		meanwhile := sqlparser.NewColIdent(free(d, n, i))
		away, back = append(away, rename(old, meanwhile)), append(back, rename(meanwhile, to[old.Lowered()]))
	}
	n.Statements = slices.Concat(first, away, back, added, last)
	return true
}

// renames is what a clause renames a column from and to.
func renames(c *sqlparser.DDL) (from, to sqlparser.ColIdent, ok bool) {
	switch {
	case strings.EqualFold(c.ColumnAction, sqlparser.RenameStr):
		to = c.ToColumn
	case strings.EqualFold(c.ColumnAction, sqlparser.ChangeStr):
		to = c.TableSpec.Columns[0].Name
	default:
		return from, to, false
	}
	return c.Column, to, c.Column.String() != to.String()
}

// takes reports whether a clause adds a column with the old name of one that gets another.
func takes(c *sqlparser.DDL, to map[string]sqlparser.ColIdent) bool {
	return c.TableSpec != nil && slices.ContainsFunc(c.TableSpec.Columns, func(col *sqlparser.ColumnDefinition) bool {
		_, ok := to[col.Name.Lowered()]
		return ok
	})
}

// free is a name that no column has, before or after the statement; i tells several apart.
func free(d *schema.TableDesc, n *sqlparser.AlterTable, i int) string {
	name := "renamed" + strconv.Itoa(i+1)
	for taken := true; taken; {
		taken = d.ColByName(name) >= 0 || slices.ContainsFunc(n.Statements, func(c *sqlparser.DDL) bool {
			_, to, ok := renames(c)
			added := c.TableSpec != nil && slices.ContainsFunc(c.TableSpec.Columns, func(col *sqlparser.ColumnDefinition) bool {
				return col.Name.EqualString(name)
			})
			return ok && to.EqualString(name) || added
		})
		if taken {
			name += "_"
		}
	}
	return name
}
