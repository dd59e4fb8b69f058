package ahead

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
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
	return wrong
}
