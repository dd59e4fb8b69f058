package txn

import (
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/txn/hints"
	"github.com/godwitdb/godwit/wire"
)

// setTo is an update of a row that sets it, as SQL makes it: of a draft, if there is one.
func setTo(t *testing.T, x kv.Txn, k base.Key, value string) error {
	row, ok, err := x.Draft(ctx(t), k)
	if err == nil && !ok {
		var rows []kv.Row
		if rows, err = x.Get(ctx(t), []base.Key{k}, kv.LockExclusive); err == nil {
			row = rows[0]
		}
	}
	if err != nil || string(row.Value) == value {
		return err // nothing would change: no row is updated
	}
	x.Update(k, []byte(value), patch.Set([]byte(value)))
	return nil
}

// TestCarefulAlone: a transaction across regions that nobody works beside is not lost, if it is
// careful: another region has just set the row to the same value, and the copy here does not show
// that yet. One that is not careful makes its update of that copy, and loses (REL-16).
func TestCarefulAlone(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(1, 2, 2, "b")
		for _, careful := range []bool{false, true} {
			put(t, c.db(1), a, "0")
			put(t, c.db(2), b, "old")
			time.Sleep(2 * time.Second)
			put(t, c.db(2), b, "new")
			_, err := do(ctx(t), c.db(1), kv.Options{Relay: true, Careful: careful}, func(x kv.Txn) error {
				x.Put(a, []byte("1"), 0)
				return setTo(t, x, b, "new")
			})
			if lost := base.CodeOf(err) == base.CodeAborted; lost == careful || err != nil && !lost {
				t.Errorf("careful %v: %v", careful, err)
			}
		}
	})
}

// TestSlotAfterMove: a row has just moved, and its transaction asks the former owner. It proposes
// another slot to the new one, and its client hears nothing of it (REL-2).
func TestSlotAfterMove(t *testing.T) {
	for _, several := range []bool{true, false} {
		bubble(t, 3, 1, func(t *testing.T, c *cluster) {
			a, b, d := key(1, 1, 1, "a"), key(1, 2, 2, "b"), key(1, 2, 2, "d")
			put(t, c.db(1), a, "0")
			put(t, c.db(2), b, "0", d, "0")
			time.Sleep(2 * time.Second)
			_, err := do(ctx(t), c.db(1), kv.Options{Relay: true, Careful: true}, func(x kv.Txn) error {
				if _, err := x.Get(ctx(t), []base.Key{d}, kv.LockExclusive); err != nil {
					return err
				}
				_, err := kv.Run(ctx(t), c.db(3), kv.Options{}, func(m kv.Txn) error {
					m.Move(b, 3, kv.MoveOptions{})
					return nil
				})
				must(t, err)
				c.db(1).hints.Set(b, hints.Hint{Group: base.DataGroup(1, 2)}) // what region 1 knows is older
				x.Put(b, []byte("1"), 0)
				if several {
					x.Put(a, []byte("1"), 0)
				}
				return nil
			})
			if err != nil {
				t.Errorf("several groups %v: %v", several, err)
			}
			if v := get(t, c.db(3), b); v != "1" {
				t.Errorf("several groups %v: the row is %q", several, v)
			}
		})
	}
}

// TestSlotWhileMoving: the rows of a transaction, and entries of their indexes, move one after the
// other while it commits, so that each try finds another one gone. It goes on until they have moved
// (REL-2).
func TestSlotWhileMoving(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		a := key(1, 1, 1, "a")
		put(t, c.db(1), a, "0")
		var rows []base.Key
		for i := range 4 {
			rows = append(rows, key(1, 2, 2, fmt.Sprint("b", i)))
			put(t, c.db(2), rows[i], "0")
		}
		time.Sleep(2 * time.Second)
		_, err := do(ctx(t), c.db(1), kv.Options{Relay: true, Careful: true}, func(x kv.Txn) error {
			if _, err := x.Get(ctx(t), rows, kv.LockExclusive); err != nil {
				return err
			}
			x.Put(a, []byte("1"), 0)
			for _, k := range rows {
				x.Put(k, []byte("1"), 0)
			}
			go func() {
				for _, k := range rows {
					_, err := kv.Run(ctx(t), c.db(2), kv.Options{}, func(m kv.Txn) error {
						m.Move(k, 3, kv.MoveOptions{})
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			}()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for _, k := range rows {
			if v := get(t, c.db(3), k); v != "1" {
				t.Errorf("the row is %q", v)
			}
		}
	})
}

// TestMovedMeanwhile: a row moves after a transaction has read it, and before its vote. That is no
// change for it, unless it writes entries that lie where the row was (REL-3a).
func TestMovedMeanwhile(t *testing.T) {
	for _, entries := range []bool{false, true} {
		bubble(t, 3, 1, func(t *testing.T, c *cluster) {
			a, b := key(1, 1, 1, "a"), key(1, 2, 2, "b")
			put(t, c.db(1), a, "0")
			put(t, c.db(2), b, "0")
			time.Sleep(2 * time.Second)
			_, err := do(ctx(t), c.db(1), kv.Options{Relay: true, Careful: true}, func(x kv.Txn) error {
				if _, err := x.Get(ctx(t), []base.Key{b}, kv.LockExclusive); err != nil {
					return err
				}
				_, err := kv.Run(ctx(t), c.db(3), kv.Options{}, func(m kv.Txn) error {
					m.Move(b, 3, kv.MoveOptions{})
					return nil
				})
				must(t, err)
				x.Put(a, []byte("1"), 0)
				x.Put(b, []byte("1"), 0)
				if entries {
					x.Put(append(base.IndexPrefix(1, b.Table(), 2|base.ByHome, 2), "entry"...), nil, 0)
				}
				return nil
			})
			if lost := base.CodeOf(err) == base.CodeAborted; lost != entries || err != nil && !lost {
				t.Errorf("with entries %v: %v", entries, err)
			}
			if v := get(t, c.db(3), b); (v == "1") == entries {
				t.Errorf("with entries %v: the row is %q", entries, v)
			}
		})
	}
}

// TestCarefulAsked: a careful transaction locks what its client has asked it to lock, also if it
// has read at a snapshot already, and keeps the locks (REL-16 (e)).
func TestCarefulAsked(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		a, b, d := key(1, 1, 1, "a"), key(1, 2, 2, "b"), key(1, 2, 2, "d")
		put(t, c.db(1), a, "0")
		put(t, c.db(2), b, "0", d, "0")
		time.Sleep(2 * time.Second)
		n := 0
		asked := kv.WithStatement(ctx(t), nil, kv.NewPatience(), true)
		for _, careful := range []bool{true, false} {
			for _, first := range []base.Key{a, b, d} {
				time.Sleep(time.Second)
				_, err := do(ctx(t), c.db(1), kv.Options{Relay: true, Careful: careful}, func(x kv.Txn) error {
					if _, err := x.Get(ctx(t), []base.Key{first}, kv.LockShared); err != nil {
						return err
					}
					if _, err := x.Get(asked, []base.Key{b}, kv.LockExclusive); err != nil {
						return err
					}
					for _, k := range []base.Key{b, d} {
						_, err := do(ctx(t), c.db(2), kv.Options{Policy: kv.NoWait}, func(o kv.Txn) error {
							n++
							o.Put(k, fmt.Append(nil, n), 0)
							return nil
						})
						if locked := base.CodeOf(err) == base.CodeAborted; locked != (careful && (k.Compare(b) == 0 || first.Compare(d) == 0)) {
							t.Errorf("careful %v, read %v first: %v is written beside it: %v", careful, first, k, err)
						}
					}
					x.Put(a, []byte("1"), 0)
					return nil
				})
				if lost := base.CodeOf(err) == base.CodeAborted; lost == careful {
					t.Errorf("careful %v, read %v first: %v", careful, first, err)
				}
			}
		}
	})
}

// TestCarefulLocks: once a transaction has lost because of a row that it had not locked, careful
// ones of the gateway lock there, and so does its own next attempt. So do those that read ranges of
// another region. Others go on at slots.
func TestCarefulLocks(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		a, hot, cold := key(1, 1, 1, "a"), key(1, 2, 2, "hot"), key(1, 2, 2, "cold")
		put(t, c.db(1), a, "0")
		put(t, c.db(2), hot, "0", cold, "0")
		time.Sleep(2 * time.Second)
		var touched kv.Touched
		begin := func(careful bool) kv.Options { return kv.Options{Relay: true, Careful: careful, Touched: &touched} }
		run := func(opts kv.Options, far base.Span, beside func()) (mode, error) {
			var m mode
			_, err := do(ctx(t), c.db(1), opts, func(x kv.Txn) error {
				_, err := x.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
				if err == nil {
					_, err = x.Scan(ctx(t), kv.ScanRequest{Spans: []base.Span{far}, Lock: kv.LockExclusive})
				}
				x.Put(a, []byte("1"), 0)
				beside()
				m = x.(*Txn).mode
				return err
			})
			return m, err
		}
		expect := func(what string, careful bool, far base.Span, want mode) {
			t.Helper()
			touched = kv.Touched{}
			if m, err := run(begin(careful), far, func() {}); err != nil || m != want {
				t.Errorf("%s: mode %d, want %d (%v)", what, m, want, err)
			}
		}
		all := base.Span{Start: cold, End: append(hot.Clone(), 0)}
		expect("before", true, base.PointSpan(hot), bySlot)
		m, err := run(begin(true), base.PointSpan(hot), func() { put(t, c.db(2), hot, "1") })
		if m != bySlot || base.CodeOf(err) != base.CodeAborted {
			t.Fatalf("beside another update: mode %d, %v", m, err)
		}
		if o := begin(true); o.MayRelay(1) {
			t.Error("the next attempt does not lock")
		}
		expect("the hot row", true, base.PointSpan(hot), byLocks)
		expect("another row", true, base.PointSpan(cold), bySlot)
		expect("the hot row, asked for", false, base.PointSpan(hot), bySlot)
		expect("a range", true, all, byLocks)
		expect("a range, asked for", false, all, bySlot)
		time.Sleep(11 * time.Second)
		expect("the row that was hot", true, base.PointSpan(hot), bySlot)
	})
}

// TestOtherTransactionForeseesNothing: a client does not repeat a transaction that it has lost, but
// does something else, and loses that, too. When it repeats the second one, what only the first one
// has read is not locked: somebody else may hold that for long.
func TestOtherTransactionForeseesNothing(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		a, b, d := key(1, 1, 1, "a"), key(1, 2, 2, "b"), key(1, 2, 2, "d")
		put(t, c.db(1), a, "0")
		put(t, c.db(2), b, "0", d, "0")
		time.Sleep(2 * time.Second)
		var touched kv.Touched
		opts := kv.Options{Relay: true, Careful: true, Touched: &touched, LockTimeout: time.Second}
		lose := func(keys ...base.Key) {
			t.Helper()
			_, err := do(ctx(t), c.db(1), opts, func(x kv.Txn) error {
				_, err := x.Get(ctx(t), keys, kv.LockExclusive)
				x.Put(keys[0], []byte("1"), 0)
				for _, k := range keys {
					put(t, c.db(2), k, "2")
				}
				return err
			})
			if base.CodeOf(err) != base.CodeAborted {
				t.Fatalf("beside other updates: %v", err)
			}
		}
		lose(b)
		lose(d)
		opts.Relay = opts.MayRelay(2)
		holder := c.db(2).Begin(kv.Options{})
		_, err := holder.Get(ctx(t), []base.Key{b}, kv.LockExclusive)
		must(t, err)
		_, err = do(ctx(t), c.db(1), opts, func(x kv.Txn) error {
			_, err := x.Get(ctx(t), []base.Key{d}, kv.LockExclusive)
			return err
		})
		must(t, err)
		holder.Rollback(ctx(t))
	})
}

// TestCatchUp: a row of a range has moved, and the log that says so comes here late. CatchUp waits
// for it, for no log that is here, and no longer than it is told (REL-2).
func TestCatchUp(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		b, g := key(1, 2, 2, "b"), base.DataGroup(1, 2)
		put(t, c.db(2), b, "0")
		time.Sleep(2 * time.Second)
		c.net.Cut(2, 1)
		_, err := kv.Run(ctx(t), c.db(3), kv.Options{}, func(m kv.Txn) error {
			m.Move(b, 3, kv.MoveOptions{})
			return nil
		})
		must(t, err)
		span := &wire.Span{Start: b, End: key(1, 2, 2, "c")}
		moved := &wire.GroupIndex{Region: 2, Index: c.nodes[1].set.Replica(g).AppliedIndex()}
		late := []*wire.Foreign{{Span: span, Group: uint32(base.DataGroup(1, 3)), Since: []*wire.GroupIndex{moved}}}
		took := func(foreign []*wire.Foreign, atMost time.Duration) time.Duration {
			start := time.Now()
			hints.CatchUp(ctx(t), c.nodes[0].set, foreign, atMost)
			return time.Since(start)
		}
		if d := took(late, time.Second); d != time.Second {
			t.Errorf("waited %v for a log that does not come", d)
		}
		if d := took([]*wire.Foreign{{Span: &wire.Span{Start: b}, Group: late[0].Group, Since: late[0].Since}}, time.Second); d != 0 {
			t.Errorf("waited %v for a key, of which there is a hint", d)
		}
		time.AfterFunc(500*time.Millisecond, func() { c.net.Heal(2, 1) })
		if d := took(late, time.Minute); d < 500*time.Millisecond || d >= time.Minute {
			t.Errorf("waited %v for a log that comes late", d)
		}
		if now, _ := c.nodes[0].set.Locate(b); now != base.DataGroup(1, 3) {
			t.Errorf("the copy of region 1 takes %v for the owner", now)
		}
		if d := took(late, time.Minute); d != 0 {
			t.Errorf("waited %v for a log that is here", d)
		}
	})
}
