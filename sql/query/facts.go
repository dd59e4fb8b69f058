package query

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/zone"
)

// facts are what the session says about the meaning of a statement. The binder asks pace whether it
// may go on.
func (r *Runner) facts(ctx *sql.Context, pace context.Context, cat *catalog, params []expr.Node) *bind.Session {
	mode, places := sql.LoadSqlMode(ctx), intVar(ctx, "div_precision_increment")
	return &bind.Session{
		Catalog: cat, Places: &places, DB: ctx.GetCurrentDatabase(), Mode: bind.ModeOf(mode.String()), Collation: ctx.GetCollation(),
		DefaultCollation: defaultCollation, Params: params,
		SysVar:  func(name string, global bool) (expr.Node, error) { return sysVar(ctx, name, global) },
		UserVar: func(name string) (expr.Node, error) { return userVar(ctx, name) },
		Check:   func() error { return bind.Interrupted(pace) },
	}
}

func defaultCollation(charset string) (sql.CollationID, bool) {
	c, err := sql.ParseCharacterSet(charset)
	if err != nil || c == sql.CharacterSet_Unspecified {
		return 0, false
	}
	return c.DefaultCollation(), true
}

func sysVar(ctx *sql.Context, name string, global bool) (expr.Node, error) {
	if global {
		_, v, ok := sql.SystemVariables.GetGlobal(name)
		if !ok {
			return nil, left("system variable")
		}
		return given.Constant(v, ctx.GetCollation())
	}
	if strings.EqualFold(name, zone.MomentVariable) {
		return expr.NumberConst(strconv.FormatFloat(float64(zone.Now(ctx).UnixMicro())/1e6, 'f', 6, 64))
	}
	v, err := ctx.GetSessionVariable(ctx, name)
	if err != nil {
		return nil, left("system variable")
	}
	return given.Constant(v, ctx.GetCollation())
}

// environment is what expressions know of the session.
func (r *Runner) environment(ctx *sql.Context) (*expr.Env, error) {
	mode := sql.LoadSqlMode(ctx)
	e := &expr.Env{
		Ctx: ctx, Now: zone.Now(ctx), Clock: time.Now, Box: ctx,
		GroupConcatMax: intVar(ctx, "group_concat_max_len"),
		MaxPacket:      intVar(ctx, "max_allowed_packet"),
		WeekMode:       intVar(ctx, "default_week_format"),
		CTEDepth:       intVar(ctx, "cte_max_recursion_depth"),
		Held:           r.held,
	}
	for name, bit := range map[string]expr.Mode{
		"NO_UNSIGNED_SUBTRACTION": expr.NoUnsignedSubtraction, "ERROR_FOR_DIVISION_BY_ZERO": expr.ErrorForDivisionByZero,
		"NO_ZERO_DATE": expr.NoZeroDate, "NO_ZERO_IN_DATE": expr.NoZeroInDate, "ALLOW_INVALID_DATES": expr.AllowInvalidDates,
		"PAD_CHAR_TO_FULL_LENGTH": expr.PadCharToFullLength, "NO_BACKSLASH_ESCAPES": expr.NoBackslashEscapes,
		"STRICT_TRANS_TABLES": expr.Strict, "STRICT_ALL_TABLES": expr.Strict,
		"TRADITIONAL": expr.Strict | expr.NoZeroDate | expr.NoZeroInDate | expr.ErrorForDivisionByZero,
	} {
		if mode.ModeEnabled(name) {
			e.Mode |= bit
		}
	}
	e.Mode |= expr.ErrorForDivisionByZero // a SELECT warns in any mode, as that of go-mysql-server does
	loc, err := zone.Of(ctx)
	if err != nil {
		return nil, err
	}
	e.Loc, e.Now = loc, e.Now.In(loc)
	e.UserVar = func(name string) (expr.Value, expr.Type, error) { return readVar(ctx, name) }
	e.SetUserVar = func(name string, x expr.Value, t expr.Type) error { return writeVar(ctx, name, x, t) }
	e.Warn = func(code int, msg string) { ctx.Warn(code, "%s", msg) }
	e.TellID = func(id uint64) { ctx.GetLastQueryInfo().LastInsertId.Store(int64(id)) }
	client, info := ctx.Client(), ctx.GetLastQueryInfo()
	e.Facts = expr.Facts{
		Version: version(), Database: ctx.GetCurrentDatabase(), User: client.User + "@" + client.Address,
		CurrentUser: client.User + "@" + client.Address, ConnectionID: uint64(ctx.Session.ID()),
		LastInsertID: uint64(info.LastInsertId.Load()), RowCount: info.RowCount.Load(), FoundRows: info.FoundRows.Load(),
	}
	return e, nil
}

// version is what VERSION() is.
var version = sync.OnceValue(func() string {
	_, v, _ := sql.SystemVariables.GetGlobal("version")
	return fmt.Sprint(v, "-Godwit")
})

func intVar(ctx *sql.Context, name string) int {
	v, err := ctx.GetSessionVariable(ctx, name)
	if n, ok := schema.ToUint64(v); err == nil && ok { // once it is set, it is unsigned
		return int(min(n, math.MaxInt))
	}
	n, _ := schema.ToInt64(v)
	return int(n)
}
