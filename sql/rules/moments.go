package rules

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The engine makes a date of a text in a time that grows with the square of its length, 17 s for 64
// KiB, since it tries each beginning of the text. Nothing can interrupt that. No date needs more
// than mostMoment bytes, so longer texts are cut.
const mostMoment = 256

func shortMoment(s string) string { return s[:min(len(s), mostMoment)] }

// isMoment reports whether values of a type are dates or times.
func isMoment(t sql.Type) bool { return types.IsTime(t) || types.IsTimespan(t) }

// datesOf are functions that make dates or times of their arguments: of how many, 0: of all.
var datesOf = map[string]int{"date_format": 1, "time_format": 1}

func init() {
	for _, name := range strings.Fields(`adddate addtime convert_tz date date_add date_sub datediff datetime day dayname dayofmonth
		dayofweek dayofyear extract hour last_day microsecond minute month monthname quarter second subdate subtime time time_to_sec
		timediff timestamp timestampadd timestampdiff to_days to_seconds unix_timestamp week weekday weekofyear year yearweek`) {
		datesOf[name] = 0
	}
}

// moments is how many of the operands of an expression may become dates or times.
func moments(ctx *sql.Context, e sql.Expression, children []sql.Expression) int {
	switch e := e.(type) {
	case *expression.Convert:
		if isMoment(e.Type(ctx)) {
			return len(children)
		}
	case expression.Comparer, *expression.Between, *expression.InTuple, *expression.HashInTuple, *expression.SetField, *expression.Case:
		if anyMoment(ctx, children) {
			return len(children)
		}
	case sql.FunctionExpression:
		if n, ok := datesOf[strings.ToLower(e.FunctionName())]; ok && n > 0 {
			return min(n, len(children))
		} else if ok {
			return len(children)
		}
	}
	return 0
}

func anyMoment(ctx *sql.Context, es []sql.Expression) bool {
	return slices.ContainsFunc(es, func(e sql.Expression) bool {
		if t, ok := e.(expression.Tuple); ok {
			return anyMoment(ctx, t)
		}
		return isMoment(e.Type(ctx))
	})
}
