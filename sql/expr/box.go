package expr

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// Functions that are not native here are those of the engine's library, called row by row.

// boxedNames are functions of the library that may be used. Others are aggregates, have effects,
// or are known to be wrong.
var boxedNames = strings.Fields(`
	aes_decrypt aes_encrypt bin_to_uuid compress uncompress uncompressed_length format
	inet_aton inet_ntoa inet6_aton inet6_ntoa is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_uuid
	random_bytes regexp_instr regexp_like regexp_replace regexp_substr statement_digest uuid uuid_short uuid_to_bin
	st_area st_asbinary st_aswkb st_asgeojson st_astext st_aswkt st_dimension st_distance st_endpoint st_equals
	st_geomcollfromtext st_geomcollfromtxt st_geomcollfromwkb st_geometryfromtext st_geomfromgeojson st_geomfromtext
	st_geomfromwkb st_intersects st_latitude st_length st_linefromtext st_linefromwkb st_longitude st_perimeter
	st_pointfromtext st_pointfromwkb st_polyfromtext st_polyfromwkb st_srid st_startpoint st_swapxy st_within st_x st_y
	linestring multilinestring multipoint multipolygon point polygon geomcollection`)

var volatileNames = map[string]bool{"random_bytes": true, "uuid": true, "uuid_short": true}

var library = sync.OnceValue(func() map[string]*Func {
	all := map[string]sql.Function{}
	for _, f := range function.BuiltIns {
		all[strings.ToLower(f.FunctionName())] = f
	}
	out := map[string]*Func{}
	for _, n := range boxedNames {
		if f, ok := all[n]; ok {
			out[n] = boxFunc(n, f)
		}
	}
	return out
})

// boxedFunc finds a function of the library.
func boxedFunc(name string) *Func { return library()[name] }

func boxFunc(name string, f sql.Function) *Func {
	return &Func{
		Name: name, Max: -1, Volatile: volatileNames[name],
		derive: func(c *Call) error {
			e, err := boxExpression(sql.NewEmptyContext(), f, c.Args)
			if err != nil {
				return errArgs(name)
			}
			c.T = fromSQL(e.Type(sql.NewEmptyContext()))
			if c.T.Kind == Opaque {
				c.T.SQL = e.Type(sql.NewEmptyContext())
			}
			return nil
		},
		eval: func(c *Call, k *compiler) (Expr, error) {
			ctx := k.env.Box
			if ctx == nil {
				ctx = sql.NewEmptyContext()
			}
			e, err := boxExpression(ctx, f, c.Args)
			if err != nil {
				return nil, err
			}
			es, err := k.exprs(c.Args)
			if err != nil {
				return nil, err
			}
			b := &boxed{ctx: ctx, e: e, row: make(sql.Row, len(es)), from: fromSQL(e.Type(ctx)), to: c.T, env: k.env}
			r := newRowFunc(c.T, es, b.eval)
			r.nulls = true
			return r, nil
		},
	}
}

// boxExpression is a call of the library over columns of the types of the arguments.
func boxExpression(ctx *sql.Context, f sql.Function, args []Node) (sql.Expression, error) {
	var es []sql.Expression
	for i, a := range args {
		t := a.Type()
		if k, ok := a.(*Const); ok {
			one := Vec{}
			one.Reset(t, 1)
			one.Put(0, k.V)
			es = append(es, expression.NewLiteral(one.Boxed(0), t.ClientType()))
			continue
		}
		es = append(es, expression.NewGetField(i, t.ClientType(), "", !t.NotNull))
	}
	return f.NewInstance(ctx, es)
}

type boxed struct {
	ctx  *sql.Context
	e    sql.Expression
	row  sql.Row
	from Type
	to   Type
	env  *Env
}

func (b *boxed) eval(a []*Vec, i int32, v *Vec) error {
	for k, x := range a {
		b.row[k] = x.Boxed(i)
	}
	x, err := b.e.Eval(b.ctx, b.row)
	if err != nil {
		return err
	}
	return v.Unbox(b.ctx, int(i), x)
}

// Boxed is the value at i as the engine holds it; a TIMESTAMP is in UTC.
func (v *Vec) Boxed(i int32) any {
	if v.IsNull(i) || v.T.Kind == Null {
		return nil
	}
	switch v.T.Kind {
	case Int:
		return v.I[i]
	case Uint, Bit, Set:
		return uint64(v.I[i])
	case Enum:
		return uint16(v.I[i])
	case Year:
		return int16(v.I[i])
	case Decimal:
		var t apd.Decimal
		d, err := decimal.NewFromString(v.Dec(i, &t).Text('f'))
		if err != nil {
			return nil
		}
		return d
	case Float:
		if v.T.Precision == 24 {
			return float32(v.F[i])
		}
		return v.F[i]
	case Text:
		return v.S[i]
	case Bytes:
		return []byte(v.S[i])
	case JSON:
		return types.NewLazyJSONDocument([]byte(v.S[i]))
	case Date, Datetime, Timestamp:
		return calendar.ToGo(v.I[i], time.UTC)
	case Duration:
		return types.Timespan(v.I[i])
	}
	return v.A[i]
}

// Unbox stores a value of the engine at i, converted to the vector's type.
func (v *Vec) Unbox(ctx *sql.Context, i int, x any) error {
	x, err := sql.UnwrapAny(ctx, x)
	if err != nil {
		return err
	}
	if x == nil {
		v.SetNull(i)
		return nil
	}
	if v.T.Kind == Opaque {
		v.A[i] = x
		return nil
	}
	k, t, err := unboxed(ctx, x)
	if err != nil {
		return err
	}
	c := &caster{from: t, to: v.T, env: &Env{}}
	var one Vec
	one.Reset(t, i+1)
	one.Put(i, k)
	return c.function()(&one, int32(i), v)
}

// unboxed is a value of the engine with the type that suits it.
func unboxed(ctx *sql.Context, x any) (Value, Type, error) {
	switch x := x.(type) {
	case bool:
		return Value{Kind: Int, I: truthInt(x)}, TypeInt, nil
	case int8, int16, int32, int64, int:
		n, _, err := types.Int64.Convert(ctx, x)
		if err != nil {
			return Value{}, TypeNull, err
		}
		return Value{Kind: Int, I: n.(int64)}, TypeInt, nil
	case uint8, uint16, uint32, uint64, uint:
		n, _, err := types.Uint64.Convert(ctx, x)
		if err != nil {
			return Value{}, TypeNull, err
		}
		return Value{Kind: Uint, I: int64(n.(uint64))}, TypeUint, nil
	case float32:
		return Value{Kind: Float, F: float64(x)}, TypeFloat, nil
	case float64:
		return Value{Kind: Float, F: x}, TypeFloat, nil
	case decimal.Decimal:
		d, _, err := apd.NewFromString(x.String())
		if err != nil {
			return Value{}, TypeNull, err
		}
		return Value{Kind: Decimal, D: d}, DecimalType(MaxPrecision, max(int(-d.Exponent), 0)), nil
	case string:
		return Value{Kind: Text, S: x}, TextType(0, sql.Collation_Default, CoerceImplicit), nil
	case []byte:
		return Value{Kind: Bytes, S: string(x)}, TypeBinary, nil
	case time.Time:
		return Value{Kind: Datetime, I: calendar.FromGo(x)}, DatetimeType(6), nil
	case types.Timespan:
		return Value{Kind: Duration, I: int64(x)}, TimeType(6), nil
	case sql.JSONWrapper:
		s, err := types.JsonToMySqlString(ctx, x)
		return Value{Kind: JSON, S: s}, TypeJSON, err
	}
	return Value{}, TypeNull, fmt.Errorf("expr: a value %T of the engine", x)
}
