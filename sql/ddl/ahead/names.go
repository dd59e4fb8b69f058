package ahead

import (
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// keepNames leaves out clauses that give a column the name that it has, and has keys find columns
// by the names that CHANGE gives them: the engine knows those that RENAME COLUMN gives. comment is
// that of the table.
func keepNames(n *sqlparser.AlterTable, comment string) {
	same := func(c *sqlparser.DDL) bool {
		return strings.EqualFold(c.ColumnAction, sqlparser.RenameStr) && c.Column.String() == c.ToColumn.String()
	}
	for _, c := range n.Statements {
		if same(c) { // the engine wants a clause
			*c = sqlparser.DDL{Auth: c.Auth, Action: sqlparser.AlterStr, Table: c.Table,
				AlterCommentSpec: &sqlparser.AlterCommentSpec{Comment: comment}}
		}
	}
	behindOld(n.Statements)
	var out []*sqlparser.DDL
	for i, c := range n.Statements {
		out = append(out, c)
		if !strings.EqualFold(c.ColumnAction, sqlparser.ChangeStr) {
			continue
		}
		col := c.TableSpec.Columns[0]
		if strings.EqualFold(c.Column.String(), col.Name.String()) || !inKeys(n.Statements[i+1:], col.Name) {
			continue
		}
		rename := &sqlparser.DDL{Auth: c.Auth, Action: sqlparser.AlterStr, Table: c.Table,
			ColumnAction: sqlparser.RenameStr, Column: c.Column, ToColumn: col.Name}
		c.ColumnAction, col.Name = sqlparser.ModifyStr, c.Column
		out = append(out, rename)
	}
	n.Statements = out
}

// inKeys reports whether one of several clauses makes a key with a column of a name.
func inKeys(clauses []*sqlparser.DDL, name sqlparser.ColIdent) bool {
	return slices.ContainsFunc(clauses, func(c *sqlparser.DDL) bool {
		if x := c.IndexSpec; x != nil {
			return slices.ContainsFunc(x.Columns, func(col *sqlparser.IndexColumn) bool { return col.Column.Equal(name) })
		}
		if c.TableSpec == nil {
			return false
		}
		return slices.ContainsFunc(c.TableSpec.Constraints, func(con *sqlparser.ConstraintDefinition) bool {
			f, ok := con.Details.(*sqlparser.ForeignKeyDefinition)
			return ok && slices.ContainsFunc(f.Source, name.Equal)
		})
	})
}

// behindOld has AFTER name a column as it is called until then: the clause may stand before the one
// that renames it.
func behindOld(clauses []*sqlparser.DDL) {
	for i, c := range clauses {
		if c.ColumnOrder == nil || c.ColumnOrder.First {
			continue
		}
		for _, later := range clauses[i+1:] {
			to := later.ToColumn
			if strings.EqualFold(later.ColumnAction, sqlparser.ChangeStr) {
				to = later.TableSpec.Columns[0].Name
			}
			if !to.IsEmpty() && to.Equal(c.ColumnOrder.AfterColumn) {
				c.ColumnOrder.AfterColumn = later.Column
				break
			}
		}
	}
}
