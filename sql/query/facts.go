package query

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
)

// facts are what the session says about the meaning of a statement. The binder asks pace whether it
// may go on.
func (r *Runner) facts(ctx *sql.Context, pace context.Context, cat *catalog, params []expr.Node) *bind.Session {
	mode, places := sql.LoadSqlMode(ctx), given.IntVar(ctx, "div_precision_increment")
	return &bind.Session{
		Catalog: cat, Places: &places, DB: ctx.GetCurrentDatabase(), Mode: bind.ModeOf(mode.String()), Collation: ctx.GetCollation(),
		DefaultCollation: given.DefaultCollation, Params: params,
		SysVar:  func(name string, global bool) (expr.Node, error) { return given.SysVar(ctx, name, global) },
		UserVar: func(name string) (expr.Node, error) { return given.UserVar(ctx, name) },
		Check:   func() error { return bind.Interrupted(pace) },
	}
}
