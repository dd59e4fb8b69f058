package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestFatalStatements: what would end the process, or keep it busy for minutes, is an error. Each
// of these takes few rights.
func TestFatalStatements(t *testing.T) {
	_, root := newServer(t)
	c := conn(t, root)
	// A text that no client has sent, too deep or too long for the parser.
	exec(t, c, "SET @deep = CONCAT('SELECT ', REPEAT('1+', 20000000), '1')")
	refused(t, c, 1436, "PREPARE x FROM @deep")
	exec(t, c, "SET @deep = CONCAT('SELECT 1 IN (', REPEAT('1,', 2000000), '1)')")
	refused(t, c, 1038, "PREPARE x FROM @deep")
	exec(t, c, "SET @deep = CONCAT('SELECT 1 IN (', REPEAT('1,', 100000), '1)')")
	exec(t, c, "PREPARE x FROM @deep")
	expect(t, c, "EXECUTE x", "1")
	exec(t, c, "SET @deep = NULL")

	// Definitions that use themselves.
	exec(t, c, "CREATE VIEW v1 AS SELECT 1 AS a")
	exec(t, c, "CREATE VIEW v2 AS SELECT * FROM v1")
	for _, q := range []string{"CREATE OR REPLACE VIEW v1 AS SELECT * FROM v2", "SELECT * FROM v1", "SELECT COUNT(*) FROM v2, v1"} {
		if _, err := tryQuery(c, q); err != nil && errNumber(t, err) == 1105 {
			t.Errorf("%s: %v", q, err)
		}
	}
	exec(t, c, "CREATE TABLE base (a INT)")
	exec(t, c, "CREATE VIEW w1 AS SELECT * FROM base")
	exec(t, c, "DROP TABLE base")
	exec(t, c, toEngine) // our own engine sees cycles by itself
	if _, err := c.ExecContext(t.Context(), "CREATE VIEW base AS SELECT * FROM w1"); err == nil {
		refused(t, c, 1462, "SELECT * FROM base")
	}
	exec(t, c, toOurs)
	exec(t, c, "CREATE PROCEDURE p() CALL p()")
	refused(t, c, 1456, "CALL p()")
	exec(t, c, "SET max_sp_recursion_depth = 255")
	refused(t, c, 1456, "CALL p()")
	exec(t, c, "CREATE PROCEDURE down(n INT) BEGIN IF n > 0 THEN CALL down(n - 1); END IF; END")
	exec(t, c, "CALL down(20)")
	exec(t, c, "SET max_sp_recursion_depth = 0")
	refused(t, c, 1456, "CALL down(20)")
	exec(t, c, "CREATE PROCEDURE q() SELECT 1")
	exec(t, c, "CREATE PROCEDURE r() CALL q()")
	exec(t, c, "DROP PROCEDURE q")
	exec(t, c, "CREATE PROCEDURE q() CALL r()")
	refused(t, c, 1456, "CALL r()")
	exec(t, c, "DROP PROCEDURE q")
	exec(t, c, "CREATE PROCEDURE q() SELECT 7")
	expect(t, c, "CALL r()", "7")
	expect(t, c, "CALL r()", "7")

	// Numbers, which are read in a time that grows with the square of their length.
	refused(t, c, 1426, "SELECT "+strings.Repeat("9", 30_000_000))
	expect(t, c, "SELECT CAST(REPEAT('9', 20000000) AS DECIMAL(10,2)), CAST(CONCAT('-', REPEAT('0', 20000000), '7.5') AS DECIMAL(10,2))",
		"99999999.99|-7.50")
	expect(t, c, "SELECT CAST(CONCAT('0.', REPEAT('0', 20000000), '7') AS DECIMAL(10,2)), CAST(CONCAT('12.', REPEAT('4', 20000000)) AS DECIMAL(10,2))",
		"0.00|12.44")
	expect(t, c, "SELECT LENGTH(x'"+strings.Repeat("ab", 100_000)+"'), LENGTH(0x"+strings.Repeat("ab", 100_000)+")", "100000|100000")

	// go-mysql-server makes DECIMALs of texts in a time that grows with the square of their length,
	// and with the exponent. It must end; what it says of a number that is too large does not
	// matter here.
	exec(t, c, "CREATE TABLE numbers (id INT PRIMARY KEY, x DECIMAL(65,30), s LONGTEXT)")
	exec(t, c, "INSERT INTO numbers VALUES (1, 1, REPEAT('9', 500000)), (2, 2, '1e999999999')")
	exec(t, c, toEngine)
	for _, n := range []string{"REPEAT('9', 500000)", "'1e999999999'", "CONCAT('1e-', '999999999')", "CONCAT('0.', REPEAT('1', 500000))",
		"(SELECT s FROM numbers WHERE id = 1)", "(SELECT s FROM numbers WHERE id = 2)"} {
		for _, q := range []string{"SELECT CAST(%s AS DECIMAL(65,30))", "SELECT %s > 1.5", "SELECT 1.5 IN (2.5, %s)", "SELECT ROUND(%s, 2)",
			"SELECT TRUNCATE(%s, 2)", "SELECT %s * 1.5", "SELECT %s BETWEEN 1.5 AND 2.5", "SELECT COUNT(*) FROM numbers WHERE x = %s",
			"SELECT IF(%s > 1.5, 1, 2)", "UPDATE numbers SET x = %s WHERE id = 2", "INSERT INTO numbers (id, x) VALUES (3, %s)",
			"INSERT INTO numbers (id, x) SELECT 4, %s", "SELECT (SELECT MAX(x) FROM numbers WHERE x < %s)"} {
			if out, err := tryQuery(c, fmt.Sprintf(q, n)); err == nil {
				continue // it is a number
			} else if e := new(mysql.MySQLError); !errors.As(err, &e) {
				t.Fatalf(q+": %q, %v", n, out, err)
			}
			exec(t, c, "DELETE FROM numbers WHERE id > 2 LIMIT 10")
		}
	}
	expect(t, c, "SELECT CAST(CONCAT('0.', REPEAT('1', 500000)) AS DECIMAL(10,2)), CAST(CONCAT(REPEAT('0', 500000), '7.5') AS DECIMAL(10,2))",
		"0.11|7.50")
	digits := strings.Repeat("7", 10_000)
	expect(t, c, "SELECT CONCAT('"+digits+"', 1.5), COALESCE('"+digits+"', 1.5), CASE WHEN 1.5 > 1 THEN '"+digits+"' ELSE 1.5 END",
		digits+"1.5|"+digits+"|"+digits)
	exec(t, c, "INSERT INTO numbers (id, x, s) VALUES (9, 1.5, '"+digits+"')")
	expect(t, c, "SELECT x, LENGTH(s) FROM numbers WHERE id = 9", "1.500000000000000000000000000000|10000")
	exec(t, c, toOurs)

	// Functions whose cost grows faster than their arguments.
	for _, x := range []struct {
		code uint16
		q    string
	}{
		{3700, "SELECT REGEXP_LIKE('a', REPEAT('(', 30000000))"},
		{3700, "SELECT REGEXP_REPLACE(REPEAT('a', 2000), CONCAT(REPEAT('(a?)', 16000), 'b'), '$1')"},
		{3024, "SELECT /*+ MAX_EXECUTION_TIME(50) */ REGEXP_LIKE(REPEAT('a', 60000000), CONCAT(REPEAT('a?', 20000), 'b'))"},
		{3024, "SELECT /*+ MAX_EXECUTION_TIME(50) */ REPEAT('a', 60000000) REGEXP CONCAT(REPEAT('a?', 20000), 'b')"},
		{3024, "SELECT /*+ MAX_EXECUTION_TIME(50) */ REPEAT('a', 60000000) NOT RLIKE CONCAT(REPEAT('a?', 20000), 'b')"},
		{1235, "SELECT LENGTH(EXPORT_SET(7, REPEAT('a', 60000000), 'b', 'c', 64))"},
		{1235, "SELECT ST_ASTEXT(ST_GEOMFROMTEXT(CONCAT(REPEAT('GEOMETRYCOLLECTION(', 3000000), 'POINT(1 1)', REPEAT(')', 3000000))))"},
		{1235, "SELECT LENGTH(DATE_FORMAT(NOW(), REPEAT('%W', 30000000)))"},
	} {
		refused(t, c, x.code, x.q)
		exec(t, c, toEngine)
		refused(t, c, x.code, x.q)
		exec(t, c, toOurs)
	}
	expect(t, c, "SELECT EXPORT_SET(5, 'Y', 'N', ',', 4), REGEXP_LIKE('abc', 'b+'), ST_ASTEXT(ST_GEOMFROMTEXT('POINT(1 2)'))",
		"Y,N,Y,N|1|POINT(1 2)")
}

// TestFatalPrepares: the protocol library parses what is prepared before anything of ours sees it.
func TestFatalPrepares(t *testing.T) {
	_, root := newServer(t)
	k := conn(t, root)
	if _, err := k.PrepareContext(t.Context(), "SELECT "+strings.Repeat("1+", 20_000_000)+"1"); err == nil {
		t.Error("it was prepared")
	}
	if err := k.PingContext(t.Context()); err == nil {
		t.Error("the connection goes on")
	}
	for _, s := range []string{"1+", "-", "~", "!", "NOT ", "1 IN (1,", "IF(1,1,", "(", "(SELECT "} {
		c := conn(t, root)
		if p, err := c.PrepareContext(t.Context(), "SELECT "+strings.Repeat(s, 900_000/len(s))); err == nil {
			p.Close()
			t.Errorf("%q was prepared", s)
		}
		c = conn(t, root)
		expect(t, c, "SELECT 1", "1")
	}
	c := conn(t, root)
	p, err := c.PrepareContext(t.Context(), "SELECT 7 IN (7"+strings.Repeat(", ?", 60_000)+")")
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}

// TestSessionsKeepLittle: what a session keeps between statements is bounded, counts to the memory
// of the node, and is given back.
func TestSessionsKeepLittle(t *testing.T) {
	s, root := newServer(t)
	used := func() int64 { return s.g.query.Memory().Used() }
	before := used()
	k, err := root.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, k, "SET @a = REPEAT('x', 40000000)")
	if n := used() - before; n < 40_000_000 {
		t.Errorf("a variable of 40 MB counts as %d bytes", n)
	}
	refused(t, k, 1041, "SET @b = REPEAT('x', 40000000)")
	refused(t, k, 1041, "SELECT REPEAT('x', 40000000) INTO @b")
	exec(t, k, "SET @a = 'y'")
	exec(t, k, "SET @b = REPEAT('x', 40000000)")
	exec(t, k, "SET @b = NULL")
	if n := used() - before; n > 10_000 {
		t.Errorf("small variables count as %d bytes", n)
	}
	refused(t, k, 1231, "SET SESSION default_storage_engine = REPEAT('x', 100000)")

	// Prepared statements: those that are closed do not count.
	text := "SELECT 1 /* " + strings.Repeat("x", 90_000) + " %d */"
	for i := range 200 {
		p, err := k.PrepareContext(t.Context(), fmt.Sprintf(text, i))
		if err != nil {
			t.Fatalf("statement %d: %v", i, err)
		}
		p.Close()
	}
	var open []*sql.Stmt
	for i := 200; ; i++ {
		p, err := k.PrepareContext(t.Context(), fmt.Sprintf(text, i))
		if err != nil {
			if n := errNumber(t, err); n != 1041 {
				t.Errorf("error %d: %v", n, err)
			}
			break
		}
		if open = append(open, p); len(open) > 200 {
			t.Fatal("they may take any memory")
		}
	}
	refused(t, k, 1041, "PREPARE x FROM 'SELECT 1'")
	for _, p := range open {
		p.Close()
	}
	for i := range 100 { // until the node looks which are closed
		if p, err := k.PrepareContext(t.Context(), fmt.Sprintf("SELECT %d", i)); err == nil {
			p.Close()
		}
	}
	exec(t, k, "PREPARE x FROM 'SELECT 1'")
	expect(t, k, "EXECUTE x", "1")
	exec(t, k, "DEALLOCATE PREPARE x")

	// A prepared statement that fails is not kept either.
	for range 100 {
		_, err := k.PrepareContext(t.Context(), "SELECT nothing FROM nowhere")
		if err == nil {
			t.Fatal("it was prepared")
		}
	}
	// Warnings.
	exec(t, k, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, k, "INSERT INTO t WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 900) SELECT n FROM r")
	exec(t, k, "INSERT IGNORE INTO t SELECT x.id FROM t x, t y WHERE y.id < 4")
	if n := len(query(t, k, "SHOW WARNINGS")); n > 1024 {
		t.Errorf("%d warnings are kept", n)
	}
	if err := k.Raw(func(any) error { return nil }); err != nil {
		t.Fatal(err)
	}
	k.Close()
	root.SetMaxIdleConns(0)
	eventually(t, "what a session kept is given back", func() bool { return used() == before })
}

// TestNamedLocks: who waits for a lock ends when it is killed, or its client goes; what a session
// held is free when it ends.
func TestNamedLocks(t *testing.T) {
	s, root := newServer(t)
	a, b := conn(t, root), conn(t, openDSN(t, fmt.Sprintf("root@tcp(%s)/test", s.Addr())))
	expect(t, a, "SELECT GET_LOCK('x', 0), IS_FREE_LOCK('x'), IS_USED_LOCK('x') = CONNECTION_ID(), IS_FREE_LOCK('y')", "1|0|1|1")
	expect(t, b, "SELECT GET_LOCK('X', 0), RELEASE_LOCK('x'), RELEASE_LOCK('y')", "0|0|NULL")
	refused(t, a, 3057, "SELECT GET_LOCK(REPEAT('x', 65), 0)")
	refused(t, a, 3057, "SELECT GET_LOCK(NULL, 0)")
	id := query(t, b, "SELECT CONNECTION_ID()")[0]
	ended := make(chan error, 1)
	q := "SELECT GET_LOCK('x', -1)"
	go func() {
		_, err := tryQuery(b, q)
		ended <- err
	}()
	eventually(t, "the statement waits", func() bool {
		return len(query(t, a, "SELECT 1 FROM information_schema.processlist WHERE id = "+id+" AND info LIKE '%-1)'")) == 1
	})
	exec(t, a, "KILL QUERY "+id)
	if err := <-ended; err == nil || errNumber(t, err) != 1317 {
		t.Errorf("killed: %v, want 1317", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leaver := conn(t, openDSN(t, fmt.Sprintf("root@tcp(%s)/test", s.Addr())))
	id = query(t, leaver, "SELECT CONNECTION_ID()")[0]
	go func() {
		_, err := leaver.ExecContext(ctx, q)
		ended <- err
	}()
	eventually(t, "the statement waits", func() bool {
		return len(query(t, a, "SELECT 1 FROM information_schema.processlist WHERE id = "+id+" AND info LIKE '%-1)'")) == 1
	})
	leave()
	<-ended
	eventually(t, "the session of a client that has left ends", func() bool {
		return len(query(t, a, "SELECT 1 FROM information_schema.processlist WHERE id = "+id)) == 0
	})
	holder := conn(t, openDSN(t, fmt.Sprintf("root@tcp(%s)/test", s.Addr())))
	expect(t, holder, "SELECT GET_LOCK('z', 0)", "1")
	expect(t, a, "SELECT IS_FREE_LOCK('z')", "0")
	exec(t, a, "KILL "+query(t, holder, "SELECT CONNECTION_ID()")[0])
	eventually(t, "its locks are free", func() bool {
		return query(t, a, "SELECT GET_LOCK('z', 0)")[0] == "1"
	})
	expect(t, a, "SELECT GET_LOCK('z', 0), RELEASE_ALL_LOCKS()", "1|3")
}
