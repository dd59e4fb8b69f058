package sqltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/mechanism/wan/pipe"
	"github.com/godwitdb/godwit/sql/server"
	"github.com/godwitdb/godwit/wire"
)

// world is the servers of a story, one a region, and their clients.
type world struct {
	t       *testing.T
	j       *journal
	names   *names
	regions []string
	servers map[base.NodeID]*server.Server
	lns     map[string]*pipe.Listener // by region
	clients map[string]*client
	another func() *client // of another server; nil: of these
	// relay: transactions cross regions by slots. ordinary: they never do.
	relay    atomic.Bool
	ordinary bool
}

// newWorld starts servers. It must be called in a testing/synctest bubble.
func newWorld(t *testing.T, shards int, regions ...string) *world {
	t.Helper()
	w := &world{t: t, j: &journal{written: map[string]bool{}}, regions: regions,
		servers: map[base.NodeID]*server.Server{}, lns: map[string]*pipe.Listener{}, clients: map[string]*client{}}
	w.names = &names{db: memkv.New(shards, regions...)}
	for i := range regions {
		w.serve(base.NodeID(i + 1))
	}
	root := w.connect("", "root", "", regions[0])
	defer root.close()
	if out := root.run("CREATE DATABASE test", flags{}); out != "1 row" {
		t.Fatalf("CREATE DATABASE test: %s", out)
	}
	for i, r := range regions {
		name := string(rune('a' + i))
		w.clients[name] = w.connect("test", "root", "", r)
	}
	return w
}

// serve starts the server of a region; nodes are numbered as regions are.
func (w *world) serve(n base.NodeID) {
	w.t.Helper()
	r := w.regions[n-1]
	w.lns[r] = pipe.Listen("tcp", "127.0.0.1:3306")
	s, err := server.New(server.Config{
		DB: &recorder{DB: w.names.db.Gateway(base.RegionID(n)), j: w.j, names: w.names}, Listener: w.lns[r],
		Logger:    slog.New(slog.DiscardHandler),
		Forwarder: w, Settings: &knobs{},
		Relay: func() (relays, asked bool) { on := w.relay.Load(); return on, on },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	go s.Serve()
	w.servers[n] = s
}

func (w *world) close() {
	for _, c := range w.clients {
		c.close()
	}
	for _, s := range w.servers {
		s.Close()
	}
}

// Settle implements server.Forwarder. The statements of the stories have no names, so what became
// of one is not known.
func (w *world) Settle(_ context.Context, _ *wire.ForwardRequest, _ time.Time, why error) (*wire.ForwardResponse, error) {
	return nil, why
}

// Forward implements server.Forwarder. Statements travel as bytes, as in the network.
func (w *world) Forward(ctx context.Context, to base.NodeID, _ base.Key, q *wire.ForwardRequest) (*wire.ForwardResponse, bool,
	error) {
	b, err := q.MarshalVT()
	if err != nil {
		return nil, false, err
	}
	req, resp := new(wire.ForwardRequest), new(wire.ForwardResponse)
	if err := req.UnmarshalVT(b); err != nil {
		return nil, false, err
	}
	w.j.note(fmt.Sprintf("forward to %s", w.regions[to-1]))
	if err := w.j.strike(base.RegionID(to), "forward"); err != nil {
		return nil, false, err
	}
	if b, err = w.servers[to].Execute(ctx, req).MarshalVT(); err != nil {
		return nil, true, err
	}
	if err := w.j.strike(base.RegionID(to), "answer"); err != nil {
		return nil, true, err
	}
	if ctx.Err() != nil {
		return nil, true, ctx.Err()
	}
	if err := resp.UnmarshalVT(b); err != nil {
		return nil, true, err
	}
	resp.Hops += 2
	w.j.mu.Lock()
	w.j.trips++
	w.j.mu.Unlock()
	return resp, true, nil
}

// connect opens a client's connection.
func (w *world) connect(db, user, password, region string) *client {
	ln := w.lns[region]
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName, cfg.Net, cfg.Addr, cfg.Logger = user, password, db, "tcp", "127.0.0.1:3306",
		&mysql.NopLogger{}
	cl := newClient(tapped(w.t, cfg, func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.Dial(ctx) }), w.j,
		synctest.Wait)
	return cl
}

// knobs are two cluster settings of which low must not be above high.
type knobs struct {
	mu  sync.Mutex
	set map[string]string
}

func (k *knobs) values() (low, high int, err error) {
	v := map[string]string{"k.low": "1", "k.high": "9"}
	maps.Copy(v, k.set)
	low, e1 := strconv.Atoi(v["k.low"])
	high, e2 := strconv.Atoi(v["k.high"])
	return low, high, errors.Join(e1, e2)
}

// List implements server.Settings.
func (k *knobs) List() []server.Setting {
	k.mu.Lock()
	defer k.mu.Unlock()
	low, high, _ := k.values()
	return []server.Setting{
		{Name: "k.low", Value: strconv.Itoa(low), Default: "1", Description: "lower"},
		{Name: "k.high", Value: strconv.Itoa(high), Default: "9", Description: "upper"},
	}
}

// Check implements server.Settings.
func (k *knobs) Check(v map[string]string) error {
	low, high, err := (&knobs{set: v}).values()
	if err == nil && low > high {
		err = errors.New("k.low must not be above k.high")
	}
	return err
}

// Apply implements server.Settings.
func (k *knobs) Apply(v map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set = maps.Clone(v)
}
