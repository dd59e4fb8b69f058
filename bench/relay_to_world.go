package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/matrix"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wan"
)

// orderWorld is a whole cluster that orders by timestamps, three nodes a region, in virtual time. Commits
// wait for a majority of regions, and rows stay where they were made.
type orderWorld struct {
	world
	dbs    [][]kv.DB // by region, and node of it
	zipf   func(*rand.Rand) int
	orders atomic.Int64
}

const (
	orderNodes = 3 // of a region
	orderBound = time.Millisecond
	orderDisk  = 500 * time.Microsecond // of a synced write
	orderLAN   = 250 * time.Microsecond // one way
	orderShard = 2                      // the timestamp managers are leaders of shard 1
	orderRows  = 5000                   // of YCSB-T in a region: the paper has 600,000 for more clients
	orderTheta = .75
	orderShare = .1 // of transactions that cross regions
	orderWares = 24 // in a region
)

// Tables.
const (
	orderYCSB = 30 + iota
	orderWare // the warehouse, its districts, its customers
	orderStock
	orderOrder
	orderHistory
)

func openOrdered(ctx context.Context, m *matrix.Matrix, how base.Concurrency) (_ *orderWorld, err error) {
	w := &orderWorld{world: world{net: wan.NewNetwork(wan.NetOptions{Seed: 12, LAN: wan.LinkSpec{Delay: orderLAN}})}, zipf: newZipf(orderRows, orderTheta)}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	w.net.SetOneWay(m.OneWays())
	ident := node.LocalIdentity(m.Names, orderNodes, 2)
	ident.First.Concurrency = how
	rng := rand.New(rand.NewPCG(1, 2))
	var disk atomic.Int64 // ns of a sync: none yet, since nodes begin under locks, and virtual time would wait for those
	for i, nd := range ident.First.Nodes {
		src := clock.NewSimulated(orderBound, uint64(nd.ID))
		src.Set(time.Duration((2*rng.Float64()-1)*float64(orderBound)), 0, orderBound)
		if err := w.add(ident, nd, store.Options{Dir: "db", FS: store.Memory(), SyncDelay: func() time.Duration { return time.Duration(disk.Load()) }}, node.Parts{Source: src}); err != nil {
			return nil, err
		}
		if i%orderNodes == 0 {
			w.dbs = append(w.dbs, nil)
		}
		w.dbs[i/orderNodes] = append(w.dbs[i/orderNodes], w.nodes[i].DB())
	}
	time.Sleep(5 * time.Second) // leaders are elected
	for r := range w.dbs {
		var ks []base.Key
		for i := range orderRows {
			ks = append(ks, w.key(orderYCSB, r, int64(i)))
		}
		for n := range orderWares {
			ks = append(append(ks, w.keys(orderWare, r, n, 0, wareRows)...), w.keys(orderStock, r, n, 0, mallItems)...)
		}
		if err := fill(ctx, w.dbs[r][0], ks, func() []byte { return rowValue }); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Names[r], err)
		}
	}
	disk.Store(int64(orderDisk))
	time.Sleep(5 * time.Second) // all replicas have them
	return w, nil
}

// key is a row of a region. The rows of a region are neighbours, so that gaps between them are its own, too.
func (w *orderWorld) key(table, region int, n ...int64) base.Key {
	k := base.IndexPrefix(orderShard, base.MakeTableID(uint64(table), base.RegionID(region+1)), 0, 0)
	for _, v := range n {
		k = base.AppendInt64(k, v)
	}
	return k
}

// keys are rows from, from+1, ... of a warehouse.
func (w *orderWorld) keys(table, region, ware int, from int64, n int) (out []base.Key) {
	for i := range int64(n) {
		out = append(out, w.key(table, region, int64(ware), from+i))
	}
	return out
}

// other is a region of which a transaction uses rows besides its own.
func (w *orderWorld) other(r *rand.Rand, region int) int {
	return (region + 1 + r.IntN(len(w.dbs)-1)) % len(w.dbs)
}

// ycsbT draws a transaction as in section 4.2: ten statements, five of which read a row, and five read a row and write it.
func (w *orderWorld) ycsbT(r *rand.Rand, region int) (steps job) {
	other := region
	if r.Float64() < orderShare {
		other = w.other(r, region)
	}
	used := map[string]bool{}
	for len(steps) < 10 {
		at := region
		if len(steps)%2 == 1 {
			at = other
		}
		k := w.key(orderYCSB, at, int64(w.zipf(r)))
		if !used[string(k)] {
			used[string(k)] = true
			steps = append(steps, op{Kind: opRead, Keys: []base.Key{k}})
		}
	}
	r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, i := range r.Perm(len(steps))[:5] {
		steps[i].Kind = opUpdate
	}
	return steps
}

// tpcC draws one of TPC-C's transactions, on keys. One line in a hundred and 15 % of payments are of another warehouse, which
// is in another region here: 11 % of the transactions cross, as in the paper.
func (w *orderWorld) tpcC(r *rand.Rand, region int) job {
	ware := r.IntN(orderWares)
	row := func(table, region int, n int64) base.Key { return w.key(table, region, int64(ware), n) }
	read := func(ks ...base.Key) op { return op{Kind: opRead, Keys: ks} }
	update := func(ks ...base.Key) op { return op{Kind: opUpdate, Keys: ks} }
	insert := func(ks ...base.Key) op { return op{Kind: opInsert, Keys: ks} }
	customer := func(region int) base.Key { return row(orderWare, region, int64(firstCustomer+r.IntN(mallCustomers))) }
	district := row(orderWare, region, int64(firstDistrict+r.IntN(mallDistricts)))
	var stock []base.Key
	for _, i := range r.Perm(mallItems)[:mallLines] {
		at := region
		if r.IntN(100) < 2 { // half as many lines as in the standard
			at = w.other(r, region)
		}
		stock = append(stock, row(orderStock, at, int64(i)))
	}
	o := w.orders.Add(1) * orderKeys
	switch n := r.IntN(100); {
	case n < 45: // New-Order
		return job{read(row(orderWare, region, 0), customer(region)), update(district), update(stock...), insert(w.keys(orderOrder, region, ware, o, 1+mallLines)...)}
	case n < 88: // Payment
		payer := region
		if r.IntN(100) < 15 {
			payer = w.other(r, region)
		}
		return job{update(row(orderWare, region, 0)), update(district), update(customer(payer)), insert(row(orderHistory, region, o))}
	case n < 92: // Delivery
		return job{update(w.keys(orderStock, region, ware, 0, mallDistricts)...), update(customer(region))}
	case n < 96: // Order-Status
		return job{read(customer(region)), read(w.keys(orderStock, region, ware, 0, mallLines)...)}
	default: // Stock-Level
		return job{read(district), read(w.keys(orderStock, region, ware, 0, mallItems)...)}
	}
}

// orderLoad is clients in closed loops.
type orderLoad struct {
	next         func(w *orderWorld, r *rand.Rand, region int) job
	clients      int // in each region
	warm, length time.Duration
}

// orderResult is what was measured.
type orderResult struct {
	done                    []time.Duration // latencies of those that committed, retries and all
	tries, aborts           int
	length                  time.Duration
	movedUp, pushed, orders int64
}

func (r *orderResult) rate() float64 { return float64(len(r.done)) / r.length.Seconds() }

func (r *orderResult) aborted() float64 { return 100 * float64(r.aborts) / float64(max(1, r.tries)) }

// ms is a quantile of the latencies.
func (r *orderResult) ms(q float64) float64 {
	return r.done[min(len(r.done)-1, int(q*float64(len(r.done))))].Seconds() * 1e3
}

func (r *orderResult) mean() float64 {
	var sum time.Duration
	for _, d := range r.done {
		sum += d
	}
	return sum.Seconds() * 1e3 / float64(len(r.done))
}

// run has clients at work in virtual time: processors are free, so what is measured is who waits for whom, and how often.
func (w *orderWorld) run(l orderLoad) (*orderResult, error) {
	res := &orderResult{length: l.length}
	var (
		mu  sync.Mutex
		bad error
		wg  sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(context.Background(), l.warm+l.length)
	defer cancel()
	from := time.Now().Add(l.warm)
	before := w.counts()
	for region, dbs := range w.dbs {
		for c := range l.clients {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(region)<<32|uint64(c), 0x70))
				time.Sleep(time.Duration(rng.IntN(int(50 * time.Millisecond))))
				for ctx.Err() == nil {
					steps := l.next(w, rng, region)
					begin := time.Now()
					tries, err := transactSteps(ctx, dbs[c%len(dbs)], steps, rng)
					mu.Lock()
					if ended := time.Now(); ctx.Err() == nil && !ended.Before(from) {
						res.tries += tries
						if err == nil {
							res.aborts += tries - 1
							res.done = append(res.done, ended.Sub(begin))
						}
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
	slices.Sort(res.done)
	after := w.counts()
	res.movedUp, res.pushed, res.orders = after[0]-before[0], after[1]-before[1], after[2]-before[2]
	time.Sleep(3 * time.Second) // what was under way ends
	if bad == nil && len(res.done) == 0 {
		bad = errors.New("no transaction committed in time")
	}
	return res, bad
}

// counts are of reads that moved to a later timestamp, commits that did, and ends told to timestamp managers.
func (w *orderWorld) counts() (n [3]int64) {
	for _, nd := range w.nodes {
		st := nd.Commits()
		n[0] += st.MovedUp.Load()
		n[1] += st.Pushed.Load()
		for _, r := range nd.Owners().Replicas() {
			n[2] += r.Stats().Orders.Load()
		}
	}
	return n
}

// transactSteps runs a transaction until it commits, statement by statement; between two the client is a round trip inside the
// region away. Rows that will be written are read for update.
func transactSteps(ctx context.Context, db kv.DB, steps job, rng *rand.Rand) (tries int, err error) {
	opts := kv.Options{Age: db.Clock()}
	for wait := time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		tries++
		if err = trySteps(ctx, db, opts, steps); err == nil || !base.Retryable(err) {
			return tries, err
		}
		time.Sleep(wait/2 + time.Duration(rng.Int64N(int64(wait))))
		if ctx.Err() != nil {
			return tries, ctx.Err()
		}
	}
}

func trySteps(ctx context.Context, db kv.DB, opts kv.Options, steps job) error {
	t := db.Begin(opts)
	defer t.Rollback(context.Background())
	for _, s := range steps {
		time.Sleep(2 * orderLAN)
		lock := kv.LockShared
		if s.Kind == opUpdate {
			lock = kv.LockExclusive
		}
		if s.Kind != opInsert {
			if _, err := t.Get(ctx, s.Keys, lock); err != nil {
				return err
			}
		}
		if s.Kind == opRead {
			continue
		}
		for _, k := range s.Keys {
			t.Put(k, rowValue, 0)
		}
	}
	time.Sleep(2 * orderLAN)
	_, err := t.Commit(ctx)
	return err
}
