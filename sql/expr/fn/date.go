package fn

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// part makes a function of a date that is a number; whole ones need month and day.
func part(names string, whole bool, f func(p int64) int64) {
	sig{names: names, min: 1, max: 1, args: "t", ret: maybe(expr.TypeInt), make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
		return func(a []*expr.Vec, i int32, v *expr.Vec) error {
			if whole && !calendar.Complete(a[0].I[i]) {
				noDate(k.Env, a[0], i, v)
				return nil
			}
			v.I[i] = f(a[0].I[i])
			return nil
		}, nil
	}}.register()
}

// noDate makes the result NULL, since a date has no day or month, and warns of that.
func noDate(env *expr.Env, x *expr.Vec, i int32, v *expr.Vec) {
	s, _, _ := strings.Cut(string(x.AppendText(nil, i)), " 00:00:00")
	env.Note(1292, "Incorrect datetime value: '"+s+"'")
	v.SetNull(int(i))
}

func dayNumber(p int64) int64 {
	t := calendar.Unpack(p)
	return int64(calendar.DayNumber(t.Year, t.Month, t.Day))
}

func clockPart(name string, f func(us int64) int64) {
	sig{names: name, min: 1, max: 1, args: "T", ret: maybe(expr.TypeInt), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		v.I[i] = f(int64(expr.Abs64(a[0].I[i])))
		return nil
	})}.register()
}

func init() {
	part("year", false, calendar.YearOf)
	part("month", false, calendar.MonthOf)
	part("day dayofmonth", false, calendar.DayOf)
	part("quarter", false, func(p int64) int64 { return (calendar.MonthOf(p) + 2) / 3 })
	part("dayofyear", true, func(p int64) int64 {
		return dayNumber(p) - int64(calendar.DayNumber(int(calendar.YearOf(p)), 1, 1)) + 1
	})
	part("weekday", true, func(p int64) int64 { return int64(calendar.Weekday(int(dayNumber(p)))) })
	part("dayofweek", true, func(p int64) int64 { return int64(calendar.Weekday(int(dayNumber(p)))+1)%7 + 1 })
	part("to_days", true, dayNumber)
	part("to_seconds", true, func(p int64) int64 { return dayNumber(p)*86400 + calendar.ClockOf(p)/1e6 })
	part("weekofyear", true, func(p int64) int64 {
		w, _ := calendar.Week(p, 3)
		return int64(w)
	})
	clockPart("hour", func(us int64) int64 { return us / 3600e6 })
	clockPart("minute", func(us int64) int64 { return us / 60e6 % 60 })
	clockPart("second", func(us int64) int64 { return us / 1e6 % 60 })
	clockPart("microsecond", func(us int64) int64 { return us % 1e6 })
	sig{names: "time_to_sec", min: 1, max: 1, args: "T", ret: maybe(expr.TypeInt), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		v.I[i] = a[0].I[i] / 1e6
		return nil
	})}.register()
	registerNames()
	registerWeeks()
	registerNow()
	registerMake()
	registerFormat()
	registerIntervals()
	registerUnix()
}

func registerNames() {
	name := func(fn string, f func(p int64) string) {
		sig{names: fn, min: 1, max: 1, args: "t", ret: maybe(expr.TextType(9, sql.Collation_Default, expr.CoerceNumeric)), make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				if v.S[i] = f(a[0].I[i]); v.S[i] == "" {
					noDate(k.Env, a[0], i, v)
				}
				return nil
			}, nil
		}}.register()
	}
	name("dayname", func(p int64) string {
		if !calendar.Complete(p) {
			return ""
		}
		return calendar.Weekdays[calendar.Weekday(int(dayNumber(p)))]
	})
	name("monthname", func(p int64) string {
		if calendar.MonthOf(p) == 0 {
			return ""
		}
		return calendar.Months[calendar.MonthOf(p)-1]
	})
	sig{names: "last_day", min: 1, max: 1, args: "t", ret: maybe(expr.TypeDate), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		t := calendar.Unpack(a[0].I[i])
		if t.Month == 0 {
			v.SetNull(int(i))
			return nil
		}
		v.I[i] = calendar.Pack(calendar.Time{Year: t.Year, Month: t.Month, Day: calendar.DaysIn(t.Year, t.Month)})
		return nil
	})}.register()
}

func registerWeeks() {
	week := func(name string, f func(p int64, mode int) int64) {
		sig{names: name, min: 1, max: 2, args: "ti", ret: maybe(expr.TypeInt), make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				mode := 0
				if name == "week" {
					mode = k.Env.WeekMode
				}
				if len(a) == 2 {
					mode = int(a[1].I[i] & 7)
				}
				if !calendar.Complete(a[0].I[i]) {
					noDate(k.Env, a[0], i, v)
					return nil
				}
				v.I[i] = f(a[0].I[i], mode)
				return nil
			}, nil
		}}.register()
	}
	week("week", func(p int64, mode int) int64 {
		w, _ := calendar.Week(p, mode)
		return int64(w)
	})
	week("yearweek", func(p int64, mode int) int64 {
		w, y := calendar.Week(p, mode|2)
		return int64(y*100 + w)
	})
}

// fspOf is the constant number of fractional digits that a function is given.
func fspOf(c *expr.Call, at int) int {
	if at < len(c.Args) {
		if k, ok := c.Args[at].(*expr.Const); ok && k.V.Kind == expr.Int {
			return int(min(max(k.V.I, 0), 6))
		}
	}
	return 0
}

func registerNow() {
	now := func(names string, volatile bool, t func(fsp int) expr.Type, f func(env *expr.Env) int64) {
		sig{names: names, min: 0, max: 1, args: "i", volatile: volatile, perStatement: true,
			ret: func(c *expr.Call) (expr.Type, error) {
				x := t(fspOf(c, 0))
				x.NotNull = true
				return x, nil
			},
			make: func(c *expr.Call, k *expr.Compiler) (rowEval, error) {
				unit := int64(1)
				for range 6 - c.T.Scale {
					unit *= 10
				}
				return func(_ []*expr.Vec, i int32, v *expr.Vec) error {
					// The last 24 bits are microseconds, in both forms of values with a fraction.
					p := f(k.Env)
					if us := p & (1<<24 - 1); c.T.Kind == expr.Datetime {
						p -= us % unit
					} else if c.T.Kind == expr.Duration {
						p -= p % unit
					}
					v.I[i] = p
					return nil
				}, nil
			}}.register()
	}
	local := func(env *expr.Env) int64 { return calendar.FromGo(env.Now.In(env.Zone())) }
	now("now current_timestamp localtime localtimestamp", false, expr.DatetimeType, local)
	now("utc_timestamp", false, expr.DatetimeType, func(env *expr.Env) int64 { return calendar.FromGo(env.Now.UTC()) })
	now("sysdate", true, expr.DatetimeType, func(env *expr.Env) int64 {
		if env.Clock == nil {
			return local(env)
		}
		return calendar.FromGo(env.Clock().In(env.Zone()))
	})
	date := func(int) expr.Type { return expr.TypeDate }
	now("curdate current_date", false, date, func(env *expr.Env) int64 { return calendar.DateOf(local(env)) })
	now("utc_date", false, date, func(env *expr.Env) int64 { return calendar.DateOf(calendar.FromGo(env.Now.UTC())) })
	now("curtime current_time", false, expr.TimeType, func(env *expr.Env) int64 { return calendar.ClockOf(local(env)) })
	now("utc_time", false, expr.TimeType, func(env *expr.Env) int64 { return calendar.ClockOf(calendar.FromGo(env.Now.UTC())) })
}

func setDuration(v *expr.Vec, i int32, us int64) {
	v.I[i] = min(max(us, -calendar.MaxDuration), calendar.MaxDuration)
}

func registerMake() {
	expr.Register(&expr.Func{Name: "date", Min: 1, Max: 1, Derive: func(c *expr.Call) error {
		c.Args[0] = expr.CastTo(c.Args[0], expr.DatetimeType(6))
		c.T = expr.TypeDate
		c.T.NotNull = c.Args[0].Type().NotNull
		return nil
	}, Eval: func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
		e, err := k.Expr(c.Args[0])
		if err != nil {
			return nil, err
		}
		return expr.NewRowFunc(c.T, []expr.Expr{e}, func(a []*expr.Vec, i int32, v *expr.Vec) error {
			v.I[i] = calendar.DateOf(a[0].I[i])
			return nil
		}), nil
	}})
	expr.Register(&expr.Func{Name: "time", Min: 1, Max: 1, Derive: func(c *expr.Call) error {
		t := c.Args[0].Type()
		fsp := t.Scale
		if !t.Temporal() {
			fsp = literalDigits(c.Args[0])
		}
		c.Args[0] = expr.CastTo(c.Args[0], expr.TimeType(fsp))
		c.T = c.Args[0].Type()
		return nil
	}, Eval: evalFirst})
	sig{names: "makedate", min: 2, max: 2, args: "i", ret: maybe(expr.TypeDate), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		y, d := a[0].I[i], a[1].I[i]
		if y >= 0 && y < 70 {
			y += 2000
		} else if y >= 70 && y < 100 {
			y += 1900
		}
		n := int64(0)
		if y >= 0 && y <= 9999 {
			n = int64(calendar.DayNumber(int(y), 1, 1)) + d - 1
		}
		if d <= 0 || n <= 0 || n > 3652424 {
			v.SetNull(int(i))
			return nil
		}
		yy, m, dd := calendar.FromDayNumber(int(n))
		v.I[i] = calendar.Pack(calendar.Time{Year: yy, Month: m, Day: dd})
		return nil
	})}.register()
	sig{names: "from_days", min: 1, max: 1, args: "i", ret: maybe(expr.TypeDate), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		y, m, d := calendar.FromDayNumber(int(min(max(a[0].I[i], 0), 4000000)))
		v.I[i] = calendar.Pack(calendar.Time{Year: y, Month: m, Day: d})
		return nil
	})}.register()
	sig{names: "sec_to_time", min: 1, max: 1, args: "n", ret: func(c *expr.Call) (expr.Type, error) {
		fsp := 0
		if t := c.Args[0].Type(); t.Kind == expr.Decimal {
			fsp = t.Scale
		} else if t.Kind == expr.Float {
			fsp = 6
		}
		return expr.TimeType(fsp), nil
	}, make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		n, us, ok := expr.NumberParts(a[0], i)
		if !ok || n > 1e9 || n < -1e9 {
			n, us = 1e9*int64(signOf(a[0], i)), 0
		}
		setDuration(v, i, n*1e6+us)
		return nil
	})}.register()
	sig{names: "maketime", min: 3, max: 3, args: "iin", ret: func(c *expr.Call) (expr.Type, error) {
		fsp := 0
		if t := c.Args[2].Type(); t.Kind == expr.Decimal {
			fsp = t.Scale
		} else if t.Kind == expr.Float {
			fsp = 6
		}
		return expr.TimeType(fsp), nil
	}, make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		h, m := a[0].I[i], a[1].I[i]
		s, us, ok := expr.NumberParts(a[2], i)
		if !ok || m < 0 || m > 59 || s < 0 || s > 59 || us < 0 {
			v.SetNull(int(i))
			return nil
		}
		h = min(max(h, -1000), 1000)
		total := (int64(expr.Abs64(h))*3600+m*60+s)*1e6 + us
		if h < 0 {
			total = -total
		}
		setDuration(v, i, total)
		return nil
	})}.register()
	sig{names: "period_add", min: 2, max: 2, args: "i", ret: returns(expr.TypeInt), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		n := periodMonths(a[0].I[i]) + a[1].I[i]
		v.I[i] = n/12*100 + n%12 + 1
		return nil
	})}.register()
	sig{names: "period_diff", min: 2, max: 2, args: "i", ret: returns(expr.TypeInt), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		v.I[i] = periodMonths(a[0].I[i]) - periodMonths(a[1].I[i])
		return nil
	})}.register()
	sig{names: "datediff", min: 2, max: 2, args: "t", ret: maybe(expr.TypeInt), make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
		return func(a []*expr.Vec, i int32, v *expr.Vec) error {
			for _, x := range a {
				if !calendar.Complete(x.I[i]) {
					noDate(k.Env, x, i, v)
					return nil
				}
			}
			v.I[i] = dayNumber(a[0].I[i]) - dayNumber(a[1].I[i])
			return nil
		}, nil
	}}.register()
}

func periodMonths(p int64) int64 {
	y, m := p/100, p%100
	if y < 70 {
		y += 2000
	} else if y < 100 {
		y += 1900
	}
	return y*12 + m - 1
}

// literalDigits are the digits of the fraction in a constant string; 6 if it is none.
func literalDigits(n expr.Node) int {
	t := n.Type()
	if t.Kind == expr.Decimal {
		return min(t.Scale, 6)
	}
	if t.Integer() {
		return 0
	}
	if k, ok := n.(*expr.Const); ok && k.V.Kind == expr.Text {
		if at := strings.LastIndexByte(k.V.S, '.'); at >= 0 {
			return min(len(strings.TrimRight(k.V.S[at+1:], " ")), 6)
		}
		return 0
	}
	return 6
}

func registerFormat() {
	sig{names: "date_format", min: 2, max: 2, args: "ts", ret: orNull(textFrom(nil, 1)), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		b, ok := calendar.Format(nil, a[1].S[i], calendar.Unpack(a[0].I[i]), false)
		if v.S[i] = string(b); !ok || len(b) == 0 {
			v.SetNull(int(i))
		}
		return nil
	})}.register()
	sig{names: "time_format", min: 2, max: 2, args: "Ts", ret: orNull(textFrom(nil, 1)), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		us := a[0].I[i]
		var b []byte
		if us < 0 {
			b, us = append(b, '-'), -us
		}
		s := int(us / 1e6)
		b, ok := calendar.Format(b, a[1].S[i], calendar.Time{Hour: s / 3600, Minute: s / 60 % 60, Second: s % 60, Micro: int(us % 1e6)}, true)
		if v.S[i] = string(b); !ok || len(b) == 0 {
			v.SetNull(int(i))
		}
		return nil
	})}.register()
	sig{names: "str_to_date", min: 2, max: 2, args: "s", ret: strToDateType, make: makeStrToDate}.register()
}

func strToDateType(c *expr.Call) (expr.Type, error) {
	k, ok := c.Args[1].(*expr.Const)
	if !ok {
		return expr.DatetimeType(6), nil
	}
	date, clock, micros := calendar.FormatParts(k.V.S)
	fsp := 0
	if micros {
		fsp = 6
	}
	switch {
	case date && clock:
		return expr.DatetimeType(fsp), nil
	case clock:
		return expr.TimeType(fsp), nil
	case date:
		return expr.TypeDate, nil
	}
	return expr.DatetimeType(6), nil
}

func makeStrToDate(c *expr.Call, k *expr.Compiler) (rowEval, error) {
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		t, ok := calendar.Parse(a[0].S[i], a[1].S[i])
		if ok && c.T.Kind == expr.Duration {
			v.I[i] = calendar.ClockOf(calendar.Pack(t))
			return nil
		}
		// The parts are checked one by one: there is a 31st of April here.
		if zero := t.Year == 0 || t.Month == 0 || t.Day == 0; !ok || zero && k.Env.Mode&expr.NoZeroDate != 0 {
			k.Env.Note(1411, fmt.Sprintf("Incorrect datetime value: '%s' for function str_to_date", a[0].S[i]))
			v.SetNull(int(i))
			return nil
		}
		v.I[i] = calendar.Pack(t)
		return nil
	}, nil
}

// registerIntervals: DATE_ADD(date, n, unit) and the like. The unit is a constant string.
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
			for _, a := range c.Args {
				n := a.Type().Scale
				if !a.Type().Temporal() {
					n = literalDigits(a)
				}
				fsp = max(fsp, n)
			}
			c.Args[0] = expr.CastTo(c.Args[0], expr.DatetimeType(6))
			if len(c.Args) == 2 {
				c.Args[1] = expr.CastTo(c.Args[1], expr.TimeType(6))
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
		d := &dateAdd{unit: u, sign: sign, env: k.Env, cs: &expr.Caster{From: c.Args[0].Type(), To: expr.DatetimeType(6), Env: k.Env}}
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
	"year": "Y", "quarter": "Q", "month": "M", "week": "W", "day": "D", "hour": "h", "minute": "m", "second": "s", "microsecond": "u",
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
	c.Args[1] = expr.CastTo(c.Args[1], expr.TimeType(6))
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
				setDuration(v, i, a[0].I[i]+us)
			case expr.Datetime:
				v.I[i], ok = calendar.FromMicros(calendar.Micros(a[0].I[i]) + us)
			default:
				ok = addTimeText(a[0].S[i], us, v, i)
			}
			if !ok {
				v.SetNull(int(i))
			}
			return nil
		}), nil
	}
}

func addTimeText(s string, us int64, v *expr.Vec, i int32) bool {
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
	d, _, _, ok := calendar.ParseDuration(s)
	d = min(max(d+us, -calendar.MaxDuration), calendar.MaxDuration)
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
			c.Args[i] = expr.CastTo(a, expr.DatetimeType(6))
		} else {
			c.Args[i] = expr.CastTo(a, expr.TimeType(6))
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
			setDuration(v, i, x.I[i]-y.I[i])
		default:
			setDuration(v, i, calendar.Micros(x.I[i])-calendar.Micros(y.I[i]))
		}
		return nil
	}), nil
}

func registerUnix() {
	expr.Register(&expr.Func{Name: "unix_timestamp", Min: 0, Max: 1, PerStatement: true, Derive: func(c *expr.Call) error {
		c.T = expr.TypeInt
		if len(c.Args) == 0 {
			c.T.NotNull = true
			return nil
		}
		t := c.Args[0].Type()
		fsp := t.Scale
		if !t.Dated() {
			fsp = literalDigits(c.Args[0])
		}
		if fsp > 0 {
			c.T = expr.DecimalType(12+fsp, fsp)
		}
		if t.Kind != expr.Timestamp {
			c.Args[0] = expr.CastTo(c.Args[0], expr.DatetimeType(6))
		}
		return nil
	}, Eval: evalUnix})
	sig{names: "from_unixtime", min: 1, max: 2, args: "ns", ret: func(c *expr.Call) (expr.Type, error) {
		if len(c.Args) == 2 {
			return typeWord, nil
		}
		fsp := 6
		switch t := c.Args[0].Type(); t.Kind {
		case expr.Decimal:
			fsp = min(t.Scale, 6)
		case expr.Int, expr.Uint:
			fsp = 0
		}
		return expr.DatetimeType(fsp), nil
	}, make: makeFromUnix}.register()
	sig{names: "convert_tz", min: 3, max: 3, args: "*ss", ret: func(c *expr.Call) (expr.Type, error) {
		fsp := literalDigitsOf(c.Args[0])
		c.Args[0] = expr.CastTo(c.Args[0], expr.DatetimeType(fsp))
		return expr.DatetimeType(fsp), nil
	}, make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		from, ok := zoneOf(a[1].S[i])
		to, ok2 := zoneOf(a[2].S[i])
		if !ok || !ok2 || !calendar.Complete(a[0].I[i]) {
			v.SetNull(int(i))
			return nil
		}
		v.I[i] = calendar.Shift(a[0].I[i], from, to)
		return nil
	})}.register()
}

func isUTC(loc *time.Location, now time.Time) bool {
	_, off := now.In(loc).Zone()
	_, then := time.Unix(0, 0).In(loc).Zone()
	return off == 0 && then == 0
}

func evalUnix(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	if len(c.Args) == 0 {
		return expr.NewConst(expr.Value{Kind: expr.Int, I: k.Env.Now.Unix()}, c.T), nil
	}
	e, err := k.Expr(c.Args[0])
	if err != nil {
		return nil, err
	}
	loc := k.Env.Zone()
	if e.Type().Kind == expr.Timestamp {
		if !isUTC(loc, k.Env.Now) {
			// The store has the time as the clock of the session showed it that wrote it.
			return nil, expr.ErrUnsupported("UNIX_TIMESTAMP of a TIMESTAMP in another time zone")
		}
		loc = expr.Utc
	}
	return expr.NewRowFunc(c.T, []expr.Expr{e}, func(a []*expr.Vec, i int32, v *expr.Vec) error {
		us := int64(0)
		if calendar.Complete(a[0].I[i]) {
			us = calendar.ToGo(a[0].I[i], loc).UnixMicro()
		}
		if us < 0 || us >= 32536771200e6 {
			us = 0
		}
		if c.T.Kind == expr.Int {
			v.I[i] = us / 1e6
			return nil
		}
		v.I[i], _ = expr.Rescale64(us, 6, c.T.Scale)
		return nil
	}), nil
}

func makeFromUnix(c *expr.Call, k *expr.Compiler) (rowEval, error) {
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		n, us, ok := expr.NumberParts(a[0], i)
		if !ok || n < 0 || us < 0 || n > 32536771199 {
			v.SetNull(int(i))
			return nil
		}
		p := calendar.FromGo(time.Unix(n, us*1000).In(k.Env.Zone()))
		if len(a) == 1 {
			v.I[i], _ = calendar.Round(p, v.T.Scale)
			return nil
		}
		b, ok := calendar.Format(nil, a[1].S[i], calendar.Unpack(p), false)
		if v.S[i] = string(b); !ok {
			v.SetNull(int(i))
		}
		return nil
	}, nil
}

// zoneOf is a time zone by name or offset.
func zoneOf(s string) (*time.Location, bool) {
	if len(s) == 6 && (s[0] == '+' || s[0] == '-') && s[3] == ':' {
		h, err := strconv.Atoi(s[1:3])
		m, err2 := strconv.Atoi(s[4:])
		if err != nil || err2 != nil || h > 14 || m > 59 {
			return nil, false
		}
		off := h*3600 + m*60
		if s[0] == '-' {
			off = -off
		}
		return time.FixedZone(s, off), true
	}
	if strings.EqualFold(s, "system") {
		return time.UTC, true
	}
	loc, err := time.LoadLocation(s)
	return loc, err == nil && s != ""
}
