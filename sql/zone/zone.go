package zone

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // for machines without files of zones

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// Variable is the name of the session's variable, SystemName the value that says: as the machine.
const (
	Variable   = "time_zone"
	SystemName = "SYSTEM"
)

const errUnknown = 1298 // ER_UNKNOWN_TIME_ZONE

// ErrUnknown is MySQL's error of a name that is no zone.
func ErrUnknown(name string) error {
	return mysql.NewSQLError(errUnknown, "HY000", "Unknown or incorrect time zone: '%s'", name)
}

// place is a zone with its name as the variable keeps it.
type place struct {
	*time.Location
	name string
}

// loaded are the zones by the names under which they were asked for. Names come from clients, so
// that only those of zones that exist are kept: each of some 600 in a few spellings.
var loaded sync.Map

// most bounds the spellings that are kept.
const most = 4096

var kept struct {
	sync.Mutex
	n int
}

// Load is the zone that MySQL means by a name: SYSTEM, an offset from -13:59 to +14:00, or the name
// of a zone, in any case. A zone that is always UTC is time.UTC itself.
func Load(name string) (*time.Location, bool) {
	p, ok := find(name)
	return p.Location, ok
}

// find is the zone of a name, from those that were asked for before where it is one of them.
func find(name string) (place, bool) {
	if p, ok := loaded.Load(name); ok {
		return p.(place), true
	}
	p, ok := load(name)
	if !ok {
		return place{}, false
	}
	kept.Lock()
	defer kept.Unlock()
	if kept.n < most {
		kept.n++
		loaded.Store(name, p)
	}
	return p, true
}

func load(name string) (place, bool) {
	if strings.EqualFold(name, SystemName) {
		return place{System(), SystemName}, true
	}
	return named(name)
}

// read reads the rules of a zone; tests count its calls.
var read = time.LoadLocation

// named is the zone of a name, or of an offset.
func named(name string) (place, bool) {
	if name != "" && (name[0] == '+' || name[0] == '-') {
		seconds, ok := offset(name)
		if !ok {
			return place{}, false
		}
		if len(name) == len("+h:mm") {
			name = name[:1] + "0" + name[1:]
		}
		if seconds == 0 {
			return place{time.UTC, name}, true
		}
		return place{time.FixedZone(name, seconds), name}, true
	}
	for _, n := range []string{name, spelled(name)} {
		if !isName(n) {
			continue
		}
		if l, err := read(n); err == nil {
			return place{plain(l), n}, true
		}
	}
	return place{}, false
}

// isName leaves out what Go takes for a zone and MySQL does not, and names that lead elsewhere.
func isName(n string) bool {
	return n != "" && n != "Local" && n[0] != '.' && n[0] != '/' && !strings.Contains(n, "..") && !strings.ContainsAny(n, "\\\x00")
}

// plain is time.UTC for a zone that shows nothing else.
func plain(l *time.Location) *time.Location {
	if alike(l, time.UTC) {
		return time.UTC
	}
	return l
}

// spelled is a name as most zones are spelled, which MySQL finds in any case: Europe/Berlin,
// America/Port-au-Prince and Africa/Dar_es_Salaam are capital but for a few words.
func spelled(name string) string {
	if up := strings.ToUpper(name); len(name) == 3 || len(name) == 7 && name[3] >= '0' && name[3] <= '9' {
		return up // CET, EST, EST5EDT
	}
	out := []byte(strings.ToLower(name))
	begin := 0
	for i := 0; i <= len(out); i++ {
		if i < len(out) && (out[i] >= 'a' && out[i] <= 'z' || out[i] >= '0' && out[i] <= '9') {
			continue
		}
		if word := string(out[begin:i]); i > begin {
			copy(out[begin:i], wordOf(word))
		}
		begin = i + 1
	}
	return string(out)
}

// upper are words of names that are spelled in capitals, small those that are not capital at all.
var (
	upper = []string{"utc", "gmt", "uct", "gb", "nz", "us", "prc", "roc", "rok", "eet", "met", "wet", "cet", "est", "mst", "hst"}
	small = []string{"es", "of", "au"}
)

func wordOf(w string) string {
	switch {
	case slices.Contains(upper, w):
		return strings.ToUpper(w)
	case slices.Contains(small, w):
		return w
	case w == "mcmurdo":
		return "McMurdo"
	case w == "dumontdurville":
		return "DumontDUrville"
	}
	return strings.ToUpper(w[:1]) + w[1:]
}

// offset is an offset from UTC in seconds: [+-]h:mm or [+-]hh:mm.
func offset(s string) (int, bool) {
	h, m, ok := strings.Cut(s[1:], ":")
	if !ok || len(h) < 1 || len(h) > 2 || len(m) != 2 {
		return 0, false
	}
	hours, err := strconv.ParseUint(h, 10, 8)
	minutes, err2 := strconv.ParseUint(m, 10, 8)
	if err != nil || err2 != nil || minutes > 59 {
		return 0, false
	}
	n := int(hours*60 + minutes)
	if s[0] == '-' {
		n = -n
	}
	return n * 60, n >= -(13*60+59) && n <= 14*60
}

// Of is the zone of a session. SET has checked its name.
func Of(ctx *sql.Context) (*time.Location, error) {
	name, err := Name(ctx)
	if err != nil || name == "" {
		return System(), err
	}
	l, ok := Load(name)
	if !ok {
		return nil, ErrUnknown(name)
	}
	return l, nil
}

// MomentVariable is the name of the session's variable that says what time it is, in seconds since
// 1970; 0: what the clock says.
const MomentVariable = "timestamp"

// Now is the time of a statement.
func Now(ctx *sql.Context) time.Time {
	v, err := ctx.GetSessionVariable(ctx, MomentVariable)
	if seconds, ok := v.(float64); ok && err == nil && seconds > 0 {
		return time.UnixMicro(int64(math.Round(seconds * 1e6)))
	}
	return ctx.QueryTime()
}

// Canonical is a name as the variable keeps it: SYSTEM in capitals, offsets with two digits, names
// as zones are spelled.
func Canonical(name string) (string, error) {
	p, ok := find(name)
	if !ok {
		return "", ErrUnknown(name)
	}
	return p.name, nil
}

// Name is what time_zone of a session says.
func Name(ctx *sql.Context) (string, error) {
	v, err := ctx.GetSessionVariable(ctx, Variable)
	name, _ := v.(string)
	return name, err
}

// Instant is the moment that the engine's value of a time by the session's clock stands for, as the
// engine has values: in UTC. skipped: the clock never shows it. Zero dates stay what they are.
func Instant(ctx *sql.Context, at time.Time) (moment time.Time, skipped bool, err error) {
	loc, err := Of(ctx)
	if err != nil || loc == time.UTC || at.Year() <= 0 {
		return at, false, err
	}
	moment, skipped = calendar.Meant(calendar.FromGo(at), loc, Now(ctx))
	return moment.UTC(), skipped, nil
}

var system = sync.OnceValue(func() *time.Location {
	if name, ok := SystemZone(); ok {
		if p, ok := named(name); ok {
			return p.Location
		}
	}
	return time.Local
})

// System is the zone of the machine.
func System() *time.Location { return system() }

// SystemZone is the name of the machine's zone, under which others know it; ok is false if it has
// none that they would.
var SystemZone = sync.OnceValues(func() (name string, ok bool) {
	return systemZone(os.Getenv, os.Readlink)
})

// systemZone looks where Go looks: in TZ, and behind /etc/localtime.
func systemZone(env func(string) string, link func(string) (string, error)) (string, bool) {
	if time.Local == time.UTC {
		return "UTC", true
	}
	name := strings.TrimPrefix(env("TZ"), ":")
	if name == "" {
		target, err := link("/etc/localtime")
		if err != nil {
			return utcOrNone(time.Local)
		}
		name = target
	}
	if _, behind, found := strings.Cut(filepath.ToSlash(name), "zoneinfo/"); found {
		name = behind
	}
	if !isName(name) || strings.EqualFold(name, SystemName) {
		return utcOrNone(time.Local)
	}
	p, ok := named(name)
	if !ok || !alike(p.Location, time.Local) {
		return utcOrNone(time.Local)
	}
	return name, true
}

// utcOrNone is the name of a zone that has none, if it shows the same as UTC.
func utcOrNone(l *time.Location) (string, bool) {
	if alike(l, time.UTC) {
		return "UTC", true
	}
	return "", false
}

// alike reports whether two zones show the same in each week of the years that TIMESTAMPs have.
func alike(a, b *time.Location) bool {
	for at := int64(0); at <= math.MaxInt32; at += 7 * 86400 {
		_, x := time.Unix(at, 0).In(a).Zone()
		if _, y := time.Unix(at, 0).In(b).Zone(); x != y {
			return false
		}
	}
	return true
}
