package table

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/kv"
)

// DeleteAll deletes all rows, one by one, and returns how many there were.
func (t *Table) DeleteAll(ctx *sql.Context) (n int, err error) {
	t.Access.Lock, t.Access.Target, t.Access.Whole = kv.LockExclusive, true, true
	it, err := t.ScanAll(ctx)
	if err != nil {
		return 0, err
	}
	e := t.Editor(ctx)
	e.StatementBegin(ctx)
	for {
		row, err := it.Next(ctx)
		if err == io.EOF {
			return n, e.StatementComplete(ctx)
		}
		if err == nil {
			err = e.Delete(ctx, row)
		}
		if err != nil {
			_ = e.DiscardChanges(ctx, err)
			return 0, err
		}
		n++
	}
}
