package opt

import (
	"fmt"
	"strings"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// Tree is the plan as EXPLAIN FORMAT=TREE shows it, with or without costs.
func (p *Plan) Tree(costs bool) string {
	var b strings.Builder
	p.tree(&b, 0, costs, nil)
	return b.String()
}

// Analyzed is the plan with what its operators did.
func (p *Plan) Analyzed(m *Meter) string {
	var b strings.Builder
	p.tree(&b, 0, true, m)
	return b.String()
}

func (p *Plan) tree(b *strings.Builder, depth int, costs bool, m *Meter) {
	b.WriteString(strings.Repeat("    ", depth) + "-> " + p.Line())
	if costs {
		fmt.Fprintf(b, "  (cost=%.4g rows=%.4g)", p.Cost(), p.Rows)
	}
	b.WriteString(m.Of(p).text() + "\n")
	for _, in := range p.In {
		in.tree(b, depth+1, costs, m)
	}
}

// Line describes the operator itself.
func (p *Plan) Line() string {
	switch p.Op {
	case OpScan:
		return p.scanLine()
	case OpFilter:
		return "Filter: " + and(p.Conds)
	case OpProject:
		return "Project: " + itemsText(p.Items)
	case OpHashJoin, OpLoopJoin, OpLookupJoin, OpApply:
		return p.joinLine()
	case OpGroup:
		return p.groupLine()
	case OpSort:
		return "Sort: " + ordersText(p.Keys)
	case OpTopN:
		return "Sort: " + ordersText(p.Keys) + ", limit input to " + limitText(p)
	case OpLimit:
		return "Limit: " + limitText(p)
	}
	return p.otherLine()
}

func (p *Plan) otherLine() string {
	switch p.Op {
	case OpValues:
		if p.Types != nil {
			return "Zero rows (Impossible WHERE)"
		}
		return fmt.Sprintf("Rows fetched before execution: %d", len(p.Rowset.Rows))
	case OpDistinct:
		return "Deduplicate"
	case OpUnfold:
		return "Materialize table function " + p.Unfold.Name
	case OpMax1Row:
		return "At most one row"
	case OpSetOp:
		all := ""
		if p.Set.All {
			all = " all"
		}
		return strings.ToUpper(p.Set.Kind.String()[:1]) + p.Set.Kind.String()[1:] + all
	case OpWindow:
		var fs []string
		for _, f := range p.Window.Funcs {
			fs = append(fs, f.String())
		}
		return "Window: " + strings.Join(fs, ", ")
	case OpRecursive:
		return "Recursive " + p.CTE.Name
	case OpShared:
		return fmt.Sprintf("Table scan on %s, which is computed once (#%d)", p.Shared.Name, p.Shared.Number)
	case OpCTERef:
		return "Scan new records on " + p.Ref.Name
	}
	return "?"
}

func (p *Plan) scanLine() string {
	s := "Table scan on " + p.Scan.Alias
	if p.Index != "" {
		s = fmt.Sprintf("Index scan on %s using %s", p.Scan.Alias, p.Index)
		if p.Spans != nil {
			s = fmt.Sprintf("Index range scan on %s using %s over %s", p.Scan.Alias, p.Index, spansText(p.Spans))
		}
	}
	if in := p.Partitions(); in != nil {
		s += " in placements " + strings.Join(in, ", ")
	}
	if p.Read.Reverse {
		s += " (reverse)"
	}
	if p.Read.Limit > 0 {
		s += fmt.Sprintf(", at most %d rows", p.Read.Limit)
	}
	return s
}

func spansText(spans []span) string {
	var out []string
	for i, s := range spans {
		if i == 4 {
			out = append(out, fmt.Sprintf("and %d more", len(spans)-i))
			break
		}
		if s.Begins {
			out = append(out, "["+list(s.Lo)+" ...]")
			continue
		}
		lo, hi := "[", "]"
		if s.LoOpen {
			lo = "("
		}
		if s.HiOpen {
			hi = ")"
		}
		out = append(out, lo+list(s.Lo)+" .. "+list(s.Hi)+hi)
	}
	return strings.Join(out, " ")
}

func list(ns []expr.Node) string {
	var out []string
	for _, n := range ns {
		out = append(out, n.String())
	}
	return strings.Join(out, ", ")
}

func and(ns []expr.Node) string {
	if len(ns) == 0 {
		return "true"
	}
	var out []string
	for _, n := range ns {
		out = append(out, n.String())
	}
	return strings.Join(out, " and ")
}

func itemsText(items []algebra.Item) string {
	var out []string
	for _, it := range items {
		if it.Pass() {
			out = append(out, it.Node.String())
		} else {
			out = append(out, fmt.Sprintf("%s@%d = %s", it.Name, it.ID, it.Node))
		}
	}
	return strings.Join(out, ", ")
}

func ordersText(ks []algebra.Order) string {
	var out []string
	for _, k := range ks {
		s := k.Expr.String()
		if k.Desc {
			s += " DESC"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func limitText(p *Plan) string {
	s := "all rows"
	if p.Count != nil {
		s = p.Count.String() + " row(s)"
	}
	if p.Offset != nil {
		s += ", offset " + p.Offset.String()
	}
	return s
}

func (p *Plan) joinLine() string {
	kind := p.Kind.String() + " "
	if p.Kind == algebra.Mark {
		kind = fmt.Sprintf("mark @%d ", p.Mark)
	}
	switch p.Op {
	case OpApply:
		return fmt.Sprintf("Apply %sfor %v: %s", kind, p.Outer, and(p.Conds))
	case OpLoopJoin:
		return "Nested loop " + kind + "join: " + and(p.Conds)
	case OpLookupJoin:
		var keys []string
		for i := range p.LeftKeys {
			keys = append(keys, fmt.Sprintf("%s = %s", p.RightKeys[i], p.LeftKeys[i]))
		}
		return fmt.Sprintf("Lookup %sjoin on %s using %s (%s): %s", kind, p.Scan.Alias, p.Index,
			strings.Join(keys, ", "), and(p.Conds))
	}
	var keys []string
	for i := range p.LeftKeys {
		keys = append(keys, fmt.Sprintf("%s = %s", p.LeftKeys[i], p.RightKeys[i]))
	}
	s := "Hash " + kind + "join (" + strings.Join(keys, ", ") + ")"
	if len(p.Conds) > 0 {
		s += ": " + and(p.Conds)
	}
	return s
}

func (p *Plan) groupLine() string {
	s := "Aggregate: "
	if len(p.Group.Keys) > 0 {
		s = "Group by " + itemsText(p.Group.Keys) + ": "
		if p.Group.Rollup {
			s = "Group by " + itemsText(p.Group.Keys) + " with rollup: "
		}
	}
	var out []string
	for _, a := range p.Group.Aggs {
		out = append(out, fmt.Sprintf("%s@%d", a.Call, a.ID))
	}
	return s + strings.Join(out, ", ")
}
