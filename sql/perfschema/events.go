package perfschema

import (
	"cmp"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/statements"
)

var eventTables = []live{
	{name: "events_statements_current", columns: "@statements", rows: func(e *Env, _ *sql.Context) ([]sql.Row, error) { return e.current(), nil }},
	{name: "events_statements_history", columns: "@statements", rows: func(e *Env, _ *sql.Context) (out []sql.Row, err error) {
		for _, c := range e.Statements.Clients() {
			last, _ := c.Events()
			for i := range last {
				out = append(out, e.event(c.Connection, &last[i]))
			}
		}
		return out, nil
	}},
	summaryBy("account", "USER char(32), HOST char(255), ", func(a statements.Account) (statements.Account, []any) {
		return a, []any{orNull(a.User), orNull(a.Host)}
	}),
	summaryBy("user", "USER char(32), ", func(a statements.Account) (statements.Account, []any) {
		return statements.Account{User: a.User}, []any{orNull(a.User)}
	}),
	summaryBy("host", "HOST char(255), ", func(a statements.Account) (statements.Account, []any) {
		return statements.Account{Host: a.Host}, []any{orNull(a.Host)}
	}),
	{name: "events_statements_summary_global_by_event_name", columns: "EVENT_NAME varchar(128)!, @statement",
		rows: func(e *Env, _ *sql.Context) ([]sql.Row, error) {
			return e.summary(func(statements.Account) (statements.Account, []any) { return statements.Account{}, nil }), nil
		}},
	{name: "events_statements_summary_by_thread_by_event_name", columns: "THREAD_ID u64!, EVENT_NAME varchar(128)!, @statement",
		rows: func(e *Env, _ *sql.Context) (out []sql.Row, err error) {
			for _, c := range e.Statements.Clients() {
				out = append(out, byName(c.Totals(), uint64(c.Connection))...)
			}
			return out, nil
		}},
	{name: "events_statements_histogram_by_digest", columns: "SCHEMA_NAME varchar(64), DIGEST varchar(64), @buckets", rows: histograms},
	{name: "events_statements_histogram_global", columns: "@buckets", rows: histogram},
	{name: "events_errors_summary_global_by_error", columns: "@error", rows: func(e *Env, _ *sql.Context) (out []sql.Row, err error) {
		for _, c := range e.Statements.Errors() {
			out = append(out, sql.Row{int32(c.Number), orNull(errorNames[c.Number]), orNull(c.State), c.Raised, uint64(0), c.First.UTC(), c.Last.UTC()})
		}
		return out, nil
	}, truncate: func(e *Env) { e.Statements.ForgetErrors() }},
}

// began is what timers count from.
var began = time.Now()

// event is the row of a statement that has ended.
func (e *Env) event(connection uint32, v *statements.Event) sql.Row {
	end := max(v.End.Sub(began), v.Elapsed)
	w := &v.Work
	failed, errno, text := uint64(0), any(int32(0)), v.Digest
	if v.Failed {
		failed = 1
	}
	if v.Errno != 0 {
		errno = int32(v.Errno)
	}
	if v.Sample != "" {
		text = v.Sample
	}
	unindexed := uint64(0)
	if v.Unindexed {
		unindexed = 1
	}
	var hash any
	if v.Digest != "" {
		hash = digest.Hash(v.Digest)
	}
	return sql.Row{uint64(connection), v.ID, v.ID, v.Name, nil, picoseconds(end - v.Elapsed), picoseconds(end), picoseconds(v.Elapsed), uint64(0),
		orNull(text), hash, orNull(v.Digest), orNull(v.Schema), nil, nil, nil, nil, errno, orNull(v.State), nil, failed, v.Warnings,
		v.Affected, v.Sent, w.Examined, w.Files, w.Tables, w.FullJoins, w.RangeJoins, w.Ranges, uint64(0), w.Scans, w.Merges, uint64(0),
		w.Sorted, w.Sorts, unindexed, uint64(0), nil, nil, int32(0), nil, uint64(0), uint64(0), uint64(w.Memory), "PRIMARY"}
}

// current are the statements that run, and the last ones of clients of which none runs.
func (e *Env) current() (out []sql.Row) {
	running := map[uint32]sql.Process{}
	for _, p := range e.Processes() {
		if runs(&p) {
			running[p.Connection] = p
		}
	}
	for _, c := range e.Statements.Clients() {
		last, n := c.Events()
		p, ok := running[c.Connection]
		switch {
		case ok:
			v := statements.Event{ID: n + 1, Name: "statement/com/Query", Digest: digest.Text(p.Query, 0)}
			v.Schema, v.Elapsed, v.End = p.Database, time.Since(p.StartedAt), time.Now()
			row := e.event(c.Connection, &v)
			row[2] = nil // it has not ended
			out = append(out, row)
		case len(last) > 0:
			out = append(out, e.event(c.Connection, &last[len(last)-1]))
		}
	}
	return out
}

// byName are rows of totals by the names of events, behind the columns of a key.
func byName(by map[string]*digest.Totals, key ...any) (out []sql.Row) {
	for name, t := range by {
		out = append(out, append(append(slices.Clone(key), name), statementTotals(t)...))
	}
	at := len(key)
	slices.SortFunc(out, func(a, b sql.Row) int { return cmp.Compare(a[at].(string), b[at].(string)) })
	return out
}

// summaryBy is the summary of statements by a part of accounts.
func summaryBy(part, key string, of func(statements.Account) (statements.Account, []any)) live {
	return live{name: "events_statements_summary_by_" + part + "_by_event_name", columns: key + "EVENT_NAME varchar(128)!, @statement",
		rows: func(e *Env, _ *sql.Context) ([]sql.Row, error) { return e.summary(of), nil }}
}

func (e *Env) summary(of func(statements.Account) (statements.Account, []any)) (out []sql.Row) {
	parts, keys := map[statements.Account]map[string]*digest.Totals{}, map[statements.Account][]any{}
	all, _ := e.Statements.ByAccount()
	for a, by := range all {
		p, key := of(a)
		if parts[p] == nil {
			parts[p], keys[p] = map[string]*digest.Totals{}, key
		}
		for name, t := range by {
			if parts[p][name] == nil {
				parts[p][name] = new(digest.Totals)
			}
			parts[p][name].Plus(t)
		}
	}
	for p, by := range parts {
		out = append(out, byName(by, keys[p]...)...)
	}
	return sorted(out)
}

// histograms are how long the statements of each digest took.
func histograms(e *Env, _ *sql.Context) (out []sql.Row, err error) {
	all := e.Statements.Table.Histograms()
	slices.SortFunc(all, func(a, b digest.Histogram) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Text, b.Text))
	})
	for _, h := range all {
		var hash any
		if !h.Rest {
			hash = digest.Hash(h.Text)
		}
		out = append(out, buckets(h.Buckets, orNull(h.Schema), hash)...)
	}
	return out, nil
}

// histogram is how long all statements took.
func histogram(e *Env, _ *sql.Context) ([]sql.Row, error) {
	by := map[time.Duration]digest.Bucket{}
	for _, h := range e.Statements.Table.Histograms() {
		for _, b := range h.Buckets {
			b.Count += by[b.High].Count
			by[b.High] = b
		}
	}
	var all []digest.Bucket
	for _, b := range by {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b digest.Bucket) int { return cmp.Compare(a.High, b.High) })
	return buckets(all), nil
}

func buckets(all []digest.Bucket, key ...any) (out []sql.Row) {
	n, seen := uint64(0), uint64(0)
	for _, b := range all {
		n += b.Count
	}
	for i, b := range all {
		seen += b.Count
		out = append(out, append(slices.Clone(key), uint32(i), picoseconds(b.Low), picoseconds(b.High), b.Count, seen,
			float64(seen)/float64(n)))
	}
	return out
}

// errorNames are MySQL's names of errors that statements meet often. What is not among them has no
// name.
var errorNames = map[int]string{
	1005: "ER_CANT_CREATE_TABLE", 1007: "ER_DB_CREATE_EXISTS", 1008: "ER_DB_DROP_EXISTS", 1040: "ER_CON_COUNT_ERROR", 1044: "ER_DBACCESS_DENIED_ERROR",
	1045: "ER_ACCESS_DENIED_ERROR", 1046: "ER_NO_DB_ERROR", 1048: "ER_BAD_NULL_ERROR", 1049: "ER_BAD_DB_ERROR", 1050: "ER_TABLE_EXISTS_ERROR",
	1051: "ER_BAD_TABLE_ERROR", 1052: "ER_NON_UNIQ_ERROR", 1054: "ER_BAD_FIELD_ERROR", 1055: "ER_WRONG_FIELD_WITH_GROUP", 1060: "ER_DUP_FIELDNAME",
	1061: "ER_DUP_KEYNAME", 1062: "ER_DUP_ENTRY", 1064: "ER_PARSE_ERROR", 1065: "ER_EMPTY_QUERY", 1066: "ER_NONUNIQ_TABLE", 1067: "ER_INVALID_DEFAULT",
	1068: "ER_MULTIPLE_PRI_KEY", 1071: "ER_TOO_LONG_KEY", 1072: "ER_KEY_COLUMN_DOES_NOT_EXITS", 1091: "ER_CANT_DROP_FIELD_OR_KEY", 1094: "ER_NO_SUCH_THREAD",
	1095: "ER_KILL_DENIED_ERROR", 1105: "ER_UNKNOWN_ERROR", 1111: "ER_INVALID_GROUP_FUNC_USE", 1115: "ER_UNKNOWN_CHARACTER_SET", 1136: "ER_WRONG_VALUE_COUNT_ON_ROW",
	1140: "ER_MIX_OF_GROUP_FUNC_AND_FIELDS", 1142: "ER_TABLEACCESS_DENIED_ERROR", 1143: "ER_COLUMNACCESS_DENIED_ERROR", 1146: "ER_NO_SUCH_TABLE",
	1193: "ER_UNKNOWN_SYSTEM_VARIABLE", 1205: "ER_LOCK_WAIT_TIMEOUT", 1210: "ER_WRONG_ARGUMENTS", 1213: "ER_LOCK_DEADLOCK", 1222: "ER_WRONG_NUMBER_OF_COLUMNS_IN_SELECT",
	1227: "ER_SPECIFIC_ACCESS_DENIED_ERROR", 1231: "ER_WRONG_VALUE_FOR_VAR", 1235: "ER_NOT_SUPPORTED_YET", 1238: "ER_INCORRECT_GLOBAL_LOCAL_VAR",
	1264: "ER_WARN_DATA_OUT_OF_RANGE", 1265: "WARN_DATA_TRUNCATED", 1267: "ER_CANT_AGGREGATE_2COLLATIONS", 1286: "ER_UNKNOWN_STORAGE_ENGINE",
	1290: "ER_OPTION_PREVENTS_STATEMENT", 1292: "ER_TRUNCATED_WRONG_VALUE", 1304: "ER_SP_ALREADY_EXISTS", 1305: "ER_SP_DOES_NOT_EXIST",
	1317: "ER_QUERY_INTERRUPTED", 1364: "ER_NO_DEFAULT_FOR_FIELD", 1365: "ER_DIVISION_BY_ZERO", 1366: "ER_TRUNCATED_WRONG_VALUE_FOR_FIELD",
	1396: "ER_CANNOT_USER", 1406: "ER_DATA_TOO_LONG", 1411: "ER_WRONG_VALUE_FOR_TYPE", 1442: "ER_CANT_UPDATE_USED_TABLE_IN_SF_OR_TRG",
	1451: "ER_ROW_IS_REFERENCED_2", 1452: "ER_NO_REFERENCED_ROW_2", 1644: "ER_SIGNAL_EXCEPTION", 1690: "ER_DATA_OUT_OF_RANGE",
	1792: "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION", 3024: "ER_QUERY_TIMEOUT", 3819: "ER_CHECK_CONSTRAINT_VIOLATED",
}
