package sqlfront

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer/analyzererrors"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// sqlTable is a table as one statement sees it.
type sqlTable struct {
	g    *gateway
	t    *table
	acc  *access
	full sql.Schema
	// projection: positions in the full schema, nil for all.
	cols  []int
	names []string
	sch   sql.Schema
}

// access is how a statement uses a table; the copies the planner makes share it.
type access struct {
	lock kv.LockMode
	asOf base.Timestamp
	// target tables are changed by the statement, which must not meet its own
	// changes: reads do not send pending ones to kv first.
	target bool
	// fetched are the rows of lookups that a join has asked for ahead of time.
	fetched map[string][]sql.Row
	// keepHomes tells the transaction the home of each row read.
	keepHomes bool
	// whole reads go to the end at once, before the first change.
	whole bool
}

var (
	_ sql.ProjectedTable           = (*sqlTable)(nil)
	_ sql.CommentedTable           = (*sqlTable)(nil)
	_ sql.InsertableTable          = (*sqlTable)(nil)
	_ sql.UpdatableTable           = (*sqlTable)(nil)
	_ sql.DeletableTable           = (*sqlTable)(nil)
	_ sql.ReplaceableTable         = (*sqlTable)(nil)
	_ sql.AlterableTable           = (*sqlTable)(nil)
	_ sql.RewritableTable          = (*sqlTable)(nil)
	_ sql.IndexAlterableTable      = (*sqlTable)(nil)
	_ sql.IndexBuildingTable       = (*sqlTable)(nil)
	_ sql.CollationAlterableTable  = (*sqlTable)(nil)
	_ sql.CommentAlterableTable    = (*sqlTable)(nil)
	_ sql.ForeignKeyTable          = (*sqlTable)(nil)
	_ sql.CheckTable               = (*sqlTable)(nil)
	_ sql.CheckAlterableTable      = (*sqlTable)(nil)
	_ sql.AutoIncrementTable       = (*sqlTable)(nil)
	_ sql.PrimaryKeyTable          = (*sqlTable)(nil)
	_ sql.StatisticsTable          = (*sqlTable)(nil)
	_ sql.Databaseable             = (*sqlTable)(nil)
	_ fulltext.IndexAlterableTable = (*sqlTable)(nil)
)

func newSQLTable(g *gateway, t *table) *sqlTable {
	return &sqlTable{g: g, t: t, acc: &access{}, full: t.schema()}
}

func (t *sqlTable) Name() string               { return t.t.desc.Name }
func (t *sqlTable) String() string             { return t.t.desc.Name }
func (t *sqlTable) Database() string           { return t.t.desc.DB }
func (t *sqlTable) Collation() sql.CollationID { return t.t.desc.Collation }
func (t *sqlTable) Projections() []string      { return t.names }
func (t *sqlTable) PreciseMatch() bool         { return true }

// IsTemporary implements sql.TemporaryTable: none is. (The engine's check of READ ONLY
// transactions needs to be told.)
func (t *sqlTable) IsTemporary() bool { return false }

// Comment implements sql.CommentedTable.
func (t *sqlTable) Comment() string { return t.t.desc.Comment }

// Schema implements sql.Table.
func (t *sqlTable) Schema(*sql.Context) sql.Schema {
	if t.sch != nil {
		return t.sch
	}
	return t.full
}

// PrimaryKeySchema implements sql.PrimaryKeyTable.
func (t *sqlTable) PrimaryKeySchema(*sql.Context) sql.PrimaryKeySchema {
	return sql.NewPrimaryKeySchema(t.full, t.t.pk...)
}

// WithProjections implements sql.ProjectedTable.
func (t *sqlTable) WithProjections(_ *sql.Context, names []string) (sql.Table, error) {
	c := *t
	if names == nil {
		c.cols, c.names, c.sch = nil, nil, nil
		return &c, nil
	}
	c.names = names
	c.cols = make([]int, len(names))
	c.sch = make(sql.Schema, len(names))
	for i, n := range names {
		p := t.t.desc.colByName(n)
		if p < 0 {
			return nil, sql.ErrColumnNotFound.New(n)
		}
		c.cols[i], c.sch[i] = p, t.full[p]
	}
	return &c, nil
}

// partition is the only one: what spreads over shards and regions does so below.
type partition struct{ lookup *sql.IndexLookup }

func (partition) Key() []byte { return []byte("all") }

// Partitions implements sql.Table.
func (t *sqlTable) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(partition{}), nil
}

// PartitionRows implements sql.Table.
func (t *sqlTable) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	part, ok := p.(partition)
	if !ok || part.lookup == nil {
		it, err := t.scanAll(ctx)
		if s := sessionOf(ctx); err == nil && s != nil {
			it = s.newKey.checked(s, t, it)
		}
		return it, err
	}
	return t.scanLookup(ctx, *part.lookup)
}

// indexedTable is a table read through an index.
type indexedTable struct {
	*sqlTable
	lookup sql.IndexLookup
}

// IndexedAccess implements sql.IndexAddressable.
func (t *sqlTable) IndexedAccess(_ *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	return &indexedTable{t, l}
}

// LookupPartitions implements sql.IndexedTable.
func (t *indexedTable) LookupPartitions(_ *sql.Context, l sql.IndexLookup) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(partition{&l}), nil
}

// WithProjections keeps the lookup.
func (t *indexedTable) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	c, err := t.sqlTable.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	return &indexedTable{c.(*sqlTable), t.lookup}, nil
}

// RowCount implements sql.StatisticsTable with an estimate.
func (t *sqlTable) RowCount(*sql.Context) (uint64, bool, error) {
	return t.g.stats.rows(t.t), false, nil
}

// DataLength implements sql.StatisticsTable with an estimate.
func (t *sqlTable) DataLength(ctx *sql.Context) (uint64, error) {
	var n uint64
	for _, c := range t.full {
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

// validateRowLength applies InnoDB's bound of the bytes of a row.
func validateRowLength(sch sql.Schema) error {
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

// describeExpr keeps the text of a default or generated value, without table names.
func describeExpr(v *sql.ColumnDefaultValue) *exprDesc {
	if v == nil {
		return nil
	}
	if u, ok := v.Expr.(*sql.UnresolvedColumnDefault); ok {
		return &exprDesc{Text: u.ExprString, Literal: v.Literal, Parenthesized: v.Parenthesized}
	}
	e, _, err := transform.Expr(sql.NewEmptyContext(), v, func(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		if f, ok := e.(*expression.GetField); ok {
			return expression.NewGetField(f.Index(), f.Type(ctx), f.Name(), f.IsNullable(ctx)).
				WithQuotedNames(sql.DefaultMySQLSchemaFormatter, f.IsQuotedIdentifier()), transform.NewTree, nil
		}
		return e, transform.SameTree, nil
	})
	if err != nil {
		e = v
	}
	return &exprDesc{Text: e.String(), Literal: v.Literal, Parenthesized: v.Parenthesized}
}

// GetIndexes implements sql.IndexAddressable.
func (t *sqlTable) GetIndexes(*sql.Context) ([]sql.Index, error) {
	return t.t.sqlIndexes(), nil
}

func lowerEq(a, b string) bool { return strings.EqualFold(a, b) }
