package sqlfront

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

var explainPrefix = regexp.MustCompile(`(?is)^\s*(?:explain|describe|desc)\s+(?:analyze\s+|plan\s+|extended\s+|format\s*=\s*\S+\s+)*`)

// explainedText is the statement that EXPLAIN is asked about.
func explainedText(ctx *sql.Context) string {
	q := ctx.Query()
	return q[len(explainPrefix.FindString(q)):]
}

// explained says where a statement that EXPLAIN is asked about would be executed; "" if it changes no rows.
func (g *gateway) explained(ctx *sql.Context, s *Session) string {
	query := explainedText(ctx)
	stmt, err := sqlparser.ParseWithOptions(ctx, query, sql.LoadSqlMode(ctx).ParserOptions())
	if err != nil {
		return ""
	}
	switch stmt.(type) {
	case *sqlparser.Update, *sqlparser.Delete, *sqlparser.Insert:
	default:
		return ""
	}
	topo := g.db.Topology()
	if len(topo.Regions) < 2 {
		return "local"
	}
	var ex execution
	if r, args := g.route(ctx, query, false, nil); r != nil {
		ex = g.execution(ctx, s, r, args)
	}
	switch {
	case ex.region == 0:
		return "local or cross-region, by the rows that it finds"
	case !ex.several && ex.region == g.db.Region():
		return "local"
	case ex.elsewhere(g.db.Region()) && g.fwd != nil && !s.noForward && !s.explicit(ctx):
		return "forwarded to region " + topo.RegionName(ex.region)
	}
	return "cross-region"
}

// explain adds to EXPLAIN where a statement that changes rows is executed, and to EXPLAIN ANALYZE, which
// there is of queries only, what it has cost on the WAN.
func (b *builder) explain(ctx *sql.Context, s *Session, n *plan.DescribeQuery, row sql.Row) (sql.RowIter, error) {
	if s.explained == n {
		return nil, nil
	}
	where := ""
	if !n.Format.Analyze {
		where = b.g.explained(ctx, s)
	}
	if where == "" && !(n.Format.Analyze && n.Format.Plan) {
		return nil, nil
	}
	s.explained = n
	hops, bytes := s.trace.Hops(), s.trace.Bytes()
	it, err := b.base.ExecBuilder.Build(ctx, n, row)
	if err != nil {
		return nil, err
	}
	rows, err := sql.RowIterToRows(ctx, it)
	if err != nil {
		return nil, err
	}
	switch {
	case !n.Format.Plan: // the engine knows nothing for this format, but says so in words that do not fit the columns
		for _, r := range rows {
			for i := range r {
				if r[i] == "NULL" {
					r[i] = nil
				}
			}
			r[1], r[len(r)-1] = strings.ToUpper(statementKind(explainedText(ctx))), "Execution: "+where
		}
	case n.Format.Analyze:
		rows = append(rows, sql.Row{fmt.Sprintf("WAN: %.1f round trips, %d bytes", float64(s.trace.Hops()-hops)/2, s.trace.Bytes()-bytes)})
	default:
		rows = append(rows, sql.Row{"Execution: " + where})
	}
	return sql.RowsToRowIter(rows...), nil
}
