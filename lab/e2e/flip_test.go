package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// numbers are what differs between the names of files of one kind.
var numbers = regexp.MustCompile(`[0-9]+`)

// TestFlippedBitOfEveryFile: a bit of each kind of file of a node's directory flips while the node
// is down. When it is started, it either ends with status 1 and a message that names what is
// damaged, or it serves, and then what it answers is right.
func TestFlippedBitOfEveryFile(t *testing.T) {
	needTime(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	exec1(t, c.nodes[0].open(t, ""), "CREATE DATABASE d")
	db := c.nodes[0].open(t, "d")
	exec1(t, db, "CREATE TABLE t (id INT PRIMARY KEY, filler VARCHAR(2000))")
	const batches, rows = 10, 50
	fill := func(from int) {
		for i := from; i < from+batches; i++ {
			var values []string
			for j := range rows {
				values = append(values, fmt.Sprintf("(%d, REPEAT('%c', 1000))", i*rows+j, 'a'+i))
			}
			exec1(t, db, "INSERT INTO t VALUES "+strings.Join(values, ", "))
		}
	}
	victim := c.nodes[2]
	fill(0)
	caughtUp(t, c, 3)
	victim.kill()
	victim.start(t) // what was in the log is in tables now
	victim.awaitSQL(t)
	fill(batches)
	caughtUp(t, c, 3)
	victim.kill()

	kinds := map[string]string{} // a file of each kind: the largest
	for _, path := range filesOf(t, victim.dir, func(string) bool { return true }) {
		name, _ := filepath.Rel(victim.dir, path) // it lies below
		if kind := numbers.ReplaceAllString(name, "N"); kinds[kind] == "" {
			kinds[kind] = name
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		name := kinds[kind]
		t.Run(strings.ReplaceAll(kind, "/", "_"), func(t *testing.T) {
			n := *victim
			n.dir, n.args = copyDir(t, victim.dir), []string{"--accept-old-store"} // a copy before it may have run
			empty := false
			change(t, filepath.Join(n.dir, name), func(b []byte) []byte {
				if empty = len(b) == 0; !empty {
					b[len(b)/2] ^= 0x10
				}
				return b
			})
			if empty {
				t.Skip("the file is empty")
			}
			n.start(t)
			t.Cleanup(n.kill)
			end := time.After(patience)
			for !strings.Contains(n.out.String(), "serves SQL") {
				select {
				case <-n.gone:
					said := n.errs.String()
					t.Logf("it ends: %s", strings.TrimSpace(said[max(0, len(said)-500):]))
					if code := n.cmd.ProcessState.ExitCode(); code != 1 || strings.Contains(said, "goroutine ") {
						t.Errorf("status %d, want 1 and no stack trace:\n%s", code, n.log())
					}
					return
				case <-end:
					t.Fatalf("it neither serves nor ends:\n%s", n.log())
				case <-time.After(20 * time.Millisecond):
				}
			}
			var count, sum int
			scan1(t, n.open(t, "d"), &count, "SELECT COUNT(*) FROM t")
			scan1(t, n.open(t, "d"), &sum, "SELECT SUM(ASCII(filler)) FROM t WHERE filler = REPEAT(LEFT(filler, 1), 1000)")
			want := 0
			for i := range 2 * batches {
				want += rows * ('a' + i)
			}
			if count != 2*batches*rows || sum != want {
				t.Errorf("it serves %d rows with the sum %d, want %d with %d", count, sum, 2*batches*rows, want)
			}
			t.Logf("it serves all rows")
			n.kill()
		})
	}
}
