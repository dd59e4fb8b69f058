package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/matrix"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/patch"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// tierWorld is a whole cluster, one node a region, in virtual time. Rows stay where they were made.
type tierWorld struct {
	world
	m     *matrix.Matrix
	dbs   []kv.DB // by region
	rows  int     // in each region
	zipfs map[float64]func(*rand.Rand) int
	open  atomic.Bool // all groups are there
}

const (
	tierBound = 100 * time.Microsecond // of the clocks
	tierTable = 20
	tierShard = 2 // the asynchronous one
)

// openTiers starts the nodes and fills the table. Its shards are asynchronous, that is, with all voters in their own region, as in the paper,
// where replicas are in the region or near it.
func openTiers(ctx context.Context, dir string, m *matrix.Matrix, rows int) (_ *tierWorld, err error) {
	w := &tierWorld{m: m, rows: rows, zipfs: map[float64]func(*rand.Rand) int{}, world: world{net: wan.NewNetwork(wan.NetOptions{Seed: 12})}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	w.net.SetOneWay(m.OneWays())
	ident := node.LocalIdentity(m.Names, 1, 1)
	for i, nd := range ident.First.Nodes {
		// A commit is durable when the replicas inside the region have it: a round trip there.
		inside := m.RTT[i][i]
		if err := w.add(ident, nd, store.Options{Dir: filepath.Join(dir, fmt.Sprint(nd.ID)), NoSync: true, SyncDelay: func() time.Duration {
			if !w.open.Load() {
				return 0 // groups are opened under mutexes, and who waits for one stops virtual time
			}
			return inside
		}}, node.Parts{Source: clock.NewSimulated(tierBound, uint64(nd.ID))}); err != nil {
			return nil, err
		}
		w.dbs = append(w.dbs, w.nodes[i].DB())
	}
	if err := w.nodes[0].Cluster().EnableAsync(ctx); err != nil {
		return nil, err
	}
	w.open.Store(true)
	for r := range w.dbs {
		var ks []base.Key
		for i := range rows {
			ks = append(ks, w.key(r, i))
		}
		if err := fill(ctx, w.dbs[r], ks, func() []byte { return tierRow }); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Names[r], err)
		}
	}
	time.Sleep(5 * time.Second) // all replicas have them, and round trips have been measured
	return w, nil
}

// mean is in ms.
func (k *tierKind) mean() float64 {
	var sum time.Duration
	for _, d := range k.done {
		sum += d
	}
	return sum.Seconds() * 1e3 / float64(max(1, len(k.done)))
}

// key is row i of a region. The rows of a region are neighbours, so that gaps between them are its own, too.
func (w *tierWorld) key(region, i int) base.Key {
	return base.AppendInt64(base.IndexPrefix(tierShard, base.MakeTableID(tierTable, base.RegionID(region+1)), 0, 0), int64(i))
}

// zipf draws rows; what is drawn most often is scattered over the table.
func (w *tierWorld) zipf(theta float64) func(*rand.Rand) int {
	z := w.zipfs[theta]
	if z == nil {
		z = newZipf(w.rows, theta)
		w.zipfs[theta] = z
	}
	return z
}

// tierLoad is YCSB-T as in section 4.2: transactions of ten statements, five of which read a row, and five read a row and write it.
type tierLoad struct {
	relay   bool
	policy  kv.Policy
	clients int     // in each region
	cross   float64 // share of transactions that cross: half of their rows are another region's
	theta   float64
	plain   bool // updates are not shipped: all that was read has to hold at the commit
	warm    time.Duration
	length  time.Duration
}

const tierOps = 10

// tierOp is one statement.
type tierOp struct {
	key   base.Key
	write bool
}

// tierKind is what was measured of transactions of one kind.
type tierKind struct {
	done   []time.Duration // latencies of those that committed, retries and all
	tries  int
	aborts int
}

// tierResult is what was measured; IRTs first.
type tierResult struct {
	kinds  [2]tierKind
	length time.Duration
}

// committed is how many transactions did.
func (r *tierResult) committed() int { return len(r.kinds[0].done) + len(r.kinds[1].done) }

func (r *tierResult) rate() float64 {
	return float64(r.committed()) / r.length.Seconds()
}

// aborted is the share of attempts that were aborted, in percent.
func (k *tierKind) aborted() float64 { return 100 * float64(k.aborts) / float64(max(1, k.tries)) }

func (r *tierResult) aborted() float64 {
	both := tierKind{tries: r.kinds[0].tries + r.kinds[1].tries, aborts: r.kinds[0].aborts + r.kinds[1].aborts}
	return both.aborted()
}

// ms is a quantile of the latencies.
func (k *tierKind) ms(q float64) float64 {
	if len(k.done) == 0 {
		return 0
	}
	return k.done[min(len(k.done)-1, int(q*float64(len(k.done))))].Seconds() * 1e3
}

// run has clients at work in closed loops, in virtual time: processors are free, so what is measured is who waits for whom.
func (w *tierWorld) run(l tierLoad) (*tierResult, error) {
	res := &tierResult{length: l.length}
	draw := w.zipf(l.theta)
	var (
		mu  sync.Mutex
		bad error
		wg  sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(context.Background(), l.warm+l.length)
	defer cancel()
	from := time.Now().Add(l.warm)
	for r := range w.dbs {
		for c := range l.clients {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(r)<<32|uint64(c), 0x4e1a))
				time.Sleep(rand.N(50 * time.Millisecond))
				for ctx.Err() == nil {
					kind, ops := w.next(rng, r, l.cross, draw)
					begin := time.Now()
					tries, aborts := 0, 0
					err := w.transact(ctx, r, l, ops, func(err error) {
						if time.Now().Before(from) || ctx.Err() != nil {
							return
						}
						if tries++; err != nil {
							aborts++
						}
					})
					mu.Lock()
					k := &res.kinds[kind]
					k.tries, k.aborts = k.tries+tries, k.aborts+aborts
					if err == nil && ctx.Err() == nil && !time.Now().Before(from) {
						k.done = append(k.done, time.Since(begin))
					}
					if err != nil && ctx.Err() == nil {
						bad = cmp.Or(bad, err)
						cancel()
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for i := range res.kinds {
		slices.Sort(res.kinds[i].done)
	}
	time.Sleep(2 * time.Second) // what was under way ends
	return res, bad
}

// next draws a transaction; kind 1 crosses.
func (w *tierWorld) next(rng *rand.Rand, region int, cross float64, draw func(*rand.Rand) int) (kind int, ops []tierOp) {
	other := region
	if n := len(w.dbs); n > 1 && rng.Float64() < cross {
		kind = 1
		other = (region + 1 + rng.IntN(n-1)) % n
	}
	ops = make([]tierOp, 0, tierOps)
	used := map[[2]int]bool{}
	for len(ops) < tierOps {
		at := [2]int{region, draw(rng)}
		if len(ops)%2 == 1 {
			at[0] = other
		}
		if used[at] {
			continue
		}
		used[at] = true
		ops = append(ops, tierOp{w.key(at[0], at[1]), false})
	}
	rng.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	for _, i := range rng.Perm(len(ops))[:tierOps/2] {
		ops[i].write = true
	}
	return kind, ops
}

// Pauses between the attempts of a transaction, as the database itself makes them.
const (
	tierPauseMin = time.Millisecond
	tierPauseMax = 500 * time.Millisecond
)

// transact runs a transaction until it commits, statement by statement: each costs the client a round trip inside the region, and its reads
// and writes are not known in advance. tried is told of every attempt.
func (w *tierWorld) transact(ctx context.Context, region int, l tierLoad, ops []tierOp, tried func(error)) error {
	db, inside := w.dbs[region], w.m.RTT[region][region]
	opts := kv.Options{Policy: l.policy, Relay: l.relay, Age: db.Clock()}
	aborts := 0
	for wait := tierPauseMin; ; wait = min(2*wait, tierPauseMax) {
		err := attempt(ctx, db, inside, opts, ops, l.plain)
		tried(err)
		if err == nil || !base.Retryable(err) {
			return err
		}
		if base.CodeOf(err) == base.CodeAborted { // as in kv.Run
			aborts++
			opts.Relay = opts.Relay && aborts < kv.RelayTries
		}
		time.Sleep(wait/2 + rand.N(wait))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// tierRow is a row with a number and a string, as SQL has it, and tierUpdate is `SET n = n + 1`.
var (
	tierRow    = append([]byte{1, 1 << 1, 0, 1 << 1, byte(len(rowValue))}, rowValue...)
	tierUpdate = &wire.Patch{Format: 1, Ids: []uint32{1, 2}, Classes: []byte{byte(patch.Varint), byte(patch.Blob)},
		Ops: []*wire.PatchOp{{Column: 1, Kind: wire.PatchKind_PATCH_ADD, Add: 1, Least: math.MinInt64, Most: math.MaxInt64}}}
)

// attempt is one: reads take read locks, writes are buffered and take theirs when it commits (Algorithm 1 of the paper).
func attempt(ctx context.Context, db kv.DB, inside time.Duration, opts kv.Options, ops []tierOp, plain bool) error {
	t := db.Begin(opts)
	defer t.Rollback(context.Background())
	for _, o := range ops {
		time.Sleep(inside)
		rows, err := t.Get(ctx, []base.Key{o.key}, kv.LockShared)
		if err != nil {
			return err
		}
		if o.write {
			value, ok := patch.Apply(tierUpdate, rows[0].Value)
			if !ok {
				return fmt.Errorf("row %v cannot be updated", o.key)
			}
			if plain {
				t.Put(o.key, value, 0)
			} else {
				t.Update(o.key, value, tierUpdate)
			}
		}
	}
	time.Sleep(inside)
	_, err := t.Commit(ctx)
	return err
}
