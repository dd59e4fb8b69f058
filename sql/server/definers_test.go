package server

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/session"
)

// TestTriggerDefiners: a trigger does what its definer may do when it is executed.
func TestTriggerDefiners(t *testing.T) {
	s, root := newServer(t)
	for _, q := range []string{
		"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "CREATE TABLE secret (id INT PRIMARY KEY, x INT)",
		"CREATE TABLE log (n INT)", "CREATE TABLE deep (n INT)", "INSERT INTO secret VALUES (1, 42)",
		"CREATE TABLE u (id INT PRIMARY KEY)", "CREATE TABLE w (id INT PRIMARY KEY, a INT)",
	} {
		exec(t, root, q)
	}
	maker := as(t, s, root, "maker", "CREATE, TRIGGER, CREATE ROUTINE, EXECUTE ON test.*", "SELECT, INSERT ON test.log")
	user := as(t, s, root, "user", "SELECT, INSERT, UPDATE, DELETE ON test.t", "SELECT, INSERT ON test.u",
		"INSERT, SELECT, UPDATE ON test.w")

	// What the body says is no matter when it is made.
	exec(t, maker, "CREATE TRIGGER ins BEFORE INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.id)")
	refused(t, user, 1143, "INSERT INTO t VALUES (1, 1, 1)") // SELECT for the row's own column
	exec(t, root, "GRANT SELECT (id) ON test.t TO maker")
	exec(t, user, "INSERT INTO t VALUES (1, 1, 1)")
	expect(t, root, "SELECT n FROM log", "1")
	refused(t, user, 1142, "SELECT * FROM log")

	// Its definer loses the right, and gets it again.
	exec(t, root, "REVOKE INSERT ON test.log FROM maker")
	refused(t, user, 1142, "INSERT INTO t VALUES (2, 2, 2)")
	refused(t, root, 1142, "INSERT INTO t VALUES (2, 2, 2)")
	exec(t, root, "INSERT INTO t SELECT id + 10, x, x FROM secret WHERE x < 0") // no row, no trigger
	expect(t, root, "SELECT COUNT(*) FROM t", "1")
	exec(t, root, "GRANT INSERT (n) ON test.log TO maker")
	exec(t, user, "INSERT INTO t VALUES (2, 2, 2)")
	exec(t, root, "REVOKE TRIGGER ON test.* FROM maker")
	refused(t, user, 1142, "INSERT INTO t VALUES (3, 3, 3)")
	exec(t, root, "GRANT TRIGGER ON test.* TO maker")
	exec(t, user, "INSERT INTO t VALUES (3, 3, 3)")

	// Values of the row that are set.
	exec(t, maker, "CREATE TRIGGER upd BEFORE UPDATE ON t FOR EACH ROW BEGIN IF NEW.id > 0 THEN SET NEW.b = 7; END IF; END")
	refused(t, user, 1143, "UPDATE t SET a = 5 WHERE id = 1")
	exec(t, root, "GRANT UPDATE (b) ON test.t TO maker")
	exec(t, user, "UPDATE t SET a = 5 WHERE id = 1")
	expect(t, root, "SELECT a, b FROM t WHERE id = 1", "5|7")

	// A condition reads what its definer may not.
	exec(t, maker, "CREATE TRIGGER del AFTER DELETE ON t FOR EACH ROW BEGIN IF (SELECT MAX(x) FROM secret) > 0 THEN "+
		"INSERT INTO log VALUES (1); END IF; END")
	refused(t, user, 1142, "DELETE FROM t WHERE id = 3")
	expect(t, root, "SELECT COUNT(*) FROM t", "3")
	exec(t, root, "GRANT SELECT (x) ON test.secret TO maker")
	exec(t, user, "DELETE FROM t WHERE id = 3")

	// Procedures that a trigger calls do not get the rights of who fires it, root's least of all.
	exec(t, maker, "CREATE PROCEDURE steal() SQL SECURITY INVOKER INSERT INTO log SELECT id FROM secret")
	exec(t, maker, "CREATE PROCEDURE steal2() SQL SECURITY INVOKER CALL steal()")
	exec(t, maker, "CREATE TRIGGER c AFTER INSERT ON u FOR EACH ROW CALL steal2()")
	for _, c := range []execer{root, user} {
		if _, err := tryQuery(c, "INSERT INTO u VALUES (1)"); err == nil || errNumber(t, err) != 1143 && errNumber(t, err) != 1142 {
			t.Errorf("a procedure in a trigger: %v", err)
		}
	}
	exec(t, root, "DROP TRIGGER c")
	exec(t, maker, "CREATE TRIGGER c AFTER INSERT ON u FOR EACH ROW INSERT INTO log SELECT COUNT(*) FROM information_schema.tables "+
		"WHERE table_schema = 'test' AND table_name = 'secret2'")
	exec(t, root, "CREATE TABLE secret2 (id INT PRIMARY KEY)")
	exec(t, root, "REVOKE ALL ON test.* FROM maker")
	exec(t, root, "GRANT TRIGGER ON test.u TO maker")
	exec(t, root, "GRANT INSERT ON test.log TO maker")
	exec(t, root, "DELETE FROM log")
	exec(t, root, "INSERT INTO u VALUES (1)")
	expect(t, root, "SELECT n FROM log", "0") // maker does not see it

	// Triggers that fire triggers: each in the name of its own definer.
	exec(t, root, "CREATE DEFINER = root TRIGGER outer_ AFTER INSERT ON w FOR EACH ROW INSERT INTO deep VALUES (NEW.id)")
	other := as(t, s, root, "other", "TRIGGER ON test.deep", "SELECT ON test.deep")
	exec(t, other, "CREATE TRIGGER inner_ AFTER INSERT ON deep FOR EACH ROW BEGIN INSERT INTO secret VALUES (NEW.n, 0); END")
	refused(t, user, 1142, "INSERT INTO w VALUES (9, 9)")
	expect(t, root, "SELECT COUNT(*) FROM deep", "0")
	exec(t, root, "GRANT INSERT ON test.secret TO other")
	exec(t, user, "INSERT INTO w VALUES (9, 9)")
	expect(t, root, "SELECT COUNT(*) FROM secret WHERE id = 9", "1")

	// Who names another definer needs SET_USER_ID; who has gone is no definer.
	refused(t, other, 1227, "CREATE DEFINER = root TRIGGER r BEFORE INSERT ON deep FOR EACH ROW SET @x = 1")
	exec(t, root, "CREATE DEFINER = nobody@'%' TRIGGER gone BEFORE UPDATE ON w FOR EACH ROW SET NEW.a = 1")
	refused(t, user, 1449, "UPDATE w SET a = 2 WHERE id = 9")
	exec(t, root, "DROP TRIGGER gone")
	exec(t, user, "UPDATE w SET a = 2 WHERE id = 9")
	expect(t, root, "SELECT definer FROM information_schema.triggers WHERE trigger_name = 'inner_'", "other@%")

	// A database that who fires the trigger does not see.
	exec(t, root, "CREATE DATABASE hidden")
	exec(t, root, "CREATE TABLE hidden.h (n INT)")
	exec(t, root, "CREATE TRIGGER hides AFTER UPDATE ON w FOR EACH ROW INSERT INTO hidden.h SELECT NEW.id")
	exec(t, user, "UPDATE w SET a = 3 WHERE id = 9")
	refused(t, user, 1142, "SELECT * FROM hidden.h")
	exec(t, other, "CREATE TRIGGER hides2 AFTER INSERT ON deep FOR EACH ROW SET @x = 1")
	exec(t, root, "DROP TRIGGER hides2")
	exec(t, root, "CREATE DEFINER = other TRIGGER hides3 AFTER INSERT ON deep FOR EACH ROW DELETE FROM hidden.h")
	refused(t, user, 1142, "INSERT INTO w VALUES (10, 10)")
	exec(t, root, "DROP TRIGGER hides3")
	expect(t, root, "SELECT n FROM hidden.h", "9")

	// What a user does not see does not show by making a trigger on it.
	blind := as(t, s, root, "blind", "CREATE, TRIGGER, SELECT, INSERT ON test.u")
	refused(t, blind, 1142, "CREATE TRIGGER x BEFORE INSERT ON w FOR EACH ROW SET @x = 1")
	exec(t, blind, "CREATE TRIGGER probe1 BEFORE INSERT ON u FOR EACH ROW INSERT INTO secret (nothing) VALUES (1)")
	exec(t, root, "DROP TRIGGER probe1")
	exec(t, blind, "CREATE TRIGGER probe2 BEFORE INSERT ON u FOR EACH ROW INSERT INTO nowhere (nothing) VALUES (1)")
	exec(t, root, "DROP TRIGGER probe2")
}

// TestPreparedTriggers: what is prepared is judged when it is executed.
func TestPreparedTriggers(t *testing.T) {
	s, root := newServer(t)
	exec(t, root, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, root, "CREATE TABLE log (n INT)")
	maker := as(t, s, root, "maker", "TRIGGER, SELECT ON test.t", "INSERT ON test.log")
	exec(t, maker, "CREATE TRIGGER ins AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.id)")
	user := as(t, s, root, "user", "INSERT ON test.t")
	st, err := user.PrepareContext(t.Context(), "INSERT INTO t VALUES (?)")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, user, "PREPARE p FROM 'INSERT INTO t VALUES (?)'")
	exec(t, user, "SET @n = 1")
	exec(t, user, "EXECUTE p USING @n")
	if _, err := st.Exec(2); err != nil {
		t.Error(err)
	}
	exec(t, root, "REVOKE INSERT ON test.log FROM maker")
	exec(t, user, "SET @n = 3")
	refused(t, user, 1142, "EXECUTE p USING @n")
	if _, err := st.Exec(4); err == nil || errNumber(t, err) != 1142 {
		t.Error(err)
	}
	exec(t, root, "DROP USER maker")
	refused(t, user, 1449, "EXECUTE p USING @n")
	if _, err := st.Exec(4); err == nil || errNumber(t, err) != 1449 {
		t.Error(err)
	}
	expect(t, root, "SELECT n FROM log ORDER BY n", "1", "2")
}

// TestViewDefiners: the views that changes read are read with the rights of their definers.
func TestViewDefiners(t *testing.T) {
	cluster := memkv.New(4, "eu", "us")
	s, root := startServer(t, cluster)
	for _, q := range []string{
		"CREATE TABLE secret (id INT PRIMARY KEY, x INT, y INT)", "INSERT INTO secret VALUES (1, 10, 100), (2, 20, 200)",
		"CREATE TABLE mine (id INT PRIMARY KEY, b INT)", "CREATE TABLE c (a INT, b INT)",
	} {
		exec(t, root, q)
	}
	maker := as(t, s, root, "maker", "SELECT (id, x) ON test.secret", "CREATE VIEW, SHOW VIEW, DROP ON test.*")
	user := as(t, s, root, "user", "ALL ON test.mine", "SELECT (a) ON test.c")
	exec(t, maker, "CREATE VIEW v AS SELECT id, x FROM secret WHERE x > 5")
	exec(t, root, "GRANT SELECT ON test.v TO maker")
	exec(t, maker, "CREATE VIEW vv AS SELECT id, x FROM v")
	exec(t, root, "CREATE SQL SECURITY INVOKER VIEW vi AS SELECT id, x FROM secret")
	exec(t, root, "GRANT SELECT ON test.vi TO maker")
	exec(t, maker, "CREATE VIEW vvi AS SELECT id, x FROM vi")
	for _, v := range []string{"v", "vv", "vi", "vvi"} {
		exec(t, root, "GRANT SELECT ON test."+v+" TO user")
	}
	changes := func(v string) []string {
		return []string{
			"REPLACE INTO mine SELECT id, x FROM " + v, "UPDATE mine SET b = (SELECT MAX(x) FROM " + v + ")",
			"UPDATE mine JOIN " + v + " z ON mine.id = z.id SET b = z.x", "DELETE FROM mine WHERE id IN (SELECT id FROM " + v + ")",
			"INSERT INTO mine VALUES (7, (SELECT MAX(x) FROM " + v + ")) ON DUPLICATE KEY UPDATE b = (SELECT MIN(x) FROM " + v + ")",
			"SELECT id, x FROM " + v,
		}
	}
	for _, engine := range []string{toOurs, toEngine} {
		exec(t, user, engine)
		for _, v := range []string{"v", "vv", "vvi"} {
			for _, q := range changes(v) {
				exec(t, user, q)
			}
		}
		for _, q := range changes("vi") {
			if _, err := tryQuery(user, q); err == nil || errNumber(t, err) != 1142 && errNumber(t, err) != 1356 {
				t.Errorf("%s: %v", q, err)
			}
		}
		// A query that looks like the view's is not the view.
		for _, q := range []string{
			"UPDATE mine JOIN (SELECT id, x FROM secret WHERE x > 5) v ON mine.id = v.id SET b = v.x",
			"UPDATE mine JOIN v ON mine.id = v.id JOIN (SELECT a, b FROM c) z ON mine.id = z.a SET mine.b = z.b",
		} {
			if _, err := tryQuery(user, q); err == nil || errNumber(t, err) != 1142 && errNumber(t, err) != 1143 {
				t.Errorf("%s: %v", q, err)
			}
		}
		exec(t, user, "UPDATE mine JOIN v ON mine.id = v.id JOIN c ON mine.id = c.a SET mine.b = c.a")
	}
	exec(t, root, "GRANT SHOW VIEW ON test.v TO user")
	if rows := query(t, user, "SHOW CREATE VIEW v"); len(rows) != 1 {
		t.Error(rows)
	}
	exec(t, root, "REVOKE SELECT (x) ON test.secret FROM maker")
	for _, engine := range []string{toOurs, toEngine} {
		exec(t, user, engine)
		for _, v := range []string{"v", "vv", "vvi"} {
			for _, q := range changes(v) {
				refused(t, user, 1356, q)
			}
		}
	}
	exec(t, root, "DROP USER maker")
	for _, q := range changes("v") {
		refused(t, user, 1449, q)
	}
	other, _ := startServer(t, cluster)
	again, err := openDSN(t, fmt.Sprintf("user@tcp(%s)/test", other.Addr())).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused(t, again, 1449, "UPDATE mine SET b = (SELECT MAX(x) FROM v)")
}

// TestForwardedTriggers: a forwarded statement fires triggers in the name of their definers, with
// the grants that the asker knew, and tells the asker's audit log which tables it reached.
func TestForwardedTriggers(t *testing.T) {
	l, _, us, gs := startPair(t, 0)
	log, err := audit.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, s := range gs {
		s.g.audit.Log = log
	}
	log.Set(audit.Params{Tables: []string{"test.log"}})
	for _, q := range []string{"CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE log (n INT)",
		"INSERT INTO t VALUES (1, 1), (2, 2)", "CREATE USER maker, user", "GRANT INSERT, SELECT ON test.t TO user",
		"GRANT UPDATE ON test.t TO user", "GRANT INSERT ON test.log TO maker", "GRANT TRIGGER, SELECT ON test.t TO maker",
		"CREATE DEFINER = maker TRIGGER tr AFTER UPDATE ON t FOR EACH ROW INSERT INTO log VALUES (NEW.id)",
	} {
		exec(t, us, q)
	}
	if err := gs[0].g.users.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := openDSN(t, fmt.Sprintf("user@tcp(%s)/test", gs[0].Addr())).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := l.forwarded.Load()
	exec(t, c, "UPDATE t SET a = 5 WHERE id = 1")
	if l.forwarded.Load() != n+1 {
		t.Fatal("it was not forwarded: this test tests nothing")
	}
	v, _ := gs[0].g.sessions.Load(connection(t, c))
	if got := v.(*session.Session).Reached(); len(got) != 0 { // of the SELECT that asked for the connection
		t.Error(got)
	}
	exec(t, c, "UPDATE t SET a = 6 WHERE id = 1")
	got := v.(*session.Session).Reached()
	slices.Sort(got)
	if fmt.Sprint(got) != "[test.log test.t]" {
		t.Errorf("the asker knows of %v", got)
	}
	expect(t, us, "SELECT n FROM log", "1", "1")
	exec(t, us, "REVOKE INSERT ON test.log FROM maker")
	refused(t, c, 1142, "UPDATE t SET a = 7 WHERE id = 1")
	expect(t, us, "SELECT a FROM t WHERE id = 1", "6")
	exec(t, us, "GRANT INSERT ON test.log TO maker")
	exec(t, c, "UPDATE t SET a = 8 WHERE id = 1")
	exec(t, us, "DROP USER maker")
	refused(t, c, 1449, "UPDATE t SET a = 9 WHERE id = 1")
}

func connection(t *testing.T, c execer) uint32 {
	t.Helper()
	id, err := strconv.ParseUint(query(t, c, "SELECT CONNECTION_ID()")[0], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(id)
}

// TestGrantsChangeMeanwhile: what is executed in the name of a definer does not get the rights of
// the user when grants change meanwhile.
func TestGrantsChangeMeanwhile(t *testing.T) {
	s, root := newServer(t)
	for _, q := range []string{"CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE secret (x INT)", "CREATE TABLE got (x INT)",
		"INSERT INTO secret VALUES (42)", "CREATE USER somebody"} {
		exec(t, root, q)
	}
	maker := as(t, s, root, "maker", "TRIGGER, SELECT ON test.t", "INSERT ON test.got", "CREATE ROUTINE, EXECUTE ON test.*")
	exec(t, maker, "CREATE PROCEDURE steal() SQL SECURITY INVOKER BEGIN "+
		"IF GET_LOCK('go', 20) = 1 THEN INSERT INTO got SELECT x FROM secret; END IF; END")
	exec(t, maker, "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW CALL steal()")
	query(t, maker, "SELECT GET_LOCK('go', 20)")
	done := make(chan error)
	go func() {
		_, err := root.Exec("INSERT INTO t VALUES (1)")
		done <- err
	}()
	for len(query(t, root, "SELECT id FROM information_schema.processlist WHERE info LIKE 'INSERT INTO t %'")) == 0 {
	}
	exec(t, root, "GRANT SELECT ON test.t TO somebody")
	query(t, maker, "SELECT RELEASE_LOCK('go')")
	if err := <-done; err == nil || errNumber(t, err) != 1142 {
		t.Errorf("a procedure in a trigger of root's statement: %v", err)
	}
	expect(t, root, "SELECT COUNT(*) FROM got", "0")
}

// TestTriggerBodies: there is no place in a body where a definer gets at what it may not.
func TestTriggerBodies(t *testing.T) {
	s, root := newServer(t)
	exec(t, root, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	exec(t, root, "CREATE TABLE secret (x INT)")
	exec(t, root, "INSERT INTO secret VALUES (42)")
	exec(t, root, "CREATE TABLE got (x INT PRIMARY KEY)")
	maker := as(t, s, root, "maker", "TRIGGER, SELECT, INSERT, UPDATE ON test.t", "SELECT, INSERT, UPDATE ON test.got",
		"REFERENCES ON test.secret")
	exec(t, root, "CREATE SQL SECURITY INVOKER VIEW vi AS SELECT x FROM secret")
	exec(t, root, "GRANT SELECT ON test.vi TO maker")
	for _, body := range []string{
		"BEGIN DECLARE n INT; SELECT x INTO n FROM secret LIMIT 1; INSERT INTO got VALUES (n); END",
		"BEGIN WHILE (SELECT MAX(x) FROM secret) < 0 DO SET @q = 1; END WHILE; INSERT INTO got VALUES (1); END",
		"BEGIN IF (SELECT MAX(x) FROM secret) > 0 THEN INSERT INTO got VALUES (1); END IF; END",
		"BEGIN CASE (SELECT MAX(x) FROM secret) WHEN 42 THEN INSERT INTO got VALUES (1); ELSE INSERT INTO got VALUES (2); " +
			"END CASE; END",
		"BEGIN IF 1 = 1 THEN BEGIN INSERT INTO secret VALUES (3); END; END IF; END",
		"INSERT INTO got VALUES ((SELECT MAX(x) FROM secret))", "INSERT INTO got SELECT * FROM (SELECT x FROM secret) z",
		"INSERT INTO got SELECT x FROM vi", "INSERT INTO got WITH w AS (SELECT x FROM secret) SELECT x FROM w",
		"SET NEW.b = (SELECT MAX(x) FROM secret)", "SET @leak = (SELECT MAX(x) FROM secret)",
		"UPDATE got JOIN secret ON 1 = 1 SET got.x = secret.x", "DELETE FROM secret", "DELETE FROM secret WHERE x > 0", "UPDATE secret SET x = 1", "BEGIN DELETE FROM secret; END",
		"REPLACE INTO secret VALUES (1)", "INSERT INTO got VALUES (EXISTS (SELECT 1 FROM secret))",
		"INSERT INTO got VALUES (1) ON DUPLICATE KEY UPDATE x = (SELECT MAX(x) FROM secret)",
		"BEGIN DECLARE c CURSOR FOR SELECT x FROM secret; OPEN c; CLOSE c; END",
	} {
		if _, err := tryQuery(maker, "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW "+body); err != nil {
			t.Errorf("%s cannot be made: %v", body, err)
			continue
		}
		_, err := tryQuery(root, "INSERT INTO t VALUES (9, 9)")
		if n := uint16(0); err == nil {
			t.Errorf("%s: no error", body)
		} else if n = errNumber(t, err); n != 1142 && n != 1356 {
			t.Errorf("%s: %v", body, err)
		}
		exec(t, root, "DROP TRIGGER tr")
		expect(t, root, "SELECT (SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM got), (SELECT SUM(x) FROM secret), @leak",
			"0|0|42|NULL")
	}
}

// TestTriggersOfAnotherDatabase: a trigger is fired, and names in it mean the same, whatever
// database is the current one.
func TestTriggersOfAnotherDatabase(t *testing.T) {
	s, root := newServer(t)
	for _, q := range []string{"CREATE TABLE t (a INT PRIMARY KEY, b INT)", "CREATE TABLE log (x INT)", "CREATE TABLE deep (x INT)",
		"CREATE DATABASE own", "CREATE TABLE own.log (x INT)", "CREATE TABLE own.t (a INT)",
		"CREATE PROCEDURE p() INSERT INTO deep VALUES (7)",
		"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.a)",
		"CREATE TRIGGER tr2 AFTER INSERT ON log FOR EACH ROW CALL p()",
		"CREATE TRIGGER tr3 AFTER DELETE ON t FOR EACH ROW INSERT INTO log SELECT MAX(x) + 100 FROM log",
	} {
		exec(t, root, q)
	}
	u := as(t, s, root, "u", "INSERT, DELETE, SELECT ON test.t", "ALL ON own.*")
	for _, q := range []string{"USE own", "INSERT INTO test.t VALUES (9, 9)", "INSERT INTO test.t SELECT a + 1, b FROM test.t",
		"DELETE FROM test.t WHERE a = 9"} {
		exec(t, u, q)
	}
	expect(t, u, "SELECT DATABASE()", "own")
	expect(t, root, "SELECT x FROM test.log ORDER BY x", "9", "10", "110")
	expect(t, root, "SELECT COUNT(*) FROM test.deep", "3")
	expect(t, root, "SELECT COUNT(*) FROM own.log", "0")
	none, err := openDSN(t, fmt.Sprintf("u@tcp(%s)/", s.Addr())).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, none, "INSERT INTO test.t VALUES (11, 9)")
	expect(t, root, "SELECT x FROM test.log WHERE x = 11", "11")
}
