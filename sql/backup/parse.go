package backup

import (
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/answer"
	"github.com/godwitdb/godwit/sql/phrase"
	"github.com/godwitdb/godwit/sql/schema"
)

// Statements:
//
//	BACKUP [DATABASE d [, ...] | TABLE [d.]t [, ...]] INTO 'place' [places]
//	   [AS OF [SYSTEM TIME | TIMESTAMP] time] [WITH option [, ...]]
//	   options: INCREMENTAL, SKIP_MULTI_MASTER, SKIP_VERIFY, DETACHED, ENCRYPTION_PASSPHRASE = 'text'
//	   places: PLACES ('region' = 'place' [, ...])
//	BACKUP LOG [DATABASE d [, ...] | TABLE [d.]t [, ...]] INTO 'place' [places] [WITH option [, ...]]
//	   options: SKIP_MULTI_MASTER, ENCRYPTION_PASSPHRASE = 'text'
//	SHOW BACKUP LOG FROM 'place' [WITH ENCRYPTION_PASSPHRASE = 'text']
//	RESTORE [DATABASE d [, ...] | TABLE [d.]t [, ...]] FROM 'place' [places]
//	   [HOMES ('region of the backup' = 'region' [, ...])] [AS OF [SYSTEM TIME | TIMESTAMP] time] [AS name] [WITH option [, ...]]
//	   options: SKIP_MISSING_FOREIGN_KEYS, DETACHED, ENCRYPTION_PASSPHRASE = 'text'
//	SHOW BACKUP FROM 'place' [WITH ENCRYPTION_PASSPHRASE = 'text']
//	VERIFY BACKUP 'place' [places] [AS OF [SYSTEM TIME | TIMESTAMP] time] [WITH option [, ...]]
//	   options: TABLES, ENCRYPTION_PASSPHRASE = 'text'
//	CANCEL JOB number
//	CREATE BACKUP SCHEDULE name FOR [DATABASE d [, ...] | TABLE [d.]t [, ...]] INTO 'place' [places]
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
	places    map[string]string // of regions, by their names in lower case
	homes     map[string]string // of rows of regions, by the regions' names in lower case
	asOf      any               // a string or a number's text; nil: none is given
	as        *name             // nil: names stay

	incremental, skipMultiMaster, skipForeignKeys bool
	detached                                      bool // the client waits for no end
	passphrase                                    string
	job                                           uint64 // that is canceled
	skipVerify                                    bool
	byTable                                       bool // VERIFY BACKUP WITH TABLES

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
		for n < len(q) && phrase.IsWord(q[n]) {
			n++
		}
		if n == 0 {
			return out
		}
		out, q = append(out, strings.ToUpper(q[:n])), q[n:]
	}
	return out
}

// Parse reads a statement; nil if it is none of them. One that is wrong is one that fails when it
// is run.
func Parse(q string) *Statement {
	q = strings.TrimSpace(q)
	if !Ours(q) {
		return nil
	}
	st := &Statement{}
	p := &reader{phrase.Reader{Rest: q}}
	w := words(q, 1)[0]
	p.Word(w)
	switch w {
	case string(verbBackup):
		st.verb = verbBackup
		if p.Word("LOG") {
			st.verb = verbLog
		}
		p.targets(st)
		p.place(st, "INTO")
	case string(verbRestore):
		st.verb = verbRestore
		p.targets(st)
		p.place(st, "FROM")
		if p.Word("HOMES") {
			p.pairs("the name of a region of the backup", "the name of a region", func(was, here string) {
				if was == "" || here == "" || st.homes[strings.ToLower(was)] != "" {
					p.Wrong("region '%s' has two homes, or a region has no name", was)
					return
				}
				if st.homes == nil {
					st.homes = map[string]string{}
				}
				st.homes[strings.ToLower(was)] = here
			})
		}
	case "SHOW":
		st.verb = verbShow
		p.Must("BACKUP")
		switch {
		case p.Word("SCHEDULES"):
			st.verb = verbSchedules
		case p.Word("LOG"):
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
		p.Must("BACKUP")
		p.Must("SCHEDULE")
		st.schedule = p.Ident()
	case "FLASHBACK":
		st.verb = verbFlashback
		p.targets(st)
		p.Must("TO")
		p.asOf(st)
	case "UNDROP":
		st.verb = verbUndrop
		p.targets(st)
	case "CANCEL":
		st.verb = verbCancel
		p.Must("JOB")
		st.job = p.Number("the number of a job, as SHOW JOBS shows it")
	default:
		st.verb = verbVerify
		p.Must("BACKUP")
		p.place(st, "")
	}
	if st.place != "" || st.live() {
		p.tail(st)
	}
	p.End()
	st.err = p.Err
	return st
}

// reader reads a statement from the left. After the first error it reads nothing more.
type reader struct{ phrase.Reader }

// create takes what comes behind CREATE.
func (p *reader) create(st *Statement) {
	p.Must("BACKUP")
	p.Must("SCHEDULE")
	st.schedule = p.Ident()
	p.Must("FOR")
	p.targets(st)
	p.place(st, "INTO")
	p.Must("EVERY")
	st.every = p.duration()
	if p.Word("FULL") {
		p.Must("EVERY")
		st.fullEvery = p.duration()
	}
	if p.Word("KEEP") {
		st.keep = p.duration()
	}
}

// duration takes a number and a unit.
func (p *reader) duration() time.Duration {
	n := p.Number("a number of MINUTE, HOUR, DAY or WEEK")
	for unit, d := range map[string]time.Duration{"MINUTE": time.Minute, "HOUR": time.Hour, "DAY": 24 * time.Hour,
		"WEEK": 7 * 24 * time.Hour} {
		if p.Word(unit) || p.Word(unit+"S") {
			if n > uint64(mostInterval/d) {
				p.Fail("a time of 10 years at most")
			}
			return time.Duration(n) * d
		}
	}
	p.Fail("MINUTE, HOUR, DAY or WEEK")
	return 0
}

// mostInterval bounds the times of a schedule.
const mostInterval = 3660 * 24 * time.Hour

// dotted takes a name of a table, or of a database.
func (p *reader) dotted() name {
	n := name{Table: p.Ident()}
	if p.Sign('.') {
		n.DB, n.Table = n.Table, p.Ident()
	}
	return n
}

func (p *reader) targets(st *Statement) {
	switch {
	case p.Word("DATABASE"), p.Word("SCHEMA"):
		for more := true; more; more = p.Sign(',') {
			st.databases = append(st.databases, p.Ident())
		}
	case p.Word("TABLE"):
		for more := true; more; more = p.Sign(',') {
			st.tables = append(st.tables, p.dotted())
		}
	}
}

func (p *reader) place(st *Statement, before string) {
	if before != "" {
		p.Must(before)
	}
	if p.Sign('(') {
		p.list(st)
	} else {
		st.place = p.Text("the place of the backup")
	}
	if st.verb != verbShow && st.verb != verbShowLog && p.Word("PLACES") {
		p.pairs("the name of a region", "the place of the region", func(region, place string) { p.region(st, region, place) })
	}
}

func (p *reader) tail(st *Statement) {
	moves := st.verb == verbBackup || st.verb == verbRestore || st.verb == verbVerify || st.live()
	for moves && p.Word("AS") {
		switch {
		case st.asOf == nil && !st.live() && p.Word("OF"):
			p.asOf(st)
		case (st.verb == verbRestore || st.live()) && st.as == nil:
			n := p.dotted()
			if len(st.databases) == 1 && n.DB == "" {
				n = name{DB: n.Table}
			}
			st.as = &n
		default:
			p.Fail("")
			return
		}
	}
	if p.Word("WITH") {
		for more := true; more; more = p.Sign(',') {
			p.option(st)
		}
	}
	if st.verb == verbVerify && st.asOf != nil && !st.byTable {
		p.Wrong("VERIFY BACKUP reads all files of all moments: AS OF goes with WITH TABLES")
	}
}

func (p *reader) asOf(st *Statement) {
	if !p.Word("TIMESTAMP") && p.Word("SYSTEM") {
		p.Must("TIME")
	}
	p.Space()
	if p.Rest != "" && (p.Rest[0] == '\'' || p.Rest[0] == '"') {
		st.asOf = p.Text("a time")
		return
	}
	n := 0
	for n < len(p.Rest) && strings.IndexByte("0123456789.-+", p.Rest[n]) >= 0 {
		n++
	}
	if n == 0 {
		p.Fail("a time in quotes, or a number of seconds")
		return
	}
	st.asOf, p.Rest = p.Rest[:n], p.Rest[n:]
}

func (p *reader) option(st *Statement) {
	switch {
	case st.verb == verbBackup && p.Word("INCREMENTAL"):
		st.incremental = true
	case (st.verb == verbBackup || st.verb == verbCreate) && p.Word("SKIP_VERIFY"):
		st.skipVerify = true
	case slices.Contains([]verb{verbBackup, verbLog, verbCreate}, st.verb) && p.Word("SKIP_MULTI_MASTER"):
		st.skipMultiMaster = true
	case (st.verb == verbBackup || st.verb == verbRestore || st.live()) && p.Word("DETACHED"):
		st.detached = true
	case (st.verb == verbRestore || st.live()) && p.Word("SKIP_MISSING_FOREIGN_KEYS"):
		st.skipForeignKeys = true
	case st.verb == verbVerify && p.Word("TABLES"):
		st.byTable = true
	case !st.live() && p.Word("ENCRYPTION_PASSPHRASE"):
		p.Sign('=')
		if st.passphrase = p.Text("a passphrase"); st.passphrase == "" {
			p.Fail("a passphrase that is not empty")
		}
	default:
		p.Fail("an option of " + string(st.verb))
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
func (st *Statement) Schema() sql.Schema { return answer.Of(string(st.verb), st.detached, st.byTable) }

// Name is the kind of the statement.
func (st *Statement) Name() string { return string(st.verb) }

// momentLayout is how moments are shown, and can be given to AS OF: UTC.
const momentLayout = "2006-01-02 15:04:05.000000"

func moment(ts base.Timestamp) string { return ts.Time().Format(momentLayout) }
