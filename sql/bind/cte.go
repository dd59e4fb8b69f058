package bind

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// cteScope is the common table expressions of one WITH, and those around it.
type cteScope struct {
	outer *cteScope
	defs  []*cteDef
}

// cteDef is a common table expression. It is bound again wherever it is used, but for one whose
// rows would differ then, and in statements that would become too large.
type cteDef struct {
	name  string
	names []string
	body  *ast.SubqueryExpr
	ctes  *cteScope // that its body sees
	outer *scope
	// recursive says that WITH RECURSIVE defines it; ref is set while its own steps are bound.
	recursive bool
	ref       *algebra.CTERef
	refCols   []column
	refs      int
	// shared is the expression as it was bound first, if it runs once only.
	shared *bound
	number int
}

func (s *cteScope) find(name string) *cteDef {
	for ; s != nil; s = s.outer {
		for i := len(s.defs) - 1; i >= 0; i-- {
			if s.defs[i].name == name {
				return s.defs[i]
			}
		}
	}
	return nil
}

// with makes the definitions of a WITH clause visible; the caller puts b.ctes back.
func (b *binder) with(w *ast.WithClause, outer *scope) error {
	if w == nil {
		return nil
	}
	s := &cteScope{outer: b.ctes}
	b.ctes = s
	for _, c := range w.CTEs {
		for _, d := range s.defs {
			if d.name == c.Name.L {
				return fail(1066, "42000", "Not unique table/alias: '%s'", c.Name.O)
			}
		}
		d := &cteDef{name: c.Name.L, names: tree.Names(c.ColNameList), body: c.Query, outer: outer, recursive: w.IsRecursive}
		// The body sees those before it, and itself if it is recursive.
		seen := &cteScope{outer: s.outer, defs: append([]*cteDef(nil), s.defs...)}
		if w.IsRecursive {
			seen.defs = append(seen.defs, d)
		}
		d.ctes = seen
		s.defs = append(s.defs, d)
	}
	return nil
}

// cte binds a use of a common table expression.
func (q *query) cte(d *cteDef, alias string) (algebra.Rel, []column, error) {
	b := q.b
	if d.ref != nil { // in its own step
		d.refs++
		if d.refs > 1 {
			return nil, nil, unsupported("recursive CTE used twice in a step")
		}
		cols := append([]column(nil), d.refCols...)
		for i := range cols {
			cols[i].table = alias
		}
		return d.ref, cols, nil
	}
	if d.shared != nil {
		return q.sharedCTE(d, alias)
	}
	ctes, views := b.ctes, b.views
	b.ctes = d.ctes
	defer func() { b.ctes, b.views = ctes, views }()
	var r *bound
	var err error
	if d.recursive && tree.Mentions(d.body.Query, d.name) {
		r, err = b.recursive(d)
	} else {
		r, err = b.query(d.body.Query, d.outer)
	}
	if err != nil {
		return nil, nil, err
	}
	// Inside of the step of a recursive one it may depend on the round.
	if len(r.outer) == 0 && (b.blocks > manyBlocks && b.steps == 0 || algebra.Volatile(r.rel)) {
		b.cteNo++
		d.shared, d.number = r, b.cteNo
		return q.sharedCTE(d, alias)
	}
	q.takes(r.outer)
	cols, err := derived(r.cols, alias, d.names)
	return r.rel, cols, err
}

// sharedCTE is a use of an expression that runs once.
func (q *query) sharedCTE(d *cteDef, alias string) (algebra.Rel, []column, error) {
	s := &algebra.Shared{Number: d.number, Name: d.name, In: d.shared.rel}
	cols, err := derived(d.shared.cols, alias, d.names)
	for i := range cols {
		s.From = append(s.From, cols[i].id)
		cols[i].id = q.b.newID()
		s.IDs, s.Types = append(s.IDs, cols[i].id), append(s.Types, cols[i].typ)
	}
	return s, cols, err
}

// recursive binds seed UNION [ALL] step.
func (b *binder) recursive(d *cteDef) (*bound, error) {
	u, ok := d.body.Query.(*ast.SetOprStmt)
	if !ok {
		return nil, fail(3573, "HY000", "Recursive Common Table Expression '%s' should contain a UNION", d.name)
	}
	list := u.SelectList
	if u.With != nil || list.With != nil || u.OrderBy != nil || u.Limit != nil || len(list.Selects) != 2 {
		return nil, unsupported("recursive CTE of more than a seed and a step")
	}
	if tree.Mentions(list.Selects[0], d.name) || !tree.Mentions(list.Selects[1], d.name) {
		return nil, unsupported("recursive CTE with the step first")
	}
	op := operatorOf(list.Selects[1])
	if op == nil || *op != ast.Union && *op != ast.UnionAll {
		return nil, unsupported("recursive CTE without UNION")
	}
	seed, err := b.query(list.Selects[0], d.outer)
	if err != nil {
		return nil, err
	}
	b.cteNo++
	out := &algebra.RecursiveCTE{Number: b.cteNo, Name: d.name, Distinct: *op == ast.Union, Seed: seed.rel}
	ref := &algebra.CTERef{Number: b.cteNo, Name: d.name}
	res := &bound{rel: out, outer: seed.outer}
	var refCols []column
	for i, c := range seed.cols {
		name := c.name
		if i < len(d.names) {
			name = d.names[i]
		}
		t := c.typ.AsNull()
		out.SeedCols = append(out.SeedCols, c.id)
		id, rid := b.newID(), b.newID()
		out.IDs, out.Names, out.Types = append(out.IDs, id), append(out.Names, name), append(out.Types, t)
		ref.IDs, ref.Names, ref.Types = append(ref.IDs, rid), append(ref.Names, name), append(ref.Types, t)
		res.cols = append(res.cols, column{id: id, name: name, typ: t})
		refCols = append(refCols, column{id: rid, name: name, typ: t})
	}
	d.ref, d.refCols, d.refs = ref, refCols, 0
	b.steps++
	step, err := b.query(list.Selects[1], d.outer)
	b.steps--
	d.ref = nil
	if err != nil {
		return nil, err
	}
	if len(step.cols) != len(seed.cols) {
		return nil, errWidth
	}
	rel, ids, err := b.castTo(step, out.Types)
	if err != nil {
		return nil, err
	}
	out.Step, out.StepCols = rel, ids
	for id := range step.outer {
		res.outer[id] = true
	}
	return res, nil
}

// castTo makes the columns of a query have the given types.
func (b *binder) castTo(r *bound, types []expr.Type) (algebra.Rel, []expr.ColID, error) {
	p := &algebra.Project{In: r.rel}
	ids := make([]expr.ColID, len(types))
	have := map[expr.ColID]bool{}
	change := false
	for i, c := range r.cols {
		col := c.node()
		if types[i].Kind == expr.Decimal || types[i].Kind == expr.Float {
			col = algebra.AllDigits(r.rel, col)
		}
		n, err := castNode(col, types[i])
		if err != nil {
			return nil, nil, err
		}
		id := c.id
		if _, ok := n.(*expr.Col); !ok {
			id, change = b.newID(), true
		}
		if ids[i] = id; !have[id] {
			p.Items = append(p.Items, algebra.Item{ID: id, Name: c.name, Node: n})
			have[id] = true
		}
	}
	if !change {
		return r.rel, ids, nil
	}
	return p, ids, nil
}
