package algebra

import (
	"maps"

	"github.com/godwitdb/godwit/sql/expr"
)

// Determined are the columns of r and of what it is made of that have one value in all rows that
// agree in some columns of r: these, and what follows from them by conditions that make columns
// equal to others or to constants, by unique keys without NULLs, by expressions, and by the keys of
// groups. Columns of other relations count as constants. (MySQL 8.0 Reference Manual, 12.19.4,
// functional dependence.)
func Determined(r Rel, from map[expr.ColID]bool) map[expr.ColID]bool {
	d := &determined{set: maps.Clone(from), own: map[expr.ColID]bool{}}
	Walk(r, func(r Rel) bool {
		for _, id := range r.Cols() {
			d.own[id] = true
		}
		return true
	})
	for d.grown = true; d.grown; {
		d.grown = false
		d.pass(r)
	}
	return d.set
}

type determined struct {
	set   map[expr.ColID]bool
	own   map[expr.ColID]bool // the columns that are no constants
	grown bool                // something was added in this pass
	// uses are what is determined below each use of a common table expression, by its own names.
	uses map[*Shared]*determined
}

// add adds columns to those that are determined.
func (d *determined) add(ids ...expr.ColID) {
	for _, id := range ids {
		if !d.set[id] {
			d.set[id], d.grown = true, true
		}
	}
}

// pass goes through the operators once, and adds what follows in their rows from what is known by
// now.
func (d *determined) pass(r Rel) {
	switch r := r.(type) {
	case *Scan:
		d.whole(r)
	case *Filter:
		d.pass(r.In)
		d.equal(r.Conds)
	case *Project:
		for _, it := range r.Items {
			if c, ok := it.Node.(*expr.Col); ok && d.set[it.ID] {
				d.add(c.ID)
			}
		}
		d.pass(r.In)
		d.computed(r.Items)
	case *Join:
		d.pass(r.L)
		switch r.Kind {
		case Inner:
			d.pass(r.R)
			d.equal(r.On)
		case Left, Single:
			d.matched(r.R, r.On)
		}
	case *Apply:
		d.pass(r.L)
	case *GroupBy:
		d.group(r)
	case *Values:
		if len(r.Rows) == 1 {
			d.add(r.IDs...)
		}
	case *Max1Row:
		d.add(r.Cols()...)
	case *Shared:
		d.shared(r)
	case *Sort, *Limit, *Distinct, *Window, *Unfold:
		d.pass(r.Inputs()[0])
	}
}

// whole adds all columns of a table of which a unique key is determined. A column of a key that may
// be NULL does not tell rows apart.
func (d *determined) whole(s *Scan) {
	cols := s.Table.Columns()
	for _, x := range s.Table.Indexes() {
		key := (x.Unique || x.Primary) && len(x.Cols) > 0
		for _, c := range x.Cols {
			key = key && d.set[s.IDs[c.Col]] && c.Prefix == 0 && cols[c.Col].Type.NotNull
		}
		if key {
			d.add(s.IDs...)
			return
		}
	}
}

// equal adds the columns that conditions make equal to what is determined.
func (d *determined) equal(conds []expr.Node) {
	for _, n := range conds {
		if c, ok := n.(*expr.Call); ok && c.Fn.Name == "=" {
			d.equals(c.Args[0], c.Args[1])
			d.equals(c.Args[1], c.Args[0])
		}
	}
}

func (d *determined) equals(a, b expr.Node) {
	c, ok := a.(*expr.Col)
	if !ok || d.set[c.ID] || c.T.Stringy() && !expr.Equal(a, b) && !b.Type().Same(c.T) {
		return
	}
	all := true
	expr.Walk(b, func(n expr.Node) bool {
		switch n := n.(type) {
		case *expr.Col:
			all = all && d.constant(n.ID)
		case *expr.Const, *expr.Param, *expr.Cast:
		default:
			all = false
		}
		return all
	})
	if all {
		d.add(c.ID)
	}
}

func (d *determined) constant(id expr.ColID) bool { return d.set[id] || !d.own[id] }

// follows reports whether an expression has one value, since its columns have.
func (d *determined) follows(n expr.Node) bool {
	all := !expr.Volatile(n)
	expr.Walk(n, func(n expr.Node) bool {
		switch n := n.(type) {
		case *expr.Col:
			all = all && d.constant(n.ID)
		case *expr.Sub:
			all = false
		}
		return all
	})
	return all
}

func (d *determined) computed(items []Item) {
	for _, it := range items {
		if d.follows(it.Node) {
			d.add(it.ID)
		}
	}
}

// matched is about the right side of a left join, whose columns are NULL where there is no match.
// Of what is determined among its rows holds here what a column determines that is never NULL among
// them, since it tells the rows without a match from the others; and if what the conditions use of
// the left side is determined, all that they and it determine: there is a match for all rows, or
// for none.
func (d *determined) matched(r Rel, on []expr.Node) {
	for _, id := range r.Cols() {
		if d.set[id] && notNull(r, id) {
			d.pass(r)
			break
		}
	}
	right := map[expr.ColID]bool{}
	for _, id := range r.Cols() {
		right[id] = true
	}
	for _, n := range on {
		all := !expr.Volatile(n)
		expr.Walk(n, func(n expr.Node) bool {
			switch n := n.(type) {
			case *expr.Col:
				all = all && (right[n.ID] || d.constant(n.ID))
			case *expr.Sub:
				all = false
			}
			return all
		})
		if !all {
			return
		}
	}
	d.pass(&Filter{In: r, Conds: on})
}

func (d *determined) group(r *GroupBy) {
	if r.Rollup {
		return // rows of sums have NULLs in place of keys
	}
	for _, k := range r.Keys {
		if c, ok := k.Node.(*expr.Col); ok && d.set[k.ID] {
			d.add(c.ID)
		}
	}
	d.pass(r.In)
	d.computed(r.Keys)
	for _, k := range r.Keys {
		if !d.set[k.ID] {
			return
		}
	}
	d.add(r.Cols()...)
}

// shared goes by the names that this use of a common table expression gives to its columns: another
// use of it has the same ones below, of other rows.
func (d *determined) shared(r *Shared) {
	in := d.uses[r]
	if in == nil {
		in = &determined{set: map[expr.ColID]bool{}, own: d.own}
		if d.uses == nil {
			d.uses = map[*Shared]*determined{}
		}
		d.uses[r] = in
	}
	in.grown = false
	for i, id := range r.IDs {
		if d.set[id] {
			in.add(r.From[i])
		}
	}
	in.pass(r.In)
	for i, id := range r.IDs {
		if in.set[r.From[i]] {
			d.add(id)
		}
	}
	d.grown = d.grown || in.grown
}

// notNull reports whether a column is never NULL in the rows of r, where that is easily seen.
func notNull(r Rel, id expr.ColID) bool {
	switch r := r.(type) {
	case *Scan:
		for i, x := range r.IDs {
			if x == id {
				return r.Table.Columns()[i].Type.NotNull
			}
		}
	case *Project:
		for _, it := range r.Items {
			if it.ID == id && !it.Pass() {
				return it.Node.Type().NotNull
			}
		}
		return notNull(r.In, id)
	case *GroupBy:
		for _, k := range r.Keys {
			if k.ID == id {
				return !r.Rollup && k.Node.Type().NotNull
			}
		}
	case *Join:
		return notNull(r.L, id) || r.Kind == Inner && notNull(r.R, id)
	case *Filter, *Sort, *Limit, *Distinct:
		return notNull(r.Inputs()[0], id)
	case *Shared:
		for i, x := range r.IDs {
			if x == id {
				return notNull(r.In, r.From[i])
			}
		}
	}
	return false
}
