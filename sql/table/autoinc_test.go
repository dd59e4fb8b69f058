package table

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// TestPassedDuringLease: a client gives a value itself while the next block is being leased in the
// background. The value after it is the next one, however long the lease takes.
func TestPassedDuringLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := &session.Env{DB: memkv.New(4, "eu")}
		c, table := newCounters(env), &schema.Table{Desc: &schema.TableDesc{AutoKey: 7}}
		id := table.Counter()
		b := c.block(id)
		for _, v := range []uint64{1, 2, 3} {
			if err := c.passed(t.Context(), table, v); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.take(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // a lease that this has begun has ended
		// A lease has taken the next eight values, and the gateway does not know it yet.
		b.mu.Lock()
		end := b.now.end
		if !b.then.empty() {
			end = b.then.end
		}
		b.now, b.then = values{end, end}, values{}
		leased, err := c.lease(t.Context(), id, 8, end)
		if err != nil {
			t.Fatal(err)
		}
		busy := make(chan struct{})
		b.busy = busy
		b.mu.Unlock()

		given := leased.next + 2
		done := make(chan error, 1)
		go func() { done <- c.passed(t.Context(), table, given) }()
		synctest.Wait()
		b.mu.Lock()
		b.then, b.busy = leased, nil
		close(busy)
		b.mu.Unlock()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i := range uint64(2) {
			if got, err := c.take(t.Context(), table); err != nil || got != given+1+i {
				t.Errorf("value %d after %d is %d, %v", i+1, given, got, err)
			}
		}
	})
}

// begun counts the transactions of a database.
type begun struct {
	kv.DB
	n int
}

func (d *begun) Begin(o kv.Options) kv.Txn {
	d.n++
	return d.DB.Begin(o)
}

// TestBlocksGrow: where blocks begin with one value, in a cluster of one region, a load pays few
// leases all the same; a session that inserts now and then goes on with blocks of one value.
func TestBlocksGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &begun{DB: memkv.New(4, "eu")}
		c := newCounters(&session.Env{DB: db})
		take := func(table *schema.Table, n int, pause time.Duration) {
			for i := range uint64(n) {
				if v, err := c.take(t.Context(), table); err != nil || v != i+1 {
					t.Fatalf("value %d is %d, %v", i+1, v, err)
				}
				synctest.Wait() // a lease that this has begun has ended
				time.Sleep(pause)
			}
		}
		load := &schema.Table{Desc: &schema.TableDesc{AutoKey: 7}}
		take(load, 10_000, time.Millisecond)
		if db.n > 20 {
			t.Errorf("10,000 values in 10 s were leased by %d transactions", db.n)
		}
		seldom := &schema.Table{Desc: &schema.TableDesc{AutoKey: 8}}
		take(seldom, 50, 2*slowNext)
		if size := c.block(seldom.Counter()).size; size != 1 {
			t.Errorf("a value every %v: the last block has %d", 2*slowNext, size)
		}
	})
}
