package bound

import (
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/aside"
)

// A function of the engine cannot be interrupted, and takes up to 5 ns for each byte. So it is with
// conversions, and with comparisons, which take 25 ns. So a call whose arguments are long runs
// aside, and its statement waits for it no longer than it may go on.
//
// How long they are is only known once they are computed, which the function does itself. So its
// arguments are computed through [argument], which ends the call where they are too long: with
// errLong, that no function knows. Then the arguments that are left are computed, and the function
// is called again, aside, for what is known.

// LongCall is from how many bytes of arguments on a call runs aside.
const LongCall = 4 << 20

var errLong = errors.New("the arguments of a function are long")

// Call is a call of a function for one row after the other.
type Call struct {
	mu    sync.Mutex
	size  int   // of the arguments computed so far
	long  bool  // it is too much
	known []any // arguments, by place
	done  []bool
}

// argument is one of a call that may run aside.
type argument struct {
	sql.Expression
	call *Call
	at   int
}

// NewCall makes a call for arguments, and what stands for them in the function.
func NewCall(args []sql.Expression) (*Call, []sql.Expression) {
	call := &Call{known: make([]any, len(args)), done: make([]bool, len(args))}
	out := make([]sql.Expression, len(args))
	for i, a := range args {
		if known, ok := a.(*argument); ok {
			a = known.Expression
		}
		out[i] = &argument{a, call, i}
	}
	return call, out
}

// Children implements sql.Expression.
func (a *argument) Children() []sql.Expression { return []sql.Expression{a.Expression} }

// WithChildren implements sql.Expression.
func (a *argument) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(a, len(children), 1)
	}
	return &argument{children[0], a.call, a.at}, nil
}

// DebugString implements sql.DebugStringer.
func (a *argument) DebugString(ctx *sql.Context) string { return sql.DebugString(ctx, a.Expression) }

// CollationCoercibility implements sql.CollationCoercible.
func (a *argument) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, a.Expression)
}

// Eval implements sql.Expression.
func (a *argument) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := a.Expression.Eval(ctx, row)
	if err != nil {
		return v, err
	}
	c := a.call
	c.known[a.at], c.done[a.at] = v, true
	if c.size += length(v); c.size >= LongCall && !c.long {
		c.long = true
		return nil, errLong
	}
	return v, nil
}

// length is how long a text is.
func length(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 0
}

// Eval calls the function e, which has the arguments that NewCall made. A nil call just does so.
func (c *Call) Eval(ctx *sql.Context, e sql.Expression, row sql.Row) (any, error) {
	if c == nil {
		return e.Eval(ctx, row)
	}
	v, err := e.Eval(ctx, row)
	if c.long { // whatever the function has made of the error
		return c.apart(ctx, e, row)
	}
	return v, err
}

// Begin takes the call for one row; end gives it back. A nil one is nobody's.
func (c *Call) Begin() (end func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	return c.end
}

func (c *Call) end() {
	c.size, c.long = 0, false
	clear(c.known)
	clear(c.done)
	c.mu.Unlock()
}

// known is an argument that was computed.
type known struct {
	sql.Expression
	v any
}

// Eval implements sql.Expression.
func (k *known) Eval(*sql.Context, sql.Row) (any, error) { return k.v, nil }

// CollationCoercibility implements sql.CollationCoercible.
func (k *known) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, k.Expression)
}

// apart calls the function aside.
func (c *Call) apart(ctx *sql.Context, f sql.Expression, row sql.Row) (any, error) {
	hold := Holding(ctx)
	defer hold.Back()
	args := slices.Clone(f.Children())
	bytes := int64(0)
	for i, e := range args {
		var v any
		var err error
		a, ok := e.(*argument)
		if ok && c.done[a.at] {
			e, v = a.Expression, c.known[a.at]
		} else if v, err = e.Eval(ctx, row); err != nil {
			return nil, err
		}
		if v, err = sql.UnwrapAny(ctx, v); err != nil {
			return nil, err
		}
		if err = Take(hold, e, v); err != nil {
			return nil, err
		}
		bytes += int64(length(v))
		args[i] = &known{e, v}
	}
	call, err := f.WithChildren(ctx, args...)
	if err != nil {
		return nil, err
	}
	// The session belongs to the statement. What functions look at there are warnings, and
	// collations, which the arguments have.
	own := &warned{BaseSession: sql.NewBaseSession()}
	var v any
	var failed error
	ended := aside.Calls.Run(ctx, func() (func(), error) { return beyond(ctx, 2*bytes) }, func() {
		v, failed = call.Eval(sql.NewContext(ctx, sql.WithSession(own)), nil)
	})
	if ended != nil {
		return nil, Interrupted(ended)
	}
	for _, w := range own.all {
		ctx.Session.Warn(w)
	}
	return v, failed
}

// warned keeps warnings.
type warned struct {
	*sql.BaseSession
	all []*sql.Warning
}

// Warn implements sql.Session.
func (s *warned) Warn(w *sql.Warning) { s.all = append(s.all, w) }

// beyond counts n bytes that are in use after the statement, until release is called.
func beyond(ctx *sql.Context, n int64) (release func(), err error) {
	a := of(ctx)
	if a == nil {
		return func() {}, nil
	}
	all := a.mem.Parent()
	return func() { all.Shrink(n) }, all.Grow(n)
}

// Large is how long a value is that is counted.
const Large = 64 << 10

// Size is how long a text or a document is; beyond most it is not looked at any more.
func Size(v any, most int) int {
	n := 0
	var add func(v any)
	add = func(v any) {
		if n > most {
			return
		}
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		case types.JSONDocument:
			add(v.Val)
		case []any:
			n += 2 * len(v)
			for _, x := range v {
				add(x)
			}
		case map[string]any:
			for k, x := range v {
				n += len(k) + 6
				add(x)
			}
		default:
			n++
		}
	}
	add(v)
	return n
}

// Take counts an argument while its function is computed, unless it is there anyway.
func Take(hold *Hold, e sql.Expression, v any) error {
	switch e.(type) {
	case *expression.GetField, *expression.Literal:
		return nil
	}
	if Size(v, Large) < Large {
		return nil
	}
	return hold.Take(int64(Size(v, math.MaxInt)))
}

// apart is an expression that runs aside where its operands are long.
type apart struct {
	sql.Expression
	call *Call
}

// apartIfLong is an expression that runs aside where its operands are long, if they may be.
func apartIfLong(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	children := e.Children()
	if slices.ContainsFunc(children, func(c sql.Expression) bool { _, is := c.(*argument); return is || !c.Resolved() }) ||
		!slices.ContainsFunc(children, func(c sql.Expression) bool { return mayBeLong(ctx, c) }) {
		return e, transform.SameTree, nil
	}
	call, children := NewCall(children)
	e, err := e.WithChildren(ctx, children...)
	return &apart{e, call}, transform.NewTree, err
}

// mayBeLong reports whether an operand may be as long as a call that runs aside.
func mayBeLong(ctx *sql.Context, e sql.Expression) bool {
	if l, ok := e.(*expression.Literal); ok {
		return length(l.Value()) >= LongCall
	}
	switch t := e.Type(ctx).(type) {
	case sql.StringType:
		_, column := e.(*expression.GetField)
		return !column || t.MaxByteLength() >= LongCall // functions make longer texts than they say
	}
	return false
}

// comparing does for comparisons what interruptible does for other expressions, besides.
func comparing(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	switch e.(type) {
	case *expression.Equals, *expression.NullSafeEquals, *expression.LessThan, *expression.LessThanOrEqual,
		*expression.GreaterThan, *expression.GreaterThanOrEqual, *expression.Between:
		return apartIfLong(ctx, e)
	case *expression.InTuple, *expression.HashInTuple:
		return listed(ctx, e)
	}
	return interruptible(ctx, e)
}

// WithChildren implements sql.Expression.
func (a *apart) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	call, children := NewCall(children)
	e, err := a.Expression.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &apart{e, call}, nil
}

// DebugString implements sql.DebugStringer.
func (a *apart) DebugString(ctx *sql.Context) string { return sql.DebugString(ctx, a.Expression) }

// CollationCoercibility implements sql.CollationCoercible.
func (a *apart) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, a.Expression)
}

// Eval implements sql.Expression.
func (a *apart) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	defer a.call.Begin()()
	return a.call.Eval(ctx, a.Expression, row)
}
