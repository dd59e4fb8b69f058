package expr

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// Literal is a value as SQL.
func Literal(v Value, t Type) string {
	if v.IsNull() {
		return "NULL"
	}
	switch v.Kind {
	case Int, Uint, Year, Decimal:
		return v.Text(t)
	case Float:
		return strconv.FormatFloat(v.F, 'e', -1, 64)
	case Bytes:
		return "x'" + hex.EncodeToString([]byte(v.S)) + "'"
	case Bit:
		return strconv.FormatUint(uint64(v.I), 10)
	}
	return "'" + strings.NewReplacer("'", "''", "\\", "\\\\").Replace(v.Text(t)) + "'"
}
