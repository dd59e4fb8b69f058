package sqldiff

import (
	"fmt"
	"strings"
)

// Statement is a random statement, and what of its answer is certain.
type Statement struct {
	Root *Node
	// Ordered is the number of leading columns by which the rows come in order: 0 is none.
	Ordered int
	// Cut: which rows come is certain only as far as the leading columns tell them apart.
	Cut bool
	// Loose: of text that compares equal any may be shown.
	Loose bool
	// Changes are the tables that the statement changes.
	Changes []string
}

// Query makes a SELECT.
func (g *Gen) Query() *Statement {
	g.alias, g.ctes, g.nested = 0, nil, 0
	st := &Statement{}
	var with []*Node
	if g.one(6) {
		with = g.with()
	}
	cols, q := g.query(nil, 3, true)
	root := node(Query, "$", q)
	switch n := g.r.IntN(5); {
	case len(cols) == 0:
	case n == 0:
		// A total order, but for rows that are the same.
		st.Ordered = len(cols)
	case n == 1:
		st.Ordered = 1 + g.r.IntN(len(cols))
	}
	if st.Ordered > 0 {
		var by []string
		for i := range st.Ordered {
			by = append(by, fmt.Sprint(i+1)+pick(g, []string{"", "", " DESC"}))
		}
		order := " ORDER BY " + strings.Join(by, ", ")
		if g.one(3) {
			order += fmt.Sprintf(" LIMIT %d", g.r.IntN(6))
			if g.one(3) {
				order += fmt.Sprintf(" OFFSET %d", g.r.IntN(4))
			}
			st.Cut = true
		}
		root = node(Query, "$$", q, leaf(Other, order))
	}
	if with != nil {
		root = node(Query, "WITH $ $", list(", ", 1, with...), root)
	}
	st.Root = root
	st.Loose = true
	return st
}

// with makes common tables, one of them recursive at times.
func (g *Gen) with() (out []*Node) {
	if g.one(3) {
		n := g.name()
		out = append(out, leaf(Other, "RECURSIVE "+n+" AS (SELECT 1 AS n, 0 AS m UNION ALL SELECT n + 1, "+
			"m + n FROM "+n+" WHERE n < 6)"))
		g.ctes = append(g.ctes, source{alias: n, cols: []*Column{{Name: "n", Kind: Int}, {Name: "m", Kind: Int}}})
		return out
	}
	for range 1 + g.r.IntN(2) {
		n := g.name()
		g.nested++
		cols, q := g.query(nil, 1, false)
		g.nested--
		out = append(out, node(Other, n+" AS ($)", q))
		g.ctes = append(g.ctes, source{alias: n, cols: cols})
	}
	return out
}

// query is a SELECT without ORDER BY. Its columns are named x0, x1 and so on.
func (g *Gen) query(outer *scope, depth int, top bool) ([]*Column, *Node) {
	if depth > 0 && g.one(10) {
		return g.setOp(outer, depth-1)
	}
	n := 1 + g.r.IntN(3)
	if top && g.one(4) {
		n = 3 + g.r.IntN(4)
	}
	srcs, from := g.from(outer, n, depth)
	sc := &scope{outer: outer, srcs: srcs}
	where := g.where(sc, depth)
	switch {
	case g.one(3):
		return g.grouped(sc, from, where, depth)
	case top && g.one(6):
		return g.windowed(sc, from, where, depth)
	}
	cols, items := g.items(sc, 1+g.r.IntN(4), depth, "x")
	distinct := leaf(Other, "")
	if g.one(6) {
		distinct = opt("DISTINCT $", leaf(Other, ""))
		cols = certain(cols, top)
	}
	return cols, node(Query, "SELECT $$ FROM $$", distinct, list(", ", 1, items...), from, where)
}

// certain are the columns whose values do not depend on which of equal rows was kept.
func certain(cols []*Column, top bool) (out []*Column) {
	for _, c := range cols {
		if c.Kind != Text || top {
			out = append(out, c)
		}
	}
	return out
}

var itemKinds = []Kind{Int, Int, Int, Text, Text, Decimal, Double, Date, Datetime, Time, Bool}

// items are expressions with names.
func (g *Gen) items(sc *scope, n, depth int, prefix string) (cols []*Column, items []*Node) {
	for i := range n {
		k := pick(g, itemKinds)
		name := fmt.Sprint(prefix, i)
		items = append(items, node(Other, "$ AS "+name, g.expr(k, sc, min(depth, 2))))
		cols = append(cols, &Column{Name: name, Kind: k})
	}
	return cols, items
}

// grouped is a SELECT with aggregates.
func (g *Gen) grouped(sc *scope, from, where *Node, depth int) ([]*Column, *Node) {
	var keys []*Node
	var keyCols []*Column
	for range g.r.IntN(3) {
		k := pick(g, []Kind{Int, Int, Text, Date, Decimal})
		c := g.column(k, &scope{srcs: sc.srcs})
		if c == nil || contains(keys, c) {
			continue
		}
		keys = append(keys, c)
		keyCols = append(keyCols, &Column{Name: c.Form, Kind: k, note: noteGroup})
	}
	var items []*Node
	var cols []*Column
	grouped := &scope{outer: sc.outer, inner: sc}
	src := source{}
	for i, k := range keys {
		cp := *k
		cols = append(cols, &Column{Name: fmt.Sprint("k", i), Kind: k.Kind})
		items = append(items, node(Other, "$ AS "+fmt.Sprint("k", i), &cp))
		if k.Kind != Text {
			src.cols = append(src.cols, keyCols[i])
		}
	}
	grouped.srcs = []source{src}
	for i := range 1 + g.r.IntN(3) {
		k := pick(g, []Kind{Int, Int, Decimal, Decimal, Double, Text, Date})
		name := fmt.Sprint("x", i)
		agg := g.of(k, pick(g, aggregates[k]), sc, 1)
		if k != Text && g.one(4) {
			agg = g.expr(k, grouped, 2)
		}
		items = append(items, node(Other, "$ AS "+name, agg))
		cols = append(cols, &Column{Name: name, Kind: k})
	}
	var tail []*Node
	if len(keys) > 0 {
		tail = append(tail, node(Other, " GROUP BY $", list(", ", 1, keys...)))
	}
	if g.one(3) {
		tail = append(tail, opt(" HAVING $", g.expr(Bool, grouped, min(depth, 2))))
	}
	kids := append([]*Node{list(", ", 1, items...), from, where}, tail...)
	return certain(cols, false), node(Query, "SELECT $ FROM $$"+strings.Repeat("$", len(tail)), kids...)
}

func contains(ns []*Node, n *Node) bool {
	for _, o := range ns {
		if o.Form == n.Form {
			return true
		}
	}
	return false
}

// windowed is a SELECT with window functions.
func (g *Gen) windowed(sc *scope, from, where *Node, depth int) ([]*Column, *Node) {
	cols, items := g.items(sc, 1+g.r.IntN(2), 1, "x")
	var ids []string
	total := true
	for _, s := range sc.srcs {
		ids = append(ids, s.alias+".id")
		total = total && s.keyed
	}
	for i := range 1 + g.r.IntN(2) {
		w := pick(g, windows)
		if w.ranked && !total || g.refused[w.form.text] {
			w = windows[1]
		}
		var over []*Node
		form := ""
		if g.one(2) {
			by := g.expr(pick(g, []Kind{Int, Text}), sc, 0)
			if len(by.Kids) == 0 && !column(by) { // MySQL refuses a number there (3592)
				by = node(by.Kind, "COALESCE($, $)", by, leaf(by.Kind, constants[by.Kind][1]))
			}
			form, over = "PARTITION BY $ ", append(over, by)
		}
		kind := pick(g, []Kind{Int, Date, Decimal})
		by := g.expr(kind, sc, 0)
		if len(by.Kids) == 0 && !column(by) {
			by = node(kind, "COALESCE($, $)", by, leaf(kind, constants[kind][1]))
		}
		form += "ORDER BY $"
		over = append(over, by)
		if total {
			form += ", " + strings.Join(ids, ", ")
			if g.one(3) && strings.HasPrefix(w.form.text, "SUM") {
				form += " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
			}
		}
		f := g.of(w.kind, w.form, sc, 0)
		name := fmt.Sprint("w", i)
		items = append(items, node(Other, "$ OVER ("+form+") AS "+name, append([]*Node{f}, over...)...))
		cols = append(cols, &Column{Name: name, Kind: w.kind})
	}
	return cols, node(Query, "SELECT $ FROM $$", list(", ", 1, items...), from, where)
}

// setOp joins two queries of the same columns.
func (g *Gen) setOp(outer *scope, depth int) ([]*Column, *Node) {
	var kinds []Kind
	for range 1 + g.r.IntN(3) {
		kinds = append(kinds, pick(g, itemKinds[:len(itemKinds)-1]))
	}
	arm := func() *Node {
		srcs, from := g.from(outer, 1+g.r.IntN(2), depth)
		sc := &scope{outer: outer, srcs: srcs}
		var items []*Node
		for i, k := range kinds {
			items = append(items, node(Other, "$ AS "+fmt.Sprint("x", i), g.expr(k, sc, 1)))
		}
		return node(Query, "SELECT $ FROM $$", list(", ", 1, items...), from, g.where(sc, depth))
	}
	var cols []*Column
	for i, k := range kinds {
		cols = append(cols, &Column{Name: fmt.Sprint("x", i), Kind: k})
	}
	op := pick(g, []string{"UNION", "UNION", "UNION ALL", "UNION ALL", "EXCEPT", "INTERSECT"})
	if op != "UNION ALL" {
		cols = certain(cols, false)
	}
	if len(cols) == 0 {
		cols = []*Column{{Name: "x0", Kind: kinds[0]}}
	}
	return cols, node(Query, "$ "+op+" $", arm(), arm())
}
