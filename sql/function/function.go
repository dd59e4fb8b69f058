package function

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// table has all functions, by their names in lower case.
var table = map[string]sql.Function{
	"sign": sql.Function1{Name: "sign", Fn: newSign},
	"week": sql.FunctionN{Name: "week", Fn: newWeek},

	BooleanMode: sql.Function1{Name: BooleanMode, Fn: newBooleanMode},
}

// Lookup finds a function by its name, in any case; ok is false if it is the engine's, or nobody's.
func Lookup(name string) (f sql.Function, ok bool) {
	name = strings.ToLower(name)
	if f, ok = table[name]; !ok {
		f, ok = capped()[name]
	}
	return f, ok
}
