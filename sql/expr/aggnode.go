package expr

import "strings"

// AggFunc is an aggregate function.
type AggFunc struct {
	Name     string
	Min, Max int
	// Zero is set for those whose value is not NULL without rows (COUNT, BIT_*).
	Zero bool
	// derive sets the type of a call and wraps its arguments in casts.
	derive func(*Agg) error
	// acc makes the accumulator.
	acc func(*Agg, *Env) (Acc, error)
}

var aggFuncs = map[string]*AggFunc{}

// LookupAgg finds an aggregate by its name; nil if there is none.
func LookupAgg(name string) *AggFunc { return aggFuncs[strings.ToLower(name)] }

// NewAgg makes a call of an aggregate. COUNT(*) has no arguments.
func NewAgg(f *AggFunc, args []Node, distinct bool, order []SortKey, sep string) (Node, error) {
	if len(args) < f.Min || f.Max >= 0 && len(args) > f.Max {
		return nil, errArgs(f.Name)
	}
	a := &Agg{Fn: f, Args: append([]Node(nil), args...), Distinct: distinct, Order: order, Sep: sep}
	return a, f.derive(a)
}

// Acc accumulates one aggregate for many groups. Groups are numbered from 0.
type Acc interface {
	// Args are the nodes whose values Add wants.
	Args() []Node
	// Grow makes room for groups 0 to n-1.
	Grow(n int)
	// Add takes the selected rows of the vectors, which are those of Args: row sel[i] belongs to
	// groups[i]. b is the batch they come from.
	Add(groups []int32, args []*Vec, sel []int32) error
	// Result fills v with the values of groups 0 to n-1.
	Result(v *Vec, n int) error
	// Bytes estimates the memory that is held, besides what Grow takes per group.
	Bytes() int64
	// Reset forgets all groups.
	Reset()
}
