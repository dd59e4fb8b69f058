package sqlfront

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
)

var explainPrefix = regexp.MustCompile(`(?is)^\s*(?:explain|describe|desc)\s+(?:analyze\s+|plan\s+|extended\s+|format\s*=\s*\S+\s+)*`)

// explainedText is the statement that EXPLAIN is asked about.
func explainedText(ctx *sql.Context) string {
	q := ctx.Query()
	return q[len(explainPrefix.FindString(q)):]
}

// explained says where a statement that EXPLAIN is asked about would be executed: always of one that changes rows,
// and of a query that names rows of other regions by their primary key; "" otherwise. Where rows are at home
// elsewhere it says what the policy of homes makes of that.
func (g *gateway) explained(ctx *sql.Context, s *Session) string {
	query := explainedText(ctx)
	stmt, err := sqlparser.ParseWithOptions(ctx, query, sql.LoadSqlMode(ctx).ParserOptions())
	if err != nil {
		return ""
	}
	topo := g.db.Topology()
	switch stmt := stmt.(type) {
	case *sqlparser.Update, *sqlparser.Delete, *sqlparser.Insert:
	case *sqlparser.Select:
		if lockClause(stmt) != kv.LockNone {
			break
		}
		if r := newRoute(); r.query(stmt) && len(topo.Regions) > 1 {
			switch ex := g.execution(ctx, s, r, nil); {
			case ex.several:
				return "cross-region"
			case ex.elsewhere(g.db.Region()):
				if s.staleness > 0 && !s.explicit(ctx) {
					return "read at the consistency point of region " + topo.RegionName(g.db.Region())
				}
				if g.reads != nil && len(ex.first) > 0 {
					if local, wait, rtt := g.reads.Plan(ex.first); local {
						return fmt.Sprintf("read from the local replica when it is complete, in about %.1f ms, instead of %.1f ms in region %s",
							millis(wait), millis(rtt), topo.RegionName(ex.region)) + g.advised(ctx, s, r, ex)
					}
				}
				return "read in region " + topo.RegionName(ex.region) + g.advised(ctx, s, r, ex)
			}
		}
		return ""
	default:
		return ""
	}
	if len(topo.Regions) < 2 {
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
	case !ex.several && ex.region == g.db.Region():
		return "local"
	case ex.elsewhere(g.db.Region()) && g.fwd != nil && !s.noForward && !s.explicit(ctx):
		return "forwarded to region " + topo.RegionName(ex.region) + g.advised(ctx, s, r, ex)
	case ex.elsewhere(g.db.Region()):
		return "cross-region" + g.advised(ctx, s, r, ex)
	}
	return "cross-region"
}

// advised is what the owner of rows in one other region thinks of their home.
func (g *gateway) advised(ctx *sql.Context, s *Session, r *route, ex execution) string {
	db := r.db
	if db == "" {
		db = s.GetCurrentDatabase()
	}
	snap, err := s.snapshot(ctx)
	if err != nil || g.cluster == nil || r.kind == fastInsert {
		return ""
	}
	if t := snap.table(db, r.table); t == nil || t.desc.Locality.Kind != byRow {
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

// explain adds to EXPLAIN where a statement that changes rows is executed, and to EXPLAIN ANALYZE, which
// there is of queries only, what it has cost on the WAN.
func (b *builder) explain(ctx *sql.Context, s *Session, n *plan.DescribeQuery, row sql.Row) (sql.RowIter, error) {
	if s.explained == n {
		return nil, nil
	}
	where := ""
	if !n.Format.Analyze {
		if where = b.g.explained(ctx, s); where != "" {
			where += b.g.shipped(ctx, s, explainedText(ctx))
		}
	}
	if where == "" && !(n.Format.Analyze && n.Format.Plan) {
		return nil, nil
	}
	s.explained = n
	hops, bytes, moves := s.trace.Hops(), s.trace.Bytes(), s.trace.Moves()
	before := readsOf(s.trace)
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
		rows = append(rows, sql.Row{fmt.Sprintf("WAN: %.1f round trips, %d bytes; %d rows set off to another home",
			float64(s.trace.Hops()-hops)/2, s.trace.Bytes()-bytes, s.trace.Moves()-moves)})
		if text := readsOf(s.trace).since(before); text != "" {
			rows = append(rows, sql.Row{"Reads: " + text})
		}
	default:
		rows = append(rows, sql.Row{"Execution: " + where})
	}
	return sql.RowsToRowIter(rows...), nil
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
