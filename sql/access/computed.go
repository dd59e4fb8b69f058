package access

import (
	"time"

	"github.com/godwitdb/godwit/sql/expr"
)

// Virtual columns are not stored. A read computes those that are wanted from the other columns of
// its rows.

// Compute tells how virtual columns are computed: by expressions over stored columns, of which the
// one at position p has the number p+1.
func (t *Table) Compute(nodes map[int]expr.Node) { t.computed = nodes }

// Computed are the expressions of virtual columns, by position.
func (t *Table) Computed() map[int]expr.Node { return t.computed }

// computing computes the virtual columns of a read.
type computing struct {
	stored expr.Batch
	cols   []int       // that are decoded: those of the read, then what the expressions use
	by     []expr.Expr // by column of the read; nil: it is stored
}

// computing is what a read has to compute; nil: nothing.
func (t *Table) computing(cols []int, env *expr.Env) (*computing, error) {
	c := &computing{cols: append([]int(nil), cols...)}
	have := map[int]bool{}
	for _, p := range cols {
		have[p] = true
	}
	some := false
	for _, p := range cols {
		n := t.computed[p]
		if n == nil {
			continue
		}
		some = true
		expr.Cols(n, func(id expr.ColID) {
			if at := int(id) - 1; !have[at] {
				have[at] = true
				c.cols = append(c.cols, at)
			}
		})
	}
	if !some {
		return nil, nil
	}
	ids := make([]expr.ColID, len(c.cols))
	for i, p := range c.cols {
		ids[i] = expr.ColID(p + 1)
	}
	if env == nil {
		env = &expr.Env{}
	}
	if env.Zone() != time.UTC { // as rows and indexes have it, whatever the session's zone
		e := *env
		e.Loc, env = time.UTC, &e
	}
	c.by = make([]expr.Expr, len(cols))
	for i, p := range cols {
		if n := t.computed[p]; n != nil {
			var err error
			if c.by[i], err = expr.Compile(n, ids, env); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// fill makes the batch of a read of what was decoded.
func (c *computing) fill(b *expr.Batch) error {
	b.N, b.Sel = c.stored.N, c.stored.Sel
	b.Cols = append([]*expr.Vec(nil), c.stored.Cols[:len(c.by)]...)
	for i, e := range c.by {
		if e == nil {
			continue
		}
		v, err := e.Eval(&c.stored, c.stored.Sel)
		if err != nil {
			return err
		}
		b.Cols[i] = v
	}
	return nil
}
