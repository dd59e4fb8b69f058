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
	"github.com/godwitdb/godwit/mechanism/wan/pipe"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/sql/backup/place"
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
	for i := range len(cfg.Matrix.Names) * cfg.NodesPerRegion {
		n, err := l.virtualNode(i, vfs.NewMem(), newPipeListener(), log)
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

// virtualNode starts the i-th node of a cluster on a disk in memory.
func (l *Local) virtualNode(i int, disk vfs.FS, clients pipeListener, log *slog.Logger) (*Node, error) {
	cfg := &l.cfg
	ident := LocalIdentity(cfg.Matrix.Names, cfg.NodesPerRegion, cfg.Shards)
	ident.First.Concurrency = cfg.Concurrency
	nd := ident.First.Nodes[i]
	st, err := store.Open(store.Options{Dir: "db", FS: disk, Simulation: true, Logger: log})
	if err != nil {
		return nil, err
	}
	ident.Node = nd.ID
	return Assemble(Parts{Store: st, Identity: ident, Transport: l.net.Join(nd.ID, nd.Region),
		Source: clock.NewWall(cfg.MaxClockError),
		Log:    log.With("node", nd.ID), GCAge: cfg.GCAge, Seed: uint64(nd.ID), SQLListener: clients,
		Tune: cfg.Tune, Backups: place.Policy{Dir: cfg.BackupDir}, Sinks: cfg.ChangefeedSinks})
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
		return l.(*pipe.Listener).Dial(ctx)
	})
}

// pipeListener is a listener that the driver finds until it is closed.
type pipeListener struct{ *pipe.Listener }

func newPipeListener() pipeListener {
	addr := fmt.Sprintf("pipe:%d", pipeCount.Add(1))
	l := pipe.Listen("pipe", addr)
	pipes.Store(addr, l)
	return pipeListener{l}
}

// Close implements net.Listener.
func (l pipeListener) Close() error {
	pipes.Delete(l.Addr().String())
	return l.Listener.Close()
}
