package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestPrivilegesOfChanges: who may change rows may not find out what is in them. The answers are
// those of MariaDB 10.11 and MySQL's manual (chapters UPDATE, DELETE): a column that is read takes
// the SELECT privilege. 0: the statement runs.
func TestPrivilegesOfChanges(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
	exec(t, c, "CREATE TABLE u (id INT PRIMARY KEY, a INT, b INT)")
	exec(t, c, "CREATE TABLE g (id INT PRIMARY KEY, a INT)")
	exec(t, c, "CREATE TRIGGER tg BEFORE UPDATE ON g FOR EACH ROW SET NEW.a = NEW.a + 1")
	exec(t, c, "INSERT INTO t VALUES (1,1,1), (2,2,2)")
	exec(t, c, "INSERT INTO u VALUES (1,1,1)")
	exec(t, c, "INSERT INTO g VALUES (1,1)")
	for user, grants := range map[string]string{
		"upd": "UPDATE ON d.t,UPDATE ON d.g", "del": "DELETE ON d.t", "selupd": "SELECT ON d.t,UPDATE ON d.t",
		"seldel": "SELECT ON d.t,DELETE ON d.t", "ins": "INSERT ON d.t", "insupd": "INSERT ON d.t,UPDATE ON d.t",
	} {
		exec(t, c, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY ''", user))
		for _, grant := range strings.Split(grants, ",") {
			exec(t, c, fmt.Sprintf("GRANT %s TO %s@'%%'", strings.ReplaceAll(grant, "d.", "test."), user))
		}
	}
	for _, x := range []struct {
		user, q string
		code    uint16
	}{
		{"upd", "UPDATE t SET a=1", 0},
		{"upd", "UPDATE t SET a=DEFAULT", 0},
		{"upd", "UPDATE t SET a=a+0", 1143},
		{"upd", "UPDATE t SET a=1 WHERE id=1", 1143},
		{"upd", "UPDATE t SET a=1 WHERE b=1", 1143},
		{"upd", "UPDATE t SET a=1 ORDER BY b LIMIT 1", 1143},
		{"upd", "UPDATE t x JOIN t y ON x.id=y.id SET x.a=y.a", 1142},
		{"upd", "UPDATE t SET a=(SELECT MAX(a) FROM u)", 1142},
		{"upd", "UPDATE g SET a=1 WHERE id=1", 1143},
		{"upd", "DELETE FROM t", 1142},
		{"selupd", "UPDATE t SET a=a+0 WHERE b=1", 0},
		{"selupd", "UPDATE t x JOIN t y ON x.id=y.id SET x.a=y.a", 0},
		{"selupd", "UPDATE t SET a=(SELECT MAX(a) FROM u)", 1142},
		{"selupd", "DELETE FROM t WHERE id=1", 1142},
		{"del", "DELETE FROM t WHERE id=99", 1143},
		{"del", "DELETE FROM t WHERE b=99", 1143},
		{"del", "DELETE FROM t WHERE 1=0", 0},
		{"del", "DELETE FROM t LIMIT 0", 0},
		{"del", "DELETE t FROM t JOIN u ON t.id=u.id", 1142},
		{"seldel", "DELETE FROM t WHERE b=99", 0},
		{"seldel", "DELETE FROM t WHERE id IN (SELECT id FROM u)", 1142},
		{"ins", "INSERT INTO t (id) SELECT 50 FROM t", 1142},
		{"ins", "UPDATE t SET a=1", 1142},
		{"ins", "INSERT INTO t VALUES (9,9,9)", 0},
		{"ins", "INSERT INTO t VALUES (1,1,1) ON DUPLICATE KEY UPDATE a=1", 1142},
		{"ins", "INSERT INTO t VALUES (1,1,1) ON DUPLICATE KEY UPDATE a=(SELECT 1)", 1142},
		{"ins", "REPLACE INTO t VALUES (1,1,1)", 1142},
		{"insupd", "INSERT INTO t VALUES (1,1,1) ON DUPLICATE KEY UPDATE a=VALUES(a)", 0},
		{"insupd", "INSERT INTO t VALUES (1,1,1) ON DUPLICATE KEY UPDATE a=a+1", 1143},
		{"selupd", "SELECT id FROM t GROUP BY b", 1055},
		{"selupd", "SELECT id, COUNT(*) FROM t", 1140},
	} {
		db := openDSN(t, fmt.Sprintf("%s@tcp(%s)/test", x.user, s.Addr()))
		_, err := db.ExecContext(t.Context(), x.q)
		var e *mysql.MySQLError
		got := uint16(0)
		if errors.As(err, &e) {
			got = e.Number
		}
		if got != x.code || got == 0 && err != nil {
			t.Errorf("%s: %s: %v, want error %d", x.user, x.q, err, x.code)
		}
	}
}
