package diagnostics

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// parseGet reads GET DIAGNOSTICS; nil if the statement is another one.
func parseGet(text string, m token.Mode) (st *Statement, rest string) {
	t := strings.TrimLeft(text, " \t\r\n")
	if len(t) < 4 || !strings.EqualFold(t[:3], "get") {
		return nil, ""
	}
	ts := token.Scan(text[:min(len(text), longest)], m)
	if !ts[0].Is("get") || !ts[1].Is("diagnostics", "current", "stacked") {
		return nil, ""
	}
	d, rest, err := program.ParseDiagnostics(text, m)
	return &Statement{get: d, wrong: err}, rest
}

func (st *Statement) gets() bool { return st.get != nil || st.wrong != nil }

// runGet executes GET DIAGNOSTICS. Errors: 1064 for its text, 1327 for what is no variable of a
// user, 1758 for a condition that there is not, 3044 for STACKED: no handler runs. They stand
// behind what the statement before has left.
func (st *Statement) runGet(ctx *sql.Context, s *session.Session) ([]sql.Row, error) {
	if st.wrong != nil {
		return nil, st.wrong
	}
	if st.get.Stacked {
		return nil, mysql.NewSQLError(3044, "0Z002", "GET STACKED DIAGNOSTICS when handler not active")
	}
	for _, it := range st.get.Items {
		if !it.To.User {
			return nil, undeclared(it.To.Name)
		}
	}
	all := s.Diagnostics(false)
	var of *program.Condition
	if st.get.Number != "" {
		n, err := numberOf(ctx, string(st.get.Number))
		if err != nil {
			return nil, err
		}
		if n < 1 || n > int64(len(all)) {
			return nil, mysql.NewSQLError(1758, "35000", "Invalid condition number")
		}
		w := all[n-1]
		of = &program.Condition{Code: w.Code, State: stateOf(w.Code), Text: w.Message}
		if state := s.EndedWith(); w.Level == "Error" && state != "" {
			of.State = state
		}
	}
	for _, it := range st.get.Items {
		x := program.Value{V: expr.Value{Kind: expr.Int, I: int64(len(all))}, T: expr.TypeInt}
		switch {
		case of != nil:
			x = of.Item(it.Name)
		case it.Name == "ROW_COUNT":
			x.V.I = ctx.GetLastQueryInfo().RowCount.Load()
		}
		if err := given.WriteVar(ctx, it.To.Name, x.V, x.T); err != nil {
			return nil, err
		}
	}
	return []sql.Row{{types.NewOkResult(0)}}, nil
}

func undeclared(name string) error {
	return mysql.NewSQLError(1327, "42000", "Undeclared variable: %s", name)
}

// numberOf is the number of a condition: a literal, @x or @@x. What is no number is 0.
func numberOf(ctx *sql.Context, text string) (int64, error) {
	var v any = text
	var err error
	switch name := strings.Trim(strings.TrimLeft(text, "@"), "`"); {
	case strings.HasPrefix(text, "@@"):
		if v, err = ctx.GetSessionVariable(ctx, name); err != nil {
			return 0, err
		}
	case strings.HasPrefix(text, "@"):
		if _, v, err = ctx.GetUserVariable(ctx, name); err != nil {
			return 0, err
		}
	default:
		if text[0] < '0' || text[0] > '9' {
			return 0, undeclared(text)
		}
	}
	if n, ok := schema.ToInt64(v); ok {
		return n, nil
	}
	s, _ := v.(string)
	n, _ := strconv.ParseInt(s, 10, 64)
	return n, nil
}
