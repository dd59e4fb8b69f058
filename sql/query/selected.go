package query

import (
	"context"
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/selected"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
	"github.com/godwitdb/godwit/sql/zone"
)

// Selected is CREATE TABLE ... SELECT as a CREATE TABLE that the engine runs, and what fills the
// table before the definition is committed.
type Selected struct {
	Text string // of CREATE TABLE
	// Fill gives the table its rows, nil: there is the table already.
	Fill func(ctx *sql.Context) (types.OkResult, error)
	// Left: Fill has failed because the engine has to run the whole statement.
	Left bool

	r    *Runner
	s    *session.Session
	t    *selected.Table
	cols []selected.Column
}

// Selected binds the query of CREATE TABLE ... SELECT; nil if the text is another statement, or if
// the engine has to run the query.
func (r *Runner) Selected(ctx context.Context, s *session.Session, c *mysql.Conn, text string) (*Selected, error) {
	if r.Off || !selected.Maybe(text) {
		return nil, nil
	}
	sctx, err := r.Sessions.NewContextWithQuery(ctx, c, text)
	if err != nil {
		return nil, nil
	}
	t := selected.Cut(text, token.ModeOf(sql.LoadSqlMode(sctx).String()))
	if t == nil || !r.takes(sctx, t) {
		return nil, nil
	}
	_ = s.CommandBegin()
	o := &Selected{r: r, s: s, t: t}
	st, err := r.prepare(sctx, s, t.Plain(), noParams, func(st *statement, _ string, given []expr.Node) error {
		st.client, st.tree = true, t.Query.(bind.Stmt)
		if err := st.make("", given); err != nil {
			return err
		}
		if st.cat.ordered() || st.uuid {
			return left("CREATE TABLE ... SELECT")
		}
		o.cols = st.selected()
		return nil
	})
	if st == nil && err != nil {
		return nil, clientError(err)
	}
	if st == nil {
		return nil, nil
	}
	st.close()
	if o.Text, err = t.Create(o.cols); err != nil {
		return nil, err
	}
	if !t.IfNotExists || !known(sctx, s, t) {
		o.Fill = o.fill
	}
	return o, nil
}

// known reports whether there is a table of the name.
func known(ctx *sql.Context, s *session.Session, t *selected.Table) bool {
	db := t.DB
	if db == "" {
		db = ctx.GetCurrentDatabase()
	}
	snap, err := s.Snapshot(ctx)
	return err != nil || snap.Table(db, t.Name) != nil
}

// takes parses the statement.
func (r *Runner) takes(ctx *sql.Context, t *selected.Table) bool {
	tree, err := r.parsed(ctx, t.Plain())
	n, ok := tree.(*ast.CreateTableStmt)
	return err == nil && ok && t.Take(n)
}

// selected are the columns of the query.
func (st *statement) selected() (out []selected.Column) {
	loc, _ := zone.Of(st.ctx)
	for _, o := range st.out {
		c := selected.Column{Name: o.Name, Type: o.Type.ClientType(), Digits: o.Type.Scale, NotNull: o.Type.NotNull}
		if t := st.cat.stored(o.DB, o.OrgTable); t != nil && o.Column != "" {
			if i := t.Def.Desc.ColByName(o.Column); i >= 0 {
				c.Base = true
				c.Default = defaultText(t.Def.Desc.Cols[i].Default)
				if shown, ok := zone.Shown(c.Default, loc); ok && c.Type.Type() == sqltypes.Timestamp {
					c.Default = "'" + shown + "'"
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// defaultText is a default as a definition has it.
func defaultText(e *schema.ExprDesc) string {
	if e == nil {
		return ""
	}
	if _, now := e.Now(); e.Literal || now {
		return e.Text
	}
	return "(" + e.Text + ")"
}

var errLeft = errors.New("the engine has to run the whole statement")

// fill runs the query in the transaction that makes the table.
func (o *Selected) fill(ctx *sql.Context) (none types.OkResult, err error) {
	if !o.r.takes(ctx, o.t) { // binding may have changed the tree
		return none, errLeft
	}
	c := &change{}
	st, err := o.r.prepare(ctx, o.s, o.t.Plain(), noParams, func(st *statement, _ string, given []expr.Node) error {
		c.statement, st.tree = st, o.t.Fill(o.cols)
		return c.make("", given)
	})
	if st == nil {
		if o.Left = err == nil; o.Left {
			err = errLeft
		}
		return none, engineError(err)
	}
	defer st.close()
	res, done, err := c.run()
	if o.Left = err == nil && !done; o.Left {
		err = errLeft
	}
	if err != nil {
		return none, engineError(err)
	}
	return res.ok(), nil
}
