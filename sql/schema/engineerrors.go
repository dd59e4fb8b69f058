package schema

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
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
	{textOf(sql.ErrTemporaryTablesForeignKeySupport), 1215, "HY000"},
	{textOf(sql.ErrUnknownTable), 1051, "42S02"},
	{textOf(sql.ErrColumnNotFound), 1054, "42S22"},
	{textOf(sql.ErrTableColumnNotFound), 1054, "42S22"},
	{textOf(sql.ErrAmbiguousColumnName), 1052, "23000"},
	{textOf(sql.ErrTableAlreadyExists), 1050, "42S01"},
	{textOf(sql.ErrColumnExists), 1060, "42S21"},
	{textOf(sql.ErrDuplicateKey), 1061, "42000"},
	{textOf(sql.ErrDuplicateAliasOrTable), 1066, "42000"},
	{textOf(sql.ErrFunctionNotFound), 1305, "42000"},
	{textOf(sql.ErrCheckConstraintViolated), 3819, "HY000"},
	{textOf(sql.ErrForeignKeyDuplicateName), 1826, "HY000"},
	{textOf(sql.ErrForeignKeyNotFound), 1091, "42000"},
	{textOf(sql.ErrForeignKeyDropIndex), 1553, "HY000"},
	{textOf(sql.ErrForeignKeyMissingReferenceIndex), 1822, "HY000"},
	{textOf(sql.ErrForeignKeyDropColumn), 1828, "HY000"},
	{textOf(sql.ErrForeignKeySetNullNonNullable), 1830, "HY000"},
	{textOf(sql.ErrForeignKeyTypeChangeSetNull), 1830, "HY000"},
	{textOf(sql.ErrForeignKeyTypeChange), 1832, "HY000"},
	{textOf(sql.ErrForeignKeyDepthLimit), 3008, "HY000"},
	{regexp.MustCompile(`^Constraint ".*" does not exist$`), 3940, "HY000"},
	{textOf(sql.ErrNoDatabaseSelected), 1046, "3D000"},
	{textOf(sql.ErrInsertIntoMismatchValueCount), 1136, "21S01"},
	{textOf(sql.ErrColumnNumberDoesNotMatch), 1222, "21000"},
	{textOf(planbuilder.ErrUnionSchemasDifferentLength), 1222, "21000"},
	{textOf(sql.ErrDatabaseAccessDeniedForUser), 1044, "42000"},
	{textOf(sql.ErrPrivilegeCheckFailed), 1142, "42000"},
	{regexp.MustCompile(`^duplicate column name: `), 1060, "42S21"},
	{regexp.MustCompile("^cannot drop table `.*` as it is referenced in foreign key "), 3730, "HY000"},
	{regexp.MustCompile(`^cannot truncate table .* as it is referenced in foreign key `), 1701, "42000"},
	{regexp.MustCompile(`^View '.*' references invalid table\(s\) `), 1356, "HY000"},
	{regexp.MustCompile(`^The value specified for generated column .* is not allowed`), 3105, "HY000"},
	{textOf(sql.ErrUnknownSystemVariable), 1193, "HY000"},
	{textOf(sql.ErrInvalidSystemVariableValue), 1231, "42000"},
	{textOf(sql.ErrSystemVariableReadOnly), 1238, "HY000"},
	{textOf(sql.ErrSystemVariableSessionOnly), 1228, "HY000"},
	{textOf(sql.ErrSystemVariableGlobalOnly), 1229, "HY000"},
	{regexp.MustCompile(`^\S+ out of range for `), 1264, "22003"},
	{regexp.MustCompile(`^value \S+ is not a valid Year$`), 1264, "22003"},
	{regexp.MustCompile(`^Out of range value for column of Decimal type `), 1264, "22003"},
	{textOf(types.ErrConvertingToTime), 1292, "22007"},
	{textOf(types.ErrConvertingToTimeOutOfRange), 1292, "22007"},
	{textOf(types.ErrConvertingToEnum), 1265, "01000"},
	{regexp.MustCompile(`(?s)^value .* was not found in the set$`), 1265, "01000"},
	{textOf(types.ErrConvertingToTimeType), 1292, "22007"},
	{regexp.MustCompile(`^Field '.*' doesn't have a default value$`), 1364, "HY000"},
	{regexp.MustCompile(`^Access denied for user .* to table '`), 1142, "42000"},
	{regexp.MustCompile(`^Data truncated for column '`), 1265, "01000"},
	{regexp.MustCompile(`(?s)^string '.*' is too large for column '[^']*'$`), 1406, "22001"},
	{regexp.MustCompile(`^\d+ is beyond the maximum value that can be held by \d+ bits$`), 1406, "22001"},
	{regexp.MustCompile(`^Invalid JSON text: `), 3140, "22032"},
	{regexp.MustCompile(`^SAVEPOINT .* does not exist$`), 1305, "42000"},
	{textOf(sql.ErrStoredProcedureDoesNotExist), 1305, "42000"},
	{textOf(sql.ErrEventAlreadyExists), 1537, "HY000"},
	{regexp.MustCompile(`^[A-Za-z_ ]+ not supported$`), 1235, "42000"}, // kinds of FLUSH
	{textOf(sql.ErrUnsupportedFeature), 1235, "42000"},
	{regexp.MustCompile(`^Unknown character set: `), 1115, "42000"},
	{textOf(sql.ErrEventDoesNotExist), 1539, "HY000"},
	{regexp.MustCompile(`^ENDS is either invalid or before STARTS$`), 1543, "HY000"},
	{regexp.MustCompile(`^Incorrect (AT|STARTS|ENDS) value: `), 1525, "HY000"},
	{regexp.MustCompile(`^Unknown prepared statement handler `), 1243, "HY000"},
	{regexp.MustCompile(`^Operation \w+ USER failed for `), 1396, "HY000"},
	{regexp.MustCompile(`^You are not allowed to create a user with GRANT$`), 1410, "42000"},
	{regexp.MustCompile(`^Expression #\d+ of .* is not in GROUP BY clause and contains nonaggregated column `), 1055, "42000"},
	{textOf(sql.ErrNonAggregatedColumnWithoutGroupBy), 1140, "42000"},
	{textOf(sql.ErrExistingView), 1050, "42S01"},
	{regexp.MustCompile(`^incompatible type for default value`), 1067, "42000"},
	{regexp.MustCompile(`^JSON column '.*' supports indexing only via generated columns`), 3152, "42000"},
	{regexp.MustCompile(`^all Full-Text columns must be declared on a non-binary text type$`), 1283, "HY000"},
	{regexp.MustCompile(`^a SPATIAL index may only contain a geometrical type column$`), 1687, "42000"},
	{regexp.MustCompile(`^There is no such grant defined for user `), 1141, "42000"},
	{regexp.MustCompile(`^unsupported syntax: resignal$`), 1645, "0K000"},
	{regexp.MustCompile(`^bind variable not provided: `), 1210, "HY000"},
	{regexp.MustCompile(`^Operation \w+ ROLE failed for `), 1396, "HY000"},
	{regexp.MustCompile(`^trigger ".*" does not exist$`), 1360, "HY000"},
	{regexp.MustCompile(`^length is \d+ but max allowed is \d+$`), 1074, "42000"},
	{regexp.MustCompile(`^there can be only one auto_increment column`), 1075, "42000"},
	{regexp.MustCompile(` is not a valid character set for `), 1253, "42000"},
	{regexp.MustCompile(`^can't alter column ".*" because it would invalidate check constraint `), 3959, "HY000"},
	{textOf(sql.ErrStoredProcedureAlreadyExists), 1304, "42000"},
}

// tooLarge is what the parsers say of a literal that no DOUBLE is.
var tooLarge = regexp.MustCompile(`strconv\.ParseFloat: parsing "([^"]*)": value out of range`)

// unwritten is what the engine says of character sets and collations that it only knows by name.
var unwritten = regexp.MustCompile("^The (character set|collation) `([^`]*)` has not yet been implemented")

// unknown is what the engine says of functions that it does not have, or knows by name only.
var unknown = regexp.MustCompile(`^(?:function: '(\w+)' not found|unsupported JSON function: (\w+)$)`)

// absent are functions of MySQL that are nowhere, and what to do instead.
var absent = map[string]string{
	"extractvalue": "read XML in the client", "updatexml": "change XML in the client",
	"json_schema_valid":             "look at documents by JSON_TYPE and JSON_CONTAINS_PATH, or validate them in the client",
	"json_schema_validation_report": "validate documents in the client",
}

// states are the SQLSTATEs of errors to which the engine gives a number only.
var states = map[int]string{
	1048: "23000", // column cannot be null
	1049: "42000", // unknown database
	1054: "42S22", // unknown column
	1072: "42000", // a key of a column that is not there
	1091: "42000", // nothing of that name to drop
	1140: "42000", // a column that is not grouped by
	1146: "42S02", // no such table
	1451: "23000", // a row is referenced
	1452: "23000", // no row to refer to
	1241: "21000", // a subquery returns more columns than one
	1242: "21000", // a subquery returns more than one row
	1792: "25006", // a write in a read-only transaction
}

// Numbered gives an error without a number of its own the one of MySQL, and the SQLSTATE that
// belongs to it.
func Numbered(e *mysql.SQLError) *mysql.SQLError {
	if state := states[e.Num]; state != "" && e.State != state {
		return mysql.NewSQLError(e.Num, state, "%s", e.Message)
	}
	if e.Num != ErrUnknown {
		return e
	}
	if m := tooLarge.FindStringSubmatch(e.Message); m != nil {
		return mysql.NewSQLError(1367, "22007", "Illegal double '%.100s' value found during parsing", m[1])
	}
	if m := unwritten.FindStringSubmatch(e.Message); m != nil {
		return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s %s' for columns and literals: "+
			"use utf8mb4, and SET NAMES for what the client speaks", m[1], m[2])
	}
	if m := unknown.FindStringSubmatch(e.Message); m != nil {
		name := strings.ToLower(m[1] + m[2])
		if instead := absent[name]; instead != "" {
			return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s': %s", strings.ToUpper(name), instead)
		}
	}
	for _, k := range engineErrors {
		if k.text.MatchString(e.Message) {
			return mysql.NewSQLError(k.num, k.state, "%s", e.Message)
		}
	}
	return e
}
