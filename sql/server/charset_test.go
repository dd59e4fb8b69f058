package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv/memkv"
)

// TestClientsCharset: a client that speaks another character set than UTF-8 writes, finds and reads
// what all others do, in both engines and in prepared statements.
func TestClientsCharset(t *testing.T) {
	s, c := startServer(t, memkv.New(4, "eu", "us"))
	utf8, k := conn(t, c), conn(t, c)
	exec(t, k, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b VARBINARY(20), UNIQUE (a))")
	for i, x := range []struct{ set, bytes, text string }{
		{"latin1", "caf\xe9", "café"}, {"cp1251", "\xc6\xd6", "ЖЦ"}, {"sjis", "\x83\x5c\x83\x5c", "ソソ"}, {"gbk", "\xd7\xd6", "字"},
	} {
		exec(t, k, "SET NAMES "+x.set)
		for _, mode := range []string{toOurs, toEngine} {
			exec(t, k, mode)
			exec(t, k, "DELETE FROM t")
			exec(t, k, "INSERT INTO t VALUES (1, '"+x.bytes+"', X'FF00E9')")
			expect(t, k, "SELECT a, LENGTH(a), '"+x.bytes+"' AS `"+x.bytes+"` FROM t WHERE a = '"+x.bytes+"'",
				x.bytes+"|"+query(t, utf8, "SELECT LENGTH(a) FROM t")[0]+"|"+x.bytes)
			expect(t, k, "SELECT CONCAT(a, 'x') FROM t", x.bytes+"x")
			expect(t, k, "SELECT a FROM t WHERE id = 1", x.bytes) // by key
			expect(t, k, "SELECT b FROM t", "\xff\x00\xe9")
			expect(t, utf8, "SELECT a FROM t", x.text)
			var a string
			if err := k.QueryRowContext(t.Context(), "SELECT a FROM t WHERE a = ? AND id = ?", x.bytes, 1).Scan(&a); err != nil || a != x.bytes {
				t.Errorf("%d, prepared: %q, %v", i, a, err)
			}
			_, err := tryQuery(k, "SELECT nothing FROM `"+x.bytes+"`")
			var e *mysql.MySQLError
			if !errors.As(err, &e) || e.Number != 1146 {
				t.Errorf("%s: %v", x.set, err)
			}
		}
	}
	exec(t, k, "SET NAMES latin1")
	exec(t, k, "DELETE FROM t")
	exec(t, k, "INSERT INTO t VALUES (1, 'x', _binary '\xe9\xff')")
	expect(t, utf8, "SELECT HEX(b) FROM t", "E9FF")
	expect(t, utf8, "INSERT INTO t VALUES (2, '字é', NULL)")
	expect(t, k, "SELECT a FROM t WHERE id = 2", "?\xe9")
	for _, q := range []string{"SET character_set_client = utf16", "SET NAMES ucs2"} {
		refused(t, k, 1231, q)
	}
	// A text becomes the bytes that the client has sent. (In our own engine: docs/limits.md.)
	exec(t, k, toOurs)
	exec(t, k, "INSERT INTO t VALUES (9, 'y', '\xe9\xff')")
	expect(t, utf8, "SELECT HEX(b) FROM t WHERE id = 9", "E9FF")
	exec(t, k, "UPDATE t SET b = CONCAT('\xe8', 'a') WHERE id = 9")
	expect(t, k, "SELECT HEX(b), HEX(CAST('\xe9' AS BINARY)), HEX(BINARY '\xe9'), LENGTH('\xe9') FROM t WHERE id = 9", "E861|E9|E9|1")
	if _, err := k.ExecContext(t.Context(), "UPDATE t SET b = ? WHERE id = 9", "\xe7\x80"); err != nil {
		t.Error(err)
	}
	expect(t, utf8, "SELECT HEX(b) FROM t WHERE id = 9", "E780")
	exec(t, k, "DELETE FROM t WHERE id = 9")
	// Texts of several statements, by clients who say it as they log in.
	several := conn(t, openDSN(t, fmt.Sprintf("root@tcp(%s)/test?multiStatements=true&collation=latin1_swedish_ci", s.Addr())))
	exec(t, several, "INSERT INTO t VALUES (3, '\xe91', NULL); INSERT INTO t VALUES (4, '\xe92', NULL); INSERT INTO t VALUES (5, '\xe93', NULL)")
	if got := strings.Join(query(t, utf8, "SELECT a FROM t WHERE id > 2 ORDER BY id"), " "); got != "é1 é2 é3" {
		t.Errorf("several statements: %q", got)
	}
	expect(t, several, "SELECT @@character_set_client, @@character_set_results, @@collation_connection, a FROM t WHERE id = 5",
		"latin1|latin1|latin1_swedish_ci|\xe93")
	exec(t, several, "SET NAMES utf8mb4; UPDATE t SET a = '字' WHERE id = 5")
	expect(t, several, "SELECT a FROM t WHERE id = 5", "字")
	exec(t, k, "SET NAMES gbk")
	refused(t, k, 1300, "SELECT 'a\xff'")
}
