package geococo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// raftBatches measures what the cluster setting wan.batching saves: 32 groups, led by one of three
// nodes in regions 20 ms apart, with eight proposers each. It uses sockets and real time, as
// batches form while processors and connections are busy.
func (b *geococo) raftBatches(ctx context.Context) (out []rig.Line, err error) {
	length := 2 * time.Second
	if b.Quick {
		length = time.Second
	}
	w, err := openBatches(ctx, batchGroups)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, pack := range []wan.Compression{wan.Off, wan.Zstd} {
		var res [2]*raftResult
		for i, on := range []bool{false, true} {
			w.set(on, pack)
			if res[i], err = w.run(ctx, 8, length); err != nil {
				return nil, err
			}
		}
		line := func(metric, unit, better string, of func(*raftResult) float64) {
			out = append(out, rig.Line{Figure: "raft-ways", Series: "batches/each message alone",
				X:      fmt.Sprintf("%d groups, busy, %s", batchGroups, pack),
				Metric: metric, Unit: unit, Value: of(res[1]), Baseline: rig.Float(of(res[0])), Better: better})
		}
		line("WAN messages a write", "messages", rig.Lower, func(r *raftResult) float64 { return r.perWrite(r.messages) })
		line("writes to sockets a write", "writes", rig.Lower, func(r *raftResult) float64 { return r.perWrite(r.pushes) })
		line("WAN bytes a write", "bytes", rig.Lower, func(r *raftResult) float64 { return r.perWrite(r.wire) })
		line("throughput", "txn/s", rig.Higher, (*raftResult).rate)
		line("median of a write", "ms", rig.Lower, func(r *raftResult) float64 { return quantileMS(r.writes, .5) })
		line("p99 of a write", "ms", rig.Lower, func(r *raftResult) float64 { return quantileMS(r.writes, .99) })
	}
	return out, nil
}

const (
	batchGroups = 32
	batchLag    = 10 * time.Millisecond // one way
	batchValue  = 300                   // bytes of a command
)

// batchWorld is three nodes with consensus groups and no database. Their messages cross sockets.
type batchWorld struct {
	trs     []*wan.TCP
	hosts   []*group.Host // the first leads
	closers []func() error
	text    []byte
}

func openBatches(ctx context.Context, groups int) (_ *batchWorld, err error) {
	w := &batchWorld{text: rig.NewMall(1, 1).Letters}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	conf := group.Conf{Voters: []base.NodeID{1, 2, 3}}
	for _, id := range conf.Voters {
		st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true,
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		w.closers = append(w.closers, st.Close)
		tr, err := wan.NewTCP(wan.TCPOptions{Self: id, Region: base.RegionID(id), ClusterID: "batches",
			Listen: "127.0.0.1:0", Dial: dialLagged})
		if err != nil {
			return nil, err
		}
		w.closers = append(w.closers, tr.Close)
		h, err := group.NewHost(group.HostOptions{Self: id, Store: st, Transport: tr})
		if err != nil {
			return nil, err
		}
		w.closers = append(w.closers, h.Close)
		for g := range groups {
			if _, err := h.Open(base.DataGroup(base.ShardID(g+1), 1), conf, rig.IdleSM{},
				func() base.NodeID { return 1 }); err != nil {
				return nil, err
			}
		}
		w.trs, w.hosts = append(w.trs, tr), append(w.hosts, h)
	}
	for i, tr := range w.trs {
		for j, o := range w.trs {
			if i != j {
				tr.SetPeer(o.Self(), o.Addr().String(), base.RegionID(o.Self()))
			}
		}
	}
	for i, tr := range w.trs {
		if err := errors.Join(tr.Start(), w.hosts[i].Start()); err != nil {
			return nil, err
		}
	}
	led := func() bool {
		for _, g := range w.hosts[0].Groups() {
			if _, ok := g.Leads(); !ok {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(time.Minute); !led(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) || ctx.Err() != nil {
			return nil, errors.Join(errors.New("the groups have no leader"), ctx.Err())
		}
	}
	return w, nil
}

func (w *batchWorld) close() (err error) {
	for _, f := range slices.Backward(w.closers) {
		err = errors.Join(err, f())
	}
	return err
}

func (w *batchWorld) set(batching bool, pack wan.Compression) {
	for i, tr := range w.trs {
		tr.SetBatching(batching)
		tr.SetCompression(pack)
		w.hosts[i].SetBatching(batching)
	}
}

func (w *batchWorld) traffic() (t raftResult) {
	for _, tr := range w.trs {
		for _, l := range tr.Stats() {
			t.wire += l.WireSent
			t.messages += l.SentMsgs
			t.pushes += l.Writes
		}
	}
	return t
}

// run has so many proposers at each group, each with one proposal after the other.
func (w *batchWorld) run(ctx context.Context, each int, length time.Duration) (res *raftResult, err error) {
	res = &raftResult{length: length}
	before, until := w.traffic(), time.Now().Add(length)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, g := range w.hosts[0].Groups() {
		for j := range each {
			wg.Go(func() {
				for n := 0; time.Now().Before(until) && ctx.Err() == nil; n++ {
					begin := time.Now()
					at := (i*7919 + j*104729 + n*31) % (len(w.text) - batchValue)
					_, _, e := g.Propose(ctx, &wire.Command{Ts: uint64(begin.UnixNano()), Refuse: w.text[at : at+batchValue]}, 0)
					mu.Lock()
					if e != nil {
						err = cmp.Or(err, e)
					} else {
						res.writes = append(res.writes, time.Since(begin))
					}
					mu.Unlock()
					if e != nil {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	after := w.traffic()
	res.wire, res.messages, res.pushes = after.wire-before.wire, after.messages-before.messages, after.pushes-before.pushes
	slices.Sort(res.writes)
	res.all = res.writes
	return res, err
}

// lagged is a connection that delays everything by batchLag, both ways.
type lagged struct {
	net.Conn
	out, in chan late
	left    []byte
	err     error // of reading
	once    sync.Once
	done    chan struct{}
}

// late is data and the time at which it arrives.
type late struct {
	at  time.Time
	b   []byte
	err error
}

func dialLagged(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &lagged{Conn: conn, out: make(chan late, 1<<12), in: make(chan late, 1<<12), done: make(chan struct{})}
	go c.write()
	go c.read()
	return c, nil
}

func (c *lagged) write() {
	for {
		select {
		case <-c.done:
			return
		case x := <-c.out:
			time.Sleep(time.Until(x.at))
			if _, err := c.Conn.Write(x.b); err != nil {
				c.Close()
				return
			}
		}
	}
}

func (c *lagged) read() {
	for {
		b := make([]byte, 32<<10)
		n, err := c.Conn.Read(b)
		select {
		case <-c.done:
			return
		case c.in <- late{time.Now().Add(batchLag), b[:n], err}:
		}
		if err != nil {
			return
		}
	}
}

func (c *lagged) Write(b []byte) (int, error) {
	select {
	case <-c.done:
		return 0, net.ErrClosed
	case c.out <- late{at: time.Now().Add(batchLag), b: slices.Clone(b)}:
		return len(b), nil
	}
}

func (c *lagged) Read(b []byte) (int, error) {
	for len(c.left) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		select {
		case <-c.done:
			return 0, net.ErrClosed
		case x := <-c.in:
			time.Sleep(time.Until(x.at))
			c.left, c.err = x.b, x.err
		}
	}
	n := copy(b, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (c *lagged) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}
