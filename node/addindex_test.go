package node

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestAddIndexBesideWriters: while an index is built in one region, rows are changed, deleted and
// inserted in all. What is read by the index then is what is read by the primary key.
func TestAddIndexBesideWriters(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { bubble(t, func(t *testing.T) { addIndexBesideWriters(t, seed) }) })
	}
}

func addIndexBesideWriters(t *testing.T, seed uint64) {
	t.Helper()
	l := startLocal(t, 3, 1)
	var cs []*sql.Conn
	for i, n := range l.Nodes() {
		cs = append(cs, openSQL(t, n, ""))
		if i == 0 {
			mustExec(t, cs[0], "CREATE DATABASE d")
			mustExec(t, cs[0], "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, n INT)")
		}
		mustExec(t, cs[i], "USE d")
		var rows []string
		for id := range 150 {
			rows = append(rows, fmt.Sprintf("(%d, %d, 0)", 3*id+i, id%40))
		}
		mustExec(t, cs[i], "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	}
	for round := range 3 {
		var over atomic.Bool
		var done atomic.Int64
		var writers sync.WaitGroup
		for i := range cs {
			c, rnd := openSQL(t, l.Nodes()[i], "d"), rand.New(rand.NewPCG(seed, uint64(10*round+i)))
			writers.Go(func() {
				for !over.Load() {
					id, v := rnd.IntN(500), rnd.IntN(40)
					q := []string{
						fmt.Sprintf("UPDATE t SET v = %d WHERE id = %d", v, id),
						fmt.Sprintf("UPDATE t SET v = v + 1 WHERE v = %d", v),
						fmt.Sprintf("DELETE FROM t WHERE id = %d", id),
						fmt.Sprintf("REPLACE INTO t VALUES (%d, %d, 1)", id, v),
					}[rnd.IntN(4)]
					_, err := c.ExecContext(t.Context(), q)
					var me *mysql.MySQLError
					if err != nil && !(errors.As(err, &me) && (me.Number == 1213 || me.Number == 1205)) {
						t.Errorf("%s: %v", q, err)
						return
					}
					done.Add(1)
				}
			})
		}
		before := done.Load()
		mustExec(t, cs[round], "ALTER TABLE t ADD INDEX v (v)")
		during := done.Load() - before
		over.Store(true)
		writers.Wait()
		by := func(index string) string {
			return strings.Join(column(t, cs[0], "SELECT v, id FROM t FORCE INDEX ("+index+") WHERE id >= 0 AND v >= 0 ORDER BY v, id"), "; ")
		}
		if a, b := by("v"), by("PRIMARY"); a != b || during == 0 {
			t.Fatalf("round %d: after %d statements the index has\n%s\nand the table\n%s", round, during, a, b)
		}
		mustExec(t, cs[round], "ALTER TABLE t DROP INDEX v")
	}
}
