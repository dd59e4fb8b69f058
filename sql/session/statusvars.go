package session

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/variables"
)

// loaded are the status variables without those of the password plugin and component, neither of
// which is there: MySQL has them only once one is loaded. With both, tools that write the dot of a
// name as an underscore find two of one name, and give up (mysqld_exporter does). Uptime and
// Queries count, which the engine leaves at 0.
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
	return counting(l.StatusVariableRegistry.NewSessionMap())
}

// NewGlobalMap implements sql.StatusVariableRegistry.
func (l loaded) NewGlobalMap() map[string]sql.StatusVarValue {
	return counting(l.StatusVariableRegistry.NewGlobalMap())
}

// GetGlobal implements sql.StatusVariableRegistry.
func (l loaded) GetGlobal(name string) (sql.StatusVariable, any, bool) {
	if unloaded(name) {
		return nil, nil, false
	}
	return l.StatusVariableRegistry.GetGlobal(name)
}

// began is when the process did.
var began = time.Now()

// computed is a status variable whose value is computed when somebody asks.
type computed struct {
	sql.StatusVarValue
	value func() any
}

// Value implements sql.StatusVarValue.
func (c computed) Value() any { return c.value() }

// Copy implements sql.StatusVarValue.
func (c computed) Copy() sql.StatusVarValue { return c }

func counting(all map[string]sql.StatusVarValue) map[string]sql.StatusVarValue {
	for _, name := range []string{"Uptime", "Uptime_since_flush_status"} {
		if v := all[name]; v != nil {
			all[name] = computed{v, func() any { return uint64(max(0, time.Since(began)) / time.Second) }}
		}
	}
	if v, asked := all["Queries"], all["Questions"]; v != nil && asked != nil {
		all["Queries"] = computed{v, asked.Value}
	}
	for name := range all {
		if unloaded(name) {
			delete(all, name)
		}
	}
	return all
}
