package server

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

var explainPrefix = regexp.MustCompile(`(?is)^\s*(?:explain|describe|desc)\s+` +
	`(?:analyze\s+|plan\s+|extended\s+|format\s*=\s*\S+\s+)*`)

// explainedText is the statement that EXPLAIN is asked about.
func explainedText(ctx *sql.Context) string {
	q := ctx.Query()
	return q[len(explainPrefix.FindString(q)):]
}

// explained says where a statement that EXPLAIN is asked about would be executed: always of one
// that changes rows, and of a query that names rows of other regions by their primary key; ""
// otherwise. Where rows are at home elsewhere it says what the policy of homes makes of that.
func (g *gateway) explained(ctx *sql.Context, s *session.Session) string {
	query := explainedText(ctx)
	where := g.placed(ctx, s, query)
	if where != "" {
		where += g.whole.Explain(ctx, s, query)
	}
	return where
}

// placed is the part of it that says where.
func (g *gateway) placed(ctx *sql.Context, s *session.Session, query string) string {
	stmt, err := sqlparser.ParseWithOptions(ctx, query, sql.LoadSqlMode(ctx).ParserOptions())
	if err != nil {
		return ""
	}
	switch stmt := stmt.(type) {
	case *sqlparser.Update, *sqlparser.Delete, *sqlparser.Insert:
	case *sqlparser.Select:
		if session.LockClause(stmt) == kv.LockNone {
			return g.explainedRead(ctx, s, stmt)
		}
	default:
		return ""
	}
	if len(g.DB.Topology().Regions) < 2 {
		return "local"
	}
	var ex execution
	r, args := g.route(ctx, query, false, nil)
	if r != nil {
		ex = g.execution(ctx, s, r, args)
	}
	switch {
	case ex.region == 0:
		return "local or cross-region, by the rows that it finds"
	case !ex.several && ex.region == g.DB.Region():
		return "local"
	case !ex.elsewhere(g.DB.Region()):
		return "cross-region"
	case g.fwd != nil && !s.NoForward && !s.Explicit(ctx):
		return "forwarded to region " + g.DB.Topology().RegionName(ex.region) + g.advised(ctx, s, r, ex)
	}
	return "cross-region" + g.advised(ctx, s, r, ex)
}

// explainedRead says where a query that locks nothing is executed.
func (g *gateway) explainedRead(ctx *sql.Context, s *session.Session, stmt *sqlparser.Select) string {
	topo := g.DB.Topology()
	r := newRoute()
	if !r.query(stmt) || len(topo.Regions) < 2 {
		return ""
	}
	ex := g.execution(ctx, s, r, nil)
	switch {
	case ex.several:
		return "cross-region"
	case !ex.elsewhere(g.DB.Region()):
		return ""
	case s.Staleness > 0 && !s.Explicit(ctx):
		return "read at the consistency point of region " + topo.RegionName(g.DB.Region())
	}
	if g.Reads != nil && len(ex.first) > 0 {
		if local, wait, rtt := g.Reads.Plan(ex.first); local {
			return fmt.Sprintf("read from the local replica when it is complete, in about %.1f ms, "+
				"instead of %.1f ms in region %s",
				millis(wait), millis(rtt), topo.RegionName(ex.region)) + g.advised(ctx, s, r, ex)
		}
	}
	return "read in region " + topo.RegionName(ex.region) + g.advised(ctx, s, r, ex)
}

// advised is what the owner of rows in one other region thinks of their home.
func (g *gateway) advised(ctx *sql.Context, s *session.Session, r *route, ex execution) string {
	db := r.db
	if db == "" {
		db = s.GetCurrentDatabase()
	}
	snap, err := s.Snapshot(ctx)
	if err != nil || g.cluster == nil || r.kind == fast.Insert {
		return ""
	}
	if t := snap.Table(db, r.table); t == nil || t.Desc.Locality.Kind != schema.ByRow {
		return ""
	}
	switch move, why := g.cluster.Advice(ctx, ex.node, ex.first, ex.region); {
	case why == "":
		return ""
	case move:
		return "; rehome advised: " + why
	default:
		return "; row " + why
	}
}

// explain adds to EXPLAIN where a statement that changes rows is executed, and to EXPLAIN ANALYZE,
// which there is of queries only, what it has cost on the WAN.
func (b *builder) explain(ctx *sql.Context, s *session.Session, n *plan.DescribeQuery, row sql.Row) (sql.RowIter, error) {
	if s.Stmt.Explained == n {
		return nil, nil
	}
	where := ""
	if !n.Format.Analyze {
		if where = b.g.explained(ctx, s); where != "" {
			where = "Execution: " + where + b.g.fast.Shipped(ctx, s, explainedText(ctx))
		}
	}
	if where == "" && n.Format.Plan && !n.Format.Analyze {
		return nil, nil
	}
	s.Stmt.Explained = n
	after := measured(s)
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
		ctx.ClearWarnings() // that it is a placeholder
		r := rows[0]        // of one row
		for i := range r {
			if r[i] == "NULL" {
				r[i] = nil
			}
		}
		r[1], r[len(r)-1] = strings.ToUpper(bound.Kind(explainedText(ctx))), where
	case n.Format.Analyze:
		for _, line := range after() {
			rows = append(rows, sql.Row{line})
		}
	default:
		rows = append(rows, sql.Row{where})
	}
	return sql.RowsToRowIter(rows...), nil
}

// measured begins to measure a statement. The function says what it has cost on the WAN since.
func measured(s *session.Session) func() []string {
	hops, bytes, moves := s.Trace.Hops(), s.Trace.Bytes(), s.Trace.Moves()
	before := readsOf(s.Trace)
	return func() []string {
		out := []string{fmt.Sprintf("WAN: %.1f round trips, %d bytes; %d rows set off to another home",
			float64(s.Trace.Hops()-hops)/2, s.Trace.Bytes()-bytes, s.Trace.Moves()-moves)}
		if text := readsOf(s.Trace).since(before); text != "" {
			out = append(out, "Reads: "+text)
		}
		return out
	}
}

// reads is how the snapshot reads of a session were answered so far.
type reads struct {
	n    [len(readWords)]int64
	wait time.Duration
}

var readWords = [...]struct {
	kind obs.ReadKind
	text string
}{
	{obs.ReadLocal, "from local replicas"},
	{obs.ReadWaited, "from local replicas once they were complete"},
	{obs.ReadServed, "from replicas of other nodes"},
	{obs.ReadOwner, "from owners in this region"},
	{obs.ReadFar, "from owners in other regions"},
}

func readsOf(t *obs.Trace) (r reads) {
	for i, w := range readWords {
		r.n[i] = t.Reads(w.kind)
	}
	r.wait = t.Waited()
	return r
}

// since says what has been read since; "" if nothing.
func (r reads) since(before reads) string {
	var out []string
	for i, w := range readWords {
		if n := r.n[i] - before.n[i]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, w.text))
		}
	}
	if d := r.wait - before.wait; d > 0 {
		out = append(out, fmt.Sprintf("waited %.1f ms", millis(d)))
	}
	return strings.Join(out, ", ")
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
