package server

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/sql/aside"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/perfschema"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/statements"
	"github.com/godwitdb/godwit/sql/sysschema"
	"github.com/godwitdb/godwit/sql/tally"
	"github.com/godwitdb/godwit/sql/virtual"
)

// Topic is a state of the cluster, or a list of its events.
type Topic = virtual.Topic

// TopicColumn is a column of a topic.
type TopicColumn = virtual.TopicColumn

// TopicKind is the type of a column.
type TopicKind = virtual.TopicKind

// The kinds of columns.
const (
	TopicText  = virtual.TopicText
	TopicInt   = virtual.TopicInt
	TopicFloat = virtual.TopicFloat
	TopicBool  = virtual.TopicBool
	TopicTime  = virtual.TopicTime
	TopicJSON  = virtual.TopicJSON
)

// topics are those of the cluster, and what this package knows itself.
func (g *gateway) topics() []Topic {
	var out []Topic
	if g.cluster != nil {
		out = g.cluster.Topics()
	}
	if g.settings != nil {
		out = append(out, Topic{Name: "settings", Comment: "cluster settings: SET CLUSTER SETTING changes them",
			Columns: []TopicColumn{{Name: "variable"}, {Name: "value"}, {Name: "default_value"}, {Name: "description"}}})
	}
	if g.cluster != nil {
		out = append(out, Topic{Name: "fallbacks", Comment: "statements that this node has left to go-mysql-server, by reason",
			Columns: []TopicColumn{{Name: "reason"}, {Name: "statements", Kind: TopicInt}}},
			Topic{Name: "programs", Comment: "transactions that clients have sent to this node at once: those that ran as " +
				"programs, and why others did not", Columns: []TopicColumn{{Name: "reason"}, {Name: "transactions", Kind: TopicInt}}},
			Topic{Name: "admission", Comment: "how statements that compute for long take turns on this node", Columns: []TopicColumn{
				{Name: "class"}, {Name: "slots", Kind: TopicInt}, {Name: "running", Kind: TopicInt}, {Name: "waiting", Kind: TopicInt},
				{Name: "granted", Kind: TopicInt}, {Name: "waited_ms", Kind: TopicInt}, {Name: "lost", Kind: TopicInt},
				{Name: "refused", Kind: TopicInt}}})
	}
	return out
}

func (g *gateway) topic(name string) (Topic, bool) {
	all := g.topics()
	if i := slices.IndexFunc(all, func(t Topic) bool { return strings.EqualFold(t.Name, name) }); i >= 0 {
		return all[i], true
	}
	return Topic{}, false
}

// topicRows is what a topic's table holds now.
func (g *gateway) topicRows(ctx *sql.Context, t *Topic) ([]sql.Row, error) {
	if t.Name == "settings" {
		return g.showSettings("")
	}
	var out []sql.Row
	if of := map[string]*tally.Tally{"fallbacks": &g.query.Fallbacks, "programs": &g.whole.Tally}[t.Name]; of != nil {
		for _, e := range of.All() {
			out = append(out, sql.NewRow(e.Reason, e.Count))
		}
		return out, nil
	}
	if t.Name == "admission" {
		for _, s := range g.query.Turns.Stats() {
			out = append(out, sql.NewRow(s.Class.String(), int64(s.Slots), int64(s.Running), int64(s.Waiting), s.Granted,
				s.Waited.Milliseconds(), s.Lost, s.Refused))
		}
		return out, nil
	}
	for _, values := range g.cluster.Status(ctx, t.Name) {
		r, err := t.Row(ctx, values)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// showTopic parses SHOW GODWIT topic.
func (p *parser) showTopic(name string) sqlparser.Statement {
	t, ok := p.g.topic(name)
	n := &ownNode{g: p.g, name: "SHOW GODWIT", sch: t.Schema(ddl.SystemDatabase)}
	n.run = func(ctx *sql.Context) ([]sql.Row, error) {
		if !ok {
			names := []string{"STATEMENT COST"}
			for _, t := range p.g.topics() {
				names = append(names, strings.ToUpper(t.Name))
			}
			return nil, schema.Invalid("SHOW GODWIT knows no topic '" + name + "': it knows " + strings.Join(names, ", "))
		}
		return p.g.topicRows(ctx, &t)
	}
	return inject(processAuth, n)
}

// tables are the topics as tables.
func (g *gateway) tables() (out []virtual.Table) {
	for _, t := range g.topics() {
		out = append(out, virtual.Table{Name: t.Name, Comment: t.Comment, Columns: t.Schema(ddl.SystemDatabase),
			Rows: func(ctx *sql.Context) ([]sql.Row, error) { return g.topicRows(ctx, &t) }})
	}
	return out
}

// systemDatabase is a database of Godwit's own, unless there is a stored one of the name, or
// nothing in it.
func (g *gateway) systemDatabase(name string) sql.Database {
	switch {
	case name == rights.GrantTables:
		return rights.OpenGrantTables(g.engine.Analyzer.Catalog.MySQLDb)
	case strings.EqualFold(name, perfschema.Schema):
		return g.perf.Database()
	case strings.EqualFold(name, sysschema.Schema):
		return g.sys.Database()
	case strings.EqualFold(name, ddl.SystemDatabase) && (g.cluster != nil || g.settings != nil):
		return &virtual.Database{Called: ddl.SystemDatabase, Tables: g.tables,
			ReadOnly: func() error { return ddl.ErrReadOnlySystem(ddl.SystemDatabase) }}
	}
	return nil
}

// Statements counts those of this node's clients.
func (s *Server) Statements() *statements.Recorder { return s.g.statements }

// Memory is what statements keep in memory, and what they may, in bytes.
func (s *Server) Memory() (used, limit int64) {
	return s.g.query.Memory().Used(), s.g.query.Memory().Limit()
}

// Queues are what the server bounds besides sessions and memory.
func (s *Server) Queues() []obs.Queue {
	parsers, mostParsers := aside.Parsers.Taken()
	calls, mostCalls := aside.Calls.Taken()
	logins, mostLogins := s.lobby.logins.Taken()
	files, mostFiles := s.g.query.TemporaryFiles()
	s.lobby.mu.Lock()
	defer s.lobby.mu.Unlock()
	return []obs.Queue{obs.QueueOf("sql_parsers", parsers, mostParsers), obs.QueueOf("sql_calls", calls, mostCalls), obs.QueueOf("sql_lobby", s.lobby.n, s.lobby.total),
		obs.QueueOf("sql_logins", logins, mostLogins), obs.QueueOf("sql_forwarded", len(s.remotes.slots), cap(s.remotes.slots)),
		obs.QueueOf("sql_files", files, mostFiles)}
}
