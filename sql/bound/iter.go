package bound

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"
)

// looks is after how many rows an iterator looks whether the statement has been interrupted.
const looks = 32

// child is an iterator of a node below one that is bounded.
type child struct {
	sql.RowIter
	f    *frame
	each func(row sql.Row) error // takes what the node above keeps of a row; nil: it keeps nothing
	n    int
}

// Next implements sql.RowIter.
func (c *child) Next(ctx *sql.Context) (sql.Row, error) {
	if c.n++; c.n%looks == 0 {
		if err := c.f.a.goOn(ctx); err != nil {
			return nil, err
		}
	}
	if c.f.turns != nil {
		select {
		case c.f.turns <- struct{}{}:
		case <-ctx.Done():
			return nil, interrupted(ctx)
		}
		if err := c.f.err(); err != nil {
			return nil, err
		}
	}
	row, err := c.RowIter.Next(ctx)
	if err != nil || c.each == nil {
		return row, err
	}
	return row, c.each(row)
}

// Results counts the rows of a statement of a procedure. The procedure keeps those of the last one.
func Results(ctx *sql.Context, it sql.RowIter) sql.RowIter {
	a := of(ctx)
	if a == nil {
		return it
	}
	f := &frame{charge: a.keep(results{})}
	return &child{RowIter: it, f: f, each: func(row sql.Row) error {
		if !a.has(results{}, f.charge) {
			return nil // it is the cursor's of a statement before, which keeps none
		}
		return f.keepRow(row)
	}}
}

// results are what keeps the rows of a procedure's last statement.
type results struct{}

// node is the iterator of a node that keeps rows: it gives back what they took.
type node struct {
	sql.RowIter
	f *frame
	// out is what the node keeps of each row that it returns.
	out int64
}

// Next implements sql.RowIter.
func (n *node) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := n.RowIter.Next(ctx)
	if over := n.f.err(); over != nil && (err == nil || err == io.EOF) {
		return nil, over
	}
	if err == nil && n.out > 0 {
		err = n.f.take(n.out)
	}
	return row, err
}

// Close implements sql.RowIter.
func (n *node) Close(ctx *sql.Context) error {
	err := n.RowIter.Close(ctx)
	n.f.back()
	return err
}
