package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestFunctionsEnd: stored functions end when their statement is killed, whatever runs them, and
// keep no more than a statement may.
func TestFunctionsEnd(t *testing.T) {
	s, c := newGreedy(t)
	k, killer := conn(t, c), conn(t, c)
	exec(t, k, "CREATE FUNCTION forever(n INT) RETURNS INT BEGIN WHILE TRUE DO SET n = n + 1; END WHILE; RETURN n; END")
	exec(t, k, "CREATE FUNCTION joins() RETURNS INT BEGIN DECLARE n INT; SELECT COUNT(*) INTO n FROM t v, t w, t x, t y, t z "+
		"WHERE v.a + w.a + x.a + y.a + z.a < 0; RETURN n; END")
	exec(t, k, "CREATE PROCEDURE calls() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; SELECT forever(1); END")
	exec(t, k, "CREATE TABLE u (a INT PRIMARY KEY)")
	exec(t, k, "CREATE TRIGGER tr BEFORE INSERT ON u FOR EACH ROW SET NEW.a = forever(NEW.a)")
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	for _, q := range []string{"SELECT forever(a) FROM t", "SELECT joins()", "UPDATE t SET a = forever(a)", "CALL calls()",
		"INSERT INTO u VALUES (1)", "SELECT a FROM t ORDER BY forever(a)"} {
		killOne(t, s, k, killer, id, q)
	}
	exec(t, k, "CREATE FUNCTION keeps() RETURNS INT BEGIN DECLARE n INT; DECLARE c CURSOR FOR SELECT x.b FROM t x, t y; "+
		"OPEN c; CLOSE c; RETURN 1; END")
	expectErr(t, k, 1038, "SELECT keeps()")
	exec(t, k, "CREATE FUNCTION again() RETURNS INT BEGIN DECLARE i INT DEFAULT 0; WHILE i < 100 DO BEGIN DECLARE c CURSOR FOR "+
		"SELECT b FROM t; OPEN c; SET i = i + 1; END; END WHILE; RETURN i; END")
	expect(t, k, "SELECT again()", "100")
	if used := s.g.query.Memory().Used(); used != 0 {
		t.Errorf("%d bytes were not given back", used)
	}
}

// TestFunctionsSeveral: a text of several statements may make functions.
func TestFunctionsSeveral(t *testing.T) {
	s, _ := newServer(t)
	k := conn(t, openDSN(t, "root@tcp("+s.Addr().String()+")/test?multiStatements=true"))
	exec(t, k, "CREATE FUNCTION f() RETURNS INT RETURN 1; CREATE FUNCTION g() RETURNS INT BEGIN DECLARE x INT DEFAULT 2; RETURN x; END; "+
		"DROP FUNCTION IF EXISTS h; CREATE TABLE t SELECT f() + g() AS n")
	expect(t, k, "SELECT n FROM t", "3")
	one := conn(t, openDSN(t, "root@tcp("+s.Addr().String()+")/test"))
	expectErr(t, one, 1064, "CREATE FUNCTION h() RETURNS INT RETURN 1; SELECT 1")
}

// TestProgramResults: a trigger or function has no result, not even by a procedure that it calls.
func TestProgramResults(t *testing.T) {
	s, _ := newServer(t)
	k := conn(t, openDSN(t, "root@tcp("+s.Addr().String()+")/test"))
	exec(t, k, "CREATE TABLE t (n INT)")
	exec(t, k, "CREATE PROCEDURE shows() SELECT 1")
	exec(t, k, "CREATE FUNCTION f() RETURNS INT BEGIN CALL shows(); RETURN 1; END")
	exec(t, k, "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW CALL shows()")
	for text, kind := range map[string]string{"SELECT f()": "function", "INSERT INTO t VALUES (1)": "trigger"} {
		_, err := k.ExecContext(t.Context(), text)
		var me *mysql.MySQLError
		if !errors.As(err, &me) || me.Number != 1415 || !strings.HasSuffix(me.Message, "from a "+kind) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCallResults: only what has rows is a result of a CALL. A client that takes one result gets
// the last of them, also if the procedure commits behind it.
func TestCallResults(t *testing.T) {
	s, _ := newServer(t)
	k := conn(t, openDSN(t, "root@tcp("+s.Addr().String()+")/test"))
	exec(t, k, "CREATE TABLE t (n INT)")
	exec(t, k, "CREATE PROCEDURE two() BEGIN SELECT 1; START TRANSACTION; INSERT INTO t VALUES (1); SELECT 2; COMMIT; END")
	expect(t, k, "CALL two()", "2")
}
