package sqlfront

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/vector"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// sqlIndex is an index as the engine sees it; immutable.
type sqlIndex struct {
	t     *table
	x     *index // nil for the primary key
	names []string
	cets  []sql.ColumnExpressionType
	pos   []int
	lens  []uint16
	// ext are the positions of the indexed columns and of the primary-key columns
	// that are not among them; joined says that keys go on with exactly these.
	ext    []int
	joined bool
}

var (
	_ sql.OrderedIndex  = (*sqlIndex)(nil)
	_ sql.ExtendedIndex = (*sqlIndex)(nil)
	_ fulltext.Index    = (*sqlIndex)(nil)
)

// sqlIndexes are the indexes that may be read: the primary key first, then by name.
func (t *table) sqlIndexes() []sql.Index {
	t.once.Do(func() {
		if len(t.pk) > 0 {
			t.sqlIdx = append(t.sqlIdx, newSQLIndex(t, nil))
		}
		for _, x := range t.publicIndexes() {
			t.sqlIdx = append(t.sqlIdx, newSQLIndex(t, x))
		}
	})
	return slices.Clone(t.sqlIdx)
}

func newSQLIndex(t *table, x *index) *sqlIndex {
	i := &sqlIndex{t: t, x: x, pos: t.pk}
	if x != nil {
		i.pos = nil
		for _, c := range x.cols {
			i.pos = append(i.pos, c.pos)
			if c.length > 0 && i.lens == nil {
				i.lens = make([]uint16, len(x.cols))
			}
		}
		for j := range i.lens {
			i.lens[j] = uint16(x.cols[j].length)
		}
	}
	for _, p := range i.pos {
		n := t.desc.Name + "." + t.cols[p].desc.Name
		i.names = append(i.names, n)
		i.cets = append(i.cets, sql.ColumnExpressionType{Expression: n, Type: t.cols[p].typ})
	}
	i.ext = slices.Clone(i.pos)
	i.joined = x != nil && !x.desc.unique()
	for _, p := range t.pk {
		if slices.Contains(i.pos, p) {
			i.joined = false
		} else {
			i.ext = append(i.ext, p)
		}
	}
	return i
}

// ExtendedExpressions implements sql.ExtendedIndex.
func (i *sqlIndex) ExtendedExpressions(*sql.Context) []string {
	out := slices.Clone(i.names)
	for _, p := range i.ext[len(i.pos):] {
		out = append(out, i.t.desc.Name+"."+i.t.cols[p].desc.Name)
	}
	return out
}

// ExtendedColumnExpressionTypes implements sql.ExtendedIndex.
func (i *sqlIndex) ExtendedColumnExpressionTypes(*sql.Context) []sql.ColumnExpressionType {
	out := slices.Clone(i.cets)
	for _, p := range i.ext[len(i.pos):] {
		out = append(out, sql.ColumnExpressionType{Expression: i.t.desc.Name + "." + i.t.cols[p].desc.Name, Type: i.t.cols[p].typ})
	}
	return out
}

func (i *sqlIndex) ID() string {
	if i.x == nil {
		return "PRIMARY"
	}
	return i.x.desc.Name
}

func (i *sqlIndex) constraint() sql.IndexConstraint {
	if i.x == nil {
		return sql.IndexConstraint_Primary
	}
	return i.x.desc.Constraint
}

func (i *sqlIndex) Database() string      { return i.t.desc.DB }
func (i *sqlIndex) Table() string         { return i.t.desc.Name }
func (i *sqlIndex) Expressions() []string { return i.names }
func (i *sqlIndex) IsUnique() bool        { return i.x == nil || i.x.desc.unique() }
func (i *sqlIndex) IsSpatial() bool       { return i.constraint() == sql.IndexConstraint_Spatial }
func (i *sqlIndex) IsFullText() bool      { return i.constraint() == sql.IndexConstraint_Fulltext }
func (i *sqlIndex) IsVector() bool        { return i.constraint() == sql.IndexConstraint_Vector }
func (i *sqlIndex) IsGenerated() bool     { return false }
func (i *sqlIndex) IndexType() string     { return "BTREE" }
func (i *sqlIndex) PrefixLengths() []uint16 {
	return i.lens
}

func (i *sqlIndex) Comment() string {
	if i.x == nil {
		return ""
	}
	return i.x.desc.Comment
}

func (i *sqlIndex) ColumnExpressionTypes(*sql.Context) []sql.ColumnExpressionType { return i.cets }
func (i *sqlIndex) CanSupport(*sql.Context, ...sql.Range) bool                    { return true }

// CanSupportOrderBy implements sql.Index for vector distances.
func (i *sqlIndex) CanSupportOrderBy(e sql.Expression) bool {
	d, ok := e.(*vector.Distance)
	return ok && i.IsVector() && vector.DistanceL2Squared{}.CanEval(d.DistanceType)
}

// Order implements sql.OrderedIndex. What spreads over shards is merged by key,
// so every stored index returns its rows in order.
func (i *sqlIndex) Order(*sql.Context) sql.IndexOrder {
	if !i.Reversible(nil) {
		return sql.IndexOrderNone
	}
	return sql.IndexOrderAsc
}

// Reversible implements sql.OrderedIndex.
func (i *sqlIndex) Reversible(*sql.Context) bool {
	if i.x == nil {
		return true
	}
	if !i.x.desc.stored() {
		return false
	}
	// A unique entry is spread by its own hash, a prefix does not order the rest.
	for _, n := range i.lens {
		if n > 0 {
			return false
		}
	}
	return true
}

// FullTextTableNames implements fulltext.Index.
func (i *sqlIndex) FullTextTableNames(*sql.Context) (fulltext.IndexTableNames, error) {
	f := i.x.desc.Fulltext
	return fulltext.IndexTableNames{
		Config: f.Config, Position: f.Position, DocCount: f.DocCount, GlobalCount: f.GlobalCount, RowCount: f.RowCount,
	}, nil
}

// FullTextKeyColumns implements fulltext.Index.
func (i *sqlIndex) FullTextKeyColumns(*sql.Context) (fulltext.KeyColumns, error) {
	f := i.x.desc.Fulltext
	k := fulltext.KeyColumns{Type: fulltext.KeyType(f.KeyType), Name: f.KeyName}
	for _, id := range f.KeyCols {
		k.Positions = append(k.Positions, i.t.desc.col(id))
	}
	return k, nil
}

// fields are the indexed columns as expressions over a full row.
func (i *sqlIndex) fields() []sql.Expression {
	out := make([]sql.Expression, len(i.ext))
	for j, p := range i.ext {
		c := i.t.cols[p]
		out[j] = expression.NewGetFieldWithTable(p, 0, c.typ, i.t.desc.DB, i.t.desc.Name, c.desc.Name, c.desc.Nullable)
	}
	return out
}

// length is the prefix length of a column of the index, 0 for all.
func (i *sqlIndex) length(j int) int64 {
	if i.x == nil || j >= len(i.x.cols) {
		return 0
	}
	return i.x.cols[j].length
}

// indexable reports whether values of a column can be in keys.
func indexable(c *column) bool {
	switch c.kind {
	case kindJSON, kindGeometry, kindVector:
		return false
	}
	return !types.IsJSON(c.typ)
}
