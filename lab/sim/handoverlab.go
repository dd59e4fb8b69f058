package sim

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner/gauge"
)

// handoverLab is a cluster under load whose first group's lead moves.
type handoverLab struct {
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

func newHandoverLab(cfg Config) *handoverLab {
	l := &handoverLab{w: newWorld(cfg), group: base.DataGroup(1, 1), stop: make(chan struct{}),
		failures: map[string]int{}, counts: map[string]int{}, unknown: map[string]int{}}
	l.w.seen = func(s gauge.Service) {
		if s.Group != l.group {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.Kind == gauge.WriteService {
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

// load runs clients through a node. They increment keys of their own and shared ones, with a pause
// between the locking read and the commit, and make locking reads. Nothing is retried.
func (l *handoverLab) load(h *host, clients int, every time.Duration) {
	for i := range clients {
		l.wg.Go(func() {
			for n := 0; !l.stopped(); n++ {
				key := labKey("own", int(h.id)*1000+i)
				// some waits for locks, but none so long that it counts as a deadlock
				if h.id == 1 && n%2 == 0 {
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
			time.Sleep(every)
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

// check compares the values of the keys with the acknowledged increments.
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
			l.w.fail("%v cannot be read: %v", base.Key(key), err)
		}
		if v < n || v > n+l.unknown[key] {
			l.w.fail("%v: %d increments were acknowledged, %d are of unknown outcome, and it is %d", base.Key(key), n,
				l.unknown[key], v)
		}
	}
}

// handOver orders the leader to hand over, as soon as the target is up to date, and returns the
// time at which that began.
func (l *handoverLab) handOver(to base.NodeID) time.Duration {
	for range 100 {
		if h := l.leader(); h != nil && h.up().node.Groups().Group(l.group).Transfer(to) == nil {
			return l.w.now()
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.w.fail("the hand-over does not begin")
	return l.w.now()
}

// noFailures reports transactions that failed, the first few.
func (l *handoverLab) noFailures() {
	i := 0
	for e, n := range l.failures {
		if i++; i > 5 {
			l.w.fail("%d kinds of failures in all", len(l.failures))
			return
		}
		l.w.fail("%d transactions failed: %s", n, e)
	}
}

// gap is the longest time without an event between two times.
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

// HandoverCost is what a change of the leader of a group costs its clients.
type HandoverCost struct {
	// Reads is the longest time in which no locking read was served, Commits that in which no
	// commit took effect.
	Reads, Commits time.Duration
	// Elected is the time until another node was raft's leader.
	Elected time.Duration
	// Transactions have succeeded. Failed were refused or have an unknown outcome. None was
	// retried.
	Transactions, Failed int
	// Passed is the number of requests that the old leader passed on.
	Passed int
}

// MeasureHandover moves the lead of a group from region 1 to region 2 under load from all regions.
// With lost, it cuts the leader off instead. It must be called in a testing/synctest bubble.
func MeasureHandover(delay [][]time.Duration, lost bool) (c HandoverCost, err error) {
	l := newHandoverLab(Config{Seed: 1, Regions: len(delay), NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
		ClockBound: 100 * time.Microsecond, Delay: delay, GCAge: time.Hour, Stay: true})
	if !l.settle() {
		l.w.fail("the group is not led from home")
	}
	time.Sleep(5 * time.Second)
	every := time.Millisecond
	if lost { // requests pile up while they wait for the new leader
		every = 20 * time.Millisecond
	}
	for _, h := range l.w.hosts {
		if !lost || h.id != 1 { // a node that is alone with the leader does not count
			l.load(h, 3, every)
		}
	}
	time.Sleep(time.Second)
	from, watch := l.w.now(), 600*time.Millisecond // then the lead goes home
	if lost {
		watch = 10 * time.Second
		l.w.net.Isolate(1)
	} else {
		from = l.handOver(2)
	}
	for c.Elected == 0 && l.w.now() < from+watch {
		time.Sleep(time.Millisecond)
		for _, h := range l.w.hosts {
			if n, _ := h.up().node.Groups().Group(l.group).Leader(); n == h.id && n != 1 {
				c.Elected = l.w.now() - from
			}
		}
	}
	time.Sleep(from + watch - l.w.now())
	close(l.stop)
	l.wg.Wait()
	c.Reads, c.Commits = gap(l.reads, from, from+watch), gap(l.writes, from, from+watch)
	c.Transactions = len(l.ends)
	for _, n := range l.failures {
		c.Failed += n
	}
	l.w.net.HealAll()
	time.Sleep(10 * time.Second)
	l.check()
	for _, h := range l.w.hosts {
		c.Passed += int(h.up().node.Owners().Replica(l.group).Stats().Helped.Load())
	}
	err = l.w.err()
	l.w.close()
	return c, err
}
