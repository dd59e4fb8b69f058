package schema

import (
	"fmt"
	"math"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
	"github.com/godwitdb/godwit/sql/uca"
)

// Kind says how the values of a column are stored and ordered.
type Kind uint8

// The kinds of values. Their order is stored: see TableDesc.Dropped.
const (
	KindInt Kind = iota
	KindUint
	KindFloat
	KindDecimal
	KindDatetime
	KindTimespan
	KindString
	KindBytes
	KindJSON
	kindGeometry
	kindVector
)

// Column is a column descriptor made ready for use.
type Column struct {
	Desc *ColumnDesc
	Type sql.Type
	Kind Kind
	// bits is the width of the Go type of ints, uints and floats; year and enum are 16.
	bits      int
	Collation sql.CollationID
	Binary    bool       // strings order as their bytes
	uca       *uca.Table // of other texts
	// Digits are those of the second of a TIME.
	Digits int
	scale  int32
	width  int // bytes of a decimal in keys
}

// numbers says how the values of numeric types are stored, and how many bits their Go type has.
var numbers = map[querypb.Type]struct {
	kind Kind
	bits int
}{
	sqltypes.Int8: {KindInt, 8}, sqltypes.Int16: {KindInt, 16}, sqltypes.Int24: {KindInt, 32}, sqltypes.Int32: {KindInt, 32},
	sqltypes.Int64: {KindInt, 64}, sqltypes.Year: {KindInt, 16},
	sqltypes.Uint8: {KindUint, 8}, sqltypes.Uint16: {KindUint, 16}, sqltypes.Uint24: {KindUint, 32},
	sqltypes.Uint32: {KindUint, 32},
	sqltypes.Uint64: {KindUint, 64}, sqltypes.Bit: {KindUint, 64}, sqltypes.Set: {KindUint, 64}, sqltypes.Enum: {KindUint, 16},
	sqltypes.Float32: {KindFloat, 32}, sqltypes.Float64: {KindFloat, 64},
}

// NewColumn makes a column descriptor ready for use.
func NewColumn(d *ColumnDesc) (*Column, error) {
	t, err := typeOf(d)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", d.Name, err)
	}
	c := &Column{Desc: d, Type: t}
	if n, ok := numbers[t.Type()]; ok {
		c.Kind, c.bits = n.kind, n.bits
		return c, nil
	}
	switch t.Type() {
	case sqltypes.Decimal:
		d := t.(sql.DecimalType)
		c.Kind, c.scale = KindDecimal, int32(d.Scale())
		c.width = (int(d.Precision())*10/3+8)/8 + 1
	case sqltypes.Date, sqltypes.Datetime, sqltypes.Timestamp:
		c.Kind = KindDatetime
	case sqltypes.Time:
		c.Kind = KindTimespan
		c.Digits, _ = timeDigits(d.Type)
	case sqltypes.Char, sqltypes.VarChar, sqltypes.Text:
		c.Kind = KindString
		c.Collation = t.(sql.StringType).Collation()
		switch c.Collation {
		case sql.Collation_utf8mb4_0900_bin, sql.Collation_utf8mb4_bin, sql.Collation_utf8mb3_bin, sql.Collation_ascii_bin:
			c.Binary = true
		default:
			c.uca = uca.Of(c.Collation)
		}
	case sqltypes.Binary, sqltypes.VarBinary, sqltypes.Blob:
		c.Kind = KindBytes
	case sqltypes.TypeJSON:
		c.Kind = KindJSON
	case sqltypes.Geometry:
		c.Kind = kindGeometry
	case sqltypes.Vector:
		c.Kind = kindVector
	default:
		return nil, fmt.Errorf("type %s cannot be stored", t)
	}
	return c, nil
}

// typeOf rebuilds the engine's type.
func typeOf(d *ColumnDesc) (sql.Type, error) {
	switch d.Type {
	case "enum":
		return types.CreateEnumType(d.Values, d.Collation)
	case "set":
		return types.CreateSetType(d.Values, d.Collation)
	}
	if _, ok := timeDigits(d.Type); ok {
		return types.Time, nil
	}
	t, err := planbuilder.ParseColumnTypeString(d.Type)
	if err != nil {
		return nil, err
	}
	if d.Collation != 0 {
		if ct, ok := t.(sql.TypeWithCollation); ok {
			if t, err = ct.WithNewCollation(d.Collation); err != nil {
				return nil, err
			}
		}
	}
	if d.SRID != nil {
		t = t.(sql.SpatialColumnType).SetSRID(*d.SRID)
	}
	return t, nil
}

// describeType fills the type part of a column descriptor. Keys of one that keeps its collation
// stay as they are.
func describeType(d *ColumnDesc, t sql.Type) error {
	was, padded, expanded := d.Collation, d.Padded, d.Expanded
	d.Padded, d.Expanded, d.Type, d.Values, d.Collation, d.SRID = false, false, "", nil, 0, nil
	switch t := t.(type) {
	case types.VectorType:
		d.Type = t.String()
	case TimeType:
		d.Type = t.String()
		return nil
	case sql.EnumType:
		d.Type, d.Values, d.Collation = "enum", t.Values(), t.Collation()
	case sql.SetType:
		d.Type, d.Values, d.Collation = "set", t.Values(), t.Collation()
	case sql.SpatialColumnType:
		d.Type = t.(sql.Type).String()
		if srid, defined := t.GetSpatialTypeSRID(); defined {
			d.SRID = &srid
		}
	case sql.TypeWithCollation:
		d.Collation = t.Collation()
		// With its own collation as the table's, the text is the bare type.
		d.Type = t.StringWithTableCollation(d.Collation)
	default:
		d.Type = t.String()
	}
	back, err := typeOf(d)
	if err != nil {
		return fmt.Errorf("type %s of column %s cannot be stored: %w", t, d.Name, err)
	}
	if !back.Equals(t) {
		return fmt.Errorf("type %s of column %s cannot be stored: it reads back as %s", t, d.Name, back)
	}
	if d.NewKeys(); d.Collation == was {
		d.Padded, d.Expanded = d.Padded && padded, d.Expanded && expanded
	}
	return nil
}

// Described is the descriptor of the column with its type as [TableDesc] has it, whatever the words
// were that it was made with.
func (c *Column) Described() (*ColumnDesc, error) {
	d := *c.Desc
	if c.Kind == KindTimespan {
		return &d, nil
	}
	return &d, describeType(&d, c.Type)
}

// LargestInt is the largest value of an integer column.
func (c *Column) LargestInt() uint64 {
	bits := c.bits
	switch c.Type.Type() {
	case sqltypes.Int24, sqltypes.Uint24:
		bits = 24
	}
	switch c.Kind {
	case KindInt:
		return 1<<(bits-1) - 1
	case KindUint:
		if bits < 64 {
			return 1<<bits - 1
		}
	}
	return math.MaxUint64
}

// Integer reports whether the values of the column are plain integers.
func (c *Column) Integer() bool {
	if c.Kind != KindInt && c.Kind != KindUint {
		return false
	}
	switch c.Type.Type() {
	case sqltypes.Enum, sqltypes.Set, sqltypes.Bit, sqltypes.Year:
		return false
	}
	return true
}

// Int is an integer of 64 bits as the column holds it; ok is false if it does not fit, or if the
// column is none of plain integers.
func (c *Column) Int(n int64, unsigned bool) (v any, ok bool) {
	switch {
	case !c.Integer():
		return nil, false
	case c.Kind == KindInt:
		most := int64(c.LargestInt())
		if unsigned && n < 0 || n > most || n < -most-1 {
			return nil, false
		}
		return intOf(n, c.bits), true
	case !unsigned && n < 0 || uint64(n) > c.LargestInt():
		return nil, false
	}
	return uintOf(uint64(n), c.bits), true
}

// Sortable reports whether key encodings order values as their type does, and are equal exactly for
// equal values. Those of older stores do not, where the collation has the attribute PAD SPACE
// (there 'a' equals 'a ', and comes after 'a' with a tabulator), or characters with many weights.
func (c *Column) Sortable() bool {
	return c.Integer() || c.Kind == KindString && c.Type.Type() != sqltypes.Enum && c.Type.Type() != sqltypes.Set &&
		!c.Desc.oldKeys(base.VersionNewest)
}

// Bounds are those of an integer column.
func (c *Column) Bounds() (least int64, most uint64, ok bool) {
	bits := 0
	switch c.Type.Type() {
	case sqltypes.Int8:
		bits = 8
	case sqltypes.Int16:
		bits = 16
	case sqltypes.Int24:
		bits = 24
	case sqltypes.Int32:
		bits = 32
	case sqltypes.Int64:
		bits = 64
	default:
		return 0, 0, false
	}
	return math.MinInt64 >> (64 - bits), 1<<(bits-1) - 1, c.Kind == KindInt
}

// Class is how long payloads of a kind are.
func (k Kind) Class() rowfmt.Class {
	switch k {
	case KindInt, KindUint, KindDatetime, KindTimespan:
		return rowfmt.Varint
	case KindFloat:
		return rowfmt.Fixed8
	}
	return rowfmt.Blob
}
