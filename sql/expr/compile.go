package expr

import (
	"fmt"
)

// Compile makes a node executable for batches whose columns are layout. A column that is not
// there is one of env.Outer.
func Compile(n Node, layout []ColID, env *Env) (Expr, error) {
	return newCompiler(layout, env).Expr(n)
}

// CompilePred makes a condition executable.
func CompilePred(n Node, layout []ColID, env *Env) (Pred, error) {
	return newCompiler(layout, env).pred(n)
}

// CompileAll makes several nodes executable.
func CompileAll(ns []Node, layout []ColID, env *Env) ([]Expr, error) {
	k := newCompiler(layout, env)
	return k.Exprs(ns)
}

// CompilePreds makes one condition of several that all must be TRUE; nil if there are none.
func CompilePreds(ns []Node, layout []ColID, env *Env) (Pred, error) {
	if len(ns) == 0 {
		return nil, nil
	}
	k := newCompiler(layout, env)
	and := &andPred{}
	for _, n := range ns {
		p, err := k.pred(n)
		if err != nil {
			return nil, err
		}
		and.ps = append(and.ps, p)
	}
	if len(and.ps) == 1 {
		return and.ps[0], nil
	}
	return and, nil
}

func newCompiler(layout []ColID, env *Env) *Compiler {
	if env == nil {
		env = &Env{}
	}
	k := &Compiler{pos: make(map[ColID]int, len(layout)), Env: env}
	for i, id := range layout {
		k.pos[id] = i
	}
	return k
}

// Exprs compiles several nodes.
func (k *Compiler) Exprs(ns []Node) ([]Expr, error) {
	out := make([]Expr, len(ns))
	for i, n := range ns {
		var err error
		if out[i], err = k.Expr(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Expr compiles a node.
func (k *Compiler) Expr(n Node) (Expr, error) {
	switch n := n.(type) {
	case *Col:
		return k.col(n)
	case *Const:
		return NewConst(n.V, n.T), nil
	case *Param:
		if n.N >= len(k.Env.Params) {
			return nil, fmt.Errorf("expr: parameter %d has no value", n.N)
		}
		return NewConst(k.Env.Params[n.N], n.T), nil
	case *Cast:
		return k.cast(n)
	case *Case:
		return k.CaseOf(n)
	case *In:
		return k.in(n)
	case *Call:
		return n.Fn.Eval(n, k)
	case *Sub:
		if k.Env.CompileSub == nil {
			return nil, fmt.Errorf("expr: a subquery is left in an expression")
		}
		return k.Env.CompileSub(n, k.layout(), k.Env)
	}
	return nil, fmt.Errorf("expr: %T cannot be evaluated", n)
}

func (k *Compiler) layout() []ColID {
	out := make([]ColID, len(k.pos))
	for id, i := range k.pos {
		out[i] = id
	}
	return out
}

func (k *Compiler) col(n *Col) (Expr, error) {
	if at, ok := k.pos[n.ID]; ok {
		return &colExpr{at, n.T}, nil
	}
	if f, at := k.Env.Outer.find(n.ID); f != nil {
		return &outerExpr{f: f, at: at, gen: f.Gen - 1, k: constExpr{t: n.T}}, nil
	}
	return nil, fmt.Errorf("expr: column %s is not in the input", n)
}

func (k *Compiler) pred(n Node) (Pred, error) {
	switch n := n.(type) {
	case *Call:
		if n.Fn.pred != nil {
			p, err := n.Fn.pred(n, k)
			if p != nil || err != nil {
				return p, err
			}
		}
	case *In:
		return k.inPred(n)
	}
	e, err := k.Expr(n)
	if err != nil {
		return nil, err
	}
	return k.truth(e)
}

type colExpr struct {
	at int
	t  Type
}

// Type implements Expr.
func (c *colExpr) Type() Type { return c.t }

// Eval implements Expr.
func (c *colExpr) Eval(b *Batch, _ []int32) (*Vec, error) { return b.Cols[c.at], nil }

// constExpr has a vector that is full of the value.
type constExpr struct {
	v Value
	t Type
	n int
	x Vec
}

// NewConst is a compiled constant.
func NewConst(v Value, t Type) *constExpr { return &constExpr{v: v, t: t, n: -1} }

// Type implements Expr.
func (c *constExpr) Type() Type { return c.t }

// Eval implements Expr.
func (c *constExpr) Eval(b *Batch, _ []int32) (*Vec, error) {
	if c.n != b.N {
		c.fill(b.N)
	}
	return &c.x, nil
}

func (c *constExpr) fill(n int) {
	c.n = n
	c.x.Reset(c.t, n)
	if c.v.IsNull() {
		c.x.allNull(n)
		return
	}
	for i := range n {
		c.x.Put(i, c.v)
	}
}

// outerExpr is a column of an outer query: a constant that changes between runs.
type outerExpr struct {
	f   *Frame
	at  int
	gen uint64
	k   constExpr
}

// Type implements Expr.
func (o *outerExpr) Type() Type { return o.k.t }

// Eval implements Expr.
func (o *outerExpr) Eval(b *Batch, sel []int32) (*Vec, error) {
	if o.gen != o.f.Gen {
		o.gen = o.f.Gen
		o.k.v, o.k.n = o.f.Vals[o.at], -1
	}
	return o.k.Eval(b, sel)
}

// ConstantOf is the value of an expression that is constant while the plan runs.
func ConstantOf(e Expr) (Value, bool) {
	if c, ok := e.(*constExpr); ok {
		return c.v, true
	}
	return Value{}, false
}

// EvalConst computes an expression without columns.
func EvalConst(n Node, env *Env) (Value, error) {
	e, err := Compile(n, nil, env)
	if err != nil {
		return Value{}, err
	}
	v, err := e.Eval(&Batch{N: 1, Sel: All(1)}, All(1))
	if err != nil {
		return Value{}, err
	}
	return v.At(0), nil
}

// Fold replaces parts of an expression that are constant, whatever the rows, by their values.
// Parts that fail are left: they may never be reached. With plan set, the result may be kept for
// later statements, so parameters and functions like NOW stay.
func Fold(n Node, env *Env, plan bool) (Node, error) {
	return Rewrite(n, func(n Node) (Node, error) {
		switch n := n.(type) {
		case *Call:
			if n.Fn.Volatile || plan && n.Fn.PerStatement {
				return n, nil
			}
		case *Param:
			if plan || n.N >= len(env.Params) {
				return n, nil
			}
			return ConstOf(env.Params[n.N], n.T), nil
		case *Cast, *Case, *In:
		default:
			return n, nil
		}
		for _, c := range n.Children() {
			if _, ok := c.(*Const); !ok {
				return n, nil
			}
		}
		v, err := EvalConst(n, env)
		if err != nil {
			return n, nil
		}
		return Computed(n, v), nil
	})
}

// caseExpr evaluates each branch for the rows that get there.
type caseExpr struct {
	whens []Pred
	thens []Expr
	els   Expr
	t     Type
	v     Vec
	bufs  [2][]int32
}

// CaseOf compiles CASE.
func (k *Compiler) CaseOf(n *Case) (Expr, error) {
	c := &caseExpr{t: n.T}
	var err error
	for i := range n.Whens {
		p, err := k.pred(n.Whens[i])
		if err != nil {
			return nil, err
		}
		x, err := k.Expr(n.Thens[i])
		if err != nil {
			return nil, err
		}
		c.whens, c.thens = append(c.whens, p), append(c.thens, x)
	}
	c.els, err = k.Expr(n.Else)
	return c, err
}

// Type implements Expr.
func (c *caseExpr) Type() Type { return c.t }

// Eval implements Expr.
func (c *caseExpr) Eval(b *Batch, sel []int32) (*Vec, error) {
	c.v.Reset(c.t, b.N)
	for i, p := range c.whens {
		if len(sel) == 0 {
			return &c.v, nil
		}
		yes, err := p.Filter(b, sel, true)
		if err != nil {
			return nil, err
		}
		if len(yes) == 0 {
			continue
		}
		rest := minus(c.bufs[i&1][:0], sel, yes)
		c.bufs[i&1] = rest
		if err := put(&c.v, c.thens[i], b, yes); err != nil {
			return nil, err
		}
		sel = rest
	}
	if len(sel) == 0 {
		return &c.v, nil
	}
	return &c.v, put(&c.v, c.els, b, sel)
}

// put evaluates an expression for some rows and copies the values to v.
func put(v *Vec, e Expr, b *Batch, sel []int32) error {
	x, err := e.Eval(b, sel)
	if err != nil {
		return err
	}
	v.Copy(x, sel)
	return nil
}

// Copy stores the selected values of another vector of the same kind at the same positions.
func (v *Vec) Copy(x *Vec, sel []int32) {
	if x.T.Kind == Null {
		for _, i := range sel {
			v.SetNull(int(i))
		}
		return
	}
	switch v.T.Kind.Form() {
	case FormF:
		for _, i := range sel {
			v.F[i] = x.F[i]
		}
	case FormS:
		for _, i := range sel {
			v.S[i] = x.S[i]
		}
	case FormA:
		for _, i := range sel {
			v.A[i] = x.A[i]
		}
	default:
		v.copyI(x, sel)
	}
	if x.Null != nil {
		for _, i := range sel {
			if x.Null[i] {
				v.SetNull(int(i))
			}
		}
	}
}

func (v *Vec) copyI(x *Vec, sel []int32) {
	if x.D == nil && v.D == nil {
		for _, i := range sel {
			v.I[i] = x.I[i]
		}
		return
	}
	v.Widen()
	for _, i := range sel {
		if x.D != nil {
			v.D[i] = x.D[i]
		} else {
			v.D[i].SetFinite(x.I[i], int32(-x.T.Scale))
		}
	}
}

// minus appends the rows of a that are not in b to out. Both are in order.
func minus(out, a, b []int32) []int32 {
	j := 0
	for _, i := range a {
		if j < len(b) && b[j] == i {
			j++
			continue
		}
		out = append(out, i)
	}
	return out
}
