package query

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
)

// EngineFunction is a stored function as the engine calls it, in statements that only it runs and
// in those that it only binds (views that are made, statements that are prepared). A name may have
// that of a database before it.
func (r *Runner) EngineFunction(ctx *sql.Context, name string) (sql.Function, bool) {
	s := session.Of(ctx)
	db, rest, qualified := strings.Cut(name, ".")
	if !qualified {
		db, rest = ctx.GetCurrentDatabase(), name
	}
	if s == nil || db == "" {
		return nil, false
	}
	o, err := s.Function(ctx, db, rest)
	if err != nil || o == nil {
		return nil, false
	}
	st := &statement{r: r, s: s, ctx: ctx, mem: r.Budget()}
	if _, err := st.function(o, nil); err != nil {
		return nil, false
	}
	f := st.calls.known[o.Function]
	return sql.FunctionN{Name: name, Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		if err := f.counts(len(args)); err != nil {
			return nil, err
		}
		return &engineCall{NaryExpression: expression.NaryExpression{ChildExpressions: args}, st: st, f: f}, nil
	}}, true
}

// engineCall is a call of a stored function in the engine.
type engineCall struct {
	expression.NaryExpression
	st      *statement
	f       *stored
	allowed bool
}

var (
	_ sql.FunctionExpression         = (*engineCall)(nil)
	_ sql.NonDeterministicExpression = (*engineCall)(nil)
	_ sql.CollationCoercible         = (*engineCall)(nil)
)

// FunctionName implements sql.FunctionExpression.
func (c *engineCall) FunctionName() string { return c.f.fn.Name }

// Description implements sql.FunctionExpression.
func (c *engineCall) Description() string { return "is a stored function." }

// IsNonDeterministic implements sql.NonDeterministicExpression.
func (c *engineCall) IsNonDeterministic() bool { return true }

// String implements sql.Expression.
func (c *engineCall) String() string {
	args := make([]string, len(c.ChildExpressions))
	for i, a := range c.ChildExpressions {
		args[i] = a.String()
	}
	return c.f.fn.Name + "(" + strings.Join(args, ",") + ")"
}

// Type implements sql.Expression.
func (c *engineCall) Type(*sql.Context) sql.Type {
	call := &expr.Call{Fn: c.f.fn, Args: make([]expr.Node, len(c.f.prog.Params))}
	_ = c.f.fn.Derive(call) // the number of arguments is right
	return call.T.ClientType()
}

// IsNullable implements sql.Expression.
func (c *engineCall) IsNullable(*sql.Context) bool { return true }

// WithChildren implements sql.Expression.
func (c *engineCall) WithChildren(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	own := *c
	own.ChildExpressions = args
	return &own, nil
}

// Eval implements sql.Expression.
func (c *engineCall) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	o := c.f.o
	if !c.allowed {
		if err := rights.MayCall(ctx, c.st.r.Engine.Analyzer.Catalog.MySQLDb, o.DB, o.Name, false); err != nil {
			return nil, err
		}
		c.allowed = true
	}
	values := make([]program.Value, len(c.ChildExpressions))
	for i, a := range c.ChildExpressions {
		x, err := a.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		t := expr.FromSQL(a.Type(ctx))
		var v expr.Vec
		v.Reset(t, 1)
		if err := v.Unbox(ctx, 0, x); err != nil {
			return nil, err
		}
		values[i] = program.Value{V: v.At(0), T: t}
	}
	c.st.ctx, c.st.calls.running = ctx, true
	x, err := c.st.call(c.f, values)
	c.st.calls.close()
	if err != nil {
		return nil, engineError(err)
	}
	var out expr.Vec
	out.Reset(x.T, 1)
	out.Put(0, x.V)
	enc := &result.Encoder{Ctx: ctx}
	return enc.Box(&out, 0, x.T)
}

// CollationCoercibility implements sql.CollationCoercible.
func (c *engineCall) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	if t, ok := c.Type(ctx).(sql.StringType); ok {
		return t.Collation(), expr.CoerceLiteral
	}
	return sql.Collation_binary, expr.CoerceNumeric
}
