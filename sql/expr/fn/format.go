package fn

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/expr"
)

// grouping is how a locale writes numbers.
type grouping struct {
	locale       string
	group, point string
	// wide is how many digits a group has, but for the last one, which has three.
	wide int
}

var english = grouping{"en_US", ",", ".", 3}

// groupingOf finds out how the library writes numbers in a locale. It writes no large ones.
func groupingOf(locale string) grouping {
	if locale == english.locale {
		return english
	}
	out := english
	out.locale = locale
	ctx := sql.NewEmptyContext()
	f, err := function.NewFormat(ctx, expression.NewLiteral(1234567.5, types.Float64), expression.NewLiteral(int64(1), types.Int64),
		expression.NewLiteral(locale, types.LongText))
	if err != nil {
		return out
	}
	v, err := f.Eval(ctx, nil)
	s, ok := v.(string)
	if err != nil || !ok {
		return out
	}
	between := func(a, b string) (string, bool) {
		_, rest, ok := strings.Cut(s, a)
		text, _, found := strings.Cut(rest, b)
		return text, ok && found
	}
	group, ok := between("4", "5")
	_, rest, found := strings.Cut(s, "7")
	if !ok || !found || !strings.HasSuffix(rest, "5") { // it has other digits
		return out
	}
	out.group, out.point = group, strings.TrimSuffix(rest, "5")
	if at, ok := between("2", "3"); ok && at != "" && group != "" {
		out.wide = 2
	}
	return out
}

// write writes a number with a number of digits behind the point.
func (g *grouping) write(number string, decimals int) string {
	sign := ""
	if strings.HasPrefix(number, "-") {
		sign, number = "-", number[1:]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	b := append(make([]byte, 0, 2*len(number)+decimals), sign...)
	for i := range len(whole) {
		if left := len(whole) - i; i > 0 && left >= 3 && (left-3)%g.wide == 0 {
			b = append(b, g.group...)
		}
		b = append(b, whole[i])
	}
	if decimals > 0 {
		b = append(append(b, g.point...), fraction...)
		for range decimals - len(fraction) {
			b = append(b, '0')
		}
	}
	return string(b)
}

// roundedText is a number, rounded, with no more digits behind the point than that.
func roundedText(x *expr.Vec, i int32, decimals int) string {
	switch x.T.Kind {
	case expr.Float:
		r := roundFloat(x.F[i], decimals, false)
		s := strconv.FormatFloat(r, 'f', -1, 64)
		if _, fraction, _ := strings.Cut(s, "."); len(fraction) > decimals {
			s = strconv.FormatFloat(r, 'f', decimals, 64)
		}
		return s
	case expr.Decimal:
		var t, d apd.Decimal
		roundDec(&d, x.Dec(i, &t), decimals, false)
		return d.Text('f')
	}
	return string(x.AppendText(nil, i))
}

// mostDecimals is how many digits behind the point FORMAT writes at most.
const mostDecimals = 30

func init() {
	sig{names: "format", min: 2, max: 3, args: "nis", nulls: true, ret: orNull(returns(typeWord)),
		make: func(*expr.Call, *expr.Compiler) (rowEval, error) {
			last := english
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				if a[0].IsNull(i) || a[1].IsNull(i) {
					v.SetNull(int(i))
					return nil
				}
				locale := english.locale
				if len(a) > 2 && !a[2].IsNull(i) {
					locale = a[2].S[i]
				}
				if locale != last.locale {
					if err := short("format", 2, locale); err != nil {
						return err
					}
					last = groupingOf(locale)
				}
				decimals := a[1].I[i]
				if a[1].T.Unsigned() && decimals < 0 {
					decimals = mostDecimals
				}
				n := int(min(max(decimals, 0), mostDecimals))
				v.S[i] = last.write(roundedText(a[0], i, n), n)
				return nil
			}, nil
		}}.register()
}
