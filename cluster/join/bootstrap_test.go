package join

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/godwitdb/godwit/base"
)

type proc struct {
	b     *Bootstrap
	addr  string
	saved *Identity
}

func startProc(t *testing.T, region string, join ...string) *proc {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	p := &proc{addr: strings.TrimPrefix(srv.URL, "http://")}
	self := Joiner{UUID: NewUUID(), Region: region, Addr: p.addr, SQL: "sql-" + p.addr}
	var mu sync.Mutex
	p.b = NewBootstrap(self, join, nil, srv.Client(), slog.New(slog.DiscardHandler), func(id *Identity) error {
		mu.Lock()
		defer mu.Unlock()
		p.saved = id
		return nil
	})
	p.b.Register(mux)
	return p
}

func TestBootstrapMakesOneCluster(t *testing.T) {
	a := startProc(t, "eu")
	b := startProc(t, "us", a.addr)
	c := startProc(t, "asia", b.addr) // knows a only through b
	type answer struct {
		id  *Identity
		err error
	}
	ids := make(chan answer, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, p := range []*proc{a, b, c} {
		go func() {
			id, err := p.b.Run(ctx)
			ids <- answer{id, err}
		}()
	}
	var made InitReply
	for made.ClusterID == "" { // c has to find its way to a first
		made = InitReply{}
		if err := post(ctx, http.DefaultClient, "http://"+a.addr, PathInit, InitRequest{Shards: 3, Expect: 3, Root: "hash"}, &made); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[base.NodeID]bool{}
	for range 3 {
		r := <-ids
		if r.err != nil {
			t.Fatal(r.err)
		}
		if r.id.ClusterID != made.ClusterID || !r.id.Founding || r.id.Root != "hash" || seen[r.id.Node] {
			t.Fatalf("identity %+v in cluster %s", r.id, made.ClusterID)
		}
		seen[r.id.Node] = true
	}
	for _, p := range []*proc{a, b, c} {
		if p.saved == nil || p.saved.First.Node(p.saved.Node).UUID != p.b.self.UUID {
			t.Errorf("%s stored %+v", p.b.self.Region, p.saved)
		}
	}
	var again InitReply
	if err := post(ctx, http.DefaultClient, "http://"+b.addr, PathInit, InitRequest{}, &again); err != nil ||
		!strings.Contains(again.Error, "already belongs") {
		t.Errorf("a second init: %+v, %v", again, err)
	}
}

func TestBootstrapRefusesNonsense(t *testing.T) {
	a := startProc(t, "eu")
	var r Answer
	if err := post(t.Context(), http.DefaultClient, "http://"+a.addr, PathJoin, Joiner{UUID: "x"}, &r); err != nil ||
		!r.Final || !strings.Contains(r.Error, "--region") {
		t.Errorf("joiner without region: %+v, %v", r, err)
	}
	if _, err := a.b.Init(InitRequest{Expect: 2}); err == nil || !strings.Contains(err.Error(), "1 of the expected 2") {
		t.Errorf("init before the others: %v", err)
	}
	if _, err := Found([]Joiner{{UUID: "1", Region: "r", Addr: "h:1"}, {UUID: "2", Region: "r", Addr: "h:1"}}, 0); err == nil {
		t.Error("two nodes with one address were accepted")
	}
	many := make([]Joiner, base.MaxRegions+1)
	for i := range many {
		many[i] = Joiner{UUID: string(rune('a' + i)), Region: "r" + string(rune('a'+i)), Addr: "h:" + string(rune('1'+i))}
	}
	if _, err := Found(many, 0); err == nil || !strings.Contains(err.Error(), "1 to 14 regions") {
		t.Errorf("too many regions: %v", err)
	}
}

// moves is a member's part that notes which addresses it is told.
type moves struct {
	Cluster
	top  *base.Topology
	told []string
}

func (m *moves) Topology() *base.Topology { return m.top }
func (m *moves) SetTopology(t *base.Topology) error {
	if t.Version > m.top.Version {
		m.top = t
	}
	return nil
}
func (m *moves) Moved(uuid, addr string, own bool) {
	m.told = append(m.told, fmt.Sprint(uuid, " ", addr, " ", own))
}

// TestOldHearsay: who has an older topology may say where it is itself, and not where others were.
func TestOldHearsay(t *testing.T) {
	b := NewBootstrap(Joiner{UUID: "u1"}, nil, nil, nil, slog.New(slog.DiscardHandler), nil)
	m := &moves{top: &base.Topology{Version: 5}}
	for version, from := range map[uint64]string{4: "u2", 6: "u3"} {
		a := Answer{Self: Joiner{UUID: from, Addr: "new"}, Known: []Joiner{{UUID: "u4", Addr: "of " + from}},
			Identity: &Identity{First: base.Topology{Version: version}}}
		m.top = &base.Topology{Version: 5}
		if taken, err := b.take(m, []answered{{Answer: a}}); !taken || err != nil {
			t.Errorf("%v, %v", taken, err)
		}
	}
	slices.Sort(m.told)
	if got := strings.Join(m.told, ", "); got != "u2 new true, u3 new true, u4 of u3 false" {
		t.Error(got)
	}
}

func TestOnlyFoundersNameFounders(t *testing.T) {
	top := &base.Topology{Nodes: []base.Node{{ID: 1, UUID: "u1"}, {ID: 2, UUID: "u2"}}}
	ask := func(founding bool) Answer {
		b := NewBootstrap(Joiner{UUID: "u1"}, nil,
			&Identity{ClusterID: "c", Node: 1, Founding: founding, First: *top}, nil, nil, nil)
		return b.answer(t.Context(), Joiner{UUID: "u2", Region: "region-2", Addr: "h2:1"})
	}
	if r := ask(true); r.Identity == nil || !r.Identity.Founding {
		t.Errorf("a founder does not know another one: %+v", r)
	}
	if r := ask(false); r.Identity != nil {
		t.Errorf("who joined later makes a founder: %+v", r)
	}
}
