package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/fence"
	"github.com/godwitdb/godwit/cluster/health"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
	"github.com/godwitdb/godwit/node/adviser"
	"github.com/godwitdb/godwit/node/certs"
	"github.com/godwitdb/godwit/node/evacuate"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/node/meter"
	"github.com/godwitdb/godwit/node/moments"
	"github.com/godwitdb/godwit/node/residency"
	"github.com/godwitdb/godwit/node/room"
	"github.com/godwitdb/godwit/node/shards"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/crossing"
	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/backup/pace"
	"github.com/godwitdb/godwit/sql/server"
	"github.com/godwitdb/godwit/txn"
	"github.com/godwitdb/godwit/txn/mover"
	"github.com/godwitdb/godwit/txn/multimaster"
)

// Names of this node's own records in its store.
const (
	recIdentity    = "identity"
	recTopology    = "topology"
	recUUID        = "uuid"
	recFounded     = "founded"     // set once the groups of a founding node exist; cluster/placed has others
	recLives       = "lives"       // the starts of this store
	recPromise     = "promise"     // see upgrade.Promise
	recOthersLives = "other-lives" // what this node remembers of the stores of others
)

// Node is one running process of a cluster, or one of several in a [Local].
type Node struct {
	log   *slog.Logger
	stats *obs.Statements
	turns *admit.Pool // of SQL statements that compute for long
	began time.Time
	room  room.Forecast // of the store's disk
	// samples are counts of the time server's answers; nil: there is none.
	samples func() map[string]uint64
	// metrics are shown to Prometheus, and knobs the cluster settings; nil until they are there.
	metrics atomic.Pointer[http.Handler]
	knobs   atomic.Pointer[knobs.Settings]
	tracer  *obs.Tracer // nil: statements are not traced
	rowUses adviser.RowUses
	addr    string // on which the node listens for other nodes
	// networkGiven: Parts.Network decides how messages travel, not the settings.
	networkGiven bool
	machinery
	policies
	front
	lifecycle
}

// machinery holds the parts of a node, from the bottom up. Each is set once, while the node is
// assembled. lifecycle.mu guards those that the transport may ask for before assembly ends.
type machinery struct {
	store   *store.Store
	ident   *join.Identity
	clock   *clock.Clock
	trans   wan.Transport // over
	over    *overlay.Overlay
	host    *group.Host
	owners  *owner.Set
	reps    *replicas
	cluster *cluster.Cluster
	book    *fence.Book // nil: this node is part of a process that holds all nodes
	audit   *audit.Log  // nil: as book
	mender  *mender
	shards  *shards.Meter
	// splitter gives tables more shards by itself.
	splitter *shards.Splitter
	// moments are what the cluster was like in the last hour.
	moments moments.Ring
	certs   certs.Set
	epochs  *multimaster.Engine
	db      *txn.DB
	both    *multimaster.DB // db with the rows of epochs
	mover   *mover.Mover
	port    net.Listener // for other nodes; nil: there is none
	holds   holds
	gcAge   time.Duration          // for how long the past can be read
	gateway atomic.Pointer[txn.DB] // db, once it is there
}

// policies holds the automatic decisions and their settings.
type policies struct {
	homes    *homes // nil: rows move only by statements
	tier     *crossing.Policy
	interval atomic.Int64 // ns between epochs
	tick     atomic.Int64 // ns between closed timestamps; negative: only with heartbeats
	// the bandwidth of a node into the WAN in bit/s, which the planner of epochs assumes; 0: no
	// limit
	uplink atomic.Int64
}

// front holds the SQL server, once there is one. lifecycle.mu guards sql and sqlAddr.
type front struct {
	pace    pace.Pace
	sql     *server.Server
	sqlAddr string
	// adminAddr is that of the admin port; empty: there is none.
	adminAddr string
	// answers of the catalog about a row: may the home policy move it, and is its table homed as a
	// whole
	movable    atomic.Pointer[func(base.Key) bool]
	whole      atomic.Pointer[func(base.Key) bool]
	evacuation evacuate.Node
}

func newNode(log *slog.Logger) *Node {
	n := &Node{log: log, stats: obs.NewStatements(), turns: admit.New(0), began: time.Now()}
	n.tier = crossing.New(time.Now())
	n.mender = newMender(n)
	n.shards = shards.New(shardFacts{n})
	n.splitter = shards.NewSplitter(n.shards, shardFacts{n}, log)
	n.lifecycle.init()
	return n
}

// sqlRetry is the pause between attempts to open the MySQL port.
const sqlRetry = 500 * time.Millisecond

// serveSQL opens the MySQL port once the catalog can be read, however long that takes: a node may
// start while it cannot reach the others.
func (n *Node) serveSQL(p Parts) {
	all := knobs.New(n.homeSettings(), n.wanSettings(), n.networkSettings(),
		n.clockSettings(), n.readSettings(), n.tierSettings(), n.leaderSettings(), n.upgradeSettings(), n.replaceSettings(), n.splitSettings(), n.epochSettings(), n.sqlSettings(),
		n.auditSettings(), n.consoleSettings(), n.backupSettings())
	n.knobs.Store(all)
	cfg := server.Config{DB: n.both, Cluster: show{n}, Settings: all, Forwarder: forwarder{n}, Reads: reads{n},
		Relay: n.relays, Local: n.store, Listen: p.SQLListen, Listener: p.SQLListener, TLS: p.SQLTLS, Memory: p.SQLMemory, Logger: n.log,
		Audit: n.audit, Tracer: n.tracer, Backups: p.Backups, Sinks: p.Sinks, BackupPace: &n.pace,
		RootAuth: p.Identity.Root, AwaitRoot: !p.Identity.Founding,
		OnStatement:   func(word string, d time.Duration, _ int, err error) { n.stats.Done(statementKind(word), d, err != nil) },
		OnFallback:    n.stats.Fallback,
		OnProgram:     n.stats.Program,
		Turns:         n.turns,
		OnTransaction: func(c server.TxnCost) { n.stats.Cost(c.Transactions, c.Hops, c.Messages, c.Bytes) }}
	if !n.awaitRegion() {
		return
	}
	var srv *server.Server
	for {
		var err error
		if srv, err = server.New(cfg); err == nil {
			break
		}
		switch base.CodeOf(err) {
		case base.CodeAborted, base.CodeLockTimeout, base.CodeUnavailable, base.CodeOverloaded,
			base.CodeSchemaChanged, base.CodeAmbiguous, base.CodeCanceled:
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

// awaitRegion waits until rows of clients may be at home in this node's region, which may be being
// added; false if the node stops before.
func (n *Node) awaitRegion() bool {
	said := false
	for {
		t := n.cluster.Topology()
		if r := t.Region(t.RegionOf(n.ID())); r == nil || r.State != base.RegionOpening && r.State != base.RegionJoining {
			return true
		}
		if !said {
			n.log.Info("SQL is served once the region is part of the cluster: see `godwit status`",
				"region", t.RegionName(t.RegionOf(n.ID())))
			said = true
		}
		select {
		case <-n.stopc:
			return false
		case <-time.After(sqlRetry):
		}
	}
}

// statementKind groups statements by their first word. Clients may send any word, but the number of
// kinds is bounded.
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

// SQLAddr is the address for MySQL clients; empty before Ready.
func (n *Node) SQLAddr() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sqlAddr
}

// Addr is the cluster address that the node listens on.
func (n *Node) Addr() string { return n.addr }

// AdminAddr is the address at which the node answers administrators.
func (n *Node) AdminAddr() string { return cmp.Or(n.adminAddr, n.addr) }

// ID is the node's id.
func (n *Node) ID() base.NodeID { return n.ident.Node }

// DB runs transactions through this node as the gateway.
func (n *Node) DB() kv.DB { return n.both }

// Commits are the counters of this node's transactions.
func (n *Node) Commits() *txn.Stats { return n.db.Stats() }

// Cluster is the node's part in membership, placement and the other work of package cluster.
func (n *Node) Cluster() *cluster.Cluster { return n.cluster }

// Owners are the replicas of this node.
func (n *Node) Owners() *owner.Set { return n.owners }

// Groups are the consensus groups of this node.
func (n *Node) Groups() *group.Host { return n.host }

// Overlay sends this node's consensus messages, directly or over relays.
func (n *Node) Overlay() *overlay.Overlay { return n.over }

// Statements are the counts of this gateway.
func (n *Node) Statements() *obs.Statements { return n.stats }

// PeerDown is called when a peer's process has most likely ended: at once by the transport, or
// after a silence by the heartbeats.
func (n *Node) PeerDown(peer base.NodeID) {
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

// peerReached is called when messages take a new way to a peer.
func (n *Node) peerReached(peer base.NodeID) {
	n.mu.Lock()
	host := n.host
	n.mu.Unlock()
	if host != nil {
		host.OnPeerReached(peer)
	}
}

// noteRoom is how much of the disk is free, its size, and in how long it is full, for all who ask:
// package room.
func (n *Node) noteRoom() (free, total int64, full time.Duration) {
	if free, total = n.store.Room(); total > 0 {
		full = n.room.Note(time.Now(), free)
	}
	return free, total, full
}

func (n *Node) describe(s *cluster.NodeStatus) {
	s.Statements = n.stats.Count()
	s.Uptime = time.Since(n.began)
	s.DiskBytes = int64(n.store.Stats().DiskBytes)
	s.DiskFree, s.DiskTotal, s.DiskFullIn = n.noteRoom()
	s.Version = n.build()
	s.MemBytes = obs.MemoryBytes()
	srv, err := n.server()
	if err != nil {
		return
	}
	s.Sessions = srv.Sessions()
	if jobs := srv.Jobs(); len(jobs) > 0 {
		s.Jobs, _ = json.Marshal(jobs) // plain data can always be encoded
	}
}

// syncs samples the disk.
func (n *Node) syncs() health.Syncs {
	u := n.store.DiskUse()
	return health.Syncs{Age: u.Age, Done: u.Syncs, Took: u.Took}
}

// Register adds the node's HTTP interface: status, metrics, profiles, health.
func (n *Node) Register(mux *http.ServeMux) {
	n.cluster.Register(mux)
	reg := prometheus.NewRegistry()
	mux.HandleFunc("POST "+cluster.PathClock, n.serveClockMode)
	mux.HandleFunc("POST "+cluster.PathLeader, n.serveLeader)
	mux.HandleFunc("POST "+cluster.PathResetRoot, n.serveResetRoot)
	mux.HandleFunc("POST "+residency.Path, residency.Handler(n.store, n.cluster.Topology, n.ident.Node, n.belongs))
	mux.HandleFunc("POST "+cluster.PathEpochsCopy, n.serveEpochsCopy)
	reg.MustRegister(n.stats, n.turns, clockCollector{n}, healthCollector{n}, epochCollector{n}, mapCollector{n}, auditCollector(n.audit),
		n.tracer.Collector(),
		digestCollector{n}, meter.New(n.meterSources()),
		wan.Collector(n.trans, nil), n.over.Collector(nil),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsScheduler)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	n.metrics.Store(&metrics)
	mux.Handle("GET /metrics", metrics)
	registerPprof(mux)
}

// registerHealth adds the health checks: /health says whether the node serves, /ready also whether
// it goes on doing so.
func (n *Node) registerHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if why := n.unready(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
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

func saveJSON(s *store.Store, name string, v any) error { return encodeJSON(s, name, v, true) }

func encodeJSON(s *store.Store, name string, v any, sync bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.SetLocal(name, b, sync)
}
