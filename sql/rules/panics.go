package rules

import (
	"bytes"
	"regexp"
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

// reNoTrigger matches what the engine panics with where FOLLOWS or PRECEDES names no trigger.
var reNoTrigger = regexp.MustCompile(`^Referenced trigger (\S+) not found$`)

// Unstacked is what a client is told of a panic that go-mysql-server has caught itself and made an
// error of, stack and all; said is that, "" if err is none.
func Unstacked(err *mysql.SQLError) (_ *mysql.SQLError, said string) {
	text, ok := strings.CutPrefix(err.Message, "panic recovered: ")
	if !ok {
		return err, ""
	}
	text, _, _ = strings.Cut(text, "\n")
	if m := reNoTrigger.FindStringSubmatch(text); m != nil {
		return mysql.NewSQLError(3011, "HY000", "Referenced trigger '%s' for the given action time and event type does not exist.",
			m[1]), err.Message
	}
	return mysql.NewSQLError(1105, "HY000", "the statement failed by an error of the server, which its log describes: %s",
		text), err.Message
}
