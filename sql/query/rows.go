package query

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/returning"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// Rows runs a statement as the engine would, and yields its rows in the engine's form; done is
// false if the engine has to run it.
func (r *Runner) Rows(ctx *sql.Context, s *session.Session, text string,
	params []expr.Node) (sch sql.Schema, rows []sql.Row, done bool, err error) {
	kind := token.VerbOf(text)
	if kind == token.Calling && !r.Off {
		return r.callRows(ctx, s, text, params)
	}
	if r.Off || kind == token.Other || kind == token.Setting || kind == token.Calling {
		return nil, nil, false, nil
	}
	given := func(sql.CollationID) ([]expr.Node, error) { return params, nil }
	if kind == token.Changing {
		res, done, err := r.change(ctx, s, nil, text, false, given, func(out *returning.Rows, _ []*querypb.Field) error {
			sch, rows = out.Schema(), out.Boxed
			return nil
		})
		if err != nil || !done || res.Returned {
			if err == nil && done {
				return sch, rows, true, nil
			}
			return nil, nil, done, engineError(err)
		}
		return types.OkResultSchema, []sql.Row{{res.OK()}}, true, nil
	}
	in, err := intoOf(ctx, text)
	if err != nil {
		return nil, nil, true, err
	}
	if in != nil {
		text = in.Text
	}
	st, err := r.prepare(ctx, s, text, given, (*statement).make)
	if st == nil {
		return nil, nil, false, engineError(err)
	}
	defer st.close()
	if in != nil {
		res, done, err := st.into(in)
		if err != nil || !done {
			return nil, nil, done, engineError(err)
		}
		return types.OkResultSchema, []sql.Row{{types.OkResult{RowsAffected: res.RowsAffected}}}, true, nil
	}
	if rows, done, err = st.engineRows(); err != nil || !done {
		return nil, nil, done, err
	}
	return st.schema(), rows, true, nil
}

// schema is that of the result in the engine's form.
func (st *statement) schema() (sch sql.Schema) {
	for _, c := range st.out {
		sch = append(sch, &sql.Column{
			Name: c.Name, Type: c.Type.ClientType(), Nullable: !c.Type.NotNull, Source: c.Table, DatabaseSource: c.DB,
		})
	}
	return sch
}

// engineRows runs a query, and yields its rows in the engine's form.
func (st *statement) engineRows() (rows []sql.Row, done bool, err error) {
	var enc *result.Encoder
	done, err = st.run(func(b *expr.Batch) error {
		if enc == nil {
			enc = st.encoder()
		}
		for _, i := range b.Sel {
			row := make(sql.Row, len(enc.At))
			for k, at := range enc.At {
				var err error
				if row[k], err = enc.Box(b.Cols[at], i, enc.Types[k]); err != nil {
					return err
				}
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err == nil && done {
		st.count(len(rows))
	}
	return rows, done, err
}

// callRows runs a CALL, and yields the rows of its last result in the engine's form.
func (r *Runner) callRows(ctx *sql.Context, s *session.Session, text string,
	params []expr.Node) (sch sql.Schema, rows []sql.Row, done bool, err error) {
	n, err := program.ParseCall(text, token.ModeOf(sql.LoadSqlMode(ctx).String()))
	if err != nil {
		return nil, nil, false, nil
	}
	p := r.newRoutine(ctx, s)
	defer p.close()
	p.params, p.boxed = params, true
	o, err := p.find("", n)
	if err != nil || o == nil {
		return nil, nil, err != nil, err
	}
	s.ClearWarnings()
	if err := p.callFrom(&program.Frame{Host: p}, n, o); err != nil {
		return nil, nil, true, engineError(err)
	}
	if p.sch == nil {
		return types.OkResultSchema, []sql.Row{{types.NewOkResult(int(max(0, p.RowCount())))}}, true, nil
	}
	return p.sch, p.boxedRows, true, nil
}
