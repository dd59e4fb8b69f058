package tree

import "testing"

// TestReturning has texts parsed, and the ones that MariaDB refuses refused.
func TestReturning(t *testing.T) {
	for text, want := range map[string]int{
		"INSERT INTO t VALUES (1) RETURNING id":                                     1,
		"INSERT INTO t VALUES (1) RETURNING *, a b, (SELECT 1)":                     3,
		"INSERT INTO t (returning) VALUES (1) RETURNING returning, a":               2,
		"INSERT INTO t VALUES (') RETURNING x') RETURNING 'RETURNING', a -- rest":   2,
		"REPLACE INTO t SELECT a FROM u RETURNING u":                                1,
		"INSERT INTO t VALUES (1) AS n ON DUPLICATE KEY UPDATE a = n.a RETURNING a": 1,
		"DELETE FROM t WHERE a = 1 ORDER BY a LIMIT 1 RETURNING a;":                 1,
		"WITH c AS (SELECT 1) DELETE FROM t WHERE a IN (TABLE c) RETURNING a":       1,
		"INSERT INTO t VALUES (1) RETURNING":                                        0,
		"INSERT INTO t VALUES (1) RETURNING DISTINCT a":                             0,
		"INSERT INTO t VALUES (1) RETURNING ALL a":                                  0,
		"INSERT INTO t VALUES (1) RETURNING a, *":                                   0,
		"INSERT INTO t VALUES (1) RETURNING a FROM t":                               0,
		"INSERT INTO t VALUES (1) RETURNING a WHERE a":                              0,
		"INSERT INTO t VALUES (1) RETURNING a INTO @x":                              0,
		"INSERT INTO t VALUES (1) RETURNING a ORDER BY a":                           0,
		"INSERT INTO t VALUES (1) RETURNING a LIMIT 1":                              0,
		"INSERT INTO t VALUES (1) RETURNING a UNION SELECT 1":                       0,
		"INSERT INTO t VALUES (1) RETURNING a; DROP TABLE t":                        0,
		"INSERT INTO t VALUES (1) RETURNING a FOR UPDATE":                           0,
		"UPDATE t SET a = 1 RETURNING a":                                            0,
		"DELETE t FROM t JOIN u RETURNING a":                                        0,
		"SELECT 1 RETURNING a":                                                      0,
	} {
		n, err := Parse(text, Mode{})
		r, ok := n.(*Returning)
		if want == 0 {
			if err == nil {
				t.Errorf("%s: parsed", text)
			}
			continue
		}
		if err != nil || !ok || len(r.List.Fields.Fields) != want {
			t.Errorf("%s: %T %v", text, n, err)
		}
	}
}

// TestReturningParameters has the parameters of the list numbered behind those before it.
func TestReturningParameters(t *testing.T) {
	n, err := Parse("DELETE FROM t WHERE a = ? AND b = ? RETURNING a + ?, ?", Mode{})
	if err != nil {
		t.Fatal(err)
	}
	f := &paramFinder{}
	n.(*Returning).List.Accept(f)
	if len(f.found) != 2 || f.found[0].Order != 2 || f.found[1].Order != 3 {
		t.Errorf("parameters %+v", f.found)
	}
}
