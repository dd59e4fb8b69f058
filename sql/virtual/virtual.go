// Package virtual makes databases of tables that are not stored: a function says what such a table
// holds when it is read. Nothing of them can be written, changed or dropped.
package virtual

import (
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/session"
)

// Table is one that is read as a whole.
type Table struct {
	Name, Comment string
	// Columns have neither the table's name nor the database's: [Database] adds them.
	Columns sql.Schema
	// Rows is what the table holds when it is read.
	Rows func(*sql.Context) ([]sql.Row, error)
	// Truncate is TRUNCATE TABLE; nil: the table has none.
	Truncate func()
}

// Database is a database of such tables.
type Database struct {
	// Called is its name, in lower case.
	Called string
	// Tables are those that the database has when it is asked.
	Tables func() []Table
	// Names are the names of the tables in order, where that is cheaper; nil: Tables tells.
	Names func() []string
	// ReadOnly is the error of a statement that would write.
	ReadOnly func() error
}

var (
	_ sql.ReadOnlyDatabase = (*Database)(nil)
	// the engine asks every database with privileges
	_ sql.ViewDatabase            = (*Database)(nil)
	_ sql.TriggerDatabase         = (*Database)(nil)
	_ sql.StoredProcedureDatabase = (*Database)(nil)
	_ sql.EventDatabase           = (*Database)(nil)
)

// Name implements sql.Database.
func (d *Database) Name() string { return d.Called }

// IsReadOnly implements sql.ReadOnlyDatabase. The engine truncates no table of such a database:
// where one can be, it is the tables that cannot be written.
func (d *Database) IsReadOnly() bool {
	return !slices.ContainsFunc(d.Tables(), func(t Table) bool { return t.Truncate != nil })
}

// GetTableInsensitive implements sql.Database.
func (d *Database) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	all := d.Tables()
	i := slices.IndexFunc(all, func(t Table) bool { return strings.EqualFold(t.Name, name) })
	if i < 0 {
		return nil, false, nil
	}
	t := &table{t: all[i], db: d.Called}
	t.schema = make(sql.Schema, len(t.t.Columns))
	for i, c := range t.t.Columns {
		own := *c
		own.Source, own.DatabaseSource = t.t.Name, d.Called
		t.schema[i] = &own
	}
	// The engine makes a TRUNCATE of a DELETE where it can, which takes another privilege.
	if s := session.Of(ctx); s != nil && s.Stmt.Truncate && t.t.Truncate != nil {
		return truncatable{t}, true, nil
	}
	return t, true, nil
}

// GetTableNames implements sql.Database.
func (d *Database) GetTableNames(*sql.Context) (names []string, err error) {
	if d.Names != nil {
		return slices.Clone(d.Names()), nil
	}
	for _, t := range d.Tables() {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names, nil
}

// GetViewDefinition implements sql.ViewDatabase.
func (d *Database) GetViewDefinition(*sql.Context, string) (sql.ViewDefinition, bool, error) {
	return sql.ViewDefinition{}, false, nil
}

// AllViews implements sql.ViewDatabase.
func (d *Database) AllViews(*sql.Context) ([]sql.ViewDefinition, error) { return nil, nil }

// CreateView implements sql.ViewDatabase.
func (d *Database) CreateView(*sql.Context, string, string, string) error { return d.ReadOnly() }

// DropView implements sql.ViewDatabase.
func (d *Database) DropView(*sql.Context, string) error { return d.ReadOnly() }

// GetTriggers implements sql.TriggerDatabase: information_schema asks every database.
func (d *Database) GetTriggers(*sql.Context) ([]sql.TriggerDefinition, error) { return nil, nil }

// CreateTrigger implements sql.TriggerDatabase.
func (d *Database) CreateTrigger(*sql.Context, sql.TriggerDefinition) error { return d.ReadOnly() }

// DropTrigger implements sql.TriggerDatabase.
func (d *Database) DropTrigger(*sql.Context, string) error { return d.ReadOnly() }

// GetStoredProcedure implements sql.StoredProcedureDatabase.
func (d *Database) GetStoredProcedure(*sql.Context, string) (sql.StoredProcedureDetails, bool, error) {
	return sql.StoredProcedureDetails{}, false, nil
}

// GetStoredProcedures implements sql.StoredProcedureDatabase.
func (d *Database) GetStoredProcedures(*sql.Context) ([]sql.StoredProcedureDetails, error) {
	return nil, nil
}

// SaveStoredProcedure implements sql.StoredProcedureDatabase.
func (d *Database) SaveStoredProcedure(*sql.Context, sql.StoredProcedureDetails) error {
	return d.ReadOnly()
}

// DropStoredProcedure implements sql.StoredProcedureDatabase.
func (d *Database) DropStoredProcedure(*sql.Context, string) error { return d.ReadOnly() }

// GetEvent implements sql.EventDatabase.
func (d *Database) GetEvent(*sql.Context, string) (sql.EventDefinition, bool, error) {
	return sql.EventDefinition{}, false, nil
}

// GetEvents implements sql.EventDatabase.
func (d *Database) GetEvents(*sql.Context) ([]sql.EventDefinition, any, error) { return nil, nil, nil }

// NeedsToReloadEvents implements sql.EventDatabase.
func (d *Database) NeedsToReloadEvents(*sql.Context, any) (bool, error) { return false, nil }

// SaveEvent implements sql.EventDatabase.
func (d *Database) SaveEvent(*sql.Context, sql.EventDefinition) (bool, error) {
	return false, d.ReadOnly()
}

// DropEvent implements sql.EventDatabase.
func (d *Database) DropEvent(*sql.Context, string) error { return d.ReadOnly() }

// UpdateEvent implements sql.EventDatabase.
func (d *Database) UpdateEvent(*sql.Context, string, sql.EventDefinition) (bool, error) {
	return false, d.ReadOnly()
}

// UpdateLastExecuted implements sql.EventDatabase.
func (d *Database) UpdateLastExecuted(*sql.Context, string, time.Time) error { return d.ReadOnly() }

// table is a [Table] of a database.
type table struct {
	t      Table
	db     string
	schema sql.Schema
}

var (
	_ sql.CommentedTable = (*table)(nil)
	_ sql.Databaseable   = (*table)(nil)
)

func (t *table) Name() string                   { return t.t.Name }
func (t *table) String() string                 { return t.t.Name }
func (t *table) Database() string               { return t.db }
func (t *table) Comment() string                { return t.t.Comment }
func (t *table) Collation() sql.CollationID     { return sql.Collation_Default }
func (t *table) Schema(*sql.Context) sql.Schema { return t.schema }

// Partitions implements sql.Table.
func (t *table) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(partition{}), nil
}

// PartitionRows implements sql.Table.
func (t *table) PartitionRows(ctx *sql.Context, _ sql.Partition) (sql.RowIter, error) {
	rows, err := t.t.Rows(ctx)
	if err != nil {
		return nil, err
	}
	return sql.RowsToRowIter(rows...), nil
}

type partition struct{}

// Key implements sql.Partition.
func (partition) Key() []byte { return nil }

// truncatable is a table in TRUNCATE TABLE.
type truncatable struct{ *table }

var _ sql.TruncateableTable = truncatable{}

// Truncate implements sql.TruncateableTable. As in MySQL it says that it has removed nothing.
func (t truncatable) Truncate(*sql.Context) (int, error) {
	t.t.Truncate()
	return 0, nil
}
