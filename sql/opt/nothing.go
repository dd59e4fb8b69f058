package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// A relation that has no rows, whatever the tables have, is a filter with a condition that is never
// TRUE. It is found while conditions are pushed down, and taken up as far as it keeps its meaning:
// an inner join with such a side has no rows either. Nothing below it is read, nor locked.

// nothing is a relation with the columns of r, and no rows.
func nothing(r algebra.Rel) algebra.Rel {
	if isNothing(r) {
		return r
	}
	return &algebra.Filter{In: r, Conds: []expr.Node{expr.Bool(false)}}
}

// isNothing reports whether r has been found to have no rows.
func isNothing(r algebra.Rel) bool {
	f, ok := r.(*algebra.Filter)
	return ok && slices.ContainsFunc(f.Conds, never)
}

// yieldsNothing reports whether an operator has no rows because of its inputs, or of what it joins
// them by.
func yieldsNothing(r algebra.Rel) bool {
	switch r := r.(type) {
	case *algebra.Filter:
		return isNothing(r) || yieldsNothing(r.In)
	case *algebra.Join:
		right := r.Kind == algebra.Inner || r.Kind == algebra.Semi
		return isNothing(r.L) || right && (isNothing(r.R) || slices.ContainsFunc(r.On, never))
	case *algebra.Apply:
		return isNothing(r.L)
	case *algebra.GroupBy:
		return len(r.Keys) > 0 && !r.Rollup && isNothing(r.In) // without keys it has one row
	case *algebra.SetOp:
		return isNothing(r.L) && isNothing(r.R)
	case *algebra.Project, *algebra.Sort, *algebra.Distinct, *algebra.Window, *algebra.Limit:
		return isNothing(r.Inputs()[0])
	}
	return false
}

// nothingPlan is the plan of a relation without rows.
func nothingPlan(r algebra.Rel, need set) *Plan {
	all := typesOf(r)
	var ids []expr.ColID
	types := []expr.Type{}
	for _, id := range r.Cols() {
		if need[id] {
			ids, types = append(ids, id), append(types, all[id])
		}
	}
	return &Plan{Op: OpValues, Rowset: &algebra.Values{IDs: ids}, Types: types, Cols: ids}
}
