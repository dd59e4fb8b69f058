package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/crossing"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
	"github.com/godwitdb/godwit/wire"
)

// tierWorld is a whole cluster, one node a region, in virtual time. Rows stay where they were made.
type tierWorld struct {
	rig.World
	m     *matrix.Matrix
	DBs   []kv.DB // by region
	rows  int     // in each region
	zipfs map[float64]func(*rand.Rand) int
	open  atomic.Bool // all groups are open
}

const (
	tierBound = 100 * time.Microsecond // of the clocks
	tierTable = 20
	tierShard = 2 // the asynchronous shard
)

// openTiers starts the nodes and fills the table. Its shards are asynchronous, that is, with all
// voters in their own region, as in the paper, where replicas are in the region or near it.
func openTiers(ctx context.Context, m *matrix.Matrix, rows int) (_ *tierWorld, err error) {
	w := &tierWorld{m: m, rows: rows, zipfs: map[float64]func(*rand.Rand) int{},
		World: rig.World{Net: wan.NewNetwork(wan.NetOptions{Seed: 12})}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	w.Net.SetOneWay(m.OneWays())
	ident := node.LocalIdentity(m.Names, 1, 1)
	for i, nd := range ident.First.Nodes {
		// A commit is durable when the replicas inside the region have it: a round trip there.
		inside := m.RTT[i][i]
		if err := w.Add(ident, nd, store.Options{Dir: "db", FS: store.Memory(), SyncDelay: func() time.Duration {
			if !w.open.Load() {
				// groups are opened under mutexes, and a goroutine that waits for a mutex stops
				// virtual time
				return 0
			}
			return inside
		}}, node.Parts{Source: clock.NewSimulated(tierBound, uint64(nd.ID))}); err != nil {
			return nil, err
		}
		w.DBs = append(w.DBs, w.Nodes[i].DB())
	}
	if err := w.Nodes[0].Cluster().EnableAsync(ctx); err != nil {
		return nil, err
	}
	w.open.Store(true)
	for r := range w.DBs {
		var ks []base.Key
		for i := range rows {
			ks = append(ks, w.key(r, i))
		}
		if err := rig.Fill(ctx, w.DBs[r], ks, func() []byte { return tierRow }); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Names[r], err)
		}
	}
	time.Sleep(5 * time.Second) // all replicas have the rows, and round trips are measured
	return w, nil
}

// key is the key of row i of a region. The rows of a region are neighbours, so that the gaps
// between them belong to the region, too.
func (w *tierWorld) key(region, i int) base.Key {
	return base.AppendInt64(base.IndexPrefix(tierShard, base.MakeTableID(tierTable, base.RegionID(region+1)), 0, 0), int64(i))
}

// zipf draws rows from a zipfian distribution. The popular ones are scattered over the table.
func (w *tierWorld) zipf(theta float64) func(*rand.Rand) int {
	z := w.zipfs[theta]
	if z == nil {
		z = rig.Zipf(w.rows, theta)
		w.zipfs[theta] = z
	}
	return z
}

// tierLoad is YCSB-T as in section 4.2: transactions of ten statements, five of which read a row,
// and five read a row and write it.
type tierLoad struct {
	relay   bool
	policy  kv.Policy
	clients int     // in each region
	cross   float64 // share of transactions that cross: half of their rows are another region's
	theta   float64
	plain   bool // updates are not shipped, so that every row read is validated at the commit
	// oneShot: a client sends a whole transaction at once, so that its statements cost no trips of
	// their own inside the region, and its keys are known.
	oneShot bool
	// hot, if not 0: transactions are transfers, two updates of hotRows rows of each region, two
	// thirds of them across regions. Other rows with each number, since gateways remember them.
	hot int
	// auto, with relay: every gateway chooses by its own load, as with transaction.tier = auto.
	auto   bool
	seed   uint64 // of the clients' choices, beside the usual one
	warm   time.Duration
	length time.Duration
}

const (
	tierOps = 10
	hotRows = 4
)

// tierOp is one statement.
type tierOp struct {
	key   base.Key
	write bool
}

// tierResult is what was measured; IRTs first.
type tierResult struct {
	kinds  [2]tally
	length time.Duration
}

// committed is how many transactions did.
func (r *tierResult) committed() int { return len(r.kinds[0].done) + len(r.kinds[1].done) }

func (r *tierResult) rate() float64 {
	return float64(r.committed()) / r.length.Seconds()
}

// aborted is the share of the attempts of both kinds that were aborted, in percent.
func (r *tierResult) aborted() float64 {
	both := tally{tries: r.kinds[0].tries + r.kinds[1].tries, aborts: r.kinds[0].aborts + r.kinds[1].aborts}
	return both.aborted()
}

// run has clients at work in closed loops.
func (w *tierWorld) run(l tierLoad) (*tierResult, error) {
	draw := w.zipf(l.theta)
	clients := loop{regions: len(w.DBs), clients: l.clients, warm: l.warm, length: l.length, seed: 0x4e1a + l.seed}
	gateways := w.policies()
	kinds, err := clients.run(func(ctx context.Context, c *worker) (int, error) {
		kind, ops := w.next(c.rng, c.region, l.cross, draw)
		if l.hot > 0 {
			kind, ops = w.transfer(c.rng, c.region, l.hot*hotRows)
		}
		one, gateway := l, gateways[c.region]
		if l.auto {
			relay, _ := gateway.Relay()
			one.relay = l.relay && relay
		}
		err := w.transact(ctx, c, one, kind, ops)
		if err == nil {
			gateway.Committed(kind == 1, time.Now())
		}
		return kind, err
	})
	time.Sleep(2 * time.Second) // transactions under way end
	return &tierResult{kinds: kinds, length: l.length}, err
}

// policies are those of the gateways, with transaction.tier = auto.
func (w *tierWorld) policies() (out []*crossing.Policy) {
	for range w.DBs {
		p, params := crossing.New(time.Now()), crossing.Defaults()
		params.Setting = crossing.Auto
		p.Set(params, time.Now())
		out = append(out, p)
	}
	return out
}

// next draws a transaction. One of kind 1 crosses.
func (w *tierWorld) next(rng *rand.Rand, region int, cross float64, draw func(*rand.Rand) int) (kind int, ops []tierOp) {
	other := region
	if n := len(w.DBs); n > 1 && rng.Float64() < cross {
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

// transfer draws a transfer between two of the hot rows, from one of the client's region.
func (w *tierWorld) transfer(rng *rand.Rand, region, first int) (kind int, ops []tierOp) {
	other := region
	if n := len(w.DBs); n > 1 && rng.IntN(3) > 0 {
		kind = 1
		other = (region + 1 + rng.IntN(n-1)) % n
	}
	from, to := w.key(region, first+rng.IntN(hotRows)), w.key(other, first+rng.IntN(hotRows))
	for bytes.Equal(from, to) {
		to = w.key(other, first+rng.IntN(hotRows))
	}
	return kind, []tierOp{{from, true}, {to, true}}
}

// transact runs a transaction until it commits, statement by statement. Each costs the client a
// round trip inside the region, and the database does not know its keys in advance.
func (w *tierWorld) transact(ctx context.Context, c *worker, l tierLoad, kind int, ops []tierOp) error {
	db, inside := w.DBs[c.region], w.m.RTT[c.region][c.region]
	opts := kv.Options{Policy: l.policy, Relay: l.relay, Careful: l.auto, Age: db.Clock(), Touched: &kv.Touched{}}
	aborts := 0
	if l.oneShot {
		time.Sleep(inside)
	}
	program, crosses := programOf(ops), kind == 1
	return c.retry(ctx, func() error {
		if l.oneShot && opts.Relay && crosses {
			_, err := db.(kv.Programs).Program(ctx, opts, program)
			return err
		}
		return attempt(ctx, db, inside, opts, ops, l)
	},
		func(err error, wait time.Duration) time.Duration {
			if base.CodeOf(err) == base.CodeAborted { // as in kv.Run
				aborts++
				opts.Relay = opts.MayRelay(aborts)
			}
			return kv.Pause(err, wait, db.Clock())
		})
}

// tierRow is a row with a number and a string, as SQL has it, and tierUpdate is `SET n = n + 1`.
var (
	tierRow    = append([]byte{1, 1 << 1, 0, 1 << 1, byte(len(rig.RowValue))}, rig.RowValue...)
	tierUpdate = &wire.Patch{Format: 1, Ids: []uint32{1, 2}, Classes: []byte{byte(rowfmt.Varint), byte(rowfmt.Blob)},
		Ops: []*wire.PatchOp{{Column: 1, Kind: wire.PatchKind_PATCH_ADD, Add: 1, Least: math.MinInt64, Most: math.MaxInt64}}}
)

// attempt runs one attempt. Reads take read locks. Writes are buffered and take their locks at the
// commit (Algorithm 1 of the paper).
func attempt(ctx context.Context, db kv.DB, inside time.Duration, opts kv.Options, ops []tierOp, l tierLoad) error {
	t := db.Begin(opts)
	defer t.Rollback(context.Background())
	if l.oneShot {
		inside = 0
		if err := lockAhead(ctx, t, ops); err != nil {
			return err
		}
	}
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
			if l.plain {
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

// lockAhead has a transaction whose keys are known read them all in one round, so that it pays one
// trip for its statements and not one for each in another region.
func lockAhead(ctx context.Context, t kv.Txn, ops []tierOp) error {
	keys := make([]base.Key, len(ops))
	for i, o := range ops {
		keys[i] = o.key
	}
	_, err := t.Ahead(ctx, keys, nil, kv.LockShared)
	return err
}

// programOf is the transaction as a program: it reads all rows, and updates half of them.
func programOf(ops []tierOp) (p kv.Program) {
	for _, o := range ops {
		p.Reads = append(p.Reads, o.key)
		if o.write {
			p.Updates = append(p.Updates, kv.ProgramUpdate{Key: o.key, Patch: tierUpdate})
		}
	}
	return p
}
