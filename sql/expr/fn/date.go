package fn

import (
	"fmt"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
	"github.com/godwitdb/godwit/sql/zone"
)

// part makes a function of a date that is a number; whole ones need month and day.
func part(names string, whole bool, f func(p int64) int64) {
	sig{names: names, min: 1, max: 1, args: "t", ret: maybe(expr.TypeInt),
		make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
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
	sig{names: name, min: 1, max: 1, args: "T", ret: maybe(expr.TypeInt),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
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
	sig{names: "time_to_sec", min: 1, max: 1, args: "T", ret: maybe(expr.TypeInt),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
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
	word := expr.TextType(9, sql.Collation_Default, expr.CoerceNumeric)
	name := func(fn string, f func(p int64) string) {
		sig{names: fn, min: 1, max: 1, args: "t", ret: maybe(word), make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
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
	sig{names: "last_day", min: 1, max: 1, args: "t", ret: maybe(expr.TypeDate),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
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
		sig{names: name, min: 1, max: 2, args: "ti", ret: maybe(expr.TypeInt),
			make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
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

func setDuration(env *expr.Env, v *expr.Vec, i int32, us int64) { v.I[i] = clipped(env, us, v.T.Scale) }

// clipped is a TIME in microseconds within its range. One beyond that is noted, with its digits.
func clipped(env *expr.Env, us int64, digits int) int64 {
	in := min(max(us, -calendar.MaxDuration), calendar.MaxDuration)
	if in != us && env != nil {
		env.Note(1292, "Truncated incorrect time value: '"+string(calendar.AppendDuration(nil, us, digits))+"'")
	}
	return in
}

// timed makes a rowEval that notes times beyond their range.
func timed(f func(env *expr.Env, a []*expr.Vec, i int32, v *expr.Vec) error) func(*expr.Call, *expr.Compiler) (rowEval, error) {
	return func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
		return func(a []*expr.Vec, i int32, v *expr.Vec) error { return f(k.Env, a, i, v) }, nil
	}
}

// registerMake registers what makes dates and times of their parts or of other values, and what
// counts between two of them.
func registerMake() {
	expr.Register(
		&expr.Func{Name: "date", Min: 1, Max: 1, Derive: deriveDate, Eval: evalDate},
		&expr.Func{Name: "time", Min: 1, Max: 1, Derive: deriveTime, Eval: evalFirst},
	)
	for _, s := range []sig{
		{names: "makedate", min: 2, max: 2, args: "i", ret: maybe(expr.TypeDate), make: plain(makeDate)},
		{names: "from_days", min: 1, max: 1, args: "i", ret: maybe(expr.TypeDate), make: plain(fromDays)},
		{names: "sec_to_time", min: 1, max: 1, args: "n", ret: timeOfSeconds(0), make: timed(secToTime)},
		{names: "maketime", min: 3, max: 3, args: "iin", ret: timeOfSeconds(2), make: timed(makeTime)},
		{names: "period_add", min: 2, max: 2, args: "i", ret: returns(expr.TypeInt), make: plain(periodAdd)},
		{names: "period_diff", min: 2, max: 2, args: "i", ret: returns(expr.TypeInt), make: plain(periodDiff)},
		{names: "datediff", min: 2, max: 2, args: "t", ret: maybe(expr.TypeInt), make: makeDateDiff},
	} {
		s.register()
	}
}

func deriveDate(c *expr.Call) error {
	c.Args[0] = expr.CastTo(c.Args[0], expr.DatetimeType(6))
	c.T = expr.TypeDate
	c.T.NotNull = c.Args[0].Type().NotNull
	return nil
}

func evalDate(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	e, err := k.Expr(c.Args[0])
	if err != nil {
		return nil, err
	}
	return expr.NewRowFunc(c.T, []expr.Expr{e}, func(a []*expr.Vec, i int32, v *expr.Vec) error {
		v.I[i] = calendar.DateOf(a[0].I[i])
		return nil
	}), nil
}

func deriveTime(c *expr.Call) error {
	t := c.Args[0].Type()
	fsp := t.Scale
	if !t.Temporal() {
		fsp = literalDigits(c.Args[0])
	}
	c.Args[0] = expr.CastTo(c.Args[0], expr.TimeType(fsp))
	c.T = c.Args[0].Type()
	return nil
}

func makeDate(a []*expr.Vec, i int32, v *expr.Vec) error {
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
}

func fromDays(a []*expr.Vec, i int32, v *expr.Vec) error {
	y, m, d := calendar.FromDayNumber(int(min(max(a[0].I[i], 0), 4000000)))
	v.I[i] = calendar.Pack(calendar.Time{Year: y, Month: m, Day: d})
	return nil
}

// timeOfSeconds is the type of a TIME with the digits of an argument, its seconds.
func timeOfSeconds(arg int) func(c *expr.Call) (expr.Type, error) {
	return func(c *expr.Call) (expr.Type, error) {
		fsp := 0
		if t := c.Args[arg].Type(); t.Kind == expr.Decimal {
			fsp = t.Scale
		} else if t.Kind == expr.Float {
			fsp = 6
		}
		return expr.TimeType(fsp), nil
	}
}

func secToTime(env *expr.Env, a []*expr.Vec, i int32, v *expr.Vec) error {
	n, us, ok := expr.NumberParts(a[0], i)
	if !ok || n > 1e9 || n < -1e9 {
		n, us = 1e9*int64(signOf(a[0], i)), 0
	}
	setDuration(env, v, i, n*1e6+us)
	return nil
}

func makeTime(env *expr.Env, a []*expr.Vec, i int32, v *expr.Vec) error {
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
	setDuration(env, v, i, total)
	return nil
}

func periodAdd(a []*expr.Vec, i int32, v *expr.Vec) error {
	n := periodMonths(a[0].I[i]) + a[1].I[i]
	v.I[i] = n/12*100 + n%12 + 1
	return nil
}

func periodDiff(a []*expr.Vec, i int32, v *expr.Vec) error {
	v.I[i] = periodMonths(a[0].I[i]) - periodMonths(a[1].I[i])
	return nil
}

func makeDateDiff(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
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
	sig{names: "date_format", min: 2, max: 2, args: "ts", ret: orNull(textFrom(nil, 1)),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			if err := short("date_format", 1, a[1].S[i]); err != nil {
				return err
			}
			b, ok := calendar.Format(nil, a[1].S[i], calendar.Unpack(a[0].I[i]), false)
			if v.S[i] = string(b); !ok || len(b) == 0 {
				v.SetNull(int(i))
			}
			return nil
		})}.register()
	sig{names: "time_format", min: 2, max: 2, args: "Ts", ret: orNull(textFrom(nil, 1)),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			if err := short("time_format", 1, a[1].S[i]); err != nil {
				return err
			}
			us := a[0].I[i]
			var b []byte
			if us < 0 {
				b, us = append(b, '-'), -us
			}
			s := int(us / 1e6)
			t := calendar.Time{Hour: s / 3600, Minute: s / 60 % 60, Second: s % 60, Micro: int(us % 1e6)}
			b, ok := calendar.Format(b, a[1].S[i], t, true)
			if v.S[i] = string(b); !ok || len(b) == 0 {
				v.SetNull(int(i))
			}
			return nil
		})}.register()
	sig{names: "get_format", min: 2, max: 2, args: "s", ret: orNull(textFrom(func(*expr.Call) int { return 17 }, 1)),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			if v.S[i] = formats[a[0].S[i]][strings.ToUpper(a[1].S[i])]; v.S[i] == "" {
				v.SetNull(int(i))
			}
			return nil
		})}.register()
	sig{names: "str_to_date", min: 2, max: 2, args: "s", ret: strToDateType, make: makeStrToDate}.register()
}

// formats are what GET_FORMAT knows. (The binder says "datetime" for TIMESTAMP, too.)
var formats = map[string]map[string]string{
	"date": {"USA": "%m.%d.%Y", "JIS": "%Y-%m-%d", "ISO": "%Y-%m-%d", "EUR": "%d.%m.%Y", "INTERNAL": "%Y%m%d"},
	"time": {"USA": "%h:%i:%s %p", "JIS": "%H:%i:%s", "ISO": "%H:%i:%s", "EUR": "%H.%i.%s", "INTERNAL": "%H%i%s"},
	"datetime": {"USA": "%Y-%m-%d %H.%i.%s", "JIS": "%Y-%m-%d %H:%i:%s", "ISO": "%Y-%m-%d %H:%i:%s",
		"EUR": "%Y-%m-%d %H.%i.%s", "INTERNAL": "%Y%m%d%H%i%s"},
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
		from, ok := zone.Load(a[1].S[i])
		to, ok2 := zone.Load(a[2].S[i])
		if !ok || !ok2 || !calendar.Complete(a[0].I[i]) {
			v.SetNull(int(i))
			return nil
		}
		at := calendar.ToGo(a[0].I[i], from)
		if v.I[i] = a[0].I[i]; at.Unix() >= 1 && at.Unix() <= lastUnix {
			v.I[i] = calendar.FromGo(at.In(to))
		}
		return nil
	})}.register()
}

// lastUnix is the last second that MySQL counts: 3001-01-18 23:59:59 UTC.
const lastUnix = 32536771199

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
		loc = expr.Utc
	}
	return expr.NewRowFunc(c.T, []expr.Expr{e}, func(a []*expr.Vec, i int32, v *expr.Vec) error {
		us := int64(0)
		if calendar.Complete(a[0].I[i]) {
			us = calendar.ToGo(a[0].I[i], loc).UnixMicro()
		}
		if us < 0 || us >= (lastUnix+1)*1e6 {
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
		if !ok || n < 0 || us < 0 || n > lastUnix {
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
