package ddl

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/ddl/convert"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// Table is a table whose definition can be changed: the engine wants the methods of ALTER TABLE on
// the table itself.
type Table struct {
	*table.Table
	g *Env
	// built is an index that the statement has built, and that its commit is to publish; 0: none.
	built base.IndexID
	// filled says that a full-text index was made and has its words: the engine is about to read
	// the rows once more to fill it.
	filled bool
	// made converts a column of the rows that the engine reads to write them anew.
	made *convert.Column
}

// indexed is the same read through an index. The engine looks for foreign keys there, too.
type indexed struct {
	*Table
	in *table.Indexed
}

var (
	_ sql.AlterableTable           = (*Table)(nil)
	_ sql.RewritableTable          = (*Table)(nil)
	_ sql.IndexAlterableTable      = (*Table)(nil)
	_ sql.IndexBuildingTable       = (*Table)(nil)
	_ sql.CollationAlterableTable  = (*Table)(nil)
	_ sql.CommentAlterableTable    = (*Table)(nil)
	_ sql.ForeignKeyTable          = (*Table)(nil)
	_ sql.CheckAlterableTable      = (*Table)(nil)
	_ fulltext.IndexAlterableTable = (*Table)(nil)
	_ sql.IndexedTable             = (*indexed)(nil)
	_ sql.ForeignKeyTable          = (*indexed)(nil)
	_ sql.ReferenceChecker         = (*indexed)(nil)
)

// New is a table whose definition can be changed.
func New(g *Env, t *schema.Table) *Table {
	return &Table{Table: table.New(g.Env, t), g: g}
}

// Partitions implements sql.Table.
func (t *Table) Partitions(ctx *sql.Context) (sql.PartitionIter, error) {
	if t.filled {
		t.filled = false
		return sql.PartitionsToPartitionIter(), nil
	}
	return t.Table.Partitions(ctx)
}

// PartitionRows implements sql.Table.
func (t *Table) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	it, err := t.Table.PartitionRows(ctx, p)
	return t.made.Rows(it), err
}

// WithProjections implements sql.ProjectedTable.
func (t *Table) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	c, err := t.Table.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	return &Table{Table: c.(*table.Table), g: t.g}, nil
}

// IndexedAccess implements sql.IndexAddressable.
func (t *Table) IndexedAccess(ctx *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	return &indexed{t, t.Table.IndexedAccess(ctx, l).(*table.Indexed)}
}

// LookupPartitions implements sql.IndexedTable.
func (t *indexed) LookupPartitions(ctx *sql.Context, l sql.IndexLookup) (sql.PartitionIter, error) {
	return t.in.LookupPartitions(ctx, l)
}

// WithProjections keeps the lookup.
func (t *indexed) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	c, err := t.in.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	in := c.(*table.Indexed)
	return &indexed{&Table{Table: in.Table, g: t.g}, in}, nil
}

// SetReferenceCheck implements sql.ReferenceChecker.
func (t *indexed) SetReferenceCheck() error { return t.in.SetReferenceCheck() }
