package statements

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/session"
)

const (
	// History is how many statements of a client are remembered.
	History = 10
	// mostAccounts bounds the accounts whose clients that have gone are counted apart.
	mostAccounts = 4096
)

// Account is a user and the address of its clients.
type Account struct{ User, Host string }

// Event is a statement of a client that has ended.
type Event struct {
	// ID counts the statements of the client, from 1.
	ID uint64
	// Name is MySQL's name of such an event.
	Name string
	// Digest is the text of its digest, Sample the statement itself if literals are shown.
	Digest, Sample string
	// Errno and State are those of its error; 0 and empty: it had none.
	Errno int
	State string
	digest.Statement
}

// Client counts the statements of one session. Its own goroutine writes, others read.
type Client struct {
	Account
	// Connection is the number that SHOW PROCESSLIST shows.
	Connection uint32

	mu   sync.Mutex
	n    uint64
	last [History]Event
	by   map[string]*digest.Totals
}

// Events are the last statements of the client, the oldest first, and how many there were.
func (c *Client) Events() (last []Event, all uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range uint64(History) {
		if e := c.last[(c.n+i)%History]; e.ID > 0 {
			last = append(last, e)
		}
	}
	return last, c.n
}

// addTo adds what the client's statements have come to.
func (c *Client) addTo(to map[string]*digest.Totals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	plus(to, c.by)
}

func plus(to, all map[string]*digest.Totals) {
	for name, t := range all {
		if to[name] == nil {
			to[name] = new(digest.Totals)
		}
		to[name].Plus(t)
	}
}

// note counts a statement. The caller completes what is remembered of it, and unlocks the client.
func (c *Client) note(name string, st *digest.Statement) *Event {
	c.mu.Lock()
	t := c.by[name]
	if t == nil {
		t = new(digest.Totals)
		c.by[name] = t
	}
	t.Add(st)
	e := &c.last[c.n%History]
	c.n++
	e.ID, e.Name, e.Statement = c.n, name, *st
	e.Text = "" // it may be long, and is not to be kept
	return e
}

// ledger is what a recorder keeps of clients and errors.
type ledger struct {
	clients sync.Map // *session.Session -> *Client
	asked   atomic.Int64
	shows   atomic.Bool

	mu     sync.Mutex
	gone   map[Account]*past
	lost   map[string]*digest.Totals // of accounts for which there was no place
	errors map[int]*ErrorCount
}

// past is what the clients of an account that have gone have done.
type past struct {
	clients uint64
	by      map[string]*digest.Totals
}

// ErrorCount is how often an error was raised.
type ErrorCount struct {
	Number      int
	State       string
	Raised      uint64
	First, Last time.Time
}

// client is that of a session, which is made at its first statement.
func (l *ledger) client(s *session.Session) *Client {
	if c, ok := s.Activity.(*Client); ok {
		return c
	}
	who := s.Client()
	c := &Client{Account: Account{who.User, who.Address}, Connection: s.ID(), by: map[string]*digest.Totals{}}
	s.Activity = c
	l.clients.Store(s, c)
	return c
}

// note counts a statement of a session's client, whose digest has this text.
func (l *ledger) note(s *session.Session, kind, text string, st *digest.Statement, err error) {
	number, state := 0, ""
	if err != nil {
		number, state = l.raised(err, st.End)
	}
	sample := ""
	if l.literals(st.End) {
		sample = digest.Sample(st.Text, st.Mode)
	}
	c := l.client(s)
	e := c.note(nameOf(kind, text, err != nil), st)
	e.Digest, e.Sample, e.Errno, e.State = text, sample, number, state
	c.mu.Unlock()
}

// literals reports whether literals are shown. It may be a second late to notice: to ask costs as
// much as all else that is counted.
func (l *ledger) literals(now time.Time) bool {
	const pause = time.Second
	if was := l.asked.Load(); now.UnixNano()-was >= int64(pause) && l.asked.CompareAndSwap(was, now.UnixNano()) {
		l.shows.Store(on(session.LiteralsVar))
	}
	return l.shows.Load()
}

// raised counts an error, and returns its number and SQLSTATE.
func (l *ledger) raised(err error, at time.Time) (number int, state string) {
	var me *mysql.SQLError
	if !errors.As(err, &me) {
		return 0, ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errors == nil {
		l.errors = map[int]*ErrorCount{}
	}
	c := l.errors[me.Num]
	if c == nil {
		c = &ErrorCount{Number: me.Num, State: me.State, First: at}
		l.errors[me.Num] = c
	}
	c.Raised++
	c.Last = at
	return me.Num, me.State
}

// Ended says that a session is over.
func (r *Recorder) Ended(s *session.Session) {
	v, ok := r.ledger.clients.LoadAndDelete(s)
	if !ok {
		return
	}
	c, l := v.(*Client), &r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone == nil {
		l.gone, l.lost = map[Account]*past{}, map[string]*digest.Totals{}
	}
	p := l.gone[c.Account]
	if p == nil && len(l.gone) >= mostAccounts {
		c.addTo(l.lost)
		return
	}
	if p == nil {
		p = &past{by: map[string]*digest.Totals{}}
		l.gone[c.Account] = p
	}
	p.clients++
	c.addTo(p.by)
}

// Clients are those of this node that have sent a statement, by their connections.
func (r *Recorder) Clients() (out []*Client) {
	r.ledger.clients.Range(func(_, c any) bool {
		out = append(out, c.(*Client))
		return true
	})
	slices.SortFunc(out, func(a, b *Client) int { return cmp.Compare(a.Connection, b.Connection) })
	return out
}

// Totals is what the statements of this client have come to, by the names of their events.
func (c *Client) Totals() map[string]*digest.Totals {
	out := map[string]*digest.Totals{}
	c.addTo(out)
	return out
}

// ByAccount is what the clients of each account have done, those that are gone included, and how
// many clients there were. What had no place is that of no account.
func (r *Recorder) ByAccount() (by map[Account]map[string]*digest.Totals, clients map[Account]uint64) {
	by, clients = map[Account]map[string]*digest.Totals{}, map[Account]uint64{}
	of := func(a Account) map[string]*digest.Totals {
		if by[a] == nil {
			by[a] = map[string]*digest.Totals{}
		}
		return by[a]
	}
	for _, c := range r.Clients() {
		c.addTo(of(c.Account))
		clients[c.Account]++
	}
	l := &r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, p := range l.gone {
		plus(of(a), p.by)
		clients[a] += p.clients
	}
	if len(l.lost) > 0 {
		plus(of(Account{}), l.lost)
	}
	return by, clients
}

// Errors are those that statements have raised, by number.
func (r *Recorder) Errors() (out []ErrorCount) {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	for _, e := range r.ledger.errors {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b ErrorCount) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// ForgetErrors begins to count errors anew.
func (r *Recorder) ForgetErrors() {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.ledger.errors = nil
}
