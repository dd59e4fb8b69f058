package perfschema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// shared are lists of columns that several tables have, by the name that stands for them.
var shared = map[string]string{
	"@statement": "@timers, SUM_LOCK_TIME u64!, SUM_ERRORS u64!, SUM_WARNINGS u64!, SUM_ROWS_AFFECTED u64!, SUM_ROWS_SENT u64!, " +
		"SUM_ROWS_EXAMINED u64!, SUM_CREATED_TMP_DISK_TABLES u64!, SUM_CREATED_TMP_TABLES u64!, SUM_SELECT_FULL_JOIN u64!, " +
		"SUM_SELECT_FULL_RANGE_JOIN u64!, SUM_SELECT_RANGE u64!, SUM_SELECT_RANGE_CHECK u64!, SUM_SELECT_SCAN u64!, " +
		"SUM_SORT_MERGE_PASSES u64!, SUM_SORT_RANGE u64!, SUM_SORT_ROWS u64!, SUM_SORT_SCAN u64!, SUM_NO_INDEX_USED u64!, " +
		"SUM_NO_GOOD_INDEX_USED u64!, SUM_CPU_TIME u64!, MAX_CONTROLLED_MEMORY u64!, MAX_TOTAL_MEMORY u64!, COUNT_SECONDARY u64!",
	"@timers": "COUNT_STAR u64!, SUM_TIMER_WAIT u64!, MIN_TIMER_WAIT u64!, AVG_TIMER_WAIT u64!, MAX_TIMER_WAIT u64!",
	"@event": "THREAD_ID u64!, EVENT_ID u64!, END_EVENT_ID u64, EVENT_NAME varchar(128)!, SOURCE varchar(64), TIMER_START u64, " +
		"TIMER_END u64, TIMER_WAIT u64",
	"@statements": "@event, LOCK_TIME u64!, SQL_TEXT longtext, DIGEST varchar(64), DIGEST_TEXT longtext, CURRENT_SCHEMA varchar(64), " +
		"OBJECT_TYPE varchar(64), OBJECT_SCHEMA varchar(64), OBJECT_NAME varchar(64), OBJECT_INSTANCE_BEGIN u64, MYSQL_ERRNO int, " +
		"RETURNED_SQLSTATE varchar(5), MESSAGE_TEXT varchar(128), ERRORS u64!, WARNINGS u64!, ROWS_AFFECTED u64!, ROWS_SENT u64!, " +
		"ROWS_EXAMINED u64!, CREATED_TMP_DISK_TABLES u64!, CREATED_TMP_TABLES u64!, SELECT_FULL_JOIN u64!, " +
		"SELECT_FULL_RANGE_JOIN u64!, SELECT_RANGE u64!, SELECT_RANGE_CHECK u64!, SELECT_SCAN u64!, SORT_MERGE_PASSES u64!, " +
		"SORT_RANGE u64!, SORT_ROWS u64!, SORT_SCAN u64!, NO_INDEX_USED u64!, NO_GOOD_INDEX_USED u64!, NESTING_EVENT_ID u64, " +
		"NESTING_EVENT_TYPE varchar(11), NESTING_EVENT_LEVEL int, STATEMENT_ID u64, CPU_TIME u64!, MAX_CONTROLLED_MEMORY u64!, " +
		"MAX_TOTAL_MEMORY u64!, EXECUTION_ENGINE varchar(9)",
	"@stages": "@event, WORK_COMPLETED u64, WORK_ESTIMATED u64, NESTING_EVENT_ID u64, NESTING_EVENT_TYPE varchar(11)",
	"@waits": "@event, SPINS uint, OBJECT_SCHEMA varchar(64), OBJECT_NAME varchar(512), INDEX_NAME varchar(64), OBJECT_TYPE varchar(64), " +
		"OBJECT_INSTANCE_BEGIN u64!, NESTING_EVENT_ID u64, NESTING_EVENT_TYPE varchar(11), OPERATION varchar(32)!, NUMBER_OF_BYTES i64, " +
		"FLAGS uint",
	"@transactions": "THREAD_ID u64!, EVENT_ID u64!, END_EVENT_ID u64, EVENT_NAME varchar(128)!, STATE varchar(11), TRX_ID u64, " +
		"GTID varchar(90), XID_FORMAT_ID int, XID_GTRID varchar(130), XID_BQUAL varchar(130), XA_STATE varchar(64), SOURCE varchar(64), " +
		"TIMER_START u64, TIMER_END u64, TIMER_WAIT u64, ACCESS_MODE varchar(10), ISOLATION_LEVEL varchar(64), AUTOCOMMIT varchar(3)!, " +
		"NUMBER_OF_SAVEPOINTS u64, NUMBER_OF_ROLLBACK_TO_SAVEPOINT u64, NUMBER_OF_RELEASE_SAVEPOINT u64, OBJECT_INSTANCE_BEGIN u64, " +
		"NESTING_EVENT_ID u64, NESTING_EVENT_TYPE varchar(11)",
	"@file": "@timers, COUNT_READ u64!, SUM_TIMER_READ u64!, MIN_TIMER_READ u64!, AVG_TIMER_READ u64!, MAX_TIMER_READ u64!, " +
		"SUM_NUMBER_OF_BYTES_READ i64!, COUNT_WRITE u64!, SUM_TIMER_WRITE u64!, MIN_TIMER_WRITE u64!, AVG_TIMER_WRITE u64!, " +
		"MAX_TIMER_WRITE u64!, SUM_NUMBER_OF_BYTES_WRITE i64!, COUNT_MISC u64!, SUM_TIMER_MISC u64!, MIN_TIMER_MISC u64!, " +
		"AVG_TIMER_MISC u64!, MAX_TIMER_MISC u64!",
	"@io": "@timers, " + times("READ", "WRITE", "FETCH", "INSERT", "UPDATE", "DELETE"),
	"@lock": "@timers, " + times("READ", "WRITE", "READ_NORMAL", "READ_WITH_SHARED_LOCKS", "READ_HIGH_PRIORITY", "READ_NO_INSERT",
		"READ_EXTERNAL", "WRITE_ALLOW_WRITE", "WRITE_CONCURRENT_INSERT", "WRITE_LOW_PRIORITY", "WRITE_NORMAL", "WRITE_EXTERNAL"),
	"@transaction": "@timers, " + times("READ_WRITE", "READ_ONLY"),
	"@memory": "COUNT_ALLOC u64!, COUNT_FREE u64!, SUM_NUMBER_OF_BYTES_ALLOC u64!, SUM_NUMBER_OF_BYTES_FREE u64!, LOW_COUNT_USED i64!, " +
		"CURRENT_COUNT_USED i64!, HIGH_COUNT_USED i64!, LOW_NUMBER_OF_BYTES_USED i64!, CURRENT_NUMBER_OF_BYTES_USED i64!, " +
		"HIGH_NUMBER_OF_BYTES_USED i64!",
	"@error": "ERROR_NUMBER int, ERROR_NAME varchar(64), SQL_STATE varchar(5), SUM_ERROR_RAISED u64!, SUM_ERROR_HANDLED u64!, " +
		"FIRST_SEEN timestamp(0), LAST_SEEN timestamp(0)",
	"@buckets": "BUCKET_NUMBER uint!, BUCKET_TIMER_LOW u64!, BUCKET_TIMER_HIGH u64!, COUNT_BUCKET u64!, " +
		"COUNT_BUCKET_AND_LOWER u64!, BUCKET_QUANTILE double!",
	"@variable": "VARIABLE_NAME varchar(64)!, VARIABLE_VALUE varchar(1024)",
}

var reShared = regexp.MustCompile("@[a-z]+")

// times are the columns of counted and timed operations.
func times(operations ...string) string {
	var out []string
	for _, x := range operations {
		out = append(out, strings.ReplaceAll("COUNT_? u64!, SUM_TIMER_? u64!, MIN_TIMER_? u64!, AVG_TIMER_? u64!, MAX_TIMER_? u64!", "?", x))
	}
	return strings.Join(out, ", ")
}

// columns makes a schema of a list such as "NAME varchar(64)!, ENABLED varchar(3)!": an exclamation
// mark is NOT NULL.
func columns(list string) (out sql.Schema) {
	for reShared.MatchString(list) {
		list = reShared.ReplaceAllStringFunc(list, func(name string) string { return shared[name] })
	}
	for _, c := range strings.Split(list, ",") {
		name, typ, _ := strings.Cut(strings.TrimSpace(c), " ")
		typ, notNull := strings.CutSuffix(typ, "!")
		out = append(out, &sql.Column{Name: name, Type: typeOf(typ), Nullable: !notNull})
	}
	return out
}

// typeOf is the type that a list of columns names.
func typeOf(name string) sql.Type {
	switch name {
	case "u64":
		return types.Uint64
	case "i64":
		return types.Int64
	case "int":
		return types.Int32
	case "uint":
		return types.Uint32
	case "double":
		return types.Float64
	case "text":
		return types.Text
	case "longtext":
		return types.LongText
	case "longblob":
		return types.LongBlob
	case "json":
		return types.JSON
	}
	kind, size, _ := strings.Cut(strings.TrimSuffix(name, ")"), "(")
	n, err := strconv.Atoi(size)
	switch {
	case err != nil:
	case kind == "varchar":
		return types.MustCreateStringWithDefaults(sqltypes.VarChar, int64(n))
	case kind == "char":
		return types.MustCreateStringWithDefaults(sqltypes.Char, int64(n))
	case kind == "timestamp":
		return types.MustCreateDatetimeType(sqltypes.Timestamp, n)
	}
	panic(fmt.Sprintf("no type %q", name)) // the lists are written here
}
