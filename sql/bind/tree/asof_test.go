package tree

import "testing"

func TestPlainAsOf(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"SELECT a FROM t AS OF TIMESTAMP '-5s' WHERE a = 1", "SELECT a FROM t AS OF TIMESTAMP '-5s' WHERE a = 1"},
		{"SELECT a FROM t AS OF SYSTEM TIME '-5s'", "SELECT a FROM t AS OF TIMESTAMP ('-5s')"},
		{"SELECT a FROM t AS OF -5 x JOIN u", "SELECT a FROM t x AS OF TIMESTAMP (-5) JOIN u"},
		{"SELECT a FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '-5s' AS `x y`, u", "SELECT a FROM t `x y` AS OF TIMESTAMP ('-5s'), u"},
		{"SELECT a FROM t AS OF NOW(6) - INTERVAL 5 SECOND s WHERE b", "SELECT a FROM t s AS OF TIMESTAMP (NOW(6) - INTERVAL 5 SECOND) WHERE b"},
		{"SELECT a FROM (SELECT 1 FROM t AS OF LEFT('-5s', 3)) x", "SELECT a FROM (SELECT 1 FROM t AS OF TIMESTAMP (LEFT('-5s', 3))) x"},
		{"SELECT a FROM t AS OF '-1s' a LEFT JOIN t AS OF @x b ON 1",
			"SELECT a FROM t a AS OF TIMESTAMP ('-1s') LEFT JOIN t b AS OF TIMESTAMP (@x) ON 1"},
		{"SELECT a FROM t AS OF DATE '2020-01-01' LIMIT 1", "SELECT a FROM t AS OF TIMESTAMP (DATE '2020-01-01') LIMIT 1"},
		{"SELECT 'AS OF 1 x', a AS of FROM t", "SELECT 'AS OF 1 x', a AS of FROM t"},
		{"SELECT a FROM t AS OF", "SELECT a FROM t AS OF"},
		{"SELECT a FROM t AS OF (1", "SELECT a FROM t AS OF (1"},
		{"SELECT a FROM t AS OF SYSTEM", "SELECT a FROM t AS OF TIMESTAMP (SYSTEM)"},
	} {
		if got := plainAsOf(c.in, Mode{}); got != c.want {
			t.Errorf("%s\nbecomes %s\nwant    %s", c.in, got, c.want)
		}
	}
}

func FuzzAsOf(f *testing.F) {
	f.Add("SELECT a FROM t AS OF NOW() - INTERVAL 1 SECOND x")
	f.Add("SELECT a FROM t FOR SYSTEM_TIME AS OF (1")
	f.Fuzz(func(_ *testing.T, text string) { plainAsOf(text, Mode{}) })
}
