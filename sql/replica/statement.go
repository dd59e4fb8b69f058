package replica

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/phrase"
)

// Statements, in the syntax of MySQL 8, and as MySQL 5.7 and MariaDB have them:
//
//	CHANGE REPLICATION SOURCE TO option = value [, ...] [FOR CHANNEL 'name']
//	CHANGE MASTER TO option = value [, ...] [FOR CHANNEL 'name']
//	START {REPLICA | SLAVE} [FOR CHANNEL 'name']
//	STOP {REPLICA | SLAVE} [FOR CHANNEL 'name']
//	RESET {REPLICA | SLAVE} [ALL] [FOR CHANNEL 'name']
//	SHOW {REPLICA | SLAVE} STATUS [FOR CHANNEL 'name']

// verb is what a statement does.
type verb string

const (
	verbChange verb = "CHANGE REPLICATION SOURCE"
	verbStart  verb = "START REPLICA"
	verbStop   verb = "STOP REPLICA"
	verbReset  verb = "RESET REPLICA"
	verbShow   verb = "SHOW REPLICA STATUS"
)

// Statement is a statement of this package.
type Statement struct {
	verb    verb
	old     bool // it says MASTER and SLAVE
	all     bool
	channel string
	named   bool // FOR CHANNEL was given
	set     []setting

	err error // the statement is one of ours, and wrong
}

// setting changes a channel.
type setting struct {
	name string // of the option, with SOURCE_
	to   func(*channel)
}

// Name is the kind of the statement.
func (st *Statement) Name() string { return string(st.verb) }

// Writes reports whether the statement changes something.
func (st *Statement) Writes() bool { return st.verb != verbShow }

// Schema is what the statement returns.
func (st *Statement) Schema() sql.Schema {
	if st.verb == verbShow {
		return statusSchema(st.old)
	}
	return types.OkResultSchema
}

// reader reads a statement.
type reader struct{ phrase.Reader }

// either takes the new or the old word.
func (p *reader) either(st *Statement, now, old string) bool {
	if p.Word(now) {
		return true
	}
	st.old = p.Word(old)
	return st.old
}

// Parse reads a statement; nil if it is none of them. One that is wrong is one that fails when it
// is run.
func Parse(q string) *Statement {
	st, p := &Statement{}, &reader{phrase.Reader{Rest: q}}
	switch {
	case p.Word("CHANGE"):
		if !(p.Word("REPLICATION") && p.Word("SOURCE")) {
			if st.old = p.Word("MASTER"); !st.old {
				return nil
			}
		}
		st.verb = verbChange
		p.change(st)
	case p.Word("START"):
		st.verb = verbStart
	case p.Word("STOP"):
		st.verb = verbStop
	case p.Word("RESET"):
		st.verb = verbReset
	case p.Word("SHOW"):
		st.verb = verbShow
	}
	switch st.verb {
	case "":
		return nil
	case verbChange:
	default:
		if !p.either(st, "REPLICA", "SLAVE") {
			return nil
		}
		if st.verb == verbShow && !p.Word("STATUS") {
			return nil
		}
		st.all = st.verb == verbReset && p.Word("ALL")
		p.threads(st)
	}
	if p.Word("FOR") {
		p.Must("CHANNEL")
		st.channel, st.named = p.Text("the name of a channel"), true
		if len(st.channel) > 64 {
			p.Wrong("the name of a channel has 64 characters at most")
		}
	}
	p.End()
	st.err = p.Err
	return st
}

// threads refuses what MySQL lets START and STOP say of its threads, and where they stop.
func (p *reader) threads(st *Statement) {
	if st.verb != verbStart && st.verb != verbStop {
		return
	}
	for word, why := range map[string]string{
		"IO_THREAD":    "reading and applying are one here: say " + st.Name(),
		"SQL_THREAD":   "reading and applying are one here: say " + st.Name(),
		"RELAY_THREAD": "reading and applying are one here: say " + st.Name(),
		"UNTIL":        "STOP REPLICA when SHOW REPLICA STATUS says that the position is reached",
		"USER":         "CHANGE REPLICATION SOURCE TO SOURCE_USER = ..., SOURCE_PASSWORD = ... says who connects",
		"PASSWORD":     "CHANGE REPLICATION SOURCE TO SOURCE_USER = ..., SOURCE_PASSWORD = ... says who connects",
	} {
		if p.Is(word) && p.Err == nil {
			p.Err = unsupported(st.Name()+" "+word, why)
		}
	}
}

// unsupported is the error of something that is not there.
func unsupported(what, why string) error {
	return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s': %s", what, why)
}

// value is what follows the = of an option.
type value struct {
	text   string
	quoted bool
}

// change reads options.
func (p *reader) change(st *Statement) {
	p.Must("TO")
	for more := true; more && p.Err == nil; more = p.Sign(',') {
		given := strings.ToUpper(p.Ident())
		name := given
		if rest, ok := strings.CutPrefix(given, "MASTER_"); ok {
			name = "SOURCE_" + rest
		}
		if given == "GET_MASTER_PUBLIC_KEY" {
			name = "GET_SOURCE_PUBLIC_KEY"
		}
		if !p.Sign('=') {
			p.Fail("=")
		}
		v := p.value()
		if p.Err != nil {
			return
		}
		if slices.ContainsFunc(st.set, func(s setting) bool { return s.name == name }) {
			p.Wrong("%s is given twice", given)
			return
		}
		to, err := option(name, given, v)
		if err != nil {
			p.Err = err
			return
		}
		st.set = append(st.set, setting{name, to})
	}
}

// value takes a text, a number, a word, or a list, which has to be empty.
func (p *reader) value() value {
	p.Space()
	switch {
	case p.Rest != "" && (p.Rest[0] == '\'' || p.Rest[0] == '"'):
		return value{p.Text("a value"), true}
	case p.Sign('('):
		if !p.Sign(')') {
			p.Fail(") of an empty list")
		}
		return value{text: "()"}
	}
	v := value{text: p.Ident()}
	for p.Sign('.') {
		v.text += "." + p.Ident()
	}
	return v
}

// option says what an option changes. name is that of MySQL 8, given the one of the statement.
func option(name, given string, v value) (func(*channel), error) {
	wrong := func(want string) error {
		return mysql.NewSQLError(1210, "HY000", "Incorrect arguments to CHANGE REPLICATION SOURCE: %s is %s", given, want)
	}
	text := func(most int, set func(*channel, string)) (func(*channel), error) {
		if !v.quoted || len(v.text) > most {
			return nil, wrong(fmt.Sprintf("a text in quotes of %d bytes at most", most))
		}
		return func(c *channel) { set(c, v.text) }, nil
	}
	number := func(least, most uint64, set func(*channel, uint64)) (func(*channel), error) {
		n, err := strconv.ParseUint(v.text, 10, 64)
		if v.quoted || err != nil || n < least || n > most {
			return nil, wrong(fmt.Sprintf("a number from %d to %d", least, most))
		}
		return func(c *channel) { set(c, n) }, nil
	}
	// only takes what would change nothing.
	only := func(why string, values ...string) (func(*channel), error) {
		if slices.ContainsFunc(values, func(x string) bool { return strings.EqualFold(x, v.text) }) {
			return func(*channel) {}, nil
		}
		return nil, unsupported(given, why)
	}
	const noGTID = "a source is followed by file and position: SOURCE_LOG_FILE and SOURCE_LOG_POS, which a dump of mysqldump " +
		"--source-data or mariadb-dump --master-data has"
	const noFiles = "certificates of sources are verified by the authorities that the machines of the nodes trust: SOURCE_SSL = 1, " +
		"SOURCE_SSL_VERIFY_SERVER_CERT = 1"
	switch name {
	case "SOURCE_HOST":
		if v.quoted && v.text == "" {
			return nil, wrong("the name or address of a server")
		}
		return text(255, func(c *channel, s string) { c.Host = s })
	case "SOURCE_PORT":
		return number(1, 65535, func(c *channel, n uint64) { c.Port = int(n) })
	case "SOURCE_USER":
		return text(96, func(c *channel, s string) { c.User = s })
	case "SOURCE_PASSWORD":
		return text(256, func(c *channel, s string) { c.Password = s })
	case "SOURCE_LOG_FILE":
		return text(255, func(c *channel, s string) { c.At.File = s })
	case "SOURCE_LOG_POS":
		return number(0, 1<<32-1, func(c *channel, n uint64) { c.At.Off = max(n, firstOffset) })
	case "SOURCE_CONNECT_RETRY":
		return number(1, 86400, func(c *channel, n uint64) { c.Retry = n })
	case "SOURCE_RETRY_COUNT":
		return number(0, 1<<63, func(c *channel, n uint64) { c.Retries = n })
	case "SOURCE_SSL":
		return number(0, 1, func(c *channel, n uint64) { c.SSL = n == 1 })
	case "SOURCE_SSL_VERIFY_SERVER_CERT":
		return number(0, 1, func(c *channel, n uint64) { c.Verify = n == 1 })
	case "SOURCE_SSL_CA", "SOURCE_SSL_CAPATH", "SOURCE_SSL_CERT", "SOURCE_SSL_KEY", "SOURCE_SSL_CIPHER", "SOURCE_SSL_CRL", "SOURCE_SSL_CRLPATH",
		"SOURCE_TLS_VERSION", "SOURCE_TLS_CIPHERSUITES", "SOURCE_PUBLIC_KEY_PATH":
		return only(noFiles, "")
	case "GET_SOURCE_PUBLIC_KEY":
		return only("the key of a source that hashes passwords by caching_sha2_password is always asked for where the connection is not "+
			"encrypted: leave it out, or use SOURCE_SSL = 1", "1")
	case "SOURCE_AUTO_POSITION":
		return only(noGTID, "0")
	case "SOURCE_USE_GTID":
		return only(noGTID, "no")
	case "SOURCE_DELAY":
		return only("changes are applied as they come", "0")
	case "SOURCE_COMPRESSION_ALGORITHMS":
		return only("connections are not compressed", "uncompressed")
	case "IGNORE_SERVER_IDS":
		return only("all that the source has in its log is applied, but what this cluster had committed itself", "()")
	case "REQUIRE_ROW_FORMAT":
		return only("statements that change rows are never applied, only rows: leave it out", "1")
	case "PRIVILEGE_CHECKS_USER":
		return only("changes are applied with the rights of the account that has said START REPLICA", "")
	}
	return nil, unsupported(given, "CHANGE REPLICATION SOURCE TO has SOURCE_HOST, SOURCE_PORT, SOURCE_USER, SOURCE_PASSWORD, SOURCE_LOG_FILE, "+
		"SOURCE_LOG_POS, SOURCE_CONNECT_RETRY, SOURCE_RETRY_COUNT, SOURCE_SSL and SOURCE_SSL_VERIFY_SERVER_CERT")
}
