package session

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

// CodeUnsafe is the number of ErrUnsafe.
const CodeUnsafe = 1175

// ErrUnsafe is what sql_safe_updates refuses.
var ErrUnsafe = mysql.NewSQLError(CodeUnsafe, "HY000", "You are using safe update mode and you tried to update a table without a "+
	"WHERE that uses a KEY column.")

// SafeUpdates reports whether the session refuses to change rows that no key finds.
func SafeUpdates(ctx *sql.Context) bool {
	v, err := ctx.GetSessionVariable(ctx, "sql_safe_updates")
	n, _ := schema.ToInt64(v)
	return err == nil && n != 0
}

// Unsafe is sql_safe_updates for what go-mysql-server runs: it refuses an UPDATE or DELETE that
// neither has a LIMIT nor reads by a key.
func Unsafe(ctx *sql.Context, s *Session, n sql.Node) error {
	switch n.(type) {
	case *plan.Update, *plan.DeleteFrom:
	case *plan.Truncate: // the engine makes one of a DELETE without a WHERE
		if _, is := s.Stmt.Tree.(*sqlparser.Delete); !is {
			return nil
		}
	default:
		return nil
	}
	if !SafeUpdates(ctx) {
		return nil
	}
	whole, bounded := false, false
	transform.Inspect(n, func(n sql.Node) bool {
		switch n.(type) {
		case *plan.Limit, *plan.TopN, *plan.IndexedTableAccess:
			bounded = true
			return false
		case *plan.ResolvedTable:
			whole = true
		}
		return true
	})
	if whole && !bounded {
		return ErrUnsafe
	}
	return nil
}
