package schema

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/vector"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
)

// EngineIndex is an index as the engine sees it; immutable.
type EngineIndex struct {
	Def         *Table
	Index       *Index // nil for the primary key
	names       []string
	ColumnTypes []sql.ColumnExpressionType
	Positions   []int
	lengths     []uint16
	// Extended are the positions of the indexed columns and of the primary-key columns
	// that are not among them; joined says that keys go on with exactly these.
	Extended []int
	joined   bool
}

var (
	_ sql.OrderedIndex  = (*EngineIndex)(nil)
	_ sql.ExtendedIndex = (*EngineIndex)(nil)
	_ fulltext.Index    = (*EngineIndex)(nil)
)

// EngineIndexes are the indexes that may be read: the primary key first, then by name.
func (t *Table) EngineIndexes() []sql.Index {
	t.once.Do(func() {
		if len(t.PK) > 0 {
			t.engineIndexes = append(t.engineIndexes, newEngineIndex(t, nil))
		}
		for _, x := range t.publicIndexes() {
			t.engineIndexes = append(t.engineIndexes, newEngineIndex(t, x))
		}
	})
	return slices.Clone(t.engineIndexes)
}

func newEngineIndex(t *Table, x *Index) *EngineIndex {
	i := &EngineIndex{Def: t, Index: x, Positions: t.PK}
	if x != nil {
		i.Positions = nil
		for _, c := range x.Cols {
			i.Positions = append(i.Positions, c.Pos)
			if c.length > 0 && i.lengths == nil {
				i.lengths = make([]uint16, len(x.Cols))
			}
		}
		for j := range i.lengths {
			i.lengths[j] = uint16(x.Cols[j].length)
		}
	}
	for _, p := range i.Positions {
		n := t.Desc.Name + "." + t.Cols[p].Desc.Name
		i.names = append(i.names, n)
		i.ColumnTypes = append(i.ColumnTypes, sql.ColumnExpressionType{Expression: n, Type: t.Cols[p].Type})
	}
	i.Extended = slices.Clone(i.Positions)
	i.joined = x != nil && !x.Desc.Unique()
	for _, p := range t.PK {
		if slices.Contains(i.Positions, p) {
			i.joined = false
		} else {
			i.Extended = append(i.Extended, p)
		}
	}
	return i
}

// ExtendedExpressions implements sql.ExtendedIndex.
func (i *EngineIndex) ExtendedExpressions(*sql.Context) []string {
	out := slices.Clone(i.names)
	for _, p := range i.Extended[len(i.Positions):] {
		out = append(out, i.Def.Desc.Name+"."+i.Def.Cols[p].Desc.Name)
	}
	return out
}

// ExtendedColumnExpressionTypes implements sql.ExtendedIndex.
func (i *EngineIndex) ExtendedColumnExpressionTypes(*sql.Context) []sql.ColumnExpressionType {
	out := slices.Clone(i.ColumnTypes)
	for _, p := range i.Extended[len(i.Positions):] {
		out = append(out, sql.ColumnExpressionType{Expression: i.Def.Desc.Name + "." + i.Def.Cols[p].Desc.Name,
			Type: i.Def.Cols[p].Type})
	}
	return out
}

// ID implements sql.Index.
func (i *EngineIndex) ID() string {
	if i.Index == nil {
		return "PRIMARY"
	}
	return i.Index.Desc.Name
}

func (i *EngineIndex) constraint() sql.IndexConstraint {
	if i.Index == nil {
		return sql.IndexConstraint_Primary
	}
	return i.Index.Desc.Constraint
}

// Database implements sql.Index: the database's name.
func (i *EngineIndex) Database() string { return i.Def.Desc.DB }

// Table implements sql.Index: the table's name.
func (i *EngineIndex) Table() string { return i.Def.Desc.Name }

// Expressions implements sql.Index: the indexed columns, each as table.column.
func (i *EngineIndex) Expressions() []string { return i.names }

// IsUnique implements sql.Index. The primary key is unique.
func (i *EngineIndex) IsUnique() bool { return i.Index == nil || i.Index.Desc.Unique() }

// IsSpatial implements sql.Index.
func (i *EngineIndex) IsSpatial() bool { return i.constraint() == sql.IndexConstraint_Spatial }

// IsFullText implements sql.Index.
func (i *EngineIndex) IsFullText() bool { return i.constraint() == sql.IndexConstraint_Fulltext }

// IsVector implements sql.Index.
func (i *EngineIndex) IsVector() bool { return i.constraint() == sql.IndexConstraint_Vector }

// IsGenerated implements sql.Index: no index is made by the engine itself.
func (i *EngineIndex) IsGenerated() bool { return false }

// IndexType implements sql.Index: BTREE, which is what MySQL's SHOW INDEX says of InnoDB's indexes.
func (i *EngineIndex) IndexType() string { return "BTREE" }

// PrefixLengths implements sql.Index: how many characters of each column are indexed, 0 for all.
func (i *EngineIndex) PrefixLengths() []uint16 {
	return i.lengths
}

// Comment implements sql.Index: the COMMENT that the index was declared with. That of a full-text
// index is one of [JoinParser].
func (i *EngineIndex) Comment() string {
	switch {
	case i.Index == nil:
		return ""
	case i.Index.Desc.Fulltext != nil:
		return JoinParser(i.Index.Desc.Fulltext.Parser, i.Index.Desc.Comment)
	}
	return i.Index.Desc.Comment
}

// JoinParser puts the parser of a full-text index in front of its comment: the engine's definitions
// of indexes, from which it makes them anew, have no place for it. [SplitParser] takes them apart.
func JoinParser(parser, comment string) string {
	if parser == "" && !strings.HasPrefix(comment, "\x00") {
		return comment
	}
	return "\x00" + parser + "\x00" + comment
}

// SplitParser takes apart what [JoinParser] has put together.
func SplitParser(joined string) (parser, comment string) {
	if rest, ok := strings.CutPrefix(joined, "\x00"); ok {
		if parser, comment, ok = strings.Cut(rest, "\x00"); ok {
			return parser, comment
		}
	}
	return "", joined
}

// ColumnExpressionTypes implements sql.Index: name and type of each indexed column.
func (i *EngineIndex) ColumnExpressionTypes(*sql.Context) []sql.ColumnExpressionType {
	return i.ColumnTypes
}

// CanSupport implements sql.Index: every range of indexed values can be read.
func (i *EngineIndex) CanSupport(*sql.Context, ...sql.Range) bool { return true }

// CanSupportOrderBy implements sql.Index for vector distances.
func (i *EngineIndex) CanSupportOrderBy(e sql.Expression) bool {
	d, ok := e.(*vector.Distance)
	return ok && i.IsVector() && vector.DistanceL2Squared{}.CanEval(d.DistanceType)
}

// Order implements sql.OrderedIndex. What spreads over shards is merged by key,
// so every stored index returns its rows in order.
func (i *EngineIndex) Order(*sql.Context) sql.IndexOrder {
	if !i.Reversible(nil) {
		return sql.IndexOrderNone
	}
	return sql.IndexOrderAsc
}

// Reversible implements sql.OrderedIndex.
func (i *EngineIndex) Reversible(*sql.Context) bool {
	if i.Index == nil {
		return true
	}
	if !i.Index.Desc.Stored() {
		return false
	}
	// A unique entry is spread by its own hash, a prefix does not order the rest.
	for _, n := range i.lengths {
		if n > 0 {
			return false
		}
	}
	return true
}

// FullTextTableNames implements fulltext.Index.
func (i *EngineIndex) FullTextTableNames(*sql.Context) (fulltext.IndexTableNames, error) {
	f := i.Index.Desc.Fulltext
	return fulltext.IndexTableNames{
		Config: f.Config, Position: f.Position, DocCount: f.DocCount, GlobalCount: f.GlobalCount, RowCount: f.RowCount,
	}, nil
}

// FullTextKeyColumns implements fulltext.Index.
func (i *EngineIndex) FullTextKeyColumns(*sql.Context) (fulltext.KeyColumns, error) {
	return i.SearchKey(), nil
}

// SearchKey are the columns by which a full-text index knows rows.
func (i *EngineIndex) SearchKey() fulltext.KeyColumns {
	f := i.Index.Desc.Fulltext
	k := fulltext.KeyColumns{Type: fulltext.KeyType(f.KeyType), Name: f.KeyName}
	for _, id := range f.KeyCols {
		k.Positions = append(k.Positions, i.Def.Desc.Col(id))
	}
	return k
}

// Fields are the indexed columns as expressions over a full row.
func (i *EngineIndex) Fields() []sql.Expression {
	out := make([]sql.Expression, len(i.Extended))
	for j, p := range i.Extended {
		c := i.Def.Cols[p]
		out[j] = expression.NewGetFieldWithTable(p, 0, c.Type, i.Def.Desc.DB, i.Def.Desc.Name, c.Desc.Name, c.Desc.Nullable)
	}
	return out
}

// PrefixLength is the prefix length of a column of the index, 0 for all.
func (i *EngineIndex) PrefixLength(j int) int64 {
	if i.Index == nil || j >= len(i.Index.Cols) {
		return 0
	}
	return i.Index.Cols[j].length
}
