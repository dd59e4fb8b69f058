package expr

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr/jsondoc"
)

// truth makes a condition of a value: it is TRUE if it is a number other than 0.
func (k *Compiler) truth(e Expr) (Pred, error) {
	return &truthPred{e: e, is: truthOf(e.Type(), k.Env)}, nil
}

// truthOf says how a value that is not NULL is TRUE.
func truthOf(t Type, env *Env) func(v *Vec, i int32) bool {
	switch t.Kind {
	case Float:
		return func(v *Vec, i int32) bool { return v.F[i] != 0 }
	case Text, Bytes:
		return func(v *Vec, i int32) bool {
			f, ok := FloatOf(v.S[i])
			if !ok {
				env.Note(1292, "Truncated incorrect DOUBLE value: '"+v.S[i]+"'")
			}
			return f != 0
		}
	case JSON:
		return jsonTruth
	case Decimal:
		return func(v *Vec, i int32) bool {
			if v.D != nil {
				return !v.D[i].IsZero()
			}
			return v.I[i] != 0
		}
	case Opaque:
		return func(*Vec, int32) bool { return false }
	}
	return func(v *Vec, i int32) bool { return v.I[i] != 0 }
}

// jsonTruth: documents compare with the number 0.
func jsonTruth(v *Vec, i int32) bool {
	d, err := jsondoc.Read(v.S[i])
	return err != nil || jsondoc.Compare(d, int64(0)) != 0
}

type truthPred struct {
	e   Expr
	is  func(*Vec, int32) bool
	buf []int32
}

// Filter implements Pred.
func (p *truthPred) Filter(b *Batch, sel []int32, want bool) ([]int32, error) {
	v, err := p.e.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	out := sized(p.buf, len(sel))[:0]
	for _, i := range sel {
		if !v.IsNull(i) && p.is(v, i) == want {
			out = append(out, i)
		}
	}
	p.buf = out
	return out, nil
}

// andPred is AND of several conditions; its negation is OR of theirs.
type andPred struct {
	ps []Pred
	u  unioner
}

// Filter implements Pred.
func (a *andPred) Filter(b *Batch, sel []int32, want bool) ([]int32, error) {
	if want {
		return all(a.ps, b, sel, true)
	}
	return a.u.any(a.ps, b, sel, false)
}

type orPred struct {
	ps []Pred
	u  unioner
}

// Filter implements Pred.
func (o *orPred) Filter(b *Batch, sel []int32, want bool) ([]int32, error) {
	if want {
		return o.u.any(o.ps, b, sel, true)
	}
	return all(o.ps, b, sel, false)
}

func all(ps []Pred, b *Batch, sel []int32, want bool) (_ []int32, err error) {
	for _, p := range ps {
		if sel, err = p.Filter(b, sel, want); err != nil || len(sel) == 0 {
			return nil, err
		}
	}
	return sel, nil
}

// unioner collects the rows for which one of several conditions holds.
type unioner struct{ rest, out [2][]int32 }

func (u *unioner) any(ps []Pred, b *Batch, sel []int32, want bool) ([]int32, error) {
	var out []int32
	n := 0
	for _, p := range ps {
		if len(sel) == 0 {
			break
		}
		yes, err := p.Filter(b, sel, want)
		if err != nil {
			return nil, err
		}
		if len(yes) == 0 {
			continue
		}
		// yes may be a buffer of p, or sel itself. What is read must not be in the buffers that
		// are written, so those alternate with each condition that held for a row.
		at := n & 1
		n++
		u.rest[at] = minus(u.rest[at][:0], sel, yes)
		u.out[at] = union(u.out[at][:0], out, yes)
		sel, out = u.rest[at], u.out[at]
	}
	return out, nil
}

// union merges two ordered lists without common members.
func union(out, a, b []int32) []int32 {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if a[i] < b[j] {
			out = append(out, a[i])
			i++
		} else {
			out = append(out, b[j])
			j++
		}
	}
	out = append(out, a[i:]...)
	return append(out, b[j:]...)
}

type notPred struct{ p Pred }

// Filter implements Pred.
func (n *notPred) Filter(b *Batch, sel []int32, want bool) ([]int32, error) {
	return n.p.Filter(b, sel, !want)
}

// logic is AND or OR as a value. stop is the value that decides: FALSE for AND, TRUE for OR.
type logic struct {
	args []Expr
	is   []func(*Vec, int32) bool
	stop bool
	t    Type
	v    Vec
	live [2][]int32
}

// Type implements Expr.
func (l *logic) Type() Type { return l.t }

// Eval implements Expr.
func (l *logic) Eval(b *Batch, sel []int32) (*Vec, error) {
	l.v.Reset(l.t, b.N)
	for _, i := range sel {
		l.v.I[i] = TruthInt(!l.stop)
	}
	for n, a := range l.args {
		x, err := a.Eval(b, sel)
		if err != nil {
			return nil, err
		}
		live := l.live[n&1][:0]
		for _, i := range sel {
			switch {
			case x.IsNull(i):
				l.v.SetNull(int(i))
				live = append(live, i)
			case l.is[n](x, i) == l.stop:
				l.v.I[i] = TruthInt(l.stop)
				if l.v.Null != nil {
					l.v.Null[i] = false
				}
			default:
				live = append(live, i)
			}
		}
		l.live[n&1] = live
		if sel = live; len(sel) == 0 {
			break
		}
	}
	return &l.v, nil
}

// TruthInt is 1 or 0.
func TruthInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// unaryTruth is a function of the truth of one value.
type unaryTruth struct {
	arg Expr
	is  func(*Vec, int32) bool
	// onTrue and onFalse are the results; onNull too, unless it is below 0: NULL.
	onTrue, onFalse, onNull int64
	t                       Type
	v                       Vec
}

// Type implements Expr.
func (u *unaryTruth) Type() Type { return u.t }

// Eval implements Expr.
func (u *unaryTruth) Eval(b *Batch, sel []int32) (*Vec, error) {
	x, err := u.arg.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	u.v.Reset(u.t, b.N)
	for _, i := range sel {
		switch {
		case x.IsNull(i):
			if u.v.I[i] = u.onNull; u.onNull < 0 {
				u.v.SetNull(int(i))
			}
		case u.is(x, i):
			u.v.I[i] = u.onTrue
		default:
			u.v.I[i] = u.onFalse
		}
	}
	return &u.v, nil
}

// isNullPred is IS NULL.
type isNullPred struct {
	e   Expr
	buf []int32
}

// Filter implements Pred.
func (p *isNullPred) Filter(b *Batch, sel []int32, want bool) ([]int32, error) {
	v, err := p.e.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	if v.Null == nil {
		if want {
			return nil, nil
		}
		return sel, nil
	}
	out := sized(p.buf, len(sel))[:0]
	for _, i := range sel {
		if v.Null[i] == want {
			out = append(out, i)
		}
	}
	p.buf = out
	return out, nil
}

func deriveBool(c *Call) error {
	c.T = TypeBool
	c.T.NotNull = true
	for _, a := range c.Args {
		c.T.NotNull = c.T.NotNull && a.Type().NotNull
	}
	return nil
}

func connective(name string, stop bool) *Func {
	f := &Func{Name: name, Min: 2, Max: -1, Derive: deriveBool}
	f.Eval = func(c *Call, k *Compiler) (Expr, error) {
		l := &logic{stop: stop, t: c.T}
		for _, a := range flatten(f, c.Args, nil) {
			e, err := k.Expr(a)
			if err != nil {
				return nil, err
			}
			l.args, l.is = append(l.args, e), append(l.is, truthOf(e.Type(), k.Env))
		}
		return l, nil
	}
	f.pred = func(c *Call, k *Compiler) (Pred, error) {
		var ps []Pred
		for _, a := range flatten(f, c.Args, nil) {
			p, err := k.pred(a)
			if err != nil {
				return nil, err
			}
			ps = append(ps, p)
		}
		if stop {
			return &orPred{ps: ps}, nil
		}
		return &andPred{ps: ps}, nil
	}
	return f
}

// flatten lists the operands of nested calls of the same connective.
func flatten(f *Func, args, out []Node) []Node {
	for _, a := range args {
		if c, ok := a.(*Call); ok && c.Fn == f {
			out = flatten(f, c.Args, out)
		} else {
			out = append(out, a)
		}
	}
	return out
}

// Conjuncts splits a condition at its ANDs.
func Conjuncts(n Node) []Node { return flatten(funcs["and"], []Node{n}, nil) }

// And joins conditions; TRUE if there are none.
func And(ns ...Node) Node {
	switch len(ns) {
	case 0:
		return Bool(true)
	case 1:
		return ns[0]
	}
	c := &Call{Fn: funcs["and"], Args: ns}
	_ = deriveBool(c)
	return c
}

// tester is a function of the truth of a value that is never NULL: IS TRUE and its like.
func tester(name string, onTrue, onFalse, onNull int64) *Func {
	return &Func{
		Name: name, Min: 1, Max: 1,
		Derive: func(c *Call) error {
			c.T = TypeBool
			c.T.NotNull = onNull >= 0 || c.Args[0].Type().NotNull
			return nil
		},
		Eval: func(c *Call, k *Compiler) (Expr, error) {
			if onTrue == onFalse && neverNull(c.Args[0]) {
				return k.Expr(Bool(onTrue == 1))
			}
			e, err := k.Expr(c.Args[0])
			if err != nil {
				return nil, err
			}
			is := func(*Vec, int32) bool { return true }
			if onTrue != onFalse {
				is = truthOf(e.Type(), k.Env)
			}
			return &unaryTruth{arg: e, is: is, onTrue: onTrue, onFalse: onFalse,
				onNull: onNull, t: c.T}, nil
		},
	}
}

// neverNull reports whether a constant is known not to be NULL. As in MySQL, nobody asks then what
// it is: that may be an error.
func neverNull(n Node) bool { return n.Type().NotNull && constantNode(n) }

// nullPred makes IS NULL as a condition.
func nullPred(c *Call, k *Compiler) (Pred, error) {
	arg := c.Args[0]
	if neverNull(arg) {
		arg = Bool(true)
	}
	e, err := k.Expr(arg)
	return &isNullPred{e: e}, err
}

// constantNode reports whether an expression has neither columns nor subqueries.
func constantNode(n Node) bool {
	constant := !HasSub(n)
	Cols(n, func(ColID) { constant = false })
	return constant
}

func init() {
	not := tester("not", 0, 1, -1)
	not.pred = func(c *Call, k *Compiler) (Pred, error) {
		p, err := k.pred(c.Args[0])
		return &notPred{p}, err
	}
	isNull := tester("isnull", 0, 0, 1)
	isNull.pred = nullPred
	isNotNull := tester("isnotnull", 1, 1, 0)
	isNotNull.pred = func(c *Call, k *Compiler) (Pred, error) {
		p, err := nullPred(c, k)
		return &notPred{p}, err
	}
	Register(
		connective("and", false), connective("or", true), not, isNull, isNotNull,
		tester("istrue", 1, 0, 0), tester("isfalse", 0, 1, 0), tester("isnottrue", 0, 1, 1), tester("isnotfalse", 1, 0, 1),
		&Func{Name: "xor", Min: 2, Max: 2, Derive: deriveBool, Eval: evalXor},
		&Func{Name: "between", Min: 3, Max: 3, Derive: deriveBetween, Eval: evalBetween},
	)
}

func evalXor(c *Call, k *Compiler) (Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	return &xor{l: es[0], r: es[1], t: c.T, p: truthOf(es[0].Type(), k.Env), q: truthOf(es[1].Type(), k.Env)}, nil
}

// xor does not ask for the right side where the left one is NULL: that may be an error.
type xor struct {
	l, r Expr
	p, q func(*Vec, int32) bool
	t    Type
	v    Vec
}

// Type implements Expr.
func (x *xor) Type() Type { return x.t }

// Eval implements Expr.
func (x *xor) Eval(b *Batch, sel []int32) (*Vec, error) {
	x.v.Reset(x.t, b.N)
	for _, i := range sel {
		x.v.SetNull(int(i))
	}
	l, err := x.l.Eval(b, sel)
	if err != nil || l.T.Kind == Null {
		return &x.v, err
	}
	rest := notNull(l, sel, nil)
	r, err := x.r.Eval(b, rest)
	if err != nil || r.T.Kind == Null {
		return &x.v, err
	}
	for _, i := range notNull(r, rest, nil) {
		x.v.Null[i], x.v.I[i] = false, TruthInt(x.p(l, i) != x.q(r, i))
	}
	return &x.v, nil
}

// rowFunc computes value by value; the result is NULL if an argument is.
type rowFunc struct {
	args []Expr
	t    Type
	f    func(a []*Vec, i int32, v *Vec) error
	// Nulls lets f see NULLs.
	Nulls bool
	// Env, if it is set, accounts for the strings that f makes.
	Env  *Env
	held int64 // what is taken for the strings of the last batch
	v    Vec
	vecs []*Vec
}

// NewRowFunc makes a function that f computes value by value.
func NewRowFunc(t Type, args []Expr, f func(a []*Vec, i int32, v *Vec) error) *rowFunc {
	return &rowFunc{args: args, t: t, f: f, vecs: make([]*Vec, len(args))}
}

// Type implements Expr.
func (r *rowFunc) Type() Type { return r.t }

// Eval implements Expr.
func (r *rowFunc) Eval(b *Batch, sel []int32) (*Vec, error) {
	nulls := false
	for k, a := range r.args {
		var err error
		if r.vecs[k], err = a.Eval(b, sel); err != nil {
			return nil, err
		}
		nulls = nulls || r.vecs[k].Null != nil
	}
	r.v.Reset(r.t, b.N)
	counts := r.Env != nil && r.Env.Mem != nil && r.t.Kind.Form() == FormS
	if r.held > 0 {
		r.Env.Mem.Shrink(r.held)
		r.held = 0
	}
	made := int64(0)
	for _, i := range sel {
		if nulls && !r.Nulls && r.anyNull(i) {
			r.v.SetNull(int(i))
			continue
		}
		if err := r.f(r.vecs, i, &r.v); err != nil {
			return nil, err
		}
		if counts && !r.v.IsNull(i) {
			if made += int64(len(r.v.S[i])); made >= countedAt {
				if err := r.Env.Mem.Grow(made); err != nil {
					return nil, err
				}
				r.held, made = r.held+made, 0
			}
		}
	}
	return &r.v, nil
}

// countedAt is how many bytes of strings a function makes before it accounts for them.
const countedAt = 64 << 10

func (r *rowFunc) anyNull(i int32) bool {
	for _, v := range r.vecs {
		if v.IsNull(i) {
			return true
		}
	}
	return false
}

// deriveBetween finds one type for all three values where there is one.
func deriveBetween(c *Call) error {
	for i := range c.Args {
		c.Args[i] = yearConst(c.Args[i], c.Args[0])
	}
	args, err := oneCollation("between", c.Args...)
	if err != nil {
		return err
	}
	c.Args = args
	t, err := compareType("between", c.Args[0], c.Args[1])
	if err != nil {
		return err
	}
	u, err := compareType("between", c.Args[0], c.Args[2])
	if err != nil {
		return err
	}
	switch {
	case t.Kind == Null:
		t = u
	case u.Kind == Null:
	case t.Same(u):
		t = widest(t, u)
	case t.Numeric() && u.Numeric():
		t = mergeCompare(t, u)
	case t.Numeric() || u.Numeric():
		t = TypeFloat
	case t.Stringy() && u.Stringy():
		m, err := MergeCollations("between", true, c.Args...)
		if err != nil {
			return err
		}
		t = TextType(0, m.Id, m.Coerce)
	}
	c.Cmp = t
	for i, a := range c.Args {
		c.Args[i] = CastTo(Exact(a), t)
	}
	return deriveBool(c)
}

func evalBetween(c *Call, k *Compiler) (Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	cmp := NewComparer(c.Cmp)
	f := NewRowFunc(c.T, es, func(a []*Vec, i int32, v *Vec) error {
		x, lo, hi := a[0], a[1], a[2]
		v.I[i] = 0
		switch {
		case x.IsNull(i):
			v.SetNull(int(i))
		case !lo.IsNull(i) && cmp(x, i, lo, i) < 0, !hi.IsNull(i) && cmp(x, i, hi, i) > 0:
		case lo.IsNull(i) || hi.IsNull(i):
			v.SetNull(int(i))
		default:
			v.I[i] = 1
		}
		return nil
	})
	f.Nulls = true
	return f, nil
}

// oneCollation gives strings that are compared with one another the collation that all have in
// common; two of them alone might have none.
func oneCollation(op string, args ...Node) ([]Node, error) {
	member, several := false, false
	var first sql.CollationID
	for _, a := range args {
		t := a.Type()
		if t.Kind == Null {
			continue
		}
		if t.Kind != Enum && t.Kind != Set && !t.Stringy() {
			return args, nil
		}
		member = member || !t.Stringy()
		several = several || first != 0 && t.Coll != first
		first = t.Coll
	}
	if member && !several {
		return args, nil // they may compare as numbers, which is the same
	}
	m, err := MergeCollations(op, true, args...)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(args)
	for i, a := range args {
		if t := a.Type(); t.Kind != Null {
			out[i] = CastTo(a, TextType(t.Length, m.Id, m.Coerce))
		}
	}
	return out, nil
}

// NewBetween makes x BETWEEN lo AND hi: two comparisons if x is cheap and always the same, so
// that a planner sees them.
func NewBetween(x, lo, hi Node) (Node, error) {
	args, err := oneCollation("between", x, lo, hi)
	if err != nil {
		return nil, err
	}
	x, lo, hi = args[0], args[1], args[2]
	if _, ok := x.(*Col); !ok {
		return call("between", x, lo, hi)
	}
	a, err := call(">=", x, lo)
	if err != nil {
		return nil, err
	}
	b, err := call("<=", x, hi)
	if err != nil {
		return nil, err
	}
	if t, u := a.(*Call).Cmp, b.(*Call).Cmp; !t.Same(u) {
		c := &Call{Fn: funcs["between"], Args: []Node{x, lo, hi}}
		return c, deriveBetween(c)
	}
	return call("and", a, b)
}

// inExpr is IN as a value; inSet answers it for constants.
type inExpr struct {
	left Expr
	list []Expr
	cmp  Comparer
	set  *inSet
	not  bool
	t    Type
	v    Vec
	vecs []*Vec
}

// inSet has the keys of a constant list.
type inSet struct {
	keys map[string]struct{}
	ints map[int64]struct{}
	null bool
	enc  *Encoder
	ask  func() error
	buf  []byte
}

func (k *Compiler) in(n *In) (Expr, error) {
	l, err := k.Expr(n.Left)
	if err != nil {
		return nil, err
	}
	list, err := k.Exprs(n.List)
	if err != nil {
		return nil, err
	}
	x := &inExpr{left: l, list: list, cmp: NewComparer(n.Cmp), not: n.Not, t: n.Type(), vecs: make([]*Vec, len(list))}
	x.set, err = newInSet(list, n.Cmp, k.Env.Err)
	return x, err
}

// newInSet makes a set of a list that is constant; nil if it is not.
func newInSet(list []Expr, t Type, ask func() error) (*inSet, error) {
	s := &inSet{ask: ask, keys: map[string]struct{}{}, enc: NewEncoder(t)}
	if SignedForm(t) && t.Kind != Decimal {
		s.ints = map[int64]struct{}{}
	}
	var one Vec
	for _, e := range list {
		v, ok := ConstantOf(e)
		if !ok {
			return nil, nil
		}
		if v.IsNull() {
			s.null = true
			continue
		}
		if s.ints != nil {
			s.ints[v.I] = struct{}{}
			continue
		}
		one.Reset(t, 1)
		one.Put(0, v)
		key, err := s.enc.Append(nil, &one, 0, ask)
		if err != nil {
			return nil, err
		}
		s.keys[string(key)] = struct{}{}
	}
	return s, nil
}

func (s *inSet) has(v *Vec, i int32) (ok bool, err error) {
	if s.ints != nil {
		_, ok = s.ints[v.I[i]]
		return ok, nil
	}
	s.buf, err = s.enc.Append(s.buf[:0], v, i, s.ask)
	_, ok = s.keys[string(s.buf)]
	return ok, err
}

// Type implements Expr.
func (x *inExpr) Type() Type { return x.t }

// Eval implements Expr.
func (x *inExpr) Eval(b *Batch, sel []int32) (*Vec, error) {
	l, err := x.left.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	if x.set == nil {
		for k, e := range x.list {
			if x.vecs[k], err = e.Eval(b, sel); err != nil {
				return nil, err
			}
		}
	}
	x.v.Reset(x.t, b.N)
	for _, i := range sel {
		found, null, err := x.find(l, i)
		switch {
		case err != nil:
			return nil, err
		case found:
			x.v.I[i] = TruthInt(!x.not)
		case null:
			x.v.SetNull(int(i))
		default:
			x.v.I[i] = TruthInt(x.not)
		}
	}
	return &x.v, nil
}

func (x *inExpr) find(l *Vec, i int32) (found, null bool, err error) {
	if l.IsNull(i) {
		return false, true, nil
	}
	if x.set != nil {
		found, err = x.set.has(l, i)
		return found, x.set.null, err
	}
	for _, v := range x.vecs {
		if v.IsNull(i) {
			null = true
		} else if x.cmp(l, i, v, i) == 0 {
			return true, null, nil
		}
	}
	return false, null, nil
}

func (k *Compiler) inPred(n *In) (Pred, error) {
	e, err := k.in(n)
	if err != nil {
		return nil, err
	}
	return k.truth(e)
}
