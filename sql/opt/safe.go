package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
)

// Limited reports whether a LIMIT bounds the rows of a plan.
func (p *Plan) Limited() bool {
	for p.Op != OpLimit && p.Op != OpTopN {
		if len(p.In) != 1 {
			return false
		}
		p = p.In[0]
	}
	return true
}

// ReadsWhole reports whether a plan reads a table without a key.
func (p *Plan) ReadsWhole(t algebra.Table) bool {
	if p.Op == OpScan && p.Scan.Table == t && len(p.Spans) == 0 && p.Read.Keys == nil {
		return true
	}
	return slices.ContainsFunc(p.In, func(in *Plan) bool { return in.ReadsWhole(t) })
}
