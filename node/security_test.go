package node

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node/web"
	"github.com/godwitdb/godwit/wire"
)

// single is a cluster of one node; change may change its configuration.
func single(t *testing.T, change func(*Config)) *proc {
	t.Helper()
	p := &proc{cfg: Config{Region: "eu", Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0"}}
	if change != nil {
		change(&p.cfg)
	}
	p.start(t)
	scheme := "https://"
	if p.cfg.Insecure {
		scheme = "http://"
	}
	res, err := admin(t).Post(scheme+p.n.AdminAddr()+join.PathInit, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	p.ready(t)
	t.Cleanup(func() {
		if p.up() {
			p.stop(t)
		}
	})
	return p
}

// certificate makes one of an authority's, for a test's attacker.
func certificate(t *testing.T, certs string, n ident.Name, life time.Duration) *ident.Files {
	t.Helper()
	ca, _, err := ident.EnsureCA(certs)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := ca.Create(dir, ident.Node, n, life); err != nil {
		t.Fatal(err)
	}
	f, err := ident.Open(dir, ident.Node, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// forge sends a node the statement of another node's user root, as node self.
func forge(t *testing.T, p *proc, cfg *tls.Config, self base.NodeID, statement string) error {
	t.Helper()
	none, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := wan.NewTCP(wan.TCPOptions{Self: self, Region: 1, ClusterID: p.n.ident.ClusterID, TLSClient: cfg, Listener: none})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Start(); err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	tr.SetPeer(p.n.ID(), p.n.Addr(), 1)
	session, err := (&wire.SessionState{User: "root", Host: "localhost", Region: 1}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	q := &wire.ForwardRequest{Query: statement, Session: session, Now: uint64(p.n.clock.Now())}
	resp := new(wire.ForwardResponse)
	if err := tr.Call(t.Context(), p.n.ID(), wire.KindForward, q, resp); err != nil {
		return err
	}
	if resp.Error != 0 || resp.Status != nil {
		return fmt.Errorf("%v %s", resp.Status, resp.Message)
	}
	return nil
}

func users(t *testing.T, p *proc, name string) (n int) {
	t.Helper()
	if err := p.sql(t).QueryRow("SELECT COUNT(*) FROM mysql.user WHERE user = ?", name).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestForgedStatement: a client that says it is a node makes itself an administrator where nodes
// have no certificates, and nowhere else.
func TestForgedStatement(t *testing.T) {
	t.Parallel()
	open := single(t, func(c *Config) { c.Insecure = true })
	if err := forge(t, open, nil, 2, "CREATE USER mallory"); err != nil || users(t, open, "mallory") != 1 {
		t.Fatalf("the forged statement is not one that would be executed: %v", err)
	}
	p := single(t, nil)
	of := func(certs, id, region string, life time.Duration) *tls.Config {
		return certificate(t, certs, ident.Name{Role: ident.RoleNode, ID: id, Region: region}, life).Client(ident.ProtoNode)
	}
	self := p.n.cluster.Topology().Node(p.n.ID()).UUID
	for name, cfg := range map[string]*tls.Config{
		"no TLS":                nil,
		"no certificate":        {InsecureSkipVerify: true, NextProtos: []string{ident.ProtoNode}},
		"another authority":     of(filepath.Join(t.TempDir(), "ca"), self, "eu", time.Hour),
		"expired":               of(DefaultCerts(), self, "eu", -time.Minute),
		"a node of no cluster":  of(DefaultCerts(), "stranger", "eu", time.Hour),
		"a node that is unborn": of(DefaultCerts(), "2", "eu", time.Hour),
	} {
		for _, self := range []base.NodeID{1, 2} {
			if err := forge(t, p, cfg, self, "CREATE USER mallory"); err == nil {
				t.Errorf("%s, as node %d: executed", name, self)
			}
		}
	}
	if n := users(t, p, "mallory"); n != 0 {
		t.Fatal("there is a new user")
	}
}

// TestRights: who may ask what, over HTTP.
func TestRights(t *testing.T) {
	t.Parallel()
	p := single(t, nil)
	uuid := p.n.cluster.Topology().Node(1).UUID
	asNode := certificate(t, DefaultCerts(), ident.Name{Role: ident.RoleNode, ID: "phantom", Region: "eu"}, time.Hour)
	clients := map[string]*http.Client{
		"plain":  {Transport: &http.Transport{DisableKeepAlives: true}},
		"nobody": {Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
		"node":   httpClient(asNode),
		"admin":  admin(t),
	}
	request := func(who, method, path, body string, header ...string) (int, string) {
		t.Helper()
		scheme := "https://"
		if who == "plain" {
			scheme = "http://"
		}
		r, err := http.NewRequestWithContext(t.Context(), method, scheme+p.n.Addr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Set("Content-Type", "application/json"); len(header) == 2 {
			r.Header.Set(header[0], header[1])
		}
		res, err := clients[who].Do(r)
		if err != nil {
			t.Fatalf("%s %s by %s: %v", method, path, who, err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	before := p.n.cluster.Topology().Version
	for _, c := range []struct {
		method, path, body string
		may                string // those who are not refused
	}{
		{"GET", "/health", "", "plain nobody node admin"},
		{"GET", "/ready", "", "plain nobody node admin"},
		{"GET", cluster.PathStatus, "", "node admin"},
		{"GET", "/metrics", "", "node admin"},
		{"GET", "/debug/pprof/", "", ""},
		{"GET", "/debug/pprof/heap", "", ""},
		{"POST", join.PathInit, "{}", "admin"},
		{"POST", cluster.PathDecommission, `{"node":9}`, "admin"},
		{"POST", cluster.PathDropRegion, `{"region":"nowhere"}`, "admin"},
		{"POST", cluster.PathPromote, `{"lost":"nowhere"}`, "admin"},
		{"POST", cluster.PathClock, `{"mode":"nonsense"}`, "admin"},
		{"POST", cluster.PathLeader, `{"group":"none"}`, "admin"},
		{"POST", cluster.PathEpochsCopy, "{}", "admin"},
		// A certificate is good for the node that it is of, and for no other.
		{"POST", join.PathJoin, `{"uuid":"other","region":"eu","addr":"127.0.0.1:1"}`, ""},
		{"POST", join.PathJoin, `{"uuid":"phantom","region":"us","addr":"127.0.0.1:1"}`, ""},
		{"POST", join.PathJoin, fmt.Sprintf(`{"uuid":%q,"region":"eu","addr":"127.0.0.1:1"}`, uuid), ""},
		{"POST", web.PathEnrol, `{"token":"gwt1-AAAA","region":"eu"}`, ""},
		{"GET", "/nowhere", "", "admin"},
	} {
		for _, who := range []string{"plain", "nobody", "node", "admin"} {
			code, text := request(who, c.method, c.path, c.body)
			refused := code == http.StatusForbidden || strings.Contains(text, "profiles are off")
			if may := strings.Contains(c.may, who); may == refused {
				t.Errorf("%s %s by %s: %d %s", c.method, c.path, who, code, text)
			}
		}
	}
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "https://" + p.n.Addr()}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"}, {"Content-Type", "text/plain"}} {
		code, text := request("admin", "POST", cluster.PathDecommission, `{"node":9}`, header...)
		if code != http.StatusForbidden && code != http.StatusUnsupportedMediaType {
			t.Errorf("%v: %d %s", header, code, text)
		}
	}
	if after := p.n.cluster.Topology().Version; after != before {
		t.Fatalf("the topology changed from version %d to %d", before, after)
	}
	// A node that has a certificate of its own is told which node it is.
	if code, text := request("node", "POST", join.PathJoin, fmt.Sprintf(
		`{"uuid":"phantom","region":"eu","addr":"127.0.0.1:1","knows":%d}`, base.VersionNewest)); code != 200 ||
		!strings.Contains(text, `"node":2`) {
		t.Errorf("a node with a certificate: %d %s", code, text)
	}
}

// TestBrowsersWithoutTLS: a web page reaches a node with --insecure from its user's machine, and is
// refused.
func TestBrowsersWithoutTLS(t *testing.T) {
	t.Parallel()
	p := single(t, func(c *Config) { c.Insecure = true })
	for _, header := range []string{"Origin: http://evil.example", "Origin: http://" + p.n.Addr(), "Sec-Fetch-Site: cross-site",
		"Content-Type: text/plain"} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+p.n.Addr()+cluster.PathClock,
			strings.NewReader(`{"mode":"gtm"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		k, v, _ := strings.Cut(header, ": ")
		r.Header.Set(k, v)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode/100 != 4 || res.StatusCode == http.StatusConflict {
			t.Errorf("%s: %s", header, res.Status)
		}
	}
}

// TestSilentSockets: 300 connections that say nothing, and 300 that stop within the handshake, keep
// neither health checks nor nodes that join out.
func TestSilentSockets(t *testing.T) {
	t.Parallel()
	p := single(t, nil)
	for _, said := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		for range 300 {
			c, err := net.Dial("tcp", p.n.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, said); err != nil {
				t.Fatal(err)
			}
		}
		for _, url := range []string{"http://" + p.n.Addr() + "/health", "https://" + p.n.Addr() + cluster.PathStatus} {
			res, err := admin(t).Get(url)
			if err != nil {
				t.Fatal(err)
			}
			if res.Body.Close(); res.StatusCode != 200 {
				t.Fatal(res.Status)
			}
		}
	}
	w := &world{procs: []*proc{p}}
	second := w.add(t, "eu")
	second.stop(t)
}

// TestToken: a node on another machine gets its certificate by a token, once.
func TestToken(t *testing.T) {
	t.Parallel()
	p := single(t, nil)
	ca, err := ident.OpenCA(DefaultCerts())
	if err != nil {
		t.Fatal(err)
	}
	tok, _, err := ca.CreateToken(time.Hour, "eu", "")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "no-authority-here")
	fresh := func(token string) *proc {
		return &proc{cfg: Config{Region: "eu", Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
			Join: []string{p.n.Addr()}, Certs: elsewhere, Token: token}}
	}
	a := fresh(tok.String())
	a.start(t)
	a.ready(t)
	name, uuid := "", p.n.cluster.Topology().Node(2).UUID
	if f, err := ident.Open(NodeCerts(a.cfg.Store), ident.Node, nil); err == nil {
		name = f.Name().ID
	}
	if a.n.ID() != 2 || name != uuid {
		t.Fatalf("node %d, certificate of %q, topology has %q", a.n.ID(), name, uuid)
	}
	a.stop(t)
	a.cfg.Token = "" // it has done its work
	a.start(t)
	a.ready(t)
	a.stop(t)

	other, err := ident.CreateCA(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	strange, _, err := other.CreateToken(time.Hour, "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ token, want string }{{tok.String(), "used, expired or revoked"}, {"gwt1-x", "damaged"}} {
		b := fresh(c.token)
		if _, err := Start(t.Context(), b.cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	// A token of another cluster is not shown to this one: the node goes on looking for its own.
	said := make(chan string, 1)
	log := slog.New(slog.NewJSONHandler(writer(func(b []byte) {
		if strings.Contains(string(b), "another cluster") {
			select {
			case said <- string(b):
			default:
			}
		}
	}), nil))
	b := fresh(strange.String())
	done := make(chan error, 1)
	go func() {
		_, err := Start(t.Context(), b.cfg, log)
		done <- err
	}()
	select {
	case <-said:
	case err := <-done:
		t.Fatalf("it ended: %v", err)
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// TestNoCertificate: a node that cannot get a certificate says what to do.
func TestNoCertificate(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "none")
	public := t.TempDir()
	ca, err := ident.OpenCA(DefaultCerts())
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Create(public, ident.Client, ident.Name{Role: ident.RoleClient, ID: "x"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"other machines", func(c *Config) { c.Certs, c.Join = empty, []string{"10.0.0.1:7400"} }, "godwit token create"},
		{"no key", func(c *Config) { c.Certs = public }, "key of the authority"},
		{"insecure beyond loopback", func(c *Config) { c.Insecure, c.Listen = true, "0.0.0.0:0"; c.Advertise = "10.0.0.1:1" },
			"insecure-anywhere"},
		{"insecure by all names", func(c *Config) { c.Insecure, c.Listen = true, ":0"; c.Advertise = "10.0.0.1:1" },
			"insecure-anywhere"},
		{"half a decision", func(c *Config) { c.InsecureAnywhere = true }, "goes with --insecure"},
		{"a token for nothing", func(c *Config) { c.Token = "gwt1-" }, "--join"},
	} {
		cfg := Config{Region: "eu", Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0"}
		c.change(&cfg)
		if _, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestSwappedCertificates: a certificate of another store, or of another region, starts no node.
func TestSwappedCertificates(t *testing.T) {
	t.Parallel()
	p := single(t, nil)
	p.stop(t)
	ca, err := ident.OpenCA(DefaultCerts())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []ident.Name{{Role: ident.RoleNode, ID: "another", Region: "eu"},
		{Role: ident.RoleClient, ID: "admin"}} {
		if err := ca.Create(NodeCerts(p.cfg.Store), ident.Node, n, time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(t.Context(), p.cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "certificate of") {
			t.Errorf("with the certificate of %s: %v", n, err)
		}
	}
}

// TestRenewal: a node replaces a certificate that ends soon when it starts, where the key is.
func TestRenewal(t *testing.T) {
	t.Parallel()
	p := single(t, nil)
	p.stop(t)
	dir := NodeCerts(p.cfg.Store)
	f, err := ident.Open(dir, ident.Node, nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := ident.OpenCA(DefaultCerts())
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Create(dir, ident.Node, f.Name(), time.Hour); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	p.ready(t)
	again, err := ident.Open(dir, ident.Node, nil)
	if err != nil || again.Name() != f.Name() || time.Until(again.Until()) < renewWithin {
		t.Fatalf("%v, good until %s", err, again.Until())
	}
}

// TestGoneNodesSpeakForNobody: statements of a decommissioned node are not executed.
func TestGoneNodesSpeakForNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cfgs{}, "eu", "eu")
	first, last := w.procs[0], w.procs[1]
	f, err := ident.Open(NodeCerts(last.cfg.Store), ident.Node, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, id := f.Client(ident.ProtoNode), last.n.ID()
	if err := forge(t, first, cfg, id, "CREATE USER alice"); err != nil {
		t.Fatalf("a member's statement is not executed: %v", err)
	}
	if err := first.decommission(t, id); err != nil {
		t.Fatal(err)
	}
	if err := forge(t, first, cfg, id, "CREATE USER mallory"); err == nil || !strings.Contains(err.Error(), "decommissioned") {
		t.Fatal(err)
	}
}
