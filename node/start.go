package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node/bundle"
	"github.com/godwitdb/godwit/node/certs"
	"github.com/godwitdb/godwit/node/early"
	"github.com/godwitdb/godwit/node/memory"
	"github.com/godwitdb/godwit/node/spare"
	"github.com/godwitdb/godwit/node/web"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/recorded"
)

// Start runs a real node: disk, TCP, HTTP, MySQL protocol. It returns once it
// listens; Ready tells when it serves SQL, which may need `godwit init` first.
// ctx bounds only the start.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Node, error) {
	cfg.Fill()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	memory.TuneGC()
	recent := bundle.NewRecent(recentLog)
	log = slog.New(recent.Over(log.Handler()))
	cfg.recent = recent
	if err := private(cfg.Store, log); err != nil {
		return nil, err
	}
	so := store.Options{Dir: cfg.Store, CacheMB: cfg.CacheMB, Knows: base.ClusterVersion(cfg.AsVersion), Logger: log}
	if err := cfg.keys(&so); err != nil {
		return nil, err
	}
	st, err := store.Open(so)
	if err != nil {
		return nil, err
	}
	n := newNode(log)
	n.turns.Crowded, n.turns.Look = spare.Crowded, spare.Look
	n.closeLast(st.Close)
	if n.audit, err = audit.Open(cfg.AuditDir, log); err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	cfg.audit = n.audit
	n.audit.Write(audit.Event{Kind: audit.Node, Action: "start", Detail: obs.Version()})
	n.closeLast(func() error {
		n.audit.Write(audit.Event{Kind: audit.Node, Action: "end"})
		return n.audit.Close()
	})
	if err := n.start(ctx, cfg, st); err != nil {
		_ = n.Close(ctx)
		return nil, err
	}
	return n, nil
}

// keys reads the keys that encrypt the store, if it is to be encrypted.
func (c *Config) keys(o *store.Options) (err error) {
	if c.EncryptionKey != "" {
		o.Key, err = store.ReadKey(c.EncryptionKey)
	}
	if err == nil && c.EncryptionOldKey != "" {
		o.OldKey, err = store.ReadKey(c.EncryptionOldKey)
	}
	return err
}

func (n *Node) start(startCtx context.Context, cfg Config, st *store.Store) error {
	var stored *join.Identity
	ident := new(join.Identity)
	if ok, err := loadJSON(st, recIdentity, ident); err != nil {
		return err
	} else if ok {
		stored = ident
		if t, err := storedTopology(st); err == nil && t != nil {
			ident = &join.Identity{Node: ident.Node, First: *t}
		}
		if have := ident.First.RegionName(ident.First.RegionOf(ident.Node)); have != cfg.Region {
			return base.Errorf(base.CodeInvalid, "the store %s belongs to node %d in region %s, not %s: "+
				"start it with --region %s or name an empty store", cfg.Store, ident.Node, have, cfg.Region, have)
		}
	}
	uuid, files, err := n.whoami(startCtx, &cfg, st)
	if err != nil {
		return err
	}
	port, err := n.sqlCertificate(cfg.Store)
	if err != nil {
		return err
	}
	n.certs = certs.Set{Node: files, SQL: port}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen for other nodes: %w (choose another --listen if another process has that address)", err)
	}
	sqlLn, err := net.Listen("tcp", cfg.SQLListen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for MySQL clients: %w (choose another --sql-listen if another process "+
			"has that address)", err), ln.Close())
	}
	admins, err := web.OpenAdmin(cfg.AdminListen)
	if err != nil {
		return errors.Join(err, ln.Close(), sqlLn.Close())
	}
	calls := newIndoor(early.New(sqlLn.(*net.TCPListener)))
	n.addr, n.sqlAddr, n.adminAddr = ln.Addr().String(), sqlLn.Addr().String(), admins.Addr()
	cfg.adopt(n.addr, n.sqlAddr, n.adminAddr)
	if err := n.startTraces(&cfg); err != nil {
		return errors.Join(err, ln.Close(), sqlLn.Close(), admins.Close())
	}
	split := wan.SplitOptions{Logger: n.log}
	if files != nil {
		split.TLS = files.Server()
	}
	frames, requests := wan.SplitHTTP(ln, split)
	n.port = frames
	mux := http.NewServeMux()
	self := join.Joiner{UUID: uuid, Region: cfg.Region, Addr: cfg.Advertise, SQL: cfg.SQLAdvertise, Admin: cfg.AdminAdvertise, Knows: st.Knows(),
		Process: rand.Uint64() | 1}
	boot := join.NewBootstrap(self, cfg.Join, stored, httpClient(files), n.log,
		func(id *join.Identity) error { return saveJSON(st, recIdentity, id) })
	if err := n.remember(st, boot); err != nil {
		return err
	}
	boot.Need(st.Format)
	if files != nil {
		boot.Secure(isJoiner)
		mux.HandleFunc("POST "+web.PathEnrol, n.serveEnrol(cfg.Certs))
	}
	boot.Register(mux)
	n.registerHealth(mux)
	mux.Handle("POST "+bundle.Path, n.bundles(cfg))
	mux.HandleFunc("POST "+recorded.Path, n.serveRecording)
	pages := cfg.pages()
	if !cfg.NoConsole {
		con := n.openConsole(calls, cfg.Listen, cfg.Advertise, cfg.AdminListen, cfg.AdminAdvertise)
		pages.Console = con
		n.closeFirst(con.Close)
	}
	srv := pages.Server(mux, pages.NodesPort())
	go srv.Serve(requests)
	stopAdmins := admins.Serve(pages, mux, split)
	ctx, cancel := context.WithCancel(context.Background())
	running := make(chan struct{})
	n.closeFirst(func() error {
		cancel()
		<-running
		return errors.Join(srv.Close(), stopAdmins())
	}, frames.Close, calls.Close)
	go func() {
		defer close(running)
		if err := n.join(ctx, joining{cfg, st, boot, files, port, frames, calls, self.Process, mux}); err != nil && ctx.Err() == nil {
			n.fail(err)
		}
	}()
	return nil
}

// private makes the folder of a store, and takes it away from other users of the machine.
func private(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s, err := os.Stat(dir)
	if err != nil || s.Mode().Perm()&0o077 == 0 {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("others can read the store: %w", err)
	}
	log.Info("others could read the store; its folder is for its owner only now", "dir", dir, "mode", s.Mode().Perm().String())
	return nil
}

// joining is what a node that belongs to no cluster yet has.
type joining struct {
	cfg           Config
	store         *store.Store
	boot          *join.Bootstrap
	files         *ident.Files // nil without TLS
	port          *ident.Port  // what MySQL clients are shown
	frames, sqlLn net.Listener
	process       uint64 // names this process, see wan.TCPOptions.Process
	mux           *http.ServeMux
}

// transport makes the node's transport, once it is known which node it is.
func (n *Node) transport(j joining, id *join.Identity) (*wan.TCP, error) {
	opt := wan.TCPOptions{Self: id.Node, Region: id.First.RegionOf(id.Node), ClusterID: id.ClusterID,
		Listener: j.frames, Logger: n.log, OnDown: n.PeerDown, Process: j.process,
		Superseded: n.superseded}
	if j.files == nil {
		return wan.NewTCP(opt)
	}
	first, err := storedTopology(j.store)
	if err != nil {
		return nil, err
	}
	if first == nil {
		first = &id.First
	}
	opt.TLSClient = j.files.Client(ident.ProtoNode)
	opt.Peer = func(cs *tls.ConnectionState, node base.NodeID, region base.RegionID) error {
		return n.isPeer(cs, node, region, first)
	}
	return wan.NewTCP(opt)
}

// join waits until the node belongs to a cluster, and then runs the node.
func (n *Node) join(ctx context.Context, j joining) error {
	cfg, st, boot := j.cfg, j.store, j.boot
	id, err := boot.Run(ctx)
	if err != nil {
		return err
	}
	n.log.Info("node belongs to a cluster", "cluster", id.ClusterID, "node", id.Node)
	line, err := n.confirm(ctx, j, id)
	if err != nil {
		return err
	}
	tr, err := n.transport(j, id)
	if err != nil {
		return err
	}
	tr.Watch(n.tracer)
	src, err := cfg.clockSource()
	if err != nil {
		return errors.Join(err, tr.Close())
	}
	n.closeLast(src.Close)
	n.samples = src.counts
	if err := n.assemble(Parts{Store: st, Identity: id, Transport: tr, Source: src.Source, SourceName: src.Name,
		Log: n.log, GCAge: cfg.GCAge, Backups: *cfg.backups(), Sinks: cfg.ChangefeedSinks, SQLListen: n.sqlAddr, SQLListener: j.sqlLn, SQLTLS: j.port.Server(),
		SQLMemory: int64(cfg.SQLMemoryMB) << 20,
		Tune:      cfg.tune}); err != nil {
		return err
	}
	boot.Serve(n.cluster, func(j join.Joiner) bool {
		x := n.cluster.Topology().ByUUID(j.UUID)
		return x != nil && tr.Other(x.ID, j.Process)
	})
	n.Register(j.mux)
	var beats sync.WaitGroup
	defer beats.Wait()
	beats.Go(func() { n.beat(ctx, j, line) })
	// The others learn this node's addresses, and this node learns what happened while it was away.
	for {
		if err := boot.Announce(ctx, n.cluster); err != nil {
			return err
		}
		for again := false; !again; again = n.cluster.Lost() {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(lostEvery):
			}
		}
	}
}

// lostEvery is the time between two checks whether this node has lost its cluster.
const lostEvery = 5 * time.Second

// pages are the options of the HTTP interface.
func (c *Config) pages() *web.Options {
	return &web.Options{Insecure: c.Insecure, Pprof: c.Pprof, OpenMetrics: c.OpenMetrics, Audit: c.audit, Nodes: c.Advertise,
		Admins: c.AdminAdvertise}
}

// adopt fills in ports that the system chose.
func (c *Config) adopt(addr, sqlAddr, adminAddr string) {
	for _, p := range []struct {
		adv    *string
		actual string
	}{{&c.Advertise, addr}, {&c.SQLAdvertise, sqlAddr}, {&c.AdminAdvertise, adminAddr}} {
		host, port, _ := net.SplitHostPort(*p.adv)
		if port == "0" {
			_, port, _ = net.SplitHostPort(p.actual)
			*p.adv = net.JoinHostPort(host, port)
		}
	}
}
