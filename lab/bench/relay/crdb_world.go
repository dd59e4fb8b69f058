package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// orderWorld is a whole cluster that orders by timestamps, three nodes a region, in virtual time.
// Commits wait for a majority of regions, and rows stay where they were made.
type orderWorld struct {
	rig.World
	DBs    [][]kv.DB // by region, and node of it
	zipf   func(*rand.Rand) int
	orders atomic.Int64
}

const (
	orderNodes = 3 // a region
	orderShard = 2 // the timestamp managers are leaders of shard 1
	// rows of YCSB-T in a region; the paper has 600,000, and more clients
	orderRows  = 5000
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
	w := &orderWorld{World: rig.World{Net: wan.NewNetwork(wan.NetOptions{Seed: 12,
		LAN: wan.LinkSpec{Delay: rig.LAN}})}, zipf: rig.Zipf(orderRows, orderTheta)}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	w.Net.SetOneWay(m.OneWays())
	ident := node.LocalIdentity(m.Names, orderNodes, 2)
	ident.First.Concurrency = how
	rng := rand.New(rand.NewPCG(1, 2))
	// ns of a sync; none at first: nodes begin under mutexes, and a goroutine that waits for one
	// stops virtual time
	var disk atomic.Int64
	for i, nd := range ident.First.Nodes {
		src := clock.NewSimulated(rig.ClockBound, uint64(nd.ID))
		src.Set(time.Duration((2*rng.Float64()-1)*float64(rig.ClockBound)), 0, rig.ClockBound)
		if err := w.Add(ident, nd, store.Options{Dir: "db", FS: store.Memory(),
			SyncDelay: func() time.Duration { return time.Duration(disk.Load()) }}, node.Parts{Source: src}); err != nil {
			return nil, err
		}
		if i%orderNodes == 0 {
			w.DBs = append(w.DBs, nil)
		}
		w.DBs[i/orderNodes] = append(w.DBs[i/orderNodes], w.Nodes[i].DB())
	}
	time.Sleep(5 * time.Second) // leaders are elected
	for r := range w.DBs {
		var ks []base.Key
		for i := range orderRows {
			ks = append(ks, w.key(orderYCSB, r, int64(i)))
		}
		for n := range orderWares {
			ks = append(append(ks, w.keys(orderWare, r, n, 0, rig.WareRows)...), w.keys(orderStock, r, n, 0, rig.MallItems)...)
		}
		if err := rig.Fill(ctx, w.DBs[r][0], ks, func() []byte { return rig.RowValue }); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Names[r], err)
		}
	}
	disk.Store(int64(rig.DiskSync))
	time.Sleep(5 * time.Second) // all replicas have the rows
	return w, nil
}

// key is the key of a row of a region. The rows of a region are neighbours, so that the gaps
// between them belong to the region, too.
func (w *orderWorld) key(table, region int, n ...int64) base.Key {
	k := base.IndexPrefix(orderShard, base.MakeTableID(uint64(table), base.RegionID(region+1)), 0, 0)
	for _, v := range n {
		k = base.AppendInt64(k, v)
	}
	return k
}

// keys are the keys of rows from, from+1, ... of a warehouse.
func (w *orderWorld) keys(table, region, ware int, from int64, n int) (out []base.Key) {
	for i := range int64(n) {
		out = append(out, w.key(table, region, int64(ware), from+i))
	}
	return out
}

// other draws the second region of a transaction.
func (w *orderWorld) other(r *rand.Rand, region int) int {
	return (region + 1 + r.IntN(len(w.DBs)-1)) % len(w.DBs)
}

// ycsbT draws a transaction as in section 4.2: ten statements, five of which read a row, and five
// read a row and write it.
func (w *orderWorld) ycsbT(r *rand.Rand, region int) (steps rig.Job) {
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
			steps = append(steps, rig.Op{Kind: rig.OpRead, Keys: []base.Key{k}})
		}
	}
	r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, i := range r.Perm(len(steps))[:5] {
		steps[i].Kind = rig.OpUpdate
	}
	return steps
}

// tpcC draws one of TPC-C's transactions, on keys. One line in a hundred and 15 % of payments use
// another warehouse, which here is always in another region. So 11 % of the transactions cross, as
// in the paper.
func (w *orderWorld) tpcC(r *rand.Rand, region int) rig.Job {
	ware := r.IntN(orderWares)
	row := func(table, region int, n int64) base.Key { return w.key(table, region, int64(ware), n) }
	read := func(ks ...base.Key) rig.Op { return rig.Op{Kind: rig.OpRead, Keys: ks} }
	update := func(ks ...base.Key) rig.Op { return rig.Op{Kind: rig.OpUpdate, Keys: ks} }
	insert := func(ks ...base.Key) rig.Op { return rig.Op{Kind: rig.OpInsert, Keys: ks} }
	customer := func(region int) base.Key {
		return row(orderWare, region, int64(rig.FirstCustomer+r.IntN(rig.MallCustomers)))
	}
	district := row(orderWare, region, int64(rig.FirstDistrict+r.IntN(rig.MallDistricts)))
	var stock []base.Key
	for _, i := range r.Perm(rig.MallItems)[:rig.MallLines] {
		at := region
		if r.IntN(100) < 2 { // half as many lines as in the standard
			at = w.other(r, region)
		}
		stock = append(stock, row(orderStock, at, int64(i)))
	}
	o := w.orders.Add(1) * rig.OrderKeys
	switch n := r.IntN(100); {
	case n < 45: // New-Order
		return rig.Job{read(row(orderWare, region, 0), customer(region)), update(district), update(stock...),
			insert(w.keys(orderOrder, region, ware, o, 1+rig.MallLines)...)}
	case n < 88: // Payment
		payer := region
		if r.IntN(100) < 15 {
			payer = w.other(r, region)
		}
		return rig.Job{update(row(orderWare, region, 0)), update(district), update(customer(payer)),
			insert(row(orderHistory, region, o))}
	case n < 92: // Delivery
		return rig.Job{update(w.keys(orderStock, region, ware, 0, rig.MallDistricts)...), update(customer(region))}
	case n < 96: // Order-Status
		return rig.Job{read(customer(region)), read(w.keys(orderStock, region, ware, 0, rig.MallLines)...)}
	default: // Stock-Level
		return rig.Job{read(district), read(w.keys(orderStock, region, ware, 0, rig.MallItems)...)}
	}
}

// orderLoad is a load of clients in closed loops.
type orderLoad struct {
	next         func(w *orderWorld, r *rand.Rand, region int) rig.Job
	clients      int // in each region
	warm, length time.Duration
}

// orderResult is what was measured.
type orderResult struct {
	tally
	length                  time.Duration
	movedUp, pushed, orders int64
}

func (r *orderResult) rate() float64 { return float64(len(r.done)) / r.length.Seconds() }

// run has clients at work in closed loops.
func (w *orderWorld) run(l orderLoad) (*orderResult, error) {
	before := w.counts()
	clients := loop{regions: len(w.DBs), clients: l.clients, warm: l.warm, length: l.length, seed: 0x70}
	kinds, err := clients.run(func(ctx context.Context, c *worker) (int, error) {
		dbs := w.DBs[c.region]
		return 0, transactSteps(ctx, c, dbs[c.number%len(dbs)], l.next(w, c.rng, c.region))
	})
	after := w.counts()
	res := &orderResult{tally: kinds[0], length: l.length, movedUp: after[0] - before[0],
		pushed: after[1] - before[1], orders: after[2] - before[2]}
	time.Sleep(3 * time.Second) // transactions under way end
	if err == nil && len(res.done) == 0 {
		err = errors.New("no transaction committed in time")
	}
	return res, err
}

// counts are the numbers of reads that moved to a later timestamp, of commits that did, and of ends
// reported to timestamp managers.
func (w *orderWorld) counts() (n [3]int64) {
	for _, nd := range w.Nodes {
		st := nd.Commits()
		n[0] += st.MovedUp.Load()
		n[1] += st.Pushed.Load()
		for _, r := range nd.Owners().Replicas() {
			n[2] += r.Stats().Orders.Load()
		}
	}
	return n
}

// transactSteps runs a transaction until it commits, statement by statement. Each costs the client
// a round trip inside the region. Rows that will be written are read for update.
func transactSteps(ctx context.Context, c *worker, db kv.DB, steps rig.Job) error {
	opts := kv.Options{Age: db.Clock()}
	return c.retry(ctx, func() error { return trySteps(ctx, db, opts, steps) }, func(_ error, wait time.Duration) time.Duration {
		return wait/2 + time.Duration(c.rng.Int64N(int64(wait)))
	})
}

func trySteps(ctx context.Context, db kv.DB, opts kv.Options, steps rig.Job) error {
	t := db.Begin(opts)
	defer t.Rollback(context.Background())
	for _, s := range steps {
		time.Sleep(2 * rig.LAN)
		lock := kv.LockShared
		if s.Kind == rig.OpUpdate {
			lock = kv.LockExclusive
		}
		if s.Kind != rig.OpInsert {
			if _, err := t.Get(ctx, s.Keys, lock); err != nil {
				return err
			}
		}
		if s.Kind == rig.OpRead {
			continue
		}
		for _, k := range s.Keys {
			t.Put(k, rig.RowValue, 0)
		}
	}
	time.Sleep(2 * rig.LAN)
	_, err := t.Commit(ctx)
	return err
}
