package session

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// idleModes are the modes of sql_mode that change nothing here.
var idleModes = []string{"REAL_AS_FLOAT", "ALLOW_INVALID_DATES", "PAD_CHAR_TO_FULL_LENGTH"}

// WarnOfModes warns (1618) of the modes that a new value of a variable, which is sql_mode,
// turns on without an effect.
func WarnOfModes(ctx *sql.Context, name string, to sql.Expression, row sql.Row) {
	if name != sqlModeVar {
		return
	}
	def, _, _ := sql.SystemVariables.GetGlobal(sqlModeVar)
	set, ok := def.GetType().(sql.SystemVariableType)
	v, err := to.Eval(ctx, row)
	if err == nil && v != nil && ok {
		v, _, err = set.Convert(ctx, v)
	}
	if err != nil || v == nil || !ok {
		return // it is DEFAULT, or the engine words what is wrong with it
	}
	text, err := set.EncodeValue(v)
	if err != nil {
		return
	}
	on := "," + strings.ToUpper(text) + ","
	for _, m := range idleModes {
		if strings.Contains(on, ","+m+",") {
			ctx.Session.Warn(&sql.Warning{Level: "Warning", Code: 1618, // WARN_OPTION_IGNORED
				Message: fmt.Sprintf("the mode %s of sql_mode has no effect here", m)})
		}
	}
}
