// Package audited writes what SQL statements do to the audit log ([audit.Log]).
//
// A statement of a client is one line at most: if it is an event whatever tables it names, or if it
// names an audited table or reaches one, through a view, a trigger, a procedure or a foreign key.
// Statements of procedures that are events whatever they name have lines of their own. What was
// forwarded is written where the client is.
package audited

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/session"
)

// Recorder writes what the statements of one node do.
type Recorder struct {
	// Log is where to; nil: nowhere.
	Log *audit.Log
	// Wording is an error as the client is told it.
	Wording func(s *session.Session, err error) error
	// Address is that of the client of a session.
	Address func(s *session.Session) net.Addr
}

// words are the first words of statements that package audit may take for an event whatever tables
// they name. A text that begins with a comment may be any.
var words = map[string]bool{"grant": true, "revoke": true, "create": true, "drop": true, "alter": true, "rename": true,
	"truncate": true, "set": true, "kill": true, "shutdown": true, "promote": true, "flush": true, "reset": true,
	"backup": true, "restore": true, "verify": true, "pause": true, "resume": true,
	"purge": true, "install": true, "uninstall": true, "clone": true, "restart": true, "prepare": true, "execute": true,
	"": true}

// inProcedure is the detail of the statements of procedures.
const inProcedure = "in a procedure"

// Begin has the session note the tables that its next statement reaches, if some are audited.
func (r *Recorder) Begin(s *session.Session) {
	p := r.Log.Params()
	s.NoteReached(!p.Off && len(p.Tables) > 0)
}

// Statement writes a statement of a client that has ended, if it is an event. kind is its first
// word.
func (r *Recorder) Statement(s *session.Session, kind, query string, err error) {
	if r.Log == nil || s.Remote {
		return
	}
	p := r.Log.Params()
	if p.Off || !words[kind] && len(p.Tables) == 0 {
		return
	}
	e := r.event(s)
	does := query
	if kind == "execute" {
		if does = prepared(s, query); does != "" {
			e.Detail = audit.Mask(does)
		}
	}
	if words[kind] {
		e.Kind = audit.Classify(does)
	}
	if len(p.Tables) > 0 {
		e.Tables = p.Audited(union(named(does, e.Database, &p), s.Reached()))
	}
	switch {
	case e.Kind != "":
		e.Statement = audit.Mask(query)
	case len(e.Tables) > 0:
		e.Kind, e.Statement, e.Detail = audit.Table, audit.Digest(query), audit.Digest(e.Detail)
	default:
		return
	}
	r.write(s, e, err, query)
}

// Inner is the rows of a statement of a procedure, which is written when it ends if it is an event
// whatever tables it names. err is why it has no rows.
func (r *Recorder) Inner(s *session.Session, tree sqlparser.Statement, it sql.RowIter, err error) (sql.RowIter, error) {
	if r.Log == nil || s == nil || s.Remote || s.Speculation != nil || r.Log.Params().Off {
		return it, err
	}
	switch tree.(type) {
	case *sqlparser.Select, *sqlparser.SetOp, *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete, nil:
		return it, err
	}
	text := sqlparser.String(tree)
	does := text
	if x, ok := tree.(*sqlparser.Execute); ok {
		does = textOf(s, x)
	}
	e := r.event(s)
	if e.Kind = audit.Classify(does); e.Kind == "" {
		return it, err
	}
	e.Statement, e.Detail = audit.Mask(does), inProcedure
	if p := r.Log.Params(); len(p.Tables) > 0 {
		e.Tables = p.Audited(named(does, e.Database, &p))
	}
	end := func(err error) { r.write(s, e, err, does) }
	if err != nil {
		end(err)
		return it, err
	}
	return &innerIter{RowIter: it, end: end}, nil
}

// innerIter tells how a statement has ended.
type innerIter struct {
	sql.RowIter
	end func(error) // nil: it has told
}

// Next implements sql.RowIter.
func (i *innerIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := i.RowIter.Next(ctx)
	if err == io.EOF {
		i.tell(nil)
	} else if err != nil {
		i.tell(err)
	}
	return row, err
}

// Close implements sql.RowIter.
func (i *innerIter) Close(ctx *sql.Context) error {
	err := i.RowIter.Close(ctx)
	i.tell(err)
	return err
}

func (i *innerIter) tell(err error) {
	if i.end != nil {
		i.end(err)
		i.end = nil
	}
}

func (r *Recorder) event(s *session.Session) audit.Event {
	e := audit.Event{User: s.Client().User, Connection: s.ID(), Database: s.GetCurrentDatabase()}
	if a := r.Address(s); a != nil {
		e.Address = host(a)
	}
	return e
}

// write writes an event with the error that the statement has ended with. text is what was
// executed.
func (r *Recorder) write(s *session.Session, e audit.Event, err error, text string) {
	if err = r.Wording(s, err); err != nil {
		// What a client is told may quote what is hidden.
		if e.Error = err.Error(); e.Kind == audit.Account || e.Statement != audit.First(text) {
			e.Error = numberOf(err)
		}
	}
	r.Log.Write(e)
}

// host is an address without its port.
func host(a net.Addr) string {
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return h
}

// numberOf names an error without its text.
func numberOf(err error) string {
	var me *mysql.SQLError
	if !errors.As(err, &me) {
		return "failed"
	}
	return fmt.Sprintf("error %d (%s)", me.Num, me.State)
}

// prepared is what an EXECUTE executes; empty if it is not known.
func prepared(s *session.Session, query string) string {
	stmt, err := sqlparser.Parse(audit.First(query))
	x, ok := stmt.(*sqlparser.Execute)
	if err != nil || !ok {
		return ""
	}
	return textOf(s, x)
}

func textOf(s *session.Session, x *sqlparser.Execute) string {
	if tree := s.Prepared(x.Name); tree != nil {
		return sqlparser.String(tree)
	}
	return ""
}

// named are the tables that the first statement of a text names, as database.table.
func named(query, db string, p *audit.Params) (out []string) {
	if !mayName(query, p) {
		return nil
	}
	stmt, err := sqlparser.Parse(audit.First(query))
	if err != nil {
		return nil
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if t, ok := n.(sqlparser.TableName); ok && !t.IsEmpty() {
			in := t.DbQualifier.String()
			if in == "" {
				in = db
			}
			out = append(out, in+"."+t.Name.String())
		}
		return true, nil
	}, stmt) // it never fails
	return out
}

// union are the tables of two lists, each once, in order.
func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.SortFunc(out, func(x, y string) int { return strings.Compare(strings.ToLower(x), strings.ToLower(y)) })
	return slices.CompactFunc(out, strings.EqualFold)
}

// mayName reports whether the name of an audited table is in a text at all.
func mayName(query string, p *audit.Params) bool {
	for _, t := range p.Tables {
		if _, name, _ := strings.Cut(t, "."); name == "*" || base.ContainsFold(query, name) {
			return true
		}
	}
	return false
}
