package statements

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/virtual"
)

// variableTables are the system variables and counters that SHOW VARIABLES and SHOW STATUS show, as
// tables.
func variableTables() []virtual.Table {
	table := func(name, comment string, all func(*sql.Context) map[string]any) virtual.Table {
		return virtual.Table{Name: name, Comment: comment, Columns: variableColumns,
			Rows: func(ctx *sql.Context) ([]sql.Row, error) { return variables(all(ctx)), nil }}
	}
	global := func(*sql.Context) map[string]any { return sql.SystemVariables.GetAllGlobalVariables() }
	session := func(ctx *sql.Context) map[string]any { return ctx.GetAllSessionVariables() }
	globalStatus := func(*sql.Context) map[string]any { return values(sql.StatusVariables.NewGlobalMap()) }
	sessionStatus := func(ctx *sql.Context) map[string]any {
		all := globalStatus(ctx)
		for name, v := range values(ctx.Session.GetAllStatusVariables(ctx)) {
			all[name] = v
		}
		return all
	}
	return []virtual.Table{
		table("global_status", "counters of this node", globalStatus),
		table("global_variables", "system variables of this node", global),
		table("session_status", "counters, those of the session where it has its own", sessionStatus),
		table("session_variables", "system variables of the session", session),
	}
}

var variableColumns = sql.Schema{
	{Name: "VARIABLE_NAME", Type: types.MustCreateStringWithDefaults(sqltypes.VarChar, 64)},
	{Name: "VARIABLE_VALUE", Type: types.MustCreateStringWithDefaults(sqltypes.VarChar, 1024), Nullable: true},
}

func values(of map[string]sql.StatusVarValue) map[string]any {
	out := map[string]any{}
	for name, v := range of {
		out[name] = v.Value()
	}
	return out
}

// variables are rows of names and values, as SHOW shows them.
func variables(all map[string]any) []sql.Row {
	var out []sql.Row
	for name, v := range all {
		switch x := v.(type) {
		case nil:
			v = nil
		case int8:
			if v = fmt.Sprint(x); x == 0 || x == 1 {
				v = [...]string{"OFF", "ON"}[x]
			}
		default:
			v = fmt.Sprint(x)
		}
		out = append(out, sql.Row{name, v})
	}
	slices.SortFunc(out, func(a, b sql.Row) int { return strings.Compare(a[0].(string), b[0].(string)) })
	return out
}
