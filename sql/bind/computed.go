package bind

import (
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// Computed binds the virtual columns of a table, by position: expressions over its stored columns,
// of which the one at position p has the number p+1. virtual says which columns are not stored.
func Computed(t algebra.Target, s *Session, virtual func(pos int) bool) (map[int]expr.Node, error) {
	q := newQuery(&binder{s: s, next: expr.ColID(t.RowColumn() + 1)}, nil)
	out := map[int]expr.Node{}
	var cols []column
	for pos, c := range t.Columns()[:t.RowColumn()] {
		cols = append(cols, column{id: expr.ColID(pos + 1), name: c.Name, typ: c.Type})
	}
	for pos := range cols {
		if !virtual(pos) {
			continue
		}
		n, err := q.definition(t.Rule(pos).Generated, cols)
		if err != nil {
			return nil, err
		}
		n, err = expr.Rewrite(n, func(n expr.Node) (expr.Node, error) {
			if c, ok := n.(*expr.Col); ok && out[int(c.ID)-1] != nil {
				return out[int(c.ID)-1], nil
			}
			return n, nil
		})
		if err != nil {
			return nil, err
		}
		if expr.HasSub(n) || expr.Volatile(n) {
			return nil, unsupported("virtual columns")
		}
		if out[pos], err = stored(n, cols[pos].typ); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// computer is a table with virtual columns.
type computer interface{ Computed() map[int]expr.Node }

// computedOf are the virtual columns of a scan, by their numbers.
func computedOf(s *algebra.Scan) map[expr.ColID]expr.Node {
	t, ok := s.Table.(computer)
	if !ok {
		return nil
	}
	var out map[expr.ColID]expr.Node
	for pos, n := range t.Computed() {
		n, err := expr.Rewrite(n, func(n expr.Node) (expr.Node, error) {
			if c, ok := n.(*expr.Col); ok {
				return &expr.Col{ID: s.IDs[c.ID-1], Name: c.Name, T: c.T}, nil
			}
			return n, nil
		})
		if err != nil {
			continue
		}
		if out == nil {
			out = map[expr.ColID]expr.Node{}
		}
		out[s.IDs[pos]] = n
	}
	return out
}

// byColumns lets conditions use virtual columns in place of the expressions that these are, so that
// their indexes are found: also those of an index over an expression.
func (q *query) byColumns(conds []expr.Node) []expr.Node {
	for _, s := range q.scans {
		for id, n := range computedOf(s) {
			if c, ok := n.(*expr.Cast); ok && !c.Explicit {
				n = c.Arg
			}
			if _, plain := n.(*expr.Col); plain || len(n.Children()) == 0 {
				continue
			}
			typ := n.Type()
			for i := range conds {
				if m, err := expr.Rewrite(conds[i], func(x expr.Node) (expr.Node, error) {
					col := q.columnOf(s, id)
					if expr.Equal(x, n) && col.T.Same(typ) {
						return col, nil
					}
					return x, nil
				}); err == nil {
					conds[i] = m
				}
			}
		}
	}
	return conds
}

// columnOf is a column of a scan, also one that cannot be named.
func (q *query) columnOf(s *algebra.Scan, id expr.ColID) *expr.Col {
	for pos, c := range s.Table.Columns() {
		if s.IDs[pos] == id {
			return &expr.Col{ID: id, Name: c.Name, T: c.Type.AsNull()}
		}
	}
	return nil
}
