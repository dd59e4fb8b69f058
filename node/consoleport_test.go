package node

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// browser asks a node without any certificate, and keeps cookies by itself.
type browser struct {
	t      *testing.T
	url    string
	client *http.Client
	cookie *http.Cookie
	token  string
}

func newBrowser(t *testing.T, url string) *browser {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(tr.CloseIdleConnections)
	return &browser{t: t, url: url, client: &http.Client{Transport: tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (b *browser) ask(method, path, body string) (*http.Response, []byte) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", b.url)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	req.Header.Set("X-Godwit-Token", b.token)
	if b.cookie != nil {
		req.AddCookie(b.cookie)
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, got
}

// login returns the status.
func (b *browser) login(user, password string) int {
	b.t.Helper()
	in, err := json.Marshal(map[string]string{"user": user, "password": password})
	if err != nil {
		b.t.Fatal(err)
	}
	res, body := b.ask("POST", "/console/api/login", string(in))
	if res.StatusCode == http.StatusOK {
		var id struct{ Token string }
		if err := json.Unmarshal(body, &id); err != nil {
			b.t.Fatal(err)
		}
		b.cookie, b.token = res.Cookies()[0], id.Token
	} else {
		b.t.Logf("login of %s: %d %s", user, res.StatusCode, body)
	}
	return res.StatusCode
}

// TestConsoleOverTLS: the console needs no certificate of its users, leads to nothing that does,
// and gives them at SQL what TLS gives.
func TestConsoleOverTLS(t *testing.T) {
	t.Parallel()
	p := single(t, nil)
	root := p.sql(t)
	for _, q := range []string{"CREATE USER safe IDENTIFIED BY 'x' REQUIRE SSL", "CREATE USER there@'127.0.0.1' IDENTIFIED BY 'x'",
		"CREATE USER away@'10.1.2.3' IDENTIFIED BY 'x'", "CREATE USER proven IDENTIFIED BY 'x' REQUIRE X509"} {
		if _, err := root.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	b := newBrowser(t, "https://"+p.n.Addr())
	for user, want := range map[string]int{"safe": 200, "there": 200, "away": 401, "proven": 401} {
		if got := b.login(user, "x"); got != want {
			t.Errorf("%s: %d, want %d", user, got, want)
		}
	}
	if k := b.cookie; !k.Secure || !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || !strings.HasPrefix(k.Name, "__Host-godwit-") {
		t.Errorf("cookie %v", k)
	}
	for _, path := range []string{cluster.PathStatus, "/metrics", "/debug/pprof/", "/console/..%2fcluster/status"} {
		if res, _ := b.ask("GET", path, ""); res.StatusCode == http.StatusOK {
			t.Errorf("%s is answered to a user of the console", path)
		}
	}
	if res, _ := b.ask("POST", cluster.PathDecommission, `{"node":1}`); res.StatusCode < 400 {
		t.Errorf("a page of the console may do what administrators do: %d", res.StatusCode)
	}
	plain := newBrowser(t, "http://"+p.n.Addr())
	for _, path := range []string{"/", "/console", "/console/", "/console/api/session"} {
		if res, _ := plain.ask("GET", path, ""); res.StatusCode != http.StatusFound || res.Header.Get("Location") != b.url+"/console/" {
			t.Errorf("%s without TLS: %d %s", path, res.StatusCode, res.Header.Get("Location"))
		}
	}
	if res, _ := plain.ask("POST", "/console/api/login", `{"user":"safe","password":"x"}`); res.StatusCode != http.StatusForbidden {
		t.Errorf("a password without TLS: %d", res.StatusCode)
	}
	if res, _ := b.ask("GET", "/", ""); res.StatusCode != http.StatusFound || res.Header.Get("Location") != "/console/" {
		t.Errorf("/: %d %s", res.StatusCode, res.Header.Get("Location"))
	}
}

// TestConsoleWithoutTLS: accounts that REQUIRE SSL are refused where there is none, and pages are
// what SQL says.
func TestConsoleWithoutTLS(t *testing.T) {
	t.Parallel()
	p := single(t, func(c *Config) { c.Insecure = true })
	root := p.sql(t)
	if _, err := root.Exec("CREATE USER safe IDENTIFIED BY 'x' REQUIRE SSL"); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, "http://"+p.n.Addr())
	if got := b.login("safe", "x"); got != http.StatusUnauthorized {
		t.Errorf("an account that needs TLS: %d", got)
	}
	if got := b.login("root", ""); got != http.StatusOK {
		t.Fatal(got)
	}
	for _, q := range []string{"SET CLUSTER SETTING console.places = 'eu 1'", "SET CLUSTER SETTING console.places = 'eu 100 1'"} {
		if _, err := root.Exec(q); err == nil {
			t.Errorf("%s is taken", q)
		}
	}
	if _, err := root.Exec("SET CLUSTER SETTING console.places = 'eu 12.5 -3'"); err != nil {
		t.Fatal(err)
	}
	b.pages()
}

// pages asks for all of them: whatever they ask SQL for is there.
func (b *browser) pages() {
	b.t.Helper()
	seen := 0
	for _, page := range []string{"map", "statements", "why", "health", "row?name=a.b(1)", "then?at=2026-01-02T03:04:05.5Z"} {
		res, body := b.ask("GET", "/console/api/panel/"+page, "")
		var out struct {
			Tables map[string]struct {
				Columns []string
				Rows    [][]*string
				Error   string
				Code    int
			}
			Places map[string]struct {
				Lat, Lon float64
				Known    bool
			}
		}
		if err := json.Unmarshal(body, &out); err != nil || res.StatusCode != http.StatusOK {
			b.t.Fatalf("%s: %d %s", page, res.StatusCode, body)
		}
		if _, ok := out.Tables["splits"]; ok != (page == "why") {
			b.t.Errorf("%s tells of splits of tables: %v", page, ok)
		}
		for name, t := range out.Tables {
			seen++
			if t.Error != "" && name != "statements" { // not every version has that one
				b.t.Errorf("%s: %s: %d %s", page, name, t.Code, t.Error)
			}
		}
		if at := out.Places["eu"]; page == "map" && (at.Lat != 12.5 || at.Lon != -3 || !at.Known) {
			b.t.Errorf("region eu is at %+v", at)
		}
		if nodes := out.Tables["nodes"]; page == "map" && (len(nodes.Rows) != 1 || !slices.Contains(nodes.Columns, "region")) {
			b.t.Errorf("nodes: %+v", nodes)
		}
	}
	if seen < 25 {
		b.t.Errorf("only %d tables", seen)
	}
}

// TestCertificateRows: a node tells of its own certificate, the authority's, and what MySQL clients
// are shown, and of none that there is not.
func TestCertificateRows(t *testing.T) {
	t.Parallel()
	for _, insecure := range []bool{false, true} {
		p := single(t, func(c *Config) { c.Insecure = insecure })
		want := []string{"authority|good|1", "node|good|1", "sql|good|1"}
		if insecure {
			want = want[2:]
		}
		conn, err := p.sql(t).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := column(t, conn, "SELECT certificate, state, ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), until) - left_s) < 60 "+
			"FROM godwit.certificates ORDER BY 1")
		if !slices.Equal(got, want) {
			t.Errorf("insecure %v: %q, want %q", insecure, got, want)
		}
	}
}

// TestNoConsole: --no-console leaves nothing of it.
func TestNoConsole(t *testing.T) {
	t.Parallel()
	p := single(t, func(c *Config) { c.NoConsole = true })
	b := newBrowser(t, "https://"+p.n.Addr())
	for _, path := range []string{"/", "/console/", "/console/api/session"} {
		if res, body := b.ask("GET", path, ""); res.StatusCode < 400 || bytes.Contains(body, []byte("Godwit console")) {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// TestConsoleOfACluster: the tables that the console added know the regions, and what is wrong.
func TestConsoleOfACluster(t *testing.T) {
	t.Parallel()
	l := startReal(t, 3)
	n := l.Nodes()[0]
	until(t, "round trips of all pairs", func() string {
		if rows := n.roundTripRows(t.Context()); len(rows) != 3 {
			return "too few"
		}
		return ""
	})
	for _, r := range n.roundTripRows(t.Context()) {
		x, y := n.cluster.Topology().Regions, r[2].(float64)
		if r[0] == r[1] || y <= 0 || !slices.ContainsFunc(x, func(g base.Region) bool { return g.Name == r[0] }) {
			t.Errorf("%v", r)
		}
	}
	// Between the two a group of a young cluster may have begun to serve.
	until(t, "the problems that status has", func() string {
		want := n.cluster.Status(t.Context()).Problems
		if rows := n.problemRows(t.Context()); len(rows) != len(want) {
			return fmt.Sprintf("%v, and status says %q", rows, want)
		}
		return ""
	})
}
