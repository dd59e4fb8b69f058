package query

import (
	"bytes"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// late says why a statement that has already read is left to the engine: it has changed nothing
// yet.
type late struct{ reason string }

// Error implements error.
func (l *late) Error() string { return "left to the engine: " + l.reason }

// setter converts the values of one column to those that the table stores.
type setter struct {
	ctx     *sql.Context
	env     *expr.Env
	pos, at int // in the table, and in the batches
	col     *schema.Column
	to      expr.Type
	from    expr.Type
	strict  bool // what the column cannot hold as it is, is an error
	derived bool
	missing bool // DEFAULT of a column that has none
	// nulls says what NULL is for a column that is NOT NULL.
	nulls nulls
	// chars is the length of a text column whose values need nothing but a look at theirs; -1: they
	// need more. utf8: the column holds all characters.
	chars int
	utf8  bool
	// adjusted: a value was not stored as it was.
	adjusted bool
	// v and i are the value at hand.
	v *expr.Vec
	i int32
}

// nulls says what becomes of NULL.
type nulls uint8

const (
	refuseNull nulls = iota // error 1048
	zeroNull                // a zero, and a warning
	takeNull                // the counter gives a value
)

// newSetter refuses pairs of types whose conversion is not known to be MySQL's.
func newSetter(ctx *sql.Context, env *expr.Env, c *schema.Column, from expr.Type) (*setter, error) {
	s := &setter{ctx: ctx, env: env, col: c, from: from, to: expr.FromSQL(c.Type), chars: -1}
	if s.to.Kind == expr.Duration {
		s.to.Scale = c.Digits
	}
	if !convertible(from, s.to) {
		return nil, left("assignment of " + from.Kind.String() + " to " + s.to.Kind.String())
	}
	s.utf8 = c.Kind == schema.KindString && c.Collation.CharacterSet() == sql.CharacterSet_utf8mb4
	if st, ok := c.Type.(sql.StringType); ok && s.utf8 && c.Type.Type() != sqltypes.Char {
		s.chars = int(st.MaxCharacterLength())
	}
	return s, nil
}

// convertible reports whether values of a type can be assigned to a column of another one.
func convertible(from, to expr.Type) bool {
	switch to.Kind {
	case expr.Opaque:
		return from.Kind == expr.Null
	case expr.JSON:
		return from.Kind != expr.Opaque && from.Kind != expr.Bytes
	}
	return from.Kind != expr.Opaque
}

// value is the value at i as the table stores it; row is the number of the row, for errors.
func (s *setter) value(v *expr.Vec, i int32, row int) (any, error) {
	if v.T.Kind == expr.Null || v.IsNull(i) {
		return s.null()
	}
	switch {
	case v.T.Kind == expr.JSON && s.to.Kind == expr.JSON:
		return document(v.S[i])
	case v.T.Kind == expr.JSON:
		return s.ofJSON(v, i, row)
	case s.to.Kind == expr.JSON && v.T.Kind != expr.Text:
		return nil, s.noJSON()
	}
	switch v.T.Kind {
	case expr.Int, expr.Uint:
		if x, ok := s.col.Int(v.I[i], v.T.Kind == expr.Uint); ok {
			return x, nil
		}
	case expr.Text:
		if s.chars >= 0 && len(v.S[i]) <= s.chars && utf8.ValidString(v.S[i]) {
			return v.S[i], nil
		}
	case expr.Decimal:
		if d, ok := s.decimal(v, i); ok {
			return d, nil
		}
	case expr.Enum, expr.Set:
		if v.T.Same(s.to) && v.T.Kind == expr.Enum {
			return uint16(v.I[i]), nil
		} else if v.T.Same(s.to) {
			return uint64(v.I[i]), nil
		}
	}
	return s.fit(v, i, row)
}

// null is NULL as the value of the column.
func (s *setter) null() (any, error) {
	if s.col.Desc.Nullable || s.nulls == takeNull {
		return nil, nil
	}
	if s.nulls != zeroNull {
		kind := sql.ErrInsertIntoNonNullableProvidedNull.New(s.col.Desc.Name)
		return nil, coded(errNull, kind, "Column '%s' cannot be null", s.col.Desc.Name)
	}
	s.adjusted = true
	s.ctx.Warn(errNull, "Column '%s' cannot be null", s.col.Desc.Name)
	return s.zero()
}

// decimal is a DECIMAL that the column holds as it is.
func (s *setter) decimal(v *expr.Vec, i int32) (any, bool) {
	t, ok := s.col.Type.(sql.DecimalType)
	if !ok || v.D != nil || v.T.Scale != int(t.Scale()) || v.T.Precision > int(t.Precision()) {
		return nil, false
	}
	return decimal.New(v.I[i], -int32(v.T.Scale)), true
}

// convert brings a value to the type of the column as the engine does.
func (s *setter) convert(x any) (any, error) {
	out, in, err := s.col.Type.Convert(s.ctx, x)
	if err == nil && (in != sql.InRange || out == nil) {
		err = &late{"conversion of the engine"}
	}
	return out, err
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
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64:
		if a == b {
			return true, nil
		}
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
