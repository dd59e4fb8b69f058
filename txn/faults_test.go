package txn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/history"
)

// crash stops a node as a power cut does: what was not synced is lost.
func (n *node) crash(rng *rand.Rand) {
	mem := n.fs.(*vfs.MemFS)
	left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
	n.c.net.Crash(n.id)
	n.halt()
	n.fs = left
}

// faults breaks the cluster at random until stop is closed, and mends it then.
func (c *cluster) faults(rng *rand.Rand, stop <-chan struct{}) {
	sleep := func(d time.Duration) bool {
		select {
		case <-stop:
			return false
		case <-time.After(d):
			return true
		}
	}
	some := func() *node { return c.nodes[rng.IntN(len(c.nodes))] }
	for sleep(time.Duration(200+rng.IntN(3000)) * time.Millisecond) {
		switch rng.IntN(5) {
		case 0, 1: // hand a group over
			g := c.topo.Groups()[rng.IntN(len(c.topo.Groups()))]
			to := some().id
			for _, n := range c.nodes {
				if n.stop != nil && n.host.Group(g).Status().IsLeader {
					_ = n.host.Group(g).Transfer(to)
				}
			}
		case 2: // cut two regions off each other
			a, b := some().region, some().region
			if a != b {
				c.net.Cut(a, b)
				sleep(time.Duration(rng.IntN(6000)) * time.Millisecond)
				c.net.Heal(a, b)
			}
		case 3: // cut a region off, in one direction or both
			a := some().region
			for _, o := range c.nodes {
				if o.region != a {
					c.net.CutOneWay(a, o.region)
					if rng.IntN(2) == 0 {
						c.net.CutOneWay(o.region, a)
					}
				}
			}
			sleep(time.Duration(rng.IntN(6000)) * time.Millisecond)
			c.net.HealAll()
		case 4: // power cut
			n := some()
			n.crash(rng)
			sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
			n.c.net.Rejoin(n.id)
			n.start()
		}
	}
	c.net.HealAll()
}

// dump logs what the owners hold.
func (c *cluster) dump() {
	for _, n := range c.nodes {
		for _, r := range n.set.Replicas() {
			if _, ok := r.Serving(); !ok {
				continue
			}
			for _, x := range r.Txns() {
				c.t.Logf("node %d group %v: %+v", n.id, r.ID(), x)
			}
			for _, l := range r.Locks(0) {
				c.t.Logf("node %d group %v: lock %v %v %v waiting %v", n.id, r.ID(), l.Span, l.Txn, l.Mode, l.Waiting)
			}
		}
	}
}

// worker is one client: it runs random transactions and records them.
type worker struct {
	c      *cluster
	rec    *history.Recorder
	rng    *rand.Rand
	client int
	keys   []base.Key
	commit int
	failed map[base.Code]int
	more   int // operations of a transaction beyond three, at most
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		n := w.c.nodes[w.client%len(w.c.nodes)]
		db := n.up.Load()
		if db == nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		w.one(ctx, db)
		time.Sleep(time.Duration(w.rng.IntN(60)) * time.Millisecond)
	}
}

func (w *worker) one(ctx context.Context, db *DB) {
	a := w.rec.Begin(w.client, fmt.Sprint(db.Region()))
	opts := kv.Options{LockTimeout: 4 * time.Second}
	snapshot := w.rng.IntN(4) == 0
	opts.ReadOnly = snapshot
	opts.Policy = []kv.Policy{kv.NoWait, kv.WaitDie, kv.Detect}[w.rng.IntN(3)]
	if w.c.prepares && !snapshot && w.rng.IntN(2) == 0 {
		opts.Prepare = &kv.Preparation{}
	} else if w.c.relays {
		opts.Relay = w.rng.IntN(4) > 0
	}
	x := db.Begin(opts)
	wrote := map[string]bool{}
	err := func() error {
		lock := kv.LockShared
		if snapshot {
			lock = kv.LockNone
		} else if w.rng.IntN(3) == 0 {
			lock = kv.LockExclusive
		}
		for range 1 + w.rng.IntN(3+w.more) {
			k := w.keys[w.rng.IntN(len(w.keys))]
			switch op := w.rng.IntN(10); {
			case op < 4 || snapshot && op < 7:
				if wrote[string(k)] {
					continue
				}
				rows, err := x.Get(ctx, []base.Key{k}, lock)
				if err != nil {
					return err
				}
				a.Read(string(k), string(rows[0].Value))
			case op < 5 || snapshot:
				p := k[:base.IndexPrefixLen]
				if len(wrote) > 0 {
					continue
				}
				rows, err := w.scan(ctx, x, base.Span{Start: p, End: p.PrefixEnd()}, lock)
				if err != nil {
					return err
				}
				a.Scan(string(p), string(p.PrefixEnd()), rows)
			case op < 8:
				v := fmt.Sprintf("%d.%d", a.ID(), len(wrote))
				if wrote[string(k)] {
					continue
				}
				wrote[string(k)] = true
				a.Write(string(k), v)
				x.Put(k, []byte(v), 0)
			case op < 9:
				if wrote[string(k)] {
					continue
				}
				wrote[string(k)] = true
				a.Delete(string(k))
				x.Delete(k)
			default:
				if wrote[string(k)] {
					continue
				}
				v := fmt.Sprintf("%d.%d", a.ID(), len(wrote))
				// An insert that commits has also read that the key was absent.
				if x.Insert(k, []byte(v), 0) == nil {
					wrote[string(k)] = true
					a.Read(string(k), "")
					a.Write(string(k), v)
				}
			}
			if w.c.streams && wrote[string(k)] {
				if err := x.(kv.Streamer).Stream(ctx, k.Table()); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	var ts base.Timestamp
	if err == nil && opts.Prepare != nil {
		ts, err = w.prepare(ctx, x, opts.Prepare, a.ID())
	} else if err == nil {
		ts, err = x.Commit(ctx)
	}
	x.Rollback(ctx)
	switch code := base.CodeOf(err); {
	case err == nil:
		w.commit++
		if len(wrote) > 0 {
			a.Commit(uint64(ts))
		} else {
			a.Commit(0)
		}
	case code == base.CodeAmbiguous:
		w.failed[code]++
		a.Unknown(0)
	default:
		w.failed[code]++
		a.Abort()
	}
}

func (w *worker) scan(ctx context.Context, x kv.Txn, s base.Span, lock kv.LockMode) (rows []history.KV, err error) {
	req := &kv.ScanRequest{Spans: []base.Span{s}, Lock: lock, Limit: w.rng.IntN(4), Reverse: w.rng.IntN(2) == 0}
	req.Next = req.Limit * w.rng.IntN(2)
	for req != nil {
		res, err := x.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		for _, r := range res.Rows {
			rows = append(rows, history.KV{Key: string(r.Key), Value: string(r.Value)})
		}
		req = res.Next
	}
	return rows, nil
}

func seeds(t *testing.T, def int) (from, to int) {
	if s := os.Getenv("SEED"); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		return n, n + 1
	}
	if s := os.Getenv("SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		return 0, n
	}
	return 0, def
}

// TestStrictSerializable runs random transactions from all regions under
// random faults and has the history judged. SEEDS=n runs n seeds, SEED=n that one.
func TestStrictSerializable(t *testing.T) {
	from, to := seeds(t, 6)
	for seed := from; seed < to; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			runtime.GC()
			runtime.GC()
			cryptotest.SetGlobalRandom(t, uint64(seed)+1)
			synctest.Test(t, func(t *testing.T) { soak(t, uint64(seed), 0) })
		})
	}
}

func soak(t *testing.T, seed uint64, more int, tune ...func(*cluster)) {
	if v := violation(t, seed, more, tune...); v != nil {
		t.Errorf("seed %d: %v", seed, v)
	}
}

// violation is what the checkers find in a run.
func violation(t *testing.T, seed uint64, more int, tune ...func(*cluster)) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := newCluster(t, 3, 2, append(tune, func(c *cluster) { c.crashable = true })...)
	defer c.close()
	c.ready()
	rec := history.NewRecorder(func() int64 { return time.Now().UnixNano() })
	var keys []base.Key
	for i := range 12 {
		keys = append(keys, key(1+i%2, 1+i%3, uint64(1+i%3), fmt.Sprint("k", i)))
	}
	run, cancel := context.WithCancel(t.Context())
	var workers []*worker
	var wg, fwg sync.WaitGroup
	for i := range 9 {
		w := &worker{c: c, rec: rec, rng: rand.New(rand.NewPCG(seed, uint64(100+i))), client: i, keys: keys,
			failed: map[base.Code]int{}, more: more}
		workers = append(workers, w)
		wg.Go(func() { w.run(run) })
	}
	stop := make(chan struct{})
	if !c.calm {
		fwg.Go(func() { c.faults(rng, stop) })
	}
	time.Sleep(40 * time.Second)
	close(stop)
	fwg.Wait()
	time.Sleep(5 * time.Second)
	cancel()
	wg.Wait()
	c.ready()
	final := map[string]string{}
	// Everything is mended: in-doubt transactions must come to an end by themselves.
	last, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c.endPrepared(last)
	_, err := kv.Run(last, c.db(1), kv.Options{}, func(x kv.Txn) error {
		clear(final)
		rows, err := x.Get(last, keys, kv.LockShared)
		for _, r := range rows {
			if r.Value != nil {
				final[string(r.Key)] = string(r.Value)
			}
		}
		return err
	})
	if err != nil {
		c.dump()
		t.Fatalf("seed %d: the rows cannot be read after all faults were mended: %v", seed, err)
	}
	rec.SetFinal(final)
	h := rec.History()
	commits, failed := 0, map[base.Code]int{}
	for _, w := range workers {
		commits += w.commit
		for k, n := range w.failed {
			failed[k] += n
		}
	}
	var parts []string
	for k, n := range failed {
		parts = append(parts, fmt.Sprint(k, ":", n))
	}
	t.Logf("seed %d: %d committed, failed %s", seed, commits, strings.Join(parts, " "))
	v, _ := history.Check(h, history.LevelStrictSerializable)
	if v == nil {
		v = history.CommitOrder(h)
	}
	if v == nil {
		v = history.NoLostWrites(h)
	}
	if commits < 100 { // how many there are depends on the faults; none would judge nothing
		t.Errorf("seed %d: only %d transactions committed", seed, commits)
	}
	if v == nil {
		return nil // not an error that is nil inside
	}
	return v
}
