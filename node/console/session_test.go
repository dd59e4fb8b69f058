package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// until polls cond.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for begin := time.Now(); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal(what)
		}
	}
}

// age makes a session look as if that much time had passed.
func (v *visitor) age(acted, begun time.Duration) {
	s := v.of()
	v.x.console.sessions.mu.Lock()
	defer v.x.console.sessions.mu.Unlock()
	s.acted, s.begun = s.acted.Add(-acted), s.begun.Add(-begun)
}

// TestSessionsEnd: a session ends when its user has left, and when it is old, however busy.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	for name, age := range map[string][2]time.Duration{"idle": {idleTimeout, 0}, "old": {0, lifeTimeout}} {
		v := x.login("reader", "books")
		v.age(age[0]-time.Minute, age[1]-min(age[1], time.Minute))
		if r := v.get("api/session"); r.status != 200 {
			t.Fatalf("%s: it ends too early: %d", name, r.status)
		}
		v.age(time.Minute, time.Minute)
		for _, path := range []string{"api/session", "api/panel/map"} {
			if r := v.get(path); r.status != http.StatusUnauthorized {
				t.Errorf("%s: %s: %d", name, path, r.status)
			}
		}
		if r := v.post("api/sql", `{"statement":"SELECT 1"}`); r.status != http.StatusUnauthorized {
			t.Errorf("%s: a statement: %d %s", name, r.status, r.body)
		}
	}
	// What a page asks for by itself keeps nobody logged in; what the user does, does.
	v := x.login("reader", "books")
	for _, c := range []struct {
		act  string
		want time.Duration
	}{{"", 20 * time.Minute}, {"1", 0}} {
		v.age(20*time.Minute, 0)
		if r := x.send("GET", Path+"api/panel/statements", "", v.header(map[string]string{actHeader: c.act})); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if idle := time.Since(v.of().acted); idle < c.want || idle > c.want+time.Minute {
			t.Errorf("act %q: idle for %s", c.act, idle)
		}
		v.age(-20*time.Minute, 0)
	}
	v.age(idleTimeout+time.Hour, 0)
	x.console.sessions.sweep()
	until(t, "the server keeps connections of sessions that are over", func() bool {
		return x.int("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'reader'") == 0
	})
}

// TestLostConnection: KILL of a session's connection, as by an administrator, ends the session.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("reader", "books")
	x.exec("KILL " + v.of().box.id)
	until(t, "the session goes on", func() bool { return v.post("api/sql", `{"statement":"SELECT 1"}`).status == http.StatusUnauthorized })
	if r := v.get("api/session"); r.status != http.StatusUnauthorized {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestSessionsAreBounded: one user cannot keep others out, and all together have a bound.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	first := x.login("reader", "books")
	var last *visitor
	for range maxOfUser {
		last = x.login("reader", "books")
	}
	if r := first.get("api/session"); r.status != http.StatusUnauthorized {
		t.Errorf("the ninth session of a user: the first one still answers: %d", r.status)
	}
	if r := last.get("api/session"); r.status != 200 {
		t.Errorf("the last one: %d", r.status)
	}
	c := x.console
	for i := range maxSessions - maxOfUser {
		if c.sessions.add(&session{user: "u" + itoa(i), box: &link{}}) == "" {
			t.Fatalf("session %d is refused", i)
		}
	}
	if r, _ := x.tries("root", ""); r.status != http.StatusServiceUnavailable {
		t.Errorf("one more than all: %d %s", r.status, r.body)
	}
	if r, _ := x.tries("reader", "books"); r.status != http.StatusOK {
		t.Errorf("one that takes the place of another of its user: %d", r.status)
	}
	c.sessions.mu.Lock()
	for name, s := range c.sessions.by {
		if strings.HasPrefix(s.user, "u") {
			delete(c.sessions.by, name) // they have no connections to close
		}
	}
	c.sessions.mu.Unlock()
}

// TestPagesAreBounded: a session that asks for more at once than is answered is told so.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	v := x.login("reader", "books")
	s := v.of()
	for range maxAsked {
		s.asked <- struct{}{}
	}
	if r := v.get("api/panel/map"); r.status != http.StatusTooManyRequests {
		t.Errorf("%d", r.status)
	}
	<-s.asked
	if r := v.get("api/panel/map"); r.status != http.StatusOK {
		t.Errorf("%d", r.status)
	}
	for range maxStatements {
		x.console.running <- struct{}{}
	}
	if r, _ := v.run(order{Statement: "SELECT 1"}); r.status != http.StatusTooManyRequests {
		t.Errorf("%d", r.status)
	}
	for range maxLogins {
		x.console.logins <- struct{}{}
	}
	if r, _ := x.tries("reader", "books"); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
		t.Errorf("%d", r.status)
	}
}

// TestWrongPasswords: whoever guesses is slowed down, and learns nothing about which users there
// are.
func TestWrongPasswords(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	x.login("reader", "books") // one that succeeds does not count
	said := map[string]bool{}
	for i := range maxStrikes {
		user := []string{"reader", "unheard"}[i%2]
		r, _ := x.tries(user, "guess"+itoa(i))
		if r.status != http.StatusUnauthorized || len(r.header.Values("Set-Cookie")) > 0 {
			t.Fatalf("guess %d: %d %s", i, r.status, r.body)
		}
		said[strings.ReplaceAll(string(r.body), user, "X")] = true
	}
	if len(said) != 1 {
		t.Errorf("users that are there and others are told apart: %v", said)
	}
	r, _ := x.tries("reader", "books")
	if wait, err := strconv.Atoi(r.header.Get("Retry-After")); r.status != http.StatusTooManyRequests || err != nil || wait < 200 || wait > 301 {
		t.Errorf("after %d guesses: %d, Retry-After %q", maxStrikes, r.status, r.header.Get("Retry-After"))
	}
}

func TestStrikes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a, b := newStrikes(), origin("10.0.0.1:5"), origin("10.0.0.2:5")
		for range maxStrikes {
			if s.begin(a) != 0 {
				t.Fatal("too early")
			}
		}
		if w := s.begin(a); w != strikeWindow {
			t.Errorf("wait %s", w)
		}
		if s.begin(b) != 0 {
			t.Error("another address waits")
		}
		time.Sleep(strikeWindow - time.Second)
		if w := s.begin(a); w != time.Second {
			t.Errorf("wait %s", w)
		}
		time.Sleep(2 * time.Second)
		for range 3 * maxStrikes { // those that succeed are forgiven
			if s.begin(a) != 0 {
				t.Fatal("it is not forgotten")
			}
			s.forgive(a)
		}
		for i := range maxStruck + 100 {
			s.begin(netip.PrefixFrom(netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)}), 32))
		}
		if len(s.by) > maxStruck {
			t.Errorf("%d addresses are remembered", len(s.by))
		}
	})
	for addr, want := range map[string]string{"10.0.0.1:5": "10.0.0.1/32", "[::ffff:10.0.0.1]:5": "10.0.0.1/32",
		"[2001:db8:1:2:3::9]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64", "@": "invalid Prefix"} {
		if got := origin(addr).String(); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// TestNoServer: a node that does not serve SQL says so, and counts no strikes.
func TestNoServer(t *testing.T) {
	t.Parallel()
	c := New(Options{Dial: func(context.Context, net.Addr) (net.Conn, error) { return nil, errors.New("not yet") }})
	for range 2 * maxStrikes {
		r := httptest.NewRequest("POST", "http://localhost"+Path+"api/login", strings.NewReader(`{"user":"a"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

// bad are requests that nobody's page sends.
var bad = []struct{ method, path, kind, body string }{
	{"POST", "api/login", "application/json", ""},
	{"POST", "api/login", "application/json", "null"},
	{"POST", "api/login", "application/json", "[]"},
	{"POST", "api/login", "application/json", `{"user":1}`},
	{"POST", "api/login", "application/json", `{"user":"a","password":"b","more":1}`},
	{"POST", "api/login", "application/json", `{"user":"a"}{"user":"b"}`},
	{"POST", "api/login", "application/json", `{"user":"` + strings.Repeat("a", maxName+1) + `"}`},
	{"POST", "api/login", "application/json", `{"user":"a","password":"` + strings.Repeat("a", maxPassword+1) + `"}`},
	{"POST", "api/login", "application/json", strings.Repeat("[", 100_000)},
	{"POST", "api/login", "application/json", strings.Repeat("x", maxBody+1)},
	{"POST", "api/login", "application/json", "\xff\xfe\x00"},
	{"POST", "api/login", "text/json", `{"user":"a"}`},
	{"POST", "api/login", "application/json; charset=\"", `{"user":"a"}`},
	{"POST", "api/sql", "application/json", `{"statement":"SELECT 1"}`},
	{"POST", "api/stop", "", ""},
	{"POST", "api/none", "", ""},
	{"GET", "api/panel/row?name=" + strings.Repeat("x", maxRowName+1), "", ""},
	{"GET", "api/panel/elsewhere?digest=short", "", ""},
	{"GET", "api/panel/node?id=two", "", ""},
	{"GET", "api/panel/table?name=noplace", "", ""},
	{"GET", "api/login", "", ""},
	{"GET", "api/session?x=1", "", ""},
	{"CONNECT", "", "", ""},
}

// TestBadRequests: each gets an answer that says no, as JSON.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	c := New(Options{Dial: func(context.Context, net.Addr) (net.Conn, error) {
		t.Error("a bad request reaches the SQL server")
		return nil, errors.New("no")
	}})
	for _, b := range bad {
		r := httptest.NewRequest(b.method, "http://localhost"+Path+b.path, strings.NewReader(b.body))
		r.Header.Set("Content-Type", b.kind)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s %.40s %.40s: %d %s", b.method, b.path, b.body, w.Code, w.Body)
		}
	}
}

// FuzzRequest: no request, logged in or not, makes the console panic or answer with a 500.
func FuzzRequest(f *testing.F) {
	for _, b := range bad {
		f.Add(b.method, b.path, b.kind, b.body, "localhost", "")
	}
	f.Add("GET", "", "", "", "[::1", "http://x")
	c := New(Options{Dial: func(context.Context, net.Addr) (net.Conn, error) { return nil, net.ErrClosed }})
	f.Fuzz(func(t *testing.T, method, path, kind, body, host, origin string) {
		r, err := http.NewRequest(method, "http://localhost"+Path+path, strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.Host, r.RemoteAddr = host, host
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Origin", origin)
		r.Header.Set("Cookie", kind)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w.Header().Get("Content-Security-Policy") != policy {
			t.Error("an answer without a policy")
		}
	})
}
