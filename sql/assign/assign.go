package assign

import (
	"bytes"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// Late says why a statement that has already read is left to the engine: it has changed nothing
// yet.
type Late struct{ Reason string }

// Error implements error.
func (l *Late) Error() string { return "left to the engine: " + l.Reason }

// Setter converts the values of one column to those that the table stores.
type Setter struct {
	ctx     *sql.Context
	env     *expr.Env
	Pos, At int // in the table, and in the batches
	Col     *schema.Column
	To      expr.Type
	from    expr.Type
	Strict  bool // what the column cannot hold as it is, is an error
	Derived bool
	Missing bool // DEFAULT of a column that has none
	Read    bool // something else of the statement uses the value as it is before it is made to fit
	// Nulls says what NULL is for a column that is NOT NULL.
	Nulls NullRule
	// chars is the length of a text column whose values need nothing but a look at theirs; -1: they
	// need more. utf8: the column holds all characters.
	chars int
	utf8  bool
	// Adjusted: a value was not stored as it was.
	Adjusted bool
	// v and i are the value at hand.
	v *expr.Vec
	i int32
}

// NullRule says what becomes of NULL.
type NullRule uint8

// The rules for NULL.
const (
	RefuseNull NullRule = iota // error 1048
	ZeroNull                   // a zero, and a warning
	TakeNull                   // stays NULL: the counter or a trigger gives a value later
)

// New makes a setter for a column. It refuses pairs of types whose conversion is not known to be
// MySQL's.
func New(ctx *sql.Context, env *expr.Env, c *schema.Column, from expr.Type) (*Setter, error) {
	s := &Setter{ctx: ctx, env: env, Col: c, from: from, To: expr.FromSQL(c.Type), chars: -1}
	if s.To.Kind == expr.Duration {
		s.To.Scale = c.Digits
	}
	if !convertible(from, s.To) {
		return nil, left("assignment of " + from.Kind.String() + " to " + s.To.Kind.String())
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

// Value is the value at i as the table stores it; row is the number of the row, for errors.
func (s *Setter) Value(v *expr.Vec, i int32, row int) (any, error) {
	if v.T.Kind == expr.Null || v.IsNull(i) {
		return s.Null()
	}
	switch {
	case v.T.Kind == expr.JSON && s.To.Kind == expr.JSON:
		return Document(v.S[i])
	case v.T.Kind == expr.JSON:
		return s.ofJSON(v, i, row)
	case s.To.Kind == expr.JSON && v.T.Kind != expr.Text:
		return nil, s.noJSON()
	}
	switch v.T.Kind {
	case expr.Int, expr.Uint:
		if x, ok := s.Col.Int(v.I[i], v.T.Kind == expr.Uint); ok {
			return x, nil
		}
	case expr.Text:
		if n, ok := digits(v.S[i]); ok && (s.To.Kind == expr.Int || s.To.Kind == expr.Uint) {
			if x, ok := s.Col.Int(n, false); ok {
				return x, nil
			}
		}
		if s.chars >= 0 && len(v.S[i]) <= s.chars && utf8.ValidString(v.S[i]) {
			return v.S[i], nil
		}
	case expr.Decimal:
		if d, ok := s.decimal(v, i); ok {
			return d, nil
		}
	case expr.Enum, expr.Set:
		if v.T.Same(s.To) && v.T.Kind == expr.Enum {
			return uint16(v.I[i]), nil
		} else if v.T.Same(s.To) {
			return uint64(v.I[i]), nil
		}
	}
	return s.fit(v, i, row)
}

// digits is a number that is nothing but digits, and a sign.
func digits(text string) (n int64, ok bool) {
	const most = 18 // digits, that any int64 has
	d := text
	if d != "" && d[0] == '-' {
		d = d[1:]
	}
	if len(d) == 0 || len(d) > most {
		return 0, false
	}
	for _, c := range []byte(d) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if len(d) < len(text) {
		n = -n
	}
	return n, true
}

// Null is NULL as the value of the column.
func (s *Setter) Null() (any, error) {
	if s.Col.Desc.Nullable || s.Nulls == TakeNull {
		return nil, nil
	}
	if s.Nulls != ZeroNull {
		kind := sql.ErrInsertIntoNonNullableProvidedNull.New(s.Col.Desc.Name)
		return nil, Coded(ErrNull, kind, "Column '%s' cannot be null", s.Col.Desc.Name)
	}
	s.Adjusted = true
	s.ctx.Warn(ErrNull, "Column '%s' cannot be null", s.Col.Desc.Name)
	return s.Zero()
}

// decimal is a DECIMAL that the column holds as it is.
func (s *Setter) decimal(v *expr.Vec, i int32) (any, bool) {
	t, ok := s.Col.Type.(sql.DecimalType)
	if !ok || v.D != nil || v.T.Scale != int(t.Scale()) || v.T.Precision > int(t.Precision()) {
		return nil, false
	}
	return decimal.New(v.I[i], -int32(v.T.Scale)), true
}

// convert brings a value to the type of the column as the engine does.
func (s *Setter) convert(x any) (any, error) {
	out, in, err := s.Col.Type.Convert(s.ctx, x)
	if err == nil && (in != sql.InRange || out == nil) {
		err = &Late{"conversion of the engine"}
	}
	return out, err
}

// SameRow reports whether two rows of a table have the same values in what is stored of them.
func SameRow(ctx *sql.Context, t *schema.Table, a, b sql.Row) (bool, error) {
	for i, c := range t.Cols {
		if c.Desc.Virtual {
			continue
		}
		if same, err := Same(ctx, c, a[i], b[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// Same reports whether two values of a column are the same one, and not only equal by a collation.
func Same(ctx *sql.Context, c *schema.Column, a, b any) (bool, error) {
	if a == nil || b == nil {
		return a == nil && b == nil, nil
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x == y, nil
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64: // a zero has no sign
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

// Violated is the error of a condition that a row does not fulfil: of a CHECK constraint, or of a
// view WITH CHECK OPTION.
func Violated(name string, view bool) error {
	if view {
		return mysql.NewSQLError(ErrViewCheck, "HY000", "CHECK OPTION failed '%s'", name)
	}
	return Coded(ErrCheck, sql.ErrCheckConstraintViolated.New(name), "Check constraint '%s' is violated.", name)
}

// IsLate reports whether err leaves the statement to the engine although it has read, and why.
func IsLate(err error) (reason string, ok bool) {
	var l *Late
	if errors.As(err, &l) {
		return l.Reason, true
	}
	return "", false
}

// NoDefault is what is to be said of a column that gets no value and has no default. That of an
// ENUM is its first member.
func (s *Setter) NoDefault() error {
	if s.To.Kind == expr.Enum {
		return nil
	}
	kind := sql.ErrInsertIntoNonNullableDefaultNullColumn.New(s.Col.Desc.Name)
	return s.wrong(ErrNoDefault, kind, "Field '%s' doesn't have a default value", s.Col.Desc.Name)
}

// ByDefault is DEFAULT of a column that has none.
func (s *Setter) ByDefault() (any, error) {
	if err := s.NoDefault(); err != nil {
		return nil, err
	}
	return s.Zero()
}

func left(reason string) error { return &bind.Unsupported{Reason: reason} }
