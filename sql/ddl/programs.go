package ddl

import (
	"context"
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/token"
)

// ProgramTree is the tree of a CREATE of a stored program whose body only our own interpreter
// knows; nil if the statement is another one. The tree has another body, which fails.
func ProgramTree(query string, o sqlparser.ParserOptions) sqlparser.Statement {
	if !base.ContainsFold(query, "PROCEDURE") && !base.ContainsFold(query, "TRIGGER") && !base.ContainsFold(query, "EVENT") {
		return nil
	}
	head, prog, ok := program.Skeleton(query, token.Mode{ANSIQuotes: o.AnsiQuotes})
	if !ok || prog.Kind == program.Function {
		return nil
	}
	stmt, _, err := sqlparser.ParseOneWithOptions(context.Background(), head, o)
	d, is := stmt.(*sqlparser.DDL)
	if err != nil || !is {
		return nil
	}
	d.SubStatementPositionStart, d.SubStatementPositionEnd = prog.From, prog.To
	return d
}

// Misshapen is the error of a procedure with RETURN, which the engine would take; nil: it has none.
func Misshapen(query string, o sqlparser.ParserOptions) error {
	_, err := program.Parse(query, token.Mode{ANSIQuotes: o.AnsiQuotes})
	var me *mysql.SQLError
	if errors.As(err, &me) && me.Num == 1313 { // RETURN
		return me
	}
	return nil
}

// MakesProcedure reports whether a statement is the client's own that makes a procedure or an
// event: the engine would refuse what it does not know of the body. It need not know any of it.
func MakesProcedure(ctx context.Context, query string, stmt sqlparser.Statement) bool {
	d, ok := stmt.(*sqlparser.DDL)
	sc, is := ctx.(*sql.Context)
	return ok && is && (d.ProcedureSpec != nil || d.EventSpec != nil && d.EventSpec.Body != nil) &&
		sql.RemoveSpaceAndDelimiter(query, ';') == sql.RemoveSpaceAndDelimiter(sc.Query(), ';')
}
