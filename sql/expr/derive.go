package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// Collation is a collation with its rank, while several are merged.
type Collation struct {
	Id     sql.CollationID
	Coerce uint8
	ascii  bool
}

// ascii reports whether a node is a constant of plain ASCII, which fits every character set.
func ascii(n Node) bool {
	c, ok := n.(*Const)
	if !ok {
		return n.Type().Coercibility == CoerceNumeric
	}
	for i := 0; i < len(c.V.S); i++ {
		if c.V.S[i] >= 0x80 {
			return false
		}
	}
	return true
}

func collationOf(n Node) Collation {
	t := n.Type()
	c := Collation{t.Coll, t.Coercibility, ascii(n)}
	if t.Kind != Text && t.Kind != Bytes && t.Kind != Enum && t.Kind != Set && t.Kind != JSON && t.Kind != Null {
		c.Id, c.Coerce = sql.Collation_Default, CoerceNumeric
	}
	return c
}

func isUnicode(c sql.CollationID) bool { return strings.HasPrefix(c.CharacterSet().Name(), "utf") }

// superset reports whether every string of b can become one of a, which is ranked no lower.
func superset(a, b Collation) bool {
	if b.ascii {
		return true
	}
	if !isUnicode(a.Id) || a.Coerce > b.Coerce {
		return false
	}
	if a.Coerce < b.Coerce || !isUnicode(b.Id) {
		return true
	}
	return strings.HasPrefix(a.Id.CharacterSet().Name(), "utf8mb4") && b.Id.CharacterSet().MaxLength() < 4
}

func binSort(c sql.CollationID) bool { return strings.HasSuffix(c.Name(), "_bin") }

// merge is MySQL's aggregation of two collations. It returns false for a mix that is refused.
func merge(a, b Collation) (Collation, bool) {
	both := a.ascii && b.ascii
	pick := func(c Collation) (Collation, bool) {
		c.ascii = both
		return c, true
	}
	if a.Id != b.Id && a.Id.CharacterSet() != b.Id.CharacterSet() {
		return mergeCharsets(a, b, pick)
	}
	switch {
	case a.Coerce < b.Coerce || a.Id == b.Id && a.Coerce == b.Coerce:
		return pick(a)
	case b.Coerce < a.Coerce:
		return pick(b)
	case a.Coerce == CoerceExplicit:
		return a, false
	case binSort(a.Id):
		return pick(a)
	case binSort(b.Id):
		return pick(b)
	}
	bin, err := sql.ParseCollation(a.Id.CharacterSet().Name(), a.Id.CharacterSet().Name()+"_bin", true)
	if err != nil {
		bin = a.Id.CharacterSet().BinaryCollation()
	}
	return pick(Collation{Id: bin, Coerce: CoerceNone})
}

func mergeCharsets(a, b Collation, pick func(Collation) (Collation, bool)) (Collation, bool) {
	switch {
	case a.Id == sql.Collation_binary:
		if a.Coerce <= b.Coerce {
			return pick(a)
		}
		return pick(b)
	case b.Id == sql.Collation_binary:
		if b.Coerce <= a.Coerce {
			return pick(b)
		}
		return pick(a)
	case superset(a, b) && !(superset(b, a) && b.Coerce < a.Coerce):
		return pick(a)
	case superset(b, a):
		return pick(b)
	case a.Coerce < b.Coerce && b.Coerce >= CoerceSysconst:
		return pick(a)
	case b.Coerce < a.Coerce && a.Coerce >= CoerceSysconst:
		return pick(b)
	}
	return a, false
}

var coerceNames = [...]string{"EXPLICIT", "NONE", "IMPLICIT", "SYSCONST", "COERCIBLE", "NUMERIC", "IGNORABLE"}

// MergeCollations merges those of all arguments. For a comparison the result must be definite.
func MergeCollations(op string, compare bool, args ...Node) (Collation, error) {
	var c Collation
	first := true
	for _, a := range args {
		x := collationOf(a)
		if a.Type().Kind == Null {
			continue
		}
		if first {
			c, first = x, false
			continue
		}
		m, ok := merge(c, x)
		if !ok || compare && m.Coerce == CoerceNone && m.Id != c.Id {
			return c, errMix(op, args)
		}
		c = m
	}
	if first {
		return Collation{Id: sql.Collation_binary, Coerce: CoerceIgnorable}, nil
	}
	if compare && c.Coerce == CoerceNone {
		return c, errMix(op, args)
	}
	return c, nil
}

func errMix(op string, args []Node) error {
	var names []string
	for _, a := range args {
		c := collationOf(a)
		names = append(names, fmt.Sprintf("(%s,%s)", c.Id.Name(), coerceNames[c.Coerce]))
	}
	switch len(names) {
	case 2:
		return mysql.NewSQLError(1267, "HY000", "Illegal mix of collations %s and %s for operation '%s'", names[0], names[1], op)
	case 3:
		return mysql.NewSQLError(1270, "HY000", "Illegal mix of collations %s, %s, %s for operation '%s'",
			names[0], names[1], names[2], op)
	}
	return mysql.NewSQLError(1271, "HY000", "Illegal mix of collations for operation '%s'", op)
}

// Merge is the type of a value that is one of several: CASE, IF, COALESCE, UNION.
func Merge(op string, args ...Node) (Type, error) {
	t := TypeNull
	notNull := true
	for _, a := range args {
		x := a.Type()
		notNull = notNull && x.NotNull
		t = mergeTypes(t, x)
	}
	if t.Kind == Enum || t.Kind == Set { // a value that was one, like that of CASE, is text
		t = Type{Kind: Text, Length: t.TextLength()}
	}
	t.NotNull = notNull
	if t.Stringy() {
		c, err := MergeCollations(op, false, args...)
		if err != nil {
			return t, err
		}
		if op == "union" && c.Coerce == CoerceNone {
			return t, mysql.NewSQLError(1271, "HY000", "Illegal mix of collations for operation 'UNION'")
		}
		t.Coll, t.Coercibility = c.Id, c.Coerce
		if t.Coll == sql.Collation_binary {
			t.Kind = Bytes
		} else {
			t.Kind = Text
		}
	}
	t.SQL = nil
	if len(args) > 0 {
		t.SQL = commonSQL(args)
	}
	return t, nil
}

// commonSQL is the client's type that all arguments share, if they do.
func commonSQL(args []Node) sql.Type {
	var st sql.Type
	for _, a := range args {
		t := a.Type()
		if t.Kind == Null {
			continue
		}
		if t.SQL == nil || st != nil && !st.Equals(t.SQL) {
			return nil
		}
		st = t.SQL
	}
	return st
}

func mergeTypes(a, b Type) Type {
	switch {
	case a.Kind == Null:
		return b
	case b.Kind == Null:
		return a
	case a.Same(b) && a.Kind != Text && a.Kind != Bytes:
		return widest(a, b)
	case a.Integer() && b.Integer():
		return mergeInts(a, b)
	case a.Numeric() && b.Numeric():
		return mergeNumbers(a, b)
	case a.Temporal() && b.Temporal():
		return DatetimeType(max(a.Scale, b.Scale))
	}
	length := 0
	if x, y := a.TextLength(), b.TextLength(); x > 0 && y > 0 {
		length = max(x, y)
	}
	return Type{Kind: Text, Length: length, Coll: sql.Collation_Default, Coercibility: CoerceLiteral}
}

func widest(a, b Type) Type {
	t := a
	switch t.Kind {
	case Decimal:
		t.Precision = max(a.Precision-a.Scale, b.Precision-b.Scale) + t.Scale
	case Float:
		t.Precision = min(a.Precision, b.Precision)
	case Duration:
		t.Precision = max(a.Precision, b.Precision)
	}
	if a.Length == 0 || b.Length == 0 {
		t.Length = 0
	} else {
		t.Length = max(a.Length, b.Length)
	}
	t.Scale = max(a.Scale, b.Scale)
	return t
}

func mergeInts(a, b Type) Type {
	if a.Unsigned() == b.Unsigned() {
		t := TypeInt
		if a.Unsigned() {
			t = TypeUint
		}
		t.Length = max(a.Length, b.Length)
		return t
	}
	u := a
	if b.Unsigned() {
		u = b
	}
	if u.Kind == Year || u.Length > 0 && u.Length <= 10 {
		return TypeInt
	}
	return DecimalType(20, 0)
}

func mergeNumbers(a, b Type) Type {
	if a.Kind == Float || b.Kind == Float {
		return TypeFloat
	}
	x, y := a.AsDecimal(), b.AsDecimal()
	scale := max(x.Scale, y.Scale)
	return DecimalType(max(x.Precision-x.Scale, y.Precision-y.Scale)+scale, scale)
}

// AsDecimal is the DECIMAL that holds all values of an exact number.
func (t Type) AsDecimal() Type {
	switch t.Kind {
	case Decimal:
		return t
	case Date:
		return DecimalType(8, 0)
	case Datetime, Timestamp:
		return DecimalType(14+t.Scale, t.Scale)
	case Duration:
		return DecimalType(7+t.Scale, t.Scale)
	case Year:
		return DecimalType(4, 0)
	}
	n := t.Length
	if n == 0 || t.Kind == Bit {
		n = 20
		if t.Kind == Int {
			n = 19
		}
	}
	return DecimalType(n, 0)
}

// TextLength is the largest number of characters of a value as text; 0: not known.
func (t Type) TextLength() int {
	switch t.Kind {
	case Int:
		if t.Length == 0 {
			return 20
		}
		return t.Length + 1
	case Uint:
		if t.Length == 0 {
			return 20
		}
		return t.Length
	case Decimal:
		if t.Scale > 0 {
			return t.Precision + 2
		}
		return t.Precision + 1
	case Float:
		return 23
	case Date:
		return 10
	case Datetime, Timestamp:
		return fspLength(19, t.Scale)
	case Duration:
		return fspLength(10, t.Scale)
	case Year:
		return 4
	case Enum, Set:
		n := 0
		for _, v := range t.Values {
			if t.Kind == Set {
				n += len(v) + 1
			} else {
				n = max(n, len(v))
			}
		}
		return n
	case Text, Bytes:
		return t.Length
	}
	return 0
}

func fspLength(n, fsp int) int {
	if fsp > 0 {
		return n + 1 + fsp
	}
	return n
}

// compareType says in which type two values are compared, by the rules of MySQL's Arg_comparator.
func compareType(op string, l, r Node) (Type, error) {
	a, b := l.Type(), r.Type()
	switch {
	case a.Kind == Null || b.Kind == Null:
		if a.Kind == Null {
			a = b
		}
		return a.comparable(), nil
	case a.Kind == JSON || b.Kind == JSON:
		return TypeJSON, nil
	case a.Kind == Opaque || b.Kind == Opaque:
		return TypeBinary, nil
	case a.Temporal() || b.Temporal():
		return compareTemporal(l, r), nil
	case hexNumber(l) && b.Numeric() || hexNumber(r) && a.Numeric():
		return mergeCompare(numberOf(l), numberOf(r)), nil
	case a.Numeric() && b.Numeric():
		return mergeCompare(a, b), nil
	case a.Numeric() || b.Numeric():
		return compareMixed(l, r), nil
	case a.Kind == Enum && a.Same(b) && equality[op] && !slices.Contains(a.Values, ""):
		return a, nil // the numbers of the members are equal where their texts are
	}
	c, err := MergeCollations(op, true, l, r)
	return TextType(0, c.Id, c.Coerce), err
}

// equality are the operators that do not ask which of two values is the smaller one.
var equality = map[string]bool{"=": true, "<>": true, "<=>": true, "in": true}

func hexNumber(n Node) bool {
	c, ok := n.(*Const)
	return ok && c.Hex
}

func numberOf(n Node) Type {
	if hexNumber(n) {
		return TypeUint
	}
	return n.Type()
}

// comparable is the type in which values of one type are compared with each other.
func (t Type) comparable() Type {
	switch t.Kind {
	case Year, Bit:
		return TypeUint
	case Set:
		return TypeUint
	case Float: // a FLOAT of 32 bits, too
		return TypeFloat
	}
	return t
}

// mergeCompare is the type in which two numbers are compared.
func mergeCompare(a, b Type) Type {
	a, b = a.comparable(), b.comparable()
	switch {
	case a.Kind == Float || b.Kind == Float:
		return TypeFloat
	case a.Kind == b.Kind && a.Kind != Decimal:
		return a
	case a.Integer() && b.Integer():
		return DecimalType(20, 0)
	}
	return mergeNumbers(a, b)
}

// compareMixed compares a number with a string: as doubles. A constant string that is a whole
// number is exact beside an integer column.
func compareMixed(l, r Node) Type {
	for range 2 {
		if k, ok := r.(*Const); ok && l.Type().Integer() && k.V.Kind == Text && wholeNumber(k.V.S) {
			if _, ok := l.(*Col); ok {
				return mergeCompare(l.Type(), DecimalType(20, 0))
			}
		}
		if k, ok := r.(*Const); ok && l.Type().Kind == Enum && k.T.Numeric() {
			return mergeCompare(TypeUint, k.T)
		}
		l, r = r, l
	}
	a, b := l.Type(), r.Type()
	if (a.Kind == Enum || a.Kind == Set) && b.Numeric() {
		return mergeCompare(TypeUint, b)
	}
	if (b.Kind == Enum || b.Kind == Set) && a.Numeric() {
		return mergeCompare(a, TypeUint)
	}
	return TypeFloat
}

func wholeNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0 && len(s) < 19
}

// compareTemporal has dates and times on one side at least.
func compareTemporal(l, r Node) Type {
	if !l.Type().Temporal() {
		l, r = r, l
	}
	a, b := l.Type(), r.Type()
	_, constant := r.(*Const)
	switch {
	case a.Kind == b.Kind:
		return widest(a, b)
	case b.Kind == Year:
		return mergeCompare(a.AsDecimal(), TypeUint)
	case a.Kind == Duration && b.Kind == Duration:
		return widest(a, b)
	case a.Temporal() && b.Temporal():
		return DatetimeType(6)
	case a.Kind == Duration && (b.Stringy() || constant):
		return TimeType(6)
	case b.Stringy() || b.Kind == Enum || constant:
		return DatetimeType(6)
	case b.Kind == Float:
		return TypeFloat
	case b.Numeric():
		return mergeNumbers(a.AsDecimal(), b)
	}
	return DatetimeType(6)
}
