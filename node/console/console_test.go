package console

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/server"
)

// site is a console in front of a real SQL server whose rows are in memory.
type site struct {
	t       *testing.T
	console *Console
	http    *httptest.Server
	root    *sql.DB // past the console
}

func newSite(t *testing.T) *site {
	t.Helper()
	s, err := server.New(server.Config{DB: memkv.New(4, "eu", "us"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	c := New(Options{Hosts: []string{"node.example"}, Dial: func(ctx context.Context, _ net.Addr) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Addr().String())
	}})
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = "root", "tcp", s.Addr().String()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x := &site{t: t, console: c, http: httptest.NewServer(c), root: sql.OpenDB(connector)}
	t.Cleanup(func() {
		x.http.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		_ = x.root.Close() // what matters is the console
	})
	x.exec("CREATE DATABASE shop", "CREATE TABLE shop.carts (id INT PRIMARY KEY, n INT)", "INSERT INTO shop.carts VALUES (1, 10)",
		"CREATE USER reader IDENTIFIED BY 'books'", "GRANT SELECT ON shop.* TO reader",
		"CREATE USER nobody IDENTIFIED BY 'knows'")
	return x
}

func (x *site) exec(statements ...string) {
	x.t.Helper()
	for _, q := range statements {
		if _, err := x.root.Exec(q); err != nil {
			x.t.Fatalf("%s: %v", q, err)
		}
	}
}

func (x *site) int(query string) (n int) {
	x.t.Helper()
	if err := x.root.QueryRow(query).Scan(&n); err != nil {
		x.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request as it is given; path is what follows the address.
func (x *site) send(method, path, body string, header map[string]string) reply {
	x.t.Helper()
	req, err := http.NewRequestWithContext(x.t.Context(), method, x.http.URL+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		}
		req.Header.Set(k, v)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		x.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, b}
}

// visitor is somebody's browser.
type visitor struct {
	x      *site
	cookie *http.Cookie
	id     identity
}

// tries logs in, and returns what came back.
func (x *site) tries(user, password string) (reply, *visitor) {
	x.t.Helper()
	in, err := json.Marshal(credentials{User: user, Password: password})
	if err != nil {
		x.t.Fatal(err)
	}
	r := x.send("POST", Path+"api/login", string(in), map[string]string{"Content-Type": "application/json"})
	v := &visitor{x: x}
	if r.status == http.StatusOK {
		if err := json.Unmarshal(r.body, &v.id); err != nil {
			x.t.Fatal(err)
		}
		v.cookie = (&http.Response{Header: r.header}).Cookies()[0]
	}
	return r, v
}

func (x *site) login(user, password string) *visitor {
	x.t.Helper()
	r, v := x.tries(user, password)
	if r.status != http.StatusOK {
		x.t.Fatalf("login of %s: %d %s", user, r.status, r.body)
	}
	return v
}

func (v *visitor) header(more map[string]string) map[string]string {
	h := map[string]string{"Content-Type": "application/json", "Cookie": v.cookie.Name + "=" + v.cookie.Value, tokenHeader: v.id.Token}
	for k, s := range more {
		h[k] = s
	}
	return h
}

func (v *visitor) get(path string) reply { return v.x.send("GET", Path+path, "", v.header(nil)) }

func (v *visitor) post(path, body string) reply {
	return v.x.send("POST", Path+path, body, v.header(nil))
}

// run runs a statement in the box.
func (v *visitor) run(o order) (reply, outcome) {
	v.x.t.Helper()
	in, err := json.Marshal(o)
	if err != nil {
		v.x.t.Fatal(err)
	}
	r := v.post("api/sql", string(in))
	out := outcome{table: &table{}}
	if err := json.Unmarshal(r.body, &out); err != nil {
		v.x.t.Fatalf("%s: %v", r.body, err)
	}
	return r, out
}

// of is the session on the console's side.
func (v *visitor) of() *session {
	v.x.t.Helper()
	s := v.x.console.sessions.find(v.cookie.Value)
	if s == nil {
		v.x.t.Fatal("there is no session")
	}
	return s
}

func TestLogin(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	r, v := x.tries("reader", "books")
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if k := v.cookie; !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || k.Path != "/" || k.Domain != "" || len(k.Value) != 43 ||
		!strings.HasPrefix(k.Name, "godwit-") {
		t.Errorf("cookie %v", k)
	}
	if v.id.User != "reader@%" || len(v.id.Token) != 43 || v.id.Token == v.cookie.Value {
		t.Errorf("identity %+v", v.id)
	}
	if bytes.Contains(r.body, []byte("books")) {
		t.Error("the answer has the password")
	}
	if r := v.get("api/session"); r.status != http.StatusOK || !bytes.Contains(r.body, []byte(v.id.Token)) {
		t.Errorf("the session is not found: %d %s", r.status, r.body)
	}
	// Another login makes another name: one that was planted before is of no use afterwards.
	first := *v.cookie
	again := x.send("POST", Path+"api/login", `{"user":"reader","password":"books"}`, v.header(nil))
	if k := (&http.Response{Header: again.header}).Cookies(); again.status != 200 || k[0].Value == first.Value {
		t.Errorf("the second login: %d %v", again.status, k)
	}
	if r := v.get("api/session"); r.status != http.StatusUnauthorized {
		t.Errorf("the session from before the login: %d", r.status)
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("reader", "books")
	r := v.post("api/logout", "{}")
	k := (&http.Response{Header: r.header}).Cookies()
	if r.status != http.StatusOK || len(k) != 1 || k[0].MaxAge >= 0 || !k[0].HttpOnly {
		t.Errorf("%d %v", r.status, k)
	}
	for _, path := range []string{"api/session", "api/panel/map"} {
		if r := v.get(path); r.status != http.StatusUnauthorized {
			t.Errorf("%s after the logout: %d", path, r.status)
		}
	}
	until(t, "the server keeps connections of a session that has ended", func() bool {
		return x.int("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'reader'") == 0
	})
}

// TestHeaders: each answer, also one that says no, forbids what a page of the console never needs.
func TestHeaders(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("reader", "books")
	for _, c := range []struct {
		path, kind string
		status     int
	}{
		{"", "text/html", 200}, {"app.js", "text/javascript", 200}, {"map.js", "text/javascript", 200},
		{"style.css", "text/css", 200}, {"icon.svg", "image/svg+xml", 200}, {"world.json", "application/json", 200},
		{"api/session", "application/json", 200}, {"api/panel/none", "application/json", 404}, {"none", "application/json", 404},
	} {
		r := v.get(c.path)
		if r.status != c.status || !strings.HasPrefix(r.header.Get("Content-Type"), c.kind) {
			t.Errorf("%s: %d %s", c.path, r.status, r.header.Get("Content-Type"))
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin"} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s: %q", c.path, name, got)
			}
		}
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'none'", "require-trusted-types-for 'script'"} {
			if got := r.header.Get("Content-Security-Policy"); !strings.Contains(got, want) || strings.Contains(got, "unsafe") {
				t.Errorf("%s: policy %q has no %s", c.path, got, want)
			}
		}
		if r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: it is shared with other origins", c.path)
		}
		if want := "no-store"; strings.HasPrefix(c.path, "api/") && r.header.Get("Cache-Control") != want {
			t.Errorf("%s: Cache-Control %q", c.path, r.header.Get("Cache-Control"))
		}
	}
	tag := v.get("app.js").header.Get("ETag")
	if r := x.send("GET", Path+"app.js", "", map[string]string{"If-None-Match": tag}); r.status != http.StatusNotModified || len(r.body) > 0 {
		t.Errorf("a file that the browser has: %d, %d bytes", r.status, len(r.body))
	}
}

// TestForgedRequests: what a page of somebody else can make a browser send does nothing.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v, other := x.login("root", ""), x.login("root", "")
	const change = `{"statement":"DELETE FROM shop.carts","changes":true}`
	for name, h := range map[string]map[string]string{
		"no token":                   {tokenHeader: ""},
		"another token":              {tokenHeader: secret()},
		"the token of another":       {tokenHeader: other.id.Token},
		"the cookie as token":        {tokenHeader: v.cookie.Value},
		"another origin":             {"Origin": "http://evil.example"},
		"an origin that is none":     {"Origin": "null"},
		"our origin with TLS":        {"Origin": strings.Replace(x.http.URL, "http:", "https:", 1)},
		"another port of this host":  {"Origin": "http://127.0.0.1:1"},
		"another site":               {"Sec-Fetch-Site": "cross-site"},
		"a site beside":              {"Sec-Fetch-Site": "same-site"},
		"typed by the user":          {"Sec-Fetch-Site": "none"},
		"what forms can send":        {"Content-Type": "text/plain"},
		"a form":                     {"Content-Type": "application/x-www-form-urlencoded"},
		"no type":                    {"Content-Type": ""},
		"a name that leads here":     {"Host": "evil.example"},
		"a name that begins so":      {"Host": "localhost.evil.example:80"},
		"a name with our port":       {"Host": "evil.example" + x.http.URL[strings.LastIndex(x.http.URL, ":"):]},
		"no cookie":                  {"Cookie": ""},
		"a cookie for another port":  {"Cookie": "godwit-1=" + v.cookie.Value},
		"a cookie that is forged":    {"Cookie": v.cookie.Name + "=" + secret()},
		"a cookie of no name at all": {"Cookie": "=" + v.cookie.Value},
	} {
		r := x.send("POST", Path+"api/sql", change, v.header(h))
		if r.status != 401 && r.status != 403 && r.status != 415 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := v.x.send("GET", Path+"api/sql", change, v.header(nil)); r.status == 200 {
		t.Error("a GET runs statements")
	}
	if n := x.int("SELECT COUNT(*) FROM shop.carts"); n != 1 {
		t.Fatalf("there are %d rows", n)
	}
	// So the requests fail by what they name, and by nothing else.
	for _, h := range []map[string]string{{"Origin": x.http.URL, "Sec-Fetch-Site": "same-origin"}, nil} {
		if r := x.send("POST", Path+"api/sql", `{"statement":"SELECT 1"}`, v.header(h)); r.status != 200 {
			t.Errorf("a request of the page: %d %s", r.status, r.body)
		}
	}
}

// TestLinksToTheConsole: others may lead to its first page, and read nothing.
func TestLinksToTheConsole(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("root", "")
	for _, c := range []struct {
		path, site, mode, dest string
		status                 int
	}{
		{"", "cross-site", "navigate", "document", 200}, {"", "none", "navigate", "document", 200},
		{"", "cross-site", "navigate", "iframe", 403}, {"", "cross-site", "no-cors", "script", 403},
		{"app.js", "cross-site", "no-cors", "script", 403}, {"api/session", "cross-site", "navigate", "document", 403},
		{"api/panel/map", "same-site", "cors", "empty", 403}, {"api/session", "none", "navigate", "document", 200},
	} {
		r := x.send("GET", Path+c.path, "", v.header(map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode,
			"Sec-Fetch-Dest": c.dest}))
		if r.status != c.status {
			t.Errorf("%+v: %d", c, r.status)
		}
	}
	for host, status := range map[string]int{"node.example": 200, "NODE.example:7400": 200, "localhost": 200, "[::1]:7400": 200,
		"10.0.0.1": 200, "node.example.evil.example": 403, "": 200} {
		h := map[string]string{"Host": cmp.Or(host, "127.0.0.1")}
		if r := x.send("GET", Path, "", h); r.status != status {
			t.Errorf("host %q: %d", host, r.status)
		}
	}
}

// TestPaths: no path leads out of the files and answers of the console.
func TestPaths(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("root", "")
	for _, path := range []string{"/console/../etc/passwd", "/console/..%2f..%2fetc/passwd", "/console/%2e%2e/%2e%2e/etc/passwd",
		"/console//etc/passwd", "/console/./app.js", "/console/assets/app.js", "/console/assets", "/console/console.go", "/console/places.json",
		"/console/..%5c..%5cwindows", "/console/app.js/", "/console/app.js%00", "/console/api/panel/..", "/console/api/panel/%2e%2e",
		"/console/api/panel/", "/console/api/panel/map/nodes", "/console/api/panel/__proto__", "/console/api/", "/console/index.html",
		"/console/api/panel/map%2fx", "/console/.git/config", "/", "/cluster/status", "/metrics"} {
		r := v.x.send("GET", path, "", v.header(nil))
		if r.status != http.StatusNotFound || bytes.Contains(r.body, []byte("root:")) {
			t.Errorf("%s: %d %.80s", path, r.status, r.body)
		}
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
		for _, path := range []string{"", "app.js", "api/sql", "api/login"} {
			if r := x.send(method, Path+path, "{}", v.header(nil)); r.status < 400 || r.status >= 500 {
				t.Errorf("%s %s: %d", method, path, r.status)
			}
		}
	}
}

// TestTextOfOthers: markup in names and values leaves the node as text in JSON, and never as HTML.
func TestTextOfOthers(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	x.exec("CREATE TABLE shop.`<script>alert(1)</script>` (`<img src=x onerror=alert(1)>` TEXT)",
		"INSERT INTO shop.`<script>alert(1)</script>` VALUES ('</script><script>alert(2)</script>')")
	v := x.login("root", "")
	for _, q := range []string{"SHOW TABLES FROM shop", "SELECT * FROM shop.`<script>alert(1)</script>`", "SELECT '<b>' FROM nowhere.`<i>`"} {
		r, _ := v.run(order{Statement: q})
		if bytes.ContainsAny(r.body, "<>&") || !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %s %s", q, r.header.Get("Content-Type"), r.body)
		}
	}
	_, out := v.run(order{Statement: "SELECT * FROM shop.`<script>alert(1)</script>`"})
	if len(out.Rows) != 1 || text(out.Rows[0][0]) != "</script><script>alert(2)</script>" || out.Columns[0] != "<img src=x onerror=alert(1)>" {
		t.Errorf("%+v", out.table)
	}
}
