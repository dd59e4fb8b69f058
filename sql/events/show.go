package events

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Columns of information_schema.events.
const eventsDB, eventsName, eventsDefiner, eventsExecuted = 1, 2, 3, 18

// Describe lets information_schema.events say when events were executed last, which the engine does
// not know, and name definers without quotes.
func (g *Scheduler) Describe(read rights.SchemaReader) rights.SchemaReader {
	return func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
		it, err := read(ctx, cat)
		if err != nil {
			return nil, err
		}
		rows, err := sql.RowIterToRows(ctx, it)
		s := session.Of(ctx)
		if err != nil || len(rows) == 0 || s == nil {
			return sql.RowsToRowIter(rows...), err
		}
		last, err := Executed(s.KVContext(ctx), g.DB)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			db, _ := row[eventsDB].(string)
			name, _ := row[eventsName].(string)
			if definer, ok := row[eventsDefiner].(string); ok {
				row[eventsDefiner] = strings.ReplaceAll(definer, "`", "")
			}
			row[eventsExecuted] = nil
			if at, ok := last[schema.EventName(db, name)]; ok {
				row[eventsExecuted] = at.In(time.Local).Format(sql.EventDateSpaceTimeFormat)
			}
		}
		return sql.RowsToRowIter(rows...), nil
	}
}
