package query

import (
	"bytes"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
	"github.com/godwitdb/godwit/sql/schema"
)

// late says why a statement that has already read is left to the engine: it has changed nothing
// yet.
type late struct{ reason string }

// Error implements error.
func (l *late) Error() string { return "left to the engine: " + l.reason }

// setter converts the values of one column of a batch to those that the table stores.
type setter struct {
	ctx     *sql.Context
	pos, at int // in the table, and in the batches
	col     *schema.Column
	from    expr.Type
	loc     *time.Location // of the session
	strict  bool
	derived bool
	number  bool // the column is one of plain numbers
	// chars is the length of a text column whose values need nothing but a look at theirs; -1: they
	// need more.
	chars int
}

// newSetter refuses pairs of types whose conversion is not known to be MySQL's.
func newSetter(ctx *sql.Context, c *schema.Column, from expr.Type) (*setter, error) {
	s := &setter{ctx: ctx, col: c, from: from, chars: -1}
	to := expr.FromSQL(c.Type)
	if !convertible(from, to) {
		return nil, left("assignment of " + from.Kind.String() + " to " + to.Kind.String())
	}
	switch to.Kind {
	case expr.Int, expr.Uint, expr.Decimal, expr.Float:
		s.number = true
	}
	if st, ok := c.Type.(sql.StringType); ok && c.Kind == schema.KindString && c.Type.Type() != sqltypes.Char &&
		c.Collation.CharacterSet() == sql.CharacterSet_utf8mb4 {
		s.chars = int(st.MaxCharacterLength())
	}
	return s, nil
}

// convertible reports whether values of a type can be assigned to a column of another one.
func convertible(from, to expr.Type) bool {
	switch from.Kind {
	case expr.Null:
		return true
	case expr.Int, expr.Uint, expr.Decimal, expr.Float:
		switch to.Kind {
		case expr.Int, expr.Uint, expr.Decimal, expr.Float, expr.Text:
			return true
		}
	case expr.Year:
		return to.Kind == expr.Year || to.Kind == expr.Int || to.Kind == expr.Uint || to.Kind == expr.Text
	case expr.Text:
		return to.Kind != expr.Opaque && to.Kind != expr.Bit
	case expr.Date, expr.Datetime, expr.Timestamp:
		return to.Dated() || to.Kind == expr.Text
	case expr.Enum, expr.Set:
		return to.Kind == expr.Text || from.Same(to)
	case expr.Bytes, expr.Duration, expr.Bit:
		return from.Kind == to.Kind || to.Kind == expr.Text && from.Kind == expr.Duration
	}
	// The text of a JSON document does not tell the types of its numbers.
	return false
}

// value is the value at i as the table stores it; row is the number of the row, for errors.
func (s *setter) value(v *expr.Vec, i int32, row int) (any, error) {
	if v.T.Kind == expr.Null || v.IsNull(i) {
		return s.null()
	}
	switch v.T.Kind {
	case expr.Int, expr.Uint:
		if x, ok := s.col.Int(v.I[i], v.T.Kind == expr.Uint); ok {
			return x, nil
		}
	case expr.Text:
		if s.chars >= 0 && (len(v.S[i]) <= s.chars || utf8.RuneCountInString(v.S[i]) <= s.chars) {
			return v.S[i], nil
		}
	case expr.Decimal:
		if d, ok := s.decimal(v, i); ok {
			return d, nil
		}
	case expr.Enum:
		if s.col.Type.Type() == sqltypes.Enum {
			return uint16(v.I[i]), nil
		}
	case expr.Set, expr.Bit:
		if s.col.Kind == schema.KindUint {
			return uint64(v.I[i]), nil
		}
	}
	x, err := s.plain(v, i)
	if err != nil {
		return nil, err
	}
	if v.T.Kind == expr.Text && s.number {
		if x, err = numberOf(v.S[i]); err != nil {
			return nil, err
		}
	}
	return s.convert(x, row)
}

// numberOf is the number that a text is. What is more or less than one is left to the engine.
func numberOf(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	d, err := decimal.NewFromString(text)
	if err != nil {
		return nil, &late{"text that is no number"}
	}
	return d, nil
}

// outOfRange is error 1264.
func outOfRange(column string, row int) error {
	return mysql.NewSQLError(1264, "22003", "Out of range value for column '%s' at row %d", column, row)
}

// null is NULL as the value of the column.
func (s *setter) null() (any, error) {
	if s.col.Desc.Nullable || s.col.Desc.AutoInc {
		return nil, nil
	}
	if !s.strict {
		return nil, &late{"NULL for a column that is NOT NULL"}
	}
	return nil, sql.ErrInsertIntoNonNullableProvidedNull.New(s.col.Desc.Name)
}

// decimal is a DECIMAL that the column holds as it is.
func (s *setter) decimal(v *expr.Vec, i int32) (any, bool) {
	t, ok := s.col.Type.(sql.DecimalType)
	if !ok || v.D != nil || v.T.Scale != int(t.Scale()) || v.T.Precision > int(t.Precision()) {
		return nil, false
	}
	return decimal.New(v.I[i], -int32(v.T.Scale)), true
}

// plain is a value in the engine's form of its own type.
func (s *setter) plain(v *expr.Vec, i int32) (any, error) {
	if s.col.Kind == schema.KindString {
		if v.T.Kind == expr.Timestamp {
			x := expr.Value{Kind: expr.Datetime, I: calendar.Shift(v.I[i], time.UTC, s.loc)}
			return x.Text(expr.DatetimeType(v.T.Scale)), nil
		}
		return string(v.AppendText(nil, i)), nil
	}
	switch v.T.Kind {
	case expr.Uint:
		return uint64(v.I[i]), nil
	case expr.Decimal:
		return decimal.NewFromString(string(v.AppendText(nil, i)))
	case expr.Float:
		return v.F[i], nil
	case expr.Bytes:
		return []byte(v.S[i]), nil
	case expr.Text:
		return v.S[i], nil
	case expr.Date, expr.Datetime, expr.Timestamp:
		return s.time(v.I[i])
	case expr.Duration:
		return types.Timespan(v.I[i]), nil
	}
	return v.I[i], nil
}

func (s *setter) time(p int64) (any, error) {
	switch {
	case p == 0:
		return types.ZeroTime, nil
	case !calendar.Complete(p):
		return nil, &late{"date with a zero"}
	}
	if s.from.Kind == expr.Timestamp {
		p = calendar.Shift(p, time.UTC, s.loc)
	}
	return calendar.ToGo(p, time.UTC), nil
}

// convert brings a value to the type of the column, as INSERT does.
func (s *setter) convert(x any, row int) (any, error) {
	var out any
	var in sql.ConvertInRange
	var err error
	if r, ok := s.col.Type.(sql.RoundingNumberType); ok {
		out, in, err = r.ConvertRound(s.ctx, x)
	} else {
		out, in, err = s.col.Type.Convert(s.ctx, x)
	}
	if err == nil && in == sql.InRange {
		if out == nil {
			return nil, &late{"conversion to NULL"}
		}
		return out, nil
	}
	if !s.strict {
		return nil, &late{"conversion without strict mode"}
	}
	name := s.col.Desc.Name
	switch {
	case err == nil:
		err = outOfRange(name, row)
	case types.ErrLengthBeyondLimit.Is(err):
		err = types.ErrLengthBeyondLimit.New(x, name)
	case sql.ErrTruncatedIncorrect.Is(err):
		err = sql.ErrInvalidValue.New(x, s.col.Type)
	case types.ErrConvertingToEnum.Is(err), sql.ErrInvalidSetValue.Is(err), sql.ErrConvertingToSet.Is(err):
		err = types.ErrDataTruncatedForColumnAtRow.New(name, row)
	}
	return nil, err
}

// same reports whether two values of a column are the same one, and not only equal by a collation.
func same(ctx *sql.Context, c *schema.Column, a, b any) (bool, error) {
	if a == nil || b == nil {
		return a == nil && b == nil, nil
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x == y, nil
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Equal(y), nil
	case decimal.Decimal:
		y, ok := b.(decimal.Decimal)
		return ok && x.Equal(y), nil
	}
	p, err := c.AppendPayload(ctx, nil, a)
	if err != nil {
		return false, err
	}
	q, err := c.AppendPayload(ctx, nil, b)
	return bytes.Equal(p, q), err
}

// isLate reports why a statement is left to the engine although it has read.
func isLate(err error) (reason string, ok bool) {
	var l *late
	if errors.As(err, &l) {
		return l.reason, true
	}
	return "", false
}
