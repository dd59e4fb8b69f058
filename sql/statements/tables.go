package statements

import (
	"cmp"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/virtual"
)

// ByDigest is the table of performance_schema that shows what was counted.
const ByDigest = "events_statements_summary_by_digest"

// Summary is that table, as MySQL 8.0 has it.
func (r *Recorder) Summary() virtual.Table {
	return virtual.Table{Name: ByDigest, Comment: "what statements of this node's clients have cost, by digest", Columns: summaryColumns,
		Truncate: r.Table.Truncate, Rows: func(*sql.Context) ([]sql.Row, error) { return summary(r.Table.Rows()), nil }}
}

// column is one of the table, and its value of a row. Those without a value are always 0: nothing
// here counts what they show.
type column struct {
	name  string
	typ   sql.Type
	value func(*digest.Row) any
}

var (
	shortText = types.MustCreateStringWithDefaults(sqltypes.VarChar, 64)
	instant   = types.MustCreateDatetimeType(sqltypes.Timestamp, 6)
)

func number(name string, value func(*digest.Row) uint64) column {
	return column{name, types.Uint64, func(r *digest.Row) any { return value(r) }}
}

// picoseconds is a column of a duration, in the unit of performance_schema.
func picoseconds(name string, value func(*digest.Row) time.Duration) column {
	return number(name, func(r *digest.Row) uint64 { return uint64(value(r)) * 1000 })
}

func zero(name string) column { return number(name, func(*digest.Row) uint64 { return 0 }) }

func at(name string, value func(*digest.Row) time.Time) column {
	return column{name, instant, func(r *digest.Row) any { return value(r).UTC() }}
}

// text is a column that is NULL where a text is empty.
func text(name string, t sql.Type, value func(*digest.Row) string) column {
	return column{name, t, func(r *digest.Row) any {
		if v := value(r); v != "" {
			return v
		}
		return nil
	}}
}

// summaryOf are the columns in MySQL's order.
var summaryOf = []column{
	text("SCHEMA_NAME", shortText, func(r *digest.Row) string { return r.Schema }),
	text("DIGEST", shortText, (*digest.Row).Digest),
	text("DIGEST_TEXT", types.LongText, func(r *digest.Row) string { return r.Text }),
	number("COUNT_STAR", func(r *digest.Row) uint64 { return r.Count }),
	picoseconds("SUM_TIMER_WAIT", func(r *digest.Row) time.Duration { return r.Sum }),
	picoseconds("MIN_TIMER_WAIT", func(r *digest.Row) time.Duration { return r.Min }),
	picoseconds("AVG_TIMER_WAIT", func(r *digest.Row) time.Duration { return r.Mean() }),
	picoseconds("MAX_TIMER_WAIT", func(r *digest.Row) time.Duration { return r.Max }),
	zero("SUM_LOCK_TIME"),
	number("SUM_ERRORS", func(r *digest.Row) uint64 { return r.Errors }),
	number("SUM_WARNINGS", func(r *digest.Row) uint64 { return r.Warnings }),
	number("SUM_ROWS_AFFECTED", func(r *digest.Row) uint64 { return r.Affected }),
	number("SUM_ROWS_SENT", func(r *digest.Row) uint64 { return r.Sent }),
	number("SUM_ROWS_EXAMINED", func(r *digest.Row) uint64 { return r.Work.Examined }),
	number("SUM_CREATED_TMP_DISK_TABLES", func(r *digest.Row) uint64 { return r.Work.Files }),
	number("SUM_CREATED_TMP_TABLES", func(r *digest.Row) uint64 { return r.Work.Tables }),
	number("SUM_SELECT_FULL_JOIN", func(r *digest.Row) uint64 { return r.Work.FullJoins }),
	number("SUM_SELECT_FULL_RANGE_JOIN", func(r *digest.Row) uint64 { return r.Work.RangeJoins }),
	number("SUM_SELECT_RANGE", func(r *digest.Row) uint64 { return r.Work.Ranges }),
	zero("SUM_SELECT_RANGE_CHECK"),
	number("SUM_SELECT_SCAN", func(r *digest.Row) uint64 { return r.Work.Scans }),
	number("SUM_SORT_MERGE_PASSES", func(r *digest.Row) uint64 { return r.Work.Merges }), zero("SUM_SORT_RANGE"),
	number("SUM_SORT_ROWS", func(r *digest.Row) uint64 { return r.Work.Sorted }),
	number("SUM_SORT_SCAN", func(r *digest.Row) uint64 { return r.Work.Sorts }),
	number("SUM_NO_INDEX_USED", func(r *digest.Row) uint64 { return r.Unindexed }), zero("SUM_NO_GOOD_INDEX_USED"),
	zero("SUM_CPU_TIME"), zero("MAX_CONTROLLED_MEMORY"),
	number("MAX_TOTAL_MEMORY", func(r *digest.Row) uint64 { return uint64(r.Work.Memory) }), zero("COUNT_SECONDARY"),
	at("FIRST_SEEN", func(r *digest.Row) time.Time { return r.First }),
	at("LAST_SEEN", func(r *digest.Row) time.Time { return r.Last }),
	picoseconds("QUANTILE_95", func(r *digest.Row) time.Duration { return r.P95 }),
	picoseconds("QUANTILE_99", func(r *digest.Row) time.Duration { return r.P99 }),
	picoseconds("QUANTILE_999", func(r *digest.Row) time.Duration { return r.P999 }),
	text("QUERY_SAMPLE_TEXT", types.LongText, func(r *digest.Row) string { return r.Sample }),
	at("QUERY_SAMPLE_SEEN", func(r *digest.Row) time.Time { return r.SampleAt }),
	picoseconds("QUERY_SAMPLE_TIMER_WAIT", func(r *digest.Row) time.Duration { return r.SampleTook }),
}

var summaryColumns = func() (s sql.Schema) {
	for _, c := range summaryOf {
		_, isText := c.typ.(sql.StringType)
		s = append(s, &sql.Column{Name: c.name, Type: c.typ, Nullable: isText})
	}
	return s
}()

// summary is the table's content, in the order in which digests were first seen; the row of what
// has none is the last.
func summary(all []digest.Row) []sql.Row {
	slices.SortFunc(all, func(a, b digest.Row) int {
		switch {
		case a.Rest != b.Rest && a.Rest:
			return 1
		case a.Rest != b.Rest:
			return -1
		}
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Schema, b.Schema))
	})
	out := make([]sql.Row, len(all))
	for i := range all {
		out[i] = make(sql.Row, len(summaryOf))
		for k, c := range summaryOf {
			out[i][k] = c.value(&all[i])
		}
	}
	return out
}
