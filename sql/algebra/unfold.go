package algebra

import (
	"slices"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/jsontable"
)

// Unfold is JSON_TABLE: it yields, for each row of In, the rows that Table makes of the document
// Doc, with the columns of In before those of Table (IDs).
type Unfold struct {
	In    Rel
	Name  string // by which the statement knows the table
	Doc   expr.Node
	Table *jsontable.Table
	IDs   []expr.ColID
}

// Cols implements Rel.
func (r *Unfold) Cols() []expr.ColID { return slices.Concat(r.In.Cols(), r.IDs) }

// Inputs implements Rel.
func (r *Unfold) Inputs() []Rel { return []Rel{r.In} }

// WithInputs implements Rel.
func (r *Unfold) WithInputs(in []Rel) Rel { c := *r; c.In = in[0]; return &c }

// Nodes implements Rel.
func (r *Unfold) Nodes() []expr.Node { return []expr.Node{r.Doc} }

// MapNodes implements Rel.
func (r *Unfold) MapNodes(f func(expr.Node) expr.Node) Rel { c := *r; c.Doc = f(r.Doc); return &c }

// Types are those of the columns IDs.
func (r *Unfold) Types() []expr.Type {
	out := make([]expr.Type, len(r.IDs))
	for i, c := range r.Table.Columns {
		out[i] = c.Type
	}
	return out
}
