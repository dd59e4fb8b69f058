package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/policy/matrix"
)

// PolyBase's section 6.5 in virtual time, where the load of the machine has no influence: the
// figures "hotness" and "correlation" of godwit bench polybase.

// deed is one completed transaction, which updated rows one after the other.
type deed struct {
	region int // from 0
	took   time.Duration
	trips  float64
}

type deeds []deed

func (d deeds) of(region int) (out deeds) {
	for _, x := range d {
		if x.region == region {
			out = append(out, x)
		}
	}
	return out
}

func (d deeds) median() time.Duration {
	s := slices.SortedFunc(slices.Values(d), func(a, b deed) int { return int(a.took - b.took) })
	return s[len(s)/2].took
}

func (d deeds) trips() (sum float64) {
	for _, x := range d {
		sum += x.trips
	}
	return sum / float64(len(d))
}

func (d deeds) String() string {
	return fmt.Sprintf("%d transactions, median %v, %.2f round trips", len(d), d.median().Round(time.Millisecond), d.trips())
}

// trade is closed-loop work in three regions far apart.
type trade struct {
	homes  home.Params
	rows   [3][]base.Key                             // by first home
	per    [3]int                                    // clients
	next   func(region int, r *rand.Rand) []base.Key // rows of a transaction
	settle time.Duration
	run    time.Duration
}

// play returns the transactions after the policy has settled, and the number of rows that moved
// meanwhile.
func (w trade) play(t *testing.T) (done deeds, moved int64) {
	m, err := matrix.Open(matrix.AWS)
	if err == nil {
		m, err = m.Pick("us-east-1", "eu-west-1", "ap-northeast-1") // R4, R5, R6
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := stageConfig(3)
	cfg.Delay, cfg.Homes = m.OneWays(), &w.homes
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(20 * time.Second) // leaders go home
		for region, ks := range w.rows {
			for part := range slices.Chunk(ks, 2000) {
				if _, err := kv.Run(context.Background(), s.db(region+1), kv.Options{}, func(t kv.Txn) error {
					for _, k := range part {
						t.Put(k, make([]byte, 100), 0)
						t.Move(k, base.RegionID(region+1), kv.MoveOptions{})
					}
					return nil
				}); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Second)
		moves := func() int64 { _, n := s.hosts[0].up().node.Owners().Moves(); return n }
		began := time.Now()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for region, n := range w.per {
			for c := range n {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(region), uint64(c)))
					for time.Since(began) < w.settle+w.run {
						x := deed{region: region}
						var tr obs.Trace
						start := time.Now()
						if err := s.update(region+1, &tr, w.next(region, r)); err != nil {
							s.t.Error(err)
							return
						}
						x.took, x.trips = time.Since(start), tr.RTTs()
						if start.Sub(began) >= w.settle {
							mu.Lock()
							done = append(done, x)
							mu.Unlock()
						}
					}
				})
			}
		}
		time.Sleep(w.settle)
		moved = -moves()
		wg.Wait()
		moved += moves()
	})
	return done, moved
}

// update updates rows one after the other, and moves each if its owner advises it.
func (s *stage) update(at int, tr *obs.Trace, ks []base.Key) error {
	ctx := context.Background()
	_, err := kv.Run(ctx, s.db(at), kv.Options{Trace: tr}, func(t kv.Txn) error {
		for _, k := range ks {
			rows, err := t.Get(ctx, []base.Key{k}, kv.LockExclusive)
			if err != nil {
				return err
			}
			t.Put(k, make([]byte, 100), 0)
			if rows[0].Advice != 0 {
				t.Move(k, rows[0].Advice, kv.MoveOptions{Soft: true})
			}
		}
		return nil
	})
	return err
}

func rowOf(region, n int) base.Key {
	return base.AppendInt64(base.IndexPrefix(1, base.MakeTableID(3000, base.RegionID(region+1)), 0, 0), int64(n))
}

// TestHotness: rows that other regions use sometimes stay where they are used most. The paper has
// 63 % less median latency and 90 % fewer moves than when every access moves a row.
func TestHotness(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes a quarter of a minute")
	}
	const rows = 20_000 // a region: clients seldom meet at one
	play := func(mode home.Mode) (deeds, int64) {
		w := trade{homes: home.Params{Mode: mode}, per: [3]int{6, 6, 6}, settle: 2 * time.Second, run: 20 * time.Second}
		for region := range 3 {
			for n := range rows {
				at := region
				if mode == home.Always && n%10 == 0 { // as they lie in the long run
					at = (region + 1 + n/10%2) % 3
				}
				w.rows[at] = append(w.rows[at], rowOf(region, n))
			}
		}
		w.next = func(region int, r *rand.Rand) (ks []base.Key) {
			for range 5 {
				at := region
				if r.IntN(10) == 0 {
					at = (region + 1 + r.IntN(2)) % 3
				}
				ks = append(ks, rowOf(at, r.IntN(rows)))
			}
			return ks
		}
		return w.play(t)
	}
	hot, few := play(home.Hotness)
	all, many := play(home.Always)
	for region := range 3 {
		a, b := hot.of(region), all.of(region)
		t.Logf("R%d: hotness: %v; always: %v", region+4, a, b)
		if a.median() > b.median()/2 {
			t.Errorf("R%d: median %v, and %v if every access moves a row", region+4, a.median(), b.median())
		}
	}
	t.Logf("all: hotness: %v; always: %v; %d moves, and %d", hot, all, few, many)
	if few > many/10 || many == 0 || len(hot) < len(all)*5/4 {
		t.Errorf("%d moves and %d transactions, and %d and %d if every access moves a row", few, len(hot), many, len(all))
	}
}

// TestCorrelation: if rows are used in pairs, the second one moves with the first. The paper has
// 30.8 % more throughput, one round trip less.
func TestCorrelation(t *testing.T) {
	const pairs = 300
	cum, sum := make([]float64, pairs), 0.0
	for i := range cum {
		sum += 1 / math.Pow(float64(i+1), .99)
		cum[i] = sum
	}
	play := func(prefetch int) deeds {
		w := trade{per: [3]int{3, 0, 3}, settle: 10 * time.Second, run: 40 * time.Second,
			homes: home.Params{Mode: home.Hotness, Prefetch: prefetch,
				DecayTime: home.Duration(500 * time.Millisecond), MinStay: home.Duration(100 * time.Millisecond),
				MineInterval: home.Duration(200 * time.Millisecond), MiningRows: 32, MinFreq: 4}}
		for n := range 2 * pairs {
			w.rows[0] = append(w.rows[0], rowOf(0, n))
		}
		w.next = func(_ int, r *rand.Rand) []base.Key {
			p, _ := slices.BinarySearch(cum, r.Float64()*sum)
			p = min(p, pairs-1)
			return []base.Key{rowOf(0, 2*p), rowOf(0, 2*p+1)}
		}
		done, _ := w.play(t)
		return done
	}
	with, alone := play(0), play(-1)
	for _, region := range []int{0, 2} {
		t.Logf("R%d: prefetch: %v; alone: %v", region+4, with.of(region), alone.of(region))
	}
	t.Logf("all: prefetch: %v; alone: %v", with, alone)
	// Most pairs live in R4, whose commits take half the time of R6's. So the gain is R6's.
	a, b := with.of(2), alone.of(2)
	if a.trips() > b.trips()-.5 || len(a) < len(b)*23/20 || len(with) < len(alone) {
		t.Errorf("R6: prefetch: %v; alone: %v", a, b)
	}
}
