package sqldiff

import (
	"fmt"
	"testing"
)

// TestRoam: statements go through all nodes, those of a transaction, and those after a change of
// the session, through one.
func TestRoam(t *testing.T) {
	t.Parallel()
	s := &Side{gates: make([]gate, 3)}
	nodes := func() int {
		seen := map[int]bool{}
		for i := range 100 {
			seen[s.choose(fmt.Sprint("SELECT ", i))] = true
		}
		return len(seen)
	}
	for i, c := range []struct {
		q    string
		want int
	}{{"SELECT 1", 4}, {"START TRANSACTION", 1}, {"ROLLBACK TO SAVEPOINT a", 1}, {"INSERT INTO t VALUES (1)", 1}, {"COMMIT", 4},
		{"begin", 1}, {"ROLLBACK", 4}, {"CREATE TABLE t (a INT)", 4}, {"CREATE TEMPORARY TABLE u (a INT)", 1}, {"COMMIT", 1}} {
		if s.ran(c.q); nodes() != c.want {
			t.Errorf("%d: after %s statements go through %d nodes, want %d", i, c.q, nodes(), c.want)
		}
	}
	if s.stay(); nodes() != 4 {
		t.Error("a new database does not begin anew")
	}
	if s = (&Side{}); s.choose("SELECT 1") != 0 || len(s.gates) != 0 {
		t.Error("a side of one node leaves it")
	}
}
