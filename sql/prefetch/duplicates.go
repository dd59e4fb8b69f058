package prefetch

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// Ahead is how many rows are looked at in one step.
const Ahead = aheadRows

// Duplicates locks and reads what is in the way of new rows: the keys of rows and unique indexes,
// and the rows that these name. becomes says what ON DUPLICATE KEY UPDATE makes of such a row (nil:
// that is not known), whose new keys are read, too. The caller has called session.UseAhead.
func Duplicates(ctx *sql.Context, tx *session.Txn, st *table.Table, rows []sql.Row, becomes func(old, row sql.Row) sql.Row) error {
	if len(rows) < 2 {
		return nil // of one row, the editor reads everything together itself
	}
	if _, err := tx.Begin(ctx); err != nil {
		return err
	}
	tasks := make([]rowTask, len(rows))
	for i, row := range rows {
		tasks[i] = rowTask{st: st, row: row, keys: true, exists: func(f *prediction, old sql.Row) []rowTask {
			if becomes == nil {
				return nil
			}
			next := becomes(f.latest(ctx, st.Def, old), row)
			if next == nil {
				return nil
			}
			f.becomes(ctx, st.Def, old, next)
			return []rowTask{{st: st, old: old, row: next, keys: true}}
		}}
	}
	f := prediction{tx: tx, regions: st.Env.DB.Topology().Regions, seen: map[string]bool{}}
	return f.run(ctx, tasks)
}
