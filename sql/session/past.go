package session

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/zone"
)

// asOfTime reads the operand of AS OF: a time, a date string, seconds since the
// epoch (with fraction) or, if negative, before now, or a negative interval such as '-5s'.
func (e *Env) asOfTime(ctx *sql.Context, v any) (base.Timestamp, error) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return 0, err
	}
	loc, err := zone.Of(ctx)
	if err != nil {
		return 0, err
	}
	now := e.DB.Time()
	ts, ok := base.Timestamp(0), true
	switch x := v.(type) {
	case time.Time:
		if x.Location() == time.UTC { // what the session's clock shows
			x = time.Date(x.Year(), x.Month(), x.Day(), x.Hour(), x.Minute(), x.Second(), x.Nanosecond(), loc)
		}
		ts = base.FromTime(x)
	case string:
		ts, ok = timeOfText(now, strings.TrimSpace(x), loc)
	case decimal.Decimal:
		ts = timeOfSeconds(now, x)
	case float64:
		ts = base.Timestamp(x * 1e9)
		if x < 0 {
			ts = now.Add(time.Duration(x * 1e9))
		}
	default:
		var n int64
		n, err = strconv.ParseInt(fmt.Sprint(v), 10, 64)
		ts, ok = timeOfInt(now, n), err == nil
	}
	if !ok {
		return 0, fmt.Errorf("AS OF '%v' is not a time: use a timestamp, seconds since 1970, "+
			"or an interval before now such as '-5s'", v)
	}
	return ts, nil
}

// timeOfText reads a negative interval, a date by the clock of a zone, or seconds since 1970.
func timeOfText(now base.Timestamp, text string, loc *time.Location) (base.Timestamp, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), d <= 0
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", time.RFC3339Nano, "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, loc); err == nil {
			return base.FromTime(t), true
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return timeOfInt(now, n), true
	}
	d, err := decimal.NewFromString(text)
	return timeOfSeconds(now, d), err == nil
}

// timeOfSeconds is so many seconds since 1970, or before now if negative.
func timeOfSeconds(now base.Timestamp, d decimal.Decimal) base.Timestamp {
	if d.Sign() < 0 {
		return now.Add(time.Duration(d.Shift(9).IntPart()))
	}
	return base.Timestamp(d.Shift(9).IntPart())
}

// timeOfInt is so many seconds since 1970, or before now if negative, or already a timestamp, in
// nanoseconds.
func timeOfInt(now base.Timestamp, n int64) base.Timestamp {
	switch {
	case n < 0:
		return now.Add(time.Duration(n) * time.Second)
	case n > 1e15:
		return base.Timestamp(n)
	}
	return base.Timestamp(n * 1e9)
}

// pastSnapshots bounds how many catalogs of the past are kept.
const pastSnapshots = 16

// TimeAsOf is the time that the operand of AS OF names.
func (e *Env) TimeAsOf(ctx *sql.Context, asOf any) (base.Timestamp, error) {
	return e.asOfTime(ctx, asOf)
}

// SnapshotAsOf is the catalog at a time of the past.
func (e *Env) SnapshotAsOf(ctx *sql.Context, asOf any) (*schema.Snapshot, base.Timestamp, error) {
	ts, err := e.asOfTime(ctx, asOf)
	if err != nil {
		return nil, 0, err
	}
	if now := e.DB.Clock(); ts > now {
		return nil, 0, fmt.Errorf("AS OF lies in the future by %v", ts.Sub(now))
	}
	cur, err := e.stored(ctx)
	if err != nil {
		return nil, 0, err
	}
	if ts >= cur.Changed {
		return cur, ts, nil
	}
	e.pastMu.Lock()
	defer e.pastMu.Unlock()
	if s := e.past[ts]; s != nil {
		return s, ts, nil
	}
	s, err := schema.LoadSnapshot(ctx, e.DB, cur, ts)
	if err != nil {
		return nil, 0, schema.ClientError(err)
	}
	if e.past == nil || len(e.past) >= pastSnapshots {
		e.past = map[base.Timestamp]*schema.Snapshot{}
	}
	e.past[ts] = s
	return s, ts, nil
}
