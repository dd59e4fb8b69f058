package lent

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	builtin "github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/expr"
	_ "github.com/godwitdb/godwit/sql/expr/fn" // registers the functions that are lent
	"github.com/godwitdb/godwit/sql/function"
)

// ours are functions that our engine computes.
var ours = strings.Fields(`concat concat_ws find_in_set format hex insert quote regexp_instr regexp_like
	regexp_replace regexp_substr repeat replace space to_base64`)

// theirs are functions of the engine whose results are counted, and which run aside where their
// arguments are long.
var theirs = strings.Fields(`ascii bit_length char char_length character_length compress crc32 elt export_set field from_base64
	instr json_array json_array_append json_array_insert json_depth json_insert json_keys json_length json_merge
	json_merge_patch json_merge_preserve json_object json_overlaps json_pretty json_quote json_remove json_replace
	json_set json_unquote json_valid lcase left length locate lower lpad ltrim make_set md5
	mid octet_length ord reverse right rpad rtrim sha sha1 sha2 soundex strcmp substr substring
	substring_index ucase uncompress uncompressed_length unhex upper`)

// Functions are the functions that the engine uses in place of its own, by names in lower case.
func Functions() map[string]sql.Function {
	engine := map[string]sql.Function{}
	for _, f := range builtin.BuiltIns {
		engine[strings.ToLower(f.FunctionName())] = f
	}
	out := map[string]sql.Function{}
	for _, name := range append(ours, theirs...) {
		f, ok := function.Lookup(name)
		if !ok {
			f, ok = engine[name]
		}
		if ok {
			out[name] = sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
				return of(ctx, name, f, args)
			}}
		}
	}
	return out
}

func of(ctx *sql.Context, name string, f sql.Function, args []sql.Expression) (sql.Expression, error) {
	if !slices.Contains(ours, name) {
		call, as := bound.NewCall(args)
		e, err := f.NewInstance(ctx, as)
		if err != nil {
			return nil, err
		}
		return &counted{Expression: e, name: name, call: call}, nil
	}
	e, err := f.NewInstance(ctx, args)
	if err != nil {
		return nil, err
	}
	return lend(name, e), nil
}

func init() { bound.Lend = lend }

func lend(name string, e sql.Expression) sql.Expression {
	return &lent{counted: &counted{Expression: e, name: name}}
}

// counted is a call of a function of the engine, whose result counts to the statement until the
// next one is made.
type counted struct {
	sql.Expression
	name string
	call *bound.Call // nil: our engine computes it
	kept atomic.Bool
}

// FunctionName implements sql.FunctionExpression.
func (c *counted) FunctionName() string { return c.name }

// Description implements sql.FunctionExpression.
func (c *counted) Description() string { return "" }

// CollationCoercibility implements sql.CollationCoercible.
func (c *counted) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, c.Expression)
}

// WithChildren implements sql.Expression.
func (c *counted) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	call, children := bound.NewCall(children)
	e, err := c.Expression.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &counted{Expression: e, name: c.name, call: call}, nil
}

// DebugString implements sql.DebugStringer.
func (c *counted) DebugString(ctx *sql.Context) string { return sql.DebugString(ctx, c.Expression) }

// Eval implements sql.Expression.
func (c *counted) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	defer c.call.Begin()()
	if ok, err := c.padded(ctx, row); err != nil || !ok {
		return nil, err
	}
	v, err := c.call.Eval(ctx, c.Expression, row)
	if err != nil {
		return nil, err
	}
	return c.result(ctx, v)
}

// padded reports whether LPAD or RPAD may make as long a text as it is told to.
func (c *counted) padded(ctx *sql.Context, row sql.Row) (bool, error) {
	children := c.Children()
	if c.name != "lpad" && c.name != "rpad" || len(children) < 2 {
		return true, nil
	}
	v, err := children[1].Eval(ctx, row)
	if err != nil || v == nil {
		return true, err
	}
	if v, _, err = types.Int64.Convert(ctx, v); err != nil {
		return true, nil // the engine words the error
	}
	return v.(int64) < 0 || env(ctx).Fits(c.name, int(v.(int64))), nil
}

// env has the limit of results, and takes warnings.
func env(ctx *sql.Context) *expr.Env {
	return &expr.Env{MaxPacket: packet(ctx), Warn: func(code int, msg string) { ctx.Warn(code, "%s", msg) }}
}

// result counts a result; it is NULL if it is too long.
func (c *counted) result(ctx *sql.Context, v any) (any, error) {
	e := env(ctx)
	n := bound.Size(v, e.PacketLimit())
	if !e.Fits(c.name, n) {
		return nil, nil
	}
	if n < bound.Large && !c.kept.Load() {
		return v, nil
	}
	c.kept.Store(n >= bound.Large)
	return v, bound.Keep(ctx, c, int64(n))
}

func packet(ctx *sql.Context) int {
	v, err := ctx.GetSessionVariable(ctx, "max_allowed_packet")
	if err != nil {
		return 0
	}
	n, _, err := types.Int64.Convert(ctx, v)
	if err != nil {
		return 0
	}
	return int(n.(int64))
}

// lent is a call that our engine computes. The engine's expression says of which type it is.
type lent struct {
	*counted
	plan atomic.Pointer[plan] // one that nobody uses
}

// plan is a call that was compiled for arguments of some types.
type plan struct {
	types []expr.Type
	args  []*expr.Vec
	env   *expr.Env
	e     expr.Expr
}

// WithChildren implements sql.Expression.
func (l *lent) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := l.Expression.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &lent{counted: &counted{Expression: e, name: l.name}}, nil
}

// Eval implements sql.Expression.
func (l *lent) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	if ctx.Err() != nil {
		return nil, bound.Interrupted(context.Cause(ctx))
	}
	hold := bound.Holding(ctx)
	defer hold.Back()
	children := l.Children()
	vals, ts := make([]expr.Value, len(children)), make([]expr.Type, len(children))
	for i, e := range children {
		v, err := e.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		if err := bound.Take(hold, e, v); err != nil {
			return nil, err
		}
		if vals[i], ts[i], err = value(ctx, e, v); err != nil {
			return nil, err
		}
	}
	p := l.plan.Swap(nil)
	if p == nil || !same(p.types, ts) {
		var err error
		if p, err = l.compile(ts); err != nil {
			return nil, err
		}
	}
	for i, v := range vals {
		p.args[i].Reset(ts[i], 1)
		p.args[i].Put(0, v)
	}
	p.env.Ctx, p.env.MaxPacket = ctx, packet(ctx)
	p.env.Warn = func(code int, msg string) { ctx.Warn(code, "%s", msg) }
	out, err := p.e.Eval(&expr.Batch{N: 1, Cols: p.args}, expr.All(1))
	if err != nil {
		return nil, bound.Interrupted(err)
	}
	v := out.Boxed(0)
	l.plan.Store(p)
	if v == nil {
		return nil, nil
	}
	t := l.Type(ctx)
	if _, is := v.(string); is && types.IsTextOnly(t) {
		return l.result(ctx, v) // the engine's type may be one of short texts
	}
	if v, _, err = t.Convert(ctx, v); err != nil {
		return nil, err
	}
	return l.result(ctx, v)
}

func same(a, b []expr.Type) bool {
	for i, x := range a {
		y := b[i]
		if x.Kind != y.Kind || x.Coll != y.Coll || x.Coercibility != y.Coercibility || x.Scale != y.Scale {
			return false
		}
	}
	return true
}

func (l *lent) compile(ts []expr.Type) (*plan, error) {
	p := &plan{types: ts, env: &expr.Env{}}
	args, layout := make([]expr.Node, len(ts)), make([]expr.ColID, len(ts))
	for i, t := range ts {
		layout[i] = expr.ColID(i + 1)
		args[i] = &expr.Col{ID: layout[i], T: t}
		p.args = append(p.args, &expr.Vec{})
	}
	n, err := expr.NewCall(expr.Lookup(l.name), args...)
	if err != nil {
		return nil, err
	}
	p.e, err = expr.Compile(n, layout, p.env)
	return p, err
}

// value is a value of the engine as our engine has it. What is no text or number there becomes a
// text, as its type writes it.
func value(ctx *sql.Context, e sql.Expression, v any) (expr.Value, expr.Type, error) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return expr.Value{}, expr.TypeNull, err
	}
	t := e.Type(ctx)
	switch x := v.(type) {
	case nil:
		return expr.Value{}, expr.TypeNull, nil
	case string, []byte, float32, float64, sql.JSONWrapper:
	case decimal.Decimal:
		if d, ok := t.(sql.DecimalType); ok {
			n, _, err := apd.NewFromString(x.StringFixed(int32(d.Scale())))
			return expr.Value{Kind: expr.Decimal, D: n}, expr.DecimalType(expr.MaxPrecision, int(d.Scale())), err
		}
	case time.Time, types.Timespan:
		v, _, err = types.ConvertToCollatedString(ctx, v, t)
	default:
		if types.IsEnum(t) || types.IsSet(t) || types.IsGeometry(t) {
			v, _, err = types.ConvertToCollatedString(ctx, v, t)
		}
	}
	if err != nil {
		return expr.Value{}, expr.TypeNull, err
	}
	val, typ, err := expr.Unboxed(ctx, v)
	if err == nil && typ.Kind == expr.Text {
		coll, coercibility := sql.GetCoercibility(ctx, e)
		if coll != sql.Collation_binary {
			typ = expr.TextType(0, coll, coercibility)
		}
	}
	return val, typ, err
}
