package stored

import (
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/token"
)

// verb is what a statement does.
type verb uint8

const (
	create verb = iota
	alter
	drop
	show
)

// Statement is a statement about a stored function.
type Statement struct {
	verb     verb
	db, name string
	quiet    bool // DROP FUNCTION IF EXISTS
	prog     *program.Program
	options  program.Options
	text     string
	err      error
}

// Parse reads a statement about stored functions; nil if it is another one. rest is what stands
// behind its semicolon.
func Parse(text string, m token.Mode) (st *Statement, rest string) {
	if !base.ContainsFold(text, "FUNCTION") {
		return nil, ""
	}
	ts := token.Scan(text, m)
	switch {
	case makes(ts):
		st = &Statement{verb: create}
		if st.prog, rest, st.err = program.ParseFirst(text, m); st.err == nil {
			st.db, st.name, st.text = st.prog.Head.DB, st.prog.Name, strings.TrimSpace(text[:len(text)-len(rest)])
			st.text = strings.TrimRight(st.text, "; \t\r\n")
		}
		return st, rest
	case ts[0].Is("drop") && ts[1].Is("function"):
		st = &Statement{verb: drop}
		ts = ts[2:]
		if st.quiet = ts[0].Is("if") && ts[1].Is("exists"); st.quiet {
			ts = ts[2:]
		}
	case ts[0].Is("alter") && ts[1].Is("function"):
		st, ts = &Statement{verb: alter}, ts[2:]
	case ts[0].Is("show") && ts[1].Is("create") && ts[2].Is("function"):
		st, ts = &Statement{verb: show}, ts[3:]
	default:
		return nil, ""
	}
	return st, st.named(text, ts)
}

// makes reports whether the statement is CREATE FUNCTION.
func makes(ts []token.Token) bool {
	if !ts[0].Is("create") {
		return false
	}
	for i, t := range ts {
		switch {
		case t.Is("function") && !ts[i-1].Is("="):
			return true
		case t.Is("procedure", "trigger", "view", "table", "event", "index", "user", "database", "schema", "role", "(", ";"),
			i > 12:
			return false
		}
	}
	return false
}

// named reads the name of a function, and what stands behind it.
func (st *Statement) named(text string, ts []token.Token) (rest string) {
	at := 0
	if ts[0].Named() && ts[1].Is(".") && ts[2].Named() {
		st.db, at = ts[0].Text, 2
	}
	if !ts[at].Named() {
		st.err = wrong(text, ts[at])
		return ""
	}
	st.name = ts[at].Text
	end := at + 1
	for ts[end].Kind != token.End && !ts[end].Is(";") {
		end++
	}
	if ts[end].Is(";") {
		rest = text[ts[end].To:]
	}
	own := append(append([]token.Token(nil), ts[at+1:end]...), token.Token{Kind: token.End, From: ts[end].From, To: ts[end].From})
	if st.verb != alter {
		if len(own) > 1 {
			st.err = wrong(text, own[0])
		}
		return rest
	}
	var ok bool
	if st.options, ok = program.ReadOptions(text, own); !ok {
		st.err = wrong(text, own[0])
	}
	return rest
}

func wrong(text string, t token.Token) error {
	near := text[min(t.From, len(text)):]
	return mysql.NewSQLError(1064, "42000", "You have an error in your SQL syntax near '%s' at line %d",
		strings.ToValidUTF8(near[:min(len(near), 80)], ""), 1+strings.Count(text[:len(text)-len(near)], "\n"))
}
