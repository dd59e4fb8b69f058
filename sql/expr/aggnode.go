package expr

import "strings"

// AggFunc is an aggregate function.
type AggFunc struct {
	Name     string
	Min, Max int
	// Zero is set for those whose value is not NULL without rows (COUNT, BIT_*).
	Zero bool
	// Derive sets the type of a call and wraps its arguments in casts.
	Derive func(*Agg) error
	// Places, if there is one, makes the function for another div_precision_increment.
	Places func(n int) *AggFunc
	// Acc makes the accumulator.
	Acc func(*Agg, *Env) (Acc, error)
	// Sliding, if there is one, makes an accumulator that is a Remover, where that of Acc is none.
	Sliding func(*Agg, *Env) (Acc, error)
}

var aggFuncs = map[string]*AggFunc{}

// RegisterAgg adds an aggregate with its synonyms. It is called by init functions only.
func RegisterAgg(f *AggFunc, names ...string) {
	f.Name = names[0]
	for _, n := range names {
		aggFuncs[n] = f
	}
}

// LookupAgg finds an aggregate by its name; nil if there is none.
func LookupAgg(name string) *AggFunc { return aggFuncs[strings.ToLower(name)] }

// exactAggs compute with all digits of a quotient, others, and DISTINCT, with those that it shows.
var exactAggs = map[string]bool{
	"sum": true, "avg": true, "var_pop": true, "variance": true, "var_samp": true,
	"std": true, "stddev": true, "stddev_pop": true, "stddev_samp": true,
}

// NewAgg makes a call of an aggregate. COUNT(*) has no arguments.
func NewAgg(f *AggFunc, args []Node, distinct bool, order []SortKey, sep string) (Node, error) {
	if len(args) < f.Min || f.Max >= 0 && len(args) > f.Max {
		return nil, ErrArgs(f.Name)
	}
	a := &Agg{Fn: f, Args: append([]Node(nil), args...), Distinct: distinct, Order: order, Sep: sep}
	if exactAggs[f.Name] && !distinct {
		for i := range a.Args {
			a.Args[i] = Exact(a.Args[i])
		}
	}
	return a, f.Derive(a)
}

// Shown is the value of an aggregate, n, with the digits that are shown, as those of a quotient. Of
// no aggregate (nil) it is n.
func (a *Agg) Shown(n Node) Node {
	if a == nil || a.Digits == 0 {
		return n
	}
	return roundQuotient(n, a.Digits)
}

// Inputs are the nodes whose values the accumulator of a wants: the arguments, then the keys of
// ORDER BY.
func (a *Agg) Inputs() []Node { return a.Children() }

// Acc accumulates one aggregate for many groups. Groups are numbered from 0.
type Acc interface {
	// Grow makes room for groups 0 to n-1.
	Grow(n int)
	// Add takes the selected rows of the vectors, which are those of Agg.Inputs: row sel[k]
	// belongs to groups[k].
	Add(groups []int32, in []*Vec, sel []int32) error
	// Result fills v with the values of the groups from to to-1.
	Result(v *Vec, from, to int) error
	// Bytes estimates the memory that is held.
	Bytes() int64
	// Reset forgets all groups.
	Reset()
}

// Remover is an accumulator that can forget rows that were added, exactly. A window that slides
// asks for it.
type Remover interface {
	Remove(groups []int32, in []*Vec, sel []int32) error
}
