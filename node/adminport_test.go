package node

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/node/web"
)

// TestAdminPort: a node with an admin port answers nodes at one port and administrators at the
// other, and the cluster knows both.
func TestAdminPort(t *testing.T) {
	t.Parallel()
	p := single(t, func(c *Config) { c.AdminListen = "127.0.0.1:0" })
	second := &proc{cfg: Config{Region: "eu", Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
		AdminListen: "127.0.0.1:0", Join: []string{p.n.Addr()}}}
	second.start(t)
	second.ready(t)
	t.Cleanup(func() { second.stop(t) })
	nodesAt, adminsAt := p.n.Addr(), p.n.AdminAddr()
	for _, q := range []*proc{p, second} {
		until(t, "the addresses to be known", func() string {
			for _, n := range p.n.cluster.Topology().Nodes {
				if n.ID == q.n.ID() && n.Admin == q.n.AdminAddr() && n.AdminAddr() != q.n.Addr() {
					return ""
				}
			}
			return "the topology has others"
		})
	}

	asNode := certificate(t, DefaultCerts(), ident.Name{Role: ident.RoleNode, ID: "phantom", Region: "eu"}, time.Hour)
	nobody := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	clients := map[string]*http.Client{"nobody": nobody, "node": httpClient(asNode), "admin": admin(t)}
	const here, other = "", "this is the port of "
	for _, c := range []struct {
		method, path, body        string
		who                       string
		atNodes, atAdmins, denied string // parts of the answer; denied is what both say instead
	}{
		{method: "GET", path: "/health", who: "nobody"},
		{method: "GET", path: "/ready", who: "nobody"},
		{method: "GET", path: cluster.PathStatus, who: "admin", atNodes: other},
		{method: "GET", path: cluster.PathStatus, who: "node"},
		{method: "GET", path: cluster.PathStatus, who: "nobody", denied: "needs a certificate"},
		{method: "GET", path: "/metrics", who: "admin", atNodes: other},
		{method: "GET", path: "/metrics", who: "node", atNodes: other},
		{method: "GET", path: "/console/", who: "nobody", atNodes: other},
		{method: "GET", path: "/nowhere", who: "admin", atNodes: other, atAdmins: "404"},
		{method: "POST", path: cluster.PathDecommission, body: `{"node":9}`, who: "admin", atNodes: other, atAdmins: "no node 9"},
		{method: "POST", path: cluster.PathDecommission, body: `{"node":9}`, who: "node", atNodes: other, atAdmins: "is for administrators"},
		{method: "POST", path: cluster.PathDecommission, body: `{"node":9}`, who: "nobody", atNodes: other, atAdmins: "needs a certificate"},
		{method: "POST", path: join.PathJoin, body: `{"uuid":"x","region":"eu","addr":"127.0.0.1:1"}`, who: "node",
			atNodes: "the certificate", atAdmins: other},
		{method: "POST", path: web.PathEnrol, body: `{"token":"gwt1-AAAA","region":"eu"}`, who: "nobody", atNodes: "token", atAdmins: other},
	} {
		for at, want := range map[string]string{nodesAt: c.atNodes, adminsAt: c.atAdmins} {
			r, err := http.NewRequestWithContext(t.Context(), c.method, "https://"+at+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			res, err := clients[c.who].Do(r)
			if err != nil {
				t.Fatalf("%s %s by %s: %v", c.method, c.path, c.who, err)
			}
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if c.denied != "" {
				want = c.denied
			}
			if text := res.Status + " " + string(b); want == here && res.StatusCode != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s %s by %s at %s: %s, want %q", c.method, c.path, c.who, at, text, want)
			}
		}
	}

	// Nodes do not speak with each other through the admin port.
	conn, err := tls.Dial("tcp", adminsAt, asNode.Client(ident.ProtoNode))
	if err == nil {
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err = conn.Read(make([]byte, 1)); err == nil {
			t.Error("a node was answered")
		} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Error("the connection of a node stays open")
		}
	}
}

// TestAdminPortOptions: what cannot be is refused before the node starts.
func TestAdminPortOptions(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"admin-listen: \"nowhere\" is not HOST:PORT": {AdminListen: "nowhere"},
		"admin-advertise: it goes with":              {AdminAdvertise: "127.0.0.1:1"},
		"whoever reaches 192.0.2.1:7 would be":       {Insecure: true, AdminListen: "192.0.2.1:7"},
	} {
		c.Region = "eu"
		c.Fill()
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	var j join.Joiner
	n := base.Node{Admin: "127.0.0.1:1"}
	if j.At(&n) {
		t.Error("a node whose admin port was closed keeps its address")
	}
}
