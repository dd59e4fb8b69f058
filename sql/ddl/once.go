package ddl

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"
)

// Once is a node's rows that are one row, which a function makes when it is asked for.
func Once(fn func(*sql.Context) (sql.Row, error)) sql.RowIter { return &onceIter{fn} }

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
