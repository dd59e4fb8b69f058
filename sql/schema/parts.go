package schema

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
)

// PartsDesc gives the rows of a table placements by a column, which is part of the primary key and
// of every unique one (docs/protocol.md, PLACE-5). It is replaced, never changed.
type PartsDesc struct {
	Col  uint32     `json:"col"` // column id
	List []PartDesc `json:"list"`
}

// PartDesc are values of the column, and the placement of their rows; several may share one.
type PartDesc struct {
	// Values are the values as texts that the column's type reads.
	Values []string `json:"values,omitempty"`
	// Default: rows of all values that no entry has lie here, too.
	Default bool        `json:"default,omitempty"`
	Placed  base.Placed `json:"placed,omitzero"`
}

// Places are the placements of the table's rows, each once.
func (l Locality) Places() (out []base.Placed) {
	if l.Parts == nil {
		return []base.Placed{l.Placed}
	}
	for _, p := range l.Parts.List {
		if !slices.Contains(out, p.Placed) {
			out = append(out, p.Placed)
		}
	}
	return out
}

// Same reports whether two localities say the same.
func (l Locality) Same(o Locality) bool { return reflect.DeepEqual(l, o) }

// Restricted reports whether the rows, or some of them, have a placement.
func (l Locality) Restricted() bool { return l.Placed.ID != 0 || l.Parts != nil }

// placesIn are the shards of a table in one of its placements: so many behind the first one.
func (t *TableDesc) placeShards(p base.Placed) (before int) {
	return Locality{Async: t.Locality.Async, Placed: p}.FirstShard(t.Shards)
}

// parts are a PartsDesc made ready for use.
type parts struct {
	pos    int            // of the column
	by     map[string]int // the place of a value, as keys have it
	rest   int            // that of others; -1: they have none
	places []base.Placed
}

// MaxParts bounds the values that PLACEMENT BY names.
const MaxParts = 4096

// makeParts makes the parts of a table ready for use, if it has any.
func (t *Table) makeParts() error {
	d := t.Desc.Locality.Parts
	if d == nil {
		return nil
	}
	if err := t.Desc.Parted(); err != nil {
		return err
	}
	p := &parts{pos: t.Desc.Col(d.Col), by: map[string]int{}, rest: -1, places: t.Desc.Locality.Places()}
	if p.pos < 0 {
		return Invalid("the column of PLACEMENT BY of table " + t.Desc.Name + " cannot be dropped: it says where rows may lie " +
			"(ALTER TABLE ... SET PLACEMENT first)")
	}
	c := t.Cols[p.pos]
	for _, e := range d.List {
		at := slices.Index(p.places, e.Placed)
		if e.Default {
			if p.rest >= 0 {
				return Invalid("PLACEMENT BY has DEFAULT twice")
			}
			p.rest = at
		}
		for _, v := range e.Values {
			k, err := c.partKey(v)
			if err != nil {
				return err
			}
			if _, twice := p.by[string(k)]; twice {
				return Invalid("PLACEMENT BY names " + c.PartText(v) + " twice: values that column " + c.Desc.Name +
					" takes for the same have one placement")
			}
			p.by[string(k)] = at
		}
	}
	if len(p.by) > MaxParts {
		return Invalid(fmt.Sprintf("PLACEMENT BY names %d values; %d are the most", len(p.by), MaxParts))
	}
	t.parts = p
	return nil
}

// partKey is a value of PLACEMENT BY as keys have it.
func (c *Column) partKey(text string) ([]byte, error) {
	ctx := context.Background()
	bad := Invalid("PLACEMENT BY: column " + c.Desc.Name + " of type " + c.Desc.Type + " cannot have the value '" + text + "'")
	var v any = text
	switch {
	case c.Integer():
		n, err := strconv.ParseInt(text, 10, 64)
		v = n
		if err != nil {
			if v, err = strconv.ParseUint(text, 10, 64); err != nil {
				return nil, bad
			}
		}
	case c.Kind == KindString && (c.Type.Type() == sqltypes.Char || c.Type.Type() == sqltypes.VarChar):
	case c.Kind == KindDatetime && c.Type.Type() != sqltypes.Timestamp:
	default:
		return nil, Invalid("PLACEMENT BY takes a column of integers, CHAR, VARCHAR, DATE or DATETIME, and " + c.Desc.Name + " is " +
			c.Desc.Type)
	}
	v, in, err := c.Type.Convert(sql.NewEmptyContext(), v)
	if err != nil || in != sql.InRange || v == nil {
		return nil, bad
	}
	k, err := c.AppendKey(ctx, nil, v, 0)
	if err != nil {
		return nil, bad
	}
	return k, nil
}

// PartText is a value of PLACEMENT BY as a literal.
func (c *Column) PartText(text string) string {
	if c.Integer() {
		return text
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

// NoPart reports whether an error is that of a value that has no placement.
func NoPart(err error) bool {
	e, ok := err.(*mysql.SQLError)
	return ok && e.Num == ErrNoPart
}

// ErrNoPart is MySQL's ER_NO_PARTITION_FOR_GIVEN_VALUE.
const ErrNoPart = 1526

// PartCol is the position of the column that gives rows their placements; -1: there is none.
func (t *Table) PartCol() int {
	if t.parts == nil {
		return -1
	}
	return t.parts.pos
}

// PartsOf lets a table of the same rows, whose columns are in another order, have the parts of
// from: its column is at pos.
func (t *Table) PartsOf(from *Table, pos int) {
	if from.parts != nil {
		p := *from.parts
		p.pos = pos
		t.parts = &p
	}
}

// Places are the placements of the table's rows.
func (t *Table) Places() []base.Placed {
	if t.parts == nil {
		return []base.Placed{t.Desc.Locality.Placed}
	}
	return t.parts.places
}

// placeOf is the position of the placement of rows with a value, as keys have it; -1: none.
func (p *parts) placeOf(key []byte) int {
	if i, ok := p.by[string(key)]; ok {
		return i
	}
	return p.rest
}

// PlacesBetween are the positions of the placements in which rows may lie whose values of the
// column, as keys have them, are between two bounds, these included; nil bounds are none.
func (t *Table) PlacesBetween(lo, hi []byte) (out []int) {
	in := map[int]bool{}
	for k, at := range t.parts.by {
		if (lo == nil || k >= string(lo)) && (hi == nil || k <= string(hi)) {
			in[at] = true
		}
	}
	_, named := t.parts.by[string(lo)]
	if one := lo != nil && string(lo) == string(hi); t.parts.rest >= 0 && !(one && named) {
		in[t.parts.rest] = true
	}
	for at := range t.parts.places {
		if in[at] {
			out = append(out, at)
		}
	}
	return out
}

// part is the position of the placement of a row with a value of the column.
func (t *Table) part(ctx context.Context, v any) (int, error) {
	c := t.Cols[t.parts.pos]
	k, err := c.AppendKey(ctx, nil, v, 0)
	if err != nil {
		return 0, err
	}
	at := t.parts.placeOf(k)
	if at < 0 {
		text := c.PartText(entryText(c, v))
		return 0, mysql.NewSQLError(ErrNoPart, "HY000", "Table has no placement for value %s: PLACEMENT BY of %s.%s names it "+
			"nowhere, and has no DEFAULT", text, t.Desc.DB, t.Desc.Name)
	}
	return at, nil
}

// shardOf is the shard in a placement to which a distribution value is hashed.
func (t *Table) shardOf(at int, enc []byte) base.ShardID {
	if t.parts == nil {
		return t.ShardOf(enc)
	}
	return t.hashed(t.Desc.placeShards(t.parts.places[at]), enc)
}

// shardsIn are the shards of a table in the placement at a position.
func (t *Table) shardsIn(at int) []base.ShardID {
	if t.parts == nil {
		return t.Shards()
	}
	out := make([]base.ShardID, t.Desc.Shards)
	for i := range out {
		out[i] = base.ShardID(t.Desc.placeShards(t.parts.places[at]) + i + 1)
	}
	return out
}

// partAt is the position of the placement of a shard.
func (t *Table) partAt(s base.ShardID) int {
	if t.parts == nil {
		return 0
	}
	return max(0, slices.IndexFunc(t.parts.places, func(p base.Placed) bool {
		before := t.Desc.placeShards(p)
		return int(s) > before && int(s) <= before+t.Desc.Shards
	}))
}

// PlacedAt says in which regions the rows of the table in a shard may lie.
func (t *Table) PlacedAt(s base.ShardID) base.Placed {
	if t.parts == nil {
		return t.Desc.Locality.setAt(s, t.Desc.Shards)
	}
	return t.parts.places[t.partAt(s)]
}

// Belongs is the shard in which a row with a key has to lie by its column of PLACEMENT BY; 0: it is
// an index entry, or the table has no such column.
func (t *Table) Belongs(ctx context.Context, key base.Key, value []byte) base.ShardID {
	if t.parts == nil || key.Index() != 0 || len(value) == 0 {
		return 0
	}
	row := make(sql.Row, len(t.Cols))
	if t.DecodeRow(ctx, value, row) != nil {
		return 0
	}
	ref, err := t.RefOf(ctx, row)
	if err != nil {
		return 0
	}
	return ref.Shard
}

// Begun reports whether keys of the table say which region owns the first gaps of their section
// (PLACE-6): the number of an index is not the same in all of its keys.
func (t *Table) Begun() bool { return t.parts != nil || t.Desc.Locality.Sets != nil }

// Prefix is that of the keys of an index, as keys have its number, in a shard; home is that of an
// index by home.
func (t *Table) Prefix(s base.ShardID, ix base.IndexID, home base.RegionID) base.Key {
	if t.Begun() {
		ix = BegunIn(ix, t.PlacedAt(s))
	}
	return base.IndexPrefix(s, t.Desc.ID, ix, home)
}

// BegunIn is an index as it is in the keys of rows in one of several placements of a table.
func BegunIn(ix base.IndexID, p base.Placed) base.IndexID {
	if p.ID == 0 {
		return ix
	}
	return ix.BegunIn(p.First)
}

// Parted refuses a definition whose rows' placements would not follow from their keys alone.
func (t *TableDesc) Parted() error {
	d := t.Locality.Parts
	if d == nil {
		return t.spread()
	}
	at := t.Col(d.Col)
	if at < 0 {
		return nil // makeParts says so
	}
	col := t.Cols[at].Name
	if !slices.Contains(t.PK, d.Col) {
		return Invalid("column " + col + " of PLACEMENT BY must be part of the primary key of table " + t.Name + ": where a row " +
			"lies follows from its key alone, and a key that does not have the column would have to be looked for in all " +
			"placements with each insert. Make it PRIMARY KEY (..., " + col + ")")
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		has := slices.ContainsFunc(x.Cols, func(c IndexedColumn) bool { return c.Col == d.Col && c.Length == 0 })
		if x.Unique() && !has {
			return Invalid("column " + col + " of PLACEMENT BY must be part, and whole, of the unique index " + x.Name + " of table " +
				t.Name + ": duplicates are looked for in the placement of a row alone, since no placement tells another one its " +
				"values. Add the column to the index, or make an index that is not unique")
		}
		if x.Fulltext != nil {
			return Invalid("index " + x.Name + " of table " + t.Name + " is a full-text index, whose words lie in tables of their " +
				"own: tables with a placement have none")
		}
		if x.ID > base.MaxIndexID {
			return Invalid("table " + t.Name + " has had too many indexes for PLACEMENT BY: make it anew")
		}
	}
	return nil
}
