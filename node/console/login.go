package console

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

// credentials are the body of a login.
type credentials struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

const (
	loginTimeout = 15 * time.Second
	// maxName and maxPassword bound what is worth asking the SQL server, in bytes.
	maxName     = 128
	maxPassword = 1024
	// maxWatch are the connections for what the pages show.
	maxWatch = 3
)

// login begins a session, under a name that nobody knew before.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	var in credentials
	if !receive(w, r, &in) {
		return
	}
	if in.User == "" || len(in.User) > maxName || len(in.Password) > maxPassword {
		fail(w, http.StatusBadRequest, "give the name of a database user (128 bytes at most) and its password (1024 at most)")
		return
	}
	select {
	case c.logins <- struct{}{}:
		defer func() { <-c.logins }()
	default:
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, "too many log in at this moment: try again")
		return
	}
	from := origin(r.RemoteAddr)
	if wait := c.strikes.begin(from); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
		fail(w, http.StatusTooManyRequests, "too many logins of your address have failed: wait "+wait.Round(time.Second).String())
		return
	}
	ctx, done := context.WithTimeout(r.Context(), loginTimeout)
	defer done()
	s, err := c.open(ctx, r, in)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	c.strikes.forgive(from)
	if old := c.current(r); old != nil {
		c.sessions.remove(old)
	}
	name := c.sessions.add(s)
	if name == "" {
		s.end()
		fail(w, http.StatusServiceUnavailable, "too many people use the console of this node: try another node, or later")
		return
	}
	c.opt.Logger.Info("console: a user logged in", "user", s.user, "address", hostname(r.RemoteAddr))
	setCookie(w, r, name)
	answer(w, http.StatusOK, s.identity(ctx))
}

// refuse answers a login that failed. One of which SQL did not judge the password is no strike.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		if e.Number != errAccessDenied && e.Number != errBlocked && e.Number != errLocked {
			c.strikes.forgive(origin(r.RemoteAddr))
		}
		answer(w, http.StatusUnauthorized, problem{Error: e.Message, Code: int(e.Number)})
		return
	}
	c.strikes.forgive(origin(r.RemoteAddr))
	c.opt.Logger.Warn("console: a login could not be tried", "err", err)
	fail(w, http.StatusServiceUnavailable, "the node does not serve SQL yet, or did not answer in time: try again; "+
		"`godwit status` says what it waits for")
}

// Errors of SQL about logins.
const (
	errAccessDenied = 1045
	errLocked       = 3118
	errBlocked      = 3955
)

// open makes the connections of a session.
func (c *Console) open(ctx context.Context, r *http.Request, in credentials) (*session, error) {
	s := &session{}
	for range maxWatch {
		l, err := c.connect(ctx, r, in)
		if err != nil && len(s.watch) == 0 {
			return nil, err
		}
		if err != nil {
			break // an account may be bound to few connections
		}
		s.watch = append(s.watch, l)
	}
	var err error
	if s.box, err = c.connect(ctx, r, in); err != nil && len(s.watch) > 1 {
		s.box, s.watch = s.watch[0], s.watch[1:]
	} else if err != nil {
		s.watch[0].close()
		return nil, err
	}
	// A few statements, such as EXPLAIN of a change, want some database to be current although they
	// name another.
	if t := s.box.ask(ctx, watching, "USE information_schema"); t.Error != "" {
		s.end()
		return nil, errors.New(t.Error)
	}
	who := s.watch[0].ask(ctx, watching, "SELECT CURRENT_USER()")
	if s.user = in.User; len(who.Rows) == 1 {
		s.user = text(who.Rows[0][0])
	}
	return s, nil
}
