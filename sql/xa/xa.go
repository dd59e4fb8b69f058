// Package xa has the statements of XA: a transaction manager has several databases prepare their
// parts of a transaction, and then commit them all, or none. What is prepared outlasts its session
// and the nodes that it ran on (docs/sql.md, XA).
package xa

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// Statement is a statement of XA.
type Statement struct {
	verb     string // start, resume, end, prepare, commit, rollback or recover
	id       ID
	onePhase bool
	convert  bool // XA RECOVER CONVERT XID
	bad      error
}

// ID is MySQL's xid: a name of the whole transaction and one of the part, of at most 64 bytes each,
// and a number that says how to read them.
type ID struct {
	Format      uint32
	Global, Own []byte
}

const mostName = 64

// Name is the ID as a name of kv: each has another one.
func (x ID) Name() []byte {
	b := binary.BigEndian.AppendUint32(nil, x.Format)
	b = append(b, byte(len(x.Global)))
	return append(append(b, x.Global...), x.Own...)
}

// Parsed reads a name; false: it is none of an ID.
func Parsed(name []byte) (ID, bool) {
	if len(name) < 5 || len(name) < 5+int(name[4]) {
		return ID{}, false
	}
	n := 5 + int(name[4])
	return ID{binary.BigEndian.Uint32(name), name[5:n], name[n:]}, true
}

// Parse reads a statement of XA; nil if it is another one. rest is what stands behind its
// semicolon.
func Parse(text string, m token.Mode) (st *Statement, rest string) {
	if !Is(text) {
		return nil, ""
	}
	ts := token.Scan(text, m)
	p := &parser{text: text, ts: ts[1:]}
	st = &Statement{}
	st.read(p)
	end := p.peek()
	if end.Is(";") {
		return st, text[end.To:]
	}
	if end.Kind != token.End && st.bad == nil {
		st.bad = p.syntax()
	}
	return st, ""
}

// Is reports whether a text begins with the word XA.
func Is(text string) bool {
	t := strings.TrimLeft(text, " \t\r\n")
	return len(t) > 2 && strings.EqualFold(t[:2], "xa") && strings.ContainsAny(t[2:3], " \t\r\n/")
}

// Name is what the statement is called in lists of statements.
func (st *Statement) Name() string { return "XA " + strings.ToUpper(st.verb) }

// Schema is that of its answer.
func (st *Statement) Schema() sql.Schema {
	if st.verb != "recover" || st.bad != nil {
		return types.OkResultSchema
	}
	number := func(name string) *sql.Column { return &sql.Column{Name: name, Type: types.Int64} }
	return sql.Schema{number("formatID"), number("gtrid_length"), number("bqual_length"),
		{Name: "data", Type: types.MustCreateStringWithDefaults(types.VarChar.Type(), 2*2*mostName+2)}}
}

type parser struct {
	text string
	ts   []token.Token
}

func (p *parser) peek() token.Token { return p.ts[0] }

func (p *parser) next() token.Token {
	t := p.ts[0]
	if t.Kind != token.End {
		p.ts = p.ts[1:]
	}
	return t
}

// takes skips words, if they all stand there.
func (p *parser) takes(words ...string) bool {
	for i, w := range words {
		if i >= len(p.ts) || !p.ts[i].Is(w) {
			return false
		}
	}
	p.ts = p.ts[len(words):]
	return true
}

func (p *parser) syntax() error {
	near := p.text[p.peek().From:]
	return mysql.NewSQLError(1064, "42000", "You have an error in your SQL syntax; check the manual that corresponds to your "+
		"MySQL server version for the right syntax to use near '%s' at line 1", near[:min(len(near), 80)])
}

func (st *Statement) read(p *parser) {
	st.verb = p.peek().Lower
	switch st.verb {
	case "begin":
		st.verb = "start"
	case "start", "end", "prepare", "commit", "rollback":
	case "recover":
		p.next()
		st.convert = p.takes("convert", "xid")
		return
	default:
		st.bad = p.syntax()
		return
	}
	p.next()
	if st.id, st.bad = p.id(); st.bad != nil {
		return
	}
	if len(st.id.Global) == 0 {
		st.bad = session.ErrXAInvalid
	}
	switch st.verb {
	case "start":
		switch {
		case p.takes("join"):
			st.bad = session.ErrXAInvalid
		case p.takes("resume"):
			st.verb = "resume"
		}
	case "end":
		if p.takes("suspend") {
			p.takes("for", "migrate")
			st.bad = session.ErrXAInvalid
		}
	case "commit":
		st.onePhase = p.takes("one", "phase")
	}
}

// id reads a name: 'global' [, 'own' [, format]].
func (p *parser) id() (x ID, err error) {
	x.Format = 1
	if x.Global, err = p.bytes(); err != nil {
		return x, err
	}
	if !p.takes(",") {
		return x, nil
	}
	if x.Own, err = p.bytes(); err != nil {
		return x, err
	}
	if !p.takes(",") {
		return x, nil
	}
	n, bad := strconv.ParseUint(p.peek().Text, 0, 32)
	if p.peek().Kind != token.Number || bad != nil || n > 1<<31-1 {
		return x, p.syntax()
	}
	p.next()
	x.Format = uint32(n)
	return x, nil
}

// bytes reads 'text', X'hex' or 0xhex.
func (p *parser) bytes() ([]byte, error) {
	t := p.peek()
	var b []byte
	var err error
	switch {
	case t.Kind == token.String:
		b = []byte(t.Text)
	case t.Is("x") && p.ts[1].Kind == token.String && p.ts[1].From == t.To:
		b, err = hex.DecodeString(p.ts[1].Text)
		p.next()
	case t.Kind == token.Number && strings.HasPrefix(t.Lower, "0x"):
		digits := t.Text[2:]
		b, err = hex.DecodeString(strings.Repeat("0", len(digits)%2) + digits)
	default:
		return nil, p.syntax()
	}
	if err != nil || len(b) > mostName {
		return nil, p.syntax()
	}
	p.next()
	return b, nil
}

// Run executes the statement.
func (st *Statement) Run(ctx *sql.Context, mine rights.Set) ([]sql.Row, error) {
	s := session.Of(ctx)
	if s == nil || st.bad != nil {
		return nil, st.bad
	}
	var err error
	switch name := st.id.Name(); st.verb {
	case "start":
		err = s.XAStart(ctx, name)
	case "resume":
		err = s.XAResume(name)
	case "end":
		err = s.XAEnd(name)
	case "prepare":
		err = s.XAPrepare(ctx, name)
	case "commit":
		err = s.XACommit(ctx, name, st.onePhase)
	case "rollback":
		err = s.XARollback(ctx, name)
	default:
		return st.recover(ctx, s, mine)
	}
	if err != nil {
		return nil, err
	}
	return []sql.Row{{types.NewOkResult(0)}}, nil
}

var errNotAdmin = mysql.NewSQLError(1401, "XAE03",
	"XAER_RMERR: Fatal error occurred in the transaction branch - check your data for consistency")

// recover lists what stands prepared, of the whole cluster.
func (st *Statement) recover(ctx *sql.Context, s *session.Session, mine rights.Set) ([]sql.Row, error) {
	if !mine.Dynamic(rights.RecoverAdmin) {
		return nil, errNotAdmin
	}
	all, err := s.XAPrepared(s.KVContext(ctx))
	if err != nil {
		return nil, err
	}
	var rows []sql.Row
	for _, p := range all {
		x, ok := Parsed(p.Name)
		if !ok {
			continue
		}
		data := string(x.Global) + string(x.Own)
		if st.convert {
			data = fmt.Sprintf("0x%X", data)
		}
		rows = append(rows, sql.Row{int64(x.Format), int64(len(x.Global)), int64(len(x.Own)), data})
	}
	return rows, nil
}

// Admit is why a session that is in a transaction of XA may not execute a statement; nil if it may.
func Admit(s *session.Session, text string) error {
	if s.XAState() == session.XANone || Is(text) {
		return nil
	}
	return s.XAAllows(ends(text), uses(text))
}

// uses reports whether a statement uses tables. A SELECT of nothing is how pools ask whether a
// connection is alive.
func uses(text string) bool {
	ts := token.Scan(text, token.Mode{})
	switch {
	case ts[0].Is("set", "kill"):
		return false
	case !ts[0].Is("select"):
		return true
	}
	return slices.ContainsFunc(ts, func(t token.Token) bool { return t.Is("from") })
}

// ends reports whether a statement begins, commits or rolls back transactions, as its first words
// tell. What they do not tell the session refuses as it comes to it.
func ends(text string) bool {
	ts := token.Scan(text[:min(len(text), 200)], token.Mode{})
	if len(ts) < 2 {
		return false
	}
	a, b := ts[0], ts[1]
	switch {
	case a.Is("begin", "commit", "alter", "truncate", "rename", "grant", "revoke", "lock", "unlock", "analyze", "optimize", "repair",
		"flush", "backup", "restore", "change", "stop", "reset", "import"):
		return true
	case a.Is("start"):
		return true
	case a.Is("rollback"):
		return !b.Is("to") && !(b.Is("work") && len(ts) > 2 && ts[2].Is("to"))
	case a.Is("create", "drop"):
		return !b.Is("temporary")
	}
	return false
}
