package perfschema

import (
	"github.com/dolthub/go-mysql-server/sql"
)

// The setup tables say what is counted and what is not. Nothing of it can be changed.
var setupTables = []live{
	{name: "setup_actors", columns: "HOST char(255)!, USER char(32)!, ROLE char(32)!, ENABLED varchar(3)!, HISTORY varchar(3)!",
		rows: always(sql.Row{"%", "%", "%", "YES", "YES"})},
	{name: "setup_consumers", columns: "NAME varchar(64)!, ENABLED varchar(3)!", rows: always(consumers...)},
	{name: "setup_instruments", columns: "NAME varchar(128)!, ENABLED varchar(3)!, TIMED varchar(3), PROPERTIES varchar(64)!, FLAGS varchar(64), " +
		"VOLATILITY int!, DOCUMENTATION longtext", rows: always(instruments...)},
	{name: "setup_objects", columns: "OBJECT_TYPE varchar(9)!, OBJECT_SCHEMA varchar(64), OBJECT_NAME varchar(64)!, ENABLED varchar(3)!, TIMED varchar(3)!",
		rows: always(objects()...)},
	{name: "setup_threads", columns: "NAME varchar(128)!, ENABLED varchar(3)!, HISTORY varchar(3)!, PROPERTIES varchar(64)!, VOLATILITY int!, " +
		"DOCUMENTATION longtext", rows: always(sql.Row{thread, "YES", "YES", "user", int32(0), nil})},
	{name: "performance_timers", columns: "TIMER_NAME varchar(11)!, TIMER_FREQUENCY i64, TIMER_RESOLUTION i64, TIMER_OVERHEAD i64",
		rows: always(sql.Row{"NANOSECOND", int64(1e9), int64(1), nil})},
}

// always are rows that never change.
func always(rows ...sql.Row) func(*Env, *sql.Context) ([]sql.Row, error) {
	return func(*Env, *sql.Context) (out []sql.Row, err error) {
		for _, r := range rows {
			out = append(out, r.Copy())
		}
		return out, nil
	}
}

var consumers = []sql.Row{
	{"events_stages_current", "NO"}, {"events_stages_history", "NO"}, {"events_stages_history_long", "NO"},
	{"events_statements_cpu", "NO"}, {"events_statements_current", "YES"}, {"events_statements_history", "YES"}, {"events_statements_history_long", "NO"},
	{"events_transactions_current", "NO"}, {"events_transactions_history", "NO"}, {"events_transactions_history_long", "NO"},
	{"events_waits_current", "NO"}, {"events_waits_history", "NO"}, {"events_waits_history_long", "NO"},
	{"global_instrumentation", "YES"}, {"thread_instrumentation", "YES"}, {"statements_digest", "YES"},
}

// instruments are some of MySQL's: statements are counted and timed, errors are counted, and
// nothing else is.
var instruments = []sql.Row{
	{"wait/io/table/sql/handler", "NO", "NO", "", nil, int32(1), nil},
	{"wait/lock/table/sql/handler", "NO", "NO", "", nil, int32(1), nil},
	{"wait/lock/metadata/sql/mdl", "NO", "NO", "", nil, int32(1), nil},
	{"stage/sql/executing", "NO", "NO", "", nil, int32(0), nil},
	{"statement/sql/select", "YES", "YES", "", nil, int32(0), nil},
	{"statement/sql/insert", "YES", "YES", "", nil, int32(0), nil},
	{"statement/sql/replace", "YES", "YES", "", nil, int32(0), nil},
	{"statement/sql/update", "YES", "YES", "", nil, int32(0), nil},
	{"statement/sql/delete", "YES", "YES", "", nil, int32(0), nil},
	{"statement/sql/commit", "YES", "YES", "", nil, int32(0), nil},
	{"statement/sql/rollback", "YES", "YES", "", nil, int32(0), nil},
	{"statement/sql/error", "YES", "YES", "", nil, int32(0), nil},
	{"statement/com/Query", "YES", "YES", "mutable", nil, int32(0), nil},
	{"transaction", "NO", "NO", "", nil, int32(0), nil},
	{"memory/sql/THD::main_mem_root", "NO", nil, "", nil, int32(3), nil},
	{"error", "YES", nil, "", nil, int32(0), nil},
}

// objects are the rows of setup_objects. MySQL leaves the tables of its own databases out.
func objects() (out []sql.Row) {
	for _, kind := range []string{"EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER"} {
		for _, db := range []string{"mysql", Schema, "information_schema", "%"} {
			out = append(out, sql.Row{kind, db, "%", "NO", "NO"})
		}
	}
	return out
}
