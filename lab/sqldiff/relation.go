package sqldiff

import (
	"context"
	"fmt"
	"strings"
)

// Relation is two lists of queries that have to give the same rows, whatever the tables hold: a
// test that needs no second server.
type Relation struct {
	Name string
	// Parts are the items of SELECT, FROM and the condition.
	Items, From, Cond *Node
	// Queries are both lists.
	Queries func(items, from, cond string) (left, right []string)
}

// Partition is ternary logic partitioning: each row of a query is in one of three parts, where a
// condition is true, false or unknown.
func (g *Gen) Partition() *Relation {
	srcs, from, sc := g.plain()
	_, items := g.items(sc, 1+g.r.IntN(3), 1, "x")
	_ = srcs
	return &Relation{Name: "tlp", Items: list(", ", 1, items...), From: from, Cond: g.expr(Bool, sc, 3),
		Queries: func(items, from, cond string) (left, right []string) {
			q := "SELECT " + items + " FROM " + from
			where := q + " WHERE "
			return []string{q}, []string{where + cond, where + "NOT (" + cond + ")", where + "(" + cond + ") IS NULL"}
		}}
}

// NoRec compares the number of rows that a condition lets pass with the number of rows for which
// the same condition, as a value, is true: nothing can be optimised there.
func (g *Gen) NoRec() *Relation {
	_, from, sc := g.plain()
	return &Relation{Name: "norec", Items: leaf(Other, ""), From: from, Cond: g.expr(Bool, sc, 3),
		Queries: func(_, from, cond string) (left, right []string) {
			return []string{"SELECT COUNT(*) FROM " + from + " WHERE " + cond},
				[]string{"SELECT COUNT(CASE WHEN " + cond + " THEN 1 END) FROM " + from}
		}}
}

// Pivot is pivoted query synthesis: a row of each table is chosen, and a condition holds for them
// in the whole tables if and only if it holds where nothing else is.
func (g *Gen) Pivot() *Relation {
	var whole, alone, keys []string
	var srcs []source
	for range 1 + g.r.IntN(3) {
		t := pick(g, g.s.Tables)
		if t.Key == nil || len(t.Rows) == 0 {
			continue
		}
		a := g.name()
		id := pick(g, t.Rows)[0]
		whole = append(whole, t.Name+" "+a)
		alone = append(alone, "(SELECT * FROM "+t.Name+" WHERE id = "+id+") "+a)
		keys = append(keys, a+".id = "+id)
		srcs = append(srcs, source{alias: a, cols: t.Cols, keyed: true})
	}
	if len(srcs) == 0 {
		return g.NoRec()
	}
	from, pivot := strings.Join(whole, " JOIN "), strings.Join(alone, " JOIN ")
	key := strings.Join(keys, " AND ")
	return &Relation{Name: "pqs", Items: leaf(Other, ""), From: leaf(Other, ""),
		Cond: g.expr(Bool, &scope{srcs: srcs}, 3), Queries: func(_, _, cond string) (left, right []string) {
			return []string{"SELECT COUNT(*) FROM " + from + " WHERE " + cond + " AND " + key},
				[]string{"SELECT COUNT(*) FROM " + pivot + " WHERE " + cond}
		}}
}

// plain is a FROM that nothing surrounds.
func (g *Gen) plain() ([]source, *Node, *scope) {
	g.alias, g.ctes, g.nested = 0, nil, 0
	srcs, from := g.from(nil, 1+g.r.IntN(4), 2)
	return srcs, from, &scope{srcs: srcs}
}

// relation checks one.
func (w *worker) relation(ctx context.Context, rel *Relation) {
	w.report.Statements++
	bad, detail, sql := w.broken(ctx, rel)
	if !bad {
		return
	}
	if w.opts.Reduce > 0 {
		for _, n := range []*Node{rel.Items, rel.From, rel.Cond} {
			Reduce(n, w.opts.Reduce, func(string) bool {
				bad, d, q := w.broken(ctx, rel)
				if bad {
					detail, sql = d, q
				}
				return bad
			})
		}
	}
	w.found(&Difference{Class: rel.Name, SQL: sql, Detail: detail})
}

// broken reports whether both lists differ. An error of a query tells nothing.
func (w *worker) broken(ctx context.Context, rel *Relation) (bad bool, detail, sql string) {
	left, right := rel.Queries(rel.Items.String(), rel.From.String(), rel.Cond.String())
	a, okA := w.all(ctx, left)
	b, okB := w.all(ctx, right)
	if !okA || !okB {
		return false, "", ""
	}
	class, d := Compare(&Statement{}, "", a, b)
	if class != Rows && class != Width {
		return false, "", ""
	}
	return true, fmt.Sprintf("%s: %s", class, d), strings.Join(left, ";\n") + ";\n" + strings.Join(right, ";\n")
}

// all runs queries and puts their rows together.
func (w *worker) all(ctx context.Context, qs []string) (*Result, bool) {
	out := &Result{}
	for _, q := range qs {
		res := w.here.Run(ctx, q)
		if res.Errno != 0 {
			w.report.Errors++
			return nil, false
		}
		out.Types = res.Types
		out.Rows = append(out.Rows, res.Rows...)
	}
	return out, true
}
