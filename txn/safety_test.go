package txn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// TestWriteSkew: two transactions read both rows and each writes the other one.
func TestWriteSkew(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(2, 2, 2, "b")
		put(t, c.db(1), a, "1")
		put(t, c.db(2), b, "1")
		for round := range 5 {
			var ok atomic.Int32
			var wg sync.WaitGroup
			for i, k := range []base.Key{a, b} {
				wg.Go(func() {
					_, err := do(ctx(t), c.db(i+1), kv.Options{}, func(x kv.Txn) error {
						rows, err := x.Get(ctx(t), []base.Key{a, b}, kv.LockShared)
						if err != nil {
							return err
						}
						if string(rows[0].Value) == "1" && string(rows[1].Value) == "1" {
							x.Put(k, []byte("0"), 0)
						}
						return nil
					})
					if err == nil {
						ok.Add(1)
					} else if !base.Retryable(err) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if get(t, c.db(3), a) == "0" && get(t, c.db(3), b) == "0" {
				t.Fatalf("round %d: both wrote", round)
			}
			put(t, c.db(1), a, "1")
			put(t, c.db(2), b, "1")
		}
	})
}

// TestPhantom: a scan locks the gaps of every owner in its span.
func TestPhantom(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		// Rows of three homes in one table; each new row gets the home of its gateway.
		for i, name := range []string{"b", "f", "k", "p", "t", "w"} {
			put(t, c.db(1+i%3), key(1, 1, 1, name), "x")
		}
		time.Sleep(time.Second)
		p := key(1, 1, 1, "")
		whole := base.Span{Start: p, End: p.PrefixEnd()}
		count := func(x kv.Txn) int {
			n := 0
			req := &kv.ScanRequest{Spans: []base.Span{whole}, Lock: kv.LockShared}
			for req != nil {
				res, err := x.Scan(ctx(t), *req)
				if err != nil {
					return -1
				}
				n += len(res.Rows)
				req = res.Next
			}
			return n
		}
		old := c.db(1).Clock()
		x := c.db(1).Begin(kv.Options{Age: old})
		if n := count(x); n != 6 {
			t.Fatalf("%d rows", n)
		}
		var wg sync.WaitGroup
		var done atomic.Int32
		for i, name := range []string{"a", "c", "g", "m", "r", "u", "z"} {
			wg.Go(func() {
				_, err := kv.Run(ctx(t), c.db(1+i%3), kv.Options{}, func(y kv.Txn) error {
					return y.Insert(key(1, 1, 1, name), []byte("new"), 0)
				})
				if err != nil {
					t.Errorf("insert %s: %v", name, err)
				}
				done.Add(1)
			})
		}
		time.Sleep(3 * time.Second)
		if n := done.Load(); n != 0 {
			t.Errorf("%d inserts passed a locked scan", n)
		}
		if n := count(x); n != 6 {
			t.Errorf("%d rows when read again", n)
		}
		if _, err := x.Commit(ctx(t)); err != nil {
			t.Errorf("commit of the scan: %v", err)
		}
		wg.Wait()
		y := c.db(2).Begin(kv.Options{})
		if n := count(y); n != 13 {
			t.Errorf("%d rows in the end", n)
		}
		y.Rollback(ctx(t))
	})
}

// TestInsertOnce: the same key inserted from all regions at once succeeds exactly once,
// whoever owns the gap, also when the key was deleted before.
func TestInsertOnce(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		for i := range 12 {
			k := key(1, 1+i%3, uint64(1+i%3), fmt.Sprint("k", i/2))
			var won, exists atomic.Int32
			var wg sync.WaitGroup
			for r := 1; r <= 3; r++ {
				wg.Go(func() {
					_, err := kv.Run(ctx(t), c.db(r), kv.Options{},
						func(x kv.Txn) error { return x.Insert(k, []byte(fmt.Sprint(r)), 0) })
					switch base.CodeOf(err) {
					case base.CodeExists:
						exists.Add(1)
					default:
						if err != nil {
							t.Error(err)
						} else {
							won.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 || exists.Load() != 2 {
				t.Fatalf("key %d: %d inserted, %d found it present", i, won.Load(), exists.Load())
			}
			x := c.db(1 + i%3).Begin(kv.Options{})
			rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockShared)
			must(t, err)
			if string(rows[0].Value) != fmt.Sprint(rows[0].Home) {
				t.Errorf("value %s, home %v: the home is not the inserter's", rows[0].Value, rows[0].Home)
			}
			x.Delete(k)
			_, err = x.Commit(ctx(t))
			must(t, err)
		}
	})
}

// prepareOnly logs the Prepare of a transaction in some of its participants, as a coordinator does
// that dies then.
func prepareOnly(t *testing.T, db *DB, participants []base.GroupID, writes map[base.GroupID]base.Key, only ...base.GroupID) {
	t.Helper()
	x := db.Begin(kv.Options{}).(*Txn)
	for _, g := range only {
		must(t, prepareIn(t, db, x, participants, writes, g))
	}
}

// prepareIn asks one participant for its Prepare.
func prepareIn(t *testing.T, db *DB, x *Txn, participants []base.GroupID, writes map[base.GroupID]base.Key,
	g base.GroupID) error {
	t.Helper()
	var ids []uint32
	for _, p := range participants {
		ids = append(ids, uint32(p))
	}
	resp, err := db.router.Commit(ctx(t), &wire.CommitRequest{Group: uint32(g), Txn: &x.meta, Prepare: true, Participants: ids,
		Writes: []*wire.Write{{Kind: wire.WriteKind_PUT, Key: writes[g], Value: []byte("dead"), Home: 1}}})
	if err != nil {
		return err
	}
	return owner.ErrorOf(resp.Status)
}

// TestVoteEndsWithTheLease: who leads after a leader that was lost does not know what was only read
// there. So a vote that rests on read locks holds up to the end of the lease (OWN-9): a transaction
// that votes elsewhere after that, when what it read has been overwritten, does not commit.
func TestVoteEndsWithTheLease(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		g1, g2 := base.DataGroup(1, 1), base.DataGroup(2, 2)
		a, b := key(1, 1, 1, "a"), key(2, 2, 2, "b")
		put(t, c.db(1), a, "old")
		put(t, c.db(2), b, "old")
		x := c.db(3).Begin(kv.Options{}).(*Txn)
		_, err := x.Get(ctx(t), []base.Key{a}, kv.LockShared)
		must(t, err)
		resp, err := c.db(3).router.Commit(ctx(t), &wire.CommitRequest{Group: uint32(g1), Txn: &x.meta, Prepare: true,
			Participants: []uint32{uint32(g1), uint32(g2)}})
		must(t, err)
		must(t, owner.ErrorOf(resp.Status))
		c.net.Isolate(1)
		// as soon as somebody else leads; nobody has asked for the outcome of x yet
		put(t, c.db(2), a, "new")
		must(t, prepareIn(t, c.db(3), x, []base.GroupID{g1, g2}, map[base.GroupID]base.Key{g2: b}, g2))
		if got := get(t, c.db(2), b); got != "old" {
			t.Errorf("what was read at a lost leader has been overwritten, yet %s", got)
		}
		c.net.HealAll()
	}, func(c *cluster) {
		// the next leader would ask for the outcome of x at once
		c.oc = func(o *owner.Config) { o.ResolveAfter, o.ResolveSoon = 4*time.Second, 4*time.Second }
	})
}

// TestRefusedIsForGood: who asks a participant that has not prepared is told that the transaction
// aborts, and so it does: a Prepare that comes later is refused, also by the next leader
// (TXN-5).
func TestRefusedIsForGood(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		g1, g2 := base.DataGroup(1, 1), base.DataGroup(2, 2)
		a, b := key(1, 1, 1, "a"), key(2, 2, 2, "b")
		both, all := []base.GroupID{g1, g2}, map[base.GroupID]base.Key{g1: a, g2: b}
		for _, moved := range []bool{false, true} {
			put(t, c.db(1), a, "old")
			put(t, c.db(2), b, "old")
			x := c.db(3).Begin(kv.Options{}).(*Txn)
			must(t, prepareIn(t, c.db(3), x, both, all, g1))
			if got := get(t, c.db(2), a); got != "old" { // this reader asks region 2
				t.Errorf("one participant never prepared, yet %s", got)
			}
			if moved {
				must(t, c.nodes[1].host.Group(g2).Transfer(3))
				time.Sleep(500 * time.Millisecond)
			}
			if err := prepareIn(t, c.db(3), x, both, all, g2); base.CodeOf(err) != base.CodeAborted {
				t.Errorf("moved %v: a Prepare after the refusal: %v", moved, err)
			}
			if got := get(t, c.db(2), a) + get(t, c.db(1), b); got != "oldold" {
				t.Errorf("moved %v: refused, yet %s", moved, got)
			}
		}
	})
}

// TestDeadCoordinator: whoever meets a prepared transaction finds out its outcome.
func TestDeadCoordinator(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		g1, g2 := base.DataGroup(1, 1), base.DataGroup(2, 2)
		a, b := key(1, 1, 1, "a"), key(2, 2, 2, "b")
		put(t, c.db(1), a, "old")
		put(t, c.db(2), b, "old")
		all := map[base.GroupID]base.Key{g1: a, g2: b}
		prepareOnly(t, c.db(3), []base.GroupID{g1, g2}, all, g1)
		if got := get(t, c.db(2), a); got != "old" {
			t.Errorf("one participant never prepared, yet %s", got)
		}
		prepareOnly(t, c.db(3), []base.GroupID{g1, g2}, all, g1, g2)
		if got := get(t, c.db(2), a) + get(t, c.db(1), b); got != "deaddead" {
			t.Errorf("all prepared, yet %s", got)
		}
		// The same with a change of leader in between: the vote and its write locks survive.
		put(t, c.db(1), a, "old")
		put(t, c.db(2), b, "old")
		prepareOnly(t, c.db(3), []base.GroupID{g1, g2}, all, g1, g2)
		must(t, c.nodes[0].host.Group(g1).Transfer(3))
		time.Sleep(300 * time.Millisecond)
		if got := get(t, c.db(2), a) + get(t, c.db(1), b); got != "deaddead" {
			t.Errorf("all prepared, leader changed, yet %s", got)
		}
		put(t, c.db(1), a, "new")
	})
}

// TestLeaderChange: locks survive a planned change of leader (TIME-6). They do not survive a
// lost leader; the transaction that held them aborts.
func TestLeaderChange(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		a := key(1, 1, 1, "a")
		put(t, c.db(1), a, "1")
		g := base.DataGroup(1, 1)
		for _, planned := range []bool{true, false} {
			x := c.db(1).Begin(kv.Options{})
			_, err := x.Get(ctx(t), []base.Key{a}, kv.LockShared)
			must(t, err)
			x.Put(a, []byte("mine"), 0)
			if planned {
				must(t, c.nodes[0].host.Group(g).Transfer(2))
				time.Sleep(500 * time.Millisecond)
			} else {
				c.net.Cut(1, 2)
				c.net.Cut(1, 3)
				c.net.Cut(2, 1)
				c.net.Cut(3, 1)
				time.Sleep(8 * time.Second)
				c.net.HealAll()
			}
			_, err = x.Commit(ctx(t))
			if planned && err != nil || !planned && base.CodeOf(err) != base.CodeAborted {
				t.Errorf("planned %v: %v", planned, err)
			}
			if got := get(t, c.db(2), a); planned != (got == "mine") {
				t.Errorf("planned %v: %s", planned, got)
			}
			put(t, c.db(3), a, "after")
			if got := get(t, c.db(2), a); got != "after" {
				t.Errorf("planned %v: %s", planned, got)
			}
			c.ready()
		}
	})
}

// TestSchemaPins: a commit is refused if what it pinned in the meta shard changed.
func TestSchemaPins(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		desc, other, a := metaKey("desc"), metaKey("other"), key(1, 2, 1, "a")
		put(t, c.db(1), desc, "v1", other, "v1")
		for _, change := range []bool{false, true} {
			x := c.db(2).Begin(kv.Options{})
			rows, err := x.Get(ctx(t), []base.Key{desc}, kv.LockShared)
			must(t, err)
			if string(rows[0].Value) != "v1" {
				t.Fatalf("read %q", rows[0].Value)
			}
			x.Put(a, []byte("x"), 0)
			if change {
				put(t, c.db(3), desc, "v2")
			} else {
				put(t, c.db(3), other, "v2")
			}
			_, err = x.Commit(ctx(t))
			if change && base.CodeOf(err) != base.CodeSchemaChanged || !change && err != nil {
				t.Errorf("change %v: %v", change, err)
			}
		}
		// A schema change reads and writes the meta shard, from any region, and is seen everywhere
		// at once.
		for r := 1; r <= 3; r++ {
			_, err := kv.Run(ctx(t), c.db(r), kv.Options{}, func(x kv.Txn) error {
				rows, err := x.Get(ctx(t), []base.Key{desc}, kv.LockShared)
				if err != nil {
					return err
				}
				x.Put(desc, append(rows[0].Value, byte('0'+r)), 0)
				return nil
			})
			must(t, err)
			for q := 1; q <= 3; q++ {
				x := c.db(q).Begin(kv.Options{})
				rows, err := x.Get(ctx(t), []base.Key{desc}, kv.LockNone)
				must(t, err)
				if want := "v2123"[:2+r]; string(rows[0].Value) != want {
					t.Errorf("region %d after the change in %d: %q, want %q", q, r, rows[0].Value, want)
				}
				x.Rollback(ctx(t))
			}
		}
		// One that also writes rows.
		_, err := kv.Run(ctx(t), c.db(3), kv.Options{}, func(x kv.Txn) error {
			if _, err := x.Get(ctx(t), []base.Key{desc}, kv.LockShared); err != nil {
				return err
			}
			x.Put(desc, []byte("v3"), 0)
			x.Put(a, []byte("y"), 0)
			return nil
		})
		must(t, err)
		if got := get(t, c.db(1), desc) + get(t, c.db(1), a); got != "v3y" {
			t.Errorf("read %s", got)
		}
	})
}

// TestAbandoned: locks of a gateway that fell silent are released; those of a live one are kept.
func TestAbandoned(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		a := key(1, 1, 1, "a")
		put(t, c.db(1), a, "1")
		x := c.db(2).Begin(kv.Options{})
		_, err := x.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
		must(t, err)
		time.Sleep(30 * time.Second)
		x.Put(a, []byte("2"), 0)
		_, err = x.Commit(ctx(t))
		must(t, err)
		x = c.db(2).Begin(kv.Options{})
		_, err = x.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
		must(t, err)
		c.db(2).live.mu.Lock()
		clear(c.db(2).live.set) // falls silent
		c.db(2).live.mu.Unlock()
		time.Sleep(12 * time.Second)
		put(t, c.db(1), a, "3")
		x.Put(a, []byte("4"), 0)
		if _, err = x.Commit(ctx(t)); base.CodeOf(err) != base.CodeAborted {
			t.Errorf("commit of an abandoned transaction: %v", err)
		}
	})
}

// TestConflicts: WAIT_DIE, NO_WAIT and lock timeouts as the client sees them.
func TestConflicts(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		db, a := c.db(1), key(1, 1, 1, "a")
		put(t, db, a, "1")
		older := db.Clock()
		x := db.Begin(kv.Options{})
		_, err := x.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
		must(t, err)
		lock := func(o kv.Options) error {
			y := db.Begin(o)
			defer y.Rollback(ctx(t))
			_, err := y.Get(ctx(t), []base.Key{a}, kv.LockShared)
			return err
		}
		if err := lock(kv.Options{Policy: kv.WaitDie}); base.CodeOf(err) != base.CodeAborted {
			t.Errorf("younger: %v", err)
		}
		if err := lock(kv.Options{Age: older, Policy: kv.NoWait}); base.CodeOf(err) != base.CodeAborted {
			t.Errorf("NO_WAIT: %v", err)
		}
		start := time.Now()
		if err := lock(kv.Options{Age: older, LockTimeout: 700 * time.Millisecond}); base.CodeOf(err) != base.CodeLockTimeout {
			t.Errorf("timeout: %v", err)
		}
		if d := time.Since(start); d != 700*time.Millisecond {
			t.Errorf("waited %v", d)
		}
		// A snapshot read waits for nobody that has not begun to commit.
		if got := get(t, db, a); got != "1" {
			t.Errorf("snapshot: %s", got)
		}
		cx, cancel := context.WithCancel(ctx(t))
		time.AfterFunc(time.Second, cancel)
		y := db.Begin(kv.Options{Age: older})
		if _, err := y.Get(cx, []base.Key{a}, kv.LockShared); base.CodeOf(err) != base.CodeCanceled {
			t.Errorf("cancelled: %v", err)
		}
		y.Rollback(ctx(t))
		x.Rollback(ctx(t))
		put(t, db, a, "2")
	})
}
