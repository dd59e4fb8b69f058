package txn

import (
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestLocksWhereNoSlotCanBe: what a transaction across regions cannot do at a slot (write the meta
// shard, or much; read very much) it does under locks in its second attempt. One that knows it
// before it leaves its region locks in its first.
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
		read := func(x kv.Txn, home, n int) error {
			for i := range n {
				if _, err := x.Get(ctx(t), []base.Key{row(home, i)}, kv.LockExclusive); err != nil {
					return err
				}
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
			name     string
			attempts int
			slot     bool // the last one
			do       func(x kv.Txn) error
		}{
			{"few rows of two regions", 1, true, func(x kv.Txn) error { return errOr(read(x, 1, 1), read(x, 2, 1), write(x, 1, 1)) }},
			{"the meta shard, behind a far row", 2, false, func(x kv.Txn) error {
				err := read(x, 2, 1)
				x.Put(metaKey("m"), []byte("1"), 0)
				return err
			}},
			{"a lock in the meta shard, behind a far row", 2, false, func(x kv.Txn) error {
				err := errOr(read(x, 2, 1), write(x, 1, 1))
				if err == nil {
					_, err = x.Get(ctx(t), []base.Key{metaKey("m")}, kv.LockExclusive)
				}
				return err
			}},
			{"many writes, behind a far row", 2, false, func(x kv.Txn) error { return errOr(read(x, 2, 1), write(x, 1, many)) }},
			{"many reads, behind a far row", 2, false, func(x kv.Txn) error {
				return errOr(read(x, 2, 1), read(x, 1, many), write(x, 1, 1))
			}},
			{"many writes, then a far row", 1, false, func(x kv.Txn) error { return errOr(write(x, 1, many), read(x, 2, 1)) }},
			{"many reads, then a far row", 1, false, func(x kv.Txn) error {
				return errOr(read(x, 1, many), read(x, 2, 1), write(x, 2, 1))
			}},
			{"many reads and writes of one region", 1, false, func(x kv.Txn) error { return errOr(read(x, 1, many), write(x, 1, many)) }},
		} {
			attempts, slot := 0, false
			_, err := kv.Run(ctx(t), c.db(1), kv.Options{Relay: true}, func(x kv.Txn) error {
				attempts++
				err := test.do(x)
				slot = x.(*Txn).mode == bySlot
				return err
			})
			if err != nil || attempts != test.attempts || slot != test.slot {
				t.Errorf("%s: %v after %d attempts, the last one at a slot: %v", test.name, err, attempts, slot)
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
