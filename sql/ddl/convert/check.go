package convert

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"
)

// Satisfied is the error for rows that violate a CHECK constraint. It closes the rows.
func Satisfied(ctx *sql.Context, rows sql.RowIter, check sql.Expression, name string) (err error) {
	defer func() {
		if e := rows.Close(ctx); err == nil {
			err = e
		}
	}()
	for {
		row, err := rows.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch ok, err := sql.EvaluateCondition(ctx, check, row); {
		case err != nil:
			return err
		case sql.IsFalse(ok):
			return sql.ErrCheckConstraintViolated.New(name)
		}
	}
}
