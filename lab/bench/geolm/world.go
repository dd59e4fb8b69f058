package geolm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/leader"
	"github.com/godwitdb/godwit/wire"
)

// leadWorld is a set of nodes in virtual time, one a region, over emulated oceans that change with
// time. Every Raft group has a replica at every node. The groups are the variants that are
// compared, under the same delays at the same time.
type leadWorld struct {
	net    *wan.Network
	nodes  []*leadNode
	groups []*leadGroup
	oneWay func(at time.Duration) [][]time.Duration
	beat   time.Duration // heartbeat of the policy and of the probes
	began  time.Time
	ready  atomic.Bool
	err    error // of the first that failed
	once   sync.Once
}

type leadNode struct {
	id    base.NodeID
	tr    wan.Transport
	host  *group.Host
	store *store.Store
	mu    sync.Mutex
	rtt   []wan.RTT
}

// leadGroup is one variant: a group, its clients, and the policy that decides on its leader.
type leadGroup struct {
	first  int // the node that leads first
	fixed  bool
	params leader.Params
	// writes is the share of writes at a node. Clients work in closed loops. popularity is the
	// share of the requests that each node gets, which may change with time.
	writes     func(node int) float64
	clients    int
	popularity func(at time.Duration) []float64

	id     base.GroupID
	policy *leader.Policy
	counts []loadCount
	meters []leader.Meter
	done   [][]leadSample // by client
	moves  []leadMove
	model  map[leader.Commit]*modelError
}

type loadCount struct{ reads, writes atomic.Int64 }

// leadSample is one request.
type leadSample struct{ at, lat time.Duration } // its end since the start

// leadMove is a hand-over that was ordered.
type leadMove struct {
	at       time.Duration
	from, to int
}

// modelError records the costs that equation 4 has predicted, and when.
type modelError struct {
	at   []time.Duration
	cost []time.Duration
}

// even is the same popularity everywhere.
func even(nodes int) func(time.Duration) []float64 {
	p := slices.Repeat([]float64{1 / float64(nodes)}, nodes)
	return func(time.Duration) []float64 { return p }
}

// draught draws a node by popularity.
func draught(r *rand.Rand, popularity []float64) int {
	x := r.Float64()
	for i, p := range popularity {
		if x -= p; x < 0 {
			return i
		}
	}
	return len(popularity) - 1
}

// play runs groups at n nodes.
func (b *geolm) play(ctx context.Context, name string, n int, length, jitter time.Duration,
	oneWay func(time.Duration) [][]time.Duration, groups ...cell) error {
	begin, cpu := time.Now(), rig.CPUTime()
	all := slices.Concat(groups...)
	err := rig.Virtual(func() error {
		w, err := openLeadWorld(ctx, filepath.Join(b.Dir, name), n, leadBeat, oneWay, all)
		if err != nil {
			return err
		}
		w.jitter(jitter)
		return errors.Join(w.run(ctx, length), w.close())
	})
	fmt.Fprintf(b.Log, "%s: %d groups at %d nodes, %s of virtual time in %.1f s, %.1f s of CPU\n", name, len(all), n,
		length, time.Since(begin).Seconds(), (rig.CPUTime() - cpu).Seconds())
	return err
}

// openLeadWorld starts the nodes and waits until every group is led by its first leader.
func openLeadWorld(ctx context.Context, dir string, n int, beat time.Duration,
	oneWay func(time.Duration) [][]time.Duration, groups []*leadGroup) (_ *leadWorld, err error) {
	w := &leadWorld{net: wan.NewNetwork(wan.NetOptions{Seed: 11}), groups: groups, oneWay: oneWay, beat: beat}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	conf := group.Conf{}
	for i := range n {
		conf.Voters = append(conf.Voters, base.NodeID(i+1))
	}
	for k, g := range groups {
		g.id = base.DataGroup(base.ShardID(k+1), 1)
		g.counts, g.meters, g.done = make([]loadCount, n), make([]leader.Meter, n), make([][]leadSample, g.clients)
		g.model = map[leader.Commit]*modelError{leader.Quorum: {}, leader.Median: {}}
		if !g.fixed {
			if g.policy, err = leader.New(g.params); err != nil {
				return nil, err
			}
		}
	}
	for i := range conf.Voters {
		if err := w.start(i, conf, dir); err != nil {
			return nil, err
		}
	}
	for _, g := range groups { // without delays yet
		for w.leaderOf(g) != g.first {
			time.Sleep(10 * time.Millisecond)
			if err = ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	w.ready.Store(true)
	return w, nil
}

// start starts one node, with a replica of every group.
func (w *leadWorld) start(i int, conf group.Conf, dir string) (err error) {
	id := conf.Voters[i]
	v := &leadNode{id: id, rtt: make([]wan.RTT, len(conf.Voters)), tr: w.net.Join(id, base.RegionID(id))}
	w.nodes = append(w.nodes, v)
	for _, o := range conf.Voters {
		v.tr.SetPeer(o, "", base.RegionID(o))
	}
	if v.store, err = store.Open(store.Options{Dir: filepath.Join(dir, fmt.Sprint(id)), NoSync: true,
		Simulation: true, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	// The paper's heartbeat. The election timeout must exceed the longest round trips of the trace.
	if v.host, err = group.NewHost(group.HostOptions{Self: id, Store: v.store, Transport: v.tr, HeartbeatTicks: 2,
		ElectionTicks: 20}); err != nil {
		return err
	}
	for _, g := range w.groups {
		if _, err = v.host.Open(g.id, conf, rig.IdleSM{}, func() base.NodeID {
			if g.fixed || !w.ready.Load() {
				return base.NodeID(g.first + 1)
			}
			return 0
		}); err != nil {
			return err
		}
	}
	w.answer(i, v.tr)
	return errors.Join(v.tr.Start(), v.host.Start())
}

// answer makes a node answer probes, reads and writes.
func (w *leadWorld) answer(i int, tr wan.Transport) {
	tr.Handle(wire.KindAsk, func(context.Context, base.NodeID, []byte) (wan.Msg, error) { return nil, nil }) // a probe
	tr.Handle(wire.KindRead, func(ctx context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
		var r wire.ReadRequest
		if err := r.UnmarshalVT(body); err != nil {
			return nil, err
		}
		return w.serve(ctx, i, base.GroupID(r.Group), false)
	})
	tr.Handle(wire.KindCommit, func(ctx context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
		var r wire.CommitRequest
		if err := r.UnmarshalVT(body); err != nil {
			return nil, err
		}
		return w.serve(ctx, i, base.GroupID(r.Group), true)
	})
}

// jitter adds a random delay to each message.
func (w *leadWorld) jitter(d time.Duration) {
	for _, v := range w.nodes {
		for _, o := range w.nodes {
			if v != o {
				w.net.SetPath(base.RegionID(v.id), base.RegionID(o.id), wan.LinkSpec{Jitter: d})
			}
		}
	}
}

func (w *leadWorld) close() error {
	var errs []error
	for _, v := range w.nodes {
		if v.host != nil {
			errs = append(errs, v.host.Close())
		}
	}
	for _, v := range w.nodes {
		errs = append(errs, v.tr.Close())
		if v.store != nil {
			errs = append(errs, v.store.Close())
		}
	}
	return errors.Join(append(errs, w.net.Close())...)
}

// leaderOf is the node that serves; -1 if none does.
func (w *leadWorld) leaderOf(g *leadGroup) int {
	best, at := uint64(0), -1
	for i, v := range w.nodes {
		if term, ok := v.host.Group(g.id).Leads(); ok && term > best {
			best, at = term, i
		}
	}
	return at
}

var (
	leadRow   = make([]byte, 100)
	leadWrite = []*wire.Write{{Key: []byte("k"), Value: leadRow}}
)

// serve handles a request at a node, which must lead. A read is answered at once, a write when it
// is committed.
func (w *leadWorld) serve(ctx context.Context, node int, id base.GroupID, write bool) (wan.Msg, error) {
	g := w.nodes[node].host.Group(id)
	if write {
		_, _, err := g.Propose(ctx, &wire.Command{Commit: &wire.TxnCommit{Writes: leadWrite}}, 0)
		return nil, err
	}
	if _, ok := g.Leads(); !ok {
		lead, _ := g.Leader()
		return nil, &base.Error{Code: base.CodeNotLeader, Msg: "not the leader", Node: lead}
	}
	return &wire.ReadResponse{Rows: []*wire.KV{{Value: leadRow}}}, nil
}

// request sends one request of a client at a node, until it succeeds.
func (w *leadWorld) request(ctx context.Context, g *leadGroup, node int, write bool) error {
	v := w.nodes[node]
	var hint base.NodeID
	for {
		lead := hint
		if lead == 0 {
			lead, _ = v.host.Group(g.id).Leader()
		}
		var err error
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		switch {
		case lead == 0:
			err = &base.Error{Code: base.CodeNotLeader}
		case lead == v.id:
			_, err = w.serve(one, node, g.id, write)
		case write:
			err = v.tr.Call(one, lead, wire.KindCommit, &wire.CommitRequest{Group: uint32(g.id), Writes: leadWrite}, nil)
		default:
			err = v.tr.Call(one, lead, wire.KindRead, &wire.ReadRequest{Group: uint32(g.id)}, &wire.ReadResponse{})
		}
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		hint = 0
		var e *base.Error
		if errors.As(err, &e) && e.Code == base.CodeNotLeader && e.Node != lead {
			hint = e.Node
		}
		if hint == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// run plays the trace while all clients work.
func (w *leadWorld) run(ctx context.Context, length time.Duration) error {
	parent := ctx // of real time: nothing here may wait for it
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	w.net.SetOneWay(w.oneWay(0))
	// The nodes have measured round trips before the clients begin, as in a cluster that has been
	// up for a while.
	for range 2 {
		w.probe(ctx)
	}
	w.began = time.Now()
	var wg sync.WaitGroup
	for _, g := range w.groups {
		for c := range g.clients {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(c), uint64(g.id)))
				for ctx.Err() == nil {
					node := draught(r, g.popularity(time.Since(w.began)))
					write := r.Float64() < g.writes(node)
					begin := time.Now()
					if w.request(ctx, g, node, write) != nil {
						return // the time is up
					}
					if write {
						g.counts[node].writes.Add(1)
					} else {
						g.counts[node].reads.Add(1)
					}
					g.done[c] = append(g.done[c], leadSample{at: time.Since(w.began), lat: time.Since(begin)})
				}
			})
		}
	}
	every := func(d time.Duration, f func()) {
		wg.Go(func() {
			t := time.NewTicker(d)
			defer t.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-t.C:
					f()
				}
			}
		})
	}
	every(100*time.Millisecond, func() { w.net.SetOneWay(w.oneWay(time.Since(w.began))) })
	for _, v := range w.nodes {
		for _, o := range w.nodes {
			if o != v {
				every(w.beat, func() { w.ping(ctx, v, o) })
			}
		}
	}
	every(w.beat, func() {
		if parent.Err() != nil {
			cancel()
		}
		for _, g := range w.groups {
			if err := w.heartbeat(g); err != nil {
				w.once.Do(func() { w.err = err; cancel() })
			}
		}
	})
	wg.Wait()
	return cmp.Or(w.err, parent.Err())
}

func (w *leadWorld) probe(ctx context.Context) {
	var wg sync.WaitGroup
	for _, v := range w.nodes {
		for _, o := range w.nodes {
			if o != v {
				wg.Go(func() { w.ping(ctx, v, o) })
			}
		}
	}
	wg.Wait()
}

// ping measures one round trip.
func (w *leadWorld) ping(ctx context.Context, v, o *leadNode) {
	begin := time.Now()
	if v.tr.Call(ctx, o.id, wire.KindAsk, &wire.ReadRequest{}, nil) != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rtt[o.id-1].Add(time.Since(begin))
}

// heartbeat gathers the facts of a group, and lets its policy decide.
func (w *leadWorld) heartbeat(g *leadGroup) error {
	lead := w.leaderOf(g)
	f := &leader.Facts{Leader: base.NodeID(lead + 1)}
	for i, v := range w.nodes {
		writes := float64(g.counts[i].writes.Swap(0))
		g.meters[i].Add(writes+float64(g.counts[i].reads.Swap(0)), writes, 1)
		n := leader.Node{ID: v.id, Region: base.RegionID(v.id), Voter: true, Able: true}
		n.Requests, n.Writes = g.meters[i].Load()
		f.Nodes = append(f.Nodes, n)
		row := make([]time.Duration, len(w.nodes))
		v.mu.Lock()
		for j := range row {
			if row[j] = v.rtt[j].SRTT; i != j && !v.rtt[j].Known() {
				row[j] = leader.Unknown
			}
		}
		v.mu.Unlock()
		f.RTT = append(f.RTT, row)
	}
	if g.fixed {
		for c, m := range g.model {
			a, err := leader.Assess(f, leader.Params{Commit: c})
			if err != nil {
				return err
			}
			if s := a.Standings[g.first]; s.Known && !a.Idle && lead == g.first {
				m.at, m.cost = append(m.at, time.Since(w.began)), append(m.cost, s.Cost)
			}
		}
		return nil
	}
	d, err := g.policy.Observe(f)
	if err != nil || !d.Move() {
		return err
	}
	g.moves = append(g.moves, leadMove{at: time.Since(w.began), from: lead, to: int(d.To) - 1})
	_ = w.nodes[lead].host.Group(g.id).Transfer(d.To) // if it fails, the policy asks again
	return nil
}
