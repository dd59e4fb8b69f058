package sim

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
)

// handoverLab is a cluster under load whose first group's lead moves.
type handoverLab struct {
	t     *testing.T
	w     *world
	group base.GroupID
	stop  chan struct{}
	wg    sync.WaitGroup

	mu       sync.Mutex
	reads    []time.Duration // when keys were shown under locks, by any owner of the group
	writes   []time.Duration // when commits took effect
	failures map[string]int
	ends     []time.Duration // of successful transactions
	counts   map[string]int  // increments acknowledged, by key
	unknown  map[string]int  // of unknown outcome
}

func handoverDelays() [][]time.Duration {
	const ms = time.Millisecond
	return [][]time.Duration{{0, 40 * ms, 70 * ms}, {40 * ms, 0, 60 * ms}, {70 * ms, 60 * ms, 0}}
}

func newHandoverLab(t *testing.T, cfg Config) *handoverLab {
	l := &handoverLab{t: t, w: newWorld(cfg), group: base.DataGroup(1, 1), stop: make(chan struct{}),
		failures: map[string]int{}, counts: map[string]int{}, unknown: map[string]int{}}
	l.w.seen = func(s owner.Service) {
		if s.Group != l.group {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.Kind == owner.WriteService {
			l.writes = append(l.writes, l.w.now())
		} else {
			l.reads = append(l.reads, l.w.now())
		}
	}
	for _, h := range l.w.hosts {
		h.boot()
	}
	return l
}

func (l *handoverLab) leader() *host { return l.w.leaderOf(l.group) }

// settle waits until the group is led from where it prefers to be.
func (l *handoverLab) settle() bool {
	for range 600 {
		if h := l.leader(); h != nil && h.id == 1 {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

func (l *handoverLab) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

func labKey(name string, i int) base.Key {
	return base.AppendInt64(append(base.IndexPrefix(1, base.MakeTableID(2000, 1), 0, 0), name...), int64(i))
}

// load runs clients through a node: increments of keys of their own and of shared ones, with a pause between the locking read and
// the commit, and locking reads. None is tried again.
func (l *handoverLab) load(h *host, clients int) {
	for i := range clients {
		l.wg.Go(func() {
			for n := 0; !l.stopped(); n++ {
				key := labKey("own", int(h.id)*1000+i)
				if h.id == 1 && n%2 == 0 { // waits for locks, but not for so long that they count as deadlocks
					key = labKey("all", i/2)
				}
				l.increment(h, key, time.Duration(n%3)*15*time.Millisecond)
				time.Sleep(time.Duration(1+i%7) * time.Millisecond)
			}
		})
	}
	l.wg.Go(func() { // an open loop of locking reads, and of increments of many keys
		for n := 0; !l.stopped(); n++ {
			if n%2 == 0 {
				l.wg.Go(func() { l.increment(h, labKey("open", 1000*int(h.id)+n/2%500), 0) })
			} else {
				l.wg.Go(func() { l.read(h, labKey("read", n%100)) })
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func (l *handoverLab) increment(h *host, key base.Key, think time.Duration) {
	p := h.up()
	if p == nil {
		time.Sleep(50 * time.Millisecond)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	x := p.node.DB().Begin(kv.Options{})
	rows, err := x.Get(ctx, []base.Key{key}, kv.LockExclusive)
	if err == nil {
		v := 0
		if len(rows) > 0 && rows[0].Value != nil {
			v, _ = strconv.Atoi(string(rows[0].Value))
		}
		if think > 0 {
			time.Sleep(think)
		}
		x.Put(key, []byte(strconv.Itoa(v+1)), 1)
		_, err = x.Commit(ctx)
	}
	x.Rollback(ctx)
	if p.dead.Load() {
		if err == nil {
			err = base.Errorf(base.CodeAmbiguous, "the gateway died")
		}
		l.done(key, err, true)
		return
	}
	l.done(key, err, true)
}

func (l *handoverLab) read(h *host, key base.Key) {
	p := h.up()
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	x := p.node.DB().Begin(kv.Options{})
	_, err := x.Get(ctx, []base.Key{key}, kv.LockShared)
	if err == nil {
		_, err = x.Commit(ctx)
	}
	x.Rollback(ctx)
	if !p.dead.Load() {
		l.done(key, err, false)
	}
}

func (l *handoverLab) done(key base.Key, err error, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.ends = append(l.ends, l.w.now())
		if write {
			l.counts[string(key)]++
		}
	case write && (base.CodeOf(err) == base.CodeAmbiguous || base.CodeOf(err) == base.CodeCanceled):
		l.unknown[string(key)]++
		l.failures["unknown: "+err.Error()]++
	default:
		l.failures[base.CodeOf(err).String()+": "+err.Error()]++
	}
}

// check holds what the keys say against what was acknowledged.
func (l *handoverLab) check() {
	ctx := context.Background()
	l.mu.Lock()
	counts := maps.Clone(l.counts)
	l.mu.Unlock()
	for key, n := range counts {
		var v int
		_, err := kv.Run(ctx, l.w.hosts[2].up().node.DB(), kv.Options{}, func(x kv.Txn) error {
			rows, err := x.Get(ctx, []base.Key{base.Key(key)}, kv.LockShared)
			if err == nil && len(rows) > 0 {
				v, _ = strconv.Atoi(string(rows[0].Value))
			}
			return err
		})
		if err != nil {
			l.t.Errorf("%v cannot be read: %v", base.Key(key), err)
		}
		if v < n || v > n+l.unknown[key] {
			l.t.Errorf("%v: %d increments were acknowledged, %d are of unknown outcome, and it is %d", base.Key(key), n, l.unknown[key], v)
		}
	}
}

// handOver has the leader hand over, as soon as it finds that the target is up to date, and returns when that began.
func (l *handoverLab) handOver(to base.NodeID) time.Duration {
	for range 100 {
		if h := l.leader(); h != nil && h.up().node.Groups().Group(l.group).Transfer(to) == nil {
			return l.w.now()
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.t.Error("the hand-over does not begin")
	return l.w.now()
}

// noFailures reports transactions that failed, the first few.
func (l *handoverLab) noFailures() {
	i := 0
	for e, n := range l.failures {
		if i++; i > 5 {
			l.t.Errorf("%d kinds of failures in all", len(l.failures))
			return
		}
		l.t.Errorf("%d transactions failed: %s", n, e)
	}
}

// gap is the longest time without an event within a time.
func gap(at []time.Duration, from, to time.Duration) (longest time.Duration) {
	last := from
	for _, t := range at {
		if t < from {
			continue
		}
		if t > to {
			break
		}
		longest, last = max(longest, t-last), t
	}
	return max(longest, to-last)
}

// TestHandover: the lead of a group moves under write load, there by command and back by preference. No transaction fails or is lost or
// runs twice, those with locks go on, and the pause is within the budget.
func TestHandover(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond, ClockBound: 100 * time.Microsecond,
		Delay: handoverDelays(), GCAge: time.Hour, Stay: true}
	cryptotest.SetGlobalRandom(t, 1)
	runtime.GC()
	runtime.GC()
	var l *handoverLab
	synctest.Test(t, func(*testing.T) {
		l = newHandoverLab(t, cfg)
		if !l.settle() {
			t.Error("the group is not led from home")
		}
		time.Sleep(5 * time.Second)
		for _, h := range l.w.hosts {
			l.load(h, 5)
		}
		time.Sleep(time.Second)
		began := l.handOver(2)
		time.Sleep(time.Second)
		if h := l.leader(); h == nil || h.id != 2 {
			t.Errorf("the lead did not move: %+v", h)
		}
		l.mu.Lock()
		reads, writes := gap(l.reads, began, began+time.Second), gap(l.writes, began, began+time.Second)
		before := gap(l.writes, began-time.Second, began)
		l.mu.Unlock()
		const oneWay, quorum = 40 * time.Millisecond, 80 * time.Millisecond
		t.Logf("pause of reads %v, of commits %v (without a move %v); a round trip takes %v", reads, writes, before, 2*oneWay)
		if reads > oneWay+quorum+10*time.Millisecond {
			t.Errorf("reads paused for %v, the budget is a one-way trip and a quorum, %v", reads, oneWay+quorum)
		}
		if writes > oneWay+2*quorum+20*time.Millisecond {
			t.Errorf("commits paused for %v, the budget is a one-way trip and two quorums, %v", writes, oneWay+2*quorum)
		}
		time.Sleep(4 * time.Second)
		if h := l.leader(); h == nil || h.id != 1 {
			t.Errorf("the lead did not go home: %+v", h)
		}
		close(l.stop)
		l.wg.Wait()
		l.noFailures()
		l.check()
		var handed, inherited, helped int64
		for _, h := range l.w.hosts {
			s := h.up().node.Owners().Replica(l.group).Stats()
			handed, inherited, helped = handed+s.HandedOver.Load(), inherited+s.Inherited.Load(), helped+s.Helped.Load()
		}
		t.Logf("%d transactions, %d hand-overs, %d taken up, %d requests passed on", len(l.ends), handed, inherited, helped)
		if handed < 2 || inherited < 2 {
			t.Errorf("%d hand-overs, %d taken up", handed, inherited)
		}
		if err := l.w.err(); err != nil {
			t.Error(err)
		}
		l.w.close()
	})
	if t.Failed() {
		fmt.Println(l.w.log.tail(40))
	}
}

var flagEvery = flag.Int("every", 11, "TestHandoverFaults: at every how many messages something fails")

// TestHandoverFaults: whatever fails, at whichever message of a hand-over, no acknowledged write is lost, the history is strictly
// serializable, and the cluster works on when it is healed.
func TestHandoverFaults(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond, ClockBound: 2 * time.Millisecond, SyncDelay: 2 * time.Millisecond,
		Delay: handoverDelays(), GCAge: time.Hour, Workload: "mixed", Clients: 2, Keys: 4, Think: 5 * time.Millisecond, Warmup: 2 * time.Second, Moves: 5}
	run := func(t *testing.T, f HandoverFault) *Outcome {
		c := cfg
		c.Handover = &f
		o, err := runSeed(t, c)
		if err != nil {
			t.Errorf("message %d, %s:\n%s\n%v\nhistory and journal: %s", f.At, f.What, o.Summary(), err, save(t, o))
		}
		return o
	}
	n := run(t, HandoverFault{}).Messages
	if n < 20 {
		t.Fatalf("%d messages in all", n)
	}
	runs := 0
	for i, what := range HandoverFaults {
		t.Run(what, func(t *testing.T) {
			for at := 1 + i%*flagEvery; at <= n && !t.Failed(); at += *flagEvery {
				run(t, HandoverFault{at, what})
				runs++
			}
		})
	}
	t.Logf("%d messages, %d runs", n, runs)
}
