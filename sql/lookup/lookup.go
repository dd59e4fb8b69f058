// Package lookup evaluates expressions with subqueries over rows that are in no table: new ones,
// those that they meet, and those that are gone.
package lookup

import (
	"strings"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/opt"
)

// Statement is the statement of an expression.
type Statement struct {
	Next    expr.ColID // the first number that no column of the expression has
	Options opt.Options
	// Context makes what a query of it runs in, with its memory.
	Context func() *exec.Ctx
}

// lookup is a query over the rows of a batch, which is planned for each of them.
type lookup struct {
	Statement
	env  *expr.Env
	node expr.Node
	ids  []expr.ColID // of the batch
	used []int        // of these, in the batch
	out  expr.Vec
}

// Compile compiles an expression over the columns ids.
func Compile(n expr.Node, ids []expr.ColID, env *expr.Env, st Statement) (expr.Expr, error) {
	if !expr.HasSub(n) {
		return expr.Compile(n, ids, env)
	}
	l := &lookup{Statement: st, env: env, node: n, ids: ids}
	used := map[expr.ColID]bool{}
	expr.Cols(n, func(id expr.ColID) { used[id] = true })
	for i, id := range ids {
		if used[id] {
			l.used = append(l.used, i)
		}
	}
	return l, nil
}

// Type implements expr.Expr.
func (l *lookup) Type() expr.Type { return l.node.Type() }

// Eval implements expr.Expr.
func (l *lookup) Eval(b *expr.Batch, sel []int32) (*expr.Vec, error) {
	l.out.Reset(l.node.Type(), b.N)
	if len(sel) == 0 {
		return &l.out, nil
	}
	number := l.Next
	v := &algebra.Values{IDs: []expr.ColID{number}}
	for _, at := range l.used {
		v.IDs = append(v.IDs, l.ids[at])
	}
	for _, i := range sel {
		row := []expr.Node{expr.IntConst(int64(i))}
		for _, at := range l.used {
			col := b.Cols[at]
			row = append(row, expr.ConstOf(col.At(i), col.T))
		}
		v.Rows = append(v.Rows, row)
	}
	p := &algebra.Project{In: v, Items: []algebra.Item{
		{ID: number, Node: &expr.Col{ID: number, T: expr.IntConst(0).Type()}},
		{ID: number + 1, Node: l.node},
	}}
	q := &bind.Query{Rel: p, Next: number + 2, Out: []bind.Output{
		{ID: number, Type: expr.IntConst(0).Type()}, {ID: number + 1, Type: l.node.Type()},
	}}
	return &l.out, l.run(q)
}

// run keeps the values that the query yields.
func (l *lookup) run(q *bind.Query) error {
	options := l.Options
	options.Locking = true
	plan, err := opt.Optimize(q, l.env, options)
	if err != nil {
		return err
	}
	op, err := opt.Build(plan)
	if err != nil {
		return err
	}
	at := map[expr.ColID]int{}
	for i, id := range op.Cols() {
		at[id] = i
	}
	ec := l.Context()
	ec.Env = l.env
	defer op.Close()
	if err := op.Open(ec); err != nil {
		return err
	}
	return l.take(op, at[q.Out[0].ID], at[q.Out[1].ID])
}

func (l *lookup) take(op exec.Op, number, value int) error {
	for {
		b, err := op.Next()
		if err != nil || b == nil {
			return err
		}
		for _, i := range b.Sel {
			x := b.Cols[value].At(i)
			x.S = strings.Clone(x.S)
			l.out.Put(int(b.Cols[number].I[i]), x)
		}
	}
}
