package txn

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// stagedAt is how many transactions have pieces and no vote, at all nodes.
func stagedAt(c *cluster) (n int) {
	for _, node := range c.nodes {
		for _, r := range node.set.Replicas() {
			n += r.Staged()
		}
	}
	return n
}

// TestStream logs rows of a table while others are written, and entries of an index in between. All
// of it is there after the commit, and nothing before.
func TestStream(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		const rows = 200
		row := func(i int) base.Key { return key(1+i%2, 1, 9, fmt.Sprintf("%05d", i)) }
		entry := func(i int) base.Key {
			return append(base.IndexPrefix(base.ShardID(1+i%2), base.MakeTableID(9, 1), 1, 0), fmt.Sprintf("%05d", i*7%rows)...)
		}
		table := row(0).Table()
		for _, step := range []struct {
			name  string
			write func(x kv.Txn, i int) error
			left  int
		}{
			{"insert", func(x kv.Txn, i int) error {
				x.Put(entry(i), []byte("entry"), 0)
				return x.Insert(row(i), []byte("a"), 1)
			}, rows},
			{"update", func(x kv.Txn, i int) error {
				x.Put(row(i), []byte("b"), 0)
				return nil
			}, rows},
			{"delete", func(x kv.Txn, i int) error {
				x.Delete(entry(i))
				x.Delete(row(i))
				return nil
			}, 0},
		} {
			x := c.db(2).Begin(kv.Options{})
			for i := range rows {
				// Two rows come too late to be logged early.
				if i%97 == 1 {
					continue
				}
				must(t, step.write(x, i))
				if i%10 == 9 {
					must(t, x.(kv.Streamer).Stream(ctx(t), table, 1))
				}
			}
			for i := 1; i < rows; i += 97 {
				must(t, step.write(x, i))
			}
			time.Sleep(time.Second)
			if stagedAt(c) == 0 {
				t.Errorf("%s: nothing is logged before the commit", step.name)
			}
			_, err := x.Commit(ctx(t))
			must(t, err)
			for _, k := range []func(int) base.Key{row, entry} {
				left := 0
				for i := range rows {
					if get(t, c.db(3), k(i)) != "-" {
						left++
					}
				}
				if left != step.left {
					t.Errorf("%s: %d of %d are there", step.name, left, step.left)
				}
			}
		}
		time.Sleep(5 * time.Second)
		if n := stagedAt(c); n != 0 {
			t.Errorf("%d transactions have pieces left", n)
		}
	}, pieces(20))
}

// TestStreamEnds: a row that is inserted twice is told, and what was logged of a transaction that
// does not commit goes.
func TestStreamEnds(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		at := func(i int) base.Key { return key(1, 1, 9, fmt.Sprintf("%05d", i)) }
		put(t, c.db(1), at(7), "there")
		begin := func(from int) kv.Txn {
			x := c.db(1).Begin(kv.Options{})
			for i := from; i < 100; i++ {
				must(t, x.Insert(at(i), []byte("a"), 0))
				if i%10 == 9 {
					if err := x.(kv.Streamer).Stream(ctx(t), at(0).Table()); err != nil {
						if from > 7 || base.CodeOf(err) != base.CodeExists {
							t.Fatal(err)
						}
					}
				}
			}
			return x
		}
		x := begin(10)
		if err := x.Insert(at(50), []byte("b"), 0); base.CodeOf(err) != base.CodeExists {
			t.Errorf("a row inserted twice: %v", err)
		}
		x.Rollback(ctx(t))
		x = begin(0) // a piece says that row 7 is there
		if _, err := x.Commit(ctx(t)); base.CodeOf(err) != base.CodeExists {
			t.Errorf("a row that is there: %v", err)
		}
		x.Rollback(ctx(t))
		x = begin(10)
		mark := x.Savepoint()
		must(t, x.Insert(at(200), []byte("a"), 0))
		must(t, x.(kv.Streamer).Stream(ctx(t), at(0).Table()))
		x.RollbackTo(mark)
		if _, err := x.Commit(ctx(t)); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("a row that is logged was taken back: %v", err)
		}
		time.Sleep(time.Minute)
		if n := stagedAt(c); n != 0 {
			t.Errorf("%d transactions have pieces left", n)
		}
		for _, i := range []int{10, 50, 99, 200} {
			if v := get(t, c.db(1), at(i)); v != "-" {
				t.Errorf("row %d is %q", i, v)
			}
		}
	}, pieces(5))
}

// TestStreamCancelled: who ends a statement does not wait for the lock that a piece waits for.
func TestStreamCancelled(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		at := func(i int) base.Key { return key(1, 1, 9, fmt.Sprintf("%05d", i)) }
		other := c.db(1).Begin(kv.Options{})
		_, err := other.Get(ctx(t), []base.Key{at(3)}, kv.LockExclusive)
		must(t, err)
		x := c.db(1).Begin(kv.Options{LockTimeout: time.Hour})
		of, cancel := context.WithCancel(ctx(t))
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		for i := 0; err == nil && i < 1000; i++ {
			x.Put(at(i), []byte("a"), 0)
			err = x.(kv.Streamer).Stream(of, at(0).Table())
		}
		x.Rollback(ctx(t))
		if took := time.Since(begin); took < time.Second || took > 1100*time.Millisecond || base.CodeOf(err) != base.CodeCanceled {
			t.Errorf("it ended after %v: %v", took, err)
		}
		other.Rollback(ctx(t))
	}, pieces(5))
}

// TestStreamedAgain plays STAGE-7: a row is inserted, logged, and deleted again. Without the rule
// it is there after the commit.
func TestStreamedAgain(t *testing.T) {
	for _, without := range []bool{false, true} {
		t.Run(fmt.Sprint("without=", without), func(t *testing.T) {
			bubble(t, 1, 1, func(t *testing.T, c *cluster) {
				k := key(1, 1, 9, "k")
				x := c.db(1).Begin(kv.Options{})
				must(t, x.(kv.Streamer).Stream(ctx(t), k.Table()))
				must(t, x.Insert(k, []byte("a"), 0))
				must(t, x.(kv.Streamer).Stream(ctx(t), k.Table()))
				x.Delete(k)
				_, err := x.Commit(ctx(t))
				there := get(t, c.db(1), k) != "-"
				if !without && (base.CodeOf(err) != base.CodeInvalid || there) {
					t.Errorf("the row is there: %v; %v", there, err)
				}
				if without && (err != nil || !there) {
					t.Errorf("without the rule the row is there: %v; %v", there, err)
				}
			}, pieces(1), func(c *cluster) {
				tune := c.tc
				c.tc = func(tc *Config) {
					tune(tc)
					tc.Rewrites = without
				}
			})
		})
	}
}

// TestStreamStrictSerializable is TestLargeStrictSerializable with transactions that log what they
// can as soon as they have written it.
func TestStreamStrictSerializable(t *testing.T) {
	from, to := seeds(t, 3)
	for seed := from; seed < to; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			runtime.GC()
			runtime.GC()
			cryptotest.SetGlobalRandom(t, uint64(seed)+1)
			synctest.Test(t, func(t *testing.T) {
				soak(t, uint64(seed), 8, pieces(1), func(c *cluster) { c.streams = true })
			})
		})
	}
}
