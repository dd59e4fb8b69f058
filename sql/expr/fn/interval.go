package fn

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// registerIntervals registers what computes with dates and spans of time: DATE_ADD(date, n, unit)
// and the like, differences, and EXTRACT by the same units. A unit is a constant string.
func registerIntervals() {
	expr.Register(
		&expr.Func{Name: "date_add", Min: 3, Max: 3, Derive: deriveDateAdd, Eval: evalDateAdd(1)},
		&expr.Func{Name: "date_sub", Min: 3, Max: 3, Derive: deriveDateAdd, Eval: evalDateAdd(-1)},
	)
	sig{names: "timestampdiff", min: 3, max: 3, args: "st", ret: maybe(expr.TypeInt), make: makeTimestampDiff}.register()
	sig{names: "extract", min: 2, max: 2, args: "s*", ret: maybe(expr.TypeInt), make: makeExtract}.register()
	expr.Register(
		&expr.Func{Name: "addtime", Min: 2, Max: 2, Derive: deriveAddTime, Eval: evalAddTime(1)},
		&expr.Func{Name: "subtime", Min: 2, Max: 2, Derive: deriveAddTime, Eval: evalAddTime(-1)},
		&expr.Func{Name: "timediff", Min: 2, Max: 2, Derive: deriveTimeDiff, Eval: evalTimeDiff},
		&expr.Func{Name: "timestamp", Min: 1, Max: 2, Derive: func(c *expr.Call) error {
			fsp := 0
			for i, a := range c.Args {
				n := a.Type().Scale
				if !a.Type().Temporal() {
					n = literalDigits(a)
				}
				to := expr.DatetimeType(n) // with more digits, a constant would have them
				if i == 1 {
					to = expr.TimeType(n)
				}
				fsp, c.Args[i] = max(fsp, n), expr.CastTo(a, to)
			}
			c.T = expr.DatetimeType(fsp)
			return nil
		}, Eval: evalAddTime(1)},
	)
}

// unitOf is the constant unit of an interval.
func unitOf(n expr.Node) (string, error) {
	k, ok := n.(*expr.Const)
	if !ok {
		return "", fmt.Errorf("expr: INTERVAL needs a unit")
	}
	u := strings.TrimPrefix(strings.ToLower(k.V.S), "sql_tsi_")
	if _, _, _, ok := calendar.KnownUnit(u); !ok {
		return "", fmt.Errorf("expr: INTERVAL has no unit %q", u)
	}
	return u, nil
}

// deriveDateAdd: a date stays one if the unit has no time; a string stays a string.
func deriveDateAdd(c *expr.Call) error {
	u, err := unitOf(c.Args[2])
	if err != nil {
		return err
	}
	single, clock, micro, _ := calendar.KnownUnit(u)
	t := c.Args[0].Type()
	digits := 0
	if single {
		switch n := c.Args[1].Type(); {
		case u == "second" && (n.Kind == expr.Decimal || n.Kind == expr.Float || n.Stringy()):
			digits = 6
			if n.Kind == expr.Decimal {
				digits = min(n.Scale, 6)
			}
			c.Args[1] = expr.CastTo(expr.Exact(c.Args[1]), expr.DecimalType(30, digits))
		case n.Kind != expr.Int:
			x := expr.TypeInt
			c.Args[1] = &expr.Cast{Arg: expr.Exact(c.Args[1]), T: x, Explicit: true}
		}
	} else if !c.Args[1].Type().Stringy() {
		c.Args[1] = expr.CastTo(c.Args[1], textOf(c.Args[1].Type()))
	}
	fsp := max(t.Scale, digits)
	if micro {
		fsp = 6
	}
	switch {
	case t.Kind == expr.Date && !clock:
		c.T = expr.TypeDate
	case t.Kind == expr.Date:
		c.T = expr.DatetimeType(fsp)
	case t.Kind == expr.Datetime || t.Kind == expr.Timestamp:
		c.T = expr.DatetimeType(fsp)
		c.Args[0] = expr.CastTo(c.Args[0], expr.DatetimeType(t.Scale))
	case t.Kind == expr.Duration && clock:
		c.T = expr.TimeType(fsp)
	case t.Kind == expr.Duration:
		c.T = expr.DatetimeType(fsp)
		c.Args[0] = expr.CastTo(c.Args[0], expr.DatetimeType(6))
	default:
		if !t.Stringy() {
			c.Args[0] = expr.CastTo(c.Args[0], textOf(t))
		}
		c.T = expr.TextType(29, sql.Collation_Default, expr.CoerceNumeric)
	}
	return nil
}

func evalDateAdd(sign int64) func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	return func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
		es, err := k.Exprs(c.Args[:2])
		if err != nil {
			return nil, err
		}
		u, err := unitOf(c.Args[2])
		if err != nil {
			return nil, err
		}
		cs := &expr.Caster{From: c.Args[0].Type(), To: expr.DatetimeType(6), Env: k.Env}
		d := &dateAdd{unit: u, sign: sign, env: k.Env, cs: cs}
		d.single, _, _, _ = calendar.KnownUnit(u)
		return expr.NewRowFunc(c.T, es, d.eval), nil
	}
}

type dateAdd struct {
	unit   string
	single bool
	sign   int64
	env    *expr.Env
	cs     *expr.Caster
}

func (d *dateAdd) interval(v *expr.Vec, i int32) (calendar.Interval, bool) {
	var iv calendar.Interval
	ok := true
	switch {
	case !d.single:
		iv, ok = calendar.TextInterval(d.unit, v.S[i])
	case v.T.Kind == expr.Decimal:
		n, us, in := expr.NumberParts(v, i)
		iv, ok = calendar.NumberInterval(d.unit, n, us)
		ok = ok && in
	default:
		iv, ok = calendar.NumberInterval(d.unit, v.I[i], 0)
	}
	iv.Months *= d.sign
	iv.Micros *= d.sign
	return iv, ok
}

func (d *dateAdd) eval(a []*expr.Vec, i int32, v *expr.Vec) error {
	iv, ok := d.interval(a[1], i)
	if v.T.Kind == expr.Duration {
		us := a[0].I[i] + iv.Micros
		if !ok || int64(expr.Abs64(us)) > calendar.MaxDuration {
			d.overflow(v, i, "time")
			return nil
		}
		v.I[i] = us
		return nil
	}
	p, date := a[0].I, v.T.Kind == expr.Date
	var start int64
	if v.T.Kind == expr.Text {
		in, parsed := calendar.ParseDatetime(a[0].S[i])
		t, valid := in.Packed()
		if !parsed || !valid || !d.cs.ZeroAllowed(t) {
			d.env.Note(1292, fmt.Sprintf("Incorrect datetime value: '%s'", a[0].S[i]))
			v.SetNull(int(i))
			return nil
		}
		start, date = t, in.Fields <= 3 && !iv.Clock
	} else {
		start = p[i]
	}
	if !calendar.Complete(start) && (iv.Months == 0 || calendar.MonthOf(start) == 0) || start == 0 {
		d.env.Note(1292, "Incorrect datetime value")
		v.SetNull(int(i))
		return nil
	}
	r, in := calendar.Add(start, iv)
	if !ok || !in {
		d.overflow(v, i, "datetime")
		return nil
	}
	switch {
	case v.T.Kind != expr.Text:
		v.I[i] = r
	case date:
		v.S[i] = string(calendar.AppendDate(nil, r))
	default:
		fsp := 0
		if r&(1<<24-1) != 0 {
			fsp = 6
		}
		v.S[i] = string(calendar.AppendDatetime(nil, r, fsp))
	}
	return nil
}

func (d *dateAdd) overflow(v *expr.Vec, i int32, what string) {
	d.env.Note(1441, fmt.Sprintf("Datetime function: %s field overflow", what))
	v.SetNull(int(i))
}

func makeTimestampDiff(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
	u, err := unitOf(c.Args[0])
	if err != nil {
		return nil, err
	}
	one, _ := calendar.NumberInterval(u, 1, 0)
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		x, y := a[1].I[i], a[2].I[i]
		if !calendar.Complete(x) || !calendar.Complete(y) {
			v.SetNull(int(i))
			return nil
		}
		if one.Months > 0 {
			v.I[i] = calendar.MonthsBetween(x, y) / one.Months
		} else {
			v.I[i] = (calendar.Micros(y) - calendar.Micros(x)) / one.Micros
		}
		return nil
	}, nil
}

// extractParts are the parts of a unit, from the largest to the smallest.
var extractParts = map[string]string{
	"year": "Y", "quarter": "Q", "month": "M", "week": "W", "day": "D",
	"hour": "h", "minute": "m", "second": "s", "microsecond": "u",
	"year_month": "YM", "day_hour": "Dh", "day_minute": "Dhm", "day_second": "Dhms", "day_microsecond": "Dhmsu",
	"hour_minute": "hm", "hour_second": "hms", "hour_microsecond": "hmsu", "minute_second": "ms", "minute_microsecond": "msu",
	"second_microsecond": "su",
}

// makeExtract: units without a time, and values that have a date, are parts of a date. Of a text
// it decides whether there is a date in it: '2019-07-02 01:02:03' has a DAY_MINUTE of 20102.
func makeExtract(c *expr.Call, k *expr.Compiler) (rowEval, error) {
	u, err := unitOf(c.Args[0])
	if err != nil {
		return nil, err
	}
	parts := extractParts[u]
	from := c.Args[1].Type()
	dated := from.Dated() || u == "day" || strings.ContainsAny(parts, "YQMW")
	asDate, asTime := extractFrom(from, expr.DatetimeType(6), k.Env), extractFrom(from, expr.TimeType(6), k.Env)
	var tmp expr.Vec
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		date := dated
		if !date && from.Stringy() {
			p, ok := calendar.ParseDatetime(a[1].S[i])
			date = ok && p.Fields > 3
		}
		conv := asTime
		if date {
			conv = asDate
		}
		if err := conv(a[1], i, &tmp); err != nil {
			return err
		}
		if tmp.IsNull(i) {
			v.SetNull(int(i))
			return nil
		}
		v.I[i] = extract(parts, tmp.I[i], !date, k.Env)
		return nil
	}, nil
}

// extractFrom converts values for EXTRACT.
func extractFrom(from, to expr.Type, env *expr.Env) func(x *expr.Vec, i int32, v *expr.Vec) error {
	if from.Kind == to.Kind {
		return func(x *expr.Vec, i int32, v *expr.Vec) error {
			v.Reset(to, int(i)+1)
			v.I[i] = x.I[i]
			return nil
		}
	}
	conv := (&expr.Caster{From: from, To: to, Env: env}).Function()
	return func(x *expr.Vec, i int32, v *expr.Vec) error {
		v.Reset(to, int(i)+1)
		return conv(x, i, v)
	}
}

func extract(parts string, x int64, clock bool, env *expr.Env) int64 {
	us, sign := x, int64(1)
	var t calendar.Time
	if !clock {
		t = calendar.Unpack(x)
		us = calendar.ClockOf(x)
	} else if us < 0 {
		us, sign = -us, -1
	}
	h := us / 3600e6 // a TIME of more than a day has no days
	n := int64(0)
	for k, p := range parts {
		unit := int64(100)
		var y int64
		switch p {
		case 'Y':
			y = int64(t.Year)
		case 'Q':
			y = int64(t.Month+2) / 3
		case 'M':
			y = int64(t.Month)
		case 'W':
			w, _ := calendar.Week(x, env.WeekMode)
			y = int64(w)
		case 'D':
			y = int64(t.Day)
		case 'h':
			y = h
		case 'm':
			y = us / 60e6 % 60
		case 's':
			y = us / 1e6 % 60
		case 'u':
			y, unit = us%1e6, 1e6
		}
		if k == 0 {
			unit = 0
		}
		n = n*unit + y
	}
	return sign * n
}

func deriveAddTime(c *expr.Call) error {
	t := c.Args[0].Type()
	fsp := 6
	if t.Temporal() {
		fsp = max(t.Scale, literalDigitsOf(c.Args[1]))
	}
	switch {
	case t.Dated():
		c.Args[0] = expr.CastTo(c.Args[0], expr.DatetimeType(6))
		c.T = expr.DatetimeType(fsp)
	case t.Kind == expr.Duration:
		c.T = expr.TimeType(fsp)
	default:
		if !t.Stringy() {
			c.Args[0] = expr.CastTo(c.Args[0], textOf(t))
		}
		c.T = expr.TextType(29, sql.Collation_Default, expr.CoerceNumeric)
	}
	// A constant becomes a TIME here, which has to tell its digits when the call is derived again.
	c.Args[1] = expr.CastTo(c.Args[1], expr.TimeType(literalDigitsOf(c.Args[1])))
	return nil
}

func literalDigitsOf(n expr.Node) int {
	if n.Type().Temporal() {
		return n.Type().Scale
	}
	return literalDigits(n)
}

func evalAddTime(sign int64) func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	return func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
		es, err := k.Exprs(c.Args)
		if err != nil {
			return nil, err
		}
		return expr.NewRowFunc(c.T, es, func(a []*expr.Vec, i int32, v *expr.Vec) error {
			us := int64(0)
			if len(a) == 2 {
				us = sign * a[1].I[i]
			}
			ok := true
			switch c.T.Kind {
			case expr.Duration:
				setDuration(k.Env, v, i, a[0].I[i]+us)
			case expr.Datetime:
				v.I[i], ok = calendar.FromMicros(calendar.Micros(a[0].I[i]) + us)
			default:
				ok = addTimeText(k.Env, a[0].S[i], us, v, i)
			}
			if !ok {
				v.SetNull(int(i))
			}
			return nil
		}), nil
	}
}

func addTimeText(env *expr.Env, s string, us int64, v *expr.Vec, i int32) bool {
	fsp := func(x int64) int {
		if x%1e6 != 0 {
			return 6
		}
		return 0
	}
	if p, ok := calendar.ParseDatetime(s); ok && p.Fields > 3 {
		t, _ := p.Packed()
		r, ok := calendar.FromMicros(calendar.Micros(t) + us)
		v.S[i] = string(calendar.AppendDatetime(nil, r, fsp(calendar.ClockOf(r))))
		return ok
	}
	d, _, _, ok := calendar.ParseDuration(s, false)
	d = clipped(env, d+us, fsp(d+us))
	v.S[i] = string(calendar.AppendDuration(nil, d, fsp(d)))
	return ok
}

// deriveTimeDiff: both arguments must be times, or both dates with times.
func deriveTimeDiff(c *expr.Call) error {
	fsp := 0
	dated := false
	for _, a := range c.Args {
		fsp = max(fsp, literalDigitsOf(a))
		dated = dated || a.Type().Dated()
	}
	for i, a := range c.Args {
		t := a.Type()
		k, ok := a.(*expr.Const)
		if !dated && ok && t.Kind == expr.Text {
			p, parsed := calendar.ParseDatetime(k.V.S)
			dated = parsed && p.Fields > 3
		}
		if dated {
			c.Args[i] = expr.CastTo(a, expr.DatetimeType(literalDigitsOf(a)))
		} else {
			c.Args[i] = expr.CastTo(a, expr.TimeType(literalDigitsOf(a)))
		}
	}
	c.T = expr.TimeType(fsp)
	return nil
}

func evalTimeDiff(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	return expr.NewRowFunc(c.T, es, func(a []*expr.Vec, i int32, v *expr.Vec) error {
		switch x, y := a[0], a[1]; {
		case x.T.Kind != y.T.Kind:
			v.SetNull(int(i))
		case x.T.Kind == expr.Duration:
			setDuration(k.Env, v, i, x.I[i]-y.I[i])
		default:
			setDuration(k.Env, v, i, calendar.Micros(x.I[i])-calendar.Micros(y.I[i]))
		}
		return nil
	}), nil
}
