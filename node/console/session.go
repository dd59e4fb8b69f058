package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// idleTimeout ends the session of a user who has done nothing; what the page asks for by itself
	// does not count.
	idleTimeout = 30 * time.Minute
	// lifeTimeout ends every session.
	lifeTimeout = 12 * time.Hour
	// maxSessions bounds the sessions of a node, maxOfUser those of a database user.
	maxSessions = 64
	maxOfUser   = 8
	// maxAsked bounds what the pages of one session ask for at once.
	maxAsked = 4
	// tokenHeader has the token of the session, which pages of others do not know.
	tokenHeader = "X-Godwit-Token"
	// actHeader says that the user has done something since the last request.
	actHeader = "X-Godwit-Act"
)

// sessionName finds a session: a hash, so that a look-up tells nothing of the name in the cookie.
type sessionName [sha256.Size]byte

// session is a user who has logged in.
type session struct {
	name  sessionName
	token string
	user  string // as the SQL server names it
	begun time.Time
	acted time.Time // guarded by sessions.mu

	// watch are for what the pages show: some of it is asked of other nodes, so each answer waits
	// for an ocean.
	watch []*link
	box   *link         // what the user writes
	asked chan struct{} // what pages ask for and wait for
	once  sync.Once
}

func (s *session) end() {
	s.once.Do(func() {
		if len(s.box.turn) > 0 {
			ctx, done := context.WithTimeout(context.Background(), watching.timeout)
			defer done()
			s.kill(ctx)
		}
		for _, l := range s.watch {
			l.close()
		}
		s.box.close()
	})
}

// sessions are those of a node.
type sessions struct {
	mu     sync.Mutex
	by     map[sessionName]*session
	timer  *time.Timer // runs while there are sessions
	closed bool
}

func newSessions() *sessions { return &sessions{by: map[sessionName]*session{}} }

// secret is a random text of 256 bits.
func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// add takes a session in under a new name, which it returns; empty: there are too many. If one user
// has too many, the one that has been idle for the longest time ends.
func (t *sessions) add(s *session) string {
	name := secret()
	s.name, s.token = sha256.Sum256([]byte(name)), secret()
	s.asked = make(chan struct{}, maxAsked)
	s.begun = time.Now()
	s.acted = s.begun
	t.mu.Lock()
	defer t.mu.Unlock()
	var oldest *session
	n := 0
	for _, x := range t.by {
		if x.user != s.user {
			continue
		}
		if n++; oldest == nil || x.acted.Before(oldest.acted) {
			oldest = x
		}
	}
	if n >= maxOfUser {
		t.removeLocked(oldest)
	}
	if t.closed || len(t.by) >= maxSessions {
		return ""
	}
	t.by[s.name] = s
	if t.timer == nil {
		t.timer = time.AfterFunc(idleTimeout, t.sweep)
	}
	return name
}

// find is the session of a name; nil if there is none, or it is over.
func (t *sessions) find(name string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.by[sha256.Sum256([]byte(name))]
	if s == nil {
		return nil
	}
	if s.over(time.Now()) || s.lost() {
		t.removeLocked(s)
		return nil
	}
	return s
}

// lost reports whether the node has ended a connection of the session.
func (s *session) lost() bool {
	return s.box.lost() || slices.ContainsFunc(s.watch, (*link).lost)
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.acted) >= idleTimeout || now.Sub(s.begun) >= lifeTimeout
}

// act notes that the user has done something.
func (t *sessions) act(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.acted = time.Now()
}

func (t *sessions) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(s)
}

func (t *sessions) removeLocked(s *session) {
	delete(t.by, s.name)
	go s.end() // closing a connection may wait for what it does
}

// sweep ends the sessions whose time is over.
func (t *sessions) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, s := range t.by {
		if s.over(now) {
			t.removeLocked(s)
		}
	}
	if t.timer = nil; len(t.by) > 0 && !t.closed {
		t.timer = time.AfterFunc(time.Minute, t.sweep)
	}
}

func (t *sessions) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	for _, s := range t.by {
		t.removeLocked(s)
	}
}

// cookieName is the cookie of this node: browsers give the cookies of a host to all of its ports.
// The prefix has the browser take it only from this very host, over TLS.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		port = "0"
	}
	if r.TLS != nil {
		return "__Host-godwit-" + port
	}
	return "godwit-" + port
}

func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{Name: cookieName(r), Value: value, Path: "/", HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// current is the session of a request; nil if it has none.
func (c *Console) current(r *http.Request) *session {
	k, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	return c.sessions.find(k.Value)
}

// within runs next for a user who has logged in. A request that may change something needs the
// session's token.
func (c *Console) within(next func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := c.current(r)
		if s == nil {
			fail(w, http.StatusUnauthorized, "log in: there is no session, or it has ended")
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead &&
			subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(s.token)) != 1 {
			fail(w, http.StatusForbidden, "the request does not have the token of the session: load the page again")
			return
		}
		w.Header().Del("Connection") // that of a user is kept
		if r.Header.Get(actHeader) != "" {
			c.sessions.act(s)
		}
		next(w, r, s)
	}
}

// identity is what the page knows of its session.
type identity struct {
	User  string `json:"user"`
	Token string `json:"token"`
	// Region and Node are where the console is.
	Region string `json:"region"`
	Node   string `json:"node"`
}

// session tells a page that was loaded again what it forgot.
func (c *Console) session(w http.ResponseWriter, r *http.Request, s *session) {
	answer(w, http.StatusOK, s.identity(r.Context()))
}

func (s *session) identity(ctx context.Context) identity {
	id := identity{User: s.user, Token: s.token}
	t := s.watch[0].ask(ctx, watching, "SELECT @@godwit_region, @@godwit_node")
	if len(t.Rows) == 1 {
		id.Region, id.Node = text(t.Rows[0][0]), text(t.Rows[0][1])
	}
	return id
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request, s *session) {
	c.sessions.remove(s)
	setCookie(w, r, "")
	answer(w, http.StatusOK, struct{}{})
}
