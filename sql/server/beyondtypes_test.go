package server

import (
	"strings"
	"testing"
)

// TestBoundsBeyondTypes: a range of an index whose bound is beyond the type of the column has the
// rows that a scan finds.
func TestBoundsBeyondTypes(t *testing.T) {
	_, pool := newServer(t)
	c := conn(t, pool)
	for _, x := range []struct{ column, values, beyond string }{
		{"DECIMAL(5,0)", "1, 2, 99999, NULL, -99999", "99999.4, 99999.5, 100000, 2363233923, -99999.5, -100000, -2363233923, CRC32('x'), 1e20"},
		{"DECIMAL(5,2)", "1, 2.5, 999.99, NULL, -999.99", "999.994, 999.995, 1000, 2363233923, -999.995, -1000, -2363233923"},
		{"TINYINT", "1, 127, NULL, -128", "127.5, 128, 1000, -128.5, -129, -1000, 1e30"},
		{"TINYINT UNSIGNED", "1, 255, NULL, 0", "255.5, 256, -1, -0.5"},
		{"BIGINT", "1, 9223372036854775807, NULL, -9223372036854775808", "9223372036854775808, 1e20, -9223372036854775809, -1e20"},
		{"BIGINT UNSIGNED", "1, 18446744073709551615, NULL, 0", "18446744073709551616, -1, 1e30"},
		{"YEAR", "1901, 2155, NULL, 2000", "2156, 3000, 1900, 1, 70, -5"},
		{"FLOAT", "1, 3.4e38, NULL, -3.4e38, 1.1", "1e39, -1e39, 1.1, 1.1e0, 1.10000002384, 16777217"},
		{"DOUBLE", "1, 1e308, NULL, -1e308", "1e308"},
		{"TIMESTAMP", "'2000-01-01', '2038-01-01', NULL, '1970-02-01'", "'2050-01-01', '9999-12-31', '1960-01-01', TIMESTAMP'2050-01-01', TIMESTAMP'1900-01-01'"},
		{"DATE", "'2000-01-01', '9999-12-31', NULL, '1000-01-01'", "'2000-01-01 10:00:00', '9999-12-31 10:00', '0001-01-01', TIMESTAMP'9999-12-31 23:59:59.999999'"},
		{"DATETIME", "'2000-01-01', '9999-12-31 23:59:59', NULL, '1000-01-01'", "'9999-12-31 23:59:59.7', '2000-01-01 00:00:00.4', '0001-01-01'"},
		{"TIME", "'10:00', '838:59:59', NULL, '-838:59:59'", "'838:59:59.5', '900:00:00', '-900:00:00'"},
		{"BIT(4)", "1, 15, NULL, 0", "16, 300, -1"},
		{"ENUM('a','b')", "'a', 'b', NULL", "3, 0, -1, 'c', '', 2.5"},
		{"SET('a','b')", "'a', 'a,b', NULL, ''", "4, -1, 'c', 3.5"},
		{"VARCHAR(2)", "'a', 'zz', NULL, ''", "'zzz', 'aa '"},
		{"CHAR(2)", "'a', 'zz', NULL, ''", "'zzz', 'aa '"},
		{"VARBINARY(2)", "'a', 'zz', NULL, ''", "'zzz', 'a\\0'"},
	} {
		exec(t, c, "DROP TABLE IF EXISTS b")
		exec(t, c, "CREATE TABLE b (id INT PRIMARY KEY AUTO_INCREMENT, c "+x.column+", n INT, KEY k (c))")
		exec(t, c, "INSERT INTO b (c) VALUES ("+strings.ReplaceAll(x.values, ", ", "), (")+")")
		exec(t, c, "DROP TABLE IF EXISTS p")
		exec(t, c, "CREATE TABLE p (c "+x.column+" PRIMARY KEY, n INT)")
		exec(t, c, "INSERT INTO p SELECT c, 0 FROM b WHERE c IS NOT NULL")
		for _, v := range strings.Split(x.beyond, ", ") {
			for _, w := range []string{"c < V", "c <= V", "c > V", "c >= V", "c = V", "c <=> V", "c BETWEEN V AND V", "c IN (V, V)", "NOT c < V"} {
				w = strings.ReplaceAll(w, "V", v)
				want := strings.Join(query(t, c, "SELECT id FROM b IGNORE INDEX (k) WHERE "+w+" ORDER BY id"), " ")
				for _, q := range []string{"SELECT id FROM b FORCE INDEX (k) WHERE " + w + " ORDER BY id", "SELECT id FROM b WHERE " + w + " ORDER BY id FOR UPDATE"} {
					if got := strings.Join(query(t, c, q), " "); got != want {
						t.Errorf("%s: %s: rows %s, a scan finds %s", x.column, q, got, want)
					}
				}
				count := query(t, c, "SELECT COUNT(*) FROM b IGNORE INDEX (k) WHERE "+w)[0]
				for _, q := range []string{"SELECT COUNT(*) FROM p WHERE " + w, "SELECT COUNT(*) FROM (SELECT c FROM p WHERE " + w + " FOR UPDATE) q"} {
					if got := query(t, c, q)[0]; got != count {
						t.Errorf("%s: %s: %s rows, a scan finds %s", x.column, q, got, count)
					}
				}
				exec(t, c, "UPDATE b SET n = 0")
				if _, err := c.ExecContext(t.Context(), "UPDATE b SET n = 1 WHERE "+w); err != nil {
					continue // strict mode refuses some of the constants
				}
				if got := strings.Join(query(t, c, "SELECT id FROM b WHERE n = 1 ORDER BY id"), " "); got != want {
					t.Errorf("%s: UPDATE ... WHERE %s: rows %s, a scan finds %s", x.column, w, got, want)
				}
			}
		}
	}
}
