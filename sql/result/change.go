package result

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/bind"
)

// Change is what a statement has changed.
type Change struct {
	Kind             bind.ChangeKind
	Matched, Changed int
	Duplicates       int // rows of an INSERT that met others
	Warnings         int
	Plain            bool                 // INSERT of one row of VALUES
	ID               uint64               // LAST_INSERT_ID, as the client is told it
	Counted          bool                 // the counter has given a value, which is ID
	Info             func(*Change) string // of LOAD DATA
	Returned         bool                 // the client gets rows in place of the result (RETURNING)
	Found            bool                 // the client counts rows that were found, and not those that were changed
}

// Affected is how many rows the client is told of.
func (o *Change) Affected() uint64 {
	if o.Kind == bind.Update && o.Found {
		return uint64(o.Matched)
	}
	return uint64(o.Changed)
}

// Result is the answer to a client.
func (o *Change) Result() *sqltypes.Result {
	res := &sqltypes.Result{RowsAffected: o.Affected(), InsertID: o.ID}
	switch o.Kind {
	case bind.Update:
		res.Info = plan.UpdateInfo{Matched: o.Matched, Updated: o.Changed, Warnings: o.Warnings}.String()
	case bind.Insert:
		if o.Info != nil {
			res.Info = o.Info(o)
		} else if !o.Plain {
			res.Info = fmt.Sprintf("Records: %d  Duplicates: %d  Warnings: %d", o.Matched, o.Duplicates, o.Warnings)
		}
	}
	return res
}

// OK is the answer as the engine has it.
func (o *Change) OK() types.OkResult {
	res := types.OkResult{RowsAffected: o.Affected(), InsertID: o.ID}
	if o.Kind == bind.Update {
		res.Info = plan.UpdateInfo{Matched: o.Matched, Updated: o.Changed, Warnings: o.Warnings}
	}
	return res
}
