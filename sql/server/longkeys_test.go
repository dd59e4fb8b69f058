package server

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv/memkv"
)

// longKeys are statements over rows with long texts: two are equal but for the case, one is equal
// to them but for its last letter, and one is short.
var longKeys = []string{
	"SELECT p.k, q.k FROM p JOIN p q ON p.a = q.a", "SELECT p.k, q.k FROM p JOIN p q USING (a)",
	"SELECT p.k, q.k FROM p JOIN p q ON p.a < q.a", "SELECT p.k, q.k FROM p LEFT JOIN p q ON p.a = q.a AND p.k <> q.k",
	"SELECT p.k, q.k FROM p LEFT JOIN p q ON p.a = q.a AND p.n = q.n + 1",
	"SELECT k FROM p WHERE EXISTS (SELECT 1 FROM p q WHERE q.a = p.a AND q.k > p.k)",
	"SELECT COUNT(*) FROM p GROUP BY a", "SELECT n, COUNT(*) FROM p GROUP BY a, n", "SELECT COUNT(DISTINCT LEFT(a, 9), k) FROM p",
	"SELECT k FROM p ORDER BY a, k", "SELECT k, COUNT(*) OVER (PARTITION BY a) FROM p",
	"SELECT GROUP_CONCAT(k ORDER BY a DESC, k) FROM p WHERE LENGTH(a) < 10 OR k = 3", "SELECT k FROM p WHERE a = (SELECT a FROM p q WHERE k = 2)",
	"SELECT k FROM p WHERE k + 1 IN (CONCAT(k, '.', REPEAT('0', 4200000)), 3)",
	"SELECT k FROM p WHERE DATE_ADD('2020-01-01', INTERVAL k DAY) IN (CONCAT('2020-01-03', REPEAT(' ', 4200000)), '2020-01-04')",
}

// refusedKeys are those that go-mysql-server would be too long at.
var refusedKeys = []string{"SELECT k FROM p WHERE a IN (SELECT a FROM p q WHERE q.k >= p.k)", "SELECT k, a IN (SELECT a FROM p q WHERE q.k > 1) FROM p",
	"SELECT LENGTH(MIN(a)) FROM p", "SELECT n, LENGTH(MAX(a)) FROM p GROUP BY n", "SELECT LENGTH(MAX(a) OVER (PARTITION BY n)) FROM p",
	"SELECT k FROM p WHERE a IN ('x', CONCAT(p.a, 'y'))"}

// TestLongKeys: where go-mysql-server joins, groups and sorts by long texts it answers what our own
// engine does, or refuses.
func TestLongKeys(t *testing.T) {
	_, c := startServer(t, memkv.New(4, "eu", "us"))
	own, old := conn(t, c), conn(t, c)
	exec(t, old, toEngine)
	text := func(s string) string { return "REPEAT('" + s + "', 2200000)" }
	p := "WITH p AS (SELECT 1 AS k, 1 AS n, " + text("aé") + " AS a UNION ALL SELECT 2, 2, " + text("AÉ") + " UNION ALL SELECT 3, 2, CONCAT(" +
		text("aé") + ", 'z') UNION ALL SELECT 4, 3, 'aé') "
	for _, q := range longKeys {
		want, got := query(t, own, p+q), query(t, old, p+q)
		if !strings.Contains(q, "ORDER BY a, k") {
			slices.Sort(want)
			slices.Sort(got)
		}
		if !slices.Equal(want, got) || len(want) == 0 {
			t.Errorf("%s: %q, our own engine: %q", q, got, want)
		}
	}
	for _, q := range refusedKeys {
		if _, err := tryQuery(own, p+q); err != nil {
			t.Errorf("%s: %v", q, err)
		}
		_, err := tryQuery(old, p+q)
		var e *mysql.MySQLError
		if !errors.As(err, &e) || e.Number != 1235 {
			t.Errorf("%s: %v, want 1235", q, err)
		}
	}
}
