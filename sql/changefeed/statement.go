package changefeed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/changefeed/event"
	"github.com/godwitdb/godwit/sql/changefeed/sink"
	"github.com/godwitdb/godwit/sql/phrase"
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
	// Registry is the address of the schema registry, with its secrets; empty: there is none.
	Registry string `json:"registry,omitempty"`
}

// Parse reads a statement; nil if it is none of them. One that is wrong is one that fails when it
// is run.
func Parse(q string) *Statement {
	p := &reader{phrase.Reader{Rest: q}}
	st := &Statement{}
	switch {
	case p.Word("CREATE") && p.Word("CHANGEFEED"):
		st.verb = verbCreate
		p.create(st)
	case p.again(q) && p.Word("SHOW") && (p.Word("CHANGEFEEDS") || p.Is("CHANGEFEED")):
		st.verb = verbShow
		if p.Word("CHANGEFEED") && !p.Word("JOBS") {
			p.Must("JOB")
			st.job = p.Number(aJob)
		}
	case p.again(q) && p.Word("PAUSE") && p.Word("JOB"):
		st.verb = verbPause
		st.job = p.Number(aJob)
	case p.again(q) && p.Word("RESUME") && p.Word("JOB"):
		st.verb = verbResume
		st.job = p.Number(aJob)
	default:
		return nil
	}
	p.End()
	st.err = p.Err
	return st
}

// reader reads a statement from the left. After the first error it reads nothing more.
type reader struct{ phrase.Reader }

// aJob is what is expected where a job is named.
const aJob = "the number of a job, as SHOW CHANGEFEEDS shows it,"

// filled takes a text that is not empty.
func (p *reader) filled(what string) string {
	s := p.Text(what)
	if s == "" {
		p.Fail(what)
	}
	return s
}

// again begins anew.
func (p *reader) again(q string) bool { p.Rest = q; return true }

func (p *reader) create(st *Statement) {
	p.Must("FOR")
	p.Word("TABLE")
	for more := true; more && p.Err == nil; more = p.Sign(',') {
		p.Word("TABLE")
		n := name{Table: p.Ident()}
		if p.Sign('.') {
			n.DB, n.Table = n.Table, p.Ident()
		}
		st.tables = append(st.tables, n)
	}
	p.Must("INTO")
	st.sink = p.filled("the sink")
	st.o = options{Format: event.Format{Envelope: event.Wrapped}, OnError: onErrorFail, Policy: policyBackfill,
		Protect: defaultProtect}
	given := map[string]bool{}
	if p.Word("WITH") {
		for more := true; more && p.Err == nil; more = p.Sign(',') {
			p.option(st, given)
		}
	}
	if p.Err == nil {
		p.Err = st.check()
	}
}

// option takes an option and its value.
func (p *reader) option(st *Statement, given map[string]bool) {
	key := strings.ToLower(p.Ident())
	if p.Err == nil && key == "" {
		p.Fail("an option")
	}
	o, known := optionsByName[key]
	switch {
	case p.Err != nil:
		return
	case !known:
		p.Wrong("CREATE CHANGEFEED has no option %s; it has %s", key, strings.Join(optionNames(), ", "))
		return
	case given[key]:
		p.Wrong("option %s is given twice", key)
		return
	}
	given[key] = true
	value, has := "", p.Sign('=')
	if has {
		value = p.filled("the value of " + key)
	}
	switch {
	case p.Err != nil:
	case has && !o.value:
		p.Wrong("option %s has no value", key)
	case !has && o.value && !o.bare:
		p.Wrong("option %s takes a value: %s = '...'", key, key)
	default:
		if why := o.set(st, value); why != "" {
			p.Wrong("option %s: %s", key, why)
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
		"format": choice(func(st *Statement, v string) {
			if v != "json" {
				st.o.Format.Encoding = event.Encoding(v)
			}
		}, "json", string(event.Avro), string(event.CSV)),
		"confluent_schema_registry": {value: true, set: func(st *Statement, v string) string { st.o.Registry = v; return "" }},
		"on_error":                  choice(func(st *Statement, v string) { st.o.OnError = v }, onErrorFail, onErrorPause),
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
	if o.Registry != "" {
		if r, err := sink.Parse(o.Registry); err != nil || r.Kind != sink.Webhook {
			return schema.Invalid("confluent_schema_registry is https://[USER:PASSWORD@]HOST[:PORT][/PATH]")
		}
	}
	var why string
	encoding := o.Format.Encoding
	switch {
	case encoding == event.Avro && a.Kind == sink.Webhook:
		why = "format = 'avro' is for Kafka and for files: webhooks get JSON"
	case encoding == event.CSV && a.Kind != sink.Files:
		why = "format = 'csv' is for files"
	case encoding == event.Avro && a.Kind == sink.Kafka && o.Registry == "":
		why = "format = 'avro' to Kafka takes a registry that numbers schemas: confluent_schema_registry = 'https://HOST'"
	case o.Registry != "" && (encoding != event.Avro || a.Kind != sink.Kafka):
		why = "confluent_schema_registry goes with format = 'avro' and Kafka: files have their schemas in them"
	case encoding == event.Avro && o.Format.Envelope == event.Row:
		why = "format = 'avro' takes envelope = 'wrapped' or 'key_only'"
	case encoding == event.Avro && a.Kind == sink.Files && o.Sink.Compression == "gzip":
		why = "files of Avro compress their blocks, with compression = 'zstd'"
	case encoding == event.CSV && (o.Format.Envelope != event.Wrapped || o.Format.Diff || o.Format.Key || o.Format.Topic):
		why = "format = 'csv' has the row alone: no other envelope, diff, key_in_value or topic_in_value"
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
