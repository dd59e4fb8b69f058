package server

import (
	"context"
	"fmt"
	"testing"
)

// TestFlow: statements on more rows than are kept write while they read. What they answer, and what
// stays if they fail in the middle, is as of any other.
func TestFlow(t *testing.T) {
	_, pool := newServer(t)
	c, err := pool.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const rows = 10_000
	exec(t, c, "CREATE TABLE n (i INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
	const columns = "(id INT PRIMARY KEY, k INT, u INT, c VARCHAR(20), KEY (k), UNIQUE KEY (u))"
	exec(t, c, "CREATE TABLE f "+columns)
	exec(t, c, "CREATE TABLE g "+columns)
	affected := func(want int64, q string) {
		t.Helper()
		if got, _ := exec(t, c, q).RowsAffected(); got != want {
			t.Errorf("%s: %d rows are changed, want %d", q, got, want)
		}
	}
	const sums = "SELECT COUNT(*), SUM(id), SUM(k), SUM(u), SUM(LENGTH(c)) FROM f"
	all := fmt.Sprintf("%d|%d|", rows, rows*(rows+1)/2)
	filled := func(k, u, c int) string {
		return all + fmt.Sprintf("%d|%d|%d", rows*(rows+1)/2+k*rows, rows*(rows+1)/2+u*rows, c*rows)
	}
	affected(rows, "INSERT INTO f SELECT @id := a.i + 10*b.i + 100*d.i + 1000*e.i + 10000*x.i + 1, @id, @id, 'abc' "+
		"FROM n x JOIN n e JOIN n d JOIN n b JOIN n a WHERE x.i < 1")
	expect(t, c, sums, filled(0, 0, 3))
	affected(rows, "UPDATE f SET c = CONCAT(c, 'd')")
	expect(t, c, sums, filled(0, 0, 4))
	// each row once, over whatever it is come to
	affected(rows, "UPDATE f SET k = k + 1")
	affected(rows, "UPDATE f FORCE INDEX (k) SET k = k + 1 WHERE k > 0")
	affected(rows, "UPDATE f SET u = -u")
	affected(rows, "UPDATE f SET u = 1 - u")
	expect(t, c, sums, filled(2, 1, 4))
	expect(t, c, "SELECT COUNT(*), SUM(k) FROM f FORCE INDEX (k) WHERE k > 0", fmt.Sprintf("%d|%d", rows, rows*(rows+1)/2+2*rows))
	// errors in the middle
	expectErr(t, c, 1406, "UPDATE f SET c = REPEAT('x', IF(id = 9500, 30, 5))")
	expectErr(t, c, 1062, "UPDATE f SET id = IF(id = 9500, 3, id)")
	expectErr(t, c, 1062, "INSERT INTO g SELECT IF(id = 9500, 9000, id), k, u, c FROM f")
	expectErr(t, c, 1062, "INSERT INTO g SELECT id, k, IF(id = 9500, 9000, u), c FROM f")
	exec(t, c, "INSERT INTO g VALUES (4321, 0, 0, '')")
	expectErr(t, c, 1062, "INSERT INTO g SELECT * FROM f")
	expectErr(t, c, 1406, "INSERT INTO g SELECT id + 20000, k, u, REPEAT(c, IF(id = 9500, 30, 1)) FROM f")
	expect(t, c, "SELECT COUNT(*) FROM g", "1")
	expect(t, c, sums, filled(2, 1, 4))
	// what the engine has to run begins anew
	exec(t, c, "SET sql_mode = ''")
	affected(rows, "UPDATE f SET k = IF(id = 9500, 99999999999, k), u = k + 50000")
	exec(t, c, "SET sql_mode = DEFAULT")
	affected(rows, "UPDATE f SET k = id + 2, u = id + 1")
	expect(t, c, sums, filled(2, 1, 4))
	// its own rows are not read
	affected(rows, "INSERT INTO f SELECT id + 20000, k, u + 20000, c FROM f")
	affected(rows, "DELETE FROM f WHERE id IN (SELECT id + 20000 FROM (SELECT id FROM f) x)")
	expect(t, c, sums, filled(2, 1, 4))
	// the transaction of a client takes back what it likes
	exec(t, c, "BEGIN")
	exec(t, c, "SAVEPOINT s")
	affected(rows, "UPDATE f SET c = ''")
	affected(rows, "UPDATE f SET c = 'y'")
	exec(t, c, "ROLLBACK TO s")
	affected(rows/2, "UPDATE f SET c = 'z' WHERE id % 2 = 0")
	exec(t, c, "ROLLBACK")
	expect(t, c, sums, filled(2, 1, 4))
	affected(rows/2, "DELETE FROM f WHERE id % 2 = 0 ORDER BY k DESC LIMIT 5000")
	affected(rows/2, "DELETE FROM f")
	affected(0, "DELETE FROM f")
}
