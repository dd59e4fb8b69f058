package opt

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
)

// TestScripts runs the scripts of testdata. Their commands:
//
//	table NAME [rows=N] [rtt=MICROSECONDS]    lines "column type [null | distinct]", "key|unique|primary NAME column..."
//	view NAME                 the text of the view
//	bind [mode=SQL_MODE]      the query as the binder makes it
//	rewrite                   after all rewriting
//	plan [nolookup] [locking] the physical plan; locking: the transaction locks what it reads
//	whole [locking]           the reads of the plan, and whether each certainly goes to its end
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		c := &memCatalog{tables: map[string]*memTable{}, views: map[string]*algebra.View{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := c.run(d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return out
		})
	})
}

type memCatalog struct {
	tables map[string]*memTable
	views  map[string]*algebra.View
}

func (c *memCatalog) run(d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "table":
		return "", c.table(d)
	case "view":
		c.views[d.CmdArgs[0].Key] = &algebra.View{DB: "db", Name: d.CmdArgs[0].Key, Text: d.Input}
		return "", nil
	}
	mode := bind.Mode{OnlyFullGroupBy: true}
	var opts Options
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "mode":
			mode = bind.ModeOf(strings.Join(a.Vals, ","))
		case "nolookup":
			opts.NoLookup = true
		case "locking":
			opts.Locking = true
		}
	}
	stmt, err := bind.Parse(d.Input, mode)
	if err != nil {
		return "", err
	}
	q, err := bind.Bind(stmt, &bind.Session{
		Catalog: c, DB: "db", Mode: mode, Collation: sql.Collation_utf8mb4_0900_ai_ci,
		DefaultCollation: func(string) (sql.CollationID, bool) { return sql.Collation_utf8mb4_0900_ai_ci, true },
		SysVar:           func(string, bool, bool) (expr.Node, error) { return expr.IntConst(1), nil },
		UserVar:          func(string) (expr.Node, error) { return expr.NullConst(), nil },
	})
	if err != nil {
		return "", err
	}
	return c.show(d.Cmd, q, opts)
}

func (c *memCatalog) show(cmd string, q *bind.Query, opts Options) (string, error) {
	var out strings.Builder
	for i, o := range q.Out {
		if i > 0 {
			out.WriteString(", ")
		}
		null := ""
		if !o.Type.NotNull {
			null = " null"
		}
		fmt.Fprintf(&out, "%s@%d %s%s", o.Name, o.ID, o.Type, null)
	}
	out.WriteString("\n")
	switch cmd {
	case "bind":
		out.WriteString(algebra.Text(q.Rel))
	case "rewrite":
		r, err := Rewrite(q, &expr.Env{})
		if err != nil {
			return "", err
		}
		out.WriteString(algebra.Text(r))
	case "plan":
		p, err := Optimize(q, &expr.Env{}, opts)
		if err != nil {
			return "", err
		}
		out.WriteString(p.Tree(false))
	case "whole":
		p, err := Optimize(q, &expr.Env{}, opts)
		if err != nil {
			return "", err
		}
		out.Reset()
		p.Each(func(p *Plan) {
			if p.Op == OpScan {
				fmt.Fprintf(&out, "%s whole=%v\n", p.Scan.Table.Name(), p.Read.Whole)
			}
		})
	default:
		return "", fmt.Errorf("unknown command %s", cmd)
	}
	return out.String(), nil
}

// Resolve implements algebra.Catalog.
func (c *memCatalog) Resolve(_, name string) (algebra.Table, *algebra.View, error) {
	if t := c.tables[strings.ToLower(name)]; t != nil {
		return t, nil, nil
	}
	return nil, c.views[strings.ToLower(name)], nil
}

type memTable struct {
	name     string
	cols     []algebra.Column
	indexes  []algebra.Index
	rows     float64
	rtt      float64
	distinct []float64 // of each column; 0: not known
}

func (c *memCatalog) table(d *datadriven.TestData) error {
	t := &memTable{name: d.CmdArgs[0].Key, rows: 1000}
	for _, a := range d.CmdArgs[1:] {
		n, err := strconv.ParseFloat(a.Vals[0], 64)
		if err != nil {
			return err
		}
		if a.Key == "rows" {
			t.rows = n
		} else {
			t.rtt = n
		}
	}
	types := map[string]expr.Type{
		"int": expr.TypeInt, "uint": expr.TypeUint, "float": expr.TypeFloat, "dec": expr.DecimalType(12, 2),
		"date": expr.TypeDate, "datetime": expr.DatetimeType(0),
		"text": expr.TextType(20, sql.Collation_utf8mb4_0900_ai_ci, expr.CoerceImplicit),
	}
	for _, line := range strings.Split(d.Input, "\n") {
		w := strings.Fields(line)
		switch w[0] {
		case "primary", "unique", "key":
			x := algebra.Index{Name: w[1], Number: len(t.indexes), Primary: w[0] == "primary", Unique: w[0] != "key"}
			if !x.Primary {
				x.Covers = []int{}
			}
			for _, name := range w[2:] {
				for i, col := range t.cols {
					if col.Name == name {
						x.Cols = append(x.Cols, algebra.IndexCol{Col: i})
					}
				}
			}
			t.indexes = append(t.indexes, x)
		default:
			ty, ok := types[w[1]]
			if !ok {
				return fmt.Errorf("unknown type %s", w[1])
			}
			var distinct float64
			if len(w) > 2 && w[2] != "null" {
				var err error
				if distinct, err = strconv.ParseFloat(w[2], 64); err != nil {
					return err
				}
			}
			t.distinct = append(t.distinct, distinct)
			ty.NotNull = len(w) == 2 || distinct > 0
			t.cols = append(t.cols, algebra.Column{Name: w[0], Type: ty})
		}
	}
	c.tables[t.name] = t
	return nil
}

func (t *memTable) DB() string                             { return "db" }
func (t *memTable) Name() string                           { return t.name }
func (t *memTable) Columns() []algebra.Column              { return t.cols }
func (t *memTable) Indexes() []algebra.Index               { return t.indexes }
func (t *memTable) Rows() float64                          { return t.rows }
func (t *memTable) Distinct(i int) float64                 { return t.distinct[i] }
func (t *memTable) Fraction(int, any, any) (float64, bool) { return 0, false }
func (t *memTable) RowBytes() float64                      { return 50 }
func (t *memTable) Shares() []algebra.Share {
	if t.rtt == 0 {
		return nil
	}
	return []algebra.Share{{Region: "far", Part: 1, RTT: t.rtt}}
}
