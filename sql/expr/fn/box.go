package fn

import (
	"encoding/binary"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"

	"github.com/godwitdb/godwit/sql/expr"
	lib "github.com/godwitdb/godwit/sql/function"
)

// Functions that are not native here are those of the engine's library, called row by row.

// boxedNames are functions of the library that may be used. Others are aggregates, have effects,
// or are known to be wrong.
var boxedNames = strings.Fields(`
	bin_to_uuid compress uncompress uncompressed_length
	inet_aton inet_ntoa inet6_aton inet6_ntoa is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_uuid
	random_bytes uuid_short uuid_to_bin
	st_area st_asbinary st_aswkb st_asgeojson st_astext st_aswkt st_dimension st_distance st_endpoint st_equals
	st_geomcollfromtext st_geomcollfromtxt st_geomcollfromwkb st_geometryfromtext st_geomfromgeojson st_geomfromtext
	st_geomfromwkb st_intersects st_latitude st_length st_linefromtext st_linefromwkb st_longitude st_perimeter
	st_pointfromtext st_pointfromwkb st_polyfromtext st_polyfromwkb st_srid st_startpoint st_swapxy st_within st_x st_y
	linestring multilinestring multipoint multipolygon point polygon geomcollection`)

var volatileNames = map[string]bool{"random_bytes": true, "uuid_short": true}

var library = sync.OnceValue(func() map[string]*expr.Func {
	all := map[string]sql.Function{}
	for _, f := range function.BuiltIns {
		all[strings.ToLower(f.FunctionName())] = f
	}
	out := map[string]*expr.Func{}
	for _, n := range boxedNames {
		if f, ok := all[n]; ok {
			out[n] = boxFunc(n, f)
		}
	}
	return out
})

func init() {
	expr.Library = func(name string) *expr.Func { return library()[name] }
}

func boxFunc(name string, f sql.Function) *expr.Func {
	return &expr.Func{
		Name: name, Max: -1, Volatile: volatileNames[name],
		Derive: func(c *expr.Call) error {
			for i, a := range c.Args {
				k := a.Type().Kind
				if k == expr.Enum || k == expr.Set || name == "inet6_aton" && k != expr.Text && k != expr.Null {
					c.Args[i] = expr.CastTo(a, textOf(a.Type())) // the library would see the number, or wants a text
				}
			}
			e, err := boxExpression(sql.NewEmptyContext(), f, c.Args)
			if err != nil {
				return expr.ErrArgs(name)
			}
			c.T = expr.FromSQL(e.Type(sql.NewEmptyContext()))
			if c.T.Kind == expr.Text {
				notNull := c.T.NotNull
				c.T = expr.TextType(c.T.Length, sql.Collation_Default, expr.CoerceNumeric)
				c.T.NotNull = notNull
			}
			return nil
		},
		Eval: func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
			unboxed := func(env *expr.Env) (rowEval, error) {
				ctx := env.Box
				if ctx == nil {
					ctx = sql.NewEmptyContext()
				}
				e, err := boxExpression(ctx, f, c.Args)
				if err != nil {
					return nil, err
				}
				b := &boxed{name: name, env: env, ctx: ctx, e: e, row: make(sql.Row, len(c.Args)), limit: lib.Limits(name)}
				return b.eval, nil
			}
			run, err := unboxed(k.Env)
			if err != nil {
				return nil, err
			}
			es, err := k.Exprs(c.Args)
			if err != nil {
				return nil, err
			}
			r := expr.NewRowFunc(c.T, es, paced(k.Env, run, &call{env: k.Env, make: unboxed, long: longArgs}))
			r.Nulls, r.Env = true, k.Env
			return r, nil
		},
	}
}

// boxExpression is a call of the library over columns of the types of the arguments.
func boxExpression(ctx *sql.Context, f sql.Function, args []expr.Node) (sql.Expression, error) {
	var es []sql.Expression
	for i, a := range args {
		t := a.Type()
		if k, ok := a.(*expr.Const); ok {
			one := expr.Vec{}
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
	name string
	env  *expr.Env
	ctx  *sql.Context
	e    sql.Expression
	row  sql.Row
	// limit is that of its arguments; nil: there is none.
	limit *lib.Limit
}

func (b *boxed) eval(a []*expr.Vec, i int32, v *expr.Vec) error {
	for k, x := range a {
		b.row[k] = x.Boxed(i)
		if b.limit != nil && b.limit.Of(k) && b.limit.Over(b.row[k]) {
			return lib.ErrTooLong(b.name, b.limit.Most)
		}
	}
	if f := growing[b.name]; f != nil {
		n, err := f(b)
		if err != nil {
			return err
		}
		if !b.env.Fits(b.name, n) {
			v.SetNull(int(i))
			return nil
		}
	}
	x, err := b.e.Eval(b.ctx, b.row)
	if err != nil {
		return err
	}
	return v.Unbox(b.ctx, int(i), x)
}

// growing are the functions of the library whose results may be much larger than their arguments.
// Each says how many bytes the result of the row would have, without making it.
var growing = map[string]func(*boxed) (int, error){
	"uncompress": uncompressed,
}

// uncompressed is what the first four bytes of compressed data say.
func uncompressed(b *boxed) (int, error) {
	s, _ := b.row[0].([]byte)
	if t, ok := b.row[0].(string); ok {
		s = []byte(t[:min(len(t), 4)])
	}
	if len(s) < 4 {
		return 0, nil
	}
	return int(binary.LittleEndian.Uint32(s)), nil
}

// short is the error of an argument of a function that is longer than it may be.
func short(name string, arg int, v string) error {
	if l := lib.Limits(name); l != nil && l.Of(arg) && l.Over(v) {
		return lib.ErrTooLong(name, l.Most)
	}
	return nil
}
