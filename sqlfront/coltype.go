package sqlfront

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// kind says how the values of a column are stored and ordered.
type kind uint8

const (
	kindInt kind = iota
	kindUint
	kindFloat
	kindDecimal
	kindDatetime
	kindTimespan
	kindString
	kindBytes
	kindJSON
	kindGeometry
	kindVector
)

// column is a column descriptor made ready for use.
type column struct {
	desc *columnDesc
	typ  sql.Type
	kind kind
	// bits is the width of the Go type of ints, uints and floats; year and enum are 16.
	bits  int
	coll  sql.CollationID
	bin   bool // strings order as their bytes
	scale int32
	width int // bytes of a decimal in keys
}

func newColumn(d *columnDesc) (*column, error) {
	t, err := typeOf(d)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", d.Name, err)
	}
	c := &column{desc: d, typ: t}
	switch q := t.Type(); q {
	case sqltypes.Int8:
		c.kind, c.bits = kindInt, 8
	case sqltypes.Int16:
		c.kind, c.bits = kindInt, 16
	case sqltypes.Int24, sqltypes.Int32:
		c.kind, c.bits = kindInt, 32
	case sqltypes.Int64:
		c.kind, c.bits = kindInt, 64
	case sqltypes.Year:
		c.kind, c.bits = kindInt, 16
	case sqltypes.Uint8:
		c.kind, c.bits = kindUint, 8
	case sqltypes.Uint16:
		c.kind, c.bits = kindUint, 16
	case sqltypes.Uint24, sqltypes.Uint32:
		c.kind, c.bits = kindUint, 32
	case sqltypes.Uint64, sqltypes.Bit, sqltypes.Set:
		c.kind, c.bits = kindUint, 64
	case sqltypes.Enum:
		c.kind, c.bits = kindUint, 16
	case sqltypes.Float32:
		c.kind, c.bits = kindFloat, 32
	case sqltypes.Float64:
		c.kind, c.bits = kindFloat, 64
	case sqltypes.Decimal:
		d := t.(sql.DecimalType)
		c.kind, c.scale = kindDecimal, int32(d.Scale())
		c.width = (int(d.Precision())*10/3+8)/8 + 1
	case sqltypes.Date, sqltypes.Datetime, sqltypes.Timestamp:
		c.kind = kindDatetime
	case sqltypes.Time:
		c.kind = kindTimespan
	case sqltypes.Char, sqltypes.VarChar, sqltypes.Text:
		c.kind = kindString
		c.coll = t.(sql.StringType).Collation()
		switch c.coll {
		case sql.Collation_utf8mb4_0900_bin, sql.Collation_utf8mb4_bin, sql.Collation_utf8mb3_bin, sql.Collation_ascii_bin:
			c.bin = true
		}
	case sqltypes.Binary, sqltypes.VarBinary, sqltypes.Blob:
		c.kind = kindBytes
	case sqltypes.TypeJSON:
		c.kind = kindJSON
	case sqltypes.Geometry:
		c.kind = kindGeometry
	case sqltypes.Vector:
		c.kind = kindVector
	default:
		return nil, fmt.Errorf("type %s cannot be stored", t)
	}
	return c, nil
}

// typeOf rebuilds the engine's type.
func typeOf(d *columnDesc) (sql.Type, error) {
	switch d.Type {
	case "enum":
		return types.CreateEnumType(d.Values, d.Collation)
	case "set":
		return types.CreateSetType(d.Values, d.Collation)
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

// describeType fills the type part of a column descriptor.
func describeType(d *columnDesc, t sql.Type) error {
	d.Type, d.Values, d.Collation, d.SRID = "", nil, 0, nil
	switch t := t.(type) {
	case types.VectorType:
		d.Type = t.String()
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
	return nil
}
