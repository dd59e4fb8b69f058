package table

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer/analyzererrors"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Table is a table as one statement sees it.
type Table struct {
	Env    *Env
	Def    *schema.Table
	Access *Access
	Full   sql.Schema
	// projection: positions in the full schema, nil for all.
	Columns []int
	names   []string
	sch     sql.Schema
	exact   sql.Schema // see CompareBytes
}

// Access is how a statement uses a table; the copies the planner makes share it.
type Access struct {
	Lock kv.LockMode
	AsOf base.Timestamp
	// Target tables are changed by the statement, which must not meet its own
	// changes: reads do not send pending ones to kv first.
	Target bool
	// Fetched are the rows of lookups that a join has asked for ahead of time.
	Fetched map[string][]sql.Row
	// KeepHomes tells the transaction the home of each row read.
	KeepHomes bool
	// Whole reads go to the end at once, before the first change.
	Whole bool
}

var (
	_ sql.ProjectedTable     = (*Table)(nil)
	_ sql.CommentedTable     = (*Table)(nil)
	_ sql.InsertableTable    = (*Table)(nil)
	_ sql.UpdatableTable     = (*Table)(nil)
	_ sql.DeletableTable     = (*Table)(nil)
	_ sql.ReplaceableTable   = (*Table)(nil)
	_ sql.CheckTable         = (*Table)(nil)
	_ sql.AutoIncrementTable = (*Table)(nil)
	_ sql.PrimaryKeyTable    = (*Table)(nil)
	_ sql.StatisticsTable    = (*Table)(nil)
	_ sql.Databaseable       = (*Table)(nil)
)

// Env is what all tables of one gateway share.
type Env struct {
	*session.Env
	Counters *Counters
	rowIDs   *RowIDs
	Stats    *Stats
	// WrapFulltext makes the editor of a table that has full-text indexes; nil: m serves.
	WrapFulltext func(e *Editor, m fulltext.MultiTableEditor) sql.TableEditor
}

// NewEnv is the environment of the tables of a gateway.
func NewEnv(env *session.Env) *Env {
	return &Env{Env: env, Counters: newCounters(env), rowIDs: &RowIDs{node: env.DB.Node()}, Stats: newTableStats(env)}
}

// Stored is our table below what wraps it.
func (t *Table) Stored() *Table { return t }

// New is a table as a statement begins to see it.
func New(env *Env, t *schema.Table) *Table {
	return &Table{Env: env, Def: t, Access: &Access{}, Full: t.Schema()}
}

// Name implements sql.Table.
func (t *Table) Name() string { return t.Def.Desc.Name }

// String implements sql.Table: the name.
func (t *Table) String() string { return t.Def.Desc.Name }

// Database implements sql.Databaseable.
func (t *Table) Database() string { return t.Def.Desc.DB }

// Collation implements sql.Table: the table's default, which a column may override.
func (t *Table) Collation() sql.CollationID { return t.Def.Desc.Collation }

// Projections implements sql.ProjectedTable: the columns that the statement reads, nil for all.
func (t *Table) Projections() []string { return t.names }

// PreciseMatch implements sql.IndexAddressable: a read by index gives no row outside of the ranges
// asked for.
func (t *Table) PreciseMatch() bool { return true }

// IsTemporary implements sql.TemporaryTable. READ ONLY transactions write no others.
func (t *Table) IsTemporary() bool { return t.Def.Desc.Temporary() }

// Comment implements sql.CommentedTable.
func (t *Table) Comment() string { return t.Def.Desc.Comment }

// Schema implements sql.Table.
func (t *Table) Schema(*sql.Context) sql.Schema {
	if t.exact != nil {
		return t.exact
	}
	if t.sch != nil {
		return t.sch
	}
	return t.Full
}

// PrimaryKeySchema implements sql.PrimaryKeyTable.
func (t *Table) PrimaryKeySchema(*sql.Context) sql.PrimaryKeySchema {
	return sql.NewPrimaryKeySchema(t.Full, t.Def.PK...)
}

// WithProjections implements sql.ProjectedTable.
func (t *Table) WithProjections(_ *sql.Context, names []string) (sql.Table, error) {
	c := *t
	if names == nil {
		c.Columns, c.names, c.sch, c.exact = nil, nil, nil, nil
		return &c, nil
	}
	c.names = names
	c.Columns = make([]int, len(names))
	c.sch, c.exact = make(sql.Schema, len(names)), nil
	for i, n := range names {
		p := t.Def.Desc.ColByName(n)
		if p < 0 {
			return nil, sql.ErrColumnNotFound.New(n)
		}
		c.Columns[i], c.sch[i] = p, t.Full[p]
	}
	return &c, nil
}

// partition is the only one: what spreads over shards and regions does so below.
type partition struct{ lookup *sql.IndexLookup }

func (partition) Key() []byte { return []byte("all") }

// Partitions implements sql.Table.
func (t *Table) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(partition{}), nil
}

// PartitionRows implements sql.Table.
func (t *Table) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	part, ok := p.(partition)
	if !ok || part.lookup == nil {
		it, err := t.ScanAll(ctx)
		if s := session.Of(ctx); err == nil && s != nil && s.Stmt.CheckKey != nil && t.Columns == nil {
			it = s.Stmt.CheckKey(t.Def.Desc.ID, it)
		}
		return it, err
	}
	return t.scanLookup(ctx, *part.lookup)
}

// Indexed is a table read through an index.
type Indexed struct {
	*Table
	lookup sql.IndexLookup
}

// IndexedAccess implements sql.IndexAddressable.
func (t *Table) IndexedAccess(_ *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	return &Indexed{t, l}
}

// LookupPartitions implements sql.IndexedTable.
func (t *Indexed) LookupPartitions(_ *sql.Context, l sql.IndexLookup) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(partition{&l}), nil
}

// WithProjections keeps the lookup.
func (t *Indexed) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	c, err := t.Table.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	return &Indexed{c.(*Table), t.lookup}, nil
}

// RowCount implements sql.StatisticsTable with an estimate.
func (t *Table) RowCount(ctx *sql.Context) (uint64, bool, error) {
	if s := session.Of(ctx); s != nil && t.IsTemporary() {
		return s.TemporaryRows(t.Def), true, nil
	}
	return t.Env.Stats.Rows(t.Def), false, nil
}

// DataLength implements sql.StatisticsTable with an estimate.
func (t *Table) DataLength(ctx *sql.Context) (uint64, error) {
	var n uint64
	for _, c := range t.Full {
		switch ty := c.Type.(type) {
		case sql.StringType:
			n += uint64(min(ty.MaxByteLength(), 256))
		default:
			n += 8
		}
	}
	rows, _, err := t.RowCount(ctx)
	return n * rows, err
}

// ValidateRowLength applies InnoDB's bound of the bytes of a row.
func ValidateRowLength(sch sql.Schema) error {
	var n int64
	for _, c := range sch {
		switch t := c.Type.(type) {
		case sql.StringType:
			if types.IsTextBlob(t) {
				n += 16
			} else {
				n += t.MaxByteLength()
			}
		case types.JsonType:
			n += 20
		case types.TimeType:
			n += 16
		case sql.EnumType:
			n += 2
		case sql.DecimalType:
			n += int64(t.MaximumScale())
		default:
			n += 8
		}
	}
	if n > types.MaxRowLength {
		return analyzererrors.ErrInvalidRowLength.New(types.MaxRowLength, n)
	}
	return nil
}

// GetIndexes implements sql.IndexAddressable.
func (t *Table) GetIndexes(*sql.Context) ([]sql.Index, error) {
	return t.Def.EngineIndexes(), nil
}

// GetChecks implements sql.CheckTable.
func (t *Table) GetChecks(*sql.Context) ([]sql.CheckDefinition, error) {
	return slices.Clone(t.Def.Desc.Checks), nil
}

// Newest is the table as the statement sees it now, also after its own changes.
func (t *Table) Newest(ctx *sql.Context) (*schema.Table, error) {
	if t.Access.AsOf != 0 {
		return t.Def, nil
	}
	snap, err := t.Env.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if cur := snap.Table(t.Def.Desc.DB, t.Name()); cur != nil {
		return cur, nil
	}
	return t.Def, nil
}

// Of finds our table below the wrappers of the engine and of other packages.
func Of(t sql.Table) *Table {
	switch t := t.(type) {
	case interface{ Stored() *Table }:
		return t.Stored()
	case sql.TableWrapper:
		return Of(t.Underlying())
	}
	return nil
}
