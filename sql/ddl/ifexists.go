package ddl

import (
	"fmt"
	"regexp"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/session"
)

// Comments may stand before a statement, and it may be one that MySQL executes.
var reIfNotExists = regexp.MustCompile("(?i)^((?:\\s|/\\*!\\d*|/\\*[^!*][^*]*\\*+(?:[^/*][^*]*\\*+)*/|--\\s[^\\n]*\\n|#[^\\n]*\\n)*" +
	"CREATE\\s+(?:DEFINER\\s*=\\s*\\S+(?:\\s*@\\s*\\S+)?\\s+)?(?:TRIGGER|PROCEDURE)\\s+)IF\\s+NOT\\s+EXISTS\\s+")

// withoutIfNotExists leaves out IF NOT EXISTS of a trigger or procedure, which the parser does not
// know there. What makes one asks ifNotExists.
func withoutIfNotExists(q string) string {
	if !base.ContainsFold(q, "EXISTS") {
		return q
	}
	return reIfNotExists.ReplaceAllString(q, "${1}")
}

// ifNotExists reports whether the statement of the client makes a trigger or procedure only if
// there is none of its name.
func ifNotExists(ctx *sql.Context) bool { return reIfNotExists.MatchString(ctx.Query()) }

// unlessMissing notes that something is not there that a statement drops IF EXISTS, and returns
// err, which the engine passes over then.
func unlessMissing(ctx *sql.Context, err error, code int, format string, args ...any) error {
	s := session.Of(ctx)
	if s == nil {
		return err
	}
	if d, ok := s.Stmt.Tree.(*sqlparser.DDL); ok && d.IfExists {
		note(ctx, code, fmt.Sprintf(format, args...))
	}
	return err
}
