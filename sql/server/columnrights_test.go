package server

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// TestColumnRights: privileges for columns hold whichever engine runs a statement, and whatever is
// tried to get at the others.
func TestColumnRights(t *testing.T) {
	cluster := memkv.New(4, "eu", "us")
	s, root := startServer(t, cluster)
	exec(t, root, "CREATE TABLE C (A INT PRIMARY KEY, b INT, c INT, UNIQUE KEY (b))")
	exec(t, root, "INSERT INTO C VALUES (1, 10, 100), (2, 20, 200)")
	exec(t, root, "CREATE TABLE m (a INT PRIMARY KEY, b INT)")
	exec(t, root, "INSERT INTO m VALUES (1, 10), (2, 99)")
	exec(t, root, "CREATE TABLE mine (a INT PRIMARY KEY, b INT)")
	exec(t, root, "CREATE SQL SECURITY INVOKER VIEW va AS SELECT A FROM C")
	few := as(t, s, root, "few", "SELECT (a), UPDATE (c), INSERT (a, c) ON test.C", "SELECT ON test.m", "SELECT ON test.va",
		"ALL ON test.mine", "CREATE ROUTINE, ALTER ROUTINE, EXECUTE ON test.*")
	// Both engines.
	for _, engine := range []string{toOurs, toEngine} {
		exec(t, few, engine)
		expect(t, few, "SELECT A FROM C ORDER BY A", "1", "2")
		expect(t, few, "SELECT COUNT(*) FROM C", "2")
		expect(t, few, "SELECT x.a, y.b FROM C x JOIN m y ON x.a = y.a ORDER BY 1", "1|10", "2|99")
		expect(t, few, "SELECT a FROM m WHERE a IN (SELECT a FROM C WHERE a > 1)", "2")
		expect(t, few, "WITH x AS (SELECT a FROM C) SELECT SUM(a) FROM x", "3")
		expect(t, few, "SELECT a AS b FROM C ORDER BY b", "1", "2")
		expect(t, few, "SELECT y.a FROM va x JOIN C y ON x.a = y.a ORDER BY 1", "1", "2")
		for _, q := range []string{
			"SELECT b FROM C", "SELECT a FROM C ORDER BY b", "SELECT a FROM C WHERE b = 10", "SELECT COUNT(*) FROM C GROUP BY b",
			"SELECT MAX(b) FROM C", "SELECT a FROM C GROUP BY a HAVING MAX(b) > 10", "SELECT SUM(a) OVER (PARTITION BY b) FROM C",
			"SELECT 1 FROM C x JOIN m y ON x.b = y.b", "SELECT 1 FROM C x JOIN m y USING (b)", "SELECT 1 FROM C x NATURAL JOIN m y",
			"SELECT 1 FROM m y NATURAL LEFT JOIN C x", "SELECT 1 FROM m y LEFT JOIN C x USING (b)",
			"SELECT 1 FROM m y WHERE EXISTS (SELECT 1 FROM C x WHERE x.b = y.b)", "SELECT b IN (SELECT b FROM C) FROM m",
			"SELECT (SELECT b FROM C LIMIT 1)", "SELECT a FROM m UNION SELECT b FROM C", "WITH x AS (SELECT b FROM C) SELECT * FROM x",
			"WITH RECURSIVE x AS (SELECT b FROM C UNION ALL SELECT b + 1000 FROM x WHERE b < 500) SELECT * FROM x",
			"SELECT z.q FROM (SELECT b AS q FROM C) z", "SELECT y.b FROM va x, C y", "SELECT x.b FROM C x, LATERAL (SELECT x.a) y",
			"SELECT y.v FROM C x, LATERAL (SELECT x.b AS v) y", "SELECT CASE WHEN b > 10 THEN 1 END FROM C", "SELECT C.b FROM C",
			"SELECT test.C.b FROM C", "SELECT JSON_ARRAYAGG(b) FROM C", "SELECT COUNT(DISTINCT a, b) FROM C",
			"SELECT a, ROW_NUMBER() OVER w FROM C WINDOW w AS (ORDER BY b)", "EXPLAIN SELECT b FROM C",
			"EXPLAIN UPDATE C SET c = 1 WHERE b = 10", "INSERT INTO mine SELECT a, b FROM C",
			"INSERT INTO mine VALUES (1, (SELECT MAX(b) FROM C))", "REPLACE INTO mine SELECT a, b FROM C",
			"INSERT INTO mine VALUES (1, 1) ON DUPLICATE KEY UPDATE b = (SELECT MAX(b) FROM C)",
			"INSERT INTO mine SELECT a, a FROM m ON DUPLICATE KEY UPDATE b = (SELECT MAX(b) FROM C)",
			"UPDATE mine SET b = (SELECT MAX(b) FROM C)", "UPDATE mine x JOIN C y ON x.a = y.a SET x.b = y.b",
			"UPDATE mine x JOIN C y ON x.a = y.b SET x.b = 1", "DELETE FROM mine WHERE a IN (SELECT b FROM C)",
			"DELETE x FROM mine x JOIN C y ON x.a = y.b", "UPDATE C SET c = b", "UPDATE C SET c = 1 WHERE b = 10", "UPDATE C SET b = 1",
			"UPDATE C SET c = 1 ORDER BY b LIMIT 1", "INSERT INTO C (a, b) VALUES (9, 9)", "UPDATE C SET c = c + 1",
			"SELECT b INTO @x FROM C LIMIT 1", "SET @x = (SELECT MAX(b) FROM C)",
			"SELECT a FROM C ORDER BY (SELECT C.b)", "SELECT a FROM C LIMIT 1 OFFSET 1", "SELECT * FROM C x JOIN m y USING (a)",
		} {
			switch _, err := tryQuery(few, q); {
			case q == "SELECT a FROM C LIMIT 1 OFFSET 1":
				if err != nil {
					t.Error(q, err)
				}
			case err == nil:
				t.Errorf("%s: %s: no error", engine, q)
			case errNumber(t, err) != 1143 && errNumber(t, err) != 1142:
				t.Errorf("%s: %s: %v", engine, q, err)
			}
		}
		exec(t, few, "UPDATE C SET c = a WHERE a = 1")
		exec(t, few, "INSERT INTO mine SELECT a, 1 FROM C")
		exec(t, few, "UPDATE mine x JOIN C y ON x.a = y.a SET x.b = y.a")
		exec(t, few, "DELETE x FROM mine x JOIN C y ON x.a = y.a")
	}
	// Procedures, and prepared statements in text and in the protocol.
	exec(t, few, "CREATE PROCEDURE pa() SELECT SUM(a) FROM C")
	exec(t, few, "CREATE PROCEDURE pb() SELECT SUM(b) FROM C")
	exec(t, few, "CREATE PROCEDURE pc() BEGIN DECLARE n INT; SELECT a INTO n FROM C LIMIT 1; "+
		"IF (SELECT MAX(b) FROM C) > 5 THEN SELECT 1; END IF; END")
	exec(t, few, "CREATE PROCEDURE pd() INSERT INTO C (a, c) VALUES (1, 1) ON DUPLICATE KEY UPDATE b = 7")
	expect(t, few, "CALL pa()", "3")
	for _, q := range []string{"CALL pb()", "CALL pc()", "CALL pd()"} {
		refused(t, few, 1143, q)
	}
	exec(t, few, "PREPARE p FROM 'SELECT a FROM C WHERE a = ?'")
	exec(t, few, "SET @n = 2")
	expect(t, few, "EXECUTE p USING @n", "2")
	refused(t, few, 1143, "PREPARE p2 FROM 'SELECT b FROM C WHERE a = ?'")
	if st, err := few.PrepareContext(t.Context(), "SELECT b FROM C WHERE a = ?"); err == nil {
		if _, err = st.Exec(1); err == nil || errNumber(t, err) != 1143 {
			t.Errorf("a prepared statement: %v", err)
		}
	} else if errNumber(t, err) != 1143 {
		t.Error(err)
	}
	// Who reads the grants from the store finds them again, whatever the case of the names.
	other, _ := startServer(t, cluster)
	again, err := openDSN(t, fmt.Sprintf("few@tcp(%s)/test", other.Addr())).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, again, "SELECT A FROM C ORDER BY A", "1", "2")
	refused(t, again, 1143, "SELECT B FROM C")
	expect(t, again, "SELECT SUM(a) FROM m", "3")
	exec(t, root, "REVOKE SELECT (A) ON test.c FROM few")
	refused(t, few, 1142, "SELECT a FROM C")
}
