package txn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
)

// TestRestart: everything acknowledged survives a power cut of all nodes at once.
func TestRestart(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 30 {
			put(t, c.db(1+i%3), key(1+i%2, 1, 1, fmt.Sprint(i)), "v")
		}
		for _, n := range c.nodes {
			n.crash(rng)
		}
		for _, n := range c.nodes {
			c.net.Rejoin(n.id)
			n.start()
		}
		c.ready()
		for i := range 30 {
			if got := get(t, c.db(1+(i+1)%3), key(1+i%2, 1, 1, fmt.Sprint(i))); got != "v" {
				t.Errorf("row %d: %s", i, got)
			}
		}
	}, func(c *cluster) { c.crashable = true })
}

// TestAsOf: reads in the past are served by the local replica, also of rows of other regions and
// when those cannot be reached, until the versions are collected.
func TestAsOf(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		a := key(1, 2, 2, "a")
		first := put(t, c.db(2), a, "1")
		put(t, c.db(2), a, "2")
		time.Sleep(time.Second)
		read := func(ts base.Timestamp) (string, error) {
			x := c.db(1).Begin(kv.Options{ReadOnly: true, ReadTS: ts})
			defer x.Rollback(ctx(t))
			rows, err := x.Get(ctx(t), []base.Key{a}, kv.LockNone)
			if err != nil {
				return "", err
			}
			return string(rows[0].Value), nil
		}
		now := c.db(1).Clock().Add(-500 * time.Millisecond)
		c.net.Cut(1, 2)
		c.net.Cut(1, 3)
		for ts, want := range map[base.Timestamp]string{first.Prev(): "", first: "1", now: "2"} {
			if got, err := read(ts); err != nil || got != want {
				t.Errorf("as of %s: %q %v, want %q", ts, got, err, want)
			}
		}
		c.net.HealAll()
		time.Sleep(15 * time.Minute)
		for _, n := range c.nodes {
			must(t, n.set.Collect(ctx(t)))
		}
		if _, err := read(first); base.CodeOf(err) != base.CodeTooOld {
			t.Errorf("as of a collected time: %v", err)
		}
		if got := get(t, c.db(1), a); got != "2" {
			t.Errorf("now: %s", got)
		}
	})
}

// TestTombstones: they are collected where one group owns both sides, and gaps keep one owner.
func TestTombstones(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		for i, name := range []string{"b", "d", "f", "h", "j", "l"} {
			put(t, c.db(1+i/2), key(1, 1, 1, name), "x") // homes 1 1 2 2 3 3
		}
		for i, name := range []string{"b", "d", "f", "h", "j", "l"} {
			_, err := kv.Run(ctx(t), c.db(1+i%3), kv.Options{}, func(x kv.Txn) error { x.Delete(key(1, 1, 1, name)); return nil })
			must(t, err)
		}
		collected := func() (n int64) {
			for _, nd := range c.nodes {
				for _, r := range nd.set.Replicas() {
					n += r.Stats().Collected.Load()
				}
			}
			return n
		}
		time.Sleep(15 * time.Minute)
		for range 5 {
			for _, n := range c.nodes {
				must(t, n.set.Collect(ctx(t)))
			}
			time.Sleep(time.Second)
		}
		// b and d (home 1, like the table's first gap), h (after f) and l (after j).
		if n := collected(); n != 4 {
			t.Errorf("%d tombstones collected, want 4", n)
		}
		for r := 1; r <= 3; r++ {
			for i, name := range []string{"a", "e", "g", "i", "k", "z"} {
				k := key(1, 1, 1, fmt.Sprint(name, r))
				_, err := kv.Run(ctx(t), c.db(1+(i+r)%3), kv.Options{},
					func(x kv.Txn) error { return x.Insert(k, []byte("y"), 0) })
				must(t, err)
				if got := get(t, c.db(r), k); got != "y" {
					t.Errorf("%v: %s", k, got)
				}
			}
		}
	})
}

// TestLimits: what is too large gets a clear error.
func TestLimits(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		x := c.db(1).Begin(kv.Options{})
		x.Put(key(1, 1, 1, "a"), make([]byte, 2000), 0)
		if _, err := x.Commit(ctx(t)); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("too many bytes: %v", err)
		}
		for i := range 6 {
			_, err := do(ctx(t), c.db(1), kv.Options{}, func(x kv.Txn) error {
				for j := range i {
					x.Put(key(1, 1, 1, fmt.Sprint(j)), nil, 0)
				}
				return nil
			})
			if want := i > 4; (base.CodeOf(err) == base.CodeInvalid) != want {
				t.Errorf("%d writes: %v", i, err)
			}
		}
		y := c.db(1).Begin(kv.Options{ReadOnly: true})
		if _, err := y.Get(ctx(t), []base.Key{key(1, 1, 1, "a")}, kv.LockShared); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("lock in READ ONLY: %v", err)
		}
	}, func(c *cluster) {
		c.tc = func(t *Config) { t.Limits.WriteBytes = 1000 }
		c.oc = func(o *owner.Config) { o.MaxWrites = 4 }
	})
}

// TestBank: transfers between accounts of all regions keep their sum, in every snapshot, under
// faults.
func TestBank(t *testing.T) {
	const accounts, start = 9, 100
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		var keys []base.Key
		init := map[string]string{}
		for i := range accounts {
			k := key(1+i%2, 1+i%3, uint64(1+i%3), fmt.Sprint("acct", i))
			keys = append(keys, k)
			init[string(k)] = string(num(start))
			put(t, c.db(1+i%3), k, string(num(start)))
		}
		run, cancel := context.WithCancel(ctx(t))
		stop := make(chan struct{})
		var wg, fwg sync.WaitGroup
		fwg.Go(func() { c.faults(rand.New(rand.NewPCG(3, 3)), stop) })
		var transfers, audits int
		var mu sync.Mutex
		for i := range 6 {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			wg.Go(func() {
				for run.Err() == nil {
					time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
					db := c.nodes[i%3].up.Load()
					if db == nil {
						continue
					}
					if rng.IntN(4) == 0 {
						sum, n := int64(0), 0
						_, err := do(run, db, kv.Options{ReadOnly: true}, func(x kv.Txn) error {
							rows, err := x.Get(run, keys, kv.LockNone)
							for _, r := range rows {
								sum += toNum(r.Value)
								n++
							}
							return err
						})
						mu.Lock()
						if err == nil && n == accounts {
							if audits++; sum != accounts*start {
								t.Errorf("a snapshot sums up to %d", sum)
							}
						}
						mu.Unlock()
						continue
					}
					from, to := keys[rng.IntN(accounts)], keys[rng.IntN(accounts)]
					if string(from) == string(to) {
						continue
					}
					_, err := do(run, db, kv.Options{LockTimeout: 3 * time.Second}, func(x kv.Txn) error {
						rows, err := x.Get(run, []base.Key{from, to}, kv.LockExclusive)
						if err != nil {
							return err
						}
						amount := 1 + rng.Int64N(20)
						x.Put(from, num(toNum(rows[0].Value)-amount), 0)
						x.Put(to, num(toNum(rows[1].Value)+amount), 0)
						return nil
					})
					mu.Lock()
					if err == nil {
						transfers++
					}
					mu.Unlock()
				}
			})
		}
		time.Sleep(40 * time.Second)
		close(stop)
		fwg.Wait()
		time.Sleep(5 * time.Second)
		cancel()
		wg.Wait()
		c.ready()
		last, cancel := context.WithTimeout(ctx(t), 2*time.Minute)
		defer cancel()
		sum := int64(0)
		_, err := kv.Run(last, c.db(2), kv.Options{}, func(x kv.Txn) error {
			sum = 0
			rows, err := x.Get(last, keys, kv.LockShared)
			for _, r := range rows {
				sum += toNum(r.Value)
			}
			return err
		})
		must(t, err)
		t.Logf("%d transfers, %d audits", transfers, audits)
		if sum != accounts*start || transfers == 0 || audits == 0 {
			t.Errorf("the sum is %d after %d transfers and %d audits", sum, transfers, audits)
		}
	}, func(c *cluster) { c.crashable = true })
}
