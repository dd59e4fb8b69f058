package console

import (
	"net/http"
	"strings"
	"testing"
)

// TestReadsOnly: without "allow changes" the box changes nothing, whatever the statement looks
// like.
func TestReadsOnly(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	x.exec("CREATE PROCEDURE shop.clear() DELETE FROM shop.carts",
		"CREATE TABLE shop.log (id INT PRIMARY KEY)")
	v := x.login("root", "")
	for _, q := range []string{
		"DELETE FROM shop.carts", "delete from shop.carts", "/* SELECT */ DELETE FROM shop.carts", "-- SELECT\nDELETE FROM shop.carts",
		"#\nTRUNCATE shop.carts", "/*!DELETE FROM shop.carts */", "/*!50000 DELETE */ FROM shop.carts", "\t(DELETE FROM shop.carts)",
		"WITH x AS (SELECT 1) DELETE FROM shop.carts", "WITH x AS (SELECT '\\'') DELETE FROM shop.carts -- '",
		"EXPLAIN ANALYZE DELETE FROM shop.carts", "EXPLAIN/**/ANALYZE/**/DELETE FROM shop.carts", "DESC ANALYZE DELETE FROM shop.carts",
		"EXPLAIN /*!ANALYZE*/ DELETE FROM shop.carts",
		"CALL shop.clear()", "PREPARE x FROM 'DELETE FROM shop.carts'", "EXECUTE x", "SET GLOBAL max_connections = 1",
		"SELECT 1; DELETE FROM shop.carts", "SELECT 1;DELETE FROM shop.carts;", "DO (SELECT 1)", "GRANT ALL ON *.* TO reader",
		"CREATE TABLE shop.x (a INT)", "DROP TABLE shop.carts", "LOAD DATA INFILE '/etc/passwd' INTO TABLE shop.log",
		"KILL 1", "SHUTDOWN", "SET SESSION TRANSACTION READ WRITE", "START TRANSACTION", "BEGIN", "USE shop", "LOCK TABLES shop.carts WRITE",
		"XA START 'x'", "SELECT * FROM shop.carts INTO OUTFILE '/tmp/x'", "SELECT * INTO DUMPFILE '/tmp/x' FROM shop.carts",
		"REPLACE INTO shop.carts VALUES (1, 2)", "TABLE shop.carts INTO OUTFILE '/tmp/x'", "BACKUP TO 'file:///tmp/x'",
		"VALUES ROW(1); DROP TABLE shop.carts", "HANDLER shop.carts OPEN", ";DELETE FROM shop.carts", "", "  ", "/* */", "'",
	} {
		r, out := v.run(order{Statement: q})
		if r.status == http.StatusOK && out.Error == "" {
			t.Errorf("%q ran: %s", q, r.body)
		}
	}
	if n := x.int("SELECT COUNT(*) FROM shop.carts WHERE n = 10"); n != 1 {
		t.Fatalf("shop.carts has %d rows of before", n)
	}
	for _, q := range []string{"SELECT * FROM shop.carts", "(SELECT 1)", "SHOW TABLES FROM shop", "TABLE shop.carts", "VALUES ROW(1)",
		"WITH x AS (SELECT 'delete') SELECT * FROM x", "DESCRIBE shop.carts", "EXPLAIN SELECT 1", "EXPLAIN DELETE FROM shop.carts",
		"SELECT `id` AS `delete` FROM shop.carts", "SELECT 1;", "EXPLAIN ANALYZE SELECT * FROM shop.carts"} {
		if r, out := v.run(order{Statement: q}); r.status != http.StatusOK || out.Error != "" {
			t.Errorf("%q did not run: %s", q, r.body)
		}
	}
	if _, out := v.run(order{Statement: "DELETE FROM shop.carts", Explain: true}); out.Error != "" || len(out.Rows) == 0 {
		t.Errorf("the plan of a change: %+v", out.table)
	}
}

// TestServerRefusesChanges: a statement that is taken for one that reads meets a READ ONLY
// transaction.
func TestServerRefusesChanges(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("root", "")
	s := v.of()
	out := s.execute(order{Statement: "INSERT INTO shop.carts VALUES (2, 2)"})
	if out.Code != 1792 {
		t.Errorf("%+v", out.table)
	}
	if out := s.execute(order{Statement: "INSERT INTO shop.carts VALUES (2, 2)", Changes: true}); out.Error != "" || text(out.Changed) != "1" {
		t.Errorf("with changes allowed: %+v", out.table)
	}
	if out := s.execute(order{Statement: "SET SESSION TRANSACTION READ WRITE", Changes: true}); out.Error != "" {
		t.Errorf("%+v", out.table)
	}
	if out := s.execute(order{Statement: "INSERT INTO shop.carts VALUES (3, 3)"}); out.Code != 1792 {
		t.Errorf("after the session's own setting: %+v", out.table)
	}
}

// TestRightsOfTheUser: "allow changes" gives no right that the database user has not.
func TestRightsOfTheUser(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	reader, nobody := x.login("reader", "books"), x.login("nobody", "knows")
	for _, q := range []string{"DELETE FROM shop.carts", "INSERT INTO shop.carts VALUES (2, 2)", "UPDATE shop.carts SET n = 1",
		"DROP TABLE shop.carts", "CREATE USER eve", "GRANT ALL ON *.* TO reader", "SET GLOBAL max_connections = 1",
		"SET CLUSTER SETTING console.places = ''"} {
		if r, out := reader.run(order{Statement: q, Changes: true}); out.Error == "" {
			t.Errorf("reader: %s: %s", q, r.body)
		}
	}
	if _, out := reader.run(order{Statement: "SELECT n FROM shop.carts"}); out.Error != "" || text(out.Rows[0][0]) != "10" {
		t.Errorf("%+v", out.table)
	}
	if _, out := nobody.run(order{Statement: "SELECT n FROM shop.carts"}); out.Code != 1142 && out.Code != 1044 && out.Code != 1146 {
		t.Errorf("nobody reads: %+v", out.table)
	}
	if n := x.int("SELECT COUNT(*) FROM shop.carts WHERE n = 10"); n != 1 {
		t.Fatal("the rows have changed")
	}
}

// TestStatementsStandAlone: nothing of a statement is left for the next one.
func TestStatementsStandAlone(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("root", "")
	if _, out := v.run(order{Statement: "SET autocommit = 0", Changes: true}); out.Error != "" {
		t.Fatal(out.Error)
	}
	if _, out := v.run(order{Statement: "INSERT INTO shop.carts VALUES (5, 5)", Changes: true}); out.Error != "" {
		t.Fatal(out.Error)
	}
	if n := x.int("SELECT COUNT(*) FROM shop.carts WHERE id = 5"); n != 1 {
		t.Error("the row was not committed")
	}
	if _, out := v.run(order{Statement: "SELECT GET_LOCK('door', 0)"}); out.Error != "" {
		t.Fatal(out.Error)
	}
	if n := x.int("SELECT IS_FREE_LOCK('door')"); n != 1 {
		t.Error("the lock is held after the statement")
	}
}

// TestOthersResults: sessions share nothing, neither of one user nor of two.
func TestOthersResults(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	a, b := x.login("root", ""), x.login("reader", "books")
	if _, out := a.run(order{Statement: "SET @secret = 'mine'", Changes: true}); out.Error != "" {
		t.Fatal(out.Error)
	}
	for _, v := range []*visitor{b, x.login("root", "")} {
		if _, out := v.run(order{Statement: "SELECT @secret"}); len(out.Rows) != 1 || out.Rows[0][0] != nil {
			t.Errorf("%s sees the variable of another session: %+v", v.id.User, out.table)
		}
	}
	done := make(chan outcome)
	go func() {
		_, out := a.run(order{Statement: "SELECT SLEEP(25) /* a secret */"})
		done <- out
	}()
	until(t, "the statement does not begin", func() bool {
		return x.int("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%a secret%' AND info NOT LIKE '%LIKE%'") == 1
	})
	if r := b.post("api/stop", "{}"); r.status != http.StatusConflict {
		t.Errorf("b stops: %d %s", r.status, r.body)
	}
	_, out := b.run(order{Statement: "SHOW PROCESSLIST"})
	for _, row := range out.Rows {
		for _, cell := range row {
			if strings.Contains(text(cell), "a secret") {
				t.Errorf("b sees %s", text(cell))
			}
		}
	}
	if r, _ := a.run(order{Statement: "SELECT 1"}); r.status != http.StatusConflict {
		t.Errorf("a second statement of one session: %d", r.status)
	}
	until(t, "it is not stopped", func() bool { return a.post("api/stop", "{}").status == http.StatusOK })
	if out := <-done; out.Code != 1317 {
		t.Errorf("a statement that was stopped: %+v", out.table)
	}
	if _, out := a.run(order{Statement: "SELECT 1"}); out.Error != "" {
		t.Errorf("after the stop: %+v", out.table)
	}
}

// TestBounds: an answer has bounds, and the session goes on behind them.
func TestBounds(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("root", "")
	_, out := v.run(order{Statement: "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) SELECT i FROM n"})
	if out.Error != "" && out.Code != 3636 {
		t.Fatal(out.Error)
	}
	x.exec("CREATE TABLE shop.many (id INT PRIMARY KEY, t LONGTEXT, b BLOB)")
	var rows []string
	for i := range 1500 {
		rows = append(rows, "("+strings.Repeat("0", i%3)+itoa(i)+", NULL, NULL)")
	}
	x.exec("INSERT INTO shop.many VALUES " + strings.Join(rows, ","))
	_, out = v.run(order{Statement: "SELECT id FROM shop.many"})
	if len(out.Rows) != 1000 || !out.More || out.Error != "" {
		t.Errorf("%d rows, more %v, %s", len(out.Rows), out.More, out.Error)
	}
	x.exec("UPDATE shop.many SET t = REPEAT('ä', 4000) WHERE id < 400", "UPDATE shop.many SET b = 0xFF00 WHERE id = 0")
	r, out := v.run(order{Statement: "SELECT t FROM shop.many WHERE id < 400"})
	if !out.Cut || !out.More || len(r.body) > 2<<20 || out.Error != "" || !strings.HasSuffix(text(out.Rows[0][0]), "ä…") {
		t.Errorf("%d bytes, cut %v, more %v, %s", len(r.body), out.Cut, out.More, out.Error)
	}
	if _, out = v.run(order{Statement: "SELECT b, NULL, '' FROM shop.many WHERE id = 0"}); text(out.Rows[0][0]) != "0xff00" ||
		out.Rows[0][1] != nil || out.Rows[0][2] == nil {
		t.Errorf("%v", out.Rows)
	}
	if r := v.post("api/sql", `{"statement":"SELECT '`+strings.Repeat("x", 70<<10)+`'"}`); r.status != http.StatusBadRequest {
		t.Errorf("a long statement: %d", r.status)
	}
	if r := v.post("api/sql", `{"statement":"`+strings.Repeat("x", 200<<10)+`"}`); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body: %d", r.status)
	}
}

// TestWords: what decides whether a statement only reads.
func TestWords(t *testing.T) {
	t.Parallel()
	for q, want := range map[string]string{
		"SELECT 1":                       "select 1",
		"a'b\\'c'd":                      "a d",
		"a'b''c'd":                       "a d",
		"a`b\\`c":                        "a c",
		"a\"b'c\"d":                      "a d",
		"a-- b\nc--d":                    "a c d",
		"a#b\nc":                         "a c",
		"a/*b*/c/*!80000 d*/e/*+ f */":   "a c /*! 80000 d e f",
		"a/* b":                          "a",
		"--":                             "",
		"'":                              "",
		"@a @@b.c":                       "@a @@b c",
		"ä été":                          "ä été",
		"a--\tb":                         "a",
		"/*a/*b*/c":                      "c",
		"'\\":                            "",
		"EXPLAIN\u00a0DELETE FROM t":     "explain\u00a0delete from t",
		"select/**/x.y FROM(select 2)as": "select x y from select 2 as",
	} {
		if got := strings.Join(words(q), " "); got != want {
			t.Errorf("%q: %q, want %q", q, got, want)
		}
	}
}

// FuzzStatement: the judgement of a statement ends, and the text of a string or comment is no
// part of it.
func FuzzStatement(f *testing.F) {
	for _, q := range []string{"SELECT 1", "/*!", "a'b", "--", "-", "`", "\\", "with x as (select 1) delete", "/*"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		for _, o := range []order{{Statement: q}, {Statement: q, Explain: true}, {Statement: q, Changes: true}} {
			_ = o.check()
		}
		inside := strings.NewReplacer("'", "", "\\", "").Replace(q)
		if why := (order{Statement: "WITH x AS (SELECT '" + inside + "') SELECT 1"}).check(); why != "" && len(q) < maxStatement/2 {
			t.Errorf("a text is judged: %s", why)
		}
		if why := (order{Statement: "WITH x AS (SELECT '" + inside + "') DELETE FROM t"}).check(); why == "" {
			t.Error("a text hides a change")
		}
	})
}
