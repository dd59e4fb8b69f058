package session

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/variables"
)

// loaded are the status variables without those of the password plugin and component, neither of
// which is there: MySQL has them only once one is loaded. With both, tools that write the dot of a
// name as an underscore find two of one name, and give up (mysqld_exporter does).
type loaded struct{ sql.StatusVariableRegistry }

// hideUnloaded takes these variables away. It may be called again.
func hideUnloaded() {
	if _, done := sql.StatusVariables.(loaded); !done {
		if sql.StatusVariables == nil {
			variables.InitStatusVariables()
		}
		sql.StatusVariables = loaded{sql.StatusVariables}
	}
}

func unloaded(name string) bool { return strings.HasPrefix(name, "validate_password") }

// NewSessionMap implements sql.StatusVariableRegistry.
func (l loaded) NewSessionMap() map[string]sql.StatusVarValue {
	return without(l.StatusVariableRegistry.NewSessionMap())
}

// NewGlobalMap implements sql.StatusVariableRegistry.
func (l loaded) NewGlobalMap() map[string]sql.StatusVarValue {
	return without(l.StatusVariableRegistry.NewGlobalMap())
}

// GetGlobal implements sql.StatusVariableRegistry.
func (l loaded) GetGlobal(name string) (sql.StatusVariable, any, bool) {
	if unloaded(name) {
		return nil, nil, false
	}
	return l.StatusVariableRegistry.GetGlobal(name)
}

func without(all map[string]sql.StatusVarValue) map[string]sql.StatusVarValue {
	for name := range all {
		if unloaded(name) {
			delete(all, name)
		}
	}
	return all
}
