package changefeed

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/changefeed/event"
	"github.com/godwitdb/godwit/sql/changefeed/sink"
	"github.com/godwitdb/godwit/sql/schema"
)

// Statements, in the syntax of CockroachDB:
//
//	CREATE CHANGEFEED FOR [TABLE] [d.]t [, ...] INTO 'sink' [WITH option [= 'value'] [, ...]]
//	SHOW CHANGEFEEDS, SHOW CHANGEFEED JOBS, SHOW CHANGEFEED JOB number
//	PAUSE JOB number
//	RESUME JOB number

// verb is what a statement does.
type verb string

const (
	verbCreate verb = "CREATE CHANGEFEED"
	verbShow   verb = "SHOW CHANGEFEEDS"
	verbPause  verb = "PAUSE JOB"
	verbResume verb = "RESUME JOB"
)

// Statement is a statement of this package.
type Statement struct {
	verb   verb
	tables []name // without DB: of the session's database
	sink   string
	o      options
	cursor string // as it was written
	job    uint64 // 0: all

	err error // the statement is one of ours, and wrong
}

// name is a table.
type name struct {
	DB    string `json:"db"`
	Table string `json:"table"`
}

func (n name) String() string { return n.DB + "." + n.Table }

// scan says whether all rows come first.
type scan string

const (
	scanYes  scan = "yes"
	scanNo   scan = "no"
	scanOnly scan = "only"
)

// What happens when a column is added, dropped or changed.
const (
	policyBackfill   = "backfill"
	policyNoBackfill = "nobackfill"
	policyStop       = "stop"
)

// What happens when a feed fails.
const (
	onErrorFail  = "fail"
	onErrorPause = "pause"
)

// defaultProtect is for how long old versions are kept for a feed whose sink takes nothing.
const defaultProtect = time.Hour

const (
	leastProtect = time.Minute
	mostProtect  = 7 * 24 * time.Hour
	leastMarks   = 100 * time.Millisecond
)

// options are those of a feed, as its job keeps them.
type options struct {
	Format event.Format  `json:"format"`
	Scan   scan          `json:"scan"`
	Marks  bool          `json:"marks,omitempty"`
	Every  time.Duration `json:"every,omitempty"` // between marks, at least
	// Full: topics have the name of the database, too. It is always so.
	OnError string        `json:"on_error"`
	Policy  string        `json:"policy"`
	Protect time.Duration `json:"protect"`
	Sink    sink.Settings `json:"sink"`
}

// Parse reads a statement; nil if it is none of them. One that is wrong is one that fails when it
// is run.
func Parse(q string) *Statement {
	p := &reader{rest: q}
	st := &Statement{}
	switch {
	case p.word("CREATE") && p.word("CHANGEFEED"):
		st.verb = verbCreate
		p.create(st)
	case p.again(q) && p.word("SHOW") && (p.word("CHANGEFEEDS") || p.is("CHANGEFEED")):
		st.verb = verbShow
		if p.word("CHANGEFEED") && !p.word("JOBS") {
			p.must("JOB")
			st.job = p.number()
		}
	case p.again(q) && p.word("PAUSE") && p.word("JOB"):
		st.verb = verbPause
		st.job = p.number()
	case p.again(q) && p.word("RESUME") && p.word("JOB"):
		st.verb = verbResume
		st.job = p.number()
	default:
		return nil
	}
	if p.err == nil && strings.Trim(p.rest, "; \t\r\n") != "" {
		p.fail("the end of the statement")
	}
	st.err = p.err
	return st
}

// reader reads a statement from the left. After the first error it reads nothing more.
type reader struct {
	rest string
	err  error
}

// again begins anew.
func (p *reader) again(q string) bool { p.rest = q; return true }

// fail notes an error. It shows nothing of what is in quotes, which may be a password.
func (p *reader) fail(want string) {
	if p.err != nil {
		return
	}
	near := strings.TrimSpace(p.rest)
	if i := strings.IndexAny(near, "'\""); i >= 0 {
		near = near[:i] + "..."
	}
	if len(near) > 60 {
		near = near[:60] + "..."
	}
	p.err = schema.Invalid(fmt.Sprintf("the statement cannot be read near %q: %s is expected there", near, want))
}

func (p *reader) wrong(format string, args ...any) {
	if p.err == nil {
		p.err = schema.Invalid(fmt.Sprintf(format, args...))
	}
}

func (p *reader) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// is reports whether a keyword comes next.
func (p *reader) is(w string) bool {
	p.space()
	n := len(w)
	return p.err == nil && len(p.rest) >= n && strings.EqualFold(p.rest[:n], w) && (len(p.rest) == n || !isWord(p.rest[n]))
}

// word takes a keyword if it comes next.
func (p *reader) word(w string) bool {
	if !p.is(w) {
		return false
	}
	p.rest = p.rest[len(w):]
	return true
}

func (p *reader) must(w string) {
	if !p.word(w) {
		p.fail(w)
	}
}

// sign takes a character if it comes next.
func (p *reader) sign(c byte) bool {
	p.space()
	if p.err != nil || p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// ident takes a name, with or without backticks.
func (p *reader) ident() string {
	p.space()
	if p.err != nil {
		return ""
	}
	if !strings.HasPrefix(p.rest, "`") {
		n := 0
		for n < len(p.rest) && isWord(p.rest[n]) {
			n++
		}
		if n == 0 {
			p.fail("a name")
		}
		s := p.rest[:n]
		p.rest = p.rest[n:]
		return s
	}
	return p.quoted("a name", false)
}

// quoted takes what is between two of the character that comes next.
func (p *reader) quoted(what string, escapes bool) string {
	quote := p.rest[0]
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case escapes && c == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(p.rest[i])
		case c != quote:
			b.WriteByte(c)
		case i+1 < len(p.rest) && p.rest[i+1] == quote:
			i++
			b.WriteByte(c)
		case b.Len() == 0:
			p.fail(what)
			return ""
		default:
			p.rest = p.rest[i+1:]
			return b.String()
		}
	}
	p.fail("the end of " + what)
	return ""
}

// text takes a string in quotes that is not empty.
func (p *reader) text(what string) string {
	p.space()
	if p.err != nil || p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		p.fail(what + " in quotes")
		return ""
	}
	return p.quoted(what, true)
}

func (p *reader) number() uint64 {
	p.space()
	n := 0
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseUint(p.rest[:n], 10, 63)
	if err != nil || v == 0 {
		p.fail("the number of a job, as SHOW CHANGEFEEDS shows it,")
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *reader) create(st *Statement) {
	p.must("FOR")
	p.word("TABLE")
	for more := true; more && p.err == nil; more = p.sign(',') {
		p.word("TABLE")
		n := name{Table: p.ident()}
		if p.sign('.') {
			n.DB, n.Table = n.Table, p.ident()
		}
		st.tables = append(st.tables, n)
	}
	p.must("INTO")
	st.sink = p.text("the sink")
	st.o = options{Format: event.Format{Envelope: event.Wrapped}, OnError: onErrorFail, Policy: policyBackfill,
		Protect: defaultProtect}
	given := map[string]bool{}
	if p.word("WITH") {
		for more := true; more && p.err == nil; more = p.sign(',') {
			p.option(st, given)
		}
	}
	if p.err == nil {
		p.err = st.check()
	}
}

// option takes an option and its value.
func (p *reader) option(st *Statement, given map[string]bool) {
	key := strings.ToLower(p.ident())
	if p.err == nil && key == "" {
		p.fail("an option")
	}
	o, known := optionsByName[key]
	switch {
	case p.err != nil:
		return
	case !known:
		p.wrong("CREATE CHANGEFEED has no option %s; it has %s", key, strings.Join(optionNames(), ", "))
		return
	case given[key]:
		p.wrong("option %s is given twice", key)
		return
	}
	given[key] = true
	value, has := "", p.sign('=')
	if has {
		value = p.text("the value of " + key)
	}
	switch {
	case p.err != nil:
	case has && !o.value:
		p.wrong("option %s has no value", key)
	case !has && o.value && !o.bare:
		p.wrong("option %s takes a value: %s = '...'", key, key)
	default:
		if why := o.set(st, value); why != "" {
			p.wrong("option %s: %s", key, why)
		}
	}
}

// option is how an option is read.
type option struct {
	value bool // it may have a value
	bare  bool // and need not
	// set returns what is wrong with the value. It does not repeat what may be a secret.
	set func(st *Statement, value string) string
}

func flag(to func(*options) *bool) option {
	return option{set: func(st *Statement, _ string) string { *to(&st.o) = true; return "" }}
}

// choice is an option with one of some values.
func choice(set func(*Statement, string), of ...string) option {
	return option{value: true, set: func(st *Statement, v string) string {
		v = strings.ToLower(v)
		if !slices.Contains(of, v) {
			return "it is one of '" + strings.Join(of, "', '") + "'"
		}
		set(st, v)
		return ""
	}}
}

// period is an option with a duration.
func period(least, most time.Duration, set func(*Statement, time.Duration)) option {
	return option{value: true, set: func(st *Statement, v string) string {
		d, err := time.ParseDuration(v)
		if err != nil || d < least || d > most {
			return fmt.Sprintf("it is a duration such as '10s', from %v to %v", least, most)
		}
		set(st, d)
		return ""
	}}
}

var optionsByName map[string]option

func init() {
	marks := period(leastMarks, 24*time.Hour, func(st *Statement, d time.Duration) { st.o.Marks, st.o.Every = true, d })
	of := marks.set
	marks.bare, marks.set = true, func(st *Statement, v string) string {
		if v == "" {
			st.o.Marks = true
			return ""
		}
		return of(st, v)
	}
	once := func(s scan) option {
		return option{set: func(st *Statement, _ string) string { return st.setScan(s) }}
	}
	initial := choice(func(*Statement, string) {}, string(scanYes), string(scanNo), string(scanOnly))
	check := initial.set
	initial.bare, initial.set = true, func(st *Statement, v string) string {
		if v == "" {
			v = string(scanYes)
		}
		if why := check(st, v); why != "" {
			return why
		}
		return st.setScan(scan(strings.ToLower(v)))
	}
	optionsByName = map[string]option{
		"updated":        flag(func(o *options) *bool { return &o.Format.Updated }),
		"diff":           flag(func(o *options) *bool { return &o.Format.Diff }),
		"key_in_value":   flag(func(o *options) *bool { return &o.Format.Key }),
		"topic_in_value": flag(func(o *options) *bool { return &o.Format.Topic }),
		"resolved":       marks, "initial_scan": initial, "no_initial_scan": once(scanNo), "initial_scan_only": once(scanOnly),
		"cursor": {value: true, set: func(st *Statement, v string) string { st.cursor = v; return "" }},
		"envelope": choice(func(st *Statement, v string) { st.o.Format.Envelope = event.Envelope(v) }, string(event.Wrapped),
			string(event.Row), string(event.KeyOnly)),
		"format":   choice(func(*Statement, string) {}, "json"),
		"on_error": choice(func(st *Statement, v string) { st.o.OnError = v }, onErrorFail, onErrorPause),
		"schema_change_policy": choice(func(st *Statement, v string) { st.o.Policy = v }, policyBackfill, policyNoBackfill,
			policyStop),
		"compression":              choice(func(st *Statement, v string) { st.o.Sink.Compression = v }, "gzip", "zstd"),
		"gc_protect_expires_after": period(leastProtect, mostProtect, func(st *Statement, d time.Duration) { st.o.Protect = d }),
		"webhook_client_timeout":   period(time.Second, time.Minute, func(st *Statement, d time.Duration) { st.o.Sink.Timeout = d }),
		"webhook_auth_header": {value: true, set: func(st *Statement, v string) string {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return "a header has no control characters"
			}
			st.o.Sink.AuthHeader = v
			return ""
		}},
	}
}

func (st *Statement) setScan(s scan) string {
	if st.o.Scan != "" && st.o.Scan != s {
		return "it contradicts another option about the initial scan"
	}
	st.o.Scan = s
	return ""
}

func optionNames() []string {
	var out []string
	for n := range optionsByName {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// check looks for options that do not go together.
func (st *Statement) check() error {
	a, err := sink.Parse(st.sink)
	if err != nil {
		return schema.Invalid(err.Error())
	}
	o := &st.o
	if o.Scan == "" {
		o.Scan = scanYes
		if st.cursor != "" {
			o.Scan = scanNo
		}
	}
	var why string
	switch {
	case st.cursor != "" && o.Scan == scanYes:
		why = "cursor is where the changes begin: with it there is no initial scan, unless initial_scan = 'only' reads that moment"
	case o.Format.Envelope == event.Row && a.Kind != sink.Kafka:
		why = "envelope = 'row' has no place for deleted rows: it is for Kafka, where they are messages without a value"
	case o.Format.Envelope == event.Row && (o.Format.Updated || o.Format.Diff || o.Format.Key || o.Format.Topic):
		why = "envelope = 'row' has the row alone: updated, diff, key_in_value and topic_in_value take envelope = 'wrapped'"
	case o.Format.Envelope == event.KeyOnly && o.Format.Diff:
		why = "envelope = 'key_only' has no rows: diff takes envelope = 'wrapped'"
	case a.Kind != sink.Webhook && (o.Sink.AuthHeader != "" || o.Sink.Timeout != 0):
		why = "webhook_auth_header and webhook_client_timeout are of https:// sinks"
	}
	if why != "" {
		return schema.Invalid(why)
	}
	if a.Kind != sink.Kafka || o.Format.Envelope == event.KeyOnly {
		o.Format.Key = true // else nobody could tell
	}
	if a.Kind == sink.Webhook {
		o.Format.Topic = true
	}
	return nil
}

// Schema is what the statement returns.
func (st *Statement) Schema() sql.Schema {
	switch st.verb {
	case verbCreate:
		return columns("job_id#")
	case verbShow:
		return columns("job_id#", "tables", "sink", "user_name", "status", "node#", "resolved", "lag_s#", "rows#", "bytes#",
			"scanning", "error", "started", "options")
	}
	return types.OkResultSchema
}

// columns makes a schema: of numbers where a name ends in #, of texts elsewhere.
func columns(names ...string) sql.Schema {
	s := make(sql.Schema, len(names))
	for i, n := range names {
		s[i] = &sql.Column{Name: strings.TrimSuffix(n, "#"), Type: types.LongText, Nullable: true}
		if strings.HasSuffix(n, "#") {
			s[i].Type = types.Int64
		}
	}
	return s
}

// Name is the kind of the statement.
func (st *Statement) Name() string { return string(st.verb) }
