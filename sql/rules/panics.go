package rules

import (
	"bytes"
	"runtime"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// PanicError is what a client is told of a panic. The engine binds a UNION by the columns of its
// left side, whatever the number of those at the right.
func PanicError(r any, stack []byte) error {
	if _, ok := r.(runtime.Error); ok && bytes.Contains(stack, []byte("planbuilder/set_op.go")) {
		return sql.ErrColumnNumberDoesNotMatch.New()
	}
	return mysql.NewSQLError(1105, "HY000", "the statement failed by an error of the server, "+
		"which its log describes: %v", r)
}

// Unstacked is what a client is told of a panic that go-mysql-server has caught itself and made an
// error of, stack and all; said is that, "" if err is none.
func Unstacked(err *mysql.SQLError) (_ *mysql.SQLError, said string) {
	text, ok := strings.CutPrefix(err.Message, "panic recovered: ")
	if !ok {
		return err, ""
	}
	text, _, _ = strings.Cut(text, "\n")
	return mysql.NewSQLError(1105, "HY000", "the statement failed by an error of the server, which its log describes: %s",
		text), err.Message
}
