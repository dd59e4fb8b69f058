package statements

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/recording"
	"github.com/godwitdb/godwit/sql/session"
)

// Recorder counts the statements of one node's clients.
type Recorder struct {
	Table *digest.Table
	// Kept are the newest statements, to be played again.
	Kept recording.Recorder
	// Log gets slow statements.
	Log *slog.Logger
	// Region names that of a session's client.
	Region func(*session.Session) string
	// Tracer watches statements, also those that other nodes have forwarded; nil: nobody does.
	Tracer *obs.Tracer
	// Here is the node's region. Answers counts statements by the regions that have answered them.
	Here    base.RegionID
	Answers Answers
	// Slow counts statements that were slow, logged or not.
	Slow atomic.Int64

	// Address is where the client of a session is; nil: that is not known.
	Address func(*session.Session) net.Addr

	ledger ledger
}

// New makes a recorder that has counted nothing. region and address say where a session's client
// is; a nil address is one that is not known.
func New(log *slog.Logger, region func(*session.Session) string, address func(*session.Session) net.Addr) *Recorder {
	r := &Recorder{Address: address, Table: digest.New(digest.MaxDigests, func() bool { return on(session.LiteralsVar) }), Log: log, Region: region}
	r.Kept.Keep(true)
	return r
}

// Began is a statement under way.
type Began struct {
	to     *Recorder
	schema string
	start  time.Time
	before session.StatementCost
	span   *obs.Span
	binds  map[string]*querypb.BindVariable
	was    bool // in a transaction
}

// Begin notes that a statement of the session's client begins.
// It has the values of a prepared statement that is executed.
func (r *Recorder) Begin(s *session.Session, query string, binds map[string]*querypb.BindVariable, start time.Time) Began {
	s.BeginCommand()
	s.BeginDiagnostics()
	s.Trace.SetRegions(0)
	b := Began{to: r, schema: s.BaseSession.GetCurrentDatabase(), start: start, before: s.Spent(),
		span: r.Tracer.Statement(query, start), binds: binds, was: inside(s)}
	if b.span != nil {
		s.Trace.SetSpan(b.span)
	}
	return b
}

// watched ends the span of a statement. Its text is that of the digest, without literals.
func (b *Began) watched(s *session.Session, query string, c *session.StatementCost, err error) {
	s.Trace.SetSpan(nil)
	name := c.Kind
	if name == "" {
		name = "statement"
	}
	b.span.Finish(name, err != nil, obs.Attr{Key: "db.system", Value: "godwit"}, obs.Attr{Key: "db.name", Value: b.schema},
		obs.Attr{Key: "db.statement", Value: digest.Text(query, modeOf(s))},
		obs.Attr{Key: "godwit.client_region", Value: b.to.Region(s)}, obs.Attr{Key: "godwit.forwarded", Value: s.Remote},
		obs.Attr{Key: "godwit.wan_hops", Value: int64(c.Hops)}, obs.Attr{Key: "godwit.wan_bytes", Value: c.Bytes},
		obs.Attr{Key: "godwit.retries", Value: int64(c.Retries)}, obs.Attr{Key: "godwit.error", Value: int64(numberOf(err))})
}

// Cost is what the statement has cost so far; kind is its first word, in lower case.
func (b *Began) Cost(s *session.Session, kind string) session.StatementCost {
	c := s.Spent().Since(b.before)
	c.Elapsed, c.Kind, c.Program = time.Since(b.start), kind, s.Program
	return c
}

// Fail counts a statement that was refused before anybody knew what it is. It returns the error.
func (b *Began) Fail(s *session.Session, query string, err error) error {
	c := b.Cost(s, "")
	return b.End(s, query, &c, err)
}

// End counts a statement that has ended, with which the text query begins. err is the error that
// the client gets; End returns it.
func (b *Began) End(s *session.Session, query string, c *session.StatementCost, err error) error {
	if b.span != nil {
		b.watched(s, query, c, err)
	}
	if s.Remote {
		return err
	}
	st := digest.Statement{Schema: b.schema, Text: query, Mode: modeOf(s), End: b.start.Add(c.Elapsed), Elapsed: c.Elapsed,
		Waited: c.Waited, Failed: err != nil, Inside: inside(s), Affected: s.Affected, Sent: s.Sent, Hops: int64(c.Hops), Bytes: c.Bytes,
		Moves: c.Moves, Retries: int64(c.Retries), Work: s.Work, Unindexed: s.Work.Unindexed()}
	if c.Kind == "update" || c.Kind == "delete" {
		st.Work.Changes()
	}
	if c.Kind != "show" && err == nil { // others may have left those of the statement before
		st.Warnings = uint64(s.WarningCount())
	}
	b.to.ledger.note(s, c.Kind, b.to.Table.Record(&st), &st, err)
	b.to.keep(s, b, &st, err)
	b.to.Answers.note(s.Region(), b.to.Here, s.Trace.Regions(), c.Elapsed)
	if c.Elapsed > s.LongQuery {
		b.to.slow(s, &st, err, b.span)
	}
	if err != nil {
		s.NoteError(err)
	}
	return err
}

// inside reports whether the session is in a transaction that goes on.
func inside(s *session.Session) bool {
	t := s.Txn()
	return s.GetIgnoreAutoCommit() || t != nil && !t.Over && !t.Untouched()
}

// modeOf is how texts of the session are to be read.
func modeOf(s *session.Session) (m digest.Mode) {
	ansi, raw := s.TextModes()
	if ansi {
		m |= digest.AnsiQuotes
	}
	if raw {
		m |= digest.NoBackslashEscapes
	}
	return m
}

// on reports whether a global variable is ON.
func on(name string) bool {
	_, v, ok := sql.SystemVariables.GetGlobal(name)
	b, _ := v.(int8)
	return ok && b != 0
}

// slow counts and writes a statement that took longer than its session's long_query_time. Texts of
// errors are left out: literals stand in them.
func (r *Recorder) slow(s *session.Session, st *digest.Statement, err error, span *obs.Span) {
	r.Slow.Add(1)
	if sql.StatusVariables != nil { // there is a server
		sql.StatusVariables.IncrementGlobal("Slow_queries", 1)
		s.IncrementStatusVariable(nil, "Slow_queries", 1)
	}
	if !on(session.SlowLogVar) {
		return
	}
	text := digest.Text(st.Text, st.Mode)
	args := []any{"digest", digest.Hash(text), "text", text, "user", s.Client().User, "host", r.hostOf(s), "connection", s.ID(),
		"region", r.Region(s), "database", st.Schema, "elapsed_ms", float64(st.Elapsed.Microseconds()) / 1000, "rows_sent", st.Sent, "rows_affected", st.Affected,
		"wan_round_trips", float64(st.Hops) / 2, "wan_bytes", st.Bytes, "rows_moved", st.Moves, "retries", st.Retries,
		"warnings", st.Warnings, "error", numberOf(err)}
	if span != nil {
		args = append(args, "trace_id", fmt.Sprintf("%x", span.Trace), "span_id", fmt.Sprintf("%x", span.SpanContext.Span))
	}
	if on(session.LiteralsVar) {
		args = append(args, "statement", digest.Sample(st.Text, st.Mode))
	}
	r.Log.Warn("slow statement", args...)
}

// hostOf is where a session's client is; empty: that is not known.
func (r *Recorder) hostOf(s *session.Session) string {
	addr := r.Address(s)
	if addr == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		return host
	}
	return addr.String()
}

// numberOf is MySQL's number of an error; 0: there is none.
func numberOf(err error) int {
	var e *mysql.SQLError
	if errors.As(err, &e) {
		return e.Num
	}
	return 0
}
