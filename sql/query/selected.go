package query

import (
	"cmp"
	"context"
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/selected"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
	"github.com/godwitdb/godwit/sql/zone"
)

// Selected is CREATE TABLE ... SELECT as a CREATE TABLE that the engine runs, and what fills the
// table before the definition is committed.
type Selected struct {
	text string                                         // of CREATE TABLE
	rows func(ctx *sql.Context) (types.OkResult, error) // fills the table; nil: it is there already
	left bool                                           // that failed as the engine has to run the whole statement

	r     *Runner
	s     *session.Session
	in    *inside
	given given.Given
	t     *selected.Table
	cols  []selected.Column
}

// Selected binds the query of CREATE TABLE ... SELECT; nil if the text is another statement, or if
// the engine has to run the query. p is nil for text.
func (r *Runner) Selected(ctx context.Context, s *session.Session, c *mysql.Conn, text string,
	p *mysql.PrepareData) (*Selected, error) {
	if r.Off || !selected.Maybe(text) {
		return nil, nil
	}
	sctx, err := r.Sessions.NewContextWithQuery(ctx, c, text)
	if err != nil {
		return nil, nil
	}
	_ = s.CommandBegin()
	params := noParams
	if p != nil {
		params = given.Params(p.BindVars)
	}
	return r.selectedIn(sctx, s, nil, text, params)
}

// Run has the engine run the statement: the making of the table, or the whole of text where o is
// nil, or turns out not to be able to fill it.
func (o *Selected) Run(text string, engine func(text string) error) error {
	if o != nil {
		o.s.Fill = o.rows
		err := engine(o.text)
		if o.s.Fill = nil; !o.left {
			return err
		}
	}
	return engine(text)
}

// selectedIn does so for a statement of a stored program.
func (r *Runner) selectedIn(sctx *sql.Context, s *session.Session, in *inside, text string,
	params given.Given) (*Selected, error) {
	t := selected.Cut(text, token.ModeOf(sql.LoadSqlMode(sctx).String()))
	if t == nil {
		return nil, nil
	}
	if in != nil { // a variable may be NULL
		local := in.local
		in.local = func(row, name string) (expr.Node, error) {
			n, err := local(row, name)
			if c, ok := n.(*expr.Const); ok {
				return &expr.Const{V: c.V, T: c.T.AsNull()}, err
			}
			return n, err
		}
	}
	o := &Selected{r: r, s: s, in: in, given: params, t: t}
	made := o.parsed(sctx)
	if made == nil {
		return nil, nil
	}
	st, err := r.prepareIn(sctx, s, in, t.Plain(), params, func(st *statement, _ string, given []expr.Node) error {
		st.client, st.tree = in == nil, made.Query
		if err := st.make("", given); err != nil {
			return err
		}
		if st.cat.ordered() || st.uuid {
			return left("CREATE TABLE ... SELECT")
		}
		o.cols = st.selected()
		return nil
	})
	if st == nil {
		if err != nil {
			err = clientError(err)
		}
		return nil, err
	}
	st.close()
	if o.text, err = t.Create(made.Explicit, o.cols); err != nil {
		return nil, err
	}
	if !made.IfNotExists || !known(sctx, s, made) {
		o.rows = o.fill
	}
	return o, nil
}

// known reports whether there is a table of the name.
func known(ctx *sql.Context, s *session.Session, t *bind.Created) bool {
	db := t.DB
	if db == "" {
		db = ctx.GetCurrentDatabase()
	}
	snap, err := s.Snapshot(ctx)
	return err != nil || snap.Table(db, t.Name) != nil
}

// parsed parses the statement; nil if it cannot. Binding may change a syntax tree.
func (o *Selected) parsed(ctx *sql.Context) *bind.Created {
	tree, err := o.r.parsed(ctx, o.t.Plain())
	if err != nil {
		return nil
	}
	return bind.CreatedBy(tree)
}

// selected are the columns of the query.
func (st *statement) selected() (out []selected.Column) {
	loc, _ := zone.Of(st.ctx)
	for _, o := range st.out {
		c := selected.Column{Name: o.Name, Type: o.Type.ClientType(), Digits: o.Type.Scale, NotNull: o.Type.NotNull}
		if t := st.cat.stored(o.DB, o.OrgTable); t != nil && o.Column != "" {
			if i := t.Def.Desc.ColByName(o.Column); i >= 0 {
				c.Base = true
				c.Default = t.Def.Desc.Cols[i].Default.Definition()
				if shown, ok := zone.Shown(c.Default, loc); ok && c.Type.Type() == sqltypes.Timestamp {
					c.Default = "'" + shown + "'"
				}
			}
		}
		out = append(out, c)
	}
	return out
}

var errLeft = errors.New("the engine has to run the whole statement")

// fill runs the query in the transaction that makes the table.
func (o *Selected) fill(ctx *sql.Context) (none types.OkResult, err error) {
	made := o.parsed(ctx)
	if made == nil {
		return none, errLeft
	}
	names := make([]string, len(o.cols))
	for i, c := range o.cols {
		names[i] = c.Name
	}
	c := &change{}
	st, err := o.r.prepareIn(ctx, o.s, o.in, o.t.Plain(), o.given, func(st *statement, _ string, given []expr.Node) error {
		c.statement, st.tree = st, made.Fill(names, o.t.Ignore, o.t.Replace)
		return c.make("", given)
	})
	if st == nil {
		o.left = err == nil
		return none, engineError(cmp.Or(err, errLeft))
	}
	defer st.close()
	res, done, err := c.run()
	if o.left = err == nil && !done; o.left {
		err = errLeft
	}
	if err != nil {
		return none, engineError(err)
	}
	return res.OK(), nil
}
