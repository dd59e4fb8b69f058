package query

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/opt"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// explainHead is the beginning of an EXPLAIN whose formats are MySQL's.
var explainHead = regexp.MustCompile("(?is)^\\s*(?:explain|describe|desc)\\s+(analyze\\s+)?" +
	"(?:format\\s*=\\s*['\"`]?(tree|json|traditional)['\"`]?\\s+)?")

// explained is an EXPLAIN that is asked for.
type explained struct {
	query, format string
	analyze       bool
}

// explainOf reads an EXPLAIN of a query; nil if a text is none, or one in a format of the engine's
// own.
func explainOf(text string) *explained {
	m := explainHead.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	x := &explained{query: text[len(m[0]):], format: strings.ToLower(m[2]), analyze: m[1] != ""}
	if token.VerbOf(x.query) != token.Reading {
		return nil
	}
	switch {
	case x.format == "" && x.analyze:
		x.format = "tree"
	case x.format == "":
		x.format = "traditional"
	case x.format == "traditional" && x.analyze:
		return nil
	}
	return x
}

// explain answers EXPLAIN of a query that runs here; done is false if the engine has to.
func (r *Runner) explain(ctx context.Context, s *session.Session, c *mysql.Conn, text string, x *explained,
	sent *bool, send func(*sqltypes.Result) error) (done bool, err error) {
	sctx, err := r.Sessions.NewContextWithQuery(ctx, c, text)
	if err != nil {
		return false, nil
	}
	_ = s.CommandBegin()
	if sctx, err = r.Engine.ProcessList.BeginQuery(sctx, text); err != nil {
		return true, err
	}
	defer r.Engine.ProcessList.EndQuery(sctx)
	st, err := r.prepare(sctx, s, x.query, func(sql.CollationID) ([]expr.Node, error) { return nil, nil }, (*statement).makeShown)
	if st == nil && err != nil {
		return true, clientError(err)
	}
	if st == nil {
		return false, nil
	}
	defer st.close()
	var notes []string
	var meter *opt.Meter
	if x.analyze {
		meter = &opt.Meter{Trips: func() float64 { return float64(s.Trace.Hops()) / 2 }}
		if st.op, err = opt.BuildMeasured(st.plan, meter); err != nil {
			return true, err
		}
		after := func() []string { return nil }
		if r.Meter != nil {
			after = r.Meter(s)
		}
		if done, err = st.run(func(*expr.Batch) error { return nil }); err != nil || !done {
			return done, err
		}
		notes = after()
	} else if r.Where != nil {
		if w := r.Where(sctx, s); w != "" {
			notes = []string{"Execution: " + w}
		}
	}
	res, err := x.result(st.plan, meter, notes)
	if err != nil {
		return true, err
	}
	st.count(len(res.Rows))
	*sent = true
	return true, send(res)
}

// result shows a plan, with notes below it.
func (x *explained) result(p *opt.Plan, m *opt.Meter, notes []string) (*sqltypes.Result, error) {
	if x.format == "traditional" {
		return columnsOfPlan(p, notes), nil
	}
	var lines []string
	if x.format == "json" {
		text, err := p.JSON(x.query, m)
		if err != nil {
			return nil, err
		}
		lines, notes = []string{text}, nil
	} else {
		text := p.Tree(true)
		if m != nil {
			text = p.Analyzed(m)
		}
		lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	res := &sqltypes.Result{Fields: []*querypb.Field{textField("EXPLAIN")}}
	for _, l := range append(lines, notes...) {
		res.Rows = append(res.Rows, []sqltypes.Value{sqltypes.MakeTrusted(sqltypes.Text, []byte(l))})
	}
	return res, nil
}

func textField(name string) *querypb.Field {
	return &querypb.Field{Name: name, OrgName: name, Type: sqltypes.Text, Charset: uint32(sql.Collation_Default.CharacterSet()),
		ColumnLength: 3 * 65535}
}

var planColumns = []string{
	"id", "select_type", "table", "partitions", "type", "possible_keys",
	"key", "key_len", "ref", "rows", "filtered", "Extra",
}

// columnsOfPlan is a plan in MySQL's columns. Notes stand with the last table.
func columnsOfPlan(p *opt.Plan, notes []string) *sqltypes.Result {
	res := &sqltypes.Result{}
	for _, n := range planColumns {
		f := textField(n)
		switch n {
		case "id", "rows":
			f.Type, f.ColumnLength = sqltypes.Int64, 20
		}
		res.Fields = append(res.Fields, f)
	}
	text := func(s string) sqltypes.Value {
		if s == "" {
			return sqltypes.NULL
		}
		return sqltypes.MakeTrusted(sqltypes.Text, []byte(s))
	}
	number := func(f float64) sqltypes.Value {
		return sqltypes.MakeTrusted(sqltypes.Int64, strconv.AppendInt(nil, int64(max(f, 0)+0.5), 10))
	}
	all := p.Accesses()
	for i, a := range all {
		if i == len(all)-1 {
			a.Extra = append(a.Extra, notes...)
		}
		row := []sqltypes.Value{
			number(float64(a.ID)), text(a.SelectType), text(a.Table), text(strings.Join(a.Partitions, ",")), text(a.Type),
			text(strings.Join(a.Possible, ",")), text(a.Key), sqltypes.NULL,
			text(a.Ref), sqltypes.NULL, sqltypes.NULL, text(strings.Join(a.Extra, "; ")),
		}
		if a.Table != "" {
			row[9], row[10] = number(max(a.Rows, 1)), text(strconv.FormatFloat(a.Filtered, 'f', 2, 64))
		}
		res.Rows = append(res.Rows, row)
	}
	return res
}
