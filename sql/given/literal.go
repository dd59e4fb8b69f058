package given

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/godwitdb/godwit/sql/expr"
)

// Literal is a value as SQL.
func Literal(v expr.Value, t expr.Type) string {
	if v.IsNull() {
		return "NULL"
	}
	switch v.Kind {
	case expr.Int, expr.Uint, expr.Year, expr.Decimal:
		return v.Text(t)
	case expr.Float:
		return strconv.FormatFloat(v.F, 'e', -1, 64)
	case expr.Bytes:
		return "x'" + hex.EncodeToString([]byte(v.S)) + "'"
	case expr.Bit:
		return strconv.FormatUint(uint64(v.I), 10)
	}
	return "'" + strings.NewReplacer("'", "''", "\\", "\\\\").Replace(v.Text(t)) + "'"
}
