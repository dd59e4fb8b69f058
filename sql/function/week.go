package function

import (
	"fmt"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// week is WEEK(date [, mode]). Without a mode the system variable default_week_format is the mode.
type week struct{ args []sql.Expression }

func newWeek(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
	if len(args) != 1 && len(args) != 2 {
		return nil, sql.ErrInvalidArgumentNumber.New("WEEK", "1 or 2", len(args))
	}
	return &week{args}, nil
}

var _ sql.FunctionExpression = (*week)(nil)

// FunctionName implements sql.FunctionExpression.
func (w *week) FunctionName() string { return "week" }

// Description implements sql.FunctionExpression.
func (w *week) Description() string { return "returns the number of a date's week" }

// String implements sql.Expression.
func (w *week) String() string {
	var args []string
	for _, a := range w.args {
		args = append(args, a.String())
	}
	return fmt.Sprintf("week(%s)", strings.Join(args, ","))
}

// Type implements sql.Expression.
func (w *week) Type(*sql.Context) sql.Type { return types.Int32 }

// IsNullable implements sql.Expression: of what is no date there is no week.
func (w *week) IsNullable(*sql.Context) bool { return true }

// Resolved implements sql.Expression.
func (w *week) Resolved() bool {
	for _, a := range w.args {
		if !a.Resolved() {
			return false
		}
	}
	return true
}

// Children implements sql.Expression.
func (w *week) Children() []sql.Expression { return w.args }

// WithChildren implements sql.Expression.
func (w *week) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	return newWeek(ctx, children...)
}

// Eval implements sql.Expression.
func (w *week) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	x, err := w.args[0].Eval(ctx, row)
	if err != nil || x == nil {
		return nil, err
	}
	date, _, err := types.DatetimeMaxPrecision.Convert(ctx, x)
	day, ok := date.(time.Time)
	if err != nil || !ok || day.Equal(types.ZeroTime) {
		ctx.Warn(1292, "Incorrect datetime value: '%v'", x)
		return nil, nil
	}
	mode, err := w.mode(ctx, row)
	if err != nil {
		return nil, err
	}
	return int32(weekOf(day, mode)), nil
}

func (w *week) mode(ctx *sql.Context, row sql.Row) (int64, error) {
	var x any
	var err error
	if len(w.args) == 2 {
		x, err = w.args[1].Eval(ctx, row)
	} else {
		x, err = ctx.GetSessionVariable(ctx, "default_week_format")
	}
	if err != nil || x == nil {
		return 0, err
	}
	v, _, err := types.Int64.Convert(ctx, x)
	if err != nil {
		return 0, err
	}
	mode, _ := v.(int64)
	return mode, nil
}

// weekOf is the number of a day's week by one of MySQL's eight modes (the manual's table at WEEK):
// odd ones have weeks that begin on Monday, the others on Sunday; modes 2, 3, 6 and 7 count the
// days before week 1 to the last year's weeks, where the others say 0; in modes 0, 2, 5 and 7 week
// 1 is the first one that begins in the year, in the others the first one with four days in it.
func weekOf(day time.Time, mode int64) int {
	year := day.Year()
	if year == 0 {
		// MySQL's year 0 has no 29 February and begins on a Sunday, as 2023 does. Go's has one.
		year = 2023
	}
	day = time.Date(year, day.Month(), day.Day(), 0, 0, 0, 0, time.UTC)
	monday, lastYears := mode&1 != 0, mode&2 != 0
	whole := (mode&4 != 0) == monday
	first := func(year int) time.Time { return firstWeek(year, monday, whole) }
	switch {
	case lastYears && !day.Before(first(year+1)):
		return 1
	case !day.Before(first(year)):
		return weeks(first(year), day) + 1
	case lastYears:
		return weeks(first(year-1), day) + 1
	}
	return 0
}

// firstWeek is the day on which week 1 of a year begins.
func firstWeek(year int, monday, whole bool) time.Time {
	jan1 := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)
	into := int(jan1.Weekday()) // days of jan1's week before it
	if monday {
		into = (into + 6) % 7
	}
	if into > 0 && (whole || into > 3) {
		into -= 7
	}
	return jan1.AddDate(0, 0, -into)
}

func weeks(from, to time.Time) int { return int(to.Sub(from).Hours()) / 24 / 7 }
