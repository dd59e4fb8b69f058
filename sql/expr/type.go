package expr

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/proto/query"
)

// Kind says how the values of a column are held and compared. Each kind has one form in a Vec.
type Kind uint8

// The kinds. The comment names the slice of a Vec that holds the values.
const (
	Null      Kind = iota // no value at all: the type of the literal NULL
	Int                   // I
	Uint                  // I, the bits of a uint64
	Decimal               // I, scaled by 10^Scale; or D, if one value of the vector does not fit
	Float                 // F; Precision 24 marks a FLOAT of 32 bits
	Text                  // S, in UTF-8 whatever the character set of the collation
	Bytes                 // S
	Date                  // I, packed (see package calendar) with time 0, so that it compares with Datetime
	Datetime              // I, packed
	Timestamp             // I, packed, in UTC; an expression that uses it as a Datetime casts it to the session's zone
	Duration              // I, microseconds: the type TIME
	Year                  // I
	JSON                  // S, in MySQL's normal text form
	Enum                  // I, the index of the value from 1; 0 is the empty string of a wrong value
	Set                   // I, a bit for each member
	Bit                   // I
	Opaque                // A: what only boxed functions understand (geometry, ...)
)

var kindNames = [...]string{
	"null", "int", "uint", "decimal", "float", "text", "bytes", "date", "datetime", "timestamp", "time", "year", "json",
	"enum", "set", "bit", "opaque",
}

// String is the name of the kind in lower case.
func (k Kind) String() string { return kindNames[k] }

// Coercibility ranks the collations of strings that meet: the smaller one wins.
const (
	CoerceExplicit  = 0 // COLLATE
	CoerceNone      = 1 // a concatenation of different collations
	CoerceImplicit  = 2 // a column, a routine's variable
	CoerceSysconst  = 3 // USER(), VERSION()
	CoerceLiteral   = 4
	CoerceNumeric   = 5 // numbers and times as text
	CoerceIgnorable = 6 // NULL
)

// Type is the type of a scalar expression. It is derived bottom up from the columns.
type Type struct {
	Kind Kind
	// Precision and Scale are those of a DECIMAL; Scale is also the digits of fractional seconds.
	Precision, Scale int
	// Length is the largest number of characters (Text) or bytes (Bytes) or bits; 0 if it is not
	// known.
	Length int
	Coll   sql.CollationID
	// Coercibility is one of the constants above.
	Coercibility uint8
	// NotNull promises that no value is NULL. False promises nothing.
	NotNull bool
	// Values are the members of an Enum or Set.
	Values []string
	// SQL is the type that a client sees, if it is not the one that follows from the other
	// fields.
	SQL sql.Type
}

// Types that are used everywhere.
var (
	TypeNull   = Type{Kind: Null, Coll: sql.Collation_binary, Coercibility: CoerceIgnorable}
	TypeInt    = Type{Kind: Int, Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
	TypeUint   = Type{Kind: Uint, Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
	TypeFloat  = Type{Kind: Float, Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
	TypeBool   = Type{Kind: Int, Length: 1, Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
	TypeYear   = Type{Kind: Year, Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
	TypeDate   = Type{Kind: Date, Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
	TypeJSON   = Type{Kind: JSON, Coll: sql.Collation_utf8mb4_bin, Coercibility: CoerceImplicit}
	TypeBinary = Type{Kind: Bytes, Coll: sql.Collation_binary, Coercibility: CoerceImplicit}
)

// DecimalType is DECIMAL(precision, scale), cut to what MySQL allows.
func DecimalType(precision, scale int) Type {
	scale = min(scale, MaxScale)
	precision = min(max(precision, scale, 1), MaxPrecision)
	return Type{Kind: Decimal, Precision: precision, Scale: scale, Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
}

// DatetimeType is DATETIME(fsp).
func DatetimeType(fsp int) Type {
	return Type{Kind: Datetime, Scale: min(fsp, 6), Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
}

// TimestampType is TIMESTAMP(fsp).
func TimestampType(fsp int) Type {
	return Type{Kind: Timestamp, Scale: min(fsp, 6), Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
}

// TimeType is TIME(fsp).
func TimeType(fsp int) Type {
	return Type{Kind: Duration, Scale: min(fsp, 6), Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
}

// TextType is a string of a collation.
func TextType(length int, coll sql.CollationID, coercibility uint8) Type {
	if coll == sql.Collation_binary {
		return Type{Kind: Bytes, Length: length, Coll: coll, Coercibility: coercibility}
	}
	return Type{Kind: Text, Length: length, Coll: coll, Coercibility: coercibility}
}

// Limits of DECIMAL.
const (
	MaxPrecision = 65
	MaxScale     = 30
)

// Numeric reports whether arithmetic takes values of the type as they are.
func (t Type) Numeric() bool {
	switch t.Kind {
	case Int, Uint, Decimal, Float, Year, Bit:
		return true
	}
	return false
}

// Integer reports whether values are whole numbers of at most 64 bits.
func (t Type) Integer() bool {
	switch t.Kind {
	case Int, Uint, Year, Bit:
		return true
	}
	return false
}

// Unsigned reports whether the type is an unsigned integer.
func (t Type) Unsigned() bool {
	return t.Kind == Uint || t.Kind == Year || t.Kind == Bit
}

// Temporal reports whether values are dates or times.
func (t Type) Temporal() bool { return t.Kind >= Date && t.Kind <= Duration }

// Dated reports whether values are temporal and have a date.
func (t Type) Dated() bool { return t.Kind >= Date && t.Kind <= Timestamp }

// Stringy reports whether values are compared as strings.
func (t Type) Stringy() bool { return t.Kind == Text || t.Kind == Bytes }

// AsNull is the type with NULLs.
func (t Type) AsNull() Type {
	t.NotNull = false
	return t
}

// Same reports whether values of both types are held alike and compare alike.
func (t Type) Same(o Type) bool {
	if t.Kind != o.Kind {
		return false
	}
	switch t.Kind {
	case Decimal:
		return t.Scale == o.Scale
	case Text:
		return t.Coll == o.Coll
	case Enum, Set:
		return t.Coll == o.Coll && equalStrings(t.Values, o.Values)
	}
	return true
}

func equalStrings(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// String is a short form for tests and EXPLAIN.
func (t Type) String() string {
	s := t.Kind.String()
	switch t.Kind {
	case Decimal:
		s = fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case Datetime, Timestamp, Duration:
		if t.Scale > 0 {
			s = fmt.Sprintf("%s(%d)", s, t.Scale)
		}
	case Text, Bytes:
		if t.Length > 0 {
			s = fmt.Sprintf("%s(%d)", s, t.Length)
		}
		if t.Kind == Text {
			s += " " + t.Coll.Name()
		}
	case Enum, Set:
		s += "('" + strings.Join(t.Values, "','") + "')"
	}
	return s
}

// FromSQL is the type of a column.
func FromSQL(st sql.Type) Type {
	t := fromSQL(st)
	t.SQL = st
	return t
}

func fromSQL(st sql.Type) Type {
	num := func(k Kind) Type {
		return Type{Kind: k, Coll: sql.Collation_binary, Coercibility: CoerceNumeric}
	}
	switch q := st.Type(); q {
	case sqltypes.Null:
		return TypeNull
	case sqltypes.Int8, sqltypes.Int16, sqltypes.Int24, sqltypes.Int32, sqltypes.Int64:
		t := num(Int)
		t.Length = intDigits[q]
		return t
	case sqltypes.Uint8, sqltypes.Uint16, sqltypes.Uint24, sqltypes.Uint32, sqltypes.Uint64:
		t := num(Uint)
		t.Length = intDigits[q]
		return t
	case sqltypes.Float32:
		t := num(Float)
		t.Precision = 24
		return t
	case sqltypes.Float64:
		return num(Float)
	case sqltypes.Decimal:
		d := st.(sql.DecimalType)
		return DecimalType(int(d.Precision()), int(d.Scale()))
	case sqltypes.Date:
		return num(Date)
	case sqltypes.Datetime, sqltypes.Timestamp:
		t := num(Datetime)
		if q == sqltypes.Timestamp {
			t.Kind = Timestamp
		}
		if d, ok := st.(sql.DatetimeType); ok {
			t.Scale = d.Precision()
		}
		return t
	case sqltypes.Time:
		t := num(Duration)
		t.Scale = 6 // the engine's TIME has no precision of its own
		return t
	case sqltypes.Year:
		return num(Year)
	case sqltypes.TypeJSON:
		return TypeJSON
	case sqltypes.Bit:
		t := num(Bit)
		t.Length = 64
		if b, ok := st.(types.BitType); ok {
			t.Length = int(b.NumberOfBits())
		}
		return t
	}
	return fromStringSQL(st)
}

func fromStringSQL(st sql.Type) Type {
	switch st := st.(type) {
	case sql.EnumType:
		return Type{Kind: Enum, Values: st.Values(), Coll: st.Collation(), Coercibility: CoerceImplicit}
	case sql.SetType:
		return Type{Kind: Set, Values: st.Values(), Coll: st.Collation(), Coercibility: CoerceImplicit}
	case sql.StringType:
		return TextType(int(st.Length()), st.Collation(), CoerceImplicit)
	}
	return Type{Kind: Opaque, Coll: sql.Collation_binary, Coercibility: CoerceImplicit}
}

// intDigits are the characters that a value of an integer type takes, without the sign.
var intDigits = map[query.Type]int{
	sqltypes.Int8: 3, sqltypes.Uint8: 3, sqltypes.Int16: 5, sqltypes.Uint16: 5, sqltypes.Int24: 7, sqltypes.Uint24: 8,
	sqltypes.Int32: 10, sqltypes.Uint32: 10, sqltypes.Int64: 19, sqltypes.Uint64: 20,
}

// ClientType is the type that a client is told.
func (t Type) ClientType() sql.Type {
	if t.SQL != nil {
		return t.SQL
	}
	switch t.Kind {
	case Null:
		return types.Null
	case Int:
		if t.Length > 0 && t.Length <= 9 {
			return types.Int32
		}
		return types.Int64
	case Uint:
		return types.Uint64
	case Decimal:
		return types.MustCreateDecimalType(uint8(t.Precision), uint8(t.Scale))
	case Float:
		if t.Precision == 24 {
			return types.Float32
		}
		return types.Float64
	case Date:
		return types.Date
	case Datetime:
		return types.MustCreateDatetimeType(sqltypes.Datetime, t.Scale)
	case Timestamp:
		return types.MustCreateDatetimeType(sqltypes.Timestamp, t.Scale)
	case Duration:
		return types.Time
	case Year:
		return types.Year
	case JSON:
		return types.JSON
	case Bit:
		return types.MustCreateBitType(uint8(max(t.Length, 1)))
	case Enum:
		return types.MustCreateEnumType(t.Values, t.Coll)
	case Set:
		return types.MustCreateSetType(t.Values, t.Coll)
	}
	return t.clientString()
}

func (t Type) clientString() sql.Type {
	if t.Kind == Bytes {
		if t.Length == 0 || t.Length > 65535 {
			return types.LongBlob
		}
		return types.MustCreateBinary(sqltypes.VarBinary, int64(t.Length))
	}
	coll := t.Coll
	if coll == sql.Collation_Unspecified {
		coll = sql.Collation_Default
	}
	if t.Length == 0 || t.Length > 16383 {
		return types.CreateLongText(coll)
	}
	return types.MustCreateString(sqltypes.VarChar, int64(t.Length), coll)
}
