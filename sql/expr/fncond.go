package expr

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr/collate"
)

// merged derives a function whose value is one of its arguments from the given one on.
func merged(from int) func(c *Call) error {
	return func(c *Call) error {
		t, err := Merge(c.Fn.Name, c.Args[from:]...)
		if err != nil {
			return err
		}
		for i := from; i < len(c.Args); i++ {
			c.Args[i] = castTo(c.Args[i], t)
		}
		c.T = t
		return nil
	}
}

func init() {
	register(
		&Func{Name: "if", Min: 3, Max: 3, derive: merged(1), eval: func(c *Call, k *compiler) (Expr, error) {
			return k.caseOf(&Case{Whens: c.Args[:1], Thens: c.Args[1:2], Else: c.Args[2], T: c.T})
		}},
		&Func{Name: "coalesce", Min: 1, Max: -1, derive: func(c *Call) error {
			err := merged(0)(c)
			for _, a := range c.Args {
				c.T.NotNull = c.T.NotNull || a.Type().NotNull
			}
			return err
		}, eval: evalCoalesce},
		&Func{Name: "nullif", Min: 2, Max: 2, derive: deriveNullIf, eval: evalNullIf},
		&Func{Name: "greatest", Min: 2, Max: -1, derive: deriveExtreme, eval: evalExtreme(1)},
		&Func{Name: "least", Min: 2, Max: -1, derive: deriveExtreme, eval: evalExtreme(-1)},
		&Func{Name: "collate", Min: 2, Max: 2, derive: deriveCollate, eval: evalFirst},
		&Func{Name: "binary", Min: 1, Max: 1, derive: func(c *Call) error {
			c.Args[0] = castTo(c.Args[0], TextType(0, sql.Collation_binary, CoerceImplicit))
			c.T = c.Args[0].Type()
			return nil
		}, eval: evalFirst},
	)
	funcs["ifnull"] = &Func{Name: "ifnull", Min: 2, Max: 2, derive: funcs["coalesce"].derive, eval: evalCoalesce}
	like := &Func{Name: "like", Min: 2, Max: 3, derive: deriveLike}
	like.eval = func(c *Call, k *compiler) (Expr, error) { return k.like(c) }
	register(like)
}

func evalFirst(c *Call, k *compiler) (Expr, error) {
	e, err := k.expr(c.Args[0])
	if err != nil {
		return nil, err
	}
	return &retyped{e, c.T, Vec{}}, nil
}

// retyped is a value under another type of the same form.
type retyped struct {
	e Expr
	t Type
	v Vec
}

// Type implements Expr.
func (r *retyped) Type() Type { return r.t }

// Eval implements Expr.
func (r *retyped) Eval(b *Batch, sel []int32) (*Vec, error) {
	v, err := r.e.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	r.v = *v
	r.v.T = r.t
	return &r.v, nil
}

// deriveCollate: the second argument is a constant with the name of a collation.
func deriveCollate(c *Call) error {
	name, ok := c.Args[1].(*Const)
	if !ok {
		return fmt.Errorf("expr: COLLATE needs a name")
	}
	id, err := sql.ParseCollation("", name.V.S, false)
	if err != nil {
		return err
	}
	t := c.Args[0].Type()
	if !t.Stringy() {
		c.Args[0] = castTo(c.Args[0], textOf(t))
		t = c.Args[0].Type()
	}
	if t.Kind == Text && t.Coercibility != CoerceNumeric && t.Coll.CharacterSet() != id.CharacterSet() && t.Coercibility < CoerceLiteral {
		return sql.ErrCollationInvalidForCharSet.New(id.Name(), t.Coll.CharacterSet().Name())
	}
	n := TextType(t.Length, id, CoerceExplicit)
	n.NotNull = t.NotNull
	if n.Kind != t.Kind {
		c.Args[0] = castTo(c.Args[0], n)
	}
	c.T = n
	return nil
}

type coalesce struct {
	args []Expr
	t    Type
	v    Vec
	bufs [2][]int32
	done []int32
}

func evalCoalesce(c *Call, k *compiler) (Expr, error) {
	es, err := k.exprs(c.Args)
	return &coalesce{args: es, t: c.T}, err
}

// Type implements Expr.
func (c *coalesce) Type() Type { return c.t }

// Eval implements Expr.
func (c *coalesce) Eval(b *Batch, sel []int32) (*Vec, error) {
	c.v.Reset(c.t, b.N)
	for n, a := range c.args {
		x, err := a.Eval(b, sel)
		if err != nil {
			return nil, err
		}
		rest := c.bufs[n&1][:0]
		c.done = c.done[:0]
		for _, i := range sel {
			if x.IsNull(i) || x.T.Kind == Null {
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
func deriveNullIf(c *Call) error {
	eq, err := call("=", c.Args[0], c.Args[1])
	if err != nil {
		return err
	}
	c.T = c.Args[0].Type().AsNull()
	if c.T.Kind == Enum || c.T.Kind == Set {
		c.T = textOf(c.T)
		c.Args[0] = castTo(c.Args[0], c.T)
	}
	c.Args[1] = eq
	return nil
}

func evalNullIf(c *Call, k *compiler) (Expr, error) {
	return k.caseOf(&Case{Whens: c.Args[1:2], Thens: []Node{NullConst()}, Else: c.Args[0], T: c.T})
}

// deriveExtreme: GREATEST and LEAST compare in the type that holds all arguments; a date makes
// strings dates.
func deriveExtreme(c *Call) error {
	t, err := Merge(c.Fn.Name, c.Args...)
	if err != nil {
		return err
	}
	dated := 0
	for _, a := range c.Args {
		if a.Type().Dated() {
			dated++
		}
		if t.Stringy() && a.Type().Numeric() {
			m, err := mergeCollations(c.Fn.Name, true, c.Args...)
			if err != nil {
				return err
			}
			t = stringResult(m, t.Length)
		}
	}
	c.Cmp = t
	if dated > 0 && t.Stringy() {
		c.Cmp = DatetimeType(6)
	}
	c.T = t
	if dated > 0 && t.Stringy() {
		c.T, c.Cmp = t, t
	}
	for i, a := range c.Args {
		c.Args[i] = castTo(exact(a), c.Cmp)
	}
	return nil
}

func evalExtreme(sign int) func(c *Call, k *compiler) (Expr, error) {
	return func(c *Call, k *compiler) (Expr, error) {
		es, err := k.exprs(c.Args)
		if err != nil {
			return nil, err
		}
		cmp := NewComparer(c.Cmp)
		one := make([]int32, 1)
		return newRowFunc(c.T, es, func(a []*Vec, i int32, v *Vec) error {
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

func deriveLike(c *Call) error {
	for i, a := range c.Args {
		if !a.Type().Stringy() && a.Type().Kind != Null {
			c.Args[i] = castTo(a, textOf(a.Type()))
		}
	}
	m, err := mergeCollations("like", true, c.Args[:2]...)
	if err != nil {
		return err
	}
	c.Cmp = TextType(0, m.id, m.coerce)
	c.T = TypeBool
	c.T.NotNull = c.Args[0].Type().NotNull && c.Args[1].Type().NotNull
	return nil
}

type like struct {
	args []Expr
	coll *collate.Collator
	t    Type
	last *collate.Like
	pat  string
	esc  rune
	v    Vec
}

func (k *compiler) like(c *Call) (Expr, error) {
	es, err := k.exprs(c.Args)
	if err != nil {
		return nil, err
	}
	l := &like{args: es, coll: collate.Of(c.Cmp.Coll), t: c.T, esc: '\\'}
	if k.env.Mode&NoBackslashEscapes != 0 {
		l.esc = 0
	}
	if len(es) == 3 {
		v, ok := constOf(es[2])
		if !ok {
			return nil, errUnsupported("ESCAPE that is no constant")
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
func (l *like) Type() Type { return l.t }

// Eval implements Expr.
func (l *like) Eval(b *Batch, sel []int32) (*Vec, error) {
	x, err := l.args[0].Eval(b, sel)
	if err != nil {
		return nil, err
	}
	p, err := l.args[1].Eval(b, sel)
	if err != nil {
		return nil, err
	}
	l.v.Reset(l.t, b.N)
	for _, i := range sel {
		if x.IsNull(i) || p.IsNull(i) {
			l.v.SetNull(int(i))
			continue
		}
		if l.last == nil || l.pat != p.S[i] {
			l.pat = p.S[i]
			l.last = l.coll.NewLike(l.pat, l.esc)
		}
		l.v.I[i] = truthInt(l.last.Match(x.S[i]))
	}
	return &l.v, nil
}
