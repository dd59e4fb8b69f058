package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/mysql"
)

// mysqlScopes are the scopes of variables, as MySQL 8.0 has them, that the engine has otherwise.
var mysqlScopes = map[string]sql.MysqlSVScopeType{
	"binlog_format": sql.SystemVariableScope_Both, "rand_seed2": sql.SystemVariableScope_Session,
	"rbr_exec_mode": sql.SystemVariableScope_Session, "sql_log_bin": sql.SystemVariableScope_Session,
	"transaction_allow_batching": sql.SystemVariableScope_Session,
}

// mendScopes gives variables the scopes that they have in MySQL.
func mendScopes() {
	for name, scope := range mysqlScopes {
		if v, _, ok := sql.SystemVariables.GetGlobal(name); ok {
			mended := *v.(*sql.MysqlSystemVariable)
			mended.Scope = sql.GetMysqlScope(scope)
			sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{&mended})
		}
	}
}

// WrongScope is the error for @@global.x of a variable that only sessions have, and for @@session.x
// (global is false) of one that they do not have; nil for all others.
func WrongScope(name string, global bool) error {
	v, _, _ := sql.SystemVariables.GetGlobal(name)
	m, ok := v.(*sql.MysqlSystemVariable)
	switch {
	case !ok:
	case global && m.Scope.Type == sql.SystemVariableScope_Session:
		return mysql.NewSQLError(1238, "HY000", "Variable '%s' is a SESSION variable", m.Name)
	case !global && m.IsGlobalOnly():
		return mysql.NewSQLError(1238, "HY000", "Variable '%s' is a GLOBAL variable", m.Name)
	}
	return nil
}

// readOnlyInSession are variables that each session shows and only SET GLOBAL changes, as in MySQL.
var readOnlyInSession = []string{"max_allowed_packet", "max_user_connections", "net_buffer_length"}

// CheckScope refuses what can be set nowhere, or not there. As in MySQL it comes before privileges.
func CheckScope(def sql.SystemVariable, scope sql.MysqlSVScopeType) error {
	m, ok := def.(*sql.MysqlSystemVariable)
	switch {
	case !ok:
		return nil
	case m.IsReadOnly():
		return sql.ErrSystemVariableReadOnly.New(m.Name)
	case scope == sql.SystemVariableScope_Session && slices.Contains(readOnlyInSession, strings.ToLower(m.Name)):
		return mysql.NewSQLError(1621, "HY000", "SESSION variable '%s' is read-only. Use SET GLOBAL to assign the value",
			strings.ToLower(m.Name))
	case scope == sql.SystemVariableScope_Session && m.Scope.Type == sql.SystemVariableScope_Global:
		return sql.ErrSystemVariableGlobalOnly.New(m.Name)
	case scope != sql.SystemVariableScope_Session && m.Scope.Type == sql.SystemVariableScope_Session:
		return sql.ErrSystemVariableSessionOnly.New(m.Name)
	}
	return nil
}

// Changes reports whether an assignment changes the value of a variable.
func Changes(ctx *sql.Context, v *expression.SystemVar, def sql.SystemVariable, to sql.Expression, row sql.Row) bool {
	if transform.InspectExpr(ctx, to, func(_ *sql.Context, e sql.Expression) bool {
		_, ok := e.(*plan.Subquery)
		return ok
	}) {
		return true
	}
	was, err := v.Eval(ctx, row)
	if err != nil {
		return true
	}
	next, err := to.Eval(ctx, row)
	if err != nil {
		return true // the engine words it
	}
	if x, _, err := def.GetType().Convert(ctx, next); err == nil {
		next = x
	}
	if x, _, err := def.GetType().Convert(ctx, was); err == nil {
		was = x
	}
	return !strings.EqualFold(fmt.Sprint(was), fmt.Sprint(next))
}
