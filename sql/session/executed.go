package session

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/shopspring/decimal"
)

// reProgram matches statements that define or drop stored programs.
var reProgram = regexp.MustCompile("(?i)^\\s*(?:CREATE|ALTER|DROP)\\s+(?:DEFINER\\s*=\\s*(?:'[^']*'|`[^`]*`|\\w+)" +
	"(?:\\s*@\\s*(?:'[^']*'|`[^`]*`|\\w+)|\\s*\\(\\s*\\))?\\s+)?(?:PROCEDURE|FUNCTION|TRIGGER|EVENT)\\b")

// KeepText notes the text of a statement that is prepared under a name. The tree that the engine
// keeps is not what our own engine can run. Errors: 1295 for definitions of stored programs, which
// cannot be prepared in MySQL, and of which the engine would keep the text of EXECUTE.
func (s *Session) KeepText(ctx *sql.Context, n *plan.PrepareQuery) error {
	delete(s.texts, n.Name)
	p, ok := s.Stmt.Tree.(*sqlparser.Prepare)
	if !ok || p.Name != n.Name {
		return nil
	}
	text := p.Expr
	if name, is := strings.CutPrefix(text, "@"); is {
		_, v, err := ctx.GetUserVariable(ctx, strings.ToLower(strings.Trim(name, "@")))
		if text, ok = v.(string); err != nil || !ok {
			return nil
		}
	}
	if reProgram.MatchString(sqlparser.StripLeadingComments(text)) {
		return mysql.NewSQLError(1295, "HY000", "This command is not supported in the prepared statement protocol yet")
	}
	if s.texts == nil {
		s.texts = map[string]string{}
	}
	s.texts[n.Name] = text
	return nil
}

// Executed is what an EXECUTE of a client executes, and its parameters; ok is false of other
// statements, and where only the engine knows it.
func (s *Session) Executed(ctx context.Context, query string) (text string, p *mysql.PrepareData, ok bool) {
	const word = "execute"
	query = strings.TrimLeft(query, " \t\r\n")
	if len(s.texts) == 0 || len(query) <= len(word) || !strings.EqualFold(query[:len(word)], word) {
		return "", nil, false
	}
	stmt, err := sqlparser.Parse(query)
	x, is := stmt.(*sqlparser.Execute)
	if err != nil || !is {
		return "", nil, false
	}
	if text, ok = s.texts[x.Name]; !ok || s.prepared[x.Name] == nil {
		return "", nil, false
	}
	p = &mysql.PrepareData{BindVars: map[string]*querypb.BindVariable{}}
	for i, name := range x.VarList {
		v, ok := userBind(sql.NewContext(ctx, sql.WithSession(s)), strings.TrimPrefix(name, "@"))
		if !ok {
			return "", nil, false
		}
		p.BindVars["v"+strconv.Itoa(i+1)] = v
	}
	return text, p, true
}

// userBind is the value of a user variable as a parameter; ok is false of values that no parameter
// has.
func userBind(ctx *sql.Context, name string) (v *querypb.BindVariable, ok bool) {
	_, x, err := ctx.GetUserVariable(ctx, name)
	if err != nil {
		return nil, false
	}
	switch x := x.(type) {
	case nil:
		return &querypb.BindVariable{Type: sqltypes.Null}, true
	case string:
		return &querypb.BindVariable{Type: sqltypes.VarChar, Value: []byte(x)}, true
	case int8, int16, int32, int64, int:
		return &querypb.BindVariable{Type: sqltypes.Int64, Value: fmt.Append(nil, x)}, true
	case uint8, uint16, uint32, uint64, uint:
		return &querypb.BindVariable{Type: sqltypes.Uint64, Value: fmt.Append(nil, x)}, true
	case float64:
		return &querypb.BindVariable{Type: sqltypes.Float64, Value: strconv.AppendFloat(nil, x, 'f', -1, 64)}, true
	case decimal.Decimal:
		return &querypb.BindVariable{Type: sqltypes.Decimal, Value: []byte(x.StringFixed(max(0, -x.Exponent())))}, true
	}
	return nil, false
}
