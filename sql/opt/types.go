package opt

import (
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// typesOf are the types of the columns that a relation yields.
func typesOf(r algebra.Rel) map[expr.ColID]expr.Type {
	out := map[expr.ColID]expr.Type{}
	addTypes(r, out)
	return out
}

func addTypes(r algebra.Rel, out map[expr.ColID]expr.Type) {
	switch r := r.(type) {
	case *algebra.Scan:
		cols := r.Table.Columns()
		for i, id := range r.IDs {
			out[id] = cols[i].Type
		}
	case *algebra.Values:
		for i, id := range r.IDs {
			if len(r.Rows) > 0 {
				out[id] = valuesType(r, i)
			}
		}
	case *algebra.Project:
		for _, it := range r.Items {
			out[it.ID] = it.Node.Type()
		}
	case *algebra.GroupBy:
		for _, k := range r.Keys {
			out[k.ID] = k.Node.Type()
			if r.Rollup {
				out[k.ID] = k.Node.Type().AsNull()
			}
		}
		for _, a := range r.Aggs {
			out[a.ID] = a.Call.T
		}
		if r.Level != 0 {
			out[r.Level] = expr.TypeInt
		}
	case *algebra.Join:
		addJoined(r.Kind, r.L, r.R, r.MarkID, out)
	case *algebra.Apply:
		addJoined(r.Kind, r.L, r.R, r.MarkID, out)
	case *algebra.SetOp:
		putTypes(out, r.IDs, r.Types)
	case *algebra.RecursiveCTE:
		putTypes(out, r.IDs, r.Types)
	case *algebra.Shared:
		putTypes(out, r.IDs, r.Types)
	case *algebra.CTERef:
		putTypes(out, r.IDs, r.Types)
	case *algebra.Max1Row: // a row of NULLs if there is none
		for id, t := range typesOf(r.In) {
			out[id] = t.AsNull()
		}
	case *algebra.Unfold:
		addTypes(r.In, out)
		putTypes(out, r.IDs, r.Types())
	case *algebra.Window:
		addTypes(r.In, out)
		for _, f := range r.Funcs {
			out[f.ID] = f.Type
		}
	default:
		for _, in := range r.Inputs() {
			addTypes(in, out)
		}
	}
}

func valuesType(r *algebra.Values, i int) expr.Type {
	t := r.Rows[0][i].Type()
	for _, row := range r.Rows {
		if !row[i].Type().NotNull {
			t.NotNull = false
		}
	}
	return t
}

func putTypes(out map[expr.ColID]expr.Type, ids []expr.ColID, types []expr.Type) {
	for i, id := range ids {
		out[id] = types[i]
	}
}

func addJoined(k algebra.JoinKind, l, r algebra.Rel, mark expr.ColID, out map[expr.ColID]expr.Type) {
	addTypes(l, out)
	switch {
	case k == algebra.Mark:
		out[mark] = expr.TypeBool
	case k.Both():
		t := typesOf(r)
		for id, x := range t {
			if k != algebra.Inner {
				x.NotNull = false
			}
			out[id] = x
		}
	}
}
