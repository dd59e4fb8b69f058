package server

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// as is a connection of a new user with some grants.
func as(t *testing.T, s *Server, root *sql.DB, user string, grants ...string) *sql.Conn {
	t.Helper()
	exec(t, root, fmt.Sprintf("CREATE USER %s", user))
	for _, g := range grants {
		exec(t, root, fmt.Sprintf("GRANT %s TO %s", g, user))
	}
	c, err := openDSN(t, fmt.Sprintf("%s@tcp(%s)/test", user, s.Addr())).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refused fails the test unless a statement gets an error of this number.
func refused(t *testing.T, c execer, number uint16, q string) {
	t.Helper()
	_, err := tryQuery(c, q)
	if err == nil || errNumber(t, err) != number {
		t.Errorf("%s: %v, want error %d", q, err, number)
	}
}

// TestOthersStatements: who has no PROCESS sees its own statements only, and ends no other's.
func TestOthersStatements(t *testing.T) {
	s, root := newServer(t)
	exec(t, root, "CREATE TABLE t (id INT PRIMARY KEY)")
	few := as(t, s, root, "few", "SELECT ON test.t")
	seer := as(t, s, root, "seer", "PROCESS ON *.*", "SELECT ON test.t")
	admin := as(t, s, root, "admin", "CONNECTION_ADMIN ON *.*", "SELECT ON test.t")
	victim, err := root.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	id := query(t, victim, "SELECT CONNECTION_ID()")[0]
	for _, q := range []string{"SHOW PROCESSLIST", "SHOW FULL PROCESSLIST",
		"SELECT * FROM information_schema.processlist"} {
		for _, row := range query(t, few, q) {
			if strings.Split(row, "|")[1] != "few" {
				t.Errorf("%s shows %s", q, row)
			}
		}
		if n := len(query(t, seer, q)); n < 2 {
			t.Errorf("%s with PROCESS: %d rows", q, n)
		}
	}
	refused(t, few, 1095, "KILL "+id)
	refused(t, few, 1095, "KILL QUERY "+id)
	refused(t, seer, 1095, "KILL "+id)
	refused(t, few, 1094, "KILL 987654")
	refused(t, few, 1227, "SHOW JOBS")
	refused(t, few, 1227, "SHOW CLUSTER SETTINGS") // it names tables that are audited
	expect(t, victim, "SELECT 1", "1")
	// What is judged by the builder is so for the statement that it is, not for the next one.
	several := openDSN(t, fmt.Sprintf("few@tcp(%s)/test?multiStatements=true", s.Addr()))
	for _, q := range []string{"CREATE USER x", "SHOW JOBS", "CREATE ROLE x", "SET GLOBAL autocommit = 0"} {
		if _, err := several.Exec("SHOW PROCESSLIST; " + q); err == nil || errNumber(t, err) != 1227 {
			t.Errorf("SHOW PROCESSLIST; %s: %v", q, err)
		}
	}
	exec(t, admin, "KILL "+id)
	if _, err := victim.ExecContext(context.Background(), "SELECT 1"); err == nil {
		t.Error("the connection lives")
	}
	own := as(t, s, root, "own", "SELECT ON test.t")
	other, err := openDSN(t, fmt.Sprintf("own@tcp(%s)/test", s.Addr())).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, own, "KILL "+query(t, other, "SELECT CONNECTION_ID()")[0])
}

// TestHomesRights: the homes of rows are those of who may use the table t__homes.
func TestHomesRights(t *testing.T) {
	s, root := newServer(t)
	exec(t, root, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, root, "INSERT INTO t VALUES (1)")
	few := as(t, s, root, "few", "SELECT ON test.t")
	refused(t, few, 1142, "SELECT * FROM t__homes")
	refused(t, few, 1142, "UPDATE t__homes SET pinned = TRUE WHERE id = 1")
	expect(t, as(t, s, root, "all", "SELECT ON test.*"), "SELECT COUNT(*) FROM t__homes", "1")
}

// TestReadOnlyTransactions: nothing is written in one, by whatever way a statement takes.
func TestReadOnlyTransactions(t *testing.T) {
	_, root := newServer(t)
	exec(t, root, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	exec(t, root, "CREATE PROCEDURE p() UPDATE t SET a = 7")
	exec(t, root, "INSERT INTO t VALUES (1, 1), (2, 2)")
	c, err := root.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	writes := []string{"UPDATE t SET a = 5 WHERE id = 1", "UPDATE t SET a = a + 1", "DELETE FROM t WHERE a = 1",
		"INSERT INTO t VALUES (3, 3)", "REPLACE INTO t VALUES (1, 3)", "INSERT INTO t SELECT id + 10, a FROM t", "CALL p()",
		"DELETE FROM t WHERE id = 1"}
	for _, q := range writes {
		exec(t, c, "START TRANSACTION READ ONLY")
		refused(t, c, 1792, q)
		expect(t, c, "SELECT id, a FROM t ORDER BY id", "1|1", "2|2")
		exec(t, c, "COMMIT")

		exec(t, c, "SET TRANSACTION READ ONLY")
		refused(t, c, 1792, q)
		exec(t, c, "SET TRANSACTION READ ONLY, ISOLATION LEVEL READ COMMITTED")
		exec(t, c, "BEGIN")
		refused(t, c, 1792, q)
		exec(t, c, "ROLLBACK")

		exec(t, c, "SET SESSION TRANSACTION READ ONLY")
		expect(t, c, "SELECT @@transaction_read_only", "1")
		refused(t, c, 1792, q)
		exec(t, c, "START TRANSACTION")
		refused(t, c, 1792, q)
		exec(t, c, "COMMIT")
		exec(t, c, "SET SESSION TRANSACTION READ WRITE")
	}
	expect(t, c, "SELECT id, a FROM t ORDER BY id", "1|1", "2|2")
	exec(t, c, "SET SESSION transaction_read_only = 1")
	exec(t, c, "START TRANSACTION READ WRITE")
	exec(t, c, "UPDATE t SET a = 5 WHERE id = 1")
	exec(t, c, "COMMIT")
	exec(t, c, "SET TRANSACTION READ WRITE")
	exec(t, c, "UPDATE t SET a = 6 WHERE id = 2")
	refused(t, c, 1792, "UPDATE t SET a = 7 WHERE id = 2")
	exec(t, c, "SET SESSION transaction_read_only = 0")
	exec(t, c, "SET TRANSACTION READ ONLY")
	expect(t, c, "SELECT id, a FROM t ORDER BY id", "1|5", "2|6")
	exec(t, c, "UPDATE t SET a = 8 WHERE id = 1") // it was for one transaction
}

// TestDefiners: views, procedures and triggers do what their definers may, as long as they may.
func TestDefiners(t *testing.T) {
	s, root := newServer(t)
	exec(t, root, "CREATE TABLE secret (id INT PRIMARY KEY)")
	exec(t, root, "INSERT INTO secret VALUES (1), (2)")
	exec(t, root, "CREATE TABLE log (n INT)")
	maker := as(t, s, root, "maker", "SELECT ON test.secret", "CREATE VIEW, CREATE ROUTINE, SHOW VIEW, INSERT ON test.*")
	exec(t, maker, "CREATE VIEW v AS SELECT id FROM secret")
	exec(t, root, "GRANT SELECT ON test.v TO maker")
	exec(t, maker, "CREATE VIEW vv AS SELECT id FROM v")
	exec(t, maker, "CREATE PROCEDURE p() SELECT COUNT(*) FROM secret")
	exec(t, maker, "CREATE PROCEDURE pp() CALL p()")
	exec(t, maker, "CREATE PROCEDURE asker() SQL SECURITY INVOKER SELECT COUNT(*) FROM secret")
	exec(t, root, "CREATE DEFINER = maker PROCEDURE named() SELECT COUNT(*) FROM secret")
	exec(t, root, "GRANT EXECUTE ON test.* TO maker")
	user := as(t, s, root, "user", "SELECT ON test.v", "SELECT ON test.vv", "EXECUTE ON test.*")
	exec(t, root, "CREATE DEFINER = root@localhost PROCEDURE dumped() SELECT COUNT(*) FROM secret")
	expect(t, user, "CALL dumped()", "2")
	for _, q := range []string{"SELECT COUNT(*) FROM v", "SELECT COUNT(*) FROM vv", "CALL p()", "CALL pp()", "CALL named()"} {
		expect(t, user, q, "2")
	}
	refused(t, user, 1142, "CALL asker()")
	refused(t, user, 1142, "SELECT COUNT(*) FROM secret") // the definer's rights are gone again
	refused(t, maker, 1227, "CREATE DEFINER = root PROCEDURE r() SELECT 1")
	refused(t, maker, 1227, "CREATE DEFINER = root VIEW r AS SELECT 1")
	exec(t, root, "GRANT SET_USER_ID ON *.* TO maker")
	exec(t, maker, "CREATE DEFINER = root PROCEDURE r() SELECT 1")
	exec(t, root, "REVOKE SELECT ON test.secret FROM maker")
	refused(t, user, 1356, "SELECT COUNT(*) FROM v")
	refused(t, user, 1142, "CALL p()")
	exec(t, root, "DROP USER maker")
	refused(t, user, 1449, "SELECT COUNT(*) FROM v")
	refused(t, user, 1449, "CALL p()")
}
