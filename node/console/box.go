package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
)

// order is a statement of the user.
type order struct {
	Statement string `json:"statement"`
	// Database has the names that name none; empty: such names are refused.
	Database string `json:"database"`
	// Explain asks for the plan instead.
	Explain bool `json:"explain"`
	// Changes allows statements that are not known to only read.
	Changes bool `json:"changes"`
}

const (
	// maxStatement bounds a statement, in bytes.
	maxStatement = 64 << 10
	// maxDatabase bounds the name of a database, in bytes: 64 characters.
	maxDatabase = 256
	// statementTimeout is when a statement is killed, and graceTimeout how long its end is waited
	// for.
	statementTimeout = 30 * time.Second
	graceTimeout     = 10 * time.Second
)

// boxed are the bounds of what a statement of the user returns.
var boxed = bounds{rows: 1000, bytes: 1 << 20, cell: 4 << 10, timeout: statementTimeout + graceTimeout}

// outcome is what became of a statement.
type outcome struct {
	*table
	// Changed are the rows that it changed, as ROW_COUNT() says; null: it returned rows.
	Changed *string `json:"changed,omitempty"`
	// What it cost on the WAN.
	RoundTrips *string `json:"round_trips,omitempty"`
	WANBytes   *string `json:"wan_bytes,omitempty"`
	RowsMoved  *string `json:"rows_moved,omitempty"`
}

// sql runs a statement of the user. Each is a transaction of its own: nobody comes back to end one.
func (c *Console) sql(w http.ResponseWriter, r *http.Request, s *session) {
	var in order
	if !receive(w, r, &in) {
		return
	}
	if why := in.check(); why != "" {
		fail(w, http.StatusBadRequest, why)
		return
	}
	c.sessions.act(s)
	select {
	case s.box.turn <- struct{}{}:
		defer func() { <-s.box.turn }()
	default:
		fail(w, http.StatusConflict, "a statement of this session is running: wait for it, or stop it")
		return
	}
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	default:
		fail(w, http.StatusTooManyRequests, "the statements of others are running in the console of this node: try again")
		return
	}
	out := s.execute(in)
	if s.lost() {
		c.sessions.remove(s)
		fail(w, http.StatusUnauthorized, "the node has ended the connection of this session: log in again")
		return
	}
	answer(w, http.StatusOK, out)
}

// execute runs a statement and then ends what it may have begun. The caller has the turn.
func (s *session) execute(in order) outcome {
	query, access := in.Statement, "READ ONLY"
	if in.Explain && !plan(words(query)) {
		query = "EXPLAIN FORMAT=TREE " + query
	}
	if in.Changes || plan(words(query)) && !changing(words(query)) { // the plan of a change changes nothing
		access = "READ WRITE"
	}
	// What check takes for reading may call a function that changes rows: the server says no.
	if t := s.box.run(watching, nil, "SET SESSION TRANSACTION "+access); t.Error != "" {
		return outcome{table: t}
	}
	// A session cannot go back to having no database: where it has had one, it is in one without
	// tables of users otherwise.
	if in.Database != "" || s.box.used {
		if t := s.box.run(watching, nil, "USE "+quote(cmp.Or(in.Database, "information_schema"))); t.Error != "" {
			return outcome{table: t}
		}
		s.box.used = true
	}
	over, killed := make(chan struct{}), make(chan struct{})
	enough := make(chan struct{})
	go func() {
		defer close(killed)
		limit := time.NewTimer(statementTimeout)
		defer limit.Stop()
		select {
		case <-limit.C:
		case <-enough:
		case <-over:
			return
		}
		s.kill(context.Background())
	}()
	out := outcome{table: s.box.run(boxed, func() { close(enough) }, query)}
	close(over)
	<-killed // a kill that comes later would be for the next statement
	if s.box.lost() {
		return out
	}
	if out.Error == "" {
		out.cost(s.box.run(watching, nil,
			"SELECT ROW_COUNT(), @@last_statement_wan_rtts, @@last_statement_wan_bytes, @@last_statement_rows_moved"))
	}
	for _, q := range []string{"ROLLBACK", "SET SESSION autocommit = 1", "SELECT RELEASE_ALL_LOCKS()"} {
		s.box.run(watching, nil, q)
	}
	return out
}

func (o *outcome) cost(t *table) {
	if len(t.Rows) != 1 || len(t.Rows[0]) != 4 {
		return
	}
	x := t.Rows[0]
	if len(o.Columns) == 0 {
		o.Changed = x[0]
	}
	o.RoundTrips, o.WANBytes, o.RowsMoved = x[1], x[2], x[3]
}

// kill ends the statement of the box, if one is running.
func (s *session) kill(ctx context.Context) *table {
	return s.watch[0].ask(ctx, watching, "KILL QUERY "+s.box.id)
}

// stop ends the user's statement.
func (c *Console) stop(w http.ResponseWriter, r *http.Request, s *session) {
	select {
	case s.box.turn <- struct{}{}:
		<-s.box.turn
		fail(w, http.StatusConflict, "no statement is running")
		return
	default:
	}
	ctx, done := context.WithTimeout(r.Context(), watching.timeout)
	defer done()
	if t := s.kill(ctx); t.Error != "" {
		answer(w, http.StatusConflict, problem{Error: t.Error, Code: t.Code})
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

// readers are the first words of statements that only read; those of branchers do so unless one of
// changers follows.
var (
	readers   = set("select show table values help")
	branchers = set("with explain describe desc")
	changers  = set("insert update delete replace call do load create alter drop truncate grant revoke set " + executed)
	// enders would leave something behind that this session could not end, or wait for.
	enders = set("begin start commit rollback savepoint release lock unlock xa use handler")
)

// executed stands for the beginning of a comment that the server executes.
const executed = "/*!"

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// check is why a statement is not tried; empty: it is.
func (o order) check() string {
	if strings.TrimSpace(o.Statement) == "" {
		return "write a statement"
	}
	if len(o.Database) > maxDatabase {
		return "the name of a database has 64 characters at most"
	}
	if len(o.Statement) > maxStatement {
		return "the statement is longer than 64 KiB"
	}
	w := words(o.Statement)
	if len(w) == 0 {
		return "write a statement that begins with a word, such as SELECT"
	}
	if enders[w[0]] {
		return "statements here are transactions of their own, and keep no current database: leave out " +
			strings.ToUpper(w[0]) + ", and name the database beside the statement, or write DATABASE.TABLE"
	}
	if o.Explain && !plan(w) {
		w = append([]string{"explain"}, w...)
	}
	if o.Changes || readers[w[0]] || branchers[w[0]] && !changing(w) {
		return ""
	}
	return "this statement may change something: tick \"allow changes\" if you want that"
}

// plan reports whether a statement asks for a plan by itself.
func plan(w []string) bool {
	return len(w) > 0 && slices.Contains([]string{"explain", "describe", "desc"}, w[0])
}

// changing reports whether a statement that begins with one of branchers may change something. The
// plan of a change changes nothing, but EXPLAIN ANALYZE executes it.
func changing(w []string) bool {
	if w[0] != "with" && !slices.Contains(w, "analyze") && !slices.Contains(w, executed) {
		return false
	}
	return slices.ContainsFunc(w[1:], func(x string) bool { return changers[x] })
}

// words are the words of a statement outside of strings, quoted names and comments, in lower case.
// A comment that is executed counts as the word executed.
func words(q string) (out []string) {
	for len(q) > 0 {
		r := rune(q[0])
		switch {
		case strings.HasPrefix(q, "/*!") || strings.HasPrefix(q, "/*+"):
			if q[2] == '!' {
				out = append(out, executed)
			}
			q = q[3:]
		case strings.HasPrefix(q, "/*"):
			_, q, _ = strings.Cut(q[2:], "*/")
		case r == '#' || q == "--" || strings.HasPrefix(q, "--") && unicode.IsSpace(rune(q[2])):
			_, q, _ = strings.Cut(q, "\n")
		case r == '\'' || r == '"' || r == '`':
			q = afterQuote(q)
		case letter(r):
			n := 1
			for n < len(q) && letter(rune(q[n])) {
				n++
			}
			out = append(out, strings.ToLower(q[:n]))
			q = q[n:]
		default:
			q = q[1:]
		}
	}
	return out
}

func letter(r rune) bool {
	return r == '_' || r == '$' || r == '@' || r >= 0x80 || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// afterQuote is what follows a quoted text. A doubled quote begins another one.
func afterQuote(q string) string {
	quote := q[0]
	for i := 1; i < len(q); i++ {
		switch {
		case q[i] == '\\' && quote != '`':
			i++
		case q[i] == quote:
			return q[i+1:]
		}
	}
	return ""
}
