package opt

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// maxSpans bounds the ranges that lists of constants make of one index.
const maxSpans = 256

// scan plans the read of a table with conditions, all of which are checked again above the read.
func (o *optimizer) scan(s *algebra.Scan, conds []expr.Node, need set) *Plan {
	o.learn(s)
	full := o.readAll(s, conds, need)
	if slices.ContainsFunc(conds, never) {
		ids, types := tableCols(s, full.Reads)
		return &Plan{Op: OpValues, Rowset: &algebra.Values{IDs: ids}, Types: types, Cols: ids}
	}
	if !o.opts.NoIndex {
		for i, x := range s.Table.Indexes() {
			if p := o.byIndex(s, i, x, conds, full); p != nil && p.Cost() < full.Cost() {
				full = p
			}
		}
	}
	return o.where(full, conds, need)
}

// never reports whether a condition is TRUE for no row, whatever it has. Then no row is read, nor
// locked.
func never(n expr.Node) bool {
	null := func(n expr.Node) bool {
		c, ok := n.(*expr.Const)
		return ok && c.V.IsNull()
	}
	switch n := n.(type) {
	case *expr.Const:
		return n.V.IsNull() || (n.V.Kind == expr.Int || n.V.Kind == expr.Uint) && n.V.I == 0
	case *expr.In:
		if n.Not {
			return null(n.Left) || slices.ContainsFunc(n.List, null)
		}
		return null(n.Left) || !slices.ContainsFunc(n.List, func(x expr.Node) bool { return !null(x) })
	case *expr.Call:
		_, compares := flipped[n.Fn.Name]
		return (compares || n.Fn.Name == "<>" || n.Fn.Name == "between") && slices.ContainsFunc(n.Args, null)
	}
	return false
}

// readAll reads the whole table.
func (o *optimizer) readAll(s *algebra.Scan, conds []expr.Node, need set) *Plan {
	p := &Plan{Op: OpScan, Scan: s, Read: exec.Read{Index: -1, Lock: lockOf(s.Lock), Wait: waitOf(s)},
		Rows: tableRows(s.Table), Within: o.within(s, conds), scanConds: conds}
	want := need.clone().addNodes(conds...)
	for i, id := range s.IDs {
		if want[id] {
			p.Reads, p.Cols = append(p.Reads, i), append(p.Cols, id)
		}
	}
	p.Read.Cols = p.Reads
	p.Lat = rtt(s.Table)
	p.CPU = p.Rows * (scanRow + o.lockCost(s))
	if p.Lat > 0 {
		p.CPU += p.Rows * s.Table.RowBytes() * byteCost
	}
	return p
}

func lockOf(k algebra.LockKind) exec.Lock {
	switch k {
	case algebra.ForUpdate:
		return exec.LockUpdate
	case algebra.ForShare:
		return exec.LockShare
	}
	return exec.LockNone
}

// waitOf is what a read does about locks that others hold.
func waitOf(s *algebra.Scan) exec.Wait {
	switch {
	case s.Lock == algebra.NoLock || s.Wait == algebra.Wait:
		return exec.WaitDefault
	case s.Wait == algebra.NoWait:
		return exec.WaitNot
	}
	return exec.WaitSkip
}

// hinted reports whether hints allow an index.
func hinted(s *algebra.Scan, name string) bool {
	is := func(n string) bool { return strings.EqualFold(n, name) }
	if slices.ContainsFunc(s.Ignore, is) {
		return false
	}
	return len(s.Use) == 0 || slices.ContainsFunc(s.Use, is)
}

// span is a range of an index, with bounds that are constants while the table is read.
type span = exec.SpanExpr

// bounds are what conditions say of one column.
type bounds struct {
	eq             []expr.Node // one of these
	lo, hi         expr.Node
	loOpen, hiOpen bool
	begin          *expr.Const // what texts begin with
}

// byIndex plans a read of ranges of an index; nil if the conditions say nothing of its first
// column.
func (o *optimizer) byIndex(s *algebra.Scan, pos int, x algebra.Index, conds []expr.Node, full *Plan) *Plan {
	if !hinted(s, x.Name) {
		return nil
	}
	spans, share, used := o.spans(s, x, conds, full.Rows)
	if used == 0 {
		return nil
	}
	p := *full
	p.Read.Index, p.Spans, p.Index = pos, spans, x.Name
	p.Rows = max(full.Rows*share, 0.1)
	per, trips := float64(scanRow), 1.0
	if p.Covered = !x.Primary && !o.opts.Locking && covers(x, p.Reads); !x.Primary && !p.Covered {
		per, trips = scanRow+lookupRow, 2
	}
	p.Lat = rtt(s.Table) * trips
	p.CPU = p.Rows*(per+o.lockCost(s)) + float64(len(spans))*2 + 5
	if p.Lat > 0 {
		p.CPU += p.Rows * s.Table.RowBytes() * byteCost
	}
	return &p
}

func covers(x algebra.Index, cols []int) bool {
	if x.Covers == nil {
		return x.Primary
	}
	for _, c := range cols {
		if !slices.Contains(x.Covers, c) {
			return false
		}
	}
	return true
}

// spans are the ranges of an index that conditions leave, and the share of rows in them; used is
// the number of columns that were bounded.
func (o *optimizer) spans(s *algebra.Scan, x algebra.Index, conds []expr.Node,
	rows float64) (out []span, share float64, used int) {
	prefix := [][]expr.Node{nil}
	share = 1
	cols := s.Table.Columns()
	for _, ic := range x.Cols {
		b := o.boundsOf(s.IDs[ic.Col], cols[ic.Col].Type, conds)
		if b == nil || ic.Desc {
			break
		}
		used++
		if b.eq == nil || len(prefix)*len(b.eq) > maxSpans {
			if b.begin != nil {
				for _, p := range prefix {
					p = append(slices.Clone(p), b.begin)
					out = append(out, span{Lo: p, Hi: p, Begins: true})
				}
				return out, share * o.rangeShare(s, ic.Col, b), used
			}
			if b.lo == nil && b.hi == nil {
				used--
				break
			}
			return ranged(prefix, b), share * o.rangeShare(s, ic.Col, b), used
		}
		var next [][]expr.Node
		for _, p := range prefix {
			for _, v := range b.eq {
				next = append(next, append(slices.Clone(p), v))
			}
		}
		prefix = next
		share *= min(1, float64(len(b.eq))/max(1, o.ndv[s.IDs[ic.Col]]))
		if ic.Prefix > 0 {
			break
		}
	}
	if used == 0 {
		return nil, 1, 0
	}
	if used == len(x.Cols) && (x.Unique || x.Primary) {
		share = min(share, float64(len(prefix))/max(1, rows))
	}
	for _, p := range prefix {
		out = append(out, span{Lo: p, Hi: p})
	}
	return out, share, used
}

func (o *optimizer) rangeShare(s *algebra.Scan, col int, b *bounds) float64 {
	if b.begin != nil {
		if f, ok := o.beginning(s.Table, col, b.begin); ok {
			return f
		}
		return 0.05
	}
	var lo, hi any
	if c, ok := b.lo.(*expr.Const); ok {
		lo = c.V
	}
	if c, ok := b.hi.(*expr.Const); ok {
		hi = c.V
	}
	if f, ok := s.Table.Fraction(col, lo, hi); ok {
		return f
	}
	if b.lo != nil && b.hi != nil {
		return 0.1
	}
	return 0.3
}

// beginning is the share of rows whose text begins with one.
func (o *optimizer) beginning(t algebra.Table, col int, begin *expr.Const) (share float64, ok bool) {
	last := begin.V
	last.S += string(utf8.MaxRune)
	return t.Fraction(col, begin.V, last)
}

// ranged are the ranges behind each prefix. NULL is in none of them.
func ranged(prefix [][]expr.Node, b *bounds) (out []span) {
	for _, p := range prefix {
		s := span{Lo: append(slices.Clone(p), expr.NullConst()), LoOpen: true, Hi: p, Null: true}
		if b.lo != nil {
			s.Lo, s.LoOpen, s.Null = append(slices.Clone(p), b.lo), b.loOpen, false
		}
		if b.hi != nil {
			s.Hi, s.HiOpen = append(slices.Clone(p), b.hi), b.hiOpen
		}
		out = append(out, s)
	}
	return out
}

// boundsOf gathers what conditions say of a column; nil if nothing.
func (o *optimizer) boundsOf(id expr.ColID, t expr.Type, conds []expr.Node) *bounds {
	b := &bounds{}
	found := false
	for _, c := range conds {
		switch c := c.(type) {
		case *expr.In:
			vals, ok := o.inValues(c, id, t)
			if !ok {
				vals, ok = o.instantsIn(c, id, t)
			}
			if ok && b.eq == nil {
				b.eq, found = vals, true
			}
		case *expr.Call:
			if o.compared(b, c, id, t) {
				found = true
			}
		}
	}
	if !found {
		return nil
	}
	return b
}

// inValues are the constants of IN, without NULL and duplicates.
func (o *optimizer) inValues(n *expr.In, id expr.ColID, t expr.Type) (out []expr.Node, ok bool) {
	c, ok := n.Left.(*expr.Col)
	if !ok || c.ID != id || n.Not || !comparesAs(n.Cmp, t) {
		return nil, false
	}
	seen := make(map[string]bool, len(n.List))
	for i, x := range n.List {
		o.atValue(i)
		if k, ok := x.(*expr.Const); ok && k.V.IsNull() {
			continue
		}
		v := o.asColumn(x, t)
		if v == nil {
			return nil, false
		}
		if text := v.String(); !seen[text] {
			seen[text] = true
			out = append(out, v)
		}
	}
	return out, len(out) > 0
}

var flipped = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// compared adds what a comparison with a constant says.
func (o *optimizer) compared(b *bounds, n *expr.Call, id expr.ColID, t expr.Type) bool {
	switch n.Fn.Name {
	case "between":
		return o.between(b, n, id, t)
	case "like":
		return b.like(n, id, t)
	}
	if _, ok := flipped[n.Fn.Name]; !ok || !comparesAs(n.Cmp, t) && t.Kind != expr.Date && t.Kind != expr.Timestamp {
		return false
	}
	if o.dateBound(b, n, id, t) || o.instantBound(b, n, id, t) {
		return true
	}
	op, l, r := n.Fn.Name, n.Args[0], n.Args[1]
	if c, ok := l.(*expr.Col); !ok || c.ID != id {
		op, l, r = flipped[op], r, l
	}
	c, ok := l.(*expr.Col)
	if !ok || c.ID != id {
		return false
	}
	v := o.asColumn(r, t)
	if v == nil {
		return false
	}
	b.take(op, v)
	return true
}

// dateBound takes a bound of a DATE that is compared as a DATETIME: the day of the bound is in the
// range, whatever its time.
func (o *optimizer) dateBound(b *bounds, n *expr.Call, id expr.ColID, t expr.Type) bool {
	if t.Kind != expr.Date {
		return false
	}
	op, l, r := n.Fn.Name, n.Args[0], n.Args[1]
	if _, ok := l.(*expr.Const); ok {
		op, l, r = flipped[op], r, l
	}
	c, ok := l.(*expr.Cast)
	k, ok2 := r.(*expr.Const)
	if !ok || !ok2 || k.V.Kind != expr.Datetime {
		return false
	}
	if col, ok := c.Arg.(*expr.Col); !ok || col.ID != id {
		return false
	}
	day := &expr.Const{V: expr.Value{Kind: expr.Date, I: calendar.DateOf(k.V.I)}, T: t}
	switch op {
	case "<":
		op = "<="
		if day.V.I == k.V.I {
			op = "<"
		}
	case ">":
		op = ">="
		if day.V.I == k.V.I {
			op = ">"
		}
	}
	b.take(op, day)
	return true
}

// comparesAs reports whether a comparison takes place in the type of the column.
func comparesAs(cmp, t expr.Type) bool {
	return cmp.Same(t) || cmp.Integer() && t.Integer() ||
		t.Kind == expr.Datetime && cmp.Kind == expr.Datetime || t.Kind == expr.Decimal && cmp.Kind == expr.Decimal
}

func (o *optimizer) between(b *bounds, n *expr.Call, id expr.ColID, t expr.Type) bool {
	if o.instantsBetween(b, n, id, t) {
		return true
	}
	c, ok := n.Args[0].(*expr.Col)
	if !ok || c.ID != id || !comparesAs(n.Cmp, t) {
		return false
	}
	lo, hi := o.asColumn(n.Args[1], t), o.asColumn(n.Args[2], t)
	if lo == nil || hi == nil {
		return false
	}
	b.take(">=", lo)
	b.take("<=", hi)
	return true
}

// like takes what texts begin with from a pattern, up to the first character that may have another
// meaning; whether a backslash has one is up to the mode of the session.
func (b *bounds) like(n *expr.Call, id expr.ColID, t expr.Type) bool {
	c, ok := n.Args[0].(*expr.Col)
	pattern, ok2 := n.Args[1].(*expr.Const)
	if !ok || !ok2 || c.ID != id || b.begin != nil || t.Kind != expr.Text || pattern.V.Kind != expr.Text || n.Cmp.Coll != t.Coll {
		return false
	}
	special := `%_\`
	if len(n.Args) > 2 {
		escape, ok := n.Args[2].(*expr.Const)
		if !ok {
			return false
		}
		special += escape.V.S
	}
	v := pattern.V
	if i := strings.IndexAny(v.S, special); i >= 0 {
		v.S = v.S[:i]
	}
	if v.S == "" {
		return false
	}
	b.begin = &expr.Const{V: v, T: t}
	return true
}

// take adds a bound. Of two on the same side the first is kept: the conditions are checked again.
func (b *bounds) take(op string, v expr.Node) {
	switch op {
	case "=":
		b.eq = []expr.Node{v}
	case ">", ">=":
		if b.lo == nil {
			b.lo, b.loOpen = v, op == ">"
		}
	case "<", "<=":
		if b.hi == nil {
			b.hi, b.hiOpen = v, op == "<"
		}
	}
}

// asColumn is what a column is compared with as a value of the column's type; nil if it is not
// constant while the table is read, or if that changes it.
func (o *optimizer) asColumn(n expr.Node, t expr.Type) expr.Node {
	k, ok := n.(*expr.Const)
	if !ok {
		if len(colsOf(n)) > 0 && colsOf(n).within(o.outer) && !hasSub(n) && n.Type().Same(t) && keyKind(t) {
			return n
		}
		return nil
	}
	v := k.V
	switch {
	case v.IsNull() || !keyKind(t):
		return nil
	case v.Kind == t.Kind && t.Kind == expr.Decimal && int(-v.D.Exponent) > t.Scale:
		return nil
	case v.Kind == t.Kind:
	case v.Kind == expr.Int && t.Kind == expr.Uint && v.I >= 0,
		v.Kind == expr.Uint && t.Kind == expr.Int && v.I >= 0,
		v.Kind == expr.Date && t.Kind == expr.Datetime:
		v.Kind = t.Kind
	default:
		return nil
	}
	t.NotNull = true
	return &expr.Const{V: v, T: t}
}
