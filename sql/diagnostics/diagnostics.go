// Package diagnostics has the statements that tell what the statement before has left: SHOW
// WARNINGS and SHOW ERRORS, with LIMIT, SHOW COUNT(*) of both, and GET DIAGNOSTICS. They leave it
// as it is.
package diagnostics

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// Statement is one of these statements.
type Statement struct {
	errors      bool // errors alone
	count       bool
	skip, limit uint64
	get         *program.Diagnostics
	wrong       error // of the text of GET DIAGNOSTICS
}

// Parse reads a statement; nil if it is another one, or one with a LIMIT that is no number. rest is
// what stands behind its semicolon.
func Parse(text string, m token.Mode) (st *Statement, rest string) {
	t := strings.TrimLeft(text, " \t\r\n")
	if get, rest := parseGet(text, m); get != nil {
		return get, rest
	}
	if len(t) < 5 || !strings.EqualFold(t[:4], "show") {
		return nil, ""
	}
	ts := token.Scan(text[:min(len(text), longest)], m)[1:]
	takes := func(words ...string) bool {
		for i, w := range words {
			if i >= len(ts) || !ts[i].Is(w) {
				return false
			}
		}
		ts = ts[len(words):]
		return true
	}
	number := func() (n uint64, ok bool) {
		if ts[0].Kind != token.Number {
			return 0, false
		}
		n, err := strconv.ParseUint(ts[0].Text, 10, 64)
		ts = ts[1:]
		return n, err == nil
	}
	st = &Statement{count: takes("count", "(", "*", ")"), limit: 1<<64 - 1}
	switch {
	case takes("warnings"):
	case takes("errors"):
		st.errors = true
	default:
		return nil, ""
	}
	if !st.count && takes("limit") {
		n, ok := number()
		st.limit = n
		switch {
		case ok && takes(","):
			st.skip = n
			st.limit, ok = number()
		case ok && takes("offset"):
			st.skip, ok = number()
		}
		if !ok {
			return nil, ""
		}
	}
	switch {
	case ts[0].Is(";"):
		return st, text[ts[0].To:]
	case ts[0].Kind == token.End && len(text) <= longest:
		return st, ""
	}
	return nil, ""
}

// longest is how far a text is read: these statements are short.
const longest = 1 << 10

// Name is what the statement is called in lists of statements.
func (st *Statement) Name() string {
	switch {
	case st.gets():
		return "GET DIAGNOSTICS"
	case st.count && st.errors:
		return "SHOW COUNT(*) ERRORS"
	case st.count:
		return "SHOW COUNT(*) WARNINGS"
	case st.errors:
		return "SHOW ERRORS"
	}
	return "SHOW WARNINGS"
}

// Schema is that of its answer, as MySQL has it.
func (st *Statement) Schema() sql.Schema {
	text := func(name string, n int64) *sql.Column {
		return &sql.Column{Name: name, Type: types.MustCreateStringWithDefaults(types.VarChar.Type(), n)}
	}
	switch {
	case st.gets():
		return types.OkResultSchema
	case st.count && st.errors:
		return sql.Schema{{Name: "@@session.error_count", Type: types.Uint64}}
	case st.count:
		return sql.Schema{{Name: "@@session.warning_count", Type: types.Uint64}}
	}
	return sql.Schema{text("Level", 7), {Name: "Code", Type: types.Uint32}, text("Message", 512)}
}

// Run executes the statement.
func (st *Statement) Run(ctx *sql.Context) ([]sql.Row, error) {
	s := session.Of(ctx)
	if s == nil {
		return nil, nil
	}
	s.KeepDiagnostics()
	if st.gets() {
		return st.runGet(ctx, s)
	}
	all := s.Diagnostics(st.errors)
	if st.count {
		return []sql.Row{{uint64(len(all))}}, nil
	}
	all = all[min(st.skip, uint64(len(all))):]
	var rows []sql.Row
	for _, w := range all[:min(st.limit, uint64(len(all)))] {
		rows = append(rows, sql.Row{w.Level, uint32(w.Code), w.Message})
	}
	return rows, nil
}
