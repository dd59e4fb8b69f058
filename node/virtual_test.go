package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/matrix"
)

// bubble runs a test in virtual time. Pebble's pools must not carry channels from one bubble to the
// next, nor out of one: two collections empty them.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, f)
	runtime.GC()
	runtime.GC()
}

// startVirtual starts what StartLocal does, in the bubble of a testing/synctest: disks are in
// memory, and MySQL clients come over pipes. Time then passes only while everybody waits, so that
// a busy machine changes nothing.
func startVirtual(t *testing.T, cfg LocalConfig) *Local {
	t.Helper()
	cfg.fill()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	l := &Local{cfg: cfg, net: wan.NewNetwork(wan.NetOptions{Seed: 1, LAN: wan.LinkSpec{Delay: lanDelay}, Logger: log})}
	l.net.SetOneWay(cfg.Matrix.OneWays())
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ident := LocalIdentity(cfg.Matrix.Names, cfg.NodesPerRegion, cfg.Shards)
	ident.First.Concurrency = cfg.Concurrency
	for _, nd := range ident.First.Nodes {
		st, err := store.Open(store.Options{Dir: "db", FS: vfs.NewMem(), Simulation: true, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		id := *ident
		id.Node = nd.ID
		n, err := Assemble(Parts{Store: st, Identity: &id, Transport: l.net.Join(nd.ID, nd.Region), Source: clock.NewWall(cfg.MaxClockError),
			Log: log.With("node", nd.ID), GCAge: cfg.GCAge, Seed: uint64(nd.ID), SQLListener: newPipeListener()})
		if err != nil {
			t.Fatal(err)
		}
		l.nodes = append(l.nodes, n)
	}
	if err := l.awaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func startLocal(t *testing.T, regions, perRegion int) *Local {
	t.Helper()
	return startLocalOf(t, regions, perRegion, base.Locking)
}

func startLocalOf(t *testing.T, regions, perRegion int, how base.Concurrency) *Local {
	t.Helper()
	m, err := matrix.Default(regions)
	if err != nil {
		t.Fatal(err)
	}
	return startVirtual(t, LocalConfig{Matrix: m, NodesPerRegion: perRegion, Concurrency: how})
}

// pipeListener is a listener whose connections are net.Pipe: virtual time knows when they wait.
type pipeListener struct {
	addr  pipeAddr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// pipes are the open listeners by address. The driver finds them by the network "pipe".
var (
	pipes     sync.Map
	pipeCount atomic.Int64
)

func init() {
	mysql.RegisterDialContext("pipe", func(ctx context.Context, addr string) (net.Conn, error) {
		l, ok := pipes.Load(addr)
		if !ok {
			return nil, fmt.Errorf("nobody listens at %s", addr)
		}
		return l.(*pipeListener).dial(ctx)
	})
}

func newPipeListener() *pipeListener {
	l := &pipeListener{addr: pipeAddr(fmt.Sprintf("pipe:%d", pipeCount.Add(1))), conns: make(chan net.Conn), done: make(chan struct{})}
	pipes.Store(string(l.addr), l)
	return l
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() {
		pipes.Delete(string(l.addr))
		close(l.done)
	})
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return l.addr }

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

// named is one end of a pipe with the address that servers expect of a client.
type named struct {
	net.Conn
	addr pipeAddr
}

func (n named) RemoteAddr() net.Addr { return n.addr }
func (n named) LocalAddr() net.Addr  { return n.addr }

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- named{a, l.addr}:
		return named{b, l.addr}, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
