package expr

import (
	"strings"

	"github.com/dolthub/vitess/go/mysql"
)

// Func is a scalar function or operator.
type Func struct {
	Name string
	// Min and Max are the numbers of arguments; Max is -1 if there is no limit.
	Min, Max int
	// Volatile functions have effects, or another value at each call (RAND, SLEEP, NEXTVAL ...).
	// They must not be folded, merged, moved or called less or more often.
	Volatile bool
	// PerStatement functions are constant in a statement, but not in a cached plan (NOW, USER
	// ...).
	PerStatement bool
	// Ordered functions are volatile, and are called row by row, in the order of the rows: each one
	// may see what those before it have done (user variables).
	Ordered bool
	// Derive sets the type of a call and wraps its arguments in casts.
	Derive func(*Call) error
	// Post, if there is one, puts something around a call that has its type.
	Post func(*Call) Node
	// Places, if there is one, makes the function for another div_precision_increment.
	Places func(n int) *Func
	// Signed, if there is one, is the function as NO_UNSIGNED_SUBTRACTION has it.
	Signed *Func
	// Eval makes the expression of a call; pred, if there is one, its faster form as a condition.
	Eval func(*Call, *Compiler) (Expr, error)
	pred func(*Call, *Compiler) (Pred, error)
}

var funcs = map[string]*Func{}

// Register adds functions. It is called by init functions only.
func Register(fs ...*Func) {
	for _, f := range fs {
		if _, ok := funcs[f.Name]; ok {
			panic("function " + f.Name + " is registered twice")
		}
		funcs[f.Name] = f
	}
}

// Synonym gives a function another name. It is called by init functions only.
func Synonym(name string, f *Func) { funcs[name] = f }

// Library, if it is set, finds functions that are not registered.
var Library func(name string) *Func

// Lookup finds a function or operator by its name; nil if it is unknown. Operators have the name
// of their sign ("+", "=", "<=>", "and", "like", "->>", ...); "neg" is the unary minus.
func Lookup(name string) *Func {
	name = strings.ToLower(name)
	if f, ok := funcs[name]; ok {
		return f
	}
	if Library != nil {
		return Library(name)
	}
	return nil
}

// NewCall makes a call: it checks the number of arguments, derives the type and inserts casts.
func NewCall(f *Func, args ...Node) (Node, error) {
	if len(args) < f.Min || f.Max >= 0 && len(args) > f.Max {
		return nil, ErrArgs(f.Name)
	}
	if f.Name == "between" && len(args) == 3 {
		if _, ok := args[0].(*Col); ok {
			return NewBetween(args[0], args[1], args[2])
		}
	}
	if n, err := expandTuples(f, args); n != nil || err != nil {
		return n, err
	}
	c := &Call{Fn: f, Args: append([]Node(nil), args...), given: append([]Node(nil), args...)}
	if err := f.Derive(c); err != nil {
		return nil, err
	}
	if f.Post != nil {
		return f.Post(c), nil
	}
	return c, nil
}

// ErrArgs is error 1582.
func ErrArgs(name string) error {
	return mysql.NewSQLError(1582, "42000", "Incorrect parameter count in the call to native function '%s'",
		strings.ToUpper(name))
}

// call is NewCall for functions that are known to exist.
func call(name string, args ...Node) (Node, error) { return NewCall(funcs[name], args...) }
