package expr

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// rowEval computes the value at i of a call from its arguments.
type rowEval func(a []*Vec, i int32, v *Vec) error

// sig describes a function that is computed value by value.
type sig struct {
	names    string // the first is the name, others are synonyms
	min, max int
	// args has a letter for each argument, the last one for all further ones: s text, b bytes or
	// text as it is, i whole number, f double, n number as it is, t date with time, T duration,
	// d date, j JSON, * as it is.
	args string
	ret  func(c *Call) (Type, error)
	// nulls lets the function see NULLs.
	nulls        bool
	volatile     bool
	perStatement bool
	make         func(c *Call, k *compiler) (rowEval, error)
}

func (s sig) register() {
	names := strings.Fields(s.names)
	f := &Func{Name: names[0], Min: s.min, Max: s.max, Volatile: s.volatile, PerStatement: s.perStatement}
	f.derive = func(c *Call) error {
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
		c.T = t
		return nil
	}
	f.eval = func(c *Call, k *compiler) (Expr, error) {
		es, err := k.exprs(c.Args)
		if err != nil {
			return nil, err
		}
		run, err := s.make(c, k)
		if err != nil {
			return nil, err
		}
		r := newRowFunc(c.T, es, run)
		r.nulls = s.nulls
		return r, nil
	}
	register(f)
	for _, n := range names[1:] {
		funcs[n] = f
	}
}

func (s sig) letter(i int) byte {
	if s.args == "" {
		return '*'
	}
	return s.args[min(i, len(s.args)-1)]
}

func (s sig) coerce(n Node, letter byte) Node {
	t := n.Type()
	if t.Kind == Null && letter != 'n' {
		return n
	}
	switch letter {
	case 's':
		if !t.Stringy() {
			return castTo(n, textOf(t))
		}
	case 'b':
		if !t.Stringy() && t.Kind != JSON {
			return castTo(n, textOf(t))
		}
	case 'i':
		if t.Kind != Int && t.Kind != Uint {
			return rounded(n)
		}
	case 'f':
		return castTo(exact(n), TypeFloat)
	case 'n':
		return castTo(exact(n), number(exact(n)))
	case 't':
		if !t.Dated() || t.Kind == Timestamp {
			return castTo(n, DatetimeType(6))
		}
	case 'd':
		if !t.Dated() || t.Kind == Timestamp {
			return castTo(n, DatetimeType(6))
		}
	case 'T':
		return castTo(n, TimeType(6))
	case 'j':
		return castTo(n, TypeJSON)
	}
	return n
}

// rounded is a value as a signed number; unsigned columns stay as they are.
func rounded(n Node) Node {
	t := TypeInt
	if n.Type().Unsigned() {
		t = TypeUint
	}
	if n.Type().Kind == t.Kind {
		return n
	}
	t.NotNull = n.Type().NotNull
	return &Cast{Arg: n, T: t, Explicit: true}
}

// textOf is the type of a value as text.
func textOf(t Type) Type {
	coll, rank := t.Coll, t.Coercibility
	switch t.Kind {
	case JSON:
		coll, rank = sql.Collation_utf8mb4_bin, CoerceImplicit
	case Enum, Set, Text, Bytes:
	case Bit:
		return TextType((t.Length+7)/8, sql.Collation_binary, CoerceImplicit)
	default:
		coll, rank = sql.Collation_Default, CoerceNumeric
	}
	return TextType(t.textLength(), coll, rank)
}

func returns(t Type) func(*Call) (Type, error) {
	return func(*Call) (Type, error) {
		t.NotNull = true
		return t, nil
	}
}

// maybe is returns for functions that yield NULL for arguments that are not.
func maybe(t Type) func(*Call) (Type, error) {
	return func(*Call) (Type, error) { return t.AsNull(), nil }
}

// textFrom is a string of the collation of the given arguments (all, if none are given).
func textFrom(length func(c *Call) int, args ...int) func(*Call) (Type, error) {
	return func(c *Call) (Type, error) {
		var ns []Node
		for _, i := range args {
			if i < len(c.Args) {
				ns = append(ns, c.Args[i])
			}
		}
		if len(args) == 0 {
			ns = c.Args
		}
		m, err := mergeCollations(c.Fn.Name, false, ns...)
		if err != nil {
			return Type{}, err
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

func orNull(f func(*Call) (Type, error)) func(*Call) (Type, error) {
	return func(c *Call) (Type, error) {
		t, err := f(c)
		return t.AsNull(), err
	}
}

// plain makes a rowEval that needs nothing of the call.
func plain(f rowEval) func(*Call, *compiler) (rowEval, error) {
	return func(*Call, *compiler) (rowEval, error) { return f, nil }
}

func lengthOf(i int) func(c *Call) int {
	return func(c *Call) int { return c.Args[i].Type().Length }
}
