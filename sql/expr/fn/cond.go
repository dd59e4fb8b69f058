package fn

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/collate"
)

// merged derives a function whose value is one of its arguments from the given one on.
func merged(from int) func(c *expr.Call) error {
	return func(c *expr.Call) error {
		t, err := expr.Merge(c.Fn.Name, c.Args[from:]...)
		if err != nil {
			return err
		}
		for i := from; i < len(c.Args); i++ {
			c.Args[i] = expr.CastTo(c.Args[i], t)
		}
		c.T = t
		return nil
	}
}

func init() {
	expr.Register(
		&expr.Func{Name: "if", Min: 3, Max: 3, Derive: merged(1), Eval: func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
			return k.CaseOf(&expr.Case{Whens: c.Args[:1], Thens: c.Args[1:2], Else: c.Args[2], T: c.T})
		}},
		&expr.Func{Name: "coalesce", Min: 1, Max: -1, Derive: deriveCoalesce, Eval: evalCoalesce},
		&expr.Func{Name: "ifnull", Min: 2, Max: 2, Derive: deriveCoalesce, Eval: evalCoalesce},
		&expr.Func{Name: "nullif", Min: 2, Max: 2, Derive: deriveNullIf, Eval: evalNullIf, Post: caseOfNullIf},
		&expr.Func{Name: "greatest", Min: 2, Max: -1, Derive: deriveExtreme, Eval: evalExtreme(1)},
		&expr.Func{Name: "least", Min: 2, Max: -1, Derive: deriveExtreme, Eval: evalExtreme(-1)},
		&expr.Func{Name: "collate", Min: 2, Max: 2, Derive: deriveCollate, Eval: evalFirst},
		// ANY_VALUE is its argument: what it does is done by who binds GROUP BY.
		&expr.Func{Name: "any_value", Min: 1, Max: 1, Derive: func(c *expr.Call) error { c.T = c.Args[0].Type(); return nil }, Eval: evalFirst},
		&expr.Func{Name: "binary", Min: 1, Max: 1, Derive: func(c *expr.Call) error {
			c.Args[0] = expr.CastTo(c.Args[0], expr.TextType(0, sql.Collation_binary, expr.CoerceImplicit))
			c.T = c.Args[0].Type()
			return nil
		}, Eval: evalFirst},
	)
	like := &expr.Func{Name: "like", Min: 2, Max: 3, Derive: deriveLike}
	like.Eval = func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) { return compileLike(c, k) }
	expr.Register(like)
}

func deriveCoalesce(c *expr.Call) error {
	err := merged(0)(c)
	for _, a := range c.Args {
		c.T.NotNull = c.T.NotNull || a.Type().NotNull
	}
	return err
}

func evalFirst(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	e, err := k.Expr(c.Args[0])
	if err != nil {
		return nil, err
	}
	return &retyped{e, c.T, expr.Vec{}}, nil
}

// retyped is a value under another type of the same form.
type retyped struct {
	e expr.Expr
	t expr.Type
	v expr.Vec
}

// Type implements Expr.
func (r *retyped) Type() expr.Type { return r.t }

// Eval implements Expr.
func (r *retyped) Eval(b *expr.Batch, sel []int32) (*expr.Vec, error) {
	v, err := r.e.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	r.v = *v
	r.v.T = r.t
	return &r.v, nil
}

// deriveCollate: the second argument is a constant with the name of a collation.
func deriveCollate(c *expr.Call) error {
	name, ok := c.Args[1].(*expr.Const)
	if !ok {
		return fmt.Errorf("expr: COLLATE needs a name")
	}
	id, err := sql.ParseCollation("", name.V.S, false)
	if err != nil {
		return err
	}
	t := c.Args[0].Type()
	if !t.Stringy() {
		c.Args[0] = expr.CastTo(c.Args[0], textOf(t))
		t = c.Args[0].Type()
	}
	fixed := t.Coercibility != expr.CoerceNumeric && t.Coercibility < expr.CoerceLiteral // neither a literal nor of a number
	if t.Kind == expr.Text && fixed && t.Coll.CharacterSet() != id.CharacterSet() {
		return sql.ErrCollationInvalidForCharSet.New(id.Name(), t.Coll.CharacterSet().Name())
	}
	n := expr.TextType(t.Length, id, expr.CoerceExplicit)
	n.NotNull = t.NotNull
	if n.Kind != t.Kind {
		c.Args[0] = expr.CastTo(c.Args[0], n)
	}
	c.T = n
	return nil
}

type coalesce struct {
	args []expr.Expr
	t    expr.Type
	v    expr.Vec
	bufs [2][]int32
	done []int32
}

func evalCoalesce(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	es, err := k.Exprs(c.Args)
	return &coalesce{args: es, t: c.T}, err
}

// Type implements Expr.
func (c *coalesce) Type() expr.Type { return c.t }

// Eval implements Expr.
func (c *coalesce) Eval(b *expr.Batch, sel []int32) (*expr.Vec, error) {
	c.v.Reset(c.t, b.N)
	for n, a := range c.args {
		x, err := a.Eval(b, sel)
		if err != nil {
			return nil, err
		}
		rest := c.bufs[n&1][:0]
		c.done = c.done[:0]
		for _, i := range sel {
			if x.IsNull(i) || x.T.Kind == expr.Null {
				rest = append(rest, i)
			} else {
				c.done = append(c.done, i)
			}
		}
		c.bufs[n&1] = rest
		c.v.Copy(x, c.done)
		if sel = rest; len(sel) == 0 {
			return &c.v, nil
		}
	}
	for _, i := range sel {
		c.v.SetNull(int(i))
	}
	return &c.v, nil
}

// deriveNullIf keeps the first argument twice: as the value, and as what is compared.
func deriveNullIf(c *expr.Call) error {
	eq, err := expr.NewCall(expr.Lookup("="), c.Args[0], c.Args[1])
	if err != nil {
		return err
	}
	c.T = c.Args[0].Type().AsNull()
	if c.T.Kind == expr.Enum || c.T.Kind == expr.Set {
		c.T = textOf(c.T)
		c.Args[0] = expr.CastTo(c.Args[0], c.T)
	}
	c.Args[1] = eq
	return nil
}

// caseOfNullIf is CASE WHEN a = b THEN NULL ELSE a END: a call would compare again, with the
// comparison, when one of its arguments is rewritten.
func caseOfNullIf(c *expr.Call) expr.Node {
	return &expr.Case{Whens: c.Args[1:2], Thens: []expr.Node{expr.CastTo(expr.NullConst(), c.T)}, Else: c.Args[0], T: c.T}
}

func evalNullIf(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	return k.CaseOf(&expr.Case{Whens: c.Args[1:2], Thens: []expr.Node{expr.NullConst()}, Else: c.Args[0], T: c.T})
}

// deriveExtreme: GREATEST and LEAST compare in the type that holds all arguments; a date makes
// strings dates.
func deriveExtreme(c *expr.Call) error {
	t, err := expr.Merge(c.Fn.Name, c.Args...)
	if err != nil {
		return err
	}
	dated := 0
	for _, a := range c.Args {
		if a.Type().Dated() {
			dated++
		}
		if t.Stringy() && a.Type().Numeric() {
			m, err := expr.MergeCollations(c.Fn.Name, true, c.Args...)
			if err != nil {
				return err
			}
			t = stringResult(m, t.Length)
		}
	}
	c.Cmp = t
	if dated > 0 && t.Stringy() {
		c.Cmp = expr.DatetimeType(6)
	}
	c.T = t
	if dated > 0 && t.Stringy() {
		c.T, c.Cmp = t, t
	}
	for i, a := range c.Args {
		c.Args[i] = expr.CastTo(expr.Exact(a), c.Cmp)
	}
	return nil
}

func evalExtreme(sign int) func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	return func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
		es, err := k.Exprs(c.Args)
		if err != nil {
			return nil, err
		}
		cmp := expr.NewComparer(c.Cmp)
		one := make([]int32, 1)
		return expr.NewRowFunc(c.T, es, func(a []*expr.Vec, i int32, v *expr.Vec) error {
			best := a[0]
			for _, x := range a[1:] {
				if cmp(x, i, best, i)*sign > 0 {
					best = x
				}
			}
			one[0] = i
			v.Copy(best, one)
			return nil
		}), nil
	}
}

func deriveLike(c *expr.Call) error {
	for i, a := range c.Args {
		if !a.Type().Stringy() && a.Type().Kind != expr.Null {
			c.Args[i] = expr.CastTo(a, textOf(a.Type()))
		}
	}
	m, err := expr.MergeCollations("like", true, c.Args[:2]...)
	if err != nil {
		return err
	}
	c.Cmp = expr.TextType(0, m.Id, m.Coerce)
	c.T = expr.TypeBool
	c.T.NotNull = c.Args[0].Type().NotNull && c.Args[1].Type().NotNull
	return nil
}

type like struct {
	args []expr.Expr
	coll *collate.Collator
	t    expr.Type
	last *collate.Like
	pat  string
	esc  rune
	ask  func() error // whether the statement may go on
	v    expr.Vec
}

func compileLike(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	l := &like{args: es, coll: collate.Of(c.Cmp.Coll), t: c.T, esc: '\\', ask: k.Env.Err}
	if k.Env.Mode&expr.NoBackslashEscapes != 0 {
		l.esc = 0
	}
	if len(es) == 3 {
		v, ok := expr.ConstantOf(es[2])
		if !ok {
			return nil, expr.ErrUnsupported("ESCAPE that is no constant")
		}
		l.esc = 0
		for _, r := range v.S {
			l.esc = r
			break
		}
	}
	return l, nil
}

// Type implements Expr.
func (l *like) Type() expr.Type { return l.t }

// Eval implements Expr.
func (l *like) Eval(b *expr.Batch, sel []int32) (*expr.Vec, error) {
	x, err := l.args[0].Eval(b, sel)
	if err != nil {
		return nil, err
	}
	p, err := l.args[1].Eval(b, sel)
	if err != nil {
		return nil, err
	}
	l.v.Reset(l.t, b.N)
	n := 0
	for _, i := range sel {
		if x.IsNull(i) || p.IsNull(i) {
			l.v.SetNull(int(i))
			continue
		}
		if n += len(x.S[i]); n >= bytesBetween {
			n = 0
			if err := l.ask(); err != nil {
				return nil, err
			}
		}
		if l.last == nil || l.pat != p.S[i] {
			l.pat = p.S[i]
			l.last = l.coll.NewLike(l.pat, l.esc)
		}
		fits, err := l.last.Match(x.S[i], l.ask)
		if err != nil {
			return nil, err
		}
		l.v.I[i] = expr.TruthInt(fits)
	}
	return &l.v, nil
}
