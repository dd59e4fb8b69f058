package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/sirupsen/logrus"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/backup/pace"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/charset"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/late"
	"github.com/godwitdb/godwit/sql/quick"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
)

// Config of a [Server].
type Config struct {
	// DB runs the transactions. Required.
	DB kv.DB
	// Listen is the TCP address of the MySQL protocol, host:port; port 0 picks one.
	Listen string
	// Listener is used instead of Listen if set.
	Listener net.Listener
	// TLS is offered to clients that ask for it; nil: there is none.
	TLS *tls.Config
	// RootAuth is the hash of root's password ([PasswordHash]) for who makes root, in a fresh
	// cluster; empty: root has none.
	RootAuth string
	// AwaitRoot leaves it to other nodes, which know the hash, to make root.
	AwaitRoot bool
	// Cluster is what SHOW GODWIT and the database godwit show; nil: neither.
	Cluster Cluster
	// Forwarder sends statements on rows of another region there; nil executes everything here.
	Forwarder Forwarder
	// Reads chooses snapshots for reads that may be old; nil: all read the present.
	Reads session.Reads
	// Memory is what all statements together may keep in memory, in bytes; 0 is 2 GiB. One of them
	// gets a quarter of it at most, and no more than 256 MiB.
	Memory int64
	// Tracer watches statements; nil: nobody does.
	Tracer *obs.Tracer
	// Turns are those of statements that compute for long; nil makes some for this server.
	Turns *admit.Pool
	// MaxForwarded bounds the statements of other gateways in execution here; 0 is 256.
	MaxForwarded int
	// Relay says whether transactions of sessions that have not chosen cross regions in a tier of
	// their own (kv.Options.Relay), and whether somebody has asked for it (kv.Options.Careful);
	// nil: they do not.
	Relay func() (relays, asked bool)
	// Local is this node's store; nil: there is none.
	Local session.Local
	// Settings are what SET CLUSTER SETTING can change; nil: there are none.
	Settings Settings
	// Logger gets structured logs; nil is slog.Default().
	Logger *slog.Logger
	// Backups says where statements may keep backups.
	Backups place.Policy
	// Sinks are where change feeds may be sent, as sink.Policy has them.
	Sinks []string
	// BackupPace bounds how fast this node writes backups and restored rows; nil: there is no
	// bound.
	BackupPace *pace.Pace
	// Audit is told what clients do; nil: nothing is kept.
	Audit *audit.Log
	// OnStatement is called after each statement with its kind ("select", "insert", ...), its
	// duration, the one-way WAN crossings it waited for, and its error. It must not block.
	OnStatement func(kind string, d time.Duration, hops int, err error)
	// OnFallback is called with the reason of each SELECT that the engine of go-mysql-server runs
	// because package query does not. It must not block.
	OnFallback func(reason string)
	// OnProgram is called for each transaction that a client has sent at once, with oneshot.Ran if
	// it ran as a program, and else with the reason that it did not.
	OnProgram func(reason string)
	// OnTransaction is called after a statement that committed a transaction, autocommit statements
	// included, with all that it and the failed attempts before it cost. It must not block.
	OnTransaction func(session.TxnCost)
	// Drain is how long Close lets running connections finish; 0 is 5 s.
	Drain time.Duration
}

// TxnCost is what transactions cost on the WAN.
type TxnCost = session.TxnCost

// Job is a long statement, or work that follows from one, as SHOW JOBS shows it.
type Job = ddl.Job

// Reads chooses snapshots for reads that may be old.
type Reads = session.Reads

// Cluster tells about the cluster beyond its topology.
type Cluster interface {
	// Topics are what it can tell about.
	Topics() []Topic
	// Status returns the rows of a topic, with values of the kinds of its columns or nil.
	Status(ctx context.Context, topic string) [][]any
	// Advice is what the owner of a row would say now to a statement of this region: whether to
	// move the row, and why or why not. It counts as no use of the row; an empty text says that
	// nothing is known.
	Advice(ctx context.Context, owner base.NodeID, key base.Key, home base.RegionID) (move bool, why string)
	ddl.Nodes
	// Promote lets the survivors of a region take over its asynchronous tables; the region seat, if
	// any is named, is where their groups vote from then on. force goes on without survivors that
	// do not answer; back returns them.
	Promote(ctx context.Context, lost, seat string, force, back bool) error
}

// Server speaks the MySQL protocol for one gateway.
type Server struct {
	g     *gateway
	srv   *server.Server
	ln    net.Listener
	drain time.Duration
	close sync.Once

	h       *handler
	lobby   *lobby
	remotes *remotes
}

// New makes a server and its listener; Serve accepts connections. On a fresh cluster it
// creates the user root, once, unless Config.AwaitRoot is set: then it fails with
// [base.CodeUnavailable] until another node has done so.
func New(cfg Config) (*Server, error) {
	if cfg.DB == nil {
		return nil, errors.New("sql/server: Config.DB is required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Drain == 0 {
		cfg.Drain = 5 * time.Second
	}
	if cfg.Turns == nil {
		cfg.Turns = admit.New(0)
	}
	logrus.SetOutput(io.Discard) // the engine's own log; ours is structured
	logrus.SetLevel(logrus.PanicLevel)
	g := newGateway(cfg)
	if err := g.loadUsers(context.Background(), cfg); err != nil {
		_ = g.engine.Close()
		return nil, err
	}
	if err := g.binlog.SetVariables(); err != nil {
		_ = g.engine.Close()
		return nil, err
	}
	ln := cfg.Listener
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", cfg.Listen); err != nil {
			return nil, err
		}
	}
	s := &Server{g: g, ln: ln, drain: cfg.Drain, remotes: newRemotes(cfg.MaxForwarded), lobby: newLobby(quick.Listener(ln))}
	scfg := server.Config{
		Protocol: "tcp", Address: ln.Addr().String(), Listener: s.lobby, Version: serverVersion,
		TLSConfig: cfg.TLS, ProtocolListenerFactory: g.listen,
		Options: []server.Option{
			func(e *sqle.Engine, sm *server.SessionManager, h mysql.Handler) (
				*sqle.Engine, *server.SessionManager, mysql.Handler) {
				s.h, g.fast.Sessions, g.query.Sessions, g.bulk.Sessions = &handler{Handler: h, g: g, sm: sm}, sm, sm, sm
				g.bulk.Closed, g.bulk.Query = s.h.ConnectionClosed, s.h.ComQuery
				g.replica.Sessions, g.replica.Closed, g.replica.Query = sm, s.h.ConnectionClosed, s.h.ComQuery
				client := func(c *mysql.Conn) charset.Client { return s.h.session(c) }
				return e, sm, &late.Handler{Server: &charset.Handler{Server: s.h, Client: client}}
			}},
	}
	var err error
	s.srv, err = server.NewServer(scfg, g.engine, sql.NewContext, g.buildSession, nil)
	if err != nil {
		ln.Close()
		return nil, err
	}
	return s, nil
}

// listen makes the protocol library's listener, with our logins.
func (g *gateway) listen(cfg server.Config, l mysql.ListenerConfig, sel server.ServerEventListener) (server.ProtocolListener,
	error) {
	l.AuthServer = g.logins
	return server.MySQLProtocolListenerFactory(cfg, l, sel)
}

// serverVersion is what clients see in the handshake; the digits are MySQL's.
const serverVersion = "8.0.31-Godwit"

// buildSession makes the session of a new connection.
func (g *gateway) buildSession(_ context.Context, c *mysql.Conn, addr string) (sql.Session, error) {
	client := sql.Client{Capabilities: c.Capabilities}
	if u, ok := c.UserData.(sql.MysqlConnectionUser); ok {
		client.Address, client.User = u.Host, u.User
	}
	s := session.New(sql.NewBaseSessionWithClientServer(addr, client, c.ConnectionID), g.sessionEnv())
	s.Source, s.Remote = c.ClientData.(base.RegionID)
	s.ClientEnded = func() bool { return late.HasEnded(c) }
	s.InitVariables()
	rights.Login(s, g.engine.Analyzer.Catalog.MySQLDb)
	if cc := clientOf(c); cc != nil && cc.interactive() {
		ctx := sql.NewContext(context.Background(), sql.WithSession(s))
		if err := s.SetSessionVariable(ctx, "wait_timeout", intVariable("interactive_timeout")); err != nil {
			return nil, err
		}
	}
	if t, ok := late.Under(c.Conn).(*tls.Conn); ok {
		state := t.ConnectionState()
		_ = s.SetStatusVariable(nil, "Ssl_cipher", tls.CipherSuiteName(state.CipherSuite))
		_ = s.SetStatusVariable(nil, "Ssl_version", strings.Replace(tls.VersionName(state.Version), "TLS ", "TLSv", 1))
	}
	g.sessions.Store(c.ConnectionID, s)
	if !s.Remote {
		p := &presence{conn: c}
		p.rest(s)
		g.presences.Store(c.ConnectionID, p)
	}
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Serve accepts connections until Close.
func (s *Server) Serve() error {
	// A client must not slip in before the node knows that it takes TLS only. Where settings cannot
	// be read, users could not either.
	first, done := context.WithTimeout(context.Background(), firstSettings)
	if err := s.g.refreshSettings(first); err != nil {
		s.g.Log.Warn("cluster settings are not known yet", "err", err)
	}
	done()
	s.g.Go(func(ctx context.Context) { s.g.follow(ctx, "users and grants", s.g.users.Refresh) })
	s.g.Go(func(ctx context.Context) { s.g.follow(ctx, "cluster settings", s.g.refreshSettings) })
	s.g.Go(s.g.Adopt)
	s.g.Go(s.g.backups.Follow)
	s.g.Go(s.g.feeds.Follow)
	s.g.Go(s.g.bulk.Follow)
	s.g.Go(s.g.replica.Follow)
	s.g.Go(s.g.events.Follow)
	s.g.Go(s.g.watchIdle)
	s.g.Go(s.g.watchGone)
	s.g.GC.Start()
	return s.srv.Start()
}

// firstSettings is how long the first clients wait for cluster settings.
const firstSettings = 2 * time.Second

// Close stops accepting, lets clients finish for a while and tells them to go, then ends those that
// are left.
func (s *Server) Close() error {
	var err error
	s.close.Do(func() {
		err = s.srv.Close()
		s.g.drainClients(s.drain)
		s.closeRemotes()
		done := make(chan struct{})
		go func() {
			s.srv.SessionManager().WaitForClosedConnections()
			close(done)
		}()
		s.g.sessions.Range(func(_, v any) bool {
			_ = s.srv.SessionManager().KillConnection(v.(*session.Session).ID())
			return true
		})
		// A statement that was killed may still be reading: the store is closed next.
		select {
		case <-done:
		case <-time.After(killedFor):
		}
		s.g.CloseBackground(killedFor)
		s.g.GC.Stop()
		err = errors.Join(err, s.g.engine.Close())
	})
	return err
}

// killedFor is how long Close waits for statements of killed connections to notice, and for work in
// the background.
const killedFor = time.Second
