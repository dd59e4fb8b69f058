package group

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
)

// op is one proposal of a random run.
type op struct {
	value      uint64
	start, end time.Time
	prev       uint64 // what the register held, if acknowledged
	index      uint64
	err        error
}

// checkHistory checks the outcome of proposals against the log that came of them:
// the log is a sequential execution, so the history is linearizable iff every
// acknowledged operation is in it once, with the result it was given, in an order
// that respects real time; and nothing that was refused is in it.
func checkHistory(t *testing.T, ops []*op, log []logged) {
	t.Helper()
	at := map[uint64]int{}
	for i, e := range log {
		if j, ok := at[e.value]; ok {
			t.Fatalf("value %d is in the log twice, at %d and %d", e.value, log[j].index, e.index)
		}
		at[e.value] = i
	}
	var acked []*op
	counts := map[string]int{}
	for _, o := range ops {
		i, in := at[o.value]
		switch {
		case o.err == nil:
			counts["ok"]++
			if !in || log[i].index != o.index {
				t.Fatalf("value %d was acknowledged at index %d and is not there", o.value, o.index)
			}
			var prev uint64
			if i > 0 {
				prev = log[i-1].value
			}
			if prev != o.prev {
				t.Fatalf("value %d at index %d: was answered %d, the register held %d", o.value, o.index, o.prev, prev)
			}
			acked = append(acked, o)
		case base.CodeOf(o.err) == base.CodeAmbiguous:
			counts[fmt.Sprintf("ambiguous, in the log: %v", in)]++
		default:
			counts[base.CodeOf(o.err).String()]++
			if in {
				t.Fatalf("value %d was refused (%v) and is at index %d", o.value, o.err, log[i].index)
			}
		}
	}
	slices.SortFunc(acked, func(a, b *op) int { return a.end.Compare(b.end) })
	for i, a := range acked {
		for _, b := range acked[i+1:] {
			if a.end.Before(b.start) && a.index > b.index {
				t.Fatalf("value %d (index %d) was acknowledged before value %d (index %d) began", a.value, a.index,
					b.value, b.index)
			}
		}
	}
	t.Logf("%d entries, outcomes %v", len(log), counts)
}

type logged struct{ index, value uint64 }

// recorder keeps all that any replica ever applied, and that they agree.
type recorder struct {
	mu   sync.Mutex
	at   map[uint64]uint64 // index -> value
	deaf bool              // what is applied now is of a node that has crashed already
}

func (r *recorder) add(index, value uint64, fatal func(string, ...any)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deaf {
		return
	}
	if v, ok := r.at[index]; ok && v != value {
		fatal("index %d holds %d and %d", index, v, value)
	}
	r.at[index] = value
}

func (r *recorder) setDeaf(on bool) {
	r.mu.Lock()
	r.deaf = on
	r.mu.Unlock()
}

func (r *recorder) log() (out []logged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, v := range r.at {
		out = append(out, logged{i, v})
	}
	slices.SortFunc(out, func(a, b logged) int { return int(a.index) - int(b.index) })
	return out
}

func seeds(t *testing.T, def int) []uint64 {
	if s := os.Getenv("GROUP_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		must(t, err)
		return []uint64{n}
	}
	if s := os.Getenv("SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		def = n
	}
	var out []uint64
	for i := range def {
		out = append(out, uint64(i)+1)
	}
	return out
}

// TestRandomFaults: clients write through whoever leads while nodes crash and
// lose unsynced writes, links are cut and messages lost, leaders are moved.
// GROUP_SEED=n repeats one seed, SEEDS=n runs that many.
func TestRandomFaults(t *testing.T) {
	for _, seed := range seeds(t, 5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			virtual(t, seed, func(t *testing.T) { randomFaults(t, seed, false) })
		})
	}
}

// TestRandomFaultsOver is the same with messages that travel over other nodes.
func TestRandomFaultsOver(t *testing.T) {
	var all overlay.Stats // of the last lives: a run whose nodes all died late has few
	for _, seed := range seeds(t, 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			virtual(t, seed, func(t *testing.T) {
				s := randomFaults(t, seed, true)
				all.SharedMsgs, all.PassedMsgs, all.Refused = all.SharedMsgs+s.SharedMsgs,
					all.PassedMsgs+s.PassedMsgs, all.Refused+s.Refused
			})
		})
	}
	checkOver(t, all)
}

func randomFaults(t *testing.T, seed uint64, over bool) (s overlay.Stats) {
	net := wan.NetOptions{
		WAN:       wan.LinkSpec{Delay: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.02},
		DropSends: true,
	}
	opts := HostOptions{LogKeepEntries: 20, SnapshotChunkBytes: 2000, SnapshotTimeout: 3 * time.Second}
	c := newCluster(t, seed, 3+2*int(seed%2), net, opts)
	defer c.close()
	c.groups[testGroup] = c.all()
	c.rows = true
	if over {
		c.spread()
		c.groups[testGroup] = Conf{Voters: c.ids[:len(c.ids)-2], Learners: c.ids[len(c.ids)-2:]}
	}
	if seed%3 == 0 {
		c.preferred[testGroup] = 2
	}
	rec := &recorder{at: map[uint64]uint64{}}
	c.record = rec
	c.startAll()

	var (
		mu    sync.Mutex
		ops   []*op
		value uint64
		wg    sync.WaitGroup
		stop  = make(chan struct{})
	)
	for client := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				value++
				o := &op{value: value}
				g := c.group(c.ids[(client+n)%len(c.ids)], testGroup)
				mu.Unlock()
				if g == nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				if lead, _ := g.Leader(); lead != 0 {
					mu.Lock()
					if h := c.group(lead, testGroup); h != nil {
						g = h
					}
					mu.Unlock()
				}
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				o.start = time.Now()
				res, index, err := g.Propose(ctx, put(o.value), 0)
				cancel()
				o.end, o.index, o.err = time.Now(), index, err
				if err == nil {
					o.prev = res.(uint64)
				}
				mu.Lock()
				ops = append(ops, o)
				mu.Unlock()
				time.Sleep(time.Duration(5+n%20) * time.Millisecond)
			}
		})
	}
	down := base.NodeID(0)
	for range 40 {
		time.Sleep(time.Duration(100+c.rng.IntN(1500)) * time.Millisecond)
		id := c.ids[c.rng.IntN(len(c.ids))]
		switch c.rng.IntN(7) {
		case 0, 1:
			if down == 0 {
				mu.Lock()
				c.crash(id)
				mu.Unlock()
				down = id
				for _, o := range c.ids {
					if o != id && c.rng.IntN(2) == 0 {
						c.nodes[o].host.OnPeerDown(id)
					}
				}
			}
		case 2, 3:
			if down != 0 {
				mu.Lock()
				c.start(down)
				mu.Unlock()
				down = 0
			}
		case 4:
			c.net.Isolate(id)
			time.Sleep(time.Duration(c.rng.IntN(6000)) * time.Millisecond)
			c.net.HealAll()
		case 5:
			c.net.CutNodes(id, c.ids[c.rng.IntN(len(c.ids))])
		case 6:
			c.net.HealAll()
			for _, o := range c.ids {
				if g := c.group(o, testGroup); g != nil {
					_ = g.Transfer(id)
				}
			}
		}
	}
	c.net.HealAll()
	if down != 0 {
		mu.Lock()
		c.start(down)
		mu.Unlock()
	}
	c.leader(testGroup)
	time.Sleep(5 * time.Second)
	close(stop)
	wg.Wait()
	c.leader(testGroup)
	c.converge(testGroup)
	checkHistory(t, ops, rec.log())
	var snaps Stats
	for _, m := range c.nodes {
		x := m.host.Stats()
		snaps.SnapshotsSent += x.SnapshotsSent
		snaps.SnapshotsFailed += x.SnapshotsFailed
	}
	t.Logf("snapshots of the last lives: %d sent, %d failed", snaps.SnapshotsSent, snaps.SnapshotsFailed)
	if over {
		s = c.overStats()
		t.Logf("%+v", s)
	}
	return s
}
