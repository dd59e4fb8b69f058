package fast

import (
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/zone"
)

// A TIMESTAMP is stored in UTC, and a session writes and sees it by its own clock. The present is
// that of the statement.

// givenByTable is a value that the table gives a column: its default, or that of ON UPDATE.
type givenByTable struct {
	pos int
	lit Literal
}

// present is NOW() as a constant; ok is false if an expression is anything else.
func present(e sqlparser.Expr) (Literal, bool) {
	fn, ok := e.(*sqlparser.FuncExpr)
	if !ok || !fn.Qualifier.IsEmpty() || fn.Distinct || fn.Over != nil || len(fn.Exprs) > 1 {
		return Literal{}, false
	}
	switch fn.Name.Lowered() {
	case "now", "current_timestamp", "localtime", "localtimestamp":
	default:
		return Literal{}, false
	}
	if len(fn.Exprs) == 0 {
		return Literal{LitNow, "0"}, true
	}
	a, ok := fn.Exprs[0].(*sqlparser.AliasedExpr)
	if !ok {
		return Literal{}, false
	}
	v, ok := a.Expr.(*sqlparser.SQLVal)
	if !ok || v.Type != sqlparser.IntVal {
		return Literal{}, false
	}
	return Literal{LitNow, string(v.Val)}, true
}

// givenDefault is what a column becomes that an INSERT leaves out; ok is false if that takes more
// than a constant or the time.
func givenDefault(c *schema.Column) (Literal, bool) {
	d := c.Desc.Default
	if digits, ok := d.Now(); ok {
		return Literal{LitNow, strconv.Itoa(digits)}, true
	}
	// What escapes mean depends on the mode of who declared it.
	if d.Parenthesized || strings.ContainsAny(d.Text, `\"`) {
		return Literal{}, false
	}
	stmt, err := sqlparser.Parse("SELECT " + d.Text)
	if err != nil {
		return Literal{}, false
	}
	sel, ok := stmt.(*sqlparser.Select)
	if !ok || len(sel.SelectExprs) != 1 {
		return Literal{}, false
	}
	a, ok := sel.SelectExprs[0].(*sqlparser.AliasedExpr)
	if !ok {
		return Literal{}, false
	}
	switch e := a.Expr.(type) {
	case *sqlparser.NullVal:
		return Literal{LitNull, ""}, c.Desc.Nullable
	case sqlparser.BoolVal:
		if e {
			return Literal{LitInt, "1"}, true
		}
		return Literal{LitInt, "0"}, true
	}
	l, ok := Constant(a.Expr)
	if ok && l.Kind == LitString {
		l.Kind = numberIn(c, l.Text)
	}
	return l, ok
}

// numberIn is what kind of constant the text of a default is: those of numbers may be in quotes.
func numberIn(c *schema.Column, text string) LiteralKind {
	digits := strings.TrimPrefix(text, "-")
	whole, fraction, dotted := strings.Cut(digits, ".")
	number := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	switch {
	case c.Integer() && number(digits):
		return LitInt
	case c.Kind == schema.KindDecimal && number(whole) && (!dotted || number(fraction)):
		return LitDecimal
	}
	return LitString
}

// giveDefault notes what a column of an INSERT becomes that is not given; false if the engine has
// to find that out.
func (p *boundPlan) giveDefault(pos int) bool {
	c := p.t.Cols[pos]
	if c.Desc.AutoInc || c.Desc.Default == nil && c.Desc.Nullable {
		return true
	}
	if c.Desc.Default == nil {
		return false
	}
	l, ok := givenDefault(c)
	if ok && l.Kind != LitNull {
		p.own = append(p.own, givenByTable{pos, l})
	}
	return ok
}

// touch notes what ON UPDATE does to the columns that an UPDATE does not set; false if the engine
// has to do it.
func (p *boundPlan) touch() bool {
	set := make([]bool, len(p.t.Cols))
	for _, s := range p.sets {
		set[s.pos] = true
	}
	for pos, c := range p.t.Cols {
		if c.Desc.OnUpdate == nil || set[pos] {
			continue
		}
		digits, ok := c.Desc.OnUpdate.Now()
		if !ok {
			return false
		}
		p.own = append(p.own, givenByTable{pos, Literal{LitNow, strconv.Itoa(digits)}})
	}
	return true
}

// isTimestamp reports whether what a column shows depends on the session's time zone.
func isTimestamp(c *schema.Column) bool {
	return c.Kind == schema.KindDatetime && c.Type.Type() == sqltypes.Timestamp
}

// asks reports whether a plan has to know the session's time zone.
func (p *boundPlan) asks(k Kind) bool {
	if k == Select {
		return len(p.moments) > 0
	}
	for _, c := range p.t.Cols {
		if c.Kind == schema.KindDatetime {
			return true
		}
	}
	return false
}

// clocks are the types of what a clock shows, by digits of the second.
var clocks = func() (out [types.MaxDatetimePrecision + 1]sql.Type) {
	for n := range out {
		out[n] = types.MustCreateDatetimeType(sqltypes.Datetime, n)
	}
	return out
}()

// clockOf is the type of what a clock shows of a TIMESTAMP. Its range is wider: a TIMESTAMP may be
// shown later than the last one that there is.
func clockOf(c *schema.Column) sql.Type { return clocks[c.Type.(sql.DatetimeType).Precision()] }

// inRange reports whether TIMESTAMP has a moment.
func inRange(at time.Time) bool {
	n := at.Unix()
	return n >= 1 && n <= 1<<31-1
}

// momentOf is the TIMESTAMP that a text by the session's clock stands for.
func momentOf(ctx *sql.Context, c *schema.Column, text string) (any, bool) {
	if !plainTime(text, false) {
		return nil, false
	}
	v, in, err := clockOf(c).Convert(ctx, text)
	at, ok := v.(time.Time)
	if err != nil || in != sql.InRange || !ok {
		return nil, false
	}
	at, skipped, err := zone.Instant(ctx, at)
	return at, err == nil && !skipped && inRange(at)
}

// presentFor is the statement's time for a column, with so many digits of the second.
func presentFor(ctx *sql.Context, c *schema.Column, digits string, loc *time.Location) (any, bool) {
	t, ok := c.Type.(sql.DatetimeType)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || c.Kind != schema.KindDatetime || n > t.Precision() || t.Type() == sqltypes.Date {
		return nil, false
	}
	unit := time.Second
	for range n {
		unit /= 10
	}
	at := zone.Now(ctx).UTC().Truncate(unit)
	if isTimestamp(c) {
		return at, inRange(at)
	}
	return byClock(at, loc), true
}

// byClock is a moment as a clock shows it, as the engine has values: in UTC.
func byClock(at time.Time, loc *time.Location) time.Time {
	if loc == time.UTC || at.Year() <= 0 {
		return at
	}
	at = at.In(loc)
	y, m, d := at.Date()
	hour, minute, second := at.Clock()
	return time.Date(y, m, d, hour, minute, second, at.Nanosecond(), time.UTC)
}
