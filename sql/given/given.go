// Package given makes constants of expressions of the values that a client sends, and of those that
// go-mysql-server keeps for a session: parameters of prepared statements, user variables, system
// variables. A value that it cannot make one of leaves the statement to that engine.
package given

import (
	"strconv"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

func left(reason string) error { return &bind.Unsupported{Reason: reason} }

// Given are the values that a statement is executed with, as constants: a text has the collation.
type Given func(coll sql.CollationID) ([]expr.Node, error)

// Params are the values of the parameters of a prepared statement.
func Params(binds map[string]*querypb.BindVariable) Given {
	return func(coll sql.CollationID) ([]expr.Node, error) {
		out := make([]expr.Node, len(binds))
		for i := range out {
			v := binds["v"+strconv.Itoa(i+1)]
			if v == nil {
				return nil, left("parameter")
			}
			var err error
			if out[i], err = paramOf(v, coll); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// Constant is a Go value of the engine as a constant.
func Constant(v any, coll sql.CollationID) (expr.Node, error) {
	switch x := v.(type) {
	case nil:
		return expr.NullConst(), nil
	case string:
		return expr.TextConst(x, coll), nil
	case bool:
		return expr.Bool(x), nil
	case float64:
		return expr.FloatConst(x), nil
	case uint64:
		return expr.UintConst(x), nil
	case decimal.Decimal:
		return expr.NumberConst(x.StringFixed(max(0, -x.Exponent())))
	}
	if n, ok := schema.ToInt64(v); ok {
		return expr.IntConst(n), nil
	}
	return nil, left("variable of another type")
}

// paramOf is the value of a parameter as a constant.
func paramOf(v *querypb.BindVariable, coll sql.CollationID) (expr.Node, error) {
	text := string(v.Value)
	switch t := v.Type; {
	case t == sqltypes.Null:
		return expr.NullConst(), nil
	case t == sqltypes.Float32 || t == sqltypes.Float64:
		n, err := expr.NumberConst(text + "e0")
		if err != nil {
			return nil, left("parameter")
		}
		return n, nil
	case sqltypes.IsIntegral(t) || t == sqltypes.Decimal:
		n, err := expr.NumberConst(text)
		if err != nil {
			return nil, left("parameter")
		}
		return n, nil
	case sqltypes.IsQuoted(t):
		return expr.TextConst(text, coll), nil
	}
	return nil, left("parameter of another type")
}
