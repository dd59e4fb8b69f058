package sysschema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// The columns of sys.processlist.
const processColumns = "#thd_id #conn_id user db command state -time ?current_statement execution_engine ~statement_latency %progress " +
	"~lock_latency ~cpu_latency #rows_examined #rows_sent #rows_affected #tmp_tables #tmp_disk_tables full_scan ?last_statement " +
	"~last_statement_latency ^current_memory last_wait last_wait_latency source ~trx_latency trx_state trx_autocommit pid program_name"

// clientViews are made of threads, accounts and variables.
var clientViews = []view{
	{name: "version", columns: "sys_version mysql_version", plain: true, rows: func(_ *Env, ctx *sql.Context) ([]sql.Row, error) {
		v, err := ctx.GetSessionVariable(ctx, "version")
		return []sql.Row{{sysVersion, fmt.Sprint(v)}}, err
	}},
	{name: "sys_config", columns: "variable value @set_time set_by", plain: true, rows: func(*Env, *sql.Context) ([]sql.Row, error) {
		return []sql.Row{{"statement_truncate_len", fmt.Sprint(truncateLen), nil, nil}}, nil
	}},
	{name: "metrics", columns: "Variable_name Variable_value Type Enabled", plain: true, rows: metrics},
	{name: "processlist", columns: processColumns, rows: processlist},
	{name: "session", columns: processColumns, rows: func(e *Env, ctx *sql.Context) ([]sql.Row, error) { return processlist(e, ctx) }},
	summary("host", "users"), summary("user", "hosts"),
	byType("host"), byType("user"), byLatency("host"), byLatency("user"),
	{name: "innodb_lock_waits", columns: "@wait_started wait_age -wait_age_secs locked_table locked_table_schema locked_table_name " +
		"locked_table_partition locked_table_subpartition locked_index locked_type #waiting_trx_id @waiting_trx_started waiting_trx_age " +
		"#waiting_trx_rows_locked #waiting_trx_rows_modified #waiting_pid ?waiting_query waiting_lock_id waiting_lock_mode #blocking_trx_id " +
		"#blocking_pid ?blocking_query blocking_lock_id blocking_lock_mode @blocking_trx_started blocking_trx_age #blocking_trx_rows_locked " +
		"#blocking_trx_rows_modified sql_kill_blocking_query sql_kill_blocking_connection", rows: lockWaits},
}

// sysVersion is the version of MySQL 8.0's sys schema, whose columns these are.
const sysVersion = "2.1.2"

func metrics(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
	all, err := e.read(ctx, "global_status")
	for _, v := range all {
		out = append(out, sql.Row{strings.ToLower(v.s("VARIABLE_NAME")), v["VARIABLE_VALUE"], "Global Status", "YES"})
	}
	return out, err
}

// processlist are the threads with what their last statements have cost.
func processlist(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
	threads, err := e.read(ctx, "threads")
	if err != nil {
		return nil, err
	}
	events, err := e.read(ctx, "events_statements_current")
	if err != nil {
		return nil, err
	}
	of := map[uint64]record{}
	for _, v := range events {
		of[v.n("THREAD_ID")] = v
	}
	for _, t := range threads {
		v := of[t.n("THREAD_ID")]
		row := sql.Row{t["THREAD_ID"], t["PROCESSLIST_ID"], t.s("PROCESSLIST_USER") + "@" + t.s("PROCESSLIST_HOST"), t["PROCESSLIST_DB"],
			t["PROCESSLIST_COMMAND"], t["PROCESSLIST_STATE"], t["PROCESSLIST_TIME"], t["PROCESSLIST_INFO"], "PRIMARY"}
		var latency, last, lastLatency any
		scan := "NO"
		switch {
		case v == nil:
		case v["END_EVENT_ID"] == nil:
			latency = v["TIMER_WAIT"]
		default:
			last, lastLatency = v["SQL_TEXT"], v["TIMER_WAIT"]
		}
		if v.n("NO_INDEX_USED")+v.n("NO_GOOD_INDEX_USED") > 0 {
			scan = "YES"
		}
		out = append(out, append(row, latency, nil, v["LOCK_TIME"], v["CPU_TIME"], v["ROWS_EXAMINED"], v["ROWS_SENT"], v["ROWS_AFFECTED"],
			v["CREATED_TMP_TABLES"], v["CREATED_TMP_DISK_TABLES"], scan, last, lastLatency, nil, nil, nil, nil, nil, nil, nil, nil, nil))
	}
	return out, nil
}

// totals adds up the summaries of statements by host or by user.
type totals struct {
	name                                           any
	n, wait, most, locked, sent, examined, changed uint64
	scans                                          uint64
}

func (t *totals) add(r record) {
	t.n += r.n("COUNT_STAR")
	t.wait += r.n("SUM_TIMER_WAIT")
	t.most = max(t.most, r.n("MAX_TIMER_WAIT"))
	t.locked += r.n("SUM_LOCK_TIME")
	t.sent += r.n("SUM_ROWS_SENT")
	t.examined += r.n("SUM_ROWS_EXAMINED")
	t.changed += r.n("SUM_ROWS_AFFECTED")
	t.scans += r.n("SUM_NO_INDEX_USED") + r.n("SUM_NO_GOOD_INDEX_USED")
}

// orBackground names what has no account.
func orBackground(v any) any {
	if v == nil {
		return "background"
	}
	return v
}

// totalsBy are the totals by host or user.
func (e *Env) totalsBy(ctx *sql.Context, part string) (map[any]*totals, error) {
	all, err := e.read(ctx, "events_statements_summary_by_"+part+"_by_event_name")
	out := map[any]*totals{}
	for _, r := range all {
		name := orBackground(r[strings.ToUpper(part)])
		if out[name] == nil {
			out[name] = &totals{name: name}
		}
		out[name].add(r)
	}
	return out, err
}

// summary is host_summary or user_summary; others are what it counts of the other kind.
func summary(part, others string) view {
	return view{name: part + "_summary", columns: part + " #statements ~statement_latency ~statement_avg_latency #table_scans #file_ios " +
		"~file_io_latency #current_connections #total_connections #unique_" + others + " ^current_memory ^total_memory_allocated",
		rows: func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
			by, err := e.totalsBy(ctx, part)
			if err != nil {
				return nil, err
			}
			accounts, err := e.read(ctx, "accounts")
			if err != nil {
				return nil, err
			}
			type count struct{ now, all, others uint64 }
			counts := map[any]*count{}
			for _, a := range accounts {
				name := orBackground(a[strings.ToUpper(part)])
				if counts[name] == nil {
					counts[name] = new(count)
				}
				c := counts[name]
				c.now, c.all, c.others = c.now+a.n("CURRENT_CONNECTIONS"), c.all+a.n("TOTAL_CONNECTIONS"), c.others+1
			}
			for name, c := range counts {
				t := by[name]
				if t == nil {
					t = &totals{}
				}
				out = append(out, sql.Row{name, t.n, t.wait, per(t.wait, t.n), t.scans, uint64(0), uint64(0), c.now, c.all, c.others, uint64(0), uint64(0)})
			}
			return byDescending(inOrder(out), 2), nil
		}}
}

// inOrder orders rows by their first column.
func inOrder(rows []sql.Row) []sql.Row {
	slices.SortFunc(rows, func(a, b sql.Row) int { return cmp.Compare(fmt.Sprint(a[0]), fmt.Sprint(b[0])) })
	return rows
}

func byLatency(part string) view {
	return view{name: part + "_summary_by_statement_latency", columns: part + " #total ~total_latency ~max_latency ~lock_latency ~cpu_latency " +
		"#rows_sent #rows_examined #rows_affected #full_scans",
		rows: func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
			by, err := e.totalsBy(ctx, part)
			for _, t := range by {
				out = append(out, sql.Row{t.name, t.n, t.wait, t.most, t.locked, uint64(0), t.sent, t.examined, t.changed, t.scans})
			}
			return byDescending(inOrder(out), 2), err
		}}
}

func byType(part string) view {
	return view{name: part + "_summary_by_statement_type", columns: part + " statement #total ~total_latency ~max_latency ~lock_latency " +
		"~cpu_latency #rows_sent #rows_examined #rows_affected #full_scans",
		rows: func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
			all, err := e.read(ctx, "events_statements_summary_by_"+part+"_by_event_name")
			for _, r := range all {
				t := totals{}
				t.add(r)
				name := r.s("EVENT_NAME")
				out = append(out, sql.Row{orBackground(r[strings.ToUpper(part)]), name[strings.LastIndexByte(name, '/')+1:], t.n, t.wait, t.most, t.locked,
					uint64(0), t.sent, t.examined, t.changed, t.scans})
			}
			return inOrder(byDescending(out, 3)), err
		}}
}

// lockWaits are who waits for a lock of whom. Which connection a transaction is of nobody knows
// here: it may be one of another node.
func lockWaits(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
	locks, err := e.read(ctx, "data_locks")
	if err != nil {
		return nil, err
	}
	waits, err := e.read(ctx, "data_lock_waits")
	of := map[string]record{}
	for _, l := range locks {
		of[l.s("ENGINE_LOCK_ID")] = l
	}
	for _, w := range waits {
		waiting, blocking := of[w.s("REQUESTING_ENGINE_LOCK_ID")], of[w.s("BLOCKING_ENGINE_LOCK_ID")]
		var table any
		if waiting.s("OBJECT_NAME") != "" {
			table = "`" + waiting.s("OBJECT_SCHEMA") + "`.`" + waiting.s("OBJECT_NAME") + "`"
		}
		out = append(out, sql.Row{nil, nil, nil, table, waiting["OBJECT_SCHEMA"], waiting["OBJECT_NAME"], nil, nil, nil, waiting["LOCK_TYPE"],
			w["REQUESTING_ENGINE_TRANSACTION_ID"], nil, nil, nil, nil, nil, nil, w["REQUESTING_ENGINE_LOCK_ID"], waiting["LOCK_MODE"],
			w["BLOCKING_ENGINE_TRANSACTION_ID"], nil, nil, w["BLOCKING_ENGINE_LOCK_ID"], blocking["LOCK_MODE"], nil, nil, nil, nil, nil, nil})
	}
	return out, err
}
