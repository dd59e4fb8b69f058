package sqltest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
)

// pick chooses one of some texts.
func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// shapes are tables for random statements: with a key, with several unique ones, with an
// AUTO_INCREMENT column, with generated columns and a condition, with a key of texts.
var shapes = []string{
	"(a INT PRIMARY KEY, b INT, c VARCHAR(20), KEY (b))",
	"(a INT, b INT, c VARCHAR(20), PRIMARY KEY (a, b), UNIQUE KEY (c), KEY (b, c))",
	"(a INT PRIMARY KEY AUTO_INCREMENT, b INT DEFAULT 3, c VARCHAR(20) NOT NULL DEFAULT 'd', UNIQUE KEY (b))",
	"(a INT PRIMARY KEY, b INT CHECK (b < 35), c VARCHAR(20), d INT AS (a * 10 + b) STORED, KEY (d))",
	"(c VARCHAR(20) PRIMARY KEY, a INT, b INT, KEY (a), KEY (c(2)))",
}

// expression is a random one over the columns.
func expression(r *rand.Rand) string {
	return pick(r, fmt.Sprint(r.IntN(40)), "b + 1", "a + b", "b * 2", "NULL", "a % 7", "LENGTH(c)", "-b")
}

func condition(r *rand.Rand) string {
	n := r.IntN(40)
	c := pick(r, fmt.Sprintf("a = %d", n), fmt.Sprintf("b = %d", n), fmt.Sprintf("a > %d", n), fmt.Sprintf("b < %d", n),
		fmt.Sprintf("c = 'v%d'", n), fmt.Sprintf("a BETWEEN %d AND %d", n, n+8), fmt.Sprintf("c LIKE 'v%d%%'", n%4),
		fmt.Sprintf("a IN (%d, %d, %d)", n, n+1, r.IntN(40)), "b IS NULL", fmt.Sprintf("a + b < %d", 2*n),
		"a = (SELECT MIN(x.a) FROM t x)", fmt.Sprintf("b IN (SELECT x.a FROM t x WHERE x.a < %d)", n))
	if r.IntN(3) == 0 {
		return c + pick(r, " AND ", " OR ") + condition(r)
	}
	return c
}

func insert(r *rand.Rand) string {
	var rows []string
	for range 1 + r.IntN(4) {
		b := fmt.Sprint(r.IntN(40))
		if r.IntN(8) == 0 {
			b = pick(r, "NULL", "DEFAULT")
		}
		rows = append(rows, fmt.Sprintf("(%d, %s, 'v%d')", 1+r.IntN(40), b, r.IntN(60)))
	}
	verb, tail := pick(r, "INSERT", "INSERT", "INSERT IGNORE", "REPLACE"), ""
	if verb == "INSERT" && r.IntN(3) == 0 {
		tail = " ON DUPLICATE KEY UPDATE b = " + expression(r)
	}
	if r.IntN(6) == 0 {
		return fmt.Sprintf("%s INTO t (b, c) SELECT %s, CONCAT(c, 'x') FROM t WHERE %s ORDER BY a, b, c LIMIT 3", verb,
			expression(r), condition(r))
	}
	return verb + " INTO t (a, b, c) VALUES " + strings.Join(rows, ", ") + tail
}

func definition(r *rand.Rand) string {
	return pick(r, "ALTER TABLE t ADD COLUMN e INT DEFAULT 5", "ALTER TABLE t DROP COLUMN e", "ALTER TABLE t MODIFY COLUMN b BIGINT",
		"ALTER TABLE t MODIFY COLUMN c VARCHAR(30)", "ALTER TABLE t MODIFY COLUMN c VARCHAR(4)", "CREATE INDEX more ON t (b, a)",
		"CREATE UNIQUE INDEX more ON t (b)", "DROP INDEX more ON t", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a, c)",
		"ALTER TABLE t ADD COLUMN f INT AS (b + 1) STORED", "ALTER TABLE t DROP COLUMN f", "TRUNCATE TABLE t",
		"ALTER TABLE t RENAME COLUMN e TO g", "ALTER TABLE t DROP COLUMN g", "ALTER TABLE t AUTO_INCREMENT = 90")
}

func statement(r *rand.Rand) string {
	switch n := r.IntN(40); {
	case n < 10:
		return insert(r)
	case n < 15:
		return fmt.Sprintf("UPDATE t SET %s = %s WHERE %s", pick(r, "b", "b", "a"), expression(r), condition(r))
	case n < 17:
		return fmt.Sprintf("UPDATE t SET c = CONCAT('w', a), b = %s WHERE %s ORDER BY a, b, c LIMIT 2", expression(r), condition(r))
	case n < 18:
		return "UPDATE t JOIN other o ON o.id = t.a SET t.b = o.v, o.v = o.v + 1 WHERE " + condition(r)
	case n < 21:
		return "DELETE FROM t WHERE " + condition(r)
	case n < 27:
		return "SELECT * FROM t WHERE " + condition(r) + " ORDER BY a, b, c"
	case n < 29:
		return "SELECT t.a, o.v FROM t JOIN other o ON o.id = t.b ORDER BY 1, 2"
	case n < 31:
		return "SELECT b, COUNT(*), MIN(c), SUM(a) FROM t GROUP BY b ORDER BY b"
	case n < 35:
		return pick(r, "BEGIN", "SAVEPOINT p", "SAVEPOINT q", "ROLLBACK TO p", "ROLLBACK TO q", "COMMIT", "ROLLBACK")
	case n < 37:
		return definition(r)
	}
	return "SELECT a, b, c FROM t ORDER BY a, b, c"
}

// TestTemporaryLikeStored: random statements give on a temporary table what they give on a stored
// one.
func TestTemporaryLikeStored(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 2))
				w := newWorld(t, 4, "eu")
				defer w.close()
				stored := w.clients["a"]
				stored.run("CREATE DATABASE two", flags{})
				temporary := w.connect("two", "root", "", "eu")
				defer temporary.close()
				shape := shapes[r.IntN(len(shapes))]
				f := flags{}
				for _, q := range []string{"CREATE TABLE other (id INT PRIMARY KEY, v INT)",
					"INSERT INTO other VALUES (1, 10), (2, 20), (3, 3), (7, 7), (30, 1)"} {
					stored.run(q, f)
					temporary.run(q, f)
				}
				done := []string{"CREATE TABLE t " + shape}
				if out := stored.run(done[0], f) + temporary.run("CREATE TEMPORARY TABLE t "+shape, f); out != "okok" {
					t.Fatal(out)
				}
				for range 120 {
					q := statement(r)
					done = append(done, q)
					for _, q := range []string{q, "SELECT a, b, c FROM t ORDER BY a, b, c", "SELECT id, v FROM other ORDER BY id",
						"SHOW CREATE TABLE t"} {
						was, is := stored.run(q, f), strings.Replace(temporary.run(q, f), "CREATE TEMPORARY", "CREATE", 1)
						if was != is {
							t.Fatalf("%s;\nthen %s\nstored:    %s\ntemporary: %s", strings.Join(done, ";\n"), q, was, is)
						}
					}
				}
			})
		})
	}
}
