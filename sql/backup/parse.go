package backup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Statements:
//
//	BACKUP [DATABASE d [, ...] | TABLE [d.]t [, ...]] INTO 'place'
//	   [AS OF [SYSTEM TIME | TIMESTAMP] time] [WITH option [, ...]]
//	   options: INCREMENTAL, SKIP_MULTI_MASTER, SKIP_VERIFY, DETACHED, ENCRYPTION_PASSPHRASE = 'text'
//	BACKUP LOG [DATABASE d [, ...] | TABLE [d.]t [, ...]] INTO 'place' [WITH option [, ...]]
//	   options: SKIP_MULTI_MASTER, ENCRYPTION_PASSPHRASE = 'text'
//	SHOW BACKUP LOG FROM 'place' [WITH ENCRYPTION_PASSPHRASE = 'text']
//	RESTORE [DATABASE d [, ...] | TABLE [d.]t [, ...]] FROM 'place'
//	   [AS OF [SYSTEM TIME | TIMESTAMP] time] [AS name] [WITH option [, ...]]
//	   options: SKIP_MISSING_FOREIGN_KEYS, DETACHED, ENCRYPTION_PASSPHRASE = 'text'
//	SHOW BACKUP FROM 'place' [WITH ENCRYPTION_PASSPHRASE = 'text']
//	VERIFY BACKUP 'place' [WITH ENCRYPTION_PASSPHRASE = 'text']
//	CANCEL JOB number
//	CREATE BACKUP SCHEDULE name FOR [DATABASE d [, ...] | TABLE [d.]t [, ...]] INTO 'place'
//	   EVERY n unit [FULL EVERY n unit] [KEEP n unit] [WITH option [, ...]]
//	   units: MINUTE, HOUR, DAY, WEEK; options: those of BACKUP except INCREMENTAL and DETACHED
//	FLASHBACK TABLE [d.]t TO TIMESTAMP time [AS name] [WITH option [, ...]]
//	UNDROP TABLE [d.]t [AS name] [WITH option [, ...]]
//	   options: SKIP_MISSING_FOREIGN_KEYS, DETACHED
//	SHOW BACKUP SCHEDULES
//	DROP BACKUP SCHEDULE name

// verb is what a statement does.
type verb string

const (
	verbBackup  verb = "BACKUP"
	verbRestore verb = "RESTORE"
	verbShow    verb = "SHOW BACKUP"
	verbVerify  verb = "VERIFY BACKUP"
	verbCancel  verb = "CANCEL JOB"
	verbLog     verb = "BACKUP LOG"
	verbShowLog verb = "SHOW BACKUP LOG"

	verbCreate    verb = "CREATE BACKUP SCHEDULE"
	verbDrop      verb = "DROP BACKUP SCHEDULE"
	verbSchedules verb = "SHOW BACKUP SCHEDULES"

	verbFlashback verb = "FLASHBACK TABLE"
	verbUndrop    verb = "UNDROP TABLE"
)

// name is a table, or a database if Table is empty.
type name struct {
	DB    string `json:"db"`
	Table string `json:"table,omitempty"`
}

func (n name) String() string {
	if n.Table == "" {
		return n.DB
	}
	return n.DB + "." + n.Table
}

// Statement is a statement of this package.
type Statement struct {
	verb      verb
	databases []string
	tables    []name // without DB: of the session's database
	place     string
	asOf      any   // a string or a number's text; nil: none is given
	as        *name // nil: names stay

	incremental, skipMultiMaster, skipForeignKeys bool
	detached                                      bool // the client waits for no end
	passphrase                                    string
	job                                           uint64 // that is canceled
	skipVerify                                    bool

	schedule               string
	every, fullEvery, keep time.Duration // of a schedule; 0: not given

	err error // the statement is one of ours, and wrong
}

// Ours reports whether a text begins as one of the statements does. It is quick.
func Ours(q string) bool {
	if len(q) < len("BACKUP") {
		return false
	}
	switch q[0] | 0x20 {
	case 'b', 'c', 'd', 'f', 'r', 's', 'v':
	case 'u': // most are UPDATEs
		if q[1]|0x20 != 'n' {
			return false
		}
	default:
		return false
	}
	w := words(q, 3)
	if len(w) == 3 && slices.Contains([]verb{verbCreate, verbDrop}, verb(strings.Join(w, " "))) {
		return true
	}
	switch w = w[:min(2, len(w))]; {
	case len(w) == 0:

	case w[0] == string(verbBackup), w[0] == string(verbRestore):
		return true
	case len(w) == 2 && slices.Contains([]verb{verbShow, verbVerify, verbCancel, verbFlashback, verbUndrop}, verb(w[0]+" "+w[1])):
		return true
	}
	return false
}

// words are the first words of a text, in upper case.
func words(q string, most int) (out []string) {
	for len(out) < most {
		q = strings.TrimLeft(q, " \t\r\n")
		n := 0
		for n < len(q) && isWord(q[n]) {
			n++
		}
		if n == 0 {
			return out
		}
		out, q = append(out, strings.ToUpper(q[:n])), q[n:]
	}
	return out
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// Parse reads a statement; nil if it is none of them. One that is wrong is one that fails when it
// is run.
func Parse(q string) *Statement {
	q = strings.TrimSpace(q)
	if !Ours(q) {
		return nil
	}
	st := &Statement{}
	p := &reader{rest: q}
	w := words(q, 1)[0]
	p.word(w)
	switch w {
	case string(verbBackup):
		st.verb = verbBackup
		if p.word("LOG") {
			st.verb = verbLog
		}
		p.targets(st)
		p.place(st, "INTO")
	case string(verbRestore):
		st.verb = verbRestore
		p.targets(st)
		p.place(st, "FROM")
	case "SHOW":
		st.verb = verbShow
		p.must("BACKUP")
		switch {
		case p.word("SCHEDULES"):
			st.verb = verbSchedules
		case p.word("LOG"):
			st.verb = verbShowLog
			p.place(st, "FROM")
		default:
			p.place(st, "FROM")
		}
	case "CREATE":
		st.verb = verbCreate
		p.create(st)
	case "DROP":
		st.verb = verbDrop
		p.must("BACKUP")
		p.must("SCHEDULE")
		st.schedule = p.ident()
	case "FLASHBACK":
		st.verb = verbFlashback
		p.targets(st)
		p.must("TO")
		p.asOf(st)
	case "UNDROP":
		st.verb = verbUndrop
		p.targets(st)
	case "CANCEL":
		st.verb = verbCancel
		p.must("JOB")
		st.job = p.number("the number of a job, as SHOW JOBS shows it")
	default:
		st.verb = verbVerify
		p.must("BACKUP")
		p.place(st, "")
	}
	if st.place != "" || st.live() {
		p.tail(st)
	}
	if p.err == nil && strings.Trim(p.rest, "; \t\r\n") != "" {
		p.fail("")
	}
	st.err = p.err
	return st
}

// reader reads a statement from the left. After the first error it reads nothing more.
type reader struct {
	rest string
	err  error
}

func (p *reader) fail(want string) {
	if p.err != nil {
		return
	}
	near := strings.TrimSpace(p.rest)
	if i := strings.IndexAny(near, "'\""); i >= 0 {
		near = near[:i] + "..." // it may be a passphrase
	}
	if len(near) > 60 {
		near = near[:60] + "..."
	}
	if want != "" {
		want = ": " + want + " is expected there"
	}
	p.err = schema.Invalid(fmt.Sprintf("the statement cannot be read near %q%s", near, want))
}

func (p *reader) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// word takes a keyword if it comes next.
func (p *reader) word(w string) bool {
	p.space()
	n := len(w)
	if p.err != nil || len(p.rest) < n || !strings.EqualFold(p.rest[:n], w) || len(p.rest) > n && isWord(p.rest[n]) {
		return false
	}
	p.rest = p.rest[n:]
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
	if strings.HasPrefix(p.rest, "`") {
		for i := 1; i < len(p.rest); i++ {
			switch {
			case p.rest[i] != '`':
			case i+1 < len(p.rest) && p.rest[i+1] == '`':
				i++
			case i == 1:
				p.fail("a name")
				return ""
			default:
				s := strings.ReplaceAll(p.rest[1:i], "``", "`")
				p.rest = p.rest[i+1:]
				return s
			}
		}
		p.fail("the end of a name")
		return ""
	}
	n := 0
	for n < len(p.rest) && isWord(p.rest[n]) {
		n++
	}
	if n == 0 {
		p.fail("a name")
		return ""
	}
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

// text takes a string.
func (p *reader) text(what string) string {
	p.space()
	if p.err != nil || p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		p.fail(what + " in quotes")
		return ""
	}
	quote := p.rest[0]
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(p.rest[i])
		case c != quote:
			b.WriteByte(c)
		case i+1 < len(p.rest) && p.rest[i+1] == quote:
			i++
			b.WriteByte(c)
		default:
			p.rest = p.rest[i+1:]
			return b.String()
		}
	}
	p.fail("the end of " + what)
	return ""
}

// create takes what comes behind CREATE.
func (p *reader) create(st *Statement) {
	p.must("BACKUP")
	p.must("SCHEDULE")
	st.schedule = p.ident()
	p.must("FOR")
	p.targets(st)
	p.place(st, "INTO")
	p.must("EVERY")
	st.every = p.duration()
	if p.word("FULL") {
		p.must("EVERY")
		st.fullEvery = p.duration()
	}
	if p.word("KEEP") {
		st.keep = p.duration()
	}
}

// duration takes a number and a unit.
func (p *reader) duration() time.Duration {
	n := p.number("a number of MINUTE, HOUR, DAY or WEEK")
	for unit, d := range map[string]time.Duration{"MINUTE": time.Minute, "HOUR": time.Hour, "DAY": 24 * time.Hour,
		"WEEK": 7 * 24 * time.Hour} {
		if p.word(unit) || p.word(unit+"S") {
			if n > uint64(mostInterval/d) {
				p.fail("a time of 10 years at most")
			}
			return time.Duration(n) * d
		}
	}
	p.fail("MINUTE, HOUR, DAY or WEEK")
	return 0
}

// mostInterval bounds the times of a schedule.
const mostInterval = 3660 * 24 * time.Hour

// number takes a positive whole number.
func (p *reader) number(what string) uint64 {
	p.space()
	n := 0
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseUint(p.rest[:n], 10, 63)
	if err != nil || v == 0 {
		p.fail(what)
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

// dotted takes a name of a table, or of a database.
func (p *reader) dotted() name {
	n := name{Table: p.ident()}
	if p.sign('.') {
		n.DB, n.Table = n.Table, p.ident()
	}
	return n
}

func (p *reader) targets(st *Statement) {
	switch {
	case p.word("DATABASE"), p.word("SCHEMA"):
		for more := true; more; more = p.sign(',') {
			st.databases = append(st.databases, p.ident())
		}
	case p.word("TABLE"):
		for more := true; more; more = p.sign(',') {
			st.tables = append(st.tables, p.dotted())
		}
	}
}

func (p *reader) place(st *Statement, before string) {
	if before != "" {
		p.must(before)
	}
	st.place = p.text("the place of the backup")
}

func (p *reader) tail(st *Statement) {
	moves := st.verb == verbBackup || st.verb == verbRestore || st.live()
	for moves && p.word("AS") {
		switch {
		case st.asOf == nil && !st.live() && p.word("OF"):
			p.asOf(st)
		case (st.verb == verbRestore || st.live()) && st.as == nil:
			n := p.dotted()
			if len(st.databases) == 1 && n.DB == "" {
				n = name{DB: n.Table}
			}
			st.as = &n
		default:
			p.fail("")
			return
		}
	}
	if p.word("WITH") {
		for more := true; more; more = p.sign(',') {
			p.option(st)
		}
	}
}

func (p *reader) asOf(st *Statement) {
	if !p.word("TIMESTAMP") && p.word("SYSTEM") {
		p.must("TIME")
	}
	p.space()
	if p.rest != "" && (p.rest[0] == '\'' || p.rest[0] == '"') {
		st.asOf = p.text("a time")
		return
	}
	n := 0
	for n < len(p.rest) && strings.IndexByte("0123456789.-+", p.rest[n]) >= 0 {
		n++
	}
	if n == 0 {
		p.fail("a time in quotes, or a number of seconds")
		return
	}
	st.asOf, p.rest = p.rest[:n], p.rest[n:]
}

func (p *reader) option(st *Statement) {
	switch {
	case st.verb == verbBackup && p.word("INCREMENTAL"):
		st.incremental = true
	case (st.verb == verbBackup || st.verb == verbCreate) && p.word("SKIP_VERIFY"):
		st.skipVerify = true
	case slices.Contains([]verb{verbBackup, verbLog, verbCreate}, st.verb) && p.word("SKIP_MULTI_MASTER"):
		st.skipMultiMaster = true
	case (st.verb == verbBackup || st.verb == verbRestore || st.live()) && p.word("DETACHED"):
		st.detached = true
	case (st.verb == verbRestore || st.live()) && p.word("SKIP_MISSING_FOREIGN_KEYS"):
		st.skipForeignKeys = true
	case !st.live() && p.word("ENCRYPTION_PASSPHRASE"):
		p.sign('=')
		if st.passphrase = p.text("a passphrase"); st.passphrase == "" {
			p.fail("a passphrase that is not empty")
		}
	default:
		p.fail("an option of " + string(st.verb))
	}
}

// complete gives tables without a database the session's.
func (st *Statement) complete(db string) error {
	fill := func(n *name) error {
		if n.DB == "" {
			n.DB = db
		}
		if n.DB == "" {
			return sql.ErrNoDatabaseSelected.New()
		}
		return nil
	}
	for i := range st.tables {
		if err := fill(&st.tables[i]); err != nil {
			return err
		}
	}
	if st.as == nil {
		return nil
	}
	switch {
	case len(st.databases) == 1 && st.as.Table == "":
		return nil
	case len(st.tables) == 1:
		return fill(st.as)
	}
	return schema.Invalid("AS gives a new name to one database, or to one table: restore the others by statements of their own")
}

// live reports whether the statement reads old versions of the cluster itself.
func (st *Statement) live() bool { return st.verb == verbFlashback || st.verb == verbUndrop }

// whole reports whether an order is of the whole cluster.
func (o *order) whole() bool { return len(o.Databases)+len(o.Tables) == 0 }

// target is what a backup is of, in words that are the same for the same set.
func (o *order) target() string {
	var names []string
	for _, d := range o.Databases {
		names = append(names, strings.ToLower(d))
	}
	kind := "DATABASE "
	for _, t := range o.Tables {
		kind = "TABLE "
		names = append(names, strings.ToLower(t.String()))
	}
	if len(names) == 0 {
		return "CLUSTER"
	}
	slices.Sort(names)
	return kind + strings.Join(slices.Compact(names), ", ")
}

// Schema is what the statement returns.
func (st *Statement) Schema() sql.Schema {
	if st.detached || st.verb == verbLog {
		return columns("job_id#")
	}
	switch st.verb {
	case verbShowLog:
		return columns("from_moment", "to_moment", "target", "segments#", "bytes#")
	case verbSchedules:
		return columns("name", "target", "place", "every_minutes#", "full_every_minutes#", "keep_minutes#", "next_run", "last_job#",
			"last_status", "last_error")
	case verbCancel, verbCreate, verbDrop:
		return types.OkResultSchema
	case verbShow:
		return columns("backup_id", "status", "type", "parent", "moment", "target", "tables#", "rows#", "files#", "bytes#",
			"skipped")
	case verbVerify:
		return columns("backup_id", "status", "files#", "records#", "bytes#")
	case verbFlashback, verbUndrop:
		return columns("moment", "tables#", "rows#", "notes")
	case verbRestore:
		return columns("backup_id", "moment", "tables#", "rows#", "notes")
	}
	return columns("backup_id", "moment", "tables#", "rows#", "files#", "bytes#", "skipped")
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

// momentLayout is how moments are shown, and can be given to AS OF: UTC.
const momentLayout = "2006-01-02 15:04:05.000000"

func moment(ts base.Timestamp) string { return ts.Time().Format(momentLayout) }
