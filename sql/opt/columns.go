package opt

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// Access is how a plan reads a table: a row of EXPLAIN in MySQL's columns. Empty texts are NULL.
type Access struct {
	ID                int
	SelectType, Table string
	Type              string
	Possible          []string
	Key, Ref          string
	Rows, Filtered    float64
	Extra             []string
	// Partitions are the placements that are read, of tables whose rows have several.
	Partitions []string
}

// Accesses are the rows of EXPLAIN in MySQL's columns, in the order of the joins.
func (p *Plan) Accesses() []Access {
	w := &accesses{next: 1}
	w.walk(p, 1, w.kind(p))
	if len(w.out) == 0 {
		return []Access{{ID: 1, SelectType: "SIMPLE", Extra: []string{"No tables used"}}}
	}
	return w.out
}

type accesses struct {
	out  []Access
	next int // the number of the last SELECT
	// conds are those that are tested above what is walked; sorted and grouped say what becomes of
	// its rows.
	conds           bool
	sorted, grouped bool
}

// kind is that of the first SELECT.
func (w *accesses) kind(p *Plan) string {
	simple := true
	p.Each(func(p *Plan) { simple = simple && p.Op != OpSetOp && p.Op != OpApply && p.Op != OpRecursive })
	if simple {
		return "SIMPLE"
	}
	return "PRIMARY"
}

// Each calls f for all operators of the plan, those above before those below.
func (p *Plan) Each(f func(*Plan)) {
	f(p)
	for _, in := range p.In {
		in.Each(f)
	}
}

func (w *accesses) walk(p *Plan, id int, kind string) {
	switch p.Op {
	case OpScan:
		w.add(p.access(id, kind))
	case OpLookupJoin:
		w.walk(p.In[0], id, kind)
		w.conds = len(p.Conds) > len(p.LeftKeys)
		w.add(p.lookupAccess(id, kind))
	case OpFilter:
		w.conds = true
		w.walk(p.In[0], id, kind)
	case OpSort, OpTopN:
		w.sorted = true
		w.walk(p.In[0], id, kind)
	case OpGroup, OpDistinct, OpWindow:
		w.grouped = w.grouped || p.Op != OpGroup || len(p.Group.Keys) > 0
		w.walk(p.In[0], id, kind)
	case OpHashJoin, OpLoopJoin:
		w.join(p, id, kind)
	case OpApply:
		w.walk(p.In[0], id, kind)
		w.next++
		w.walk(p.In[1], w.next, "DEPENDENT SUBQUERY")
	case OpSetOp, OpRecursive:
		w.walk(p.In[0], id, kind)
		w.next++
		w.walk(p.In[1], w.next, "UNION")
	case OpUnfold:
		w.walk(p.In[0], id, kind)
		w.add(Access{ID: id, SelectType: kind, Table: p.Unfold.Name, Type: "ALL", Rows: unfolded, Filtered: 100,
			Extra: []string{"Table function: json_table"}})
	case OpCTERef:
		w.add(Access{ID: id, SelectType: kind, Table: p.Ref.Name, Type: "ALL", Rows: p.Rows, Filtered: 100})
	case OpShared:
		w.next++
		w.add(Access{ID: id, SelectType: kind, Table: fmt.Sprintf("<derived%d>", w.next), Type: "ALL", Rows: p.Rows,
			Filtered: 100})
		for _, in := range p.In { // of the first reader
			w.walk(in, w.next, "DERIVED")
		}
	default:
		for _, in := range p.In {
			w.walk(in, id, kind)
		}
	}
}

func (w *accesses) join(p *Plan, id int, kind string) {
	sides := p.In
	if p.BuildLeft {
		sides = []*Plan{p.In[1], p.In[0]}
	}
	w.walk(sides[0], id, kind)
	at := len(w.out)
	w.conds = false
	w.walk(sides[1], id, kind)
	if at < len(w.out) {
		buffer := "Using join buffer (hash join)"
		if p.Op == OpLoopJoin {
			buffer = "Using join buffer (nested loop)"
		}
		w.out[at].Extra = append(w.out[at].Extra, buffer)
	}
}

// add adds a table; the first one after a sort or a grouping says so.
func (w *accesses) add(a Access) {
	if w.conds {
		a.Extra = append([]string{"Using where"}, a.Extra...)
	}
	if w.grouped {
		a.Extra = append(a.Extra, "Using temporary")
	}
	if w.sorted {
		a.Extra = append(a.Extra, "Using filesort")
	}
	w.conds, w.grouped, w.sorted = false, false, false
	w.out = append(w.out, a)
}

// access is that of a scan.
func (p *Plan) access(id int, kind string) Access {
	a := Access{ID: id, SelectType: kind, Table: p.Scan.Alias, Type: "ALL", Key: p.Index, Rows: p.Rows, Filtered: 100}
	switch {
	case p.Index == "":
	case p.Spans == nil:
		a.Type = "index"
	default:
		a.Type, a.Ref = p.rangeType()
	}
	a.Extra, a.Partitions = p.covering(), p.Partitions()
	a.Possible = possible(p.Scan, p.scanConds)
	if a.Key != "" && !slices.Contains(a.Possible, a.Key) && a.Type != "index" {
		a.Possible = append(a.Possible, a.Key)
	}
	return a
}

// rangeType is the type of an access by ranges of an index: one row, rows of one value, or more.
func (p *Plan) rangeType() (typ, ref string) {
	if len(p.Spans) != 1 {
		return "range", ""
	}
	s := p.Spans[0]
	if s.LoOpen || s.HiOpen || s.Begins || len(s.Lo) == 0 || len(s.Lo) != len(s.Hi) {
		return "range", ""
	}
	var refs []string
	for i := range s.Lo {
		if !expr.Equal(s.Lo[i], s.Hi[i]) {
			return "range", ""
		}
		refs = append(refs, "const")
	}
	for _, x := range p.Scan.Table.Indexes() {
		if x.Name == p.Index && (x.Unique || x.Primary) && len(x.Cols) == len(s.Lo) {
			return "const", strings.Join(refs, ",")
		}
	}
	return "ref", strings.Join(refs, ",")
}

// possible are the indexes whose first column a condition names.
func possible(s *algebra.Scan, conds []expr.Node) (out []string) {
	used := set{}.addNodes(conds...)
	for _, x := range s.Table.Indexes() {
		if len(x.Cols) > 0 && used[s.IDs[x.Cols[0].Col]] && hinted(s, x.Name) {
			out = append(out, x.Name)
		}
	}
	return out
}

// lookupAccess is that of the right side of a look-up join.
func (p *Plan) lookupAccess(id int, kind string) Access {
	a := Access{ID: id, SelectType: kind, Table: p.Scan.Alias, Type: "ref", Possible: []string{p.Index}, Key: p.Index,
		Filtered: 100}
	var refs []string
	for _, k := range p.LeftKeys {
		if c, ok := k.(*expr.Col); ok && c.Name != "" {
			refs = append(refs, c.Name)
		} else {
			refs = append(refs, "func")
		}
	}
	a.Ref = strings.Join(refs, ",")
	a.Rows = max(1, p.Rows/max(1, p.In[0].Rows))
	for _, x := range p.Scan.Table.Indexes() {
		if x.Name == p.Index && (x.Unique || x.Primary) && len(x.Cols) == len(p.LeftKeys) {
			a.Type, a.Rows = "eq_ref", 1
		}
	}
	a.Extra, a.Partitions = p.covering(), p.Partitions()
	return a
}

// covering is MySQL's word for a read of index entries alone.
func (p *Plan) covering() []string {
	if p.Covered {
		return []string{"Using index"}
	}
	return nil
}

// node is an operator in JSON, with the names that MySQL 8 gives them.
type node struct {
	Operation string   `json:"operation"`
	Cost      float64  `json:"estimated_total_cost"`
	Rows      float64  `json:"estimated_rows"`
	Loops     *int64   `json:"actual_loops,omitempty"`
	Actual    *float64 `json:"actual_rows,omitempty"`
	Millis    *float64 `json:"actual_last_row_ms,omitempty"`
	Trips     *float64 `json:"actual_round_trips,omitempty"`
	Table     string   `json:"table_name,omitempty"`
	Index     string   `json:"index_name,omitempty"`
	Inputs    []node   `json:"inputs,omitempty"`
}

// JSON is the plan as EXPLAIN FORMAT=JSON shows it; m, if not nil, adds what the operators did.
func (p *Plan) JSON(query string, m *Meter) (string, error) {
	top := struct {
		Query string `json:"query"`
		node
	}{query, p.json(m)}
	b, err := json.MarshalIndent(top, "", "  ")
	return string(b), err
}

func (p *Plan) json(m *Meter) node {
	n := node{Operation: p.Line(), Cost: math.Round(p.Cost()*100) / 100, Rows: math.Round(p.Rows*100) / 100, Index: p.Index}
	if p.Scan != nil {
		n.Table = p.Scan.Alias
	}
	if a := m.Of(p); a != nil {
		rows, ms := a.perLoop(), float64(a.Time.Microseconds())/1000
		n.Loops, n.Actual, n.Millis, n.Trips = &a.Loops, &rows, &ms, &a.Trips
	}
	for _, in := range p.In {
		n.Inputs = append(n.Inputs, in.json(m))
	}
	return n
}
