package server

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"
)

// onceIter runs a function at the first Next and returns its row.
type onceIter struct {
	fn func(*sql.Context) (sql.Row, error)
}

func (o *onceIter) Next(ctx *sql.Context) (sql.Row, error) {
	if o.fn == nil {
		return nil, io.EOF
	}
	fn := o.fn
	o.fn = nil
	return fn(ctx)
}

func (o *onceIter) Close(*sql.Context) error { return nil }
