package schema

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// TimeType is the type TIME with the digits of the second that a statement declares. The engine's
// own type has six digits always, and only that one is compared right by the engine: so this one
// stands in definitions and in descriptions of results, the engine's in the schemas of tables.
type TimeType struct {
	types.TimespanType_
	Digits int
}

// MaxTimeDigits is how many digits of a second are stored.
const MaxTimeDigits = 6

// microsOf are the microseconds of the last digit that a TIME has.
var microsOf = [MaxTimeDigits + 1]int64{1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1}

// String implements sql.Type.
func (t TimeType) String() string {
	if t.Digits == 0 {
		return "time"
	}
	return "time(" + strconv.Itoa(t.Digits) + ")"
}

// Equals implements sql.Type.
func (t TimeType) Equals(o sql.Type) bool {
	x, ok := o.(TimeType)
	return ok && x.Digits == t.Digits
}

// MaxTextResponseByteLength implements sql.Type.
func (t TimeType) MaxTextResponseByteLength(*sql.Context) uint32 { return TimeLength(t.Digits) }

// TimeLength is the length of the longest TIME as text.
func TimeLength(digits int) uint32 {
	if digits == 0 {
		return 10
	}
	return uint32(11 + digits)
}

// SQL implements sql.Type.
func (t TimeType) SQL(_ *sql.Context, dest []byte, v any) (sqltypes.Value, error) {
	if v == nil {
		return sqltypes.NULL, nil
	}
	x, err := t.ConvertToTimespan(v)
	if err != nil {
		return sqltypes.Value{}, err
	}
	return sqltypes.MakeTrusted(sqltypes.Time, TimeText(x.AppendBytes(dest), t.Digits)), nil
}

// TimeText cuts a TIME with six digits of the second to those of its type.
func TimeText(b []byte, digits int) []byte {
	if digits == 0 {
		return b[:len(b)-1-MaxTimeDigits]
	}
	return b[:len(b)-MaxTimeDigits+digits]
}

// timeDigits are the digits of the second in the text of a type TIME.
func timeDigits(text string) (digits int, ok bool) {
	rest, ok := strings.CutPrefix(text, "time")
	if !ok || rest == "" {
		return 0, ok
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(rest, "("), ")"))
	return n, err == nil && n >= 0 && n <= MaxTimeDigits
}

// Shown is the type of a column as statements declare it.
func (c *Column) Shown() sql.Type {
	if c.Kind == KindTimespan {
		return TimeType{Digits: c.Digits}
	}
	return c.Type
}

// AsKept is a row as its columns keep it: each TIME is rounded to the digits that its column has,
// half a digit away from zero, and a CHAR has no spaces at its end, as MySQL shows one. The row
// itself stays as it is.
func (t *Table) AsKept(row sql.Row) sql.Row {
	copied := false
	for i, c := range t.Cols[:min(len(t.Cols), len(row))] {
		kept, same := c.kept(row[i])
		if same {
			continue
		}
		if !copied {
			row, copied = row.Copy(), true
		}
		row[i] = kept
	}
	return row
}

// kept is a value as its column keeps it; same: as it is.
func (c *Column) kept(v any) (kept any, same bool) {
	switch {
	case c.Kind == KindTimespan && c.Digits != MaxTimeDigits:
		x, ok := v.(types.Timespan)
		if unit := microsOf[c.Digits]; ok && int64(x)%unit != 0 {
			return roundTime(int64(x), unit), false
		}
	case c.Kind == KindString:
		x, ok := v.(string)
		if ok && strings.HasSuffix(x, " ") && c.Type.Type() == sqltypes.Char {
			return strings.TrimRight(x, " "), false
		}
	}
	return v, true
}

// shortTime is a TIME without zeros at the end of its fraction.
func shortTime(t types.Timespan) string {
	s := t.String()
	if strings.Contains(s, ".") {
		s = strings.TrimRight(s, "0")
	}
	return s
}

func roundTime(us, unit int64) types.Timespan {
	half := unit / 2
	if us < 0 {
		half = -half
	}
	return types.Time.MicrosecondsToTimespan((us + half) / unit * unit)
}
