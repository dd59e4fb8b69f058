package session

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Trigger is a trigger that a statement fires, or may: the engine binds those of the whole
// database.
type Trigger struct {
	DB, Name, Table string
	// Definer is the account in whose name the body is executed; nil: in that of the user, as was
	// done before definers were kept.
	Definer *schema.Account
	// Text and Tree are the definition.
	Text string
	Tree *sqlparser.DDL
	// Scope is what package rights keeps of the text.
	Scope any
	// Rights are those of the definer. Refusal is what they do not allow; nil: they allow
	// everything. Judged: that is known, nobody needs to ask again.
	Rights  sql.PrivilegeSet
	Refusal error
	Judged  bool
}

// Key is the name of a trigger among those of all databases.
func (t *Trigger) Key() string { return strings.ToLower(t.DB) + "\x00" + strings.ToLower(t.Name) }

// Firing are the triggers that the engine binds for one change: it binds those that do not matter,
// too. New is asked when it begins to bind one.
type Firing struct {
	Bound map[string]*Trigger // by key
	New   func(*Trigger)
}

// BindTrigger notes that the engine is about to bind the text of a trigger.
func (s *Session) BindTrigger(d *sqlparser.DDL, text string) {
	s.Stmt.Trigger, s.Stmt.Body = true, nil
	if s.Stmt.Triggers == nil {
		return
	}
	o := s.Stmt.Triggers.Objects[schema.IxTrigger][strings.ToLower(d.TriggerSpec.TrigName.Name.String())]
	if o == nil {
		return
	}
	if o.Definer != nil { // what information_schema shows
		d.TriggerSpec.Definer = quoted(o.Definer.Name) + "@" + quoted(o.Definer.Host)
	}
	f := s.Stmt.Firing
	if f == nil {
		return
	}
	if _, block := d.TriggerSpec.Body.(*sqlparser.BeginEndBlock); !block && asks(d.TriggerSpec.Body, text) {
		// The rights of the definer are given to blocks.
		d.TriggerSpec.Body = &sqlparser.BeginEndBlock{Statements: sqlparser.Statements{d.TriggerSpec.Body}}
	}
	t := &Trigger{DB: o.DB, Name: o.Name, Table: d.Table.Name.String(), Definer: o.Definer, Text: text, Tree: d}
	if before := f.Bound[t.Key()]; before != nil {
		// The engine binds a trigger several times, not always its body: what was found stays.
		s.Stmt.Body = before
		return
	}
	f.Bound[t.Key()], s.Stmt.Body = t, t
	f.New(t)
}

// asks reports whether a statement may ask for rights while it is executed: procedures do, and the
// tables of information_schema.
func asks(stmt sqlparser.Statement, text string) bool {
	_, call := stmt.(*sqlparser.Call)
	return call || base.ContainsFold(text, "SELECT") || base.ContainsFold(text, "_SCHEMA")
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// GetCachedQuery implements sql.Session. The engine keeps the syntax trees of triggers, which are
// not parsed again then.
func (s *Session) GetCachedQuery(text string) (sqlparser.Statement, bool) {
	stmt, ok := s.BaseSession.GetCachedQuery(text)
	if d, is := stmt.(*sqlparser.DDL); ok && is && d.TriggerSpec != nil {
		s.BindTrigger(d, text)
	}
	return stmt, ok
}

// NoteReached begins to note which tables are read and changed, or ends it.
func (s *Session) NoteReached(on bool) {
	if s.reached = nil; on {
		s.reached = map[[2]string]bool{}
	}
}

// Reach notes that a table is read or changed.
func (s *Session) Reach(db, table string) {
	if s != nil && s.reached != nil {
		s.reached[[2]string{db, table}] = true
	}
}

// Reached are the tables that were read or changed, as database.table, since NoteReached.
func (s *Session) Reached() (out []string) {
	for t := range s.reached {
		out = append(out, t[0]+"."+t[1])
	}
	return out
}
