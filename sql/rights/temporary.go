package rights

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/session"
)

// Who has CREATE TEMPORARY TABLES for a database makes temporary tables there. A session may do
// anything with those that it has made: nobody is asked for privileges for them, as in MySQL.

// ownTables says which tables are temporary ones of the session; nil: it has none.
func ownTables(ctx *sql.Context) func(db, table string) bool {
	s := session.Of(ctx)
	if s == nil || !s.HasTemporary() {
		return nil
	}
	return func(db, table string) bool { return s.Temporary(DatabaseOf(ctx, db), table) != nil }
}

// judged is a part of a statement without the session's temporary tables. some is false if nothing
// is left to judge.
func judged(ctx *sql.Context, auth sqlparser.AuthInformation) (_ sqlparser.AuthInformation, some bool) {
	if dropsTemporary(ctx, auth) {
		return auth, false
	}
	own := ownTables(ctx)
	if own == nil {
		return auth, true
	}
	names := auth.TargetNames
	switch auth.TargetType {
	case sqlparser.AuthTargetType_SingleTableIdentifier, sqlparser.AuthTargetType_TableColumn:
		return auth, !own(names[0], names[1])
	case sqlparser.AuthTargetType_MultipleTableIdentifiers:
		auth.TargetNames = nil
		for i := 0; i+1 < len(names); i += 2 {
			if !own(names[i], names[i+1]) {
				auth.TargetNames = append(auth.TargetNames, names[i], names[i+1])
			}
		}
		return auth, len(auth.TargetNames) > 0
	}
	return auth, true
}

// dropsTemporary reports whether a statement is DROP TEMPORARY TABLE, which touches nothing that
// is not the session's own.
func dropsTemporary(ctx *sql.Context, auth sqlparser.AuthInformation) bool {
	s := session.Of(ctx)
	if s == nil || auth.AuthType != sqlparser.AuthType_DROP {
		return false
	}
	n, ok := s.Stmt.Tree.(*sqlparser.DDL)
	return ok && n.Temporary && strings.EqualFold(n.Action, sqlparser.DropStr)
}
