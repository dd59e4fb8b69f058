package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/group"
	"github.com/godwitdb/godwit/home"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/multi"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/overlay"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/sqlfront"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/tier"
	"github.com/godwitdb/godwit/txn"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// Names of this node's own records in its store.
const (
	recIdentity = "identity"
	recTopology = "topology"
	recUUID     = "uuid"
	recFounded  = "founded" // set once the groups of a founding node have begun
	// recFoundedAsync is set once the first replicas of asynchronous shards have begun here.
	recFoundedAsync = "founded-async"
)

// Node is one running process of a cluster, or one of several in a [Local].
type Node struct {
	log      *slog.Logger
	store    *store.Store
	ident    *cluster.Identity
	clock    *clock.Clock
	reps     *replicas
	trans    wan.Transport // over
	over     *overlay.Overlay
	host     *group.Host
	owners   *owner.Set
	db       *txn.DB
	cluster  *cluster.Cluster
	sql      *sqlfront.Server
	homes    *homes // nil: rows move only by statements
	tier     *tier.Policy
	mover    *txn.Mover
	samples  func() map[string]uint64 // counts of the time server's answers; nil: there is none
	movable  atomic.Pointer[func(base.Key) bool]
	whole    atomic.Pointer[func(base.Key) bool]
	stats    *obs.Statements
	began    time.Time
	gateway  atomic.Pointer[txn.DB] // db, once it is there
	epochs   *multi.Engine
	both     *multi.DB    // db with the rows of epochs
	interval atomic.Int64 // ns between epochs
	uplink   atomic.Int64 // bit/s of a node into the WAN, as the planner of epochs is to assume; 0: no limit

	sqlAddr string
	addr    string
	ready   chan struct{}
	fatal   chan error
	close1  sync.Once
	mu      sync.Mutex
	closers []func() error // in the order of closing
	closed  bool
	// stopping: Close has begun, and stopc is closed.
	stopping   bool
	stopc      chan struct{}
	background sync.WaitGroup
}

// Parts are what differs between a real node, one of a local cluster and one
// of the simulation.
type Parts struct {
	Store     *store.Store
	Identity  *cluster.Identity
	Transport wan.Transport
	Source    clock.Source
	// SourceName names it for people; nil: fixed.
	SourceName func() string
	// NoFence has the node use its clock although it was found wrong: for tests of what that breaks.
	NoFence bool
	Log     *slog.Logger
	GCAge   time.Duration
	Seed    uint64
	// Homes are the parameters of the policy of row homes to begin with; nil takes the defaults.
	Homes *home.Params
	// Network says what consensus messages may do to begin with; nil is what the cluster settings begin with.
	Network *overlay.Params
	// SQLListen is where MySQL clients connect; empty serves no SQL.
	SQLListen string
	// SQLListener is used instead of SQLListen if set.
	SQLListener net.Listener
	// Tune changes the options of the parts before they are made; may be nil.
	Tune func(*group.HostOptions, *owner.Config, *txn.Config)
	// TuneEpochs does so for the epochs; may be nil.
	TuneEpochs func(*multi.Config)
}

// Assemble wires and starts a node. It owns the store and the transport from
// now on, also if it fails.
func Assemble(p Parts) (*Node, error) {
	n := newNode(p.Log)
	n.closeLast(p.Store.Close)
	if err := n.assemble(p); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	return n, nil
}

func newNode(log *slog.Logger) *Node {
	return &Node{log: log, stats: obs.NewStatements(), tier: tier.New(time.Now()), began: time.Now(), ready: make(chan struct{}), stopc: make(chan struct{}), fatal: make(chan error, 1)}
}

func (n *Node) assemble(p Parts) (err error) {
	dir := &directory{}
	over := overlay.New(overlay.Options{Transport: p.Transport, Nodes: dir.liveNodes, RTT: dir.between, Logger: p.Log})
	over.SetParams(networkDefaults.overlay())
	if p.Network != nil {
		over.SetParams(*p.Network)
	}
	p.Transport = over
	n.mu.Lock()
	n.over = over
	src := p.Source
	var steady *clock.Steady
	if !p.NoFence {
		steady = clock.NewSteady(src)
		src = steady
	}
	n.store, n.ident, n.trans, n.clock = p.Store, p.Identity, p.Transport, clock.New(src)
	n.mu.Unlock()
	n.closeFirst(p.Transport.Close)
	stored, err := storedTopology(p.Store)
	if err != nil {
		return err
	}
	var founded bool
	if _, err := loadJSON(p.Store, recFounded, &founded); err != nil {
		return err
	}
	ho := group.HostOptions{Self: p.Identity.Node, Store: p.Store, Transport: p.Transport, Logger: p.Log, Seed: p.Seed,
		Fatal: func(g base.GroupID, err error) { n.fail(fmt.Errorf("group %v: %w", g, err)) },
		HandTo: func(g base.GroupID) base.NodeID {
			if dir.Cluster == nil {
				return 0
			}
			return dir.HandTo(g)
		},
		Fresh: func(ctx context.Context, g base.GroupID, id base.NodeID) bool { return dir.Fresh(ctx, g, id) }}
	oc := owner.Config{Self: p.Identity.Node, Store: p.Store, Clock: n.clock, Transport: p.Transport, Directory: dir, Logger: p.Log,
		Alone:     func() bool { return dir.Alone() },
		Ahead:     func() time.Duration { return dir.MetaLead() },
		Groups:    func() []base.GroupID { return dir.Topology().Groups() },
		Gone:      func(n base.NodeID, since time.Time) bool { return dir.Gone(n, since) },
		QuorumRTT: func(g base.GroupID) time.Duration { return dir.QuorumRTT(g) },
		Every:     func(g base.GroupID) time.Duration { return dir.Every(g) },
		Region:    func() base.RegionID { return dir.Topology().RegionOf(p.Identity.Node) },
		Held:      dir,
		GCAge:     p.GCAge, Concurrency: p.Identity.First.Concurrency}
	if err := n.makeHomes(p, dir, &oc); err != nil {
		return err
	}
	tc := txn.Config{Self: p.Identity.Node, Transport: p.Transport, Clock: n.clock, Directory: dir, Logger: p.Log,
		Alone:      func() bool { return dir.Alone() },
		RTT:        func(n base.NodeID) time.Duration { return dir.RTT(n) },
		Want:       func() { dir.Want() },
		Replica:    func(s base.ShardID, ts base.Timestamp) base.NodeID { return dir.ReplicaFor(s, ts) },
		Answered:   func(n base.NodeID, took time.Duration, err error) { dir.Answered(n, took, err) },
		CommitLead: func() time.Duration { return dir.CommitLead() },
		Committed:  func(crossed bool) { n.tier.Committed(crossed, time.Now()) },
		Topology:   func() *base.Topology { return dir.Topology() }}
	if p.Tune != nil {
		p.Tune(&ho, &oc, &tc)
	}
	host, err := group.NewHost(ho)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.host = host
	n.mu.Unlock()
	n.owners = owner.NewSet(oc)
	n.clock.Wait(n.owners)
	n.reps = &replicas{set: n.owners, host: n.host, dir: dir, store: p.Store, left: map[base.ShardID]bool{}}
	c := cluster.New(cluster.Options{
		Self: p.Identity.Node, Identity: p.Identity, Transport: p.Transport, Clock: n.clock, Replicas: n.reps, Logger: p.Log, Stored: stored,
		Founding: p.Identity.Founding && !founded,
		FoundAsync: func(found func() error) error {
			var done bool
			if _, err := loadJSON(p.Store, recFoundedAsync, &done); err != nil || done {
				return err
			}
			if err := found(); err != nil {
				return err
			}
			return saveJSON(p.Store, recFoundedAsync, true)
		},
		OnSilent: n.peerDown,
		OnGone: func() {
			n.fail(base.Errorf(base.CodeInvalid, "node %d was decommissioned and holds no replica any more: its process ends for good and its store can be deleted; a node with an empty store may join in its place", p.Identity.Node))
		},
		SaveTopology: func(t *base.Topology) error { return saveJSON(p.Store, recTopology, t) },
		Local:        n.describe,
		RowsStay:     func() bool { return n.homes.Params().Mode == home.Never },
		Steady:       steady,
		SourceName:   p.SourceName,
		NoFence:      p.NoFence,
		Answer:       n.answer,
		Load:         n.load,
	})
	n.mu.Lock()
	n.cluster, dir.Cluster = c, c
	n.mu.Unlock()
	n.closeFirst(func() error { n.owners.Close(); return nil }, n.host.Close)
	if err = n.cluster.OpenFirst(); err != nil {
		return err
	}
	if !founded {
		if err = saveJSON(p.Store, recFounded, true); err != nil {
			return err
		}
	}
	if err = n.makeEpochs(p); err != nil {
		return err
	}
	p.Transport.Handle(wire.KindForward, n.executeForwarded)
	p.Transport.Handle(wire.KindServe, n.serve)
	if err = p.Transport.Start(); err != nil {
		return err
	}
	if err = n.host.Start(); err != nil {
		return err
	}
	n.owners.Start()
	tc.Owners = n.owners
	tc.Region = n.cluster.Topology().RegionOf(p.Identity.Node)
	n.db = txn.New(tc)
	n.gateway.Store(n.db)
	n.both = multi.NewDB(n.db, n.epochs)
	n.closeFirst(func() error { n.db.Close(); return nil })
	n.mu.Lock()
	n.mover = txn.NewMover(n.db, n.expand)
	n.mu.Unlock()
	n.closeFirst(func() error { n.mover.Close(); return nil })
	n.cluster.Start(n.db)
	n.closeFirst(func() error { n.cluster.Close(); return nil })
	n.startEpochs()
	if p.SQLListen == "" && p.SQLListener == nil {
		close(n.ready)
		return nil
	}
	n.background.Go(func() { n.serveSQL(p) })
	return nil
}

// sqlRetry is the pause between attempts to open the MySQL port.
const sqlRetry = 500 * time.Millisecond

// serveSQL opens the MySQL port once the catalog can be read, however long that takes: a node may
// well start while the others cannot be reached.
func (n *Node) serveSQL(p Parts) {
	knobs := &settings{groups: []settingGroup{n.homeSettings(), n.wanSettings(), n.networkSettings(), n.clockSettings(), n.readSettings(), n.tierSettings(), n.leaderSettings(), n.epochSettings()}}
	cfg := sqlfront.Config{DB: n.both, Cluster: show{n}, Settings: knobs, Forwarder: forwarder{n}, Reads: reads{n}, Relay: n.tier.Relay, Listen: p.SQLListen, Listener: p.SQLListener, Logger: n.log,
		OnStatement:   func(word string, d time.Duration, _ int, err error) { n.stats.Done(statementKind(word), d, err != nil) },
		OnTransaction: func(c sqlfront.TxnCost) { n.stats.Cost(c.Transactions, c.Hops, c.Messages, c.Bytes) }}
	var srv *sqlfront.Server
	for {
		var err error
		if srv, err = sqlfront.New(cfg); err == nil {
			break
		}
		switch base.CodeOf(err) {
		case base.CodeAborted, base.CodeLockTimeout, base.CodeUnavailable, base.CodeOverloaded, base.CodeSchemaChanged, base.CodeAmbiguous, base.CodeCanceled:
			n.log.Warn("SQL is not served yet: the catalog cannot be reached", "err", err)
		default:
			n.fail(fmt.Errorf("serve SQL: %w", err))
			return
		}
		select {
		case <-n.stopc:
			return
		case <-time.After(sqlRetry):
		}
	}
	n.mu.Lock()
	if n.stopping {
		n.mu.Unlock()
		_ = srv.Close()
		return
	}
	n.sql, n.sqlAddr = srv, srv.Addr().String()
	movable, whole := srv.Movable, srv.Whole
	n.movable.Store(&movable)
	n.whole.Store(&whole)
	close(n.ready)
	n.mu.Unlock()
	if err := srv.Serve(); err != nil && !n.stopped() {
		n.fail(fmt.Errorf("serve SQL: %w", err))
	}
}

func (n *Node) stopped() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopping
}

// statementKind groups statements by their first word; the words of clients are without bound, the kinds are not.
func statementKind(word string) string {
	switch word {
	case "select", "insert", "update", "delete", "commit":
		return word
	case "with", "table", "values":
		return "select"
	case "replace", "load":
		return "insert"
	case "create", "alter", "drop", "truncate", "rename":
		return "ddl"
	}
	return "other"
}

// closeLast adds to the end of what Close does, closeFirst to its beginning.
func (n *Node) closeLast(f ...func() error) {
	n.onClose(f, func(old []func() error) []func() error { return append(old, f...) })
}
func (n *Node) closeFirst(f ...func() error) {
	n.onClose(f, func(old []func() error) []func() error { return append(f, old...) })
}

// onClose changes what Close does; once closed, it is done at once.
func (n *Node) onClose(f []func() error, add func([]func() error) []func() error) {
	n.mu.Lock()
	closed := n.closed
	if !closed {
		n.closers = add(n.closers)
	}
	n.mu.Unlock()
	if closed {
		for _, fn := range f {
			_ = fn()
		}
	}
}

func (n *Node) fail(err error) {
	n.log.Error("node stops", "err", err)
	select {
	case n.fatal <- err:
	default:
	}
}

// Ready is closed when the node serves SQL (or, without SQL, transactions).
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Wait returns the error that made the node useless, or nil once it is closed.
func (n *Node) Wait() error {
	err, ok := <-n.fatal
	if !ok {
		return nil
	}
	return err
}

// Failed delivers the error that makes the node useless.
func (n *Node) Failed() <-chan error { return n.fatal }

// SQLAddr is the address for MySQL clients, once Ready.
func (n *Node) SQLAddr() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sqlAddr
}

// Addr is the cluster address that the node listens on.
func (n *Node) Addr() string { return n.addr }

// ID is the node's id.
func (n *Node) ID() base.NodeID { return n.ident.Node }

// DB runs transactions through this node as the gateway.
func (n *Node) DB() kv.DB { return n.both }

// Commits are the counters of this node's transactions.
func (n *Node) Commits() *txn.Stats { return n.db.Stats() }

// Cluster is the node's part in the cluster's own affairs.
func (n *Node) Cluster() *cluster.Cluster { return n.cluster }

// Owners are the replicas of this node.
func (n *Node) Owners() *owner.Set { return n.owners }

// Groups are the consensus groups of this node.
func (n *Node) Groups() *group.Host { return n.host }

// Overlay is how consensus messages of this node travel.
func (n *Node) Overlay() *overlay.Overlay { return n.over }

// Statements are the counts of this gateway.
func (n *Node) Statements() *obs.Statements { return n.stats }

// drainTimeout bounds the hand-over of leads at the end of a node's life.
const drainTimeout = time.Second

// Close drains SQL connections, hands the leads of this node to others and stops it.
func (n *Node) Close(ctx context.Context) error { return n.shut(ctx, true) }

func (n *Node) shut(ctx context.Context, drain bool) error {
	var errs []error
	n.close1.Do(func() {
		n.mu.Lock()
		n.stopping = true
		srv := n.sql
		n.mu.Unlock()
		close(n.stopc)
		if srv != nil {
			errs = append(errs, srv.Close())
		}
		n.mu.Lock()
		closers, c := n.closers, n.cluster
		n.closers, n.closed = nil, true
		n.mu.Unlock()
		if drain && c != nil {
			ctx, cancel := context.WithTimeout(ctx, drainTimeout)
			c.Drain(ctx)
			cancel()
		}
		for _, f := range closers {
			if err := f(); err != nil && !errors.Is(err, net.ErrClosed) { // listeners are closed by their servers too
				errs = append(errs, err)
			}
		}
		n.background.Wait()
	})
	return errors.Join(errs...)
}

// Kill stops the node as if its process had died: it takes leave of nobody. For tests.
func (n *Node) Kill() error {
	n.mu.Lock()
	tr := n.trans
	n.mu.Unlock()
	if tr != nil {
		_ = tr.Close()
	}
	return n.shut(context.Background(), false)
}

// peerDown is told that a peer's process has most likely ended: by the transport, at once, or by the silence of its pulses.
func (n *Node) peerDown(peer base.NodeID) {
	n.mu.Lock()
	host, over, epochs := n.host, n.over, n.epochs
	n.mu.Unlock()
	if over != nil {
		over.PeerDown(peer)
	}
	if host != nil {
		host.OnPeerDown(peer)
	}
	if epochs != nil {
		epochs.Down(peer)
	}
}

func (n *Node) describe(s *cluster.NodeStatus) {
	s.Statements = n.stats.Count()
	s.Uptime = time.Since(n.began)
	s.DiskBytes = int64(n.store.Stats().DiskBytes)
	s.Version = obs.Version()
	s.MemBytes = obs.MemoryBytes()
	n.mu.Lock()
	srv := n.sql
	n.mu.Unlock()
	if srv == nil {
		return
	}
	s.Sessions = srv.Sessions()
	if jobs := srv.Jobs(); len(jobs) > 0 {
		s.Jobs, _ = json.Marshal(jobs) // plain data
	}
}

// Register adds the node's HTTP interface: status, metrics, profiles, health.
func (n *Node) Register(mux *http.ServeMux) {
	n.cluster.Register(mux)
	reg := prometheus.NewRegistry()
	mux.HandleFunc("POST "+cluster.PathClock, n.serveClockMode)
	mux.HandleFunc("POST "+cluster.PathLeader, n.serveLeader)
	mux.HandleFunc("POST "+cluster.PathEpochsCopy, n.serveEpochsCopy)
	reg.MustRegister(n.stats, clockCollector{n}, epochCollector{n}, mapCollector{n}, wan.Collector(n.trans, nil), n.over.Collector(nil), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	registerPprof(mux)
}

// registerHealth adds what load balancers ask.
func (n *Node) registerHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-n.ready:
			fmt.Fprintln(w, "ready")
		default:
			http.Error(w, "starting", http.StatusServiceUnavailable)
		}
	})
}

func registerPprof(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

func storedTopology(s *store.Store) (*base.Topology, error) {
	t := new(base.Topology)
	ok, err := loadJSON(s, recTopology, t)
	if !ok || err != nil {
		return nil, err
	}
	return t, nil
}

func loadJSON(s *store.Store, name string, v any) (bool, error) {
	b, ok, err := s.GetLocal(name)
	if err != nil || !ok {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, base.Errorf(base.CodeCorrupt, "the record %q of the store cannot be read: %v", name, err)
	}
	return true, nil
}

func saveJSON(s *store.Store, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.SetLocal(name, b, true)
}
