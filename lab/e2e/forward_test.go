package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// counter is a client that adds one to a row of another region again and again, by statements that
// its node forwards whole.
type counter struct {
	row                   int
	done, refused, doubts atomic.Int64
	last                  atomic.Value // the newest error's text
}

// run ends when the context does. What is under way then is waited for.
func (k *counter) run(ctx context.Context, t *testing.T, n *node) {
	db := n.open(t, "once")
	defer db.Close()
	for ctx.Err() == nil {
		_, err := db.ExecContext(context.Background(), "UPDATE f SET v = v + 1 WHERE id = ?", k.row)
		var me *mysql.MySQLError
		switch {
		case err == nil:
			k.done.Add(1)
			continue
		case errors.As(err, &me) && (me.Number == 1213 || me.Number == 1205):
			k.refused.Add(1)
		default:
			k.doubts.Add(1)
		}
		k.last.Store(err.Error())
	}
}

// TestForwardedOnce: the node that executes what others forward is killed, stopped, and killed
// again while statements are on their way to it. Their clients are never left in doubt, and what
// they were told is so.
func TestForwardedOnce(t *testing.T) {
	needTime(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	victim := c.nodes[1]
	at := victim.open(t, "")
	defer at.Close()
	exec1(t, at, "CREATE DATABASE once")
	exec1(t, at, "CREATE TABLE once.f (id INT PRIMARY KEY, v INT)")
	ctx, stop := context.WithCancel(context.Background())
	var counters []*counter
	var working sync.WaitGroup
	for row := range 8 {
		exec1(t, at, "INSERT INTO once.f VALUES (?, 0)", row)
		exec1(t, at, "UPDATE once.f__homes SET pinned = TRUE WHERE id = ?", row) // else they go where they are used
	}
	for row := range 8 {
		k := &counter{row: row}
		counters = append(counters, k)
		working.Go(func() { k.run(ctx, t, c.nodes[row%2*2]) })
	}
	advance := func() {
		for _, k := range counters {
			for from := k.done.Load(); k.done.Load() < from+20; {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	advance()
	for range 3 {
		victim.kill()
		advance()
		victim.start(t)
		victim.awaitSQL(t)
		advance()
		if err := victim.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		advance()
		if err := victim.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		advance()
	}
	stop()
	working.Wait()
	db := c.nodes[0].open(t, "once")
	defer db.Close()
	var done, refused, doubts int64
	for _, k := range counters {
		var v int64
		scan1(t, db, &v, fmt.Sprint("SELECT v FROM f WHERE id = ", k.row))
		if least, most := k.done.Load(), k.done.Load()+k.doubts.Load(); v < least || v > most {
			t.Errorf("row %d is %d; %d statements took effect as their clients know, %d more may have", k.row, v, least, most-least)
		}
		if k.doubts.Load() > 0 {
			t.Errorf("row %d: %d statements left their client in doubt: %v", k.row, k.doubts.Load(), k.last.Load())
		}
		var home string
		if scan1(t, db, &home, fmt.Sprint("SELECT home_region FROM f__homes WHERE id = ", k.row)); home != victim.region {
			t.Errorf("row %d is at home in %s, so statements on it were not forwarded", k.row, home)
		}
		done, refused, doubts = done+k.done.Load(), refused+k.refused.Load(), doubts+k.doubts.Load()
	}
	t.Logf("%d statements took effect, %d were refused, %d in doubt", done, refused, doubts)
}
