package describe

import (
	"cmp"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/schema"
)

// Index is an index as it is described.
type Index struct {
	Name, Comment string
	Parser        string // of a full-text index WITH PARSER
	Unique        bool
	Kind          IndexKind
	Parts         []IndexPart
}

// IndexKind is how an index finds rows.
type IndexKind string

// The kinds of indexes.
const (
	BTree    IndexKind = "BTREE"
	Fulltext IndexKind = "FULLTEXT"
	Spatial  IndexKind = "SPATIAL"
	Vector   IndexKind = "VECTOR"
)

// IndexPart is a column of an index, or an expression.
type IndexPart struct {
	Column   string // empty: an expression
	Expr     string
	Prefix   int64 // characters or bytes, 0 for all
	Nullable bool
}

// PrimaryName is the name of primary keys.
const PrimaryName = "PRIMARY"

// Indexes are those of a table, in MySQL's order: the primary key, unique ones that cannot be NULL,
// other unique ones, the others, full-text ones, each in the order in which they were made.
func Indexes(t *schema.Table) []Index {
	var out []Index
	if len(t.PK) > 0 {
		x := Index{Name: PrimaryName, Unique: true, Kind: BTree}
		for _, p := range t.PK {
			x.Parts = append(x.Parts, part(t, p, 0))
		}
		out = append(out, x)
	}
	ranks := map[string]int{PrimaryName: 0}
	for _, i := range t.Indexes {
		if i.Desc.State != schema.IndexPublic {
			continue
		}
		x := Index{Name: i.Desc.Name, Comment: i.Desc.Comment, Unique: i.Desc.Unique(), Kind: kindOf(i.Desc),
			Parser: parserOf(i.Desc)}
		for k, p := range i.Cols {
			x.Parts = append(x.Parts, part(t, p.Pos, i.Desc.Cols[k].Length))
		}
		ranks[x.Name] = rank(t, i)
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b Index) int { return cmp.Compare(ranks[a.Name], ranks[b.Name]) })
	return out
}

func rank(t *schema.Table, x *schema.Index) int {
	switch {
	case x.Desc.Unique() && !nullable(t, x):
		return 1
	case x.Desc.Unique():
		return 2
	case kindOf(x.Desc) == Fulltext:
		return 4
	}
	return 3
}

func kindOf(d *schema.IndexDesc) IndexKind {
	switch d.Constraint {
	case sql.IndexConstraint_Fulltext:
		return Fulltext
	case sql.IndexConstraint_Spatial:
		return Spatial
	case sql.IndexConstraint_Vector:
		return Vector
	}
	return BTree
}

// parserOf is the parser of a full-text index; empty: it has none.
func parserOf(d *schema.IndexDesc) string {
	if d.Fulltext == nil {
		return ""
	}
	return d.Fulltext.Parser
}

func part(t *schema.Table, pos int, length int64) IndexPart {
	d := t.Cols[pos].Desc
	p := IndexPart{Column: d.Name, Prefix: length, Nullable: d.Nullable}
	if d.HiddenSystem && d.Generated != nil {
		p.Column, p.Expr = "", expression(d.Generated.Text)
	}
	return p
}
