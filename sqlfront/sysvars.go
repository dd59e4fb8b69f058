package sqlfront

import (
	"context"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

var sysVarsOnce sync.Once

// initSystemVariables adds Godwit's variables to the engine's, which are global to the process.
func initSystemVariables() {
	sysVarsOnce.Do(func() {
		session := func(name string, t sql.Type, def any) sql.SystemVariable {
			return &sql.MysqlSystemVariable{
				Name: name, Scope: sql.GetMysqlScope(sql.SystemVariableScope_Session), Type: t, Default: def, Dynamic: false,
			}
		}
		sql.SystemVariables.AddSystemVariables([]sql.SystemVariable{
			session("godwit_region", types.NewSystemStringType("godwit_region"), ""),
			session("godwit_node", types.NewSystemIntType("godwit_node", 0, 1<<32, false), int64(0)),
			session("last_statement_wan_rtts", types.NewSystemDoubleType("last_statement_wan_rtts", 0, 1e18), float64(0)),
			session("last_statement_wan_bytes", types.NewSystemIntType("last_statement_wan_bytes", 0, 1<<62, false), int64(0)),
		})
		_ = sql.SystemVariables.AssignValues(map[string]any{"version_comment": "Godwit geo-distributed SQL"})
	})
}

// initVariables gives a new session its values.
func (s *Session) initVariables() {
	ctx := sql.NewContext(context.Background(), sql.WithSession(s))
	_ = s.InitSessionVariable(ctx, "godwit_region", s.g.regionName())
	_ = s.InitSessionVariable(ctx, "godwit_node", int64(s.g.db.Node()))
}

// noteCost shows the cost of a statement in the session's variables.
func (s *Session) noteCost(c statementCost) {
	old := s.lastCost
	s.lastCost = c
	if c.Hops == old.Hops && c.Bytes == old.Bytes {
		return
	}
	ctx := sql.NewContext(context.Background(), sql.WithSession(s))
	_ = s.InitSessionVariable(ctx, "last_statement_wan_rtts", float64(c.Hops)/2)
	_ = s.InitSessionVariable(ctx, "last_statement_wan_bytes", c.Bytes)
}
