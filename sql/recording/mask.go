package recording

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Mask replaces literals by others of the same form and length. Equal ones stay equal, and those of
// one form keep their order. It has to have seen all of them ([Mask.Learn]) before it shows one.
// Only what says nothing of a row stays as it is: NULL, numbers up to [Plain], values of ENUMs.
type Mask struct {
	kept    map[string]bool
	numbers ranks[uint64]
	strings ranks[string]
	dates   ranks[string]
	times   ranks[string]
	short   map[string]string // strings that are too short for their rank
	used    map[int]int       // how many there are of a length
	width   int
}

// Plain is the largest number that stays what it is.
const Plain = 16

// ranks are values in their order.
type ranks[T interface{ ~uint64 | ~string }] struct {
	seen map[T]bool
	list []T
}

func (r *ranks[T]) add(v T) {
	if r.seen == nil {
		r.seen = map[T]bool{}
	}
	r.seen[v] = true
}

func (r *ranks[T]) seal() {
	r.list = r.list[:0]
	for v := range r.seen {
		r.list = append(r.list, v)
	}
	slices.Sort(r.list)
}

func (r *ranks[T]) of(v T) int {
	i, _ := slices.BinarySearch(r.list, v)
	return i
}

type form uint8

const (
	formAsIs form = iota
	formNumber
	formDate
	formString
	formName // behind an @
)

// item is a literal that was looked at.
type item struct {
	form   form
	quoted bool
	minus  bool
	number uint64
	digits int    // behind the point
	core   string // of a string
	chars  int    // how long it is
	date   string
	time   string // empty: there is none
}

var (
	reNumber = regexp.MustCompile(`^([+-]?)(\d{0,18})(?:\.(\d*))?(?:[eE][+-]?\d+)?$`)
	reDate   = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d*)?)?$`)
	rePath   = regexp.MustCompile(`^\$[.\w\[\]*]*$`)
)

func (m *Mask) look(l Literal) (it item) {
	t := l.Text
	if up := strings.ToUpper(t); t == "" || up == "NULL" || up == "TRUE" || up == "FALSE" {
		return it
	}
	switch c := t[0]; {
	case c == '\'' || c == '"':
		it.quoted = true
		it.core, it.chars = unquote(t, l.Size)
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		it.core, it.chars = t, l.Size
	case strings.ContainsRune(t, '\''): // N'..', X'..'
		it.quoted = true
		it.core, it.chars = t, max(0, l.Size-3)
	default:
		it.form, it.core = formName, t
		return it
	}
	if it.quoted && (it.core == "" || m.kept[strings.ToLower(it.core)] || rePath.MatchString(it.core)) {
		return item{}
	}
	if n := reNumber.FindStringSubmatch(it.core); n != nil && n[2]+n[3] != "" && l.Size <= maxLiteral {
		it.form, it.minus, it.digits = formNumber, n[1] == "-", len(n[3])
		it.number, _ = strconv.ParseUint(n[2], 10, 64)
		return it
	}
	if d := reDate.FindStringSubmatch(it.core); d != nil {
		if _, err := time.Parse(time.DateOnly, d[1]); err == nil {
			it.form, it.date, it.time = formDate, d[1], d[2]
			return it
		}
	}
	it.form, it.quoted = formString, true
	return it
}

// unquote is what stands in quotes, and how many characters it has. The end of a long one is a sum.
func unquote(t string, size int) (core string, chars int) {
	if size > maxLiteral {
		return t[1:], size - 2
	}
	core = t[1:max(1, len(t)-1)]
	if strings.ContainsAny(core, `\'"`) {
		q := t[:1]
		core = strings.NewReplacer(q+q, q, `\n`, "\n", `\0`, "\x00", `\`+q, q, `\\`, `\`, `\t`, "\t", `\r`, "\r").Replace(core)
	}
	return core, utf8.RuneCountInString(core)
}

// Keep has a string stay as it is: the value of an ENUM, which the definition of its table shows.
func (m *Mask) Keep(s string) {
	if m.kept == nil {
		m.kept = map[string]bool{}
	}
	m.kept[strings.ToLower(s)] = true
}

// Learn sees a literal.
func (m *Mask) Learn(l Literal) {
	switch it := m.look(l); it.form {
	case formNumber:
		if it.number > Plain {
			m.numbers.add(it.number)
		}
	case formDate:
		m.dates.add(it.date)
		if it.time != "" {
			m.times.add(it.time)
		}
	case formString, formName:
		m.strings.add(it.core)
	}
}

// Seal ends the learning.
func (m *Mask) Seal() {
	m.numbers.seal()
	m.strings.seal()
	m.dates.seal()
	m.times.seal()
	m.width = len(strconv.FormatInt(int64(len(m.strings.list)), 36))
	m.short, m.used = map[string]string{}, map[int]int{}
}

// Show is what stands for a literal.
func (m *Mask) Show(l Literal) string {
	it := m.look(l)
	out := l.Text
	switch it.form {
	case formNumber:
		n := it.number
		if n > Plain {
			n = Plain + 1 + uint64(m.numbers.of(n)) // at most what it was
		}
		out = strconv.FormatUint(n, 10)
		if it.minus {
			out = "-" + out
		}
		if it.digits > 0 {
			out += "." + strings.Repeat("0", it.digits-1) + "5"
		}
	case formDate:
		out = time.Date(2000, 1, 1+m.dates.of(it.date), 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		if it.time != "" {
			out += time.Date(2000, 1, 1, 0, 0, min(m.times.of(it.time), 86399), 0, time.UTC).Format(" 15:04:05")
		}
	case formString:
		out = m.word(it.core, it.chars)
	case formName:
		return fmt.Sprintf("v%d", m.strings.of(it.core))
	case formAsIs:
		return out
	}
	if it.quoted {
		return "'" + out + "'"
	}
	return out
}

// word stands for a string of so many characters.
func (m *Mask) word(core string, chars int) string {
	id := strconv.FormatInt(int64(m.strings.of(core)), 36)
	if chars > m.width {
		return "k" + strings.Repeat("0", m.width-len(id)) + id + strings.Repeat("x", min(chars, maxText)-m.width-1)
	}
	s, ok := m.short[core]
	if !ok {
		s = strconv.FormatInt(int64(m.used[chars]), 36)
		m.used[chars]++
		if len(s) > chars { // there are more than such a string can tell apart
			s = s[len(s)-chars:]
		}
		s = strings.Repeat("0", chars-len(s)) + s
		m.short[core] = s
	}
	return s
}
