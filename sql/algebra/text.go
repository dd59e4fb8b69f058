package algebra

import (
	"fmt"
	"strings"

	"github.com/godwitdb/godwit/sql/expr"
)

// Text is the tree as tests and EXPLAIN show it: an operator a line, what is below it indented.
func Text(r Rel) string {
	var b strings.Builder
	text(&b, r, 0)
	return b.String()
}

func text(b *strings.Builder, r Rel, depth int) {
	fmt.Fprintf(b, "%s%s\n", strings.Repeat("  ", depth), line(r))
	for _, n := range r.Nodes() {
		expr.Walk(n, func(n expr.Node) bool {
			if s, ok := n.(*expr.Sub); ok {
				if q, ok := s.Rel.(Rel); ok {
					fmt.Fprintf(b, "%ssubquery outer=%v\n", strings.Repeat("  ", depth+1), s.Outer)
					text(b, q, depth+2)
				}
			}
			return true
		})
	}
	for _, in := range r.Inputs() {
		text(b, in, depth+1)
	}
	if s, ok := r.(*Shared); ok {
		text(b, s.In, depth+1)
	}
}

func line(r Rel) string {
	switch r := r.(type) {
	case *Scan:
		return fmt.Sprintf("scan %s %s", r.Alias, colNames(r))
	case *Values:
		return fmt.Sprintf("values %v rows=%d", r.IDs, len(r.Rows))
	case *Filter:
		return "filter " + nodes(r.Conds)
	case *Project:
		return "project " + items(r.Items)
	case *Join:
		return fmt.Sprintf("join %s%s on %s%s", r.Kind, mark(r.Kind, r.MarkID), nodes(r.On), also(r.Also))
	case *Apply:
		return fmt.Sprintf("apply %s%s outer=%v on %s%s", r.Kind, mark(r.Kind, r.MarkID), r.Outer, nodes(r.On), also(r.Also))
	case *GroupBy:
		return groupLine(r)
	case *Window:
		return windowLine(r)
	}
	return shortLine(r)
}

func shortLine(r Rel) string {
	switch r := r.(type) {
	case *SetOp:
		all := ""
		if r.All {
			all = " all"
		}
		return fmt.Sprintf("%s%s %v = %v, %v", r.Kind, all, r.IDs, r.LeftCols, r.RightCols)
	case *Sort:
		return "sort " + orders(r.Keys)
	case *Limit:
		s := "limit"
		if r.Count != nil {
			s += " " + r.Count.String()
		}
		if r.Offset != nil {
			s += " offset " + r.Offset.String()
		}
		return s
	case *Distinct:
		return fmt.Sprintf("distinct %v", r.On)
	case *Max1Row:
		return "max1row"
	case *Unfold:
		return fmt.Sprintf("json_table %s %v of %s", r.Name, r.IDs, r.Doc)
	case *Shared:
		return fmt.Sprintf("shared %s#%d %v = %v", r.Name, r.Number, r.IDs, r.From)
	case *RecursiveCTE:
		return fmt.Sprintf("recursive %s %v = %v, %v", r.Name, r.IDs, r.SeedCols, r.StepCols)
	case *CTERef:
		return fmt.Sprintf("ref %s %v", r.Name, r.IDs)
	}
	return fmt.Sprintf("%T", r)
}

func also(ns []expr.Node) string {
	if len(ns) == 0 {
		return ""
	}
	return " also " + nodes(ns)
}

func mark(k JoinKind, id expr.ColID) string {
	if k != Mark {
		return ""
	}
	return fmt.Sprintf(" @%d", id)
}

func colNames(s *Scan) string {
	cols := s.Table.Columns()
	out := make([]string, len(s.IDs))
	for i, id := range s.IDs {
		out[i] = fmt.Sprintf("%s@%d", cols[i].Name, id)
	}
	return strings.Join(out, " ")
}

func nodes(ns []expr.Node) string {
	if len(ns) == 0 {
		return "true"
	}
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = n.String()
	}
	return strings.Join(out, " and ")
}

func items(its []Item) string {
	out := make([]string, len(its))
	for i, it := range its {
		if out[i] = it.Node.String(); !it.Pass() {
			out[i] = fmt.Sprintf("@%d=%s", it.ID, it.Node)
		}
	}
	return strings.Join(out, ", ")
}

func orders(os []Order) string {
	out := make([]string, len(os))
	for i, o := range os {
		if out[i] = o.Expr.String(); o.Desc {
			out[i] += " desc"
		}
	}
	return strings.Join(out, ", ")
}

func groupLine(r *GroupBy) string {
	s := "group"
	if len(r.Keys) > 0 {
		s += " by " + items(r.Keys)
	}
	if r.Rollup {
		s += " with rollup"
	}
	for _, a := range r.Aggs {
		s += fmt.Sprintf(" @%d=%s", a.ID, a.Call)
	}
	return s
}

func windowLine(r *Window) string {
	s := "window"
	if len(r.Partition) > 0 {
		s += " partition by " + strings.ReplaceAll(nodes(r.Partition), " and ", ", ")
	}
	if len(r.Order) > 0 {
		s += " order by " + orders(r.Order)
	}
	for _, f := range r.Funcs {
		s += fmt.Sprintf(" @%d=%s", f.ID, &f)
	}
	return s
}

var boundNames = [...]string{"unbounded preceding", "preceding", "current row", "following", "unbounded following"}

// String is the end of a frame in SQL, in lower case.
func (b Bound) String() string {
	s := boundNames[b.Kind]
	if b.N == nil {
		return s
	}
	if b.Unit != "" {
		return "interval " + b.N.String() + " " + b.Unit + " " + s
	}
	return b.N.String() + " " + s
}

// String is the call without the window, but with the frame of a function that has one.
func (f *WinFunc) String() string {
	if f.Agg != nil {
		return f.Agg.String() + f.Frame.String()
	}
	args := make([]string, len(f.Args))
	for i, a := range f.Args {
		args[i] = a.String()
	}
	s := fmt.Sprintf("%s(%s)", f.Func, strings.Join(args, ", "))
	if Framed(f.Func) {
		s += f.Frame.String()
	}
	return s
}

// Framed reports whether a function that is no aggregate looks at the frame.
func Framed(name string) bool {
	return name == "first_value" || name == "last_value" || name == "nth_value"
}

// String is the frame in SQL, in lower case; nothing for a whole partition.
func (f Frame) String() string {
	unit := " range"
	if f.Rows {
		unit = " rows"
	}
	if f.Lo.Kind == UnboundedPreceding && f.Hi.Kind == UnboundedFollowing {
		return ""
	}
	return unit + " between " + f.Lo.String() + " and " + f.Hi.String()
}
