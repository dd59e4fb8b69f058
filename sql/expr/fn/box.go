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
	aes_decrypt aes_encrypt bin_to_uuid compress uncompress uncompressed_length
	inet_aton inet_ntoa inet6_aton inet6_ntoa is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_uuid
	random_bytes regexp_instr regexp_like regexp_replace regexp_substr statement_digest uuid_short uuid_to_bin
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
				if k := a.Type().Kind; k == expr.Enum || k == expr.Set {
					c.Args[i] = expr.CastTo(a, textOf(a.Type())) // the library would see the number
				}
			}
			if strings.HasPrefix(name, "regexp_") && len(c.Args) > 1 {
				if err := collateBoth(c); err != nil {
					return err
				}
			}
			e, err := boxExpression(sql.NewEmptyContext(), f, c.Args)
			if err != nil {
				return expr.ErrArgs(name)
			}
			c.T = expr.FromSQL(e.Type(sql.NewEmptyContext()))
			if c.T.Kind == expr.Text && !strings.HasPrefix(name, "regexp_") {
				notNull := c.T.NotNull
				c.T = expr.TextType(c.T.Length, sql.Collation_Default, expr.CoerceNumeric)
				c.T.NotNull = notNull
			}
			return nil
		},
		Eval: func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
			ctx := k.Env.Box
			if ctx == nil {
				ctx = sql.NewEmptyContext()
			}
			e, err := boxExpression(ctx, f, c.Args)
			if err != nil {
				return nil, err
			}
			es, err := k.Exprs(c.Args)
			if err != nil {
				return nil, err
			}
			b := &boxed{name: name, env: k.Env, ctx: ctx, e: e, row: make(sql.Row, len(es)), limit: lib.Limits(name)}
			r := expr.NewRowFunc(c.T, es, paced(k.Env, b.eval))
			r.Nulls, r.Env = true, k.Env
			return r, nil
		},
	}
}

// collateBoth gives the text and the pattern of a regular expression one collation: it says whether
// case matters.
func collateBoth(c *expr.Call) error {
	m, err := expr.MergeCollations("regexp", true, c.Args[:2]...)
	if err != nil {
		return err
	}
	for i, a := range c.Args[:2] {
		t := a.Type()
		if t.Kind != expr.Text || t.Coll == m.Id && t.Coercibility == m.Coerce {
			continue
		}
		t.Coll, t.Coercibility = m.Id, m.Coerce
		if k, ok := a.(*expr.Const); ok {
			c.Args[i] = &expr.Const{V: k.V, T: t} // the library compiles a constant pattern once
		} else {
			c.Args[i] = expr.CastTo(a, t)
		}
	}
	return nil
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
	if len(a) > 1 {
		if err := lib.TooMuch(b.name, b.row[0], b.row[1]); err != nil {
			return err
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
	"uncompress":     uncompressed,
	"regexp_replace": replaced,
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

// replaced bounds the result of REGEXP_REPLACE. Where the replacement may be put in at every place
// of a long string, the matches are counted: each makes a result with a replacement of one byte one
// byte longer than one without.
func replaced(b *boxed) (int, error) {
	s, r := textLen(b.row[0]), textLen(b.row[2])
	if most := (s+1)*(r+1) + s; most <= b.env.PacketLimit() {
		return most, nil
	}
	given := b.row[2]
	defer func() { b.row[2] = given }()
	var lens [2]int
	for k, with := range []string{"", "x"} {
		b.row[2] = with
		x, err := b.e.Eval(b.ctx, b.row)
		if err != nil || x == nil {
			return 0, err
		}
		lens[k] = textLen(x)
	}
	groups := 0 // each may put a part of the string in
	if t, ok := given.(string); ok {
		groups = strings.Count(t, "$")
	}
	return lens[0] + (lens[1]-lens[0])*r + groups*s, nil
}

func textLen(x any) int {
	switch x := x.(type) {
	case string:
		return len(x)
	case []byte:
		return len(x)
	}
	return 0
}

// short is the error of an argument of a function that is longer than it may be.
func short(name string, arg int, v string) error {
	if l := lib.Limits(name); l != nil && l.Of(arg) && l.Over(v) {
		return lib.ErrTooLong(name, l.Most)
	}
	return nil
}
