package geococo

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/txn/multimaster"
	"github.com/godwitdb/godwit/wire"
)

// place says where the nodes of a figure are.
type place struct {
	m      *matrix.Matrix
	of     []int   // the region of each node
	uplink float64 // of each node into the WAN, bit/s; 0: no limit
}

func newPlace(m *matrix.Matrix, uplink float64, per ...int) *place {
	p := &place{m: m, uplink: uplink}
	for region, n := range per {
		p.of = append(p.of, slices.Repeat([]int{region}, n)...)
	}
	return p
}

const insideRegion = 250 * time.Microsecond // one way

func (p *place) oneWay(i, j int) time.Duration {
	switch {
	case i == j:
		return 0
	case p.of[i] == p.of[j]:
		return insideRegion
	}
	return p.m.OneWay(p.of[i], p.of[j])
}

// facts are the inputs of a planner that has measured everything, with batches of a size.
func (p *place) facts(batch int) *plan.Facts {
	f := &plan.Facts{Region: p.of}
	for i := range p.of {
		row := make([]time.Duration, len(p.of))
		for j := range row {
			row[j] = p.oneWay(i, j)
		}
		f.Latency, f.Uplink, f.Batch = append(f.Latency, row), append(f.Uplink, p.uplink), append(f.Batch, batch)
	}
	return f
}

func (p *place) ids() (ids []base.NodeID) {
	for i := range p.of {
		ids = append(ids, base.NodeID(i+1))
	}
	return ids
}

// network makes a network of the regions of a place. [place.join] gives each node its uplink.
func (p *place) network(seed uint64) *wan.Network {
	n := wan.NewNetwork(wan.NetOptions{Seed: seed, LAN: wan.LinkSpec{Delay: insideRegion}})
	for a := range p.m.Len() {
		for b := range p.m.Len() {
			if a != b {
				n.SetPath(base.RegionID(a+1), base.RegionID(b+1), wan.LinkSpec{Delay: p.m.OneWay(a, b)})
			}
		}
	}
	return n
}

func (p *place) join(n *wan.Network, i int, pack packing) *uplink {
	u := &uplink{Transport: n.Join(base.NodeID(i+1), base.RegionID(p.of[i]+1)), of: p.of, self: i, rate: p.uplink,
		pack: pack, kick: make(chan struct{}, 1), stop: make(chan struct{})}
	u.wg.Go(u.run)
	return u
}

// known makes all nodes known to a transport.
func (p *place) known(tr wan.Transport) {
	for i, id := range p.ids() {
		tr.SetPeer(id, "", base.RegionID(p.of[i]+1))
	}
}

// uplink sends messages to other regions one after the other, at the bandwidth of the node's line,
// and counts them.
type uplink struct {
	wan.Transport
	of   []int
	self int
	rate float64
	pack packing

	bytes, messages atomic.Int64 // to other regions
	mu              sync.Mutex
	queue           []queued
	kick, stop      chan struct{}
	wg              sync.WaitGroup
}

type queued struct {
	to   base.NodeID
	kind wire.Kind
	body encoded
	took time.Duration
}

// encoded is a message that is encoded already.
type encoded []byte

func (e encoded) MarshalVT() ([]byte, error) { return e, nil }
func (e encoded) SizeVT() int                { return len(e) }
func (e encoded) UnmarshalVT([]byte) error   { return errors.ErrUnsupported }
func (e encoded) MarshalToSizedBufferVT(b []byte) (int, error) {
	return copy(b[len(b)-len(e):], e), nil
}

// frameHead is about the number of bytes that a frame, TCP and IP add to a message.
const frameHead = 80

func (u *uplink) Send(to base.NodeID, kind wire.Kind, m wan.Msg) error {
	if u.of[to-1] == u.of[u.self] {
		return u.Transport.Send(to, kind, m)
	}
	body, err := m.MarshalVT()
	if err != nil {
		return err
	}
	size := frameHead + u.pack.size(body)
	u.bytes.Add(int64(size))
	u.messages.Add(1)
	if u.rate == 0 {
		return u.Transport.Send(to, kind, encoded(body))
	}
	u.mu.Lock()
	u.queue = append(u.queue, queued{to, kind, body, time.Duration(float64(size) * 8e9 / u.rate)})
	u.mu.Unlock()
	select {
	case u.kick <- struct{}{}:
	default:
	}
	return nil
}

func (u *uplink) run() {
	for {
		u.mu.Lock()
		if len(u.queue) == 0 {
			u.mu.Unlock()
			select {
			case <-u.kick:
				continue
			case <-u.stop:
				return
			}
		}
		q := u.queue[0]
		u.queue = u.queue[1:]
		u.mu.Unlock()
		time.Sleep(q.took)
		_ = u.Transport.Send(q.to, q.kind, q.body) // receivers ask for lost messages
	}
}

func (u *uplink) Close() error {
	close(u.stop)
	u.wg.Wait()
	return u.Transport.Close()
}

// packing returns the compressed size of a message; nil is none. It remembers its results, as one
// message goes to many receivers.
type packing func([]byte) int

func (p packing) size(b []byte) int {
	if p == nil {
		return len(b)
	}
	return p(b)
}

func newPacking(name string) packing {
	var mu sync.Mutex
	seed, seen := maphash.MakeSeed(), map[uint64]int{}
	enc := func(b []byte) int { return len(b) }
	switch name {
	case "":
		return nil
	case "zlib":
		enc = func(b []byte) int {
			var out bytes.Buffer
			w := zlib.NewWriter(&out)
			_, _ = w.Write(b) // into memory: it cannot fail
			_ = w.Close()
			return out.Len()
		}
	case "lz4":
		var c lz4.Compressor
		enc = func(b []byte) int {
			n, err := c.CompressBlock(b, make([]byte, lz4.CompressBlockBound(len(b))))
			if err != nil || n == 0 {
				return len(b)
			}
			return n
		}
	case "zstd":
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			panic("bench: " + err.Error()) // the options are constants
		}
		enc = func(b []byte) int { return len(w.EncodeAll(b, nil)) }
	}
	return func(b []byte) int {
		h := maphash.Bytes(seed, b)
		mu.Lock()
		defer mu.Unlock()
		n, ok := seen[h]
		if !ok {
			n = min(enc(b), len(b))
			seen[h] = n
		}
		return n
	}
}

// epochRun is a load on the epochs of real engines, in virtual time.
type epochRun struct {
	*place
	planned, filtered bool
	plan              *plan.Plan // a fixed one
	interval          time.Duration
	clients           int // of each node, in closed loops
	length            time.Duration
	statement         time.Duration // work of one statement at the node
	// next draws the next transaction of a client.
	next func(node, client int, r *rand.Rand) rig.Job
}

// epochResult says what a run did after its warm-up.
type epochResult struct {
	// transactions; writes counts the committed ones that write
	committed, aborted, writes float64
	latencies                  []time.Duration // of the commits of the latter
	bytes, messages            float64         // to other regions
	length                     time.Duration
	// Totals of the whole run: submitted transactions, their bytes, and CPU time.
	submitted, sent float64
	cpu             time.Duration
}

func (r *epochResult) p(q float64) float64 {
	if len(r.latencies) == 0 {
		return 0
	}
	slices.Sort(r.latencies)
	return millis(r.latencies[min(len(r.latencies)-1, int(q*float64(len(r.latencies))))])
}

// conflicts is the share of the submitted transactions that lost a conflict.
func (r *epochResult) conflicts() float64 { return r.aborted / max(1, r.aborted+r.writes) }

func (r *epochResult) perCommit() float64 { return r.bytes / max(1, r.writes) }

// epochWarmup is the time before anything is counted. By then planners have measured and agreed.
const epochWarmup = 2500 * time.Millisecond

// run plays the load in a bubble of virtual time.
func (c *epochRun) run(ctx context.Context) (res *epochResult, err error) {
	err = rig.Virtual(func() error {
		res, err = c.play(ctx)
		return err
	})
	return res, err
}

// epochNodes are the nodes of a run.
type epochNodes struct {
	net     *wan.Network
	ids     []base.NodeID
	engines []*multimaster.Engine
	stores  []*store.Store
	links   []*uplink
}

func (n *epochNodes) close() error {
	for _, e := range n.engines {
		e.Close()
	}
	var errs []error
	for _, l := range n.links {
		errs = append(errs, l.Close())
	}
	for _, s := range n.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, n.net.Close())...)
}

// sent is the traffic to other regions so far.
func (n *epochNodes) sent() (bytes, messages float64) {
	for _, l := range n.links {
		bytes, messages = bytes+float64(l.bytes.Load()), messages+float64(l.messages.Load())
	}
	return bytes, messages
}

// open starts the nodes and waits until each is in the view.
func (c *epochRun) open() (_ *epochNodes, err error) {
	n := &epochNodes{net: c.network(14), ids: c.ids()}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	reg := &multimaster.Memory{}
	for i := range n.ids {
		if err := c.start(n, i, reg); err != nil {
			return nil, err
		}
	}
	if err := n.engines[0].Begin(context.Background(), n.ids); err != nil {
		return nil, err
	}
	for _, e := range n.engines[1:] {
		e.Watch()
	}
	for _, e := range n.engines {
		for v, active := e.View(); !active || v.Number == 0; v, active = e.View() {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return n, nil
}

// start starts one node.
func (c *epochRun) start(n *epochNodes, i int, reg multimaster.Registry) error {
	st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true,
		SyncDelay: func() time.Duration { return 500 * time.Microsecond }})
	if err != nil {
		return err
	}
	n.stores = append(n.stores, st)
	tr := c.join(n.net, i, nil)
	n.links = append(n.links, tr)
	cfg := multimaster.Config{Self: n.ids[i], Store: st, Transport: tr, Registry: reg, Voters: c.voters, NoFilter: !c.filtered,
		Suspect: time.Minute, Settle: time.Second, Interval: func() time.Duration { return c.interval }}
	switch {
	case c.plan != nil:
		cfg.Plan = func([]base.NodeID) *plan.Plan { return c.plan }
	case c.planned:
		cfg.Region = func(n base.NodeID) base.RegionID { return base.RegionID(c.of[n-1] + 1) }
		cfg.RTT = func(n base.NodeID) time.Duration { return c.oneWay(i, int(n-1)) + c.oneWay(int(n-1), i) }
		cfg.Uplink = func() float64 { return c.uplink }
	}
	e, err := multimaster.New(cfg)
	if err != nil {
		return err
	}
	c.known(tr)
	if err := tr.Start(); err != nil {
		return err
	}
	n.engines = append(n.engines, e)
	e.Start()
	return nil
}

// voters are the first node of each region.
func (c *epochRun) voters() (ids []base.NodeID) {
	for i, id := range c.ids() {
		if i == 0 || c.of[i] != c.of[i-1] {
			ids = append(ids, id)
		}
	}
	return ids
}

// epochTally counts the clients' transactions while counting is set.
type epochTally struct {
	counting atomic.Bool
	mu       sync.Mutex
	res      *epochResult
	err      error // the first error besides lost conflicts
}

func (t *epochTally) add(writes bool, lat time.Duration, err error) {
	if !t.counting.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.res.committed++
		if writes {
			t.res.writes++
			t.res.latencies = append(t.res.latencies, lat)
		}
	case base.CodeOf(err) == base.CodeAborted:
		t.res.aborted++
	default:
		t.err = cmp.Or(t.err, err)
	}
}

// play plays the load. parent is of real time, so nothing here may wait for it.
func (c *epochRun) play(parent context.Context) (_ *epochResult, err error) {
	n, err := c.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	res := &epochResult{length: c.length}
	tally := &epochTally{res: res}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	runtime.GC()
	cpu := rig.CPUTime()
	for node := range n.engines {
		for k := range c.clients {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(node), uint64(k)))
				time.Sleep(rand.N(c.interval)) // else the clients would run in step
				for i := uint32(0); ctx.Err() == nil; i++ {
					j := c.next(node, k, r)
					lat, err := c.transact(n, node, j, i<<8|uint32(k), r)
					tally.add(j.Writes(), lat, err)
				}
			})
		}
	}
	time.Sleep(epochWarmup)
	bytes, messages := n.sent()
	tally.counting.Store(true)
	for end := time.Now().Add(c.length); time.Now().Before(end) && parent.Err() == nil; {
		time.Sleep(100 * time.Millisecond)
	}
	tally.counting.Store(false)
	res.bytes, res.messages = n.sent()
	res.bytes, res.messages = res.bytes-bytes, res.messages-messages
	stop()
	wg.Wait()
	if err := n.converge(); err != nil {
		return nil, errors.Join(tally.err, err)
	}
	res.cpu = rig.CPUTime() - cpu
	res.sent, _ = n.sent()
	for _, e := range n.engines {
		res.submitted += float64(e.Stats().Submitted)
	}
	return res, errors.Join(tally.err, parent.Err())
}

// converge waits until all replicas hold the same rows.
func (n *epochNodes) converge() error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, d := n.engines[0].Digest()
		if !slices.ContainsFunc(n.engines, func(e *multimaster.Engine) bool { _, o := e.Digest(); return o != d }) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("replicas differ at the end of the run")
		}
	}
}

// transact runs a transaction on the last epoch applied at a node, and returns the latency of its
// commit.
func (c *epochRun) transact(nodes *epochNodes, node int, j rig.Job, n uint32, r *rand.Rand) (time.Duration, error) {
	e := nodes.engines[node]
	snapshot := e.Snapshot()
	t := filter.Txn{ID: base.MakeTxnID(base.Timestamp(time.Now().UnixNano()), nodes.ids[node], n),
		Priority: r.Uint64(), Snapshot: snapshot}
	rd := nodes.stores[node].NewPointReader()
	for _, o := range j {
		value := o.Value
		if value == nil {
			value = rig.RowValue
		}
		for _, k := range o.Keys {
			if o.Kind != rig.OpInsert {
				if _, _, err := rd.Get(k, base.Timestamp(snapshot)); err != nil {
					rd.Close()
					return 0, err
				}
			}
			if o.Kind != rig.OpRead && !slices.ContainsFunc(t.Writes, func(w filter.Write) bool { return w.Key == string(k) }) {
				t.Writes = append(t.Writes, filter.Write{Key: string(k), Value: value})
			}
		}
	}
	rd.Close()
	time.Sleep(time.Duration(len(j)) * c.statement)
	if len(t.Writes) == 0 {
		return 0, nil
	}
	begin := time.Now()
	_, err := e.Submit(context.Background(), t)
	return time.Since(begin), err
}

// both plays a load over flat rounds without a filter, and over planned ones with it.
func (c epochRun) both(ctx context.Context) (flat, planned *epochResult, err error) {
	if flat, err = c.run(ctx); err != nil {
		return nil, nil, fmt.Errorf("flat: %w", err)
	}
	c.planned, c.filtered = true, true
	if planned, err = c.run(ctx); err != nil {
		return nil, nil, fmt.Errorf("planned: %w", err)
	}
	return flat, planned, nil
}

// mixes has the shares of New-Order, Payment, Order-Status, Delivery and Stock-Level in the paper's
// TPCC-A to D.
var mixes = []struct {
	name   string
	shares [5]int
	paper  *float64
}{
	{"TPCC-A, writes", [5]int{48, 45, 3, 2, 2}, rig.Float(1.141)},
	{"TPCC-B, reads", [5]int{8, 7, 40, 5, 40}, nil},
	{"TPCC-C, balanced", [5]int{20, 20, 20, 20, 20}, nil},
	{"TPCC-D, real time", [5]int{15, 15, 60, 5, 5}, nil},
}

// Figure 11a has 100 warehouses at five nodes. One transaction in ten uses any of them.
const wares11a = 100

// tpcc measures Figure 11a: five nodes, two in each of two regions and one in a third, as in the
// paper, whose regions are Kalgan, Hohhot and Hong Kong.
func (b *geococo) tpcc(ctx context.Context) (out []rig.Line, err error) {
	m, err := matrix.Open(matrix.AWS)
	if err != nil {
		return nil, err
	}
	if m, err = m.Pick("ap-northeast-1", "ap-northeast-2", "ap-east-1"); err != nil {
		return nil, err
	}
	for _, up := range []struct {
		name string
		rate float64
	}{{"no limit of uplinks", 0}, {"5 Mbit/s each", 5e6}} {
		for i, mix := range mixes {
			if up.rate == 0 && (i > 0 && b.Quick || !b.long("11a")) {
				break
			}
			ml := rig.NewMall(base.EpochShard, wares11a/5)
			c := epochRun{place: newPlace(m, up.rate, 2, 2, 1), interval: 10 * time.Millisecond, clients: 20,
				length: rig.Pick(b.Params, time.Second, 6*time.Second), statement: 500 * time.Microsecond,
				next: func(node, client int, r *rand.Rand) rig.Job {
					ware := node*ml.Per + client%ml.Per
					if r.IntN(10) == 0 {
						ware = r.IntN(wares11a)
					}
					return ml.Mixed(ware, mix.shares, r)
				}}
			flat, planned, err := c.both(ctx)
			if err != nil {
				return nil, err
			}
			x := mix.name + ", " + up.name
			rate := func(r *epochResult) float64 { return r.committed / r.length.Seconds() }
			out = append(out,
				rig.Line{Figure: "11a", Series: "planned/flat", X: x, Metric: "throughput", Unit: "txn/s",
					Value: rate(planned), Baseline: rig.Float(rate(flat)), Paper: mix.paper, Better: rig.Higher},
				rig.Line{Figure: "11a", Series: "planned/flat", X: x, Metric: "median commit", Unit: "ms",
					Value: planned.p(.5), Baseline: rig.Float(flat.p(.5)), Better: rig.Lower},
				rig.Line{Figure: "11a", Series: "planned/flat", X: x, Metric: "p99 commit", Unit: "ms",
					Value: planned.p(.99), Baseline: rig.Float(flat.p(.99)), Better: rig.Lower},
				rig.Line{Figure: "11a", Series: "planned/flat", X: x, Metric: "WAN bytes a commit", Unit: "bytes",
					Value: planned.perCommit(), Baseline: rig.Float(flat.perCommit()), Better: rig.Lower},
				rig.Line{Figure: "11a", Series: "planned/flat", X: x, Metric: "share that lost", Unit: "%",
					Value: 100 * planned.conflicts(), Baseline: rig.Float(100 * flat.conflicts()), Better: rig.Lower})
		}
	}
	return out, nil
}

// whites measures Figure 14 and Table 1: YCSB on 15 nodes in five regions. A share of a region's
// transactions writes the same row in each epoch, so that all but one are white data, which the
// filter drops.
func (b *geococo) whites(ctx context.Context) (out []rig.Line, err error) {
	m, err := matrix.Default(5)
	if err != nil {
		return nil, err
	}
	const rows, writes = 1_000_000, 3
	saved := map[int]float64{5: 1 - .087, 10: 1 - .272, 20: 1 - .322, 30: 1 - .357, 40: 1 - .403}
	costs := map[int]float64{0: 1.0097, 30: 1.0241, 40: 1.0276}
	letters := rig.NewMall(base.EpochShard, 1)
	at := newPlace(m, 0, 3, 3, 3, 3, 3)
	// as in the paper, which has one aggregator a group
	p, err := plan.Make(at.facts(writes*1000*10), plan.Params{NoShards: true, Groups: m.Len()})
	if err != nil {
		return nil, err
	}
	for _, hot := range rig.Pick(b.Params, []int{0, 10, 40}, []int{0, 5, 10, 20, 30, 40}) {
		c := epochRun{place: at, plan: p, interval: 300 * time.Millisecond, clients: rig.Pick(b.Params, 10, 30),
			length: rig.Pick(b.Params, 2100*time.Millisecond, 9*time.Second), statement: time.Millisecond}
		c.next = func(node, _ int, r *rand.Rand) rig.Job {
			var j rig.Job
			for range writes { // whole rows are sent
				i := r.IntN(len(letters.Letters) - 1000)
				j = append(j, rig.Op{Kind: rig.OpUpdate,
					Keys:  []base.Key{letters.Key(rig.MallStock, 0, int64(r.IntN(rows)))},
					Value: letters.Letters[i : i+1000]})
			}
			if r.IntN(100) < hot {
				j[0].Keys[0] = letters.Key(rig.MallWare, 0, int64(c.of[node]))
			}
			return j
		}
		without, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		c.filtered = true
		with, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		x := fmt.Sprintf("%d %%", hot)
		add := func(figure, metric, unit string, of func(*epochResult) float64, paper *float64) {
			out = append(out, rig.Line{Figure: figure, Series: "filter/no filter", X: x, Metric: metric, Unit: unit,
				Value: of(with), Baseline: rig.Float(of(without)), Paper: paper, Better: rig.Lower})
		}
		var share, cpu *float64
		if v, ok := saved[hot]; ok {
			share = rig.Float(v)
		}
		if v, ok := costs[hot]; ok {
			cpu = rig.Float(v)
		}
		add("14", "WAN bytes a transaction", "bytes", func(r *epochResult) float64 { return r.sent / r.submitted }, share)
		add("14", "transactions that lost", "%", func(r *epochResult) float64 { return 100 * r.conflicts() }, nil)
		if hot == 0 || hot >= 30 {
			add("table 1", "CPU of a transaction at all nodes", "us",
				func(r *epochResult) float64 { return r.cpu.Seconds() * 1e6 / r.submitted }, cpu)
			add("table 1", "p99 commit", "ms", func(r *epochResult) float64 { return r.p(.99) }, nil)
		}
	}
	slices.SortStableFunc(out, func(a, b rig.Line) int { return cmp.Compare(a.Figure, b.Figure) })
	return out, nil
}
