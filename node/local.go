package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node/console"
	"github.com/godwitdb/godwit/node/web"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/placement"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/recorded"
)

// lanDelay is the one-way delay between nodes of one region of a local cluster.
const lanDelay = 250 * time.Microsecond

// readyTimeout is how long a local cluster may take to elect its leaders.
const readyTimeout = 60 * time.Second

// Local is a cluster whose nodes share one process and an emulated network.
type Local struct {
	cfg   LocalConfig
	net   *wan.Network
	nodes []*Node
	http  *http.Server
	addr  string
	// indoor is how the console reaches the first node; nil: HTTP or SQL is not served
	indoor  *indoor
	console *console.Console
}

// StartLocal starts all nodes of all regions and returns when every one serves SQL (or, without
// SQL, transactions).
func StartLocal(ctx context.Context, cfg LocalConfig, log *slog.Logger) (*Local, error) {
	cfg.fill()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Local{cfg: cfg}
	l.net = wan.NewNetwork(wan.NetOptions{Seed: cfg.Seed, LAN: wan.LinkSpec{Delay: lanDelay}, Precise: true, Logger: log})
	l.net.SetOneWay(cfg.Matrix.OneWays())
	ident := LocalIdentity(cfg.Matrix.Names, cfg.NodesPerRegion, cfg.Shards)
	ident.First.Concurrency = cfg.Concurrency
	if err := l.start(ctx, ident, log); err != nil {
		return nil, errors.Join(err, l.Close(context.Background()))
	}
	return l, nil
}

// LocalIdentity is the first topology of a cluster in one process: node ids
// count through the regions in order.
func LocalIdentity(regions []string, perRegion, shards int) *join.Identity {
	t := base.Topology{Version: 1, ClusterID: "local", ClusterVersion: base.VersionNewest, Shards: shards}
	for i, name := range regions {
		t.Regions = append(t.Regions, base.Region{ID: base.RegionID(i + 1), Name: name})
		for range perRegion {
			id := base.NodeID(len(t.Nodes) + 1)
			t.Nodes = append(t.Nodes, base.Node{ID: id, Region: base.RegionID(i + 1), Addr: fmt.Sprintf("local:%d", id),
				UUID: fmt.Sprint(id)})
		}
	}
	return &join.Identity{ClusterID: t.ClusterID, Founding: true, First: placement.Place(t)}
}

func (l *Local) start(ctx context.Context, ident *join.Identity, log *slog.Logger) error {
	for i := range ident.First.Nodes {
		if err := l.startNode(i, ident, log); err != nil {
			return err
		}
	}
	if err := l.awaitReady(ctx); err != nil {
		return err
	}
	if l.cfg.HTTPListen != "" {
		return l.serveHTTP()
	}
	return nil
}

// startNode starts the i-th node.
func (l *Local) startNode(i int, ident *join.Identity, log *slog.Logger) error {
	nd := ident.First.Nodes[i]
	st, err := store.Open(store.Options{Dir: filepath.Join(l.cfg.Dir, fmt.Sprintf("node-%d", nd.ID)),
		CacheMB: max(8, l.cfg.CacheMB/len(ident.First.Nodes)), Logger: log})
	if err != nil {
		return err
	}
	id, err := l.identity(st, nd.ID, ident)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	var port net.Listener
	if i == 0 && l.cfg.HTTPListen != "" && !l.cfg.NoSQL {
		tcp, err := net.Listen("tcp", l.listen(i))
		if err != nil {
			return errors.Join(err, st.Close())
		}
		l.indoor = newIndoor(tcp)
		port = l.indoor
	}
	n, err := Assemble(Parts{Store: st, Identity: id, Transport: l.net.Join(nd.ID, nd.Region),
		Source: clock.NewWall(l.cfg.MaxClockError),
		Log:    log.With("node", nd.ID), GCAge: l.cfg.GCAge, Seed: l.cfg.Seed, Homes: l.cfg.Homes, SQLListen: l.listen(i), SQLListener: port,
		Tune: l.cfg.Tune, Backups: place.Policy{Dir: l.cfg.BackupDir}, Sinks: l.cfg.ChangefeedSinks})
	if err != nil {
		return err
	}
	l.nodes = append(l.nodes, n)
	return nil
}

// identity reads the identity of a node from its store, and writes the wanted one into an empty
// store. It is an error if the store belongs to another cluster.
func (l *Local) identity(st *store.Store, node base.NodeID, want *join.Identity) (*join.Identity, error) {
	id := new(join.Identity) // a new value, so that decoding does not write into want
	ok, err := loadJSON(st, recIdentity, id)
	if err != nil {
		return nil, err
	}
	if !ok {
		*id = *want
		id.Node = node
		return id, saveJSON(st, recIdentity, id)
	}
	have, first := &id.First, &want.First
	if have.Concurrency != first.Concurrency {
		return nil, base.Errorf(base.CodeInvalid, "the store in %s was made with concurrency control %s; "+
			"start it with the same, or name an empty directory", l.cfg.Dir, have.Concurrency)
	}
	if len(have.Nodes) != len(first.Nodes) || have.Shards != first.Shards ||
		have.Regions[len(have.Regions)-1] != first.Regions[len(first.Regions)-1] {
		return nil, base.Errorf(base.CodeInvalid, "the store in %s was made with %d nodes in %d regions and %d "+
			"shards; start it with the same, or name an empty directory",
			l.cfg.Dir, len(have.Nodes), len(have.Regions), have.Shards)
	}
	return id, nil
}

// listen is the SQL address of the i-th node; empty: it serves no SQL.
func (l *Local) listen(i int) string {
	switch {
	case l.cfg.NoSQL:
		return ""
	case l.cfg.SQLBasePort == 0:
		return "127.0.0.1:0"
	}
	return fmt.Sprintf("127.0.0.1:%d", l.cfg.SQLBasePort+i)
}

func (l *Local) awaitReady(ctx context.Context) error {
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	for _, n := range l.nodes {
		select {
		case <-n.Ready():
		case err := <-n.Failed():
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			return base.Errorf(base.CodeUnavailable,
				"node %d was not ready within %s: look at its log for what it waits for", n.ID(), readyTimeout)
		}
	}
	return nil
}

func (l *Local) serveHTTP() error {
	mux := http.NewServeMux()
	l.nodes[0].Register(mux)
	l.nodes[0].registerHealth(mux)
	mux.HandleFunc("POST "+recorded.Path, l.nodes[0].serveRecording)
	ln, err := net.Listen("tcp", l.cfg.HTTPListen)
	if err != nil {
		return fmt.Errorf("serve status and metrics: %w", err)
	}
	l.addr = ln.Addr().String()
	// The nodes of a demo have no certificates; but web pages have no business here either.
	pages := &web.Options{Insecure: true, Pprof: true}
	if l.indoor != nil {
		l.console = l.nodes[0].openConsole(l.indoor, l.cfg.HTTPListen)
		pages.Console = l.console
	}
	l.http = pages.Server(mux, web.Shared)
	go l.http.Serve(ln)
	return nil
}

// ConsoleURL is where the web console is; empty if it is not served.
func (l *Local) ConsoleURL() string {
	if l.console == nil {
		return ""
	}
	return "http://" + l.addr + console.Path
}

// HTTPAddr is where status and metrics are served; empty if they are not.
func (l *Local) HTTPAddr() string { return l.addr }

// Regions are the names, in the order of the matrix.
func (l *Local) Regions() []string { return l.cfg.Matrix.Names }

// Nodes are all nodes, region by region.
func (l *Local) Nodes() []*Node { return l.nodes }

// Network is the emulated network; tests and demos disturb it.
func (l *Local) Network() *wan.Network { return l.net }

// SQLAddrs are the addresses for MySQL clients of a region.
func (l *Local) SQLAddrs(region string) []string {
	var out []string
	for i, n := range l.nodes {
		if l.Regions()[i/l.cfg.NodesPerRegion] == region {
			out = append(out, n.SQLAddr())
		}
	}
	return out
}

// Status is the status of the whole cluster.
func (l *Local) Status(ctx context.Context) (*cluster.Status, error) {
	return l.nodes[0].cluster.Status(ctx), nil
}

// Stats are cumulative counts by region.
type Stats struct{ Regions map[string]RegionStats }

// RegionStats are the counts of a region's gateways since they started.
type RegionStats struct {
	Kinds        map[string]KindStats
	Transactions int64
	WANHops      int64
	WANBytes     int64
	WANMessages  int64
	MovedIn      int64 // rows that moved to the region
}

// KindStats are the counts of one kind of statement.
type KindStats struct {
	Latency *obs.Snapshot
	Errors  int64
}

// Stats copies the counts of all gateways.
func (l *Local) Stats() Stats {
	s := Stats{Regions: map[string]RegionStats{}}
	for i, n := range l.nodes {
		name := l.Regions()[i/l.cfg.NodesPerRegion]
		r := s.Regions[name]
		if r.Kinds == nil {
			r.Kinds = map[string]KindStats{}
		}
		for kind, snap := range n.stats.Kinds() {
			k := r.Kinds[kind]
			if k.Latency == nil {
				k.Latency = &obs.Snapshot{}
			}
			k.Latency.Merge(snap)
			k.Errors += n.stats.Kind(kind).Errors.Load()
			r.Kinds[kind] = k
		}
		r.Transactions += n.stats.Transactions.Load()
		r.WANHops += n.stats.WANHops.Load()
		r.WANBytes += n.stats.WANBytes.Load()
		r.WANMessages += n.stats.WANMessages.Load()
		s.Regions[name] = r
	}
	for i, name := range l.Regions() {
		r := s.Regions[name]
		for _, n := range l.nodes {
			r.MovedIn += n.owners.Arrived(base.RegionID(i + 1))
		}
		s.Regions[name] = r
	}
	return s
}

// Close stops all nodes, those that serve clients first.
func (l *Local) Close(ctx context.Context) error {
	var errs []error
	if l.http != nil {
		errs = append(errs, l.http.Close())
	}
	if l.console != nil {
		errs = append(errs, l.console.Close())
	}
	if l.indoor != nil && len(l.nodes) == 0 {
		errs = append(errs, l.indoor.Close()) // nobody took it over
	}
	for _, n := range l.nodes {
		if n.sql != nil {
			errs = append(errs, n.sql.Close())
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, n := range l.nodes {
		wg.Go(func() {
			err := n.shut(ctx, false) // no node is left to hand the leads to
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	wg.Wait()
	errs = append(errs, l.net.Close())
	return errors.Join(errs...)
}

func (c *LocalConfig) fill() {
	if c.Matrix == nil {
		c.Matrix, _ = matrix.Default(5) // the embedded matrix is always valid
	}
	if c.NodesPerRegion == 0 {
		c.NodesPerRegion = 1
	}
	if c.Shards == 0 {
		c.Shards = max(2, c.NodesPerRegion)
	}
	if c.MaxClockError == 0 {
		c.MaxClockError = 100 * time.Microsecond
	}
	if c.CacheMB == 0 {
		c.CacheMB = 256
	}
	if c.GCAge == 0 {
		c.GCAge = 10 * time.Minute
	}
}

func (c *LocalConfig) validate() error {
	var errs []error
	if n := c.Matrix.Len(); n < 1 || n > base.MaxRegions {
		errs = append(errs, base.Errorf(base.CodeInvalid,
			"a cluster has 1 to %d regions, the matrix has %d: pick some (--regions)", base.MaxRegions, n))
	}
	if c.NodesPerRegion < 1 || c.NodesPerRegion > 9 {
		errs = append(errs, base.Errorf(base.CodeInvalid, "nodes per region: %d is outside 1 to 9", c.NodesPerRegion))
	}
	if c.Dir == "" {
		errs = append(errs, base.Errorf(base.CodeInvalid, "a directory for the data must be named"))
	}
	return errors.Join(errs...)
}
