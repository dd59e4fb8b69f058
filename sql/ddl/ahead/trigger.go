package ahead

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/token"
)

// trigger is what is wrong in a trigger's rows: NEW and OLD that its event does not have (1363),
// that it may not change (1362), or with a column that the table does not have (1054).
func (c *check) trigger(n *sqlparser.DDL) error {
	spec := n.TriggerSpec
	if !c.may(n.Table, sql.PrivilegeType_Trigger) {
		return nil
	}
	t := c.table(n.Table)
	if t == nil {
		if c.view(n.Table) {
			return notA(c.dbOf(n.Table), n.Table, "BASE TABLE")
		}
		return nil
	}
	event, after := strings.ToUpper(spec.Event), strings.EqualFold(spec.Time, sqlparser.AfterStr)
	row := func(name *sqlparser.ColName) string {
		q := strings.ToUpper(name.Qualifier.Name.String())
		if !name.Qualifier.DbQualifier.IsEmpty() || q != "NEW" && q != "OLD" {
			return ""
		}
		return q
	}
	var wrong error
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.SetVarExpr:
			switch q := row(n.Name); {
			case q == "OLD" && event != "INSERT":
				wrong = mysql.NewSQLError(1362, "HY000", "Updating of OLD row is not allowed in trigger")
			case q == "NEW" && event != "DELETE" && after:
				wrong = mysql.NewSQLError(1362, "HY000", "Updating of NEW row is not allowed in after trigger")
			}
		case *sqlparser.ColName:
			switch q := row(n); {
			case q == "":
			case q == "NEW" && event == "DELETE", q == "OLD" && event == "INSERT":
				wrong = mysql.NewSQLError(1363, "HY000", "There is no %s row in on %s trigger", q, event)
			case t.Desc.ColByName(n.Name.String()) < 0:
				wrong = mysql.NewSQLError(1054, "42S22", "Unknown column '%s' in '%s'", n.Name.String(), q)
			}
		}
		return wrong == nil, nil
	}, spec.Body) // it never fails
	if wrong != nil {
		return wrong
	}
	return rowsOf(c.ctx.Query(), token.Mode{ANSIQuotes: sql.LoadSqlMode(c.ctx).AnsiQuotes()}, t.Desc)
}

// rowsOf is what is wrong in the columns of NEW and OLD in the text of a trigger: the parser of the
// engine does not know all that its body may have.
func rowsOf(text string, m token.Mode, d *schema.TableDesc) error {
	p, err := program.Parse(text, m)
	if err != nil || p.Kind != program.Trigger {
		return nil // the engine, or who makes the trigger, words it
	}
	event := strings.ToUpper(p.Trigger.Event)
	for _, c := range p.Rows {
		row := strings.ToUpper(c.Row)
		switch {
		case row == "NEW" && event == "DELETE", row == "OLD" && event == "INSERT":
			return mysql.NewSQLError(1363, "HY000", "There is no %s row in on %s trigger", row, event)
		case c.Set && row == "OLD":
			return mysql.NewSQLError(1362, "HY000", "Updating of OLD row is not allowed in trigger")
		case c.Set && !p.Trigger.Before:
			return mysql.NewSQLError(1362, "HY000", "Updating of NEW row is not allowed in after trigger")
		case d.ColByName(c.Name) < 0:
			return mysql.NewSQLError(1054, "42S22", "Unknown column '%s' in '%s'", c.Name, row)
		}
	}
	return nil
}
