package node

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEntriesFollowRows: rows that are written from all regions, deleted, and written again in the
// same transaction, have their index entries where their homes say. What is read by the index is
// what is read by the primary key, at each gateway, while rows move.
func TestEntriesFollowRows(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { bubble(t, func(t *testing.T) { entriesFollowRows(t, seed) }) })
	}
}

func entriesFollowRows(t *testing.T, seed uint64) {
	t.Helper()
	l := startLocal(t, 5, 1)
	var cs []*sql.Conn
	for i, n := range l.Nodes() {
		cs = append(cs, openSQL(t, n, ""))
		if i == 0 {
			mustExec(t, cs[0], "CREATE DATABASE d")
		}
		mustExec(t, cs[i], "USE d")
	}
	rnd := rand.New(rand.NewPCG(seed, 9))
	mustExec(t, cs[0], "CREATE TABLE t (id INT PRIMARY KEY, c INT, n INT, KEY c (c, n))")
	for step := range 150 {
		id, c, n := rnd.IntN(12), rnd.IntN(3), rnd.IntN(20)
		row := fmt.Sprintf("(%d, %d, %d)", id, c, n)
		again := fmt.Sprintf("DELETE FROM t WHERE id = %d", id)
		write := [][]string{
			{"INSERT IGNORE INTO t VALUES " + row},
			{"REPLACE INTO t VALUES " + row},
			{"INSERT INTO t VALUES " + row + " ON DUPLICATE KEY UPDATE n = n + 1"},
			{fmt.Sprintf("UPDATE t SET n = n + 1 WHERE c = %d", c)},
			{fmt.Sprintf("DELETE FROM t WHERE c = %d ORDER BY id LIMIT 2", c)},
			{"BEGIN", again, "INSERT INTO t VALUES " + row, "COMMIT"},
			{"BEGIN", again, fmt.Sprintf("UPDATE t SET id = %d WHERE id = %d", id, rnd.IntN(12)), "COMMIT"},
			{"BEGIN", "UPDATE t SET id = id + 1 ORDER BY id DESC", "DELETE FROM t WHERE id >= 12", "COMMIT"},
		}[rnd.IntN(8)]
		at := rnd.IntN(len(cs))
		for _, q := range write {
			mustExec(t, cs[at], q)
		}
		from := cs[rnd.IntN(len(cs))]
		by := func(index string) string {
			return strings.Join(column(t, from, "SELECT c, n, id FROM t FORCE INDEX ("+index+") WHERE id >= 0 AND c >= 0 ORDER BY c, n, id"), "; ")
		}
		if a, b := by("c"), by("PRIMARY"); a != b {
			t.Fatalf("step %d, after %q in region %d the index has\n%s\nand the table\n%s", step, write, at, a, b)
		}
	}
}
