package geococo

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// raftWorld is a whole cluster in virtual time. Relaying of its consensus messages is switched on
// and off while it runs.
type raftWorld struct {
	rig.World
	per   int // nodes of a region
	shard base.ShardID
	zipf  func(*rand.Rand) int
	text  []byte
	added atomic.Int64 // rows inserted
}

const (
	raftRows  = 500 // of a region at the start
	raftTheta = 0.75
	raftTable = 300
	raftValue = 1000 // bytes, as YCSB has them
	raftThink = 10 * time.Millisecond
	// the time that a setting takes to become effective: a window of a second and some probes
	raftRound = 4 * time.Second
)

// openRaft starts per nodes in each region of a matrix. Tables are synchronous or asynchronous, and
// rows stay at home.
func openRaft(m *matrix.Matrix, per int, async bool) (_ *raftWorld, err error) {
	const shards = 2
	w := &raftWorld{World: rig.World{Net: wan.NewNetwork(wan.NetOptions{Seed: 11,
		LAN: wan.LinkSpec{Delay: rig.LAN}})}, per: per, shard: 1, zipf: rig.Zipf(raftRows, raftTheta)}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	w.text = rig.NewMall(1, 1).Letters
	w.Net.SetOneWay(m.OneWays())
	ident := node.LocalIdentity(m.Names, per, shards)
	var disk atomic.Int64 // ns of a sync; none while the nodes start
	for _, nd := range ident.First.Nodes {
		if err := w.Add(ident, nd, store.Options{Dir: "db", FS: store.Memory(),
			SyncDelay: func() time.Duration { return time.Duration(disk.Load()) }},
			node.Parts{Source: clock.NewSimulated(rig.ClockBound, uint64(nd.ID)), Network: &overlay.Params{}}); err != nil {
			return nil, err
		}
	}
	time.Sleep(5 * time.Second) // leaders are elected
	if async {
		w.shard = shards + 1
		if err := w.Nodes[0].Cluster().EnableAsync(context.Background()); err != nil {
			return nil, err
		}
		time.Sleep(10 * time.Second)
	}
	rnd := rand.New(rand.NewPCG(4, 4))
	for r := range m.Names {
		var ks []base.Key
		for i := range int64(raftRows) {
			ks = append(ks, w.key(r, i))
		}
		if err := rig.Fill(context.Background(), w.db(r, 0), ks, func() []byte { return w.value(rnd)[:100] }); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Names[r], err)
		}
	}
	disk.Store(int64(rig.DiskSync))
	time.Sleep(5 * time.Second) // all replicas have the rows
	return w, nil
}

func (w *raftWorld) regions() int { return len(w.Nodes) / w.per }

func (w *raftWorld) db(region, n int) kv.DB { return w.Nodes[region*w.per+n%w.per].DB() }

func (w *raftWorld) key(region int, n int64) base.Key {
	return base.AppendInt64(base.IndexPrefix(w.shard, base.MakeTableID(raftTable, base.RegionID(region+1)), 0, 0), n)
}

func (w *raftWorld) value(r *rand.Rand) []byte {
	i := r.IntN(len(w.text) - raftValue)
	return w.text[i : i+raftValue]
}

// set changes how all nodes send consensus messages, and waits until they do.
func (w *raftWorld) set(p overlay.Params, c wan.Compression) {
	p.Window = time.Second
	for i, n := range w.Nodes {
		n.Overlay().SetParams(p)
		w.Nodes[i].Overlay().SetCompression(c)
	}
	time.Sleep(raftRound)
}

// raftMix is one of YCSB's workloads: the shares of updates and of inserts; the rest are reads, of
// the latest rows in D.
type raftMix struct {
	name            string
	update, insert  float64
	latest          bool
	throughput, p99 *float64 // the paper's ratios
}

// The paper gives the greatest gain without naming the workload. It stands beside A here, which
// writes most.
var raftMixes = []raftMix{
	{"YCSB A", 0.5, 0, false, rig.Float(1.115), rig.Float(1 - 0.1449)},
	{"YCSB B", 0.05, 0, false, nil, nil},
	{"YCSB C", 0, 0, false, nil, nil},
	{"YCSB D", 0, 0.05, true, nil, nil},
}

// raftResult is what was measured of a load.
type raftResult struct {
	all, writes                  []time.Duration // sorted
	length                       time.Duration
	bytes, wire, messages, saved uint64 // between regions
	pushes                       uint64 // writes to sockets
	relayed, fallbacks           uint64
}

func (r *raftResult) rate() float64 { return float64(len(r.all)) / r.length.Seconds() }

func quantileMS(s []time.Duration, q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	return millis(s[min(len(s)-1, int(q*float64(len(s))))])
}

// perWrite is a count for each committed write, or for each committed transaction if there are no
// writes.
func (r *raftResult) perWrite(n uint64) float64 {
	return float64(n) / float64(max(1, cmp.Or(len(r.writes), len(r.all))))
}

// run has clients of every region use their own region's rows, one statement at a time.
func (w *raftWorld) run(mix raftMix, clients int, length time.Duration) (*raftResult, error) {
	const warm = time.Second
	res := &raftResult{length: length}
	var (
		mu  sync.Mutex
		bad error
		wg  sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(context.Background(), warm+length)
	defer cancel()
	from := time.Now().Add(warm)
	var before raftResult
	wg.Go(func() {
		time.Sleep(warm)
		before = w.traffic()
	})
	for region := range w.regions() {
		for c := range clients {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(region)<<32|uint64(c), 0x11b))
				var newest []int64
				for ctx.Err() == nil {
					time.Sleep(time.Duration(rng.Int64N(int64(2*raftThink))) + 2*rig.LAN)
					begin := time.Now()
					x, n, write := rng.Float64(), int64(w.zipf(rng)), true
					switch {
					case x < mix.update:
					case x < mix.update+mix.insert:
						n = raftRows + w.added.Add(1)
						newest = append(newest, n)
					default:
						write = false
						if mix.latest && len(newest) > 0 {
							n = newest[max(0, len(newest)-1-int(n))]
						}
					}
					k, v := w.key(region, n), w.value(rng)
					_, err := kv.Run(ctx, w.db(region, c), kv.Options{}, func(t kv.Txn) error {
						if write {
							t.Put(k, v, 0)
							return nil
						}
						_, err := t.Get(ctx, []base.Key{k}, kv.LockNone)
						return err
					})
					took := time.Since(begin) + 2*rig.LAN // the client's way to its node and back
					mu.Lock()
					if ctx.Err() == nil && err != nil {
						bad = cmp.Or(bad, err)
						cancel()
					} else if ctx.Err() == nil && !begin.Before(from) {
						res.all = append(res.all, took)
						if write {
							res.writes = append(res.writes, took)
						}
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	after := w.traffic()
	res.bytes, res.wire, res.messages = after.bytes-before.bytes, after.wire-before.wire, after.messages-before.messages
	res.saved, res.relayed, res.fallbacks = after.saved-before.saved, after.relayed-before.relayed,
		after.fallbacks-before.fallbacks
	slices.Sort(res.all)
	slices.Sort(res.writes)
	time.Sleep(2 * time.Second) // transactions under way end
	if bad == nil && len(res.all) == 0 {
		bad = errors.New("nothing was done in time")
	}
	return res, bad
}

// traffic counts what has crossed between regions since the start.
func (w *raftWorld) traffic() (t raftResult) {
	for i, n := range w.Nodes {
		for _, l := range n.Overlay().Stats() {
			if int(l.Region) != i/w.per+1 {
				t.bytes += l.StreamSent
				t.wire += l.WireSent
				t.messages += l.SentMsgs
			}
		}
		for _, s := range n.Overlay().OverStats() {
			t.saved += s.SavedBytes
			t.relayed += s.RelayedMsgs
			t.fallbacks += s.Fallbacks
		}
	}
	return t
}

// quorumGain is how much relays shorten the round trip to the nearest majority, as the mean and the
// maximum over the regions.
func quorumGain(m *matrix.Matrix) (gain, most float64) {
	n := m.Len()
	best := func(i, j int) time.Duration {
		d := m.OneWay(i, j)
		for r := range n {
			if over := m.OneWay(i, r) + m.OneWay(r, j); r != i && r != j &&
				over < m.OneWay(i, j)-max(2*time.Millisecond, m.OneWay(i, j)/20) {
				d = min(d, over)
			}
		}
		return d
	}
	for i := range n {
		var direct, relayed []time.Duration
		for j := range n {
			if i != j {
				direct, relayed = append(direct, m.RoundTrip(i, j)), append(relayed, best(i, j)+best(j, i))
			}
		}
		slices.Sort(direct)
		slices.Sort(relayed)
		g := 1 - float64(relayed[n/2-1])/float64(direct[n/2-1])
		gain += g / float64(n)
		most = max(most, g)
	}
	return gain, most
}

// raftDraws draws places by lot. It returns the gains of all draws, and the draw with the greatest
// gain.
func raftDraws(name string, places, draws int) (best *matrix.Matrix, gains []float64, err error) {
	m, err := matrix.Open(name)
	if err != nil {
		return nil, nil, err
	}
	rnd := rand.New(rand.NewPCG(11, 2))
	top := -1.0
	for range draws {
		var names []string
		for _, i := range rnd.Perm(m.Len())[:places] {
			names = append(names, m.Names[i])
		}
		d, err := m.Pick(names...)
		if err != nil {
			return nil, nil, err
		}
		g, _ := quorumGain(d)
		gains = append(gains, g)
		if g > top {
			top, best = g, d
		}
	}
	slices.Sort(gains)
	return best, gains, nil
}

const (
	raftPlaces = 7 // the most voters that a group has
	raftDrawn  = 2000
)

// raft measures Figure 11b: YCSB A to D in a cluster, with and without relays for consensus
// messages. The gain depends on where the replicas are, as a detour to the nearest majority is
// seldom faster. So the gain is computed for places drawn by lot, and measured where it is
// greatest.
func (b *geococo) raft(ctx context.Context) (out []rig.Line, err error) {
	var m *matrix.Matrix
	var gains []float64
	for _, name := range clouds { // the last one is used below
		if m, gains, err = raftDraws(name, raftPlaces, raftDrawn); err != nil {
			return nil, err
		}
		for _, q := range []float64{.5, .9, .99, 1} {
			g := gains[min(len(gains)-1, int(q*float64(len(gains))))]
			out = append(out, rig.Line{Figure: "11b", Series: name + " relays/direct",
				X: fmt.Sprintf("p%g of draws", 100*q), Metric: "way to the majority and back", Unit: "of direct",
				Value: 1 - g, Baseline: rig.Float(1), Better: rig.Lower})
		}
	}
	fmt.Fprintf(b.Log, "the draw in which relays help most: %v, %.1f %% of the way to the majority\n", m.Names,
		100*gains[len(gains)-1])
	length, clients := 3*time.Second, 4
	if b.Quick {
		length, clients = 1500*time.Millisecond, 3
	}
	err = errors.Join(err, rig.Virtual(func() error {
		w, err := openRaft(m, 1, false)
		if err != nil {
			return err
		}
		for _, mix := range raftMixes {
			if ctx.Err() != nil {
				break
			}
			var r [2]*raftResult
			for i, on := range []bool{false, true} {
				w.set(overlay.Params{Relay: on}, wan.Zstd)
				if r[i], err = w.run(mix, clients, length); err != nil {
					return errors.Join(fmt.Errorf("%s: %w", mix.name, err), w.Close())
				}
			}
			out = append(out, raftLines("11b", "relays/direct", mix, r)...)
			fmt.Fprintf(b.Log, "%s: %.0f and %.0f txn/s; %d messages over relays, %d fallbacks\n", mix.name,
				r[0].rate(), r[1].rate(), r[1].relayed, r[1].fallbacks)
		}
		return errors.Join(ctx.Err(), w.Close())
	}))
	return out, err
}

func raftLines(figure, series string, mix raftMix, r [2]*raftResult) (out []rig.Line) {
	line := func(metric, unit string, of func(*raftResult) float64, paper *float64, better string) {
		out = append(out, rig.Line{Figure: figure, Series: series, X: mix.name, Metric: metric, Unit: unit,
			Value: of(r[1]), Baseline: rig.Float(of(r[0])), Paper: paper, Better: better})
	}
	line("throughput", "txn/s", (*raftResult).rate, mix.throughput, rig.Higher)
	line("p99", "ms", func(r *raftResult) float64 { return quantileMS(r.all, .99) }, mix.p99, rig.Lower)
	if len(r[0].writes) > 0 {
		line("median of a write", "ms", func(r *raftResult) float64 { return quantileMS(r.writes, .5) }, nil, rig.Lower)
		line("WAN bytes a write", "bytes", func(r *raftResult) float64 { return r.perWrite(r.wire) }, nil, rig.Lower)
	}
	return out
}

// raftWays measures what one copy a region, compression and batching save: YCSB A on asynchronous
// tables, three nodes a region, all of which hold the rows.
func (b *geococo) raftWays(ctx context.Context) (out []rig.Line, err error) {
	m, err := matrix.Default(3)
	if err != nil {
		return nil, err
	}
	length, clients := 3*time.Second, 6
	type way struct {
		fan  bool
		pack wan.Compression
	}
	ways := []way{{false, wan.Off}, {true, wan.Off}, {true, wan.Zstd}, {false, wan.Zstd}, {false, wan.LZ4}, {true, wan.LZ4}}
	if b.Quick {
		length, ways = time.Second, ways[:3]
	}
	if !b.long("raft-ways") { // 16-raft compresses
		ways = ways[:2]
	}
	var rs []*raftResult
	if err = rig.Virtual(func() error {
		w, err := openRaft(m, 3, true)
		if err != nil {
			return err
		}
		for _, x := range ways {
			if ctx.Err() != nil {
				break
			}
			w.set(overlay.Params{FanOut: x.fan}, x.pack)
			r, err := w.run(raftMixes[0], clients, length)
			if err != nil {
				return errors.Join(err, w.Close())
			}
			rs = append(rs, r)
		}
		return errors.Join(ctx.Err(), w.Close())
	}); err != nil {
		return nil, err
	}
	batches, err := b.raftBatches(ctx)
	if err != nil {
		return nil, err
	}
	lines := func(series, x string, r, than *raftResult) {
		for _, l := range []rig.Line{
			{Metric: "WAN bytes a write", Unit: "bytes", Value: r.perWrite(r.wire),
				Baseline: rig.Float(than.perWrite(than.wire))},
			{Metric: "WAN messages a write", Unit: "messages", Value: r.perWrite(r.messages),
				Baseline: rig.Float(than.perWrite(than.messages))},
			{Metric: "p99 of a write", Unit: "ms", Value: quantileMS(r.writes, .99),
				Baseline: rig.Float(quantileMS(than.writes, .99))},
		} {
			l.Figure, l.Series, l.X, l.Better = "raft-ways", series, x, rig.Lower
			out = append(out, l)
		}
	}
	for i, x := range ways {
		name := map[bool]string{false: "one copy a node", true: "one copy a region"}[x.fan]
		lines(name+"/direct, plain", x.pack.String(), rs[i], rs[0])
	}
	return append(out, batches...), nil
}

// raftWeather measures Figure 17 on the Raft path: YCSB A where relays help most, under loss and
// jitter.
func (b *geococo) raftWeather(ctx context.Context) (out []rig.Line, err error) {
	m, _, err := raftDraws(matrix.Clouds, raftPlaces, raftDrawn)
	if err != nil {
		return nil, err
	}
	length, clients := 8*time.Second, 4
	if b.Quick {
		length, clients = 1500*time.Millisecond, 2
	}
	type weather struct {
		name      string
		loss      float64
		jitter    time.Duration
		rate, p99 *float64 // the paper's ratios
	}
	weathers := []weather{
		{"loss 1 %", 0.01, 0, rig.Float(1.093), nil}, {"+30 ms", 0, 30 * time.Millisecond, rig.Float(1.093), nil},
		{"loss 5 %", 0.05, 0, rig.Float(1.158), rig.Float(0.78)}, {"+50 ms", 0, 50 * time.Millisecond, rig.Float(1.096), nil},
	}
	if b.Quick {
		weathers = weathers[:2]
	}
	err = rig.Virtual(func() error {
		w, err := openRaft(m, 1, false)
		if err != nil {
			return err
		}
		for _, x := range weathers {
			if ctx.Err() != nil {
				break
			}
			for i := range m.Names {
				for j := range m.Names {
					if i != j {
						w.Net.SetPath(base.RegionID(i+1), base.RegionID(j+1),
							wan.LinkSpec{Delay: m.OneWay(i, j), Loss: x.loss, Jitter: x.jitter})
					}
				}
			}
			var r [2]*raftResult
			for i, on := range []bool{false, true} {
				w.set(overlay.Params{Relay: on}, wan.Zstd)
				if r[i], err = w.run(raftMixes[0], clients, length); err != nil {
					return errors.Join(fmt.Errorf("%s: %w", x.name, err), w.Close())
				}
			}
			mix := raftMixes[0]
			mix.name, mix.throughput, mix.p99 = x.name, x.rate, x.p99
			out = append(out, raftLines("17-raft", "relays/direct", mix, r)...)
			fmt.Fprintf(b.Log, "%s: %.0f and %.0f txn/s; %d messages over relays, %d fallbacks\n", x.name,
				r[0].rate(), r[1].rate(), r[1].relayed, r[1].fallbacks)
		}
		return errors.Join(ctx.Err(), w.Close())
	})
	return out, err
}

// raftPacked measures Figure 16 on the Raft path: zlib, LZ4 and zstd compress YCSB A's messages
// between regions. Each stream is compressed alone, with the messages of one millisecond together.
// The time is that of a megabyte at 15 Mbit/s, the paper's greatest bandwidth, including the CPU
// time of both ends.
func (b *geococo) raftPacked(ctx context.Context) (out []rig.Line, err error) {
	m, err := matrix.Default(3)
	if err != nil {
		return nil, err
	}
	streams := map[rig.TapKey][]wan.Tapped{}
	err = rig.Virtual(func() error {
		w, err := openRaft(m, 3, true)
		if err != nil {
			return err
		}
		var mu sync.Mutex
		w.Net.Tap(func(t wan.Tapped) {
			mu.Lock()
			defer mu.Unlock()
			k := rig.TapKey{From: t.From, To: t.To, Stream: t.Stream}
			t.Frame = slices.Clone(t.Frame)
			streams[k] = append(streams[k], t)
		})
		_, err = w.run(raftMixes[0], 6, time.Second)
		w.Net.Tap(nil)
		return errors.Join(err, w.Close())
	})
	if err != nil {
		return nil, err
	}
	const bits = 15e6
	how := []struct {
		name   string
		replay func([][]byte) (wan.Replayed, error)
		paper  *float64
	}{
		{"off", func(ws [][]byte) (wan.Replayed, error) { return wan.Replay(wan.Off, ws) }, nil},
		{"zlib", zlibReplay, rig.Float(1 - 0.5413)},
		{"lz4", func(ws [][]byte) (wan.Replayed, error) { return wan.Replay(wan.LZ4, ws) }, nil},
		{"zstd", func(ws [][]byte) (wan.Replayed, error) { return wan.Replay(wan.Zstd, ws) }, nil},
	}
	var first [2]float64
	for i, h := range how {
		var sum wan.Replayed
		for _, ms := range streams {
			r, err := h.replay(rig.Gather(ms, time.Millisecond))
			if err != nil {
				return nil, err
			}
			sum.Stream, sum.Wire, sum.Pack, sum.Unpack = sum.Stream+r.Stream, sum.Wire+r.Wire, sum.Pack+r.Pack,
				sum.Unpack+r.Unpack
		}
		share := 100 * float64(sum.Wire) / float64(sum.Stream)
		ms := ((sum.Pack+sum.Unpack).Seconds()*1e3 + float64(sum.Wire)*8e3/bits) / (float64(sum.Stream) / 1e6)
		if i == 0 {
			first = [2]float64{share, ms}
		}
		out = append(out,
			rig.Line{Figure: "16-raft", Series: "compressed/plain", X: h.name, Metric: "bytes on the wire", Unit: "%",
				Value: share, Baseline: rig.Float(first[0]), Better: rig.Lower},
			rig.Line{Figure: "16-raft", Series: "compressed/plain", X: h.name,
				Metric: "work and transmission of a megabyte", Unit: "ms", Value: ms, Baseline: rig.Float(first[1]),
				Paper: h.paper, Better: rig.Lower})
	}
	return out, nil
}

// zlibReplay passes writes through zlib as one stream, flushed after each.
func zlibReplay(writes [][]byte) (r wan.Replayed, err error) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	begin := time.Now()
	for _, b := range writes {
		if _, err = z.Write(b); err == nil {
			err = z.Flush()
		}
		if err != nil {
			return r, err
		}
		r.Stream += len(b)
	}
	r.Pack, r.Wire = time.Since(begin), packed.Len()
	begin = time.Now()
	u, err := zlib.NewReader(&packed)
	if err == nil {
		_, err = io.CopyN(io.Discard, u, int64(r.Stream))
	}
	r.Unpack = time.Since(begin)
	return r, err
}
