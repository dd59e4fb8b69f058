package prefetch

import (
	"sync"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// Planner is told of the nodes of each plan before the engine builds them, and has what they are
// going to ask for read ahead. There is one for each gateway.
type Planner struct {
	env  *table.Env
	base *analyzer.Analyzer
	// Engine plans statements anew for speculative execution. It is set before the first statement.
	Engine *sqle.Engine
	// Off has changes read row by row, for tests.
	Off bool
	// SpeculateAll has statements with triggers executed speculatively even if their rows cost no
	// trips, for tests.
	SpeculateAll bool

	far sync.Map // tables whose triggers have cost trips, by id
}

// New reads ahead for the tables of env, whose statements are built by base.
func New(env *table.Env, base *analyzer.Analyzer) *Planner {
	pl := &Planner{env: env, base: base}
	env.WrapFulltext = pl.wrapFulltext
	return pl
}

// wrapFulltext has the editor of a table with full-text indexes read what a row leads to together.
func (pl *Planner) wrapFulltext(e *table.Editor, m fulltext.MultiTableEditor) sql.TableEditor {
	if pl.Off || len(pl.env.DB.Topology().Regions) == 1 {
		return m
	}
	return &aheadEditor{MultiTableEditor: m, e: e}
}

// Begin looks at the root of a plan.
func (pl *Planner) Begin(s *session.Session, n sql.Node) {
	if s.Stmt.Writes && s.Speculation == nil {
		st := aheadOf(s)
		st.change, st.after = changeOf(n)
	}
}

// Source builds a node that yields the rows of a change, or the outer rows of lookups, if it was
// announced by a node above it; done is false if it was not.
func (pl *Planner) Source(ctx *sql.Context, s *session.Session, n sql.Node, row sql.Row) (it sql.RowIter, done bool, err error) {
	st := aheadOf(s)
	if r, ok := s.Speculation.(*speculation); ok {
		if err := r.step(); err != nil {
			return nil, true, err
		}
		if r.from == n {
			st.ahead = nil
			return r, true, nil
		}
	}
	if p := st.ahead; p != nil && p.node == n {
		st.ahead = nil
		it, err := pl.readAhead(ctx, s, p, row)
		return it, true, err
	}
	if o := st.outer; o != nil && o.Node == n {
		st.outer = nil
		it, err := o.BuildRowIter(ctx, pl.base.ExecBuilder, row)
		return it, true, err
	}
	return nil, false, nil
}

// Subqueries has what subqueries in the expressions of a node look up read ahead, unless the
// statement changes what they read. A nil iterator leaves the node to the engine.
func (pl *Planner) Subqueries(ctx *sql.Context, s *session.Session, n sql.Node, exprs []sql.Expression,
	row sql.Row) (sql.RowIter, error) {
	if s.Stmt.Writes && !aheadOf(s).stable {
		return nil, nil
	}
	return pl.subqueries(ctx, n, exprs, row)
}

// UpdateSource announces the rows of an UPDATE whose new values come from subqueries. The engine
// wants to see the table below them as it is.
func (pl *Planner) UpdateSource(ctx *sql.Context, s *session.Session, n *plan.UpdateSource) {
	st := aheadOf(s)
	if !st.stable {
		return
	}
	if inner := correlated(ctx, n.UpdateExprs.AllExpressions()); len(inner) > 0 {
		st.outer = &outerNode{Node: n.Child, inner: inner}
	}
}

// Insert announces the rows of an INSERT.
func (pl *Planner) Insert(ctx *sql.Context, s *session.Session, n *plan.InsertInto) {
	pl.aheadInsert(ctx, s, n)
	pl.planSpeculation(ctx, s, n)
}

// Update announces the rows of an UPDATE.
func (pl *Planner) Update(ctx *sql.Context, s *session.Session, n *plan.Update) {
	pl.aheadUpdate(ctx, s, n)
	pl.planSpeculation(ctx, s, n)
}

// Delete announces the rows of a DELETE.
func (pl *Planner) Delete(ctx *sql.Context, s *session.Session, n *plan.DeleteFrom) {
	pl.aheadDelete(ctx, s, n)
	pl.planSpeculation(ctx, s, n)
}
