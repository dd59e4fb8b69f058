package server

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/session"
)

// counts shows what a digest text has come to.
const counts = "SELECT COUNT_STAR, SUM_ERRORS, SUM_WARNINGS, SUM_ROWS_AFFECTED, SUM_ROWS_SENT FROM " +
	"performance_schema.events_statements_summary_by_digest WHERE SCHEMA_NAME = 'test' AND DIGEST_TEXT = "

// TestStatementsAreCounted: each statement of a client counts once, whichever way it comes, and
// whoever executes it.
func TestStatementsAreCounted(t *testing.T) {
	s, _ := newServer(t)
	db := openDSN(t, fmt.Sprintf("root@tcp(%s)/test?multiStatements=true&interpolateParams=false", s.Addr()))
	c := conn(t, db)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))")
	exec(t, c, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
	exec(t, c, "INSERT INTO t VALUES (1, 'a')")
	exec(t, c, "insert  into t values (2,'b'), (3,'c')")
	exec(t, c, "INSERT INTO t VALUES (4, 'd'), (5, 'e'), (6, 'f')")
	if _, err := c.ExecContext(context.Background(), "INSERT INTO t VALUES (1, 'again')"); err == nil {
		t.Error("a duplicate was taken")
	}
	query(t, c, "SELECT * FROM t WHERE id = 1")                           // by key
	query(t, c, "SELECT * FROM t WHERE id = ?", 2)                        // prepared
	query(t, c, "select * from t where id=3")                             // other writing
	query(t, c, "SELECT * FROM t WHERE id > 1 ORDER BY v DESC LIMIT 4")   // our engine
	query(t, c, "SELECT COUNT(*) FROM information_schema.tables LIMIT 1") // the engine
	exec(t, c, "UPDATE t SET v = 'x' WHERE id IN (1, 2, 3)")
	exec(t, c, "UPDATE t SET v = 'y' WHERE id IN (2); DELETE FROM t WHERE id = 6; SELECT * FROM t WHERE id = 7")
	exec(t, c, "BEGIN")
	exec(t, c, "COMMIT")
	if _, err := c.QueryContext(context.Background(), "SELECT nothing FROM t WHERE id = 1"); err == nil {
		t.Error("an unknown column was taken")
	}
	if _, err := c.QueryContext(context.Background(), "SELECT nothing FROM t WHERE id = ?", 1); err == nil {
		t.Error("an unknown column was prepared")
	}
	if _, err := c.ExecContext(context.Background(), "SELEC 'nonsense' FROM t"); err == nil {
		t.Error("nonsense was taken")
	}
	exec(t, c, "CREATE PROCEDURE p() UPDATE t SET v = 'z' WHERE id = 1")
	exec(t, c, "CALL p()")
	exec(t, c, "SET sql_mode = ''")
	exec(t, c, "UPDATE t SET v = 'far too long for it' WHERE id = 1")
	query(t, c, "SHOW WARNINGS")
	for _, x := range []struct{ text, want string }{
		{"INSERT INTO `t` VALUES (...)", "2|1|0|1|0"},
		{"INSERT INTO `t` VALUES (...) /* , ... */", "2|0|0|5|0"},
		{"SELECT * FROM `t` WHERE `id` = ?", "4|0|0|0|3"},
		{"SELECT * FROM `t` WHERE `id` > ? ORDER BY `v` DESC LIMIT ?", "1|0|0|0|4"},
		{"SELECT COUNT ( * ) FROM `information_schema` . `tables` LIMIT ?", "1|0|0|0|1"},
		{"UPDATE `t` SET `v` = ? WHERE `id` IN (...)", "2|0|0|4|0"},
		{"DELETE FROM `t` WHERE `id` = ?", "1|0|0|1|0"},
		{"BEGIN", "1|0|0|0|0"}, {"COMMIT", "1|0|0|0|0"},
		{"SELECT `nothing` FROM `t` WHERE `id` = ?", "2|2|0|0|0"},
		{"`SELEC` ? FROM `t`", "1|1|0|0|0"},
		{"CALL `p` ( )", "1|0|0|1|0"},
		{"UPDATE `t` SET `v` = ? WHERE `id` = ?", "1|0|1|1|0"},
		{"SHOW WARNINGS", "1|0|0|0|1"},
		{"TRUNCATE TABLE `performance_schema` . `events_statements_summary_by_digest`", "1|0|0|0|0"},
	} {
		if got := query(t, c, counts+"'"+x.text+"'"); len(got) != 1 || got[0] != x.want {
			t.Errorf("%s: %q, want %s", x.text, got, x.want)
		}
	}
	expect(t, c, "SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT LIKE "+
		"'%godwit%' OR DIGEST IS NULL", "0") // of what the server itself executes
	exec(t, c, "TRUNCATE performance_schema.events_statements_summary_by_digest")
	expect(t, c, "SELECT COUNT(*) FROM performance_schema.events_statements_summary_by_digest", "1")
}

// TestStatementSummary: the columns are MySQL 8.0's, with sensible values.
func TestStatementSummary(t *testing.T) {
	_, db := newServer(t)
	c := conn(t, db)
	expect(t, c, "SELECT COUNT(*), SUM(DATA_TYPE = 'bigint'), SUM(IS_NULLABLE = 'YES') FROM information_schema.columns WHERE "+
		"TABLE_SCHEMA = 'performance_schema' AND TABLE_NAME = 'events_statements_summary_by_digest'", "39|32|4")
	query(t, c, "SELECT 'a secret'")
	expect(t, c, "SELECT LENGTH(DIGEST), QUERY_SAMPLE_TEXT, SUM_TIMER_WAIT > 0, MIN_TIMER_WAIT <= AVG_TIMER_WAIT, "+
		"AVG_TIMER_WAIT <= QUANTILE_999, QUANTILE_95 <= QUANTILE_99, QUANTILE_999 <= MAX_TIMER_WAIT, FIRST_SEEN = LAST_SEEN, "+
		"ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), LAST_SEEN)) < 60, SUM_LOCK_TIME, SUM_ROWS_EXAMINED FROM "+
		"performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT = 'SELECT ?'",
		"64|SELECT ?|1|1|1|1|1|1|1|0|0")
	exec(t, c, "SET GLOBAL godwit_statement_literals = ON")
	t.Cleanup(func() { _ = SetVariables(map[string]any{session.LiteralsVar: int8(0)}) })
	exec(t, c, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
	query(t, c, "SELECT 'no secret'")
	exec(t, c, "CREATE USER u IDENTIFIED BY 'hunter2'")
	expect(t, c, "SELECT QUERY_SAMPLE_TEXT FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT LIKE "+
		"'SELECT ?' OR DIGEST_TEXT LIKE 'CREATE USER%' ORDER BY 1", "CREATE USER u IDENTIFIED BY '***'", "SELECT 'no secret'")
}

// TestStatementSummaryIsReadOnly: nothing of it can be changed, but for TRUNCATE.
func TestStatementSummaryIsReadOnly(t *testing.T) {
	_, c := newServer(t)
	const table = "performance_schema.events_statements_summary_by_digest"
	for _, q := range []string{
		"INSERT INTO " + table + " (DIGEST) VALUES ('x')", "UPDATE " + table + " SET COUNT_STAR = 1", "DELETE FROM " + table,
		"DELETE FROM " + table + " WHERE COUNT_STAR = 1", "DROP TABLE " + table, "ALTER TABLE " + table + " ADD COLUMN x INT",
		"CREATE INDEX i ON " + table + " (COUNT_STAR)", "CREATE TABLE performance_schema.t (id INT)",
		"RENAME TABLE " + table + " TO performance_schema.x", "DROP DATABASE performance_schema",
		"CREATE DATABASE performance_schema", "CREATE VIEW performance_schema.v AS SELECT 1",
		"CREATE TABLE performance_schema.t AS SELECT 1", "CREATE TABLE performance_schema.t LIKE " + table,
		"CREATE TRIGGER performance_schema.x BEFORE INSERT ON " + table + " FOR EACH ROW SET @a = 1",
		"CREATE PROCEDURE performance_schema.p() SELECT 1",
	} {
		if _, err := tryQuery(c, q); err == nil {
			t.Errorf("%s: no error", q)
		} else {
			t.Logf("%s: %v", q, err)
		}
	}
	if got := query(t, c, "SELECT COUNT(*) > 10 FROM "+table); got[0] != "1" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestStatementSummaryPrivileges: to read takes SELECT or PROCESS, to truncate DROP.
func TestStatementSummaryPrivileges(t *testing.T) {
	s, c := newServer(t)
	const table = "performance_schema.events_statements_summary_by_digest"
	for user, grant := range map[string]string{"nobody": "SELECT ON test.*", "ops": "PROCESS ON *.*",
		"reader": "SELECT ON performance_schema.*", "cleaner": "SELECT, DROP ON performance_schema.*"} {
		exec(t, c, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY ''", user))
		exec(t, c, fmt.Sprintf("GRANT %s TO %s@'%%'", grant, user))
	}
	for _, x := range []struct {
		user, q string
		ok      bool
	}{
		{"nobody", "SELECT * FROM " + table, false}, {"nobody", "TRUNCATE TABLE " + table, false},
		{"nobody", "SELECT COUNT(*) FROM " + table, false},
		{"ops", "SELECT * FROM " + table, true}, {"ops", "SELECT COUNT_STAR FROM " + table + " WHERE DIGEST = 'x'", true},
		{"ops", "TRUNCATE TABLE " + table, false},
		{"reader", "SELECT * FROM " + table, true}, {"reader", "TRUNCATE TABLE " + table, false},
		{"cleaner", "TRUNCATE TABLE " + table, true},
		{"reader", "SET GLOBAL slow_query_log = ON", false}, {"reader", "SET GLOBAL godwit_statement_literals = ON", false},
		{"reader", "SET SESSION godwit_statement_literals = ON", false}, {"reader", "SET SESSION long_query_time = 1", true},
	} {
		if _, err := tryQuery(openDSN(t, fmt.Sprintf("%s@tcp(%s)/", x.user, s.Addr())), x.q); (err == nil) != x.ok {
			t.Errorf("%s, %s: %v", x.user, x.q, err)
		}
	}
}

// lockedBuffer is what several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// take is what was written since the last call: of the lines with a message the values of keys.
func (b *lockedBuffer) take(t *testing.T, msg string, keys ...string) (out []string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.b.String()) {
		got := map[string]any{}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got["msg"] != msg {
			continue
		}
		var values []string
		for _, k := range keys {
			values = append(values, fmt.Sprint(got[k]))
		}
		out = append(out, strings.Join(values, "|"))
	}
	b.b.Reset()
	return out
}

// TestSlowLog: statements that take longer than long_query_time are written, without literals
// unless these are asked for.
func TestSlowLog(t *testing.T) {
	log := new(lockedBuffer)
	s, db := startServer(t, memkv.New(2, "eu", "us"), func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	t.Cleanup(func() {
		_ = SetVariables(map[string]any{session.SlowLogVar: int8(0), session.LiteralsVar: int8(0), "long_query_time": float64(10)})
	})
	lines := func() []string {
		return log.take(t, "slow statement", "text", "user", "host", "database", "rows_sent", "rows_affected", "error", "statement")
	}
	want := func(what string, want ...string) {
		t.Helper()
		if got := lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	c := conn(t, db)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))")
	exec(t, c, "SET long_query_time = 0")
	exec(t, c, "INSERT INTO t VALUES (1, 'secret')")
	want("it is off")
	exec(t, c, "SET GLOBAL slow_query_log = ON")
	lines()
	expect(t, c, "SELECT id FROM t WHERE v = 'secret'", "1")
	expectErr(t, c, 1062, "INSERT INTO t VALUES (1, 'secret')")
	want("it is on", "SELECT `id` FROM `t` WHERE `v` = ?|root|127.0.0.1|test|1|0|0|<nil>", "INSERT INTO `t` VALUES (...)|root|127.0.0.1|test|0|0|1062|<nil>")
	exec(t, c, "SET GLOBAL godwit_statement_literals = ON")
	lines()
	exec(t, c, "DELETE FROM t WHERE v = 'secret'")
	exec(t, c, "CREATE USER u IDENTIFIED BY 'hunter2'")
	want("literals are shown", "DELETE FROM `t` WHERE `v` = ?|root|127.0.0.1|test|0|1|0|DELETE FROM t WHERE v = 'secret'",
		"CREATE USER `u` IDENTIFIED BY ?|root|127.0.0.1|test|0|0|0|CREATE USER u IDENTIFIED BY '***'")
	exec(t, c, "SET long_query_time = 1000")
	query(t, c, "SELECT 1")
	lines()
	query(t, c, "SELECT 2")
	query(t, conn(t, db), "SELECT 3")
	want("nothing is slow")
	exec(t, c, "SET GLOBAL long_query_time = 0")
	query(t, c, "SELECT 4")
	want("sessions keep theirs")
	fresh, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/", s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	query(t, fresh, "SELECT 5")
	want("new sessions have the global one", "SELECT ?|root|127.0.0.1||1|0|0|SELECT 5")
	expect(t, c, "SELECT @@global.slow_query_log, @@global.long_query_time, @@session.long_query_time", "1|0|1000")
	expectErr(t, c, 1229, "SET SESSION slow_query_log = ON")
	expectErr(t, c, 1235, "SET GLOBAL general_log = ON")
	if n := s.Statements().Slow.Load(); n == 0 {
		t.Error("no statement was slow")
	} else if got := query(t, conn(t, db), "SHOW GLOBAL STATUS LIKE 'Slow_queries'"); len(got) != 1 || got[0] == "Slow_queries|0" {
		t.Errorf("%d statements were slow, and the status is %q", n, got)
	}
	query(t, fresh, "SELECT 6 /*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/")
	if got := log.take(t, "slow statement", "text", "elapsed_ms"); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "SELECT ?|") ||
		strings.HasSuffix(got[len(got)-1], "<nil>") {
		t.Errorf("the log has %q", got)
	}
}

// TestVariablesAsTables: performance_schema has what SHOW VARIABLES and SHOW STATUS show.
func TestVariablesAsTables(t *testing.T) {
	s, _ := newServer(t)
	c := conn(t, openDSN(t, fmt.Sprintf("root@tcp(%s)/test", s.Addr())))
	exec(t, c, "SET sql_mode = 'ANSI_QUOTES', autocommit = 0")
	for table, show := range map[string]string{
		"session_variables": "SHOW SESSION VARIABLES", "global_variables": "SHOW GLOBAL VARIABLES",
		"session_status": "SHOW SESSION STATUS", "global_status": "SHOW GLOBAL STATUS",
	} {
		shown := query(t, c, show)
		if len(shown) < 5 {
			t.Errorf("%s shows %d", show, len(shown))
		}
		if got := query(t, c, "SELECT * FROM performance_schema."+table); len(got) != len(shown) {
			t.Errorf("%s has %d rows, %s %d", table, len(got), show, len(shown))
		}
	}
	const of = "SELECT VARIABLE_VALUE FROM performance_schema.session_variables WHERE VARIABLE_NAME = "
	for name, want := range map[string]string{"sql_mode": "ANSI_QUOTES", "autocommit": "OFF"} {
		if got := query(t, c, of+"'"+name+"'"); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
