package txn

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// Directory says where groups are; package cluster knows it from pulses.
type Directory = owner.Directory

// Caller is what the coordinator needs of the WAN.
type Caller interface {
	Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error
}

// Config of a gateway. The first block is required; zero fields of the rest
// take the defaults given.
type Config struct {
	Self      base.NodeID
	Region    base.RegionID
	Owners    *owner.Set
	Transport Caller
	Clock     *clock.Clock
	Directory Directory
	Topology  func() *base.Topology

	Logger *slog.Logger // nil discards
	// Alone reports that the cluster has no other node: commit wait is skipped. Nil is never.
	Alone func() bool

	RequestTimeout time.Duration // longest search for a group's leader; default 10 s
	ResolveTimeout time.Duration // longest wait for the outcome of a commit whose answer was lost; default 15 s
	LockTimeout    time.Duration // longest wait for one lock; default 10 s
	HeartbeatEvery time.Duration // sign of life to owners of locks; default 1 s
	MaxWriteBytes  int           // keys and values one transaction may buffer; default 64 MiB
	MaxTxns        int           // transactions open at once on this gateway; default 100,000
	MaxBackground  int           // releases and decisions under way; default 1,024, beyond it they are sent in the foreground
}

func (c *Config) fill() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Alone == nil {
		c.Alone = func() bool { return false }
	}
	def(&c.RequestTimeout, 10*time.Second)
	def(&c.ResolveTimeout, 15*time.Second)
	def(&c.LockTimeout, 10*time.Second)
	def(&c.HeartbeatEvery, time.Second)
	num(&c.MaxWriteBytes, 64<<20)
	num(&c.MaxTxns, 100_000)
	num(&c.MaxBackground, 1024)
}

// DB is a gateway; it implements kv.DB.
type DB struct {
	cfg Config
	seq atomic.Uint32

	mu   sync.Mutex
	live map[base.TxnID]*Txn // with locks somewhere: they need heartbeats
	open atomic.Int64

	horizon horizon

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	bg     sync.WaitGroup
	slots  chan struct{}
}

var _ kv.DB = (*DB)(nil)

// New makes a gateway; Close ends it.
func New(cfg Config) *DB {
	cfg.fill()
	d := &DB{cfg: cfg, live: map[base.TxnID]*Txn{}, slots: make(chan struct{}, cfg.MaxBackground)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.bg.Go(d.heartbeats)
	return d
}

// Close ends background work. Decisions not yet delivered are left to recovery.
func (d *DB) Close() {
	d.cancel()
	d.bg.Wait()
}

// Begin implements kv.DB.
func (d *DB) Begin(o kv.Options) kv.Txn { return d.begin(o) }

func (d *DB) begin(o kv.Options) *Txn {
	now := d.cfg.Clock.Now()
	t := &Txn{db: d, opts: o, id: base.MakeTxnID(now, d.cfg.Self, d.seq.Add(1)), readTS: o.ReadTS}
	age := o.Age
	if age == 0 {
		age = now
	}
	timeout := o.LockTimeout
	if timeout == 0 {
		timeout = d.cfg.LockTimeout
	}
	t.meta = wire.TxnMeta{Id: t.id[:], Age: uint64(age), Gateway: uint32(d.cfg.Self), GatewayRegion: uint32(d.cfg.Region),
		Policy: uint32(o.Policy), LockTimeoutNs: int64(timeout)}
	if d.open.Add(1) > int64(d.cfg.MaxTxns) {
		t.err = base.Errorf(base.CodeOverloaded, "%d transactions are open on this node; retry later", d.cfg.MaxTxns)
	}
	return t
}

// Topology implements kv.DB.
func (d *DB) Topology() *base.Topology { return d.cfg.Topology() }

// Region implements kv.DB.
func (d *DB) Region() base.RegionID { return d.cfg.Region }

// Node implements kv.DB.
func (d *DB) Node() base.NodeID { return d.cfg.Self }

// Clock implements kv.DB.
func (d *DB) Clock() base.Timestamp { return d.cfg.Clock.Now() }

// MetaVersion implements kv.DB.
func (d *DB) MetaVersion(span base.Span) (changed, complete base.Timestamp) {
	return d.cfg.Owners.MetaVersion(span)
}

// MetaChanged implements kv.DB.
func (d *DB) MetaChanged() <-chan struct{} { return d.cfg.Owners.MetaChanged() }

// background runs fn outside the caller's request, in the foreground if too
// much is under way already.
func (d *DB) background(fn func(ctx context.Context)) {
	select {
	case d.slots <- struct{}{}:
		d.bg.Go(func() {
			defer func() { <-d.slots }()
			fn(d.ctx)
		})
	default:
		fn(d.ctx)
	}
}

// heartbeats tells the owners of locks which transactions are alive.
func (d *DB) heartbeats() {
	tick := time.NewTicker(d.cfg.HeartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
		}
		for node, req := range d.alive() {
			if node == d.cfg.Self {
				d.cfg.Owners.Heartbeat(req)
				continue
			}
			d.background(func(ctx context.Context) {
				ctx, cancel := context.WithTimeout(ctx, d.cfg.HeartbeatEvery)
				defer cancel()
				// A lost heartbeat is made up for by the next one.
				_ = d.cfg.Transport.Call(ctx, node, wire.KindTxnHeartbeat, req, &wire.TxnHeartbeatResponse{})
			})
		}
	}
}

func (d *DB) alive() map[base.NodeID]*wire.TxnHeartbeatRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[base.NodeID]*wire.TxnHeartbeatRequest{}
	for id, t := range d.live {
		for _, node := range t.lockNodes() {
			req := out[node]
			if req == nil {
				req = &wire.TxnHeartbeatRequest{Gateway: uint32(d.cfg.Self)}
				out[node] = req
			}
			req.Txns = append(req.Txns, id[:])
		}
	}
	return out
}

// guess is the group to ask for a key first: the owner in the eyes of the local
// replica, the default owner where there is none.
func (d *DB) guess(k base.Key) base.GroupID {
	if g, ok := d.cfg.Owners.Locate(k); ok {
		return g
	}
	return k.DefaultOwner()
}

// metaClosed makes sure that the local meta replica is complete up to ts and
// returns up to where it is.
func (d *DB) metaClosed(ctx context.Context, ts base.Timestamp) (base.Timestamp, error) {
	if err := d.cfg.Owners.EnsureClosed(ctx, base.MetaShard, ts); err != nil {
		return 0, err
	}
	return d.cfg.Owners.Closed(base.MetaShard), nil
}

// unchanged reports whether nothing in a span of the meta shard is newer than
// since, as far as the local replica is complete.
func (d *DB) unchanged(span base.Span, since base.Timestamp) (bool, error) {
	changed, err := d.cfg.Owners.ChangedWithin(span, since, base.MaxTimestamp)
	return !changed, err
}

func (d *DB) register(t *Txn) {
	d.mu.Lock()
	d.live[t.id] = t
	d.mu.Unlock()
}

func (d *DB) unregister(t *Txn) {
	d.mu.Lock()
	delete(d.live, t.id)
	d.mu.Unlock()
}
