package given

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
)

// Facts are what the session says about the meaning of a statement. The binder asks pace whether it
// may go on.
func Facts(ctx *sql.Context, pace context.Context, cat algebra.Catalog, params []expr.Node) *bind.Session {
	mode, places := sql.LoadSqlMode(ctx), IntVar(ctx, "div_precision_increment")
	return &bind.Session{
		Catalog: cat, Places: &places, DB: ctx.GetCurrentDatabase(), Mode: bind.ModeOf(mode.String()), Collation: ctx.GetCollation(),
		DefaultCollation: DefaultCollation, Params: params,
		SysVar:  func(name string, global, named bool) (expr.Node, error) { return SysVar(ctx, name, global, named) },
		UserVar: func(name string) (expr.Node, error) { return UserVar(ctx, name) },
		Check:   func() error { return bind.Interrupted(pace) },
	}
}
