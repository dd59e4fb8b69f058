package gaussdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/lab/workload"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// Compression measures the compression of the traffic between regions.
func Compression() rig.Bench {
	return rig.Bench{
		Name: "compression", Title: "what LZ4 and zstd make of the traffic of TPC-C between three regions, and what it costs",
		Figures: []string{"compression/bytes", "compression/cpu", "compression/delay"},
		Run:     runCompression,
	}
}

// gathers are the times for which a sender gathers frames before it writes. An idle stream writes
// each frame at once, a busy one writes what arrived during the previous write.
var gathers = []time.Duration{0, time.Millisecond}

// wanBits is the bandwidth for which the delay is reported, in bit/s.
const wanBits = 100e6

// runCompression records what TPC-C sends between regions and replays it through each compression.
func runCompression(ctx context.Context, p rig.Params) error {
	measure := 20 * time.Second
	if p.Quick {
		measure = 8 * time.Second
	}
	streams, err := tapTPCC(ctx, p, measure)
	if err != nil {
		return err
	}
	keys := slices.SortedFunc(maps.Keys(streams), func(a, b rig.TapKey) int {
		return slices.Compare([]string{fmt.Sprint(a)}, []string{fmt.Sprint(b)})
	})
	for _, g := range gathers {
		series := "each message alone"
		if g > 0 {
			series = fmt.Sprintf("messages of %s together", g)
		}
		var off wan.Replayed
		for _, c := range []wan.Compression{wan.Off, wan.LZ4, wan.Zstd} {
			var sum wan.Replayed
			writes := 0
			for _, k := range keys {
				ws := rig.Gather(streams[k], g)
				// The best of three, because other programs share the machine.
				best := wan.Replayed{}
				for i := range 3 {
					r, err := wan.Replay(c, ws)
					if err != nil {
						return err
					}
					if i == 0 || r.Pack+r.Unpack < best.Pack+best.Unpack {
						best = r
					}
				}
				writes += len(ws)
				sum.Stream += best.Stream
				sum.Wire += best.Wire
				sum.Pack += best.Pack
				sum.Unpack += best.Unpack
			}
			if c == wan.Off {
				off = sum
			}
			mb := float64(sum.Stream) / 1e6
			per := func(r wan.Replayed) float64 { // microseconds a write
				return (r.Pack+r.Unpack).Seconds()*1e6/float64(writes) + float64(r.Wire)*8e6/wanBits/float64(writes)
			}
			for _, l := range []rig.Line{
				{Figure: "compression/bytes", Metric: "bytes on the wire", Unit: "%",
					Value:    100 * float64(sum.Wire) / float64(sum.Stream),
					Baseline: rig.Float(100 * float64(off.Wire) / float64(off.Stream))},
				{Figure: "compression/cpu", Metric: "CPU of both ends", Unit: "ms/MB",
					Value:    (sum.Pack + sum.Unpack).Seconds() * 1e3 / mb,
					Baseline: rig.Float((off.Pack + off.Unpack).Seconds() * 1e3 / mb)},
				{Figure: "compression/delay", Metric: "work and transmission at 100 Mbit/s", Unit: "us/write",
					Value: per(sum), Baseline: rig.Float(per(off))},
			} {
				l.Series, l.X, l.Better = series, c.String(), rig.Lower
				if err := p.Emit(l); err != nil {
					return err
				}
			}
			fmt.Fprintf(p.Log, "%s, %s: %d writes of %.0f bytes, %.2f of %.2f MB\n", series, c, writes,
				float64(sum.Stream)/float64(writes), float64(sum.Wire)/1e6, mb)
		}
	}
	return nil
}

// tapTPCC runs TPC-C in three regions and records what they send each other.
func tapTPCC(ctx context.Context, p rig.Params, measure time.Duration) (streams map[rig.TapKey][]wan.Tapped, err error) {
	m, err := matrix.Open(matrix.AWS)
	if err != nil {
		return nil, err
	}
	if m, err = m.Pick(m.Names[:3]...); err != nil {
		return nil, err
	}
	l, err := node.StartLocal(ctx, node.LocalConfig{Matrix: m, Dir: filepath.Join(p.Dir, "data"), CacheMB: 128},
		slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close(context.Background())) }()
	var targets []workload.Target
	for _, r := range l.Regions() {
		targets = append(targets, workload.Target{Region: r, URLs: []string{"mysql://root@" + l.SQLAddrs(r)[0] + "/tpcc"}})
	}
	opt := workload.DefaultOptions()
	opt.TPCC.Warehouses, opt.TPCC.Scale = 3, 0.05
	w, err := workload.New("tpcc", opt)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(p.Log, "loading TPC-C")
	if err := w.Init(ctx, targets); err != nil {
		return nil, err
	}
	streams = map[rig.TapKey][]wan.Tapped{}
	var mu sync.Mutex
	fmt.Fprintf(p.Log, "recording %s of it\n", measure)
	l.Network().Tap(func(t wan.Tapped) {
		mu.Lock()
		defer mu.Unlock()
		k := rig.TapKey{From: t.From, To: t.To, Stream: t.Stream}
		streams[k] = append(streams[k], t)
	})
	_, err = w.Run(ctx, targets, workload.RunOptions{Duration: measure, ClientsPerTarget: 8})
	l.Network().Tap(nil)
	mu.Lock()
	defer mu.Unlock()
	return streams, err
}
