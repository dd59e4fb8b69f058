package expr

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"
)

// DefaultCollation is that of text to which nothing gives another one.
const DefaultCollation = sql.Collation_Default

// UserVarType is the type of a user variable that a value of a type was assigned to: a number stays
// one, and all others are text.
func UserVarType(t Type) Type {
	out := t
	switch t.Kind {
	case Null:
		return TypeNull
	case Int, Year:
		out = TypeInt
	case Uint, Bit:
		out = TypeUint
	case Decimal:
	case Float:
		out = TypeFloat
	case Text, Bytes:
		out = TextType(0, t.Coll, CoerceImplicit)
	case Enum, Set:
		out = TextType(0, t.Coll, CoerceImplicit)
	case JSON:
		out = TextType(0, sql.Collation_utf8mb4_bin, CoerceImplicit)
	default:
		out = TextType(0, sql.Collation_Default, CoerceImplicit)
	}
	out.NotNull = t.NotNull
	return out
}

// UserVarMerged is the type of a user variable that a statement assigns values of several types to.
func UserVarMerged(a, b Type) Type {
	a, b = UserVarType(a), UserVarType(b)
	switch {
	case a.Kind == Null:
		return wide(b)
	case b.Kind == Null || a.Kind == b.Kind && a.Kind != Decimal:
		return wide(a)
	case !a.Numeric():
		return a
	case !b.Numeric():
		return b
	case a.Kind == Float || b.Kind == Float:
		return TypeFloat
	}
	return DecimalType(MaxPrecision, max(scaleOf(a), scaleOf(b)))
}

// wide is a type of decimals with room for sums.
func wide(t Type) Type {
	if t.Kind == Decimal {
		t = DecimalType(MaxPrecision, t.Scale)
	}
	t.NotNull = false
	return t
}

func scaleOf(t Type) int {
	if t.Kind == Decimal {
		return t.Scale
	}
	return 0
}

// Converted is a value of one type as one of another.
func Converted(x Value, from, to Type, env *Env) (Value, error) {
	if x.IsNull() || from.Same(to) && (from.Kind != Decimal || from.Scale == to.Scale) {
		return x, nil
	}
	if to.Kind == Null {
		return Value{}, nil
	}
	return EvalConst(&Cast{Arg: &Const{V: x, T: from}, T: to}, env)
}

// Ordered reports whether an expression must be evaluated row by row, in the order of the rows.
func Ordered(n Node) bool {
	found := false
	Walk(n, func(n Node) bool {
		if c, ok := n.(*Call); ok && c.Fn.Ordered {
			found = true
		}
		return !found
	})
	return found
}

// UserVarValue is a value of a variable in the engine's form.
func UserVarValue(x Value, t Type) (any, sql.Type, error) {
	if x.IsNull() {
		return nil, types.Null, nil
	}
	switch x.Kind {
	case Int:
		return x.I, types.Int64, nil
	case Uint:
		return uint64(x.I), types.Uint64, nil
	case Float:
		return x.F, types.Float64, nil
	case Decimal:
		d, err := decimal.NewFromString(x.Text(t))
		if err != nil {
			return nil, nil, err
		}
		return d, t.ClientType(), nil
	case Bytes:
		return []byte(x.S), types.LongBlob, nil
	}
	return strings.Clone(x.Text(t)), types.LongText, nil
}

// HasSub reports whether there is a subquery in an expression.
func HasSub(n Node) bool {
	found := false
	Walk(n, func(n Node) bool {
		_, ok := n.(*Sub)
		found = found || ok
		return !found
	})
	return found
}

// Volatile reports whether an expression has another value each time that it is computed.
func Volatile(n Node) bool {
	found := false
	Walk(n, func(n Node) bool {
		c, ok := n.(*Call)
		found = found || ok && c.Fn.Volatile
		return !found
	})
	return found
}

// mostRebinds is how often a statement is bound for the types of its variables. Those that still
// change then are text.
const mostRebinds = 4

// Assigned are the types of the user variables that a statement assigns, by lower name: those that
// are Known, and those Found while it is bound.
type Assigned struct{ Known, Found map[string]Type }

// NewAssigned begins one more binding of a statement.
func NewAssigned(known map[string]Type) *Assigned {
	if known == nil {
		known = map[string]Type{}
	}
	return &Assigned{known, map[string]Type{}}
}

// Settle binds a statement again and again until the types of its variables are known. now is the
// present value of a variable.
func Settle(now func(name string) (Node, error), coll sql.CollationID, bind func(*Assigned) error) error {
	known := map[string]Type{}
	for i := 0; ; i++ {
		a := NewAssigned(known)
		if err := bind(a); err != nil || len(a.Found) == 0 {
			return err
		}
		same := i > 0
		for name, t := range a.Found {
			if n, err := now(name); err == nil {
				t = UserVarMerged(n.Type(), t)
			}
			k, ok := known[name]
			if same = same && ok && k.Kind == t.Kind && k.Scale == t.Scale; i >= mostRebinds {
				t = TextType(0, coll, CoerceImplicit)
			}
			known[name] = t
		}
		if same || i > mostRebinds {
			return nil
		}
	}
}

// Find notes that a value of a type is assigned to a variable.
func (a *Assigned) Find(name string, t Type) {
	t = UserVarType(t)
	if f, ok := a.Found[name]; ok {
		t = UserVarMerged(f, t)
	}
	a.Found[name] = t
	if _, ok := a.Known[name]; !ok {
		a.Known[name] = t // for what stands behind it
	}
}
