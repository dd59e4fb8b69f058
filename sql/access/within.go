package access

import (
	"bytes"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

var _ algebra.Parted = (*Table)(nil)

// PartColumn implements algebra.Parted.
func (t *Table) PartColumn() int {
	if t.st == nil || t.st.Def.HomesOf != nil {
		return -1
	}
	return t.st.Def.PartCol()
}

// places are the positions of the placements in which rows may lie whose column of PLACEMENT BY has
// a value in one of some spans.
func (t *Table) places(spans []exec.Span) ([]int, error) {
	out := []int{}
	for _, s := range spans {
		lo, none, err := t.partBound(s.Lo, s.LoOpen)
		if err != nil || none {
			return nil, err
		}
		hi, none, err := t.partBound(s.Hi, s.HiOpen)
		if err != nil || none {
			return nil, err
		}
		out = append(out, t.st.Def.PlacesBetween(lo, hi)...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// partBound is a bound of values of the column, nil if there is none. all: nothing can be said.
func (t *Table) partBound(vals []expr.Value, open bool) (key []byte, all bool, err error) {
	if len(vals) == 0 || vals[0].IsNull() {
		return nil, false, nil
	}
	c := t.st.Def.Cols[t.st.Def.PartCol()]
	conv, cmp, in, err := keyer{ctx: t.s.ctx}.fit(c, vals[0])
	if err != nil || cmp != 0 || in != sql.InRange {
		return nil, true, err
	}
	key, err = c.AppendKey(t.s.ctx, nil, conv, 0)
	return bytes.Clone(key), false, err
}

// PartNames implements algebra.Parted: the bounds are values of package expr.
func (t *Table) PartNames(spans [][2][]expr.Value) []string {
	var read []exec.Span
	for _, s := range spans {
		read = append(read, exec.Span{Lo: s[0], Hi: s[1]})
	}
	var in []int
	if spans != nil {
		in, _ = t.places(read)
	}
	var names []string
	for at, p := range t.st.Def.Places() {
		if in != nil && !slices.Contains(in, at) {
			continue
		}
		name := "NONE"
		if pl := t.st.Env.DB.Topology().Placement(p.ID); pl != nil {
			if name = pl.Name; pl.Set != nil {
				name += " AT " + t.st.Env.DB.Topology().RegionName(pl.Regions[0])
			}
		}
		names = append(names, name)
	}
	return names
}
