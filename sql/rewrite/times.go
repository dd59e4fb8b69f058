package rewrite

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/zone"
)

// Times gives columns that a statement declares as TIME or TIME(n) a type that has the
// digits: the engine takes TIME for TIME(6), and refuses other digits.
func Times(stmt sqlparser.Statement) {
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		if s.TableSpec == nil {
			return
		}
		for _, c := range s.TableSpec.Columns {
			declareTime(&c.Type)
		}
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			Times(d)
		}
	}
}

func declareTime(t *sqlparser.ColumnType) {
	if !strings.EqualFold(t.Type, "time") || t.ResolvedType != nil || t.Charset != "" || t.Collate != "" {
		return
	}
	digits := 0
	if t.Length != nil {
		n, err := strconv.Atoi(string(t.Length.Val))
		if err != nil || n > schema.MaxTimeDigits {
			return // the engine words the error
		}
		digits = n
	}
	t.ResolvedType = schema.TimeType{Digits: digits}
}

// Zoned makes the literals that a statement declares as defaults of TIMESTAMPs, which are times of
// the session's clock, times in UTC, as definitions have them.
func Zoned(ctx context.Context, stmt sqlparser.Statement) {
	sc, is := ctx.(*sql.Context)
	if !is {
		return
	}
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		if s.TableSpec == nil {
			return
		}
		for _, c := range s.TableSpec.Columns {
			if strings.EqualFold(c.Type.Type, "timestamp") {
				declareDefault(sc, &c.Type)
			}
		}
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			Zoned(ctx, d)
		}
	}
}

func declareDefault(ctx *sql.Context, t *sqlparser.ColumnType) {
	v, ok := t.Default.(*sqlparser.SQLVal)
	if !ok || v.Type != sqlparser.StrVal && v.Type != sqlparser.IntVal {
		return
	}
	loc, err := zone.Of(ctx)
	if err != nil || loc == time.UTC {
		return
	}
	text := string(v.Val)
	if v.Type == sqlparser.StrVal {
		text = "'" + text + "'"
	}
	if utc, ok := zone.Declared(text, loc); ok {
		t.Default = sqlparser.NewStrVal([]byte(utc))
	}
}

// EventTimes makes the times of a schedule, which are those of the session's zone, times of the
// system's, as which the engine takes them.
func EventTimes(ctx context.Context, stmt sqlparser.Statement) {
	d, ok := stmt.(*sqlparser.DDL)
	sc, is := ctx.(*sql.Context)
	if !ok || !is || d.EventSpec == nil || d.EventSpec.OnSchedule == nil {
		return
	}
	name, err := zone.Name(sc)
	if err != nil || name == "" || strings.EqualFold(name, zone.SystemName) {
		return
	}
	text := func(s string) *sqlparser.AliasedExpr {
		return &sqlparser.AliasedExpr{Expr: sqlparser.NewStrVal([]byte(s))}
	}
	on := d.EventSpec.OnSchedule
	for _, t := range []*sqlparser.EventScheduleTimeSpec{on.At, on.Starts, on.Ends} {
		if t != nil {
			t.EventTimestamp = &sqlparser.FuncExpr{Name: sqlparser.NewColIdent("convert_tz"), Exprs: sqlparser.SelectExprs{
				&sqlparser.AliasedExpr{Expr: t.EventTimestamp}, text(name), text(sql.SystemTimezoneOffset())}}
		}
	}
}
