package given

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/zone"
)

// DefaultCollation is the one that a character set has by name.
func DefaultCollation(charset string) (sql.CollationID, bool) {
	c, err := sql.ParseCharacterSet(charset)
	if err != nil || c == sql.CharacterSet_Unspecified {
		return 0, false
	}
	return c.DefaultCollation(), true
}

// SysVar is a system variable as a constant. named: the statement names its scope.
func SysVar(ctx *sql.Context, name string, global, named bool) (expr.Node, error) {
	if err := session.WrongScope(name, global); err != nil && named {
		return nil, &bind.Refusal{Err: err}
	}
	if global {
		_, v, ok := sql.SystemVariables.GetGlobal(name)
		if !ok {
			return nil, left("system variable")
		}
		return Constant(v, ctx.GetCollation())
	}
	if strings.EqualFold(name, zone.MomentVariable) {
		return expr.NumberConst(strconv.FormatFloat(float64(zone.Now(ctx).UnixMicro())/1e6, 'f', 6, 64))
	}
	v, err := ctx.GetSessionVariable(ctx, name)
	if err != nil {
		return nil, left("system variable")
	}
	return Constant(v, ctx.GetCollation())
}

// Environment is what expressions know of the session; held is [expr.Env.Held].
func Environment(ctx *sql.Context, held func(int64) (func(), error)) (*expr.Env, error) {
	mode := sql.LoadSqlMode(ctx)
	e := &expr.Env{
		Ctx: ctx, Now: zone.Now(ctx), Clock: time.Now, Box: ctx,
		GroupConcatMax: IntVar(ctx, "group_concat_max_len"),
		MaxPacket:      IntVar(ctx, "max_allowed_packet"),
		WeekMode:       IntVar(ctx, "default_week_format"),
		CTEDepth:       IntVar(ctx, "cte_max_recursion_depth"),
		Held:           held,
	}
	for name, bit := range map[string]expr.Mode{
		"ERROR_FOR_DIVISION_BY_ZERO": expr.ErrorForDivisionByZero, "NO_ZERO_DATE": expr.NoZeroDate,
		"NO_ZERO_IN_DATE": expr.NoZeroInDate, "NO_BACKSLASH_ESCAPES": expr.NoBackslashEscapes,
		"TIME_TRUNCATE_FRACTIONAL": expr.TruncateFractions,
		"STRICT_TRANS_TABLES":      expr.Strict, "STRICT_ALL_TABLES": expr.Strict,
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
	e.UserVar = func(name string) (expr.Value, expr.Type, error) { return ReadVar(ctx, name) }
	e.SetUserVar = func(name string, x expr.Value, t expr.Type) error { return WriteVar(ctx, name, x, t) }
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

// IntVar is a system variable of whole numbers; 0 if it is none.
func IntVar(ctx *sql.Context, name string) int {
	v, err := ctx.GetSessionVariable(ctx, name)
	if n, ok := schema.ToUint64(v); err == nil && ok { // once it is set, it is unsigned
		return int(min(n, math.MaxInt))
	}
	n, _ := schema.ToInt64(v)
	return int(n)
}

// UserVar is a user variable as a constant.
func UserVar(ctx *sql.Context, name string) (expr.Node, error) {
	typ, v, err := ctx.GetUserVariable(ctx, name)
	if err != nil {
		return nil, left("user variable")
	}
	coll := ctx.GetCollation()
	switch x := v.(type) {
	case []byte:
		return expr.TextConst(string(x), sql.Collation_binary), nil
	case string:
		if t, ok := typ.(sql.StringType); ok && t.Collation() == sql.Collation_binary {
			coll = sql.Collation_binary
		}
	}
	return Constant(v, coll)
}

// ReadVar reads a user variable while the statement runs.
func ReadVar(ctx *sql.Context, name string) (expr.Value, expr.Type, error) {
	n, err := UserVar(ctx, name)
	if err != nil {
		return expr.Value{}, expr.TypeNull, err
	}
	c, ok := n.(*expr.Const)
	if !ok {
		return expr.Value{}, expr.TypeNull, left("user variable")
	}
	return c.V, c.T, nil
}

// WriteVar assigns a user variable.
func WriteVar(ctx *sql.Context, name string, x expr.Value, t expr.Type) error {
	v, typ, err := expr.UserVarValue(x, t)
	if err != nil {
		return err
	}
	return ctx.SetUserVariable(ctx, name, v, typ)
}
