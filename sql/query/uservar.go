package query

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// intoOf is the INTO of a SELECT of a client; nil if it has none. A client has no local variables.
func intoOf(ctx *sql.Context, text string) (*token.Into, error) {
	if !base.ContainsFold(text, "INTO") {
		return nil, nil
	}
	in := token.CutInto(text, token.ModeOf(sql.LoadSqlMode(ctx).String()))
	if in == nil {
		return nil, nil
	}
	for _, v := range in.To {
		if !v.User {
			return nil, mysql.NewSQLError(1327, "42000", "Undeclared variable: %s", v.Name)
		}
	}
	return in, nil
}

// single keeps the row of a SELECT ... INTO.
type single struct {
	st   *statement
	to   int
	rows int
	vals []expr.Value
	typs []expr.Type
}

// tooManyRows is error 1172, wrongWidth 1222.
func tooManyRows() error {
	return &codedError{Kind: sql.ErrMoreThanOneRow.New(), Me: mysql.NewSQLError(1172, "42000", "Result consisted of more than one row")}
}

func wrongWidth() error {
	return &codedError{Kind: sql.ErrColumnNumberDoesNotMatch.New(), Me: mysql.NewSQLError(1222, "21000", "The used SELECT statements have a different number of columns")}
}

// take keeps the row of a batch.
func (o *single) take(b *expr.Batch) error {
	if o.rows += len(b.Sel); o.rows > 1 {
		return tooManyRows()
	}
	cols := o.st.op.Cols()
	for _, c := range o.st.out {
		for k, id := range cols {
			if id != c.ID {
				continue
			}
			x := b.Cols[k].At(b.Sel[0])
			x.S = strings.Clone(x.S)
			o.vals, o.typs = append(o.vals, x), append(o.typs, b.Cols[k].T)
			break
		}
	}
	return nil
}

// fits checks the number of targets.
func (o *single) fits() error {
	if len(o.st.out) != o.to {
		return wrongWidth()
	}
	return nil
}

// into runs a SELECT ... INTO user variables.
func (st *statement) into(in *token.Into) (res *sqltypes.Result, done bool, err error) {
	o := &single{st: st, to: len(in.To)}
	if err := o.fits(); err != nil {
		return nil, true, err
	}
	if done, err = st.run(o.take); err != nil || !done {
		return nil, done, err
	}
	st.count(o.rows)
	if o.rows == 0 {
		st.ctx.Warn(1329, "No data - zero rows fetched, selected, or processed")
		return &sqltypes.Result{}, true, nil
	}
	for i, v := range in.To {
		if err := st.setVar(v.Name, o.vals[i], o.typs[i]); err != nil {
			return nil, true, err
		}
	}
	st.ctx.GetLastQueryInfo().RowCount.Store(1)
	return &sqltypes.Result{RowsAffected: 1}, true, nil
}

// setVar assigns a user variable.
func (st *statement) setVar(name string, x expr.Value, t expr.Type) error {
	to := expr.UserVarType(t)
	x, err := expr.Converted(x, t, to, st.env)
	if err != nil {
		return err
	}
	return given.WriteVar(st.ctx, name, x, to)
}

// set runs a SET of user variables; done is false if the engine has to.
func (r *Runner) set(ctx context.Context, s *session.Session, c *mysql.Conn, text string,
	given func(sql.CollationID) ([]expr.Node, error), sent *bool, send func(*sqltypes.Result) error) (done bool, err error) {
	sctx, err := r.Sessions.NewContextWithQuery(ctx, c, text)
	if err != nil {
		return false, nil
	}
	tree, err := r.parsed(sctx, text)
	if err != nil {
		return false, nil
	}
	_, names := bind.Assignments(tree)
	if len(names) == 0 {
		return false, nil
	}
	_ = s.CommandBegin()
	if sctx, err = r.Engine.ProcessList.BeginQuery(sctx, text); err != nil {
		return true, err
	}
	defer r.Engine.ProcessList.EndQuery(sctx)
	st, err := r.prepare(sctx, s, text, given, (*statement).makeSet)
	if st == nil {
		return err != nil, clientError(err)
	}
	defer st.close()
	if done, err = st.assign(names); err != nil {
		return done, sql.CastSQLError(interrupted(err))
	}
	if !done {
		return false, nil
	}
	sctx.GetLastQueryInfo().RowCount.Store(0)
	*sent = true
	return true, send(&sqltypes.Result{})
}

// assign gives variables the values of the row of a query. All values are computed before.
func (st *statement) assign(names []string) (done bool, err error) {
	o := &single{st: st, to: len(names)}
	if done, err = st.run(o.take); err != nil || !done {
		return done, err
	}
	for i, name := range names {
		if err := st.setVar(name, o.vals[i], o.typs[i]); err != nil {
			return true, err
		}
	}
	return true, nil
}

// makeSet binds and plans a SET of user variables.
func (st *statement) makeSet(text string, params []expr.Node) error {
	tree, err := st.begin(text)
	if err != nil {
		return err
	}
	tree, _ = bind.Assignments(tree)
	return st.makeTree(tree, params)
}
