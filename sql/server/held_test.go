package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// TestInsertsKeepLittle: INSERT ... SELECT of more rows than a statement may keep, as a transaction
// of its own and within one, into tables with a primary key and without. What it says of a
// duplicate that the commit finds is as if all rows were kept.
func TestInsertsKeepLittle(t *testing.T) {
	s, pool := startServer(t, memkv.New(4, "eu", "us"), func(cfg *Config) { cfg.Memory = 12 << 20 })
	c := conn(t, pool)
	const rows = 15_000 // take more than 3 MiB
	exec(t, c, "CREATE TABLE n (i INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
	const columns = "(id INT PRIMARY KEY, k INT, c VARCHAR(60), UNIQUE KEY (c))"
	exec(t, c, "CREATE TABLE f (id INT PRIMARY KEY, k INT, c VARCHAR(60))")
	exec(t, c, "CREATE TABLE g "+columns)
	exec(t, c, "CREATE UNIQUE INDEX twice ON g ((k * 2))")
	exec(t, c, "CREATE TABLE h (id INT, k INT, c VARCHAR(60))")
	exec(t, c, "INSERT INTO f SELECT x.i * 10000 + a.i + 10*b.i + 100*d.i + 1000*e.i, -(x.i * 10000 + a.i + 10*b.i + 100*d.i + 1000*e.i), "+
		"CONCAT('Row number ', x.i * 10000 + a.i + 10*b.i + 100*d.i + 1000*e.i, ' of many') "+
		"FROM n x JOIN n e JOIN n d JOIN n b JOIN n a "+
		fmt.Sprintf("WHERE x.i * 10 + e.i < %d", rows/1000))
	count := func(table string, want int) {
		t.Helper()
		expect(t, c, "SELECT COUNT(*), COUNT(DISTINCT id) FROM "+table, fmt.Sprintf("%d|%d", want, want))
	}
	count("f", rows)
	for _, table := range []string{"g", "h"} {
		exec(t, c, "BEGIN")
		exec(t, c, "INSERT INTO "+table+" VALUES (-1, 7, 'first')")
		exec(t, c, "INSERT INTO "+table+" SELECT * FROM f")
		count(table, rows+1)
		exec(t, c, "ROLLBACK")
		count(table, 0)
		// an error in the middle takes back the statement alone
		exec(t, c, "BEGIN")
		exec(t, c, "INSERT INTO "+table+" VALUES (-1, 7, 'first')")
		expectErr(t, c, 1406, "INSERT INTO "+table+" SELECT id, k, REPEAT(c, IF(id = 14000, 30, 1)) FROM f")
		exec(t, c, "COMMIT")
		count(table, 1)
		exec(t, c, "INSERT INTO "+table+" SELECT * FROM f")
		count(table, rows+1)
		exec(t, c, "TRUNCATE "+table)
	}
	for _, x := range []struct{ there, want string }{
		{"(1800, 1, 'x')", "Duplicate entry '1800' for key 'g.PRIMARY'"},
		{"(-1, 1, 'row number 17 OF many')", "Duplicate entry 'Row number 17 of many' for key 'g.c'"},
		{"(-1, -1801, 'x')", "Duplicate entry '-3602' for key 'g.twice'"},
	} {
		exec(t, c, "INSERT INTO g VALUES "+x.there)
		_, err := c.ExecContext(context.Background(), "INSERT INTO g SELECT * FROM f WHERE id < 2000")
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s is there: %v, want %q", x.there, err, x.want)
		}
		exec(t, c, "TRUNCATE g")
	}
	if n := s.g.query.Memory().Used(); n != 0 {
		t.Errorf("%d bytes were not given back", n)
	}
}
