package multimaster

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/history"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/policy/filter"
)

var (
	seeds = flag.Int("seeds", 6, "faulty runs of each kind")
	first = flag.Uint64("first", 1, "the first seed")
)

// client runs transactions through one node and records what it sees.
type client struct {
	w      *world
	m      *machine
	n      int
	rng    *rand.Rand
	keys   int
	serial bool
	rec    *history.Recorder
	mu     *sync.Mutex
	told   map[base.TxnID]error // nil: committed
	txns   map[int64]base.TxnID
}

func key(i int) base.Key {
	return append(base.IndexPrefix(base.EpochShard, 77, 0, 0), byte(i>>8), byte(i))
}
func keyName(i int) string { return fmt.Sprintf("k%04d", i) }

// once runs a transaction: it reads some rows and a range, and writes some.
func (c *client) once(ctx context.Context) {
	e, st := c.m.engine(), c.m.store()
	if e == nil || !e.Readable() {
		time.Sleep(100 * time.Millisecond)
		return
	}
	a := c.rec.Begin(c.n, fmt.Sprint(c.m.region))
	s := e.Snapshot()
	a.ReadAt(s+1, true) // to the checker 0 is no snapshot
	t := filter.Txn{ID: base.MakeTxnID(base.Timestamp(a.ID()), c.m.id, uint32(c.n)), Priority: c.rng.Uint64N(1000), Snapshot: s}
	r := st.NewReader()
	get := func(i int) (string, bool) {
		v, ok, err := r.Get(key(i), base.Timestamp(s))
		if err != nil {
			return "", false
		}
		if !ok || v.Tombstone {
			return "", true
		}
		return string(v.Value), true
	}
	dead := false
	for range 1 + c.rng.IntN(3) {
		i := c.rng.IntN(c.keys)
		v, ok := get(i)
		if dead = dead || !ok; dead {
			break
		}
		a.Read(keyName(i), v)
		if c.serial {
			t.Reads = append(t.Reads, string(key(i)))
		}
	}
	if lo := c.rng.IntN(c.keys); !dead && c.rng.IntN(3) == 0 {
		hi := lo + 1 + c.rng.IntN(4)
		var got []history.KV
		it := r.Iter(base.Span{Start: key(lo), End: key(hi)}, base.Timestamp(s), store.IterOptions{})
		for it.Next() {
			if v := it.Version(); !v.Tombstone {
				got = append(got, history.KV{Key: keyName(int(v.Key[len(v.Key)-2])<<8 | int(v.Key[len(v.Key)-1])),
					Value: string(v.Value)})
			}
		}
		dead = it.Err() != nil
		it.Close()
		if !dead {
			a.Scan(keyName(lo), keyName(hi), got)
			if c.serial {
				t.Ranges = append(t.Ranges, base.Span{Start: key(lo), End: key(hi)})
			}
		}
	}
	r.Close()
	if dead || c.m.store() != st {
		a.Abort() // the process has crashed under it, and nothing was submitted
		return
	}
	written := map[int]bool{}
	for n := range 1 + c.rng.IntN(3) {
		i := c.rng.IntN(c.keys)
		if written[i] {
			continue
		}
		written[i] = true
		if c.rng.IntN(8) == 0 {
			t.Writes = append(t.Writes, filter.Write{Key: string(key(i)), Del: true})
			a.Delete(keyName(i))
			continue
		}
		v := fmt.Sprintf("t%d.%d", a.ID(), n)
		t.Writes = append(t.Writes, filter.Write{Key: string(key(i)), Value: []byte(v)})
		a.Write(keyName(i), v)
	}
	c.mu.Lock()
	c.txns[a.ID()] = t.ID
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	at, err := e.Submit(ctx, t)
	cancel()
	if c.m.engine() != e {
		err = base.Errorf(base.CodeAmbiguous, "crashed") // what a dead process says is not heard
	}
	c.mu.Lock()
	c.told[t.ID] = err
	c.mu.Unlock()
	switch base.CodeOf(err) {
	case base.CodeAborted, base.CodeUnavailable:
		a.Abort()
	case base.CodeAmbiguous:
		a.Unknown(0)
	default:
		if err != nil {
			c.w.t.Errorf("submit: %v", err)
		}
		a.Commit(at + 1)
	}
}

type load struct {
	clients, keys int
	serial        bool
	pause         time.Duration
}

// run has clients work until stop is called, which returns what they were told.
func (w *world) run(l load) (rec *history.Recorder, stop func() outcomes) {
	begin := time.Now()
	rec = history.NewRecorder(func() int64 { return int64(time.Since(begin)) })
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var wg sync.WaitGroup
	told, txns := map[base.TxnID]error{}, map[int64]base.TxnID{}
	for i := range l.clients {
		c := &client{w: w, m: w.nodes[i%len(w.nodes)], n: i, rng: rand.New(rand.NewPCG(w.cfg.seed, uint64(500+i))),
			keys: l.keys, serial: l.serial, rec: rec, mu: &mu, told: told, txns: txns}
		wg.Go(func() {
			for ctx.Err() == nil {
				c.once(context.Background())
				time.Sleep(time.Duration(c.rng.Int64N(int64(2 * l.pause))))
			}
		})
	}
	return rec, func() outcomes {
		cancel()
		wg.Wait()
		return outcomes{told, txns}
	}
}

// outcomes are what clients were told of their transactions, and these by their numbers in the
// history.
type outcomes struct {
	told map[base.TxnID]error
	ids  map[int64]base.TxnID
}

// judge checks that clients were told the truth, and the history.
func (w *world) judge(rec *history.Recorder, out outcomes, fates map[base.TxnID]uint64, serial bool) {
	w.t.Helper()
	counts := map[base.Code]int{}
	committed := 0
	for id, err := range out.told {
		at, did := fates[id]
		switch base.CodeOf(err) {
		case base.CodeAborted, base.CodeUnavailable:
			if did {
				w.t.Errorf("transaction %s was told %q, and is committed in epoch %d", id, err, at)
			}
			counts[base.CodeOf(err)]++
		case base.CodeAmbiguous:
			counts[base.CodeAmbiguous]++
		default:
			committed++
			if !did {
				w.t.Errorf("transaction %s was acknowledged, and is lost", id)
			}
		}
	}
	w.t.Logf("seed %d: %d committed, %d aborted, %d unavailable, %d unknown; %d views", w.cfg.seed, committed,
		counts[base.CodeAborted], counts[base.CodeUnavailable], counts[base.CodeAmbiguous], len(w.reg.All()))
	if committed == 0 {
		w.t.Error("nothing has committed")
	}
	h := rec.History()
	for i := range h.Txns {
		t := &h.Txns[i]
		if at, did := fates[out.ids[t.ID]]; did && t.Outcome == history.Unknown {
			t.Timestamp = at + 1
		}
	}
	if v := history.SnapshotIsolation(h); v != nil {
		w.t.Errorf("not snapshot isolation: %v", v)
	}
	if serial {
		if v := history.Serializable(h); v != nil {
			w.t.Errorf("not serializable: %v", v)
		}
	}
}

func TestQuietRun(t *testing.T) {
	for _, c := range []worldConfig{{regions: 1}, {regions: 3}, {regions: 5}, {regions: 3, per: 2, sharded: true},
		{regions: 3, per: 2, planned: true}} {
		for _, serial := range []bool{false, true} {
			t.Run(fmt.Sprintf("%dx%d,serializable=%v", c.regions, max(1, c.per), serial), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c.seed, c.oneWay, c.sync = 1, 40*time.Millisecond, time.Millisecond
					w := newWorld(t, c)
					defer w.close()
					w.start()
					rec, stop := w.run(load{clients: 12, keys: 40, serial: serial, pause: 20 * time.Millisecond})
					time.Sleep(5 * time.Second)
					told := stop()
					w.settle(5 * time.Second)
					w.judge(rec, told, w.check(), serial)
					if len(w.reg.All()) != 1 {
						t.Errorf("%d views without a fault", len(w.reg.All()))
					}
				})
			})
		}
	}
}

// Nothing is sent while nobody submits anything.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 1, regions: 3, oneWay: 40 * time.Millisecond})
		defer w.close()
		w.start()
		_, stop := w.run(load{clients: 3, keys: 40, pause: 20 * time.Millisecond})
		time.Sleep(time.Second)
		stop()
		w.settle(5 * time.Second)
		time.Sleep(time.Second)
		sent := func() (n int) {
			for _, m := range w.nodes {
				m.mu.Lock()
				n += m.calls
				m.mu.Unlock()
			}
			return n
		}
		before := sent()
		time.Sleep(time.Minute)
		if n := sent() - before; n > 0 {
			t.Errorf("%d messages in an idle minute", n)
		}
	})
}

// each runs a test for every seed, each in a bubble of its own.
func each(t *testing.T, f func(t *testing.T, seed uint64)) {
	for i := range *seeds {
		seed := *first + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, seed) })
		})
	}
}

// shape draws a cluster from a seed.
func shape(seed uint64) worldConfig {
	r := rand.New(rand.NewPCG(seed, 9))
	c := worldConfig{seed: seed, regions: 3 + 2*r.IntN(2), per: 1,
		oneWay: time.Duration(5+r.IntN(80)) * time.Millisecond, sync: time.Duration(r.IntN(4)) * time.Millisecond}
	if r.IntN(3) == 0 {
		c.regions, c.per = 3, 2
	}
	c.sharded = r.IntN(3) == 0
	c.planned = !c.sharded && r.IntN(2) == 0
	if r.IntN(3) == 0 {
		c.keep = 20 // who has been away copies the rows
	}
	return c
}

// faulty runs a load while faults come, heals everything, and judges.
func faulty(t *testing.T, c worldConfig, serial bool, faults func(w *world)) {
	w := newWorld(t, c)
	defer w.close()
	w.start()
	rec, stop := w.run(load{clients: 10, keys: 30, serial: serial, pause: 30 * time.Millisecond})
	time.Sleep(500 * time.Millisecond)
	faults(w)
	for _, m := range w.nodes {
		m.isolate(false)
	}
	w.net.HealAll()
	for _, m := range w.nodes {
		if m.engine() == nil {
			m.boot()
		}
	}
	time.Sleep(3 * time.Second)
	told := stop()
	w.settle(time.Minute)
	w.judge(rec, told, w.check(), serial)
}

// Messages are lost, late and doubled.
func TestHostileNetwork(t *testing.T) {
	each(t, func(t *testing.T, seed uint64) {
		c := shape(seed)
		c.hostile = true
		faulty(t, c, seed%2 == 0, func(*world) { time.Sleep(5 * time.Second) })
	})
}

// A node dies at one message of its life, whichever it is, and comes back.
func TestCrashAtAnyMessage(t *testing.T) {
	each(t, func(t *testing.T, seed uint64) {
		faulty(t, shape(seed), seed%2 == 0, func(w *world) {
			for range 3 {
				m := w.nodes[w.rng.IntN(len(w.nodes))]
				m.mu.Lock()
				at, died := m.calls+1+w.rng.IntN(60), make(chan struct{})
				once := sync.OnceFunc(func() { close(died) })
				m.hook = func(n int) {
					if n == at {
						once()
						w.net.Crash(m.id) // this message is not sent any more
					}
				}
				m.mu.Unlock()
				select {
				case <-died:
				case <-time.After(10 * time.Second):
				}
				m.mu.Lock()
				m.hook = nil
				m.mu.Unlock()
				m.crash()
				time.Sleep(time.Duration(w.rng.Int64N(int64(4 * time.Second))))
				m.boot()
				time.Sleep(time.Duration(w.rng.Int64N(int64(2 * time.Second))))
			}
		})
	})
}

// Regions are cut off, from everybody or from some, and nodes crash, alone and together, during
// view changes too.
func TestChaos(t *testing.T) {
	each(t, func(t *testing.T, seed uint64) {
		c := shape(seed)
		c.hostile = seed%3 == 0
		faulty(t, c, seed%2 == 0, func(w *world) {
			pause := func(most time.Duration) { time.Sleep(time.Duration(w.rng.Int64N(int64(most)))) }
			for range 6 {
				m := w.nodes[w.rng.IntN(len(w.nodes))]
				switch w.rng.IntN(6) {
				case 0:
					m.isolate(true)
					pause(5 * time.Second)
					m.isolate(false)
				case 1:
					m.crash()
					pause(3 * time.Second)
					m.boot()
				case 2: // a path
					o := base.RegionID(1 + w.rng.IntN(w.cfg.regions))
					w.net.Cut(m.region, o)
					pause(3 * time.Second)
					w.net.Heal(m.region, o)
				case 3: // a direction
					o := base.RegionID(1 + w.rng.IntN(w.cfg.regions))
					w.net.CutOneWay(m.region, o)
					pause(3 * time.Second)
					w.net.Heal(m.region, o)
				case 4: // everybody
					for _, m := range w.nodes {
						m.crash()
					}
					pause(time.Second)
					for _, m := range w.nodes {
						m.boot()
						pause(300 * time.Millisecond)
					}
				case 5: // one after the other
					m.crash()
					pause(1500 * time.Millisecond)
					o := w.nodes[w.rng.IntN(len(w.nodes))]
					o.crash()
					m.boot()
					pause(1500 * time.Millisecond)
					if o.engine() == nil {
						o.boot()
					}
				}
				pause(2 * time.Second)
			}
		})
	})
}

// wary notes that a check has found something, instead of failing.
type wary struct {
	testing.TB
	mu    sync.Mutex
	found []string
}

func (w *wary) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = append(w.found, fmt.Sprintf(format, args...))
}

// The checks bite: acknowledged as soon as this node holds it, a transaction is lost with the node
// (rule EPO-2).
func TestEarlyAcknowledgementIsFound(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		var bad wary
		synctest.Test(t, func(t *testing.T) {
			bad.TB = t
			w := newWorld(&bad, worldConfig{seed: seed, regions: 3, oneWay: 40 * time.Millisecond, early: true})
			defer w.close()
			w.start()
			rec, stop := w.run(load{clients: 9, keys: 300, pause: 10 * time.Millisecond})
			time.Sleep(500 * time.Millisecond)
			// The others hear nothing of the node, which hears them.
			w.net.CutOneWay(1, 2)
			w.net.CutOneWay(1, 3)
			time.Sleep(time.Duration(10+w.rng.IntN(200)) * time.Millisecond)
			w.nodes[0].crash()
			w.net.HealAll()
			time.Sleep(2 * time.Second)
			told := stop()
			w.nodes[0].boot()
			time.Sleep(10 * time.Second)
			if w.nodes[1].engine().Err() == nil {
				w.judge(rec, told, w.check(), false)
			}
		})
		if len(bad.found) > 0 {
			t.Logf("seed %d: %s", seed, bad.found[0])
			return
		}
	}
	t.Error("nothing was found amiss in 20 runs")
}

// A node that was away for longer than logs reach copies the rows.
func TestCopyRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty(t, worldConfig{seed: 5, regions: 3, oneWay: 20 * time.Millisecond, keep: 20}, true, func(w *world) {
			w.nodes[2].crash()
			time.Sleep(10 * time.Second)
			before, err := (&journal{w.nodes[0].st}).cut()
			if before == 0 || err != nil {
				t.Errorf("the log of a node that stayed is cut at %d, %v", before, err)
			}
			w.nodes[2].boot()
			time.Sleep(3 * time.Second)
			if cut, err := (&journal{w.nodes[2].st}).cut(); cut < before || err != nil {
				t.Errorf("the log of the node that was away is cut at %d, not at %d at least: %v", cut, before, err)
			}
		})
	})
}
