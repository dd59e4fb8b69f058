package server

import (
	"context"
	"fmt"
	"testing"
)

// TestFlowGuards: statements that read the table that they write, or write a key twice, do not
// write while they read (package flow): they would meet their own rows, or fail. The second one is
// kept from it twice, by the tables that it uses and by the scans of its plan.
func TestFlowGuards(t *testing.T) {
	_, pool := newServer(t)
	c, err := pool.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const rows = 10_000 // some behind the first ones that are written
	exec(t, c, "CREATE TABLE n (i INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
	exec(t, c, "CREATE TABLE f (id INT PRIMARY KEY, k INT, u INT, c VARCHAR(20), KEY (k), UNIQUE KEY (u))")
	exec(t, c, "CREATE TABLE g (id INT PRIMARY KEY, k INT)")
	exec(t, c, "INSERT INTO f SELECT @id := a.i + 10*b.i + 100*d.i + 1000*e.i + 1, @id, @id, 'abc' "+
		"FROM n e JOIN n d JOIN n b JOIN n a")

	// An INSERT whose query asks for its own table again and again.
	exec(t, c, "INSERT INTO g VALUES (100000, 0)")
	exec(t, c, "INSERT INTO g SELECT -f.id, (SELECT z.id FROM g z WHERE z.id >= -f.id ORDER BY z.id LIMIT 1) FROM f")
	expect(t, c, "SELECT COUNT(*), MIN(k), MAX(k) FROM g WHERE id < 0", fmt.Sprintf("%d|100000|100000", rows))

	// An UPDATE that does so. It comes to its rows by another index, so they are not kept apart.
	exec(t, c, "UPDATE f SET k = -id")
	exec(t, c, "UPDATE f FORCE INDEX (k) SET c = IF(id > 50, 'wxyz', "+
		"(SELECT x.c FROM (SELECT id, c FROM f) x WHERE x.id = f.id + 9900 LIMIT 1)) WHERE k < 0")
	expect(t, c, "SELECT COUNT(*) FROM f WHERE c = 'abc'", "50")

	// An UPDATE of keys writes the key of the row before.
	exec(t, c, "UPDATE f SET id = id - 1")
	expect(t, c, "SELECT COUNT(*), MIN(id), MAX(id) FROM f", fmt.Sprintf("%d|0|%d", rows, rows-1))
}
