package tpch

import (
	"context"
	"database/sql"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/sqldiff"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// TestRows: the rows keep the rules of clause 4.2 that the queries rest on.
func TestRows(t *testing.T) {
	g := newGen(0.001)
	supplied := map[string]bool{}
	if err := g.partsupp(func(row string) error {
		f := strings.Split(row, "\t")
		supplied[f[0]+" "+f[1]] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(supplied) != 4*g.parts() {
		t.Errorf("%d pairs of part and supplier of %d parts", len(supplied), g.parts())
	}
	n := 0
	err := g.ordersAndLines(func(o order) error {
		n++
		f := strings.Split(o.row, "\t")
		if cust, err := strconv.Atoi(f[1]); err != nil || cust%3 == 0 || cust > g.customers() {
			t.Errorf("order %s is of customer %s", f[0], f[1])
		}
		if len(o.lines) < 1 || len(o.lines) > 7 {
			t.Errorf("order %s has %d lines", f[0], len(o.lines))
		}
		for _, line := range o.lines {
			l := strings.Split(line, "\t")
			if len(l) != 16 || l[0] != f[0] || !supplied[l[1]+" "+l[2]] || l[10] <= f[4] || l[12] <= l[10] {
				t.Errorf("line %q of order %q", line, o.row)
			}
		}
		return nil
	})
	if err != nil || n != g.orders() {
		t.Errorf("%d orders, %v", n, err)
	}
}

// TestDiffer: answers are compared by value, numbers exactly, and without the order of ties.
func TestDiffer(t *testing.T) {
	a := [][]string{{"x", "1.50"}, {"y", null}}
	for _, c := range []struct {
		got   [][]string
		wrong bool
	}{
		{[][]string{{"y", null}, {"x", "1.5"}}, false},
		{[][]string{{"x", "1.5000001"}, {"y", null}}, true},
		{[][]string{{"x", "1.50"}, {"y", "0"}}, true},
		{[][]string{{"x", "1.50"}}, true},
	} {
		if says := differ(c.got, a); (says != "") != c.wrong {
			t.Errorf("%q: %q", c.got, says)
		}
	}
}

// TestAnswers: all queries run in our own engine, and answer as MariaDB does. At this scale some
// answers are empty: the benchmark compares larger ones.
func TestAnswers(t *testing.T) {
	if testing.Short() || !sqldiff.Installed() {
		t.Skip("takes some seconds, and needs mariadbd")
	}
	const scale = 0.002
	ctx := t.Context()
	maria, err := sqldiff.StartMaria(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer maria.Stop()
	m, err := matrix.Default(1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := node.StartLocal(ctx, node.LocalConfig{Matrix: m, Dir: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	var dbs []*sql.DB
	for _, dsn := range []string{"root@tcp(" + l.SQLAddrs(l.Regions()[0])[0] + ")/", maria.DSN} {
		db, err := sql.Open("mysql", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := Load(ctx, []*sql.DB{db}, scale); err != nil {
			t.Fatal(err)
		}
		dbs = append(dbs, db)
	}
	results, err := Run(ctx, dbs[0], dbs[1], Options{Scale: scale, Times: 1, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Wrong != "" || r.FellBack {
			t.Errorf("query %d: left to the old engine %t; %s", r.Query, r.FellBack, r.Wrong)
		}
	}
}
