package ddl

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// Analyzing has ANALYZE TABLE take our own estimates, too. The others are the engine's.
type Analyzing struct {
	sql.StatsProvider
	Env *table.Env
}

// AnalyzeTable implements sql.StatsProvider.
func (a Analyzing) AnalyzeTable(ctx *sql.Context, t sql.Table, db string) error {
	if st := table.Of(t); st != nil && st.Def.HomesOf == nil {
		kctx := ctx.Context
		if s := session.Of(ctx); s != nil {
			kctx = s.KVContext(ctx)
		}
		if err := a.Env.Stats.Analyze(kctx, st.Def); err != nil {
			return schema.ClientError(err)
		}
		if sample, _ := a.Env.Stats.Sample(st.Def); sample == nil || sample.Rows == 0 {
			return nil // the engine divides by their number; temporary tables have no sample
		}
	}
	return a.StatsProvider.AnalyzeTable(ctx, t, db)
}
