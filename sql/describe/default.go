package describe

import (
	"fmt"
	"regexp"
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

// defaultKind says what the default of a column is.
type defaultKind uint8

const (
	noDefault defaultKind = iota
	literalDefault
	nowDefault // CURRENT_TIMESTAMP
	exprDefault
)

// now words the present as MySQL does; ok is false if the expression is something else.
func now(e *schema.ExprDesc) (string, bool) {
	digits, ok := e.Now()
	switch {
	case !ok:
		return "", false
	case digits == 0:
		return "CURRENT_TIMESTAMP", true
	}
	return "CURRENT_TIMESTAMP(" + strconv.Itoa(digits) + ")", true
}

// defaultOf is the default of a column, without quotes or the parentheses of an expression.
func defaultOf(ctx *sql.Context, c *schema.Column) (string, defaultKind) {
	d := c.Desc.Default
	if d == nil {
		return "", noDefault
	}
	if text, ok := now(d); ok {
		return text, nowDefault
	}
	if v, ok := literal(d.Text); ok && !d.Parenthesized {
		if v == nil {
			return "", noDefault
		}
		return zoned(ctx, c, valueText(ctx, c, v)), literalDefault
	}
	return expression(d.Text), exprDefault
}

// zoned is a default as the session's clock shows it: definitions have those of TIMESTAMPs in UTC.
func zoned(ctx *sql.Context, c *schema.Column, text string) string {
	if c.Type.Type() != sqltypes.Timestamp {
		return text
	}
	loc, err := zone.Of(ctx)
	if err != nil || loc == time.UTC {
		return text
	}
	if shown, ok := zone.Shown("'"+text+"'", loc); ok {
		return shown
	}
	return text
}

var reCall = regexp.MustCompile("(?s)^(?:`[^`]*`|\\w+)(\\(.*)?$")

// expression is the text of an expression as MySQL keeps it: operators stand in parentheses, calls
// and names do not.
func expression(text string) string {
	text = inner(text)
	if m := reCall.FindStringSubmatch(text); m != nil && (m[1] == "" || closes(m[1]) == len(m[1])-1) {
		return text
	}
	if _, ok := literal(text); ok {
		return text
	}
	return "(" + text + ")"
}

// inner is an expression without the parentheses that it stands in.
func inner(text string) string {
	for len(text) > 1 && text[0] == '(' && closes(text) == len(text)-1 {
		text = text[1 : len(text)-1]
	}
	return text
}

// closes is where the parenthesis is closed with which a text begins, -1 if nowhere.
func closes(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"', '`':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && c != '`' {
					i++
				}
			}
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// literal is the value of a literal; ok is false if the text is none. NULL is nil.
func literal(text string) (v any, ok bool) {
	stmt, err := sqlparser.Parse("SELECT " + text)
	if err != nil {
		return nil, false
	}
	sel, ok := stmt.(*sqlparser.Select)
	if !ok || len(sel.SelectExprs) != 1 {
		return nil, false
	}
	e, ok := sel.SelectExprs[0].(*sqlparser.AliasedExpr)
	if !ok {
		return nil, false
	}
	return literalOf(e.Expr)
}

func literalOf(e sqlparser.Expr) (v any, ok bool) {
	switch e := e.(type) {
	case *sqlparser.ParenExpr:
		return literalOf(e.Expr)
	case *sqlparser.NullVal:
		return nil, true
	case sqlparser.BoolVal:
		if e {
			return "1", true
		}
		return "0", true
	case *sqlparser.UnaryExpr:
		if s, is := e.Expr.(*sqlparser.SQLVal); is && e.Operator == sqlparser.UMinusStr && s.Type != sqlparser.StrVal {
			if x, ok := literalOf(s); ok {
				return "-" + fmt.Sprint(x), true
			}
		}
		return nil, false
	case *sqlparser.SQLVal:
		return sqlVal(e)
	}
	return nil, false
}

func sqlVal(e *sqlparser.SQLVal) (v any, ok bool) {
	switch e.Type {
	case sqlparser.StrVal, sqlparser.FloatVal:
		return string(e.Val), true
	case sqlparser.IntVal:
		if n, err := strconv.ParseInt(string(e.Val), 10, 64); err == nil {
			return n, true
		}
		return string(e.Val), true
	case sqlparser.BitVal:
		n, err := strconv.ParseUint(string(e.Val), 2, 64)
		return n, err == nil
	case sqlparser.HexNum:
		n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(string(e.Val)), "0x"), 16, 64)
		return n, err == nil
	}
	return nil, false
}

// valueText is a value as a column of the type shows it.
func valueText(ctx *sql.Context, c *schema.Column, v any) string {
	typ := c.Shown()
	x, _, err := typ.Convert(ctx, v)
	if err != nil || x == nil {
		return fmt.Sprint(v)
	}
	if span, ok := x.(types.Timespan); ok && c.Kind == schema.KindTimespan {
		x = types.Timespan(rounded(int64(span), c.Digits))
	}
	if n, ok := x.(uint64); ok && typ.Type() == sqltypes.Bit {
		return "b'" + strconv.FormatUint(n, 2) + "'"
	}
	if types.IsText(typ) {
		if s, ok := x.(string); ok {
			return s
		}
	}
	out, err := typ.SQL(ctx, nil, x)
	if err != nil {
		return fmt.Sprint(v)
	}
	return out.ToString()
}

// rounded are microseconds rounded to digits of the second, half a digit away from zero, as rows
// keep them.
func rounded(micros int64, digits int) int64 {
	unit := int64(1)
	for range schema.MaxTimeDigits - digits {
		unit *= 10
	}
	half := unit / 2
	if micros < 0 {
		half = -half
	}
	return (micros + half) / unit * unit
}

var escape = strings.NewReplacer("\x00", `\0`, "\n", `\n`, "\r", `\r`, `\`, `\\`, "'", "''")

// quote puts a text in quotes as MySQL does in definitions.
func quote(s string) string { return "'" + escape.Replace(s) + "'" }

// name quotes an identifier.
func name(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
