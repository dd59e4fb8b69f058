package rules

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// OfSet is the error of a SET: go-mysql-server takes a variable that it does not know for a column.
func OfSet(e *mysql.SQLError, tree sqlparser.Statement) *mysql.SQLError {
	set, ok := tree.(*sqlparser.Set)
	if !ok {
		return e
	}
	for _, x := range set.Exprs {
		if x.Name == nil || !x.Name.Qualifier.IsEmpty() {
			continue
		}
		name := x.Name.Name.String()
		if strings.EqualFold(e.Message, sql.ErrColumnNotFound.New(name).Error()) {
			return mysql.NewSQLError(mysql.ERUnknownSystemVariable, "HY000", "Unknown system variable '%s'", name)
		}
	}
	return e
}
