package assign

import (
	"strings"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/token"
)

// InUTC is the environment of generated columns. What they make of a TIMESTAMP has to be the same
// in all sessions: rows and indexes keep it.
func InUTC(env *expr.Env) *expr.Env {
	if env.Zone() == time.UTC {
		return env
	}
	e := *env
	e.Loc = time.UTC
	return &e
}

// Foreseen refuses an UPDATE of a generated column over a TIMESTAMP by a session of another zone
// than UTC: its query computes the value by the session's clock.
func Foreseen(env *expr.Env, t *schema.Table, pos int) error {
	if env.Zone() == time.UTC || t.Cols[pos].Desc.Generated == nil {
		return nil
	}
	used := map[string]bool{}
	for _, n := range token.Scan(t.Cols[pos].Desc.Generated.Text, token.Mode{}) {
		if n.Named() {
			used[n.Lower] = true
		}
	}
	for _, c := range t.Cols {
		if c.Type.Type() == sqltypes.Timestamp && used[strings.ToLower(c.Desc.Name)] {
			return &bind.Refusal{Err: mysql.NewSQLError(1235, "42000", "column %s is computed of the TIMESTAMP %s, in UTC: "+
				"SET time_zone = '+00:00' before an UPDATE", t.Cols[pos].Desc.Name, c.Desc.Name)}
		}
	}
	return nil
}
