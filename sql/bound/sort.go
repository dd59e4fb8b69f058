package bound

import (
	"github.com/dolthub/go-mysql-server/sql"
)

// probed are the fields of a sort that can be interrupted: the engine sorts many rows at once.
func probed(fields sql.SortFields) sql.SortFields {
	out := make(sql.SortFields, len(fields))
	copy(out, fields)
	if len(out) > 0 {
		out[0].Column = &probe{Expression: out[0].Column}
	}
	return out
}

// probe is an expression that is an error once the statement has been interrupted.
type probe struct {
	sql.Expression
	n int
}

// compares is after how many evaluations it looks.
const compares = 1024

// Eval implements sql.Expression.
func (p *probe) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	if p.n++; p.n%compares == 0 {
		if err := interrupted(ctx); err != nil {
			return nil, err
		}
	}
	return p.Expression.Eval(ctx, row)
}
