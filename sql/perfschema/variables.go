package perfschema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// Variables of other sessions belong to their goroutines: the tables by thread show those of the
// session that asks.
var variableTables = []live{
	{name: "global_status", columns: "@variable", rows: func(_ *Env, ctx *sql.Context) ([]sql.Row, error) { return texts(globalStatus(ctx)), nil }},
	{name: "global_variables", columns: "@variable", rows: func(*Env, *sql.Context) ([]sql.Row, error) {
		return texts(sql.SystemVariables.GetAllGlobalVariables()), nil
	}},
	{name: "session_status", columns: "@variable", rows: func(_ *Env, ctx *sql.Context) ([]sql.Row, error) { return texts(sessionStatus(ctx)), nil }},
	{name: "session_variables", columns: "@variable", rows: func(_ *Env, ctx *sql.Context) ([]sql.Row, error) {
		return texts(ctx.GetAllSessionVariables()), nil
	}},
	{name: "status_by_thread", columns: "THREAD_ID u64!, @variable", rows: func(_ *Env, ctx *sql.Context) ([]sql.Row, error) {
		return byThread(ctx, values(ctx.Session.GetAllStatusVariables(ctx))), nil
	}},
	{name: "variables_by_thread", columns: "THREAD_ID u64!, @variable", rows: func(_ *Env, ctx *sql.Context) ([]sql.Row, error) {
		return byThread(ctx, ctx.GetAllSessionVariables()), nil
	}},
	{name: "variables_info", columns: "VARIABLE_NAME varchar(64)!, VARIABLE_SOURCE varchar(12), VARIABLE_PATH varchar(1024), " +
		"MIN_VALUE varchar(64), MAX_VALUE varchar(64), SET_TIME timestamp(6), SET_USER char(32), SET_HOST char(255)",
		rows: variablesInfo},
	{name: "persisted_variables", columns: "VARIABLE_NAME varchar(64)!, VARIABLE_VALUE varchar(1024)",
		rows: func(*Env, *sql.Context) ([]sql.Row, error) { return nil, nil }},
}

func globalStatus(*sql.Context) map[string]any { return values(sql.StatusVariables.NewGlobalMap()) }

func sessionStatus(ctx *sql.Context) map[string]any {
	all := globalStatus(ctx)
	for name, v := range values(ctx.Session.GetAllStatusVariables(ctx)) {
		all[name] = v
	}
	return all
}

func values(of map[string]sql.StatusVarValue) map[string]any {
	out := map[string]any{}
	for name, v := range of {
		out[name] = v.Value()
	}
	return out
}

// byThread are rows of the session's own thread.
func byThread(ctx *sql.Context, all map[string]any) (out []sql.Row) {
	_, id := mine(ctx)
	for _, r := range texts(all) {
		out = append(out, append(sql.Row{id}, r...))
	}
	return out
}

// texts are rows of names and values, as SHOW shows them.
func texts(all map[string]any) []sql.Row {
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

// variablesInfo says which variables have a value other than the one they are compiled with. When
// and by whom it was set nobody notes.
func variablesInfo(_ *Env, ctx *sql.Context) (out []sql.Row, err error) {
	for name, now := range ctx.GetAllSessionVariables() {
		source := "COMPILED"
		if v, _, ok := sql.SystemVariables.GetGlobal(name); ok && fmt.Sprint(v.GetDefault()) != fmt.Sprint(now) {
			source = "DYNAMIC"
		}
		out = append(out, sql.Row{name, source, nil, "0", "0", nil, nil, nil})
	}
	slices.SortFunc(out, func(a, b sql.Row) int { return strings.Compare(a[0].(string), b[0].(string)) })
	return out, nil
}
