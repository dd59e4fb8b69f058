package recording

import (
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// boundText is the i-th value, from 1, of a prepared statement, as a literal, and how long that is.
// Of a long one it is the beginning.
func boundText(binds map[string]*querypb.BindVariable, i int) (string, int) {
	v := binds["v"+strconv.Itoa(i)]
	switch {
	case v == nil || v.Type == querypb.Type_NULL_TYPE:
		return "NULL", 4
	case sqltypes.IsIntegral(v.Type) || sqltypes.IsFloat(v.Type) || v.Type == querypb.Type_DECIMAL:
		return string(v.Value), len(v.Value)
	}
	t, more := v.Value, 0
	if len(t) > 4*maxLiteral {
		t, more = t[:4*maxLiteral], len(t)-4*maxLiteral
	}
	q := Quote(string(t))
	return q, len(q) + more
}

var escapes = strings.NewReplacer("\\", "\\\\", "'", "\\'", "\x00", "\\0", "\n", "\\n")

// Quote is a string as a literal.
func Quote(s string) string { return "'" + escapes.Replace(s) + "'" }
