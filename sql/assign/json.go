package assign

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
)

// A JSON document of an expression is text. What that does not tell is which of its numbers are
// decimals: those that a double would not be shown as.

// Document is a JSON value as a JSON column stores it.
func Document(text string) (any, error) {
	d, err := jsondoc.Read(text)
	if err != nil {
		return nil, err
	}
	return types.JSONDocument{Val: plain(d)}, nil
}

func plain(v any) any {
	switch v := v.(type) {
	case jsondoc.Num:
		f, err := strconv.ParseFloat(string(v), 64)
		if err == nil && (jsondoc.FloatNum(f) == v || strings.ContainsAny(string(v), "eE")) {
			return f
		}
		if d, err := decimal.NewFromString(string(v)); err == nil {
			return d
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case *jsondoc.Object:
		out := make(map[string]any, len(v.Keys))
		for i, k := range v.Keys {
			out[k] = plain(v.Vals[i])
		}
		return out
	}
	return v
}

// ofJSON is a JSON value as a column of another type has it: a string as its text, a truth value as
// a number. Arrays and objects are texts only.
func (s *Setter) ofJSON(v *expr.Vec, i int32, row int) (any, error) {
	text := v.S[i]
	one := &expr.Vec{}
	one.Reset(expr.TextType(0, s.env.Box.GetCollation(), expr.CoerceImplicit), 1)
	one.S[0] = text
	if s.To.Stringy() {
		return s.fit(one, 0, row)
	}
	d, err := jsondoc.Read(text)
	if err != nil {
		return nil, err
	}
	switch d := d.(type) {
	case string:
		one.S[0] = d
	case bool:
		one.S[0] = "0"
		if d {
			one.S[0] = "1"
		}
	case nil, []any, *jsondoc.Object:
		s.Adjusted = true
		me := mysql.NewSQLError(3156, "22018", "Invalid JSON value for CAST to %s from column %s at row %d", s.To.Kind,
			s.Col.Desc.Name, row)
		if s.Strict {
			return nil, me
		}
		s.ctx.Warn(me.Num, "%s", me.Message)
		return s.Zero()
	}
	return s.fit(one, 0, row)
}

// noJSON is the error of a value that is neither a text nor JSON for a column of JSON.
func (s *Setter) noJSON() error {
	return mysql.NewSQLError(3140, "22032", "Invalid JSON text: \"not a JSON text, may need CAST\" at position 0 in value for "+
		"column '%s'.", s.Col.Desc.Name)
}
