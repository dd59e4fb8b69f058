package server

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/schema"
)

// Topic is a state of the cluster, or a list of its events.
type Topic struct {
	Name    string // one lower-case word
	Comment string
	Columns []TopicColumn
}

// TopicColumn is a column of a topic.
type TopicColumn struct {
	Name string
	Kind TopicKind
}

// TopicKind is the type of a column.
type TopicKind uint8

// Columns of a topic may be NULL, whatever they are.
const (
	TopicText  TopicKind = iota // string
	TopicInt                    // any integer of Go
	TopicFloat                  // float64
	TopicBool                   // bool
	TopicTime                   // time.Time
	TopicJSON                   // string of a JSON document
)

func (k TopicKind) typ() sql.Type {
	switch k {
	case TopicInt:
		return types.Int64
	case TopicFloat:
		return types.Float64
	case TopicBool:
		return types.Boolean
	case TopicTime:
		return topicTime
	case TopicJSON:
		return types.JSON
	}
	return types.LongText
}

var topicTime = types.MustCreateDatetimeType(sqltypes.Datetime, 6)

// schema is that of a topic's table.
func (t *Topic) schema() sql.Schema {
	s := make(sql.Schema, len(t.Columns))
	for i, c := range t.Columns {
		s[i] = &sql.Column{Name: c.Name, Type: c.Kind.typ(), Nullable: true, Source: t.Name, DatabaseSource: ddl.SystemDatabase}
	}
	return s
}

// row is a row of values as the engine wants it.
func (t *Topic) row(ctx *sql.Context, values []any) (sql.Row, error) {
	out := make(sql.Row, len(values))
	for i, v := range values {
		switch x := v.(type) {
		case nil:
			continue
		case bool:
			v = int8(0)
			if x {
				v = int8(1)
			}
		case time.Time:
			if x.IsZero() {
				continue
			}
			v = x.UTC()
		default: // integers of named types
			if r := reflect.ValueOf(v); r.CanInt() {
				v = r.Int()
			} else if r.CanUint() {
				v = r.Uint()
			}
		}
		var err error
		if out[i], _, err = t.Columns[i].Kind.typ().Convert(ctx, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

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
	if t.Name == "fallbacks" {
		for _, f := range g.query.Fallbacks.All() {
			out = append(out, sql.NewRow(f.Reason, f.Count))
		}
		return out, nil
	}
	if t.Name == "admission" {
		for _, s := range g.query.Turns.Stats() {
			out = append(out, sql.NewRow(s.Class.String(), int64(g.query.Turns.Slots()), int64(s.Running), int64(s.Waiting), s.Granted,
				s.Waited.Milliseconds(), s.Lost, s.Refused))
		}
		return out, nil
	}
	for _, values := range g.cluster.Status(ctx, t.Name) {
		r, err := t.row(ctx, values)
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
	n := &ownNode{g: p.g, name: "SHOW GODWIT", sch: t.schema()}
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

// systemDatabase is the database godwit.
type systemDatabase struct{ g *gateway }

var (
	_ sql.ReadOnlyDatabase = systemDatabase{}
	// the engine asks every database with privileges
	_ sql.ViewDatabase            = systemDatabase{}
	_ sql.TriggerDatabase         = systemDatabase{}
	_ sql.StoredProcedureDatabase = systemDatabase{}
	_ sql.EventDatabase           = systemDatabase{}
)

// GetViewDefinition implements sql.ViewDatabase.
func (systemDatabase) GetViewDefinition(*sql.Context, string) (sql.ViewDefinition, bool, error) {
	return sql.ViewDefinition{}, false, nil
}

// AllViews implements sql.ViewDatabase.
func (systemDatabase) AllViews(*sql.Context) ([]sql.ViewDefinition, error) { return nil, nil }

// CreateView implements sql.ViewDatabase.
func (systemDatabase) CreateView(*sql.Context, string, string, string) error {
	return ddl.ErrReadOnlySystem()
}

// DropView implements sql.ViewDatabase.
func (systemDatabase) DropView(*sql.Context, string) error { return ddl.ErrReadOnlySystem() }

// GetTriggers implements sql.TriggerDatabase: information_schema asks every database.
func (systemDatabase) GetTriggers(*sql.Context) ([]sql.TriggerDefinition, error) { return nil, nil }

// CreateTrigger implements sql.TriggerDatabase.
func (systemDatabase) CreateTrigger(*sql.Context, sql.TriggerDefinition) error {
	return ddl.ErrReadOnlySystem()
}

// DropTrigger implements sql.TriggerDatabase.
func (systemDatabase) DropTrigger(*sql.Context, string) error { return ddl.ErrReadOnlySystem() }

// GetStoredProcedure implements sql.StoredProcedureDatabase.
func (systemDatabase) GetStoredProcedure(*sql.Context, string) (sql.StoredProcedureDetails, bool, error) {
	return sql.StoredProcedureDetails{}, false, nil
}

// GetStoredProcedures implements sql.StoredProcedureDatabase.
func (systemDatabase) GetStoredProcedures(*sql.Context) ([]sql.StoredProcedureDetails, error) {
	return nil, nil
}

// SaveStoredProcedure implements sql.StoredProcedureDatabase.
func (systemDatabase) SaveStoredProcedure(*sql.Context, sql.StoredProcedureDetails) error {
	return ddl.ErrReadOnlySystem()
}

// DropStoredProcedure implements sql.StoredProcedureDatabase.
func (systemDatabase) DropStoredProcedure(*sql.Context, string) error { return ddl.ErrReadOnlySystem() }

// GetEvent implements sql.EventDatabase.
func (systemDatabase) GetEvent(*sql.Context, string) (sql.EventDefinition, bool, error) {
	return sql.EventDefinition{}, false, nil
}

// GetEvents implements sql.EventDatabase.
func (systemDatabase) GetEvents(*sql.Context) ([]sql.EventDefinition, any, error) {
	return nil, nil, nil
}

// NeedsToReloadEvents implements sql.EventDatabase.
func (systemDatabase) NeedsToReloadEvents(*sql.Context, any) (bool, error) { return false, nil }

// SaveEvent implements sql.EventDatabase.
func (systemDatabase) SaveEvent(*sql.Context, sql.EventDefinition) (bool, error) {
	return false, ddl.ErrReadOnlySystem()
}

// DropEvent implements sql.EventDatabase.
func (systemDatabase) DropEvent(*sql.Context, string) error { return ddl.ErrReadOnlySystem() }

// UpdateEvent implements sql.EventDatabase.
func (systemDatabase) UpdateEvent(*sql.Context, string, sql.EventDefinition) (bool, error) {
	return false, ddl.ErrReadOnlySystem()
}

// UpdateLastExecuted implements sql.EventDatabase.
func (systemDatabase) UpdateLastExecuted(*sql.Context, string, time.Time) error {
	return ddl.ErrReadOnlySystem()
}

// Name implements sql.Database.
func (systemDatabase) Name() string { return ddl.SystemDatabase }

// IsReadOnly implements sql.ReadOnlyDatabase.
func (systemDatabase) IsReadOnly() bool { return true }

// GetTableInsensitive implements sql.Database.
func (d systemDatabase) GetTableInsensitive(_ *sql.Context, name string) (sql.Table, bool, error) {
	t, ok := d.g.topic(name)
	if !ok {
		return nil, false, nil
	}
	return &systemTable{d.g, t}, true, nil
}

// GetTableNames implements sql.Database.
func (d systemDatabase) GetTableNames(*sql.Context) (names []string, err error) {
	for _, t := range d.g.topics() {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names, nil
}

// systemTable is a topic as a table. It is read as a whole.
type systemTable struct {
	g *gateway
	t Topic
}

var (
	_ sql.CommentedTable = (*systemTable)(nil)
	_ sql.Databaseable   = (*systemTable)(nil)
)

func (t *systemTable) Name() string                   { return t.t.Name }
func (t *systemTable) String() string                 { return t.t.Name }
func (t *systemTable) Database() string               { return ddl.SystemDatabase }
func (t *systemTable) Comment() string                { return t.t.Comment }
func (t *systemTable) Collation() sql.CollationID     { return sql.Collation_Default }
func (t *systemTable) Schema(*sql.Context) sql.Schema { return t.t.schema() }

// Partitions implements sql.Table.
func (t *systemTable) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(systemPartition{}), nil
}

// PartitionRows implements sql.Table.
func (t *systemTable) PartitionRows(ctx *sql.Context, _ sql.Partition) (sql.RowIter, error) {
	rows, err := t.g.topicRows(ctx, &t.t)
	if err != nil {
		return nil, err
	}
	return sql.RowsToRowIter(rows...), nil
}

type systemPartition struct{}

// Key implements sql.Partition.
func (systemPartition) Key() []byte { return nil }

// systemDatabase is the database godwit if there is anything in it and there is no stored one
// of the name.
func (g *gateway) systemDatabase(name string) sql.Database {
	if !strings.EqualFold(name, ddl.SystemDatabase) || g.cluster == nil && g.settings == nil {
		return nil
	}
	return systemDatabase{g}
}
