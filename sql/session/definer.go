package session

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

// Definer is the account that the DEFINER clause of a statement names; zero if it names none.
func (s *Statement) Definer() schema.Account {
	text, _ := definition(s.Tree)
	return accountOf(text)
}

// DefinerOf is the account with whose rights what the statement of ctx creates is executed: the
// one that it names, or the client's; nil with SQL SECURITY INVOKER.
func DefinerOf(ctx *sql.Context) *schema.Account {
	client := ctx.Client()
	me := &schema.Account{Name: client.User, Host: client.Address}
	s := Of(ctx)
	if s == nil {
		return me
	}
	text, invoker := definition(s.Stmt.Tree)
	switch named := accountOf(text); {
	case invoker:
		return nil
	case named != (schema.Account{}):
		return &named
	}
	return me
}

// definition has the DEFINER clause of a statement, and whether it says SQL SECURITY INVOKER.
func definition(tree sqlparser.Statement) (definer string, invoker bool) {
	d, ok := tree.(*sqlparser.DDL)
	if !ok {
		return "", false
	}
	switch {
	case d.ViewSpec != nil:
		return d.ViewSpec.Definer, strings.EqualFold(d.ViewSpec.Security, "invoker")
	case d.TriggerSpec != nil:
		return d.TriggerSpec.Definer, false
	case d.ProcedureSpec != nil:
		for _, c := range d.ProcedureSpec.Characteristics {
			invoker = invoker || c.Type == sqlparser.CharacteristicValue_SqlSecurityInvoker
		}
		return d.ProcedureSpec.Definer, invoker
	case d.EventSpec != nil:
		return d.EventSpec.Definer, false
	}
	return "", false
}

// accountOf reads an account as the syntax tree has it: `name`@`host`.
func accountOf(text string) schema.Account {
	name, host, ok := strings.Cut(strings.Trim(text, "`"), "`@`")
	if !ok || strings.EqualFold(name, "current_user") {
		return schema.Account{}
	}
	if host == "" {
		host = "%"
	}
	return schema.Account{Name: strings.ReplaceAll(name, "``", "`"), Host: strings.ReplaceAll(host, "``", "`")}
}
