package fn

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// TemporalLiteral is DATE '...', TIME '...' or TIMESTAMP '...', by the kind of its value. A text
// that is none is error 1525.
func TemporalLiteral(kind expr.Kind, s string, coll sql.CollationID) (expr.Node, error) {
	fsp := 0
	for i := len(s) - 1; i >= 0 && s[i] >= '0' && s[i] <= '9'; i-- {
		if i > 0 && s[i-1] == '.' {
			fsp = min(len(s)-i, 6)
		}
	}
	t, name := expr.TypeDate, "DATE"
	switch kind {
	case expr.Duration:
		t, name = expr.TimeType(fsp), "TIME"
	case expr.Datetime:
		t, name = expr.DatetimeType(fsp), "DATETIME"
	}
	c := &expr.Cast{Arg: expr.TextConst(s, coll), T: t.AsNull(), Explicit: true}
	v, err := expr.EvalConst(c, &expr.Env{})
	if err != nil || v.IsNull() {
		return nil, mysql.NewSQLError(1525, "HY000", "Incorrect %s value: '%s'", name, s)
	}
	// sql_mode may make NULL of a date with zeros.
	day := calendar.Unpack(v.I)
	c.T.NotNull = kind == expr.Duration || day.Month > 0 && day.Day > 0
	return c, nil
}
