package geococo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/collective"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/txn/multimaster"
)

// squad is the communicators of the nodes of a place, without a database.
type squad struct {
	net   *wan.Network
	links []*uplink
	comms [][]*collective.Comm // by id, then node
}

// squad makes as many communicators as there are options; call it in virtual time.
func (p *place) squad(pl *plan.Plan, pack packing, options ...collective.Options) (_ *squad, err error) {
	s := &squad{net: p.network(15)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.comms = make([][]*collective.Comm, len(options))
	for i := range p.of {
		tr := p.join(s.net, i, pack)
		s.links = append(s.links, tr)
		svc := collective.New(tr)
		for id, opt := range options {
			c, err := svc.Join(uint32(id+1), p.ids(), opt)
			if err != nil {
				return nil, err
			}
			s.comms[id] = append(s.comms[id], c)
			if err := c.SetPlan(pl, 0); err != nil {
				return nil, err
			}
		}
		p.known(tr)
		if err := tr.Start(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *squad) close() error {
	for _, cs := range s.comms {
		for _, c := range cs {
			c.Close()
		}
	}
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, s.net.Close())...)
}

func (s *squad) bytes() (sum float64) {
	for _, l := range s.links {
		sum += float64(l.bytes.Load())
	}
	return sum
}

// epochRound are the options of the rounds of epochs.
func epochRound() collective.Options {
	return collective.Options{Split: epoch.Split, Join: epoch.Join,
		Filter: func(_ uint64, parts []collective.Part) { multimaster.Shorten(parts) }, Retry: time.Minute,
		Grace: 10 * time.Minute}
}

// contents of rows, for compression.
var words = []string{"amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven", "islet", "jetty",
	"karst", "lagoon", "mesa", "notch", "oxbow", "plain", "quay", "ridge", "shoal", "tarn"}

var contents = []struct {
	name  string
	value func(r *rand.Rand) []byte
}{
	{"YCSB's random text", func(r *rand.Rand) []byte {
		v := make([]byte, 1000)
		for i := range v {
			v[i] = byte(' ' + r.IntN(95))
		}
		return v
	}},
	{"words and numbers", func(r *rand.Rand) []byte {
		var v []byte
		for f := 0; len(v) < 1000; f++ {
			v = fmt.Appendf(v, "field%d=%s %s %d;", f, words[r.IntN(len(words))], words[r.IntN(len(words))], r.IntN(100_000))
		}
		return v[:1000]
	}},
}

// compressed is Figure 16: a round of full batches with all ways of compressing them, flat and
// planned. One transaction in five has lost in its region.
func (b *geococo) compressed(ctx context.Context) (out []rig.Line, err error) {
	m, err := matrix.Default(5)
	if err != nil {
		return nil, err
	}
	size := rig.Pick(b.Params, 256<<10, 4<<20)
	p := newPlace(m, 100e6, 2, 2, 2, 2, 2)
	n := len(p.of)
	facts := p.facts(size)
	facts.Keep = .85
	planned, err := plan.Make(facts, plan.Params{})
	if err != nil {
		return nil, err
	}
	paper := map[string]*float64{"flat zlib": rig.Float(1 - .5413), "planned zlib": rig.Float(.3362)}
	for _, content := range contents {
		frames := make([][]byte, n)
		for i := range frames {
			r := rand.New(rand.NewPCG(uint64(i), 16))
			batch := filter.Batch{Origin: i}
			for t := 0; t*1100 < size; t++ {
				key := fmt.Sprintf("user%012d", r.IntN(100_000_000))
				if t%5 == 0 {
					key = fmt.Sprintf("hot%d.%d", p.of[i], t)
				}
				batch.Txns = append(batch.Txns, filter.Txn{ID: base.MakeTxnID(1, base.NodeID(i+1), uint32(t)),
					Priority: r.Uint64(), Writes: []filter.Write{{Key: key, Value: content.value(r)}}})
			}
			enc := filter.Encode(&batch)
			f := epoch.Frame{View: 1, Epoch: 1, Hash: epoch.HashOf(enc), Batch: enc}
			frames[i] = f.Encode()
		}
		var first time.Duration
		for _, pack := range []string{"", "zlib", "lz4", "zstd"} {
			for v, pl := range []*plan.Plan{plan.Flat(n), planned} {
				var took time.Duration
				err := rig.Virtual(func() error {
					s, err := p.squad(pl, newPacking(pack), epochRound())
					if err != nil {
						return err
					}
					at := time.Now()
					err = rig.Each(n, func(i int) error {
						_, err := s.comms[0][i].AllGather(context.Background(), 1, frames[i])
						return err
					})
					took = time.Since(at)
					return errors.Join(err, s.close())
				})
				if err = errors.Join(err, ctx.Err()); err != nil {
					return nil, err
				}
				if first == 0 {
					first = took
				}
				series := []string{"flat", "planned"}[v]
				if pack != "" {
					series += " " + pack
				}
				l := rig.Line{Figure: "16", Series: series + "/flat", X: content.name, Metric: "makespan", Unit: "ms",
					Value: millis(took), Baseline: rig.Float(millis(first)), Paper: paper[series], Better: rig.Lower}
				out = append(out, l)
			}
		}
	}
	return out, nil
}

// scheduler orders transactions before it executes them, so that all replicas do the same: no
// commit protocol, no aborts.
type scheduler struct {
	*place
	slog      bool // rows have homes
	clients   int  // of each node
	rows      int  // of each home
	writes    int  // rows of a transaction
	value     int  // bytes of each
	crossing  int  // percent of the transactions with rows of two homes (slog)
	length    time.Duration
	planned   bool
	latencies []time.Duration
	bytes     float64
	busy      atomic.Int64 // clients at work
}

// command is a transaction on its way.
type command struct {
	filter.Txn
	homes []int // whose logs it must have appeared in
	seen  int
}

// replica is the state at a node: rows, and the transactions that wait for each.
type replica struct {
	rows  map[string]uint64
	queue map[string][]*command
	known map[base.TxnID]*command
	done  map[base.TxnID]chan struct{} // of this node's clients
	// executed is how many transactions have been.
	executed int64
}

// arrive takes an entry of the log of a home; it locks the rows of that home, in the order of the
// log.
func (r *replica) arrive(home int, t *filter.Txn, homeOf func(string) int) {
	c := r.known[t.ID]
	if c == nil {
		c = &command{Txn: *t}
		for _, w := range t.Writes {
			if h := homeOf(w.Key); !slices.Contains(c.homes, h) {
				c.homes = append(c.homes, h)
			}
		}
		r.known[t.ID] = c
	}
	c.seen++
	for _, w := range t.Writes {
		if homeOf(w.Key) == home {
			r.queue[w.Key] = append(r.queue[w.Key], c)
		}
	}
	r.execute(c)
}

// execute runs a transaction that has all its locks, and those that waited for it.
func (r *replica) execute(c *command) {
	if c.seen < len(c.homes) {
		return
	}
	for _, w := range c.Writes {
		if r.queue[w.Key][0] != c {
			return
		}
	}
	delete(r.known, c.ID)
	r.executed++
	var next []*command
	for _, w := range c.Writes {
		h := r.rows[w.Key]*1_099_511_628_211 + uint64(len(w.Value))
		for _, b := range c.ID {
			h = h*31 + uint64(b)
		}
		r.rows[w.Key] = h
		if r.queue[w.Key] = r.queue[w.Key][1:]; len(r.queue[w.Key]) > 0 {
			next = append(next, r.queue[w.Key][0])
		} else {
			delete(r.queue, w.Key)
		}
	}
	if d := r.done[c.ID]; d != nil {
		delete(r.done, c.ID)
		close(d)
	}
	for _, n := range next {
		if r.known[n.ID] != nil {
			r.execute(n)
		}
	}
}

const (
	schedulerEpoch  = 10 * time.Millisecond
	schedulerWindow = 48 // epochs that are under way
)

// run plays the load. Calvin: every node's input of an epoch goes to all, and is executed in the
// order of (epoch, node). SLOG: what has rows of one home goes into that home's log, which is sent
// to all as it grows; the rest is ordered by an all-to-all round first, and enters the logs of its
// homes in that order.
func (s *scheduler) run() error {
	n := len(s.of)
	pl := plan.Flat(n)
	if s.planned {
		var err error
		if pl, err = plan.Make(s.facts(max(1, s.clients/8)*s.writes*(s.value+20)), plan.Params{}); err != nil {
			return err
		}
	}
	opt := collective.Options{Retry: time.Minute, Grace: 10 * time.Minute}
	q, err := s.squad(pl, nil, opt, opt)
	if err != nil {
		return err
	}
	nodes := make([]*schedulerNode, n)
	for i := range nodes {
		nodes[i] = &schedulerNode{s: s, i: i, q: q, homeOf: s.homeOf,
			rep: replica{rows: map[string]uint64{}, queue: map[string][]*command{}, known: map[base.TxnID]*command{},
				done: map[base.TxnID]chan struct{}{}},
			came: [2]map[uint64][][]byte{{}, {}}}
	}
	ctx, stop := context.WithCancel(context.Background())
	begin := time.Now()
	s.busy.Store(int64(n * s.clients))
	err = rig.Each(n*(s.clients+1), func(i int) error {
		v := nodes[i%n]
		if i < n {
			return v.sequence(ctx)
		}
		r := rand.New(rand.NewPCG(uint64(i), 15))
		time.Sleep(rand.N(200 * time.Millisecond))
		for k := 0; time.Since(begin) < s.length; k++ {
			lat := v.submit(s.draw(v.i, uint64(i)<<20|uint64(k), r))
			if time.Since(begin) > s.length/3 {
				v.latencies = append(v.latencies, lat)
			}
		}
		if s.busy.Add(-1) == 0 {
			go func() {
				for deadline := time.Now().Add(10 * time.Second); !s.settled(nodes) && time.Now().Before(deadline); {
					time.Sleep(20 * time.Millisecond)
				}
				stop()
			}()
		}
		return nil
	})
	for _, v := range nodes {
		s.latencies = append(s.latencies, v.latencies...)
	}
	err = errors.Join(err, agree(nodes))
	s.bytes = q.bytes() / float64(max(1, len(s.latencies)))
	return errors.Join(err, q.close())
}

// homeOf is the home of a row: the number that its key begins with (SLOG), or 0 (Calvin).
func (s *scheduler) homeOf(key string) int {
	if !s.slog {
		return 0
	}
	h := 0
	for i := 0; key[i] != '/'; i++ {
		h = 10*h + int(key[i]-'0')
	}
	return h
}

// agree checks that every node has executed all transactions and holds the same rows.
func agree(nodes []*schedulerNode) (err error) {
	for _, v := range nodes {
		if len(v.rep.known) > 0 {
			err = errors.Join(err, fmt.Errorf("%d transactions were never executed at node %d", len(v.rep.known), v.i))
		}
		for key, h := range nodes[0].rep.rows {
			if v.rep.rows[key] != h {
				err = errors.Join(err, fmt.Errorf("replicas differ: row %s of node %d", key, v.i))
				break
			}
		}
	}
	return err
}

// settled reports whether all that was submitted has been executed everywhere.
func (s *scheduler) settled(nodes []*schedulerNode) bool {
	var submitted int64
	for _, v := range nodes {
		v.mu.Lock()
		submitted += v.submitted
		v.mu.Unlock()
	}
	return !slices.ContainsFunc(nodes, func(v *schedulerNode) bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.rep.executed < submitted
	})
}

// schedulerNode is the sequencer and the replica of a node.
type schedulerNode struct {
	s      *scheduler
	i      int
	q      *squad
	homeOf func(string) int

	mu        sync.Mutex
	rep       replica
	input     [2][]filter.Txn        // for the global order, and for this home's log
	came      [2]map[uint64][][]byte // rounds that are complete
	next      [2]uint64              // and executed
	submitted int64                  // transactions of this node's clients
	latencies []time.Duration
}

// draw makes a transaction of a client at a node.
func (s *scheduler) draw(node int, id uint64, r *rand.Rand) filter.Txn {
	t := filter.Txn{ID: base.MakeTxnID(base.Timestamp(id+1), base.NodeID(node+1), 0)}
	homes := []int{node}
	if !s.slog {
		homes[0] = r.IntN(len(s.of))
	} else if r.IntN(100) < s.crossing {
		homes = append(homes, (node+1+r.IntN(len(s.of)-1))%len(s.of))
	}
	for k := range s.writes {
		key := fmt.Sprintf("%d/%d", homes[k%len(homes)], r.IntN(s.rows))
		if slices.ContainsFunc(t.Writes, func(w filter.Write) bool { return w.Key == key }) {
			continue
		}
		value := make([]byte, s.value)
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		t.Writes = append(t.Writes, filter.Write{Key: key, Value: value})
	}
	return t
}

// submit waits until a transaction has been executed here.
func (v *schedulerNode) submit(t filter.Txn) time.Duration {
	begin, done := time.Now(), make(chan struct{})
	v.mu.Lock()
	v.rep.done[t.ID] = done
	v.submitted++
	local := v.s.slog && !slices.ContainsFunc(t.Writes, func(w filter.Write) bool { return v.homeOf(w.Key) != v.i })
	if local {
		v.log(&t)
	} else {
		v.input[0] = append(v.input[0], t)
	}
	v.mu.Unlock()
	<-done
	lat := time.Since(begin)
	v.mu.Lock()
	defer v.mu.Unlock()
	return lat
}

// log appends to this home's log: it holds here at once, and at the others when it arrives.
func (v *schedulerNode) log(t *filter.Txn) {
	v.input[1] = append(v.input[1], *t)
	v.rep.arrive(v.i, t, v.homeOf)
}

// sequence closes an epoch every ten milliseconds.
func (v *schedulerNode) sequence(ctx context.Context) error {
	kinds := 1
	if v.s.slog {
		kinds = 2
	}
	var wg sync.WaitGroup
	var failed error
	for e := [2]uint64{}; ctx.Err() == nil; {
		time.Sleep(schedulerEpoch)
		for kind := range kinds {
			v.mu.Lock()
			if e[kind] >= v.next[kind]+schedulerWindow {
				v.mu.Unlock()
				continue
			}
			e[kind]++
			num, b := e[kind], filter.Batch{Txns: v.input[kind]}
			v.input[kind] = nil
			v.mu.Unlock()
			data := filter.Encode(&b)
			wg.Go(func() {
				bodies, err := v.q.comms[kind][v.i].AllGather(ctx, num, data)
				v.mu.Lock()
				defer v.mu.Unlock()
				if err != nil {
					if ctx.Err() == nil {
						failed = errors.Join(failed, err)
					}
					return
				}
				v.came[kind][num] = bodies
				failed = errors.Join(failed, v.advance(kind))
			})
		}
	}
	wg.Wait()
	return failed
}

// advance executes the rounds that are complete, in order.
func (v *schedulerNode) advance(kind int) error {
	for {
		bodies, ok := v.came[kind][v.next[kind]+1]
		if !ok {
			return nil
		}
		v.next[kind]++
		delete(v.came[kind], v.next[kind])
		for from, body := range bodies {
			b, err := filter.Decode(from, body)
			if err != nil {
				return err
			}
			for i := range b.Txns {
				t := &b.Txns[i]
				switch {
				case !v.s.slog:
					v.rep.arrive(0, t, v.homeOf)
				case kind == 1 && from != v.i: // another home's log
					v.rep.arrive(from, t, v.homeOf)
				case kind == 0 && slices.ContainsFunc(t.Writes, func(w filter.Write) bool { return v.homeOf(w.Key) == v.i }):
					v.log(t)
				}
			}
		}
	}
}

// schedulers is Figure 15: 15 nodes in five regions, 10 Mbit/s each, all transactions write.
func (b *geococo) schedulers(ctx context.Context) (out []rig.Line, err error) {
	m, err := matrix.Default(5)
	if err != nil {
		return nil, err
	}
	paper := map[bool]*float64{false: rig.Float(1 - .4595), true: rig.Float(1 - .5353)}
	for _, slog := range []bool{false, true} {
		for _, load := range []struct {
			name         string
			rows, writes int
			value        int
			clients      int
			paperBelongs bool
			long         bool
		}{
			{"YCSB, 4 clients a node", 100_000, 5, 100, 4, false, true},
			{"YCSB, 30 clients a node", 100_000, 5, 100, 30, true, false},
			{"TPC-C, 15 clients a node", 2_000, 12, 100, 15, true, true},
		} {
			if load.long && !b.long("15") {
				continue
			}
			var mean, p99, bytes [2]float64
			for v := range 2 {
				s := &scheduler{place: newPlace(m, 10e6, 3, 3, 3, 3, 3), slog: slog, clients: load.clients,
					rows: load.rows, writes: load.writes, value: load.value,
					crossing: 50, length: rig.Pick(b.Params, 900*time.Millisecond, 6*time.Second), planned: v == 1}
				if err = errors.Join(rig.Virtual(s.run), ctx.Err()); err != nil {
					return nil, err
				}
				slices.Sort(s.latencies)
				for _, l := range s.latencies {
					mean[v] += millis(l) / float64(len(s.latencies))
				}
				p99[v], bytes[v] = millis(s.latencies[len(s.latencies)*99/100]), s.bytes
			}
			series := map[bool]string{false: "Calvin", true: "SLOG"}[slog] + " planned/flat"
			l := rig.Line{Figure: "15", Series: series, X: load.name, Metric: "mean latency", Unit: "ms",
				Value: mean[1], Baseline: rig.Float(mean[0]), Better: rig.Lower}
			if load.paperBelongs {
				l.Paper = paper[slog]
			}
			out = append(out, l,
				rig.Line{Figure: "15", Series: series, X: load.name, Metric: "p99", Unit: "ms", Value: p99[1],
					Baseline: rig.Float(p99[0]), Better: rig.Lower},
				rig.Line{Figure: "15", Series: series, X: load.name, Metric: "WAN bytes a transaction", Unit: "bytes",
					Value: bytes[1], Baseline: rig.Float(bytes[0]), Better: rig.Lower})
		}
	}
	return out, nil
}
