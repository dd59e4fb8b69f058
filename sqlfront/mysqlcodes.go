package sqlfront

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	errors "gopkg.in/src-d/go-errors.v1"
)

// engineError is a kind of the engine's errors that reaches the handler as
// 1105 with nothing but its text, where MySQL has a number that clients act on.
type engineError struct {
	text  *regexp.Regexp
	num   int
	state string
}

var verb = regexp.MustCompile(`%[a-z]`)

// textOf matches the messages of an engine kind.
func textOf(k *errors.Kind) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.Join(quoteAll(verb.Split(k.Message, -1)), "(?s:.*)") + "$")
}

func quoteAll(parts []string) []string {
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return parts
}

var engineErrors = []engineError{
	{regexp.MustCompile(`^(?:unknown error: )?(?:Code: INVALID_ARGUMENT\s+)?syntax error at `), 1064, "42000"},
	{textOf(sql.ErrColumnNotFound), 1054, "42S22"},
	{textOf(sql.ErrTableColumnNotFound), 1054, "42S22"},
	{textOf(sql.ErrAmbiguousColumnName), 1052, "23000"},
	{textOf(sql.ErrTableAlreadyExists), 1050, "42S01"},
	{textOf(sql.ErrColumnExists), 1060, "42S21"},
	{textOf(sql.ErrDuplicateKey), 1061, "42000"},
	{textOf(sql.ErrDuplicateAliasOrTable), 1066, "42000"},
	{textOf(sql.ErrFunctionNotFound), 1305, "42000"},
	{textOf(sql.ErrCheckConstraintViolated), 3819, "HY000"},
	{textOf(sql.ErrNoDatabaseSelected), 1046, "3D000"},
	{textOf(sql.ErrInsertIntoMismatchValueCount), 1136, "21S01"},
	{textOf(sql.ErrDatabaseAccessDeniedForUser), 1044, "42000"},
	{textOf(sql.ErrPrivilegeCheckFailed), 1142, "42000"},
}

// numbered gives an error without a number of its own the one of MySQL.
func numbered(e *mysql.SQLError) *mysql.SQLError {
	if e.Num != erUnknown {
		return e
	}
	for _, k := range engineErrors {
		if k.text.MatchString(e.Message) {
			return mysql.NewSQLError(k.num, k.state, "%s", e.Message)
		}
	}
	return e
}
