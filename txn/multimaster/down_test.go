package multimaster

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/filter"
)

// submit writes a row through a node.
func (m *machine) submit(n int) error {
	_, err := m.engine().Submit(context.Background(),
		filter.Txn{ID: base.MakeTxnID(base.Timestamp(time.Now().UnixNano()), m.id, uint32(n)),
			Snapshot: m.engine().Snapshot(),
			Writes:   []filter.Write{{Key: string(key(n)), Value: []byte("v")}}})
	return err
}

// commit writes a row through a node and says how long that took.
func (m *machine) commit(t *testing.T, n int) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := m.submit(n); err != nil {
		t.Errorf("commit %d through node %d: %v", n, m.id, err)
	}
	return time.Since(begin)
}

// A node whose death is told is left out long before its batch has been missing for the time of
// suspicion; one that is told dead and is not stays.
func TestDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const oneWay = 40 * time.Millisecond
		w := newWorld(t, worldConfig{seed: 3, regions: 3, oneWay: oneWay})
		defer w.close()
		w.start()
		time.Sleep(time.Second)
		usual := w.nodes[0].commit(t, 1)

		w.nodes[0].engine().Down(3)
		time.Sleep(time.Second)
		if v, _ := w.nodes[0].engine().View(); v.Number != 1 {
			t.Errorf("a node that answers was left out: %+v", v)
		}

		for n := range 3 { // whatever the third sends meanwhile
			w.nodes[n].commit(t, 10+n)
		}
		w.nodes[2].crash()
		for _, m := range w.nodes[:2] {
			m.engine().Down(3)
		}
		took := w.nodes[0].commit(t, 2)
		t.Logf("a commit takes %v, %v with a node that has just died", usual, took)
		// The node is asked once more (Ask/2), then: seal, catch up, replace in the registry,
		// install.
		if most := 250*time.Millisecond + 8*(oneWay+10*time.Millisecond) + usual; took > most {
			t.Errorf("the commit took %v, at most %v is due", took, most)
		}
		if v, _ := w.nodes[0].engine().View(); v.Has(3) {
			t.Errorf("the dead node is still in the view: %+v", v)
		}
		w.nodes[2].boot()
		w.settle(10 * time.Second)
		w.check()
	})
}

// A node whose disk takes nothing, though it answers, is left out like one that has died, and takes
// part again afterwards.
func TestFrozenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 5, regions: 3, oneWay: 40 * time.Millisecond})
		defer w.close()
		w.start()
		time.Sleep(time.Second)
		for n := range 3 {
			w.nodes[n].commit(t, 10+n)
		}
		w.nodes[2].frozen.Store(true)
		var own sync.WaitGroup
		own.Go(func() { // its batch is missing from now on
			begin := time.Now()
			err := w.nodes[2].submit(19)
			if d := time.Since(begin); base.CodeOf(err) != base.CodeAmbiguous || d > 5*time.Second {
				t.Errorf("what is submitted to the node is answered after %v: %v", d, err)
			}
		})
		time.Sleep(100 * time.Millisecond)
		for n := range 10 {
			if took := w.nodes[n%2].commit(t, 20+n); took > 1500*time.Millisecond {
				t.Errorf("a commit took %v", took)
			}
		}
		if v, _ := w.nodes[0].engine().View(); v.Has(3) {
			t.Errorf("the node is still in the view: %+v", v)
		}
		w.nodes[2].frozen.Store(false)
		own.Wait()
		w.settle(frozenFor + 10*time.Second)
		if v, _ := w.nodes[0].engine().View(); !v.Has(3) {
			t.Errorf("the node takes no part: %+v", v)
		}
		w.check()
	})
}

// A node that was cut off takes part again while the others write all the time: whenever it has
// fetched what they had, they have more.
func TestReturnBesideWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 6, regions: 3, oneWay: 40 * time.Millisecond})
		defer w.close()
		w.start()
		time.Sleep(time.Second)
		w.nodes[2].commit(t, 10)
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for n, m := range w.nodes[:2] {
			for i := range 20 {
				writers.Go(func() {
					for k := 1; ; k++ {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(5*i) * time.Millisecond):
							_ = m.submit(100 + n*20 + i + 40*k) // a view may change meanwhile
						}
					}
				})
			}
		}
		time.Sleep(time.Second)
		w.nodes[2].isolate(true)
		for _, m := range w.nodes[:2] {
			m.engine().Down(3)
		}
		time.Sleep(5 * time.Second)
		w.nodes[2].isolate(false)
		w.nodes[2].engine().Watch() // the registry has changed
		time.Sleep(3 * time.Second)
		if v, active := w.nodes[2].engine().View(); !active {
			t.Errorf("the node takes no part after 3 s: %+v", v)
		}
		close(stop)
		writers.Wait()
		w.settle(10 * time.Second)
		w.check()
	})
}

// A node that was cut off comes back, and reaches one of the two others alone at first. It leaves
// them alone until it reaches both: a view of its own would do without the second (EPO-3a).
func TestReturnLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 8, regions: 3, oneWay: 40 * time.Millisecond})
		defer w.close()
		w.start()
		time.Sleep(time.Second)
		for n := range 3 {
			w.nodes[n].commit(t, 10+n)
		}
		w.nodes[2].isolate(true)
		for _, m := range w.nodes[:2] {
			m.engine().Down(3)
		}
		for n := range 2 {
			w.nodes[n].commit(t, 20+n)
		}
		w.net.CutNodes(2, 3)
		w.nodes[2].isolate(false)
		w.nodes[2].engine().Watch() // the registry has changed
		for n := range 40 {
			if took := w.nodes[n%2].commit(t, 30+n); took > 500*time.Millisecond {
				t.Errorf("a commit took %v", took)
			}
			if v, _ := w.nodes[0].engine().View(); !v.Has(1) || !v.Has(2) || v.Has(3) {
				t.Fatalf("the view is %+v", v)
			}
			time.Sleep(100 * time.Millisecond)
		}
		w.net.HealNodes(2, 3)
		w.settle(5 * time.Second)
		w.check()
	})
}

// All are started again, and one stays away: no view goes on, so the others do not wait for it.
func TestNoViewToLeaveAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 9, regions: 3, oneWay: 40 * time.Millisecond})
		defer w.close()
		w.start()
		time.Sleep(time.Second)
		for n := range 3 {
			w.nodes[n].commit(t, 10+n)
		}
		for _, m := range w.nodes {
			m.crash()
		}
		for _, m := range w.nodes[:2] {
			m.boot()
		}
		if took := w.nodes[0].commit(t, 20); took > 5*time.Second {
			t.Errorf("a commit took %v", took)
		}
		w.nodes[2].boot()
		w.settle(10 * time.Second)
		w.check()
	})
}

// A node dies, and the registry cannot be reached for a while: commits go on soon after it can.
func TestRegistryAway(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, worldConfig{seed: seed, regions: 3, oneWay: 40 * time.Millisecond})
			defer w.close()
			w.start()
			time.Sleep(time.Second)
			for n := range 3 {
				w.nodes[n].commit(t, 10+n)
			}
			w.nodes[2].crash()
			w.reg.away.Store(true)
			for _, m := range w.nodes[:2] {
				m.engine().Down(3)
			}
			time.Sleep(9 * time.Second)
			w.reg.away.Store(false)
			// An attempt that is under way ends after Suspect, a second, and the next one begins
			// within one and a half times Ask, which is half of that.
			begin := time.Now()
			in := func() bool { v, active := w.nodes[0].engine().View(); return active && v.Number > 1 }
			for !in() && time.Since(begin) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			w.nodes[0].commit(t, 2)
			if took := time.Since(begin); took > 2200*time.Millisecond {
				t.Errorf("seed %d: the first commit after that took %v", seed, took)
			}
			w.nodes[2].boot()
			w.settle(10 * time.Second)
			w.check()
		})
	}
}

// A node without a majority gives back what is submitted to it, and goes on reading.
func TestNoMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 40 * time.Millisecond})
		defer w.close()
		w.start()
		time.Sleep(time.Second)
		w.nodes[2].commit(t, 1)
		w.nodes[2].isolate(true)
		e := w.nodes[2].engine()
		e.Down(1)
		e.Down(2)
		time.Sleep(time.Second)
		begin := time.Now()
		_, err := e.Submit(context.Background(), filter.Txn{ID: base.MakeTxnID(9, 3, 9), Snapshot: e.Snapshot(),
			Writes: []filter.Write{{Key: string(key(2)), Value: []byte("v")}}})
		if base.CodeOf(err) != base.CodeUnavailable {
			t.Errorf("a write without a majority: %v", err)
		}
		if d := time.Since(begin); d > 4*time.Second {
			t.Errorf("it was given back after %v", d)
		}
		if !e.Readable() || e.Snapshot() == 0 {
			t.Error("nothing can be read")
		}
		w.nodes[2].isolate(false)
		w.nodes[0].commit(t, 3)
		w.settle(20 * time.Second)
		w.nodes[2].commit(t, 4)
		w.settle(20 * time.Second)
		w.check()
	})
}

// What is part of an epoch when its node loses the majority is answered soon, with an outcome that
// is not known; it takes effect once or not at all.
func TestCutOffInAnEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 40 * time.Millisecond})
		defer w.close()
		w.start()
		time.Sleep(time.Second)
		w.nodes[2].commit(t, 1)
		e := w.nodes[2].engine()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		begin, answered := time.Now(), make(chan error, 1)
		go func() {
			_, err := e.Submit(ctx, filter.Txn{ID: base.MakeTxnID(9, 3, 9), Snapshot: e.Snapshot(),
				Writes: []filter.Write{{Key: string(key(2)), Value: []byte("v")}}})
			answered <- err
		}()
		time.Sleep(30 * time.Millisecond) // it is on its way, and nobody has it
		w.nodes[2].isolate(true)
		e.Down(1)
		e.Down(2)
		err := <-answered
		if base.CodeOf(err) != base.CodeAmbiguous {
			t.Errorf("the outcome without a majority: %v", err)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("it was answered after %v", d)
		}
		w.nodes[2].isolate(false)
		w.nodes[0].commit(t, 3)
		w.settle(20 * time.Second)
		w.check()
	})
}

// The view's first member plans, and all follow the same plan from the same epoch on.
func TestOnePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 5, regions: 3, per: 2, oneWay: 40 * time.Millisecond, planned: true})
		defer w.close()
		w.start()
		_, stop := w.run(load{clients: 12, keys: 100, pause: 10 * time.Millisecond})
		time.Sleep(6 * time.Second)
		stop()
		w.settle(5 * time.Second)
		w.check()
		for _, m := range w.nodes {
			s := m.engine().Status()
			if first := w.nodes[0].engine().Status(); s.Plan != first.Plan || s.Plan == "" || s.Planned == 0 ||
				s.Flat < s.Planned {
				t.Errorf("node %d follows %q (%v, flat %v), the first member %q", m.id, s.Plan, s.Planned, s.Flat, first.Plan)
			}
			if s.Wants > 0 {
				t.Errorf("node %d had to ask for %d batches, without a fault", m.id, s.Wants)
			}
			if s.State != Member || s.Begun == 0 || s.Bytes == 0 || s.Committed == 0 {
				t.Errorf("node %d says of itself: %+v", m.id, s)
			}
		}
		t.Logf("the plan is %q", w.nodes[0].engine().Status().Plan)
	})
}
