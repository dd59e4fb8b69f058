package prefetch

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// Ahead is how many rows are looked at in one step.
const Ahead = aheadRows

// Changes are rows of one table that are going to be changed. Read locks and reads what that will
// look at. The caller has called session.UseAhead.
type Changes struct {
	Txn   *session.Txn
	Table *table.Table
	// Keys are the foreign keys of the table; nil: none.
	Keys *plan.ForeignKeyEditor
	// Unique: new keys are looked at, and the rows that are in their way.
	Unique bool
	// Replace: those rows are deleted. Becomes says what ON DUPLICATE KEY UPDATE makes of one (nil:
	// that is not known); it may be nil.
	Replace bool
	Becomes func(old, row sql.Row) sql.Row

	tasks []rowTask
}

// Add adds a row: a new one (old is nil), one that changes, or one that is deleted (row is nil).
func (c *Changes) Add(old, row sql.Row) {
	t := rowTask{st: c.Table, fk: c.Keys, old: old, row: row, keys: c.Unique}
	switch {
	case c.Replace && c.Keys != nil:
		t.exists = func(_ *prediction, old sql.Row) []rowTask { return []rowTask{{st: c.Table, fk: c.Keys, old: old}} }
	case c.Becomes != nil:
		t.exists = func(f *prediction, old sql.Row) []rowTask { return c.instead(f, old, row) }
	}
	c.tasks = append(c.tasks, t)
}

// instead is what becomes of a row that is in the way of a new one.
func (c *Changes) instead(f *prediction, old, row sql.Row) []rowTask {
	ctx := sql.NewEmptyContext()
	next := c.Becomes(f.latest(ctx, c.Table.Def, old), row)
	if next == nil {
		return nil
	}
	f.becomes(ctx, c.Table.Def, old, next)
	return []rowTask{{st: c.Table, fk: c.Keys, old: old, row: next, keys: true}}
}

// Read reads ahead for the rows added.
func (c *Changes) Read(ctx *sql.Context) error {
	if len(c.tasks) == 0 || len(c.tasks) == 1 && c.Keys == nil {
		return nil // of one row, the editor reads everything together itself
	}
	if _, err := c.Txn.Begin(ctx); err != nil {
		return err
	}
	f := prediction{tx: c.Txn, regions: c.Table.Env.DB.Topology().Regions, seen: map[string]bool{}, blind: c.Txn.Session.Stmt.Blind}
	return f.run(ctx, c.tasks)
}
