package weigh

import (
	"strings"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// mostBlocks is how many query blocks a statement may have once each name of a WITH is replaced by
// its query: go-mysql-server does so while it builds the plan, and cannot be interrupted there.
const mostBlocks = 20_000

var errBlocks = mysql.NewSQLError(1436, "HY000", "Thread stack overrun: the statement has more than %d query blocks", mostBlocks)

// Expanded is why go-mysql-server is not given a statement that uses the names of its WITHs too
// often.
func Expanded(stmt sqlparser.Statement) error {
	if stmt == nil {
		return nil
	}
	var ctes []*sqlparser.CommonTableExpr
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if c, ok := n.(*sqlparser.CommonTableExpr); ok && c != nil {
			ctes = append(ctes, c)
		}
		return true, nil
	}, stmt) // it never fails
	if len(ctes) == 0 {
		return nil
	}
	// Names are those of one statement, whatever they hide: what is counted is too much rather than
	// too little. Those that are defined further in may come later, so it is gone through again.
	of := map[string]int{}
	for changed, rounds := true, 0; changed; rounds++ {
		if changed = false; rounds == 100 {
			return errBlocks
		}
		for _, c := range ctes {
			name := strings.ToLower(c.As.String())
			n := blocks(c.AliasedTableExpr.Expr, of, name)
			if n > mostBlocks {
				return errBlocks
			}
			changed = changed || n > of[name]
			of[name] = max(n, of[name])
		}
	}
	if blocks(stmt, of, "") > mostBlocks {
		return errBlocks
	}
	return nil
}

// blocks is how many query blocks a part of a statement has; self is a name that counts nothing.
func blocks(part sqlparser.SQLNode, of map[string]int, self string) int {
	n := 0
	_ = sqlparser.Walk(func(x sqlparser.SQLNode) (bool, error) {
		switch x := x.(type) {
		case *sqlparser.Select:
			n++
		case *sqlparser.CommonTableExpr:
			return false, nil // it counts where its name is used
		case *sqlparser.AliasedTableExpr: // names before columns are none of tables
			if t, ok := x.Expr.(sqlparser.TableName); ok && t.DbQualifier.IsEmpty() {
				if name := strings.ToLower(t.Name.String()); name != self {
					n = min(n+of[name], mostBlocks+1)
				}
			}
		}
		return true, nil
	}, part) // it never fails
	return n
}
