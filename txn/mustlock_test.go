package txn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestLocksWhereNoSlotCanBe: what a transaction across regions cannot do at a slot (write the meta
// shard, or much; read very much) it does under locks, in its first attempt: it takes those of what
// it has read. If that has changed, its second attempt locks from the start (REL-7).
func TestLocksWhereNoSlotCanBe(t *testing.T) {
	small := func(c *cluster) {
		c.tc = func(tc *Config) { tc.Limits.OnceWrites, tc.Limits.Reads = 5, 8 }
	}
	const many = 10
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		row := func(home, i int) base.Key { return key(1, home, uint64(home), fmt.Sprintf("k%03d", i)) }
		for i := range many {
			put(t, c.db(1), row(1, i), "0")
			put(t, c.db(2), row(2, i), "0")
		}
		time.Sleep(2 * time.Second)
		var beside func() // others do that after the far row was read
		read := func(x kv.Txn, home, n int) error {
			for i := range n {
				if _, err := x.Get(ctx(t), []base.Key{row(home, i)}, kv.LockExclusive); err != nil {
					return err
				}
			}
			if home == 2 && beside != nil {
				beside()
			}
			return nil
		}
		write := func(x kv.Txn, home, n int) error {
			for i := range n {
				x.Put(row(home, i), []byte("1"), 0)
			}
			return nil
		}
		for _, test := range []struct {
			name string
			slot bool // it commits at one
			do   func(x kv.Txn) error
		}{
			{"few rows of two regions", true, func(x kv.Txn) error { return errOr(read(x, 1, 1), read(x, 2, 1), write(x, 1, 1)) }},
			{"the meta shard, behind a far row", false, func(x kv.Txn) error {
				err := read(x, 2, 1)
				x.Put(metaKey("m"), []byte("1"), 0)
				return err
			}},
			{"the meta shard, behind an own row that was locked, behind a far row", false, func(x kv.Txn) error {
				err := errOr(read(x, 1, 1), read(x, 2, 1))
				x.Put(metaKey("m"), []byte("1"), 0)
				return err
			}},
			{"a lock in the meta shard, behind a far row", false, func(x kv.Txn) error {
				err := errOr(read(x, 2, 1), write(x, 1, 1))
				if err == nil {
					_, err = x.Get(ctx(t), []base.Key{metaKey("m")}, kv.LockExclusive)
				}
				return err
			}},
			{"many writes, behind a far row", false, func(x kv.Txn) error { return errOr(read(x, 2, 1), write(x, 1, many)) }},
			{"many reads, behind a far row", false, func(x kv.Txn) error {
				return errOr(read(x, 2, 1), read(x, 1, many), write(x, 1, 1))
			}},
			{"many writes, then a far row", false, func(x kv.Txn) error { return errOr(write(x, 1, many), read(x, 2, 1)) }},
			{"many reads, then a far row", false, func(x kv.Txn) error {
				return errOr(read(x, 1, many), read(x, 2, 1), write(x, 2, 1))
			}},
			{"many reads and writes of one region", false, func(x kv.Txn) error { return errOr(read(x, 1, many), write(x, 1, many)) }},
		} {
			for want := 1; want == 1 || want == 2 && strings.Contains(test.name, "behind a far row"); want++ {
				attempts := 0
				var last *Txn
				_, err := kv.Run(ctx(t), c.db(1), kv.Options{Relay: true}, func(x kv.Txn) error {
					attempts, last = attempts+1, x.(*Txn)
					if beside = nil; attempts < want {
						beside = func() { put(t, c.db(2), row(2, 0), "0") }
					}
					return test.do(x)
				})
				if slot := last.mode == bySlot; err != nil || attempts != want || slot != test.slot {
					t.Errorf("%s: %v after %d attempts, not %d, the last one at a slot: %v", test.name, err, attempts, want, slot)
				}
			}
		}
	}, small)
}

// errOr is the first error.
func errOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
