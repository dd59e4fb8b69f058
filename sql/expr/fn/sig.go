package fn

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
)

// rowEval computes the value at i of a call from its arguments.
type rowEval func(a []*expr.Vec, i int32, v *expr.Vec) error

// sig describes a function that is computed value by value.
type sig struct {
	names    string // the first is the name, others are synonyms
	min, max int
	// args has a letter for each argument, the last one for all further ones: s text, b bytes or
	// text as it is, i whole number, f double, n number as it is, t date with time, T duration,
	// d date, j JSON, * as it is.
	args string
	ret  func(c *expr.Call) (expr.Type, error)
	// nulls lets the function see NULLs.
	nulls        bool
	volatile     bool
	perStatement bool
	ordered      bool
	// shows: the result has as many digits as the first argument shows, which may be a quotient.
	shows bool
	make  func(c *expr.Call, k *expr.Compiler) (rowEval, error)
}

func (s sig) register() {
	names := strings.Fields(s.names)
	f := &expr.Func{Name: names[0], Min: s.min, Max: s.max, Volatile: s.volatile, PerStatement: s.perStatement, Ordered: s.ordered}
	if s.shows {
		f.Post = expr.ShowScale
	}
	f.Derive = func(c *expr.Call) error {
		if f.Post != nil && expr.Exact(c.Args[0]) != c.Args[0] {
			c.Cmp = c.Args[0].Type()
		}
		for i := range c.Args {
			c.Args[i] = s.coerce(c.Args[i], s.letter(i))
		}
		t, err := s.ret(c)
		if err != nil {
			return err
		}
		if !s.nulls {
			for _, a := range c.Args {
				t.NotNull = t.NotNull && a.Type().NotNull
			}
		}
		for _, a := range c.Args {
			if x := a.Type(); t.Kind == expr.Duration && x.Kind == expr.Duration && t.Scale == x.Scale {
				t.Precision = max(t.Precision, x.Precision)
			}
		}
		if t.Integer() {
			t.SQL = nil // a result may not fit the column that an argument is
		}
		c.T = t
		return nil
	}
	f.Eval = func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
		es, err := k.Exprs(c.Args)
		if err != nil {
			return nil, err
		}
		run, err := s.make(c, k)
		if err != nil {
			return nil, err
		}
		r := expr.NewRowFunc(c.T, es, paced(k.Env, run, s.again(c, k)))
		r.Nulls, r.Env = s.nulls, k.Env
		return r, nil
	}
	expr.Register(f)
	for _, n := range names[1:] {
		expr.Synonym(n, f)
	}
}

// again makes the function for calls that run aside; nil: none does.
func (s sig) again(c *expr.Call, k *expr.Compiler) *call {
	if s.volatile || s.ordered || s.perStatement {
		return nil
	}
	return &call{env: k.Env, long: longArgs, make: func(env *expr.Env) (rowEval, error) {
		with := *k
		with.Env = env
		return s.make(c, &with)
	}}
}

// bytesBetween is how many bytes of strings functions get between two questions whether the
// statement may go on: a batch of rows may have hundreds of megabytes.
const bytesBetween = 256 << 10

// paced asks now and then whether the statement may go on, and runs long calls aside unless c is
// nil.
func paced(env *expr.Env, run rowEval, c *call) rowEval {
	if env == nil || env.Ctx == nil {
		return run
	}
	if c != nil {
		c.run = run
		run = c.eval
	}
	n := 0
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		if n += 64 + together(a, i); n >= bytesBetween {
			n = 0
			if err := env.Err(); err != nil {
				return err
			}
		}
		return run(a, i, v)
	}
}

func (s sig) letter(i int) byte {
	if s.args == "" {
		return '*'
	}
	return s.args[min(i, len(s.args)-1)]
}

func (s sig) coerce(n expr.Node, letter byte) expr.Node {
	t := n.Type()
	if t.Kind == expr.Null && letter != 'n' {
		return n
	}
	switch letter {
	case 's':
		if !t.Stringy() {
			return expr.CastTo(n, textOf(t))
		}
	case 'b':
		if !t.Stringy() && t.Kind != expr.JSON {
			return expr.CastTo(n, textOf(t))
		}
	case 'i':
		if t.Kind != expr.Int && t.Kind != expr.Uint {
			return rounded(n)
		}
	case 'f':
		return expr.CastTo(expr.Exact(n), expr.TypeFloat)
	case 'n':
		return expr.CastTo(expr.Exact(n), expr.Number(expr.Exact(n)))
	case 't':
		if !t.Dated() || t.Kind == expr.Timestamp {
			return expr.CastTo(n, expr.DatetimeType(6))
		}
	case 'd':
		if !t.Dated() || t.Kind == expr.Timestamp {
			return expr.CastTo(n, expr.DatetimeType(6))
		}
	case 'T':
		return expr.CastTo(n, expr.TimeType(6))
	case 'j':
		return expr.CastTo(n, expr.TypeJSON)
	}
	return n
}

// rounded is a value as a signed number; unsigned columns stay as they are.
func rounded(n expr.Node) expr.Node {
	t := expr.TypeInt
	if n.Type().Unsigned() {
		t = expr.TypeUint
	}
	if n.Type().Kind == t.Kind {
		return n
	}
	t.NotNull = n.Type().NotNull
	return &expr.Cast{Arg: n, T: t, Explicit: true}
}

// textOf is the type of a value as text.
func textOf(t expr.Type) expr.Type {
	coll, rank := t.Coll, t.Coercibility
	switch t.Kind {
	case expr.JSON:
		coll, rank = sql.Collation_utf8mb4_bin, expr.CoerceImplicit
	case expr.Enum, expr.Set, expr.Text, expr.Bytes:
	case expr.Bit:
		return expr.TextType((t.Length+7)/8, sql.Collation_binary, expr.CoerceImplicit)
	default:
		coll, rank = sql.Collation_Default, expr.CoerceNumeric
	}
	return expr.TextType(t.TextLength(), coll, rank)
}

func returns(t expr.Type) func(*expr.Call) (expr.Type, error) {
	return func(*expr.Call) (expr.Type, error) {
		t.NotNull = true
		return t, nil
	}
}

// compares is returns for functions that compare their first two arguments as texts. A mix of
// collations is an error also where nobody asks for the result.
func compares(t expr.Type) func(*expr.Call) (expr.Type, error) {
	return func(c *expr.Call) (expr.Type, error) {
		_, err := expr.MergeCollations(c.Fn.Name, true, c.Args[:2]...)
		t.NotNull = true
		return t, err
	}
}

// maybe is returns for functions that yield NULL for arguments that are not.
func maybe(t expr.Type) func(*expr.Call) (expr.Type, error) {
	return func(*expr.Call) (expr.Type, error) { return t.AsNull(), nil }
}

// textFrom is a string of the collation of the given arguments (all, if none are given).
func textFrom(length func(c *expr.Call) int, args ...int) func(*expr.Call) (expr.Type, error) {
	return func(c *expr.Call) (expr.Type, error) {
		var ns []expr.Node
		for _, i := range args {
			if i < len(c.Args) {
				ns = append(ns, c.Args[i])
			}
		}
		if len(args) == 0 {
			ns = c.Args
		}
		m, err := expr.MergeCollations(c.Fn.Name, false, ns...)
		if err != nil {
			return expr.Type{}, err
		}
		n := 0
		if length != nil {
			n = length(c)
		}
		t := stringResult(m, n)
		t.NotNull = true
		return t, nil
	}
}

// definite is f for functions that look for one of their first n arguments in another one: the
// collation of these must be definite.
func definite(n int, f func(*expr.Call) (expr.Type, error)) func(*expr.Call) (expr.Type, error) {
	return func(c *expr.Call) (expr.Type, error) {
		if args := c.Args[:min(n, len(c.Args))]; len(args) > 1 {
			if _, err := expr.MergeCollations(c.Fn.Name, true, args...); err != nil {
				return expr.Type{}, err
			}
		}
		return f(c)
	}
}

func orNull(f func(*expr.Call) (expr.Type, error)) func(*expr.Call) (expr.Type, error) {
	return func(c *expr.Call) (expr.Type, error) {
		t, err := f(c)
		return t.AsNull(), err
	}
}

// plain makes a rowEval that needs nothing of the call.
func plain(f rowEval) func(*expr.Call, *expr.Compiler) (rowEval, error) {
	return func(*expr.Call, *expr.Compiler) (rowEval, error) { return f, nil }
}

func lengthOf(i int) func(c *expr.Call) int {
	return func(c *expr.Call) int { return c.Args[i].Type().Length }
}
