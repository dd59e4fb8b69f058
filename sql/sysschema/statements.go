package sysschema

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
)

const byDigest = "events_statements_summary_by_digest"

// statementViews are made of the summary of statements by digest.
var statementViews = []view{
	{name: "statement_analysis", columns: "?query db full_scan #exec_count #err_count #warn_count ~total_latency ~max_latency ~avg_latency " +
		"~lock_latency ~cpu_latency #rows_sent #rows_sent_avg #rows_examined #rows_examined_avg #rows_affected #rows_affected_avg #tmp_tables " +
		"#tmp_disk_tables #rows_sorted #sort_merge_passes ^max_controlled_memory ^max_total_memory digest @first_seen @last_seen",
		rows: digests(6, nil, func(d record) sql.Row {
			n := d.n("COUNT_STAR")
			return sql.Row{d["DIGEST_TEXT"], d["SCHEMA_NAME"], fullScan(d), n, d.n("SUM_ERRORS"), d.n("SUM_WARNINGS"), d.n("SUM_TIMER_WAIT"),
				d.n("MAX_TIMER_WAIT"), d.n("AVG_TIMER_WAIT"), d.n("SUM_LOCK_TIME"), d.n("SUM_CPU_TIME"), d.n("SUM_ROWS_SENT"),
				per(d.n("SUM_ROWS_SENT"), n), d.n("SUM_ROWS_EXAMINED"), per(d.n("SUM_ROWS_EXAMINED"), n), d.n("SUM_ROWS_AFFECTED"),
				per(d.n("SUM_ROWS_AFFECTED"), n), d.n("SUM_CREATED_TMP_TABLES"), d.n("SUM_CREATED_TMP_DISK_TABLES"), d.n("SUM_SORT_ROWS"),
				d.n("SUM_SORT_MERGE_PASSES"), d.n("MAX_CONTROLLED_MEMORY"), d.n("MAX_TOTAL_MEMORY"), d["DIGEST"], d["FIRST_SEEN"], d["LAST_SEEN"]}
		})},
	{name: "statements_with_errors_or_warnings", columns: "?query db #exec_count #errors /error_pct #warnings /warning_pct @first_seen " +
		"@last_seen digest",
		rows: digests(3, func(d record) bool { return d.n("SUM_ERRORS")+d.n("SUM_WARNINGS") > 0 }, func(d record) sql.Row {
			n := d.n("COUNT_STAR")
			return sql.Row{d["DIGEST_TEXT"], d["SCHEMA_NAME"], n, d.n("SUM_ERRORS"), percent(d.n("SUM_ERRORS"), n, 4), d.n("SUM_WARNINGS"),
				percent(d.n("SUM_WARNINGS"), n, 4), d["FIRST_SEEN"], d["LAST_SEEN"], d["DIGEST"]}
		})},
	{name: "statements_with_full_table_scans", columns: "?query db #exec_count ~total_latency #no_index_used_count #no_good_index_used_count " +
		"#no_index_used_pct #rows_sent #rows_examined #rows_sent_avg #rows_examined_avg @first_seen @last_seen digest",
		rows: digests(6, func(d record) bool { return fullScan(d) == "*" }, func(d record) sql.Row {
			n := d.n("COUNT_STAR")
			return sql.Row{d["DIGEST_TEXT"], d["SCHEMA_NAME"], n, d.n("SUM_TIMER_WAIT"), d.n("SUM_NO_INDEX_USED"), d.n("SUM_NO_GOOD_INDEX_USED"),
				per(100*d.n("SUM_NO_INDEX_USED"), n), d.n("SUM_ROWS_SENT"), d.n("SUM_ROWS_EXAMINED"), per(d.n("SUM_ROWS_SENT"), n),
				per(d.n("SUM_ROWS_EXAMINED"), n), d["FIRST_SEEN"], d["LAST_SEEN"], d["DIGEST"]}
		})},
	{name: "statements_with_sorting", columns: "?query db #exec_count ~total_latency #sort_merge_passes #avg_sort_merges #sorts_using_scans " +
		"#sort_using_range #rows_sorted #avg_rows_sorted @first_seen @last_seen digest",
		rows: digests(3, func(d record) bool { return d.n("SUM_SORT_ROWS") > 0 }, func(d record) sql.Row {
			n := d.n("COUNT_STAR")
			return sql.Row{d["DIGEST_TEXT"], d["SCHEMA_NAME"], n, d.n("SUM_TIMER_WAIT"), d.n("SUM_SORT_MERGE_PASSES"),
				per(d.n("SUM_SORT_MERGE_PASSES"), n), d.n("SUM_SORT_SCAN"), d.n("SUM_SORT_RANGE"), d.n("SUM_SORT_ROWS"),
				per(d.n("SUM_SORT_ROWS"), n), d["FIRST_SEEN"], d["LAST_SEEN"], d["DIGEST"]}
		})},
	{name: "statements_with_temp_tables", columns: "?query db #exec_count ~total_latency #memory_tmp_tables #disk_tmp_tables " +
		"#avg_tmp_tables_per_query #tmp_tables_to_disk_pct @first_seen @last_seen digest",
		rows: digests(5, func(d record) bool { return d.n("SUM_CREATED_TMP_TABLES") > 0 }, func(d record) sql.Row {
			n := d.n("COUNT_STAR")
			return sql.Row{d["DIGEST_TEXT"], d["SCHEMA_NAME"], n, d.n("SUM_TIMER_WAIT"), d.n("SUM_CREATED_TMP_TABLES"),
				d.n("SUM_CREATED_TMP_DISK_TABLES"), per(d.n("SUM_CREATED_TMP_TABLES"), n),
				per(100*d.n("SUM_CREATED_TMP_DISK_TABLES"), d.n("SUM_CREATED_TMP_TABLES")), d["FIRST_SEEN"], d["LAST_SEEN"], d["DIGEST"]}
		})},
	{name: "statements_with_runtimes_in_95th_percentile", columns: "?query db full_scan #exec_count #err_count #warn_count ~total_latency " +
		"~max_latency ~avg_latency #rows_sent #rows_sent_avg #rows_examined #rows_examined_avg @first_seen @last_seen digest", rows: slowest},
}

// fullScan is * for statements that have read a table without an index.
func fullScan(d record) string {
	if d.n("SUM_NO_INDEX_USED")+d.n("SUM_NO_GOOD_INDEX_USED") > 0 {
		return "*"
	}
	return ""
}

// digests are rows of the digests that some, if it is not nil, lets pass, ordered by a column.
func digests(by int, some func(record) bool, row func(record) sql.Row) func(*Env, *sql.Context) ([]sql.Row, error) {
	return func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
		all, err := e.read(ctx, byDigest)
		for _, d := range all {
			if some == nil || some(d) {
				out = append(out, row(d))
			}
		}
		return byDescending(out, by), err
	}
}

// slowest are the digests whose average is at least that of 95 of 100.
func slowest(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
	all, err := e.read(ctx, byDigest)
	var averages []uint64
	for _, d := range all {
		averages = append(averages, d.n("AVG_TIMER_WAIT"))
	}
	slices.Sort(averages)
	for _, d := range all {
		if n := d.n("COUNT_STAR"); d.n("AVG_TIMER_WAIT") >= averages[len(averages)*95/100] {
			out = append(out, sql.Row{d["DIGEST_TEXT"], d["SCHEMA_NAME"], fullScan(d), n, d.n("SUM_ERRORS"), d.n("SUM_WARNINGS"), d.n("SUM_TIMER_WAIT"),
				d.n("MAX_TIMER_WAIT"), d.n("AVG_TIMER_WAIT"), d.n("SUM_ROWS_SENT"), per(d.n("SUM_ROWS_SENT"), n), d.n("SUM_ROWS_EXAMINED"),
				per(d.n("SUM_ROWS_EXAMINED"), n), d["FIRST_SEEN"], d["LAST_SEEN"], d["DIGEST"]})
		}
	}
	return byDescending(out, 8), err
}
