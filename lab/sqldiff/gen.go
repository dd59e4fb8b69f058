package sqldiff

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
)

// source is a table or a subquery in FROM.
type source struct {
	alias string
	cols  []*Column
	keyed bool // id tells its rows apart
}

// scope is what names mean at a place of a statement.
type scope struct {
	outer *scope
	srcs  []source
	// inner is the scope of the arguments of aggregates, where there may be some.
	inner *scope
}

// Gen makes random statements over a schema. A seed makes the same ones again.
type Gen struct {
	r      *rand.Rand
	s      *Schema
	ctes   []source
	alias  int
	nested int // of subqueries
	// refused are forms that are not used: the server that is judged does not know them.
	refused map[string]bool
}

// NewGen is a generator over a schema.
func NewGen(r *rand.Rand, s *Schema) *Gen { return &Gen{r: r, s: s} }

func (g *Gen) one(n int) bool { return g.r.IntN(n) == 0 }

func pick[T any](g *Gen, of []T) T { return of[g.r.IntN(len(of))] }

func (g *Gen) name() string {
	g.alias++
	return fmt.Sprintf("a%d", g.alias)
}

// column is a column of a kind that is in scope, or nil.
func (g *Gen) column(k Kind, sc *scope) *Node {
	var found []*Node
	for s, far := sc, false; s != nil; s, far = s.outer, true {
		if far && len(found) > 0 && !g.one(6) {
			break
		}
		for _, src := range s.srcs {
			for _, c := range src.cols {
				if c.Kind == k {
					name := c.Name
					if src.alias != "" {
						name = src.alias + "." + c.Name
					}
					n := leaf(k, name)
					if n.Note = c.note; c.Type == "YEAR" {
						n.Note = noteYear
					}
					found = append(found, n)
				}
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return pick(g, found)
}

// expr is an expression of a kind.
func (g *Gen) expr(k Kind, sc *scope, depth int) *Node {
	if k == Bool && depth > 0 && g.nested < 2 && g.one(8) {
		return g.predicate(sc, depth-1)
	}
	if k != Bool && sc != nil && sc.inner != nil && g.one(2) {
		if n := g.aggregate(k, sc, depth); n != nil {
			return n
		}
	}
	if k != Bool && (depth <= 0 || !g.one(3)) {
		if c := g.column(k, sc); c != nil && !g.one(6) {
			return c
		}
		if depth <= 0 || g.one(2) {
			return leaf(k, pick(g, literals[k]))
		}
	}
	if depth < -2 {
		return leaf(k, pick(g, literals[k]))
	}
	if k == Int && depth > 0 && g.nested < 2 && g.one(12) {
		return g.scalar(sc, depth-1)
	}
	for {
		if f := pick(g, forms[k]); !g.refused[f.text] {
			return g.of(k, f, sc, depth-1)
		}
	}
}

// of fills a form in.
func (g *Gen) of(k Kind, f form, sc *scope, depth int) *Node {
	if len(f.args) == 0 {
		return leaf(k, f.text)
	}
	var kids []*Node
	for _, a := range f.args {
		kids = append(kids, g.expr(a, sc, depth))
	}
	return node(k, f.text, kids...)
}

// aggregate is one over the inner scope, or nil.
func (g *Gen) aggregate(k Kind, sc *scope, depth int) *Node {
	fs := aggregates[k]
	if k == Text || len(fs) == 0 {
		return nil // only as a column of the result: see Gen.items
	}
	f := pick(g, fs)
	if g.refused[f.text] {
		return nil
	}
	return g.of(k, f, sc.inner, min(depth-1, 1))
}

// predicate is a condition with a subquery.
func (g *Gen) predicate(sc *scope, depth int) *Node {
	g.nested++
	defer func() { g.nested-- }()
	k := pick(g, []Kind{Int, Int, Int, Text, Decimal, Date})
	switch g.r.IntN(6) {
	case 0:
		return node(Bool, "EXISTS ($)", g.sub(sc, depth, Int))
	case 1:
		return node(Bool, "NOT EXISTS ($)", g.sub(sc, depth, Int))
	case 2:
		return node(Bool, "($ IN ($))", g.expr(k, sc, 0), g.sub(sc, depth, k))
	case 3:
		return node(Bool, "($ NOT IN ($))", g.expr(k, sc, 0), g.sub(sc, depth, k))
	case 4:
		return node(Bool, "($ "+pick(g, []string{"= ANY", "> ALL", "<= ANY", "<> ALL", "< ALL"})+" ($))",
			g.expr(Int, sc, 0), g.sub(sc, depth, Int))
	}
	return node(Bool, "($ "+pick(g, []string{"=", "<", ">", "<>"})+" $)", g.expr(Int, sc, 0), g.scalar(sc, depth))
}

// scalar is a subquery of one value.
func (g *Gen) scalar(sc *scope, depth int) *Node {
	g.nested++
	defer func() { g.nested-- }()
	src, from := g.from(sc, 1+g.r.IntN(2), depth)
	in := &scope{outer: sc, srcs: src}
	agg := g.of(Int, pick(g, aggregates[Int]), in, 0)
	for outer := aliases(agg); len(outer) > 0 && !in.has(outer); outer = aliases(agg) {
		// An aggregate of nothing but outer columns is one of the outer query.
		agg = g.of(Int, pick(g, aggregates[Int]), in, 0)
	}
	return node(Int, "(SELECT $ FROM $$)", agg, from, g.where(in, depth))
}

// aliases are the names of tables in an expression.
func aliases(n *Node) (out []string) {
	for _, m := range regexp.MustCompile(`\b(a\d+|me|[vw]?t\d+)\.`).FindAllStringSubmatch(n.String(), -1) {
		out = append(out, m[1])
	}
	return out
}

// has reports whether one of the names is of a table of the query itself.
func (s *scope) has(names []string) bool {
	return slices.ContainsFunc(s.srcs, func(src source) bool { return slices.Contains(names, src.alias) })
}

// sub is a subquery of one column.
func (g *Gen) sub(sc *scope, depth int, k Kind) *Node {
	src, from := g.from(sc, 1+g.r.IntN(2), depth)
	in := &scope{outer: sc, srcs: src}
	return node(Query, "SELECT $ FROM $$", g.expr(k, in, 1), from, g.where(in, depth))
}

// where may be empty.
func (g *Gen) where(sc *scope, depth int) *Node {
	if g.one(5) {
		return leaf(Other, "")
	}
	return opt(" WHERE $", g.expr(Bool, sc, max(depth, 1)))
}

// table is a table, a derived one or a CTE.
func (g *Gen) table(sc *scope, depth int) (source, *Node) {
	a := g.name()
	if len(g.ctes) > 0 && g.one(3) {
		c := pick(g, g.ctes)
		return source{alias: a, cols: c.cols}, leaf(From, c.alias+" "+a)
	}
	if depth > 1 && g.nested < 1 && g.one(8) {
		g.nested++
		defer func() { g.nested-- }()
		cols, q := g.query(nil, depth-2, false)
		return source{alias: a, cols: cols}, node(From, "($) "+a, q)
	}
	t := pick(g, g.s.Tables)
	return source{alias: a, cols: t.Cols, keyed: t.Key != nil}, leaf(From, t.Name+" "+a)
}

// from is a tree of joins of n tables.
func (g *Gen) from(outer *scope, n, depth int) ([]source, *Node) {
	if n <= 1 {
		s, f := g.table(outer, depth)
		return []source{s}, f
	}
	l := 1 + g.r.IntN(n-1)
	if !g.one(4) {
		l = n - 1
	}
	ls, left := g.from(outer, l, depth)
	rs, right := g.from(outer, n-l, depth)
	all := append(append([]source(nil), ls...), rs...)
	if len(rs) > 1 {
		right = node(From, "($)", right)
	}
	on := g.on(outer, ls, rs, all)
	switch g.r.IntN(10) {
	case 0, 1, 2:
		return all, node(From, "$ LEFT JOIN $ ON $", left, right, on)
	case 3, 4:
		return all, node(From, "$ RIGHT JOIN $ ON $", left, right, on)
	case 5:
		if len(all) < 4 {
			return all, node(From, "$ CROSS JOIN $", left, right)
		}
	case 6:
		if len(ls) == 1 && len(rs) == 1 && both(ls[0], rs[0], "id") {
			return all, node(From, "$ "+pick(g, []string{"", "LEFT "})+"JOIN $ USING (id)", left, right)
		}
	}
	return all, node(From, "$ JOIN $ ON $", left, right, on)
}

func both(a, b source, name string) bool { return has(a, name) && has(b, name) }

func has(s source, name string) bool {
	for _, c := range s.cols {
		if c.Name == name {
			return true
		}
	}
	return false
}

// on is a condition that most often equates columns of both sides.
func (g *Gen) on(outer *scope, ls, rs, all []source) *Node {
	k := pick(g, []Kind{Int, Int, Int, Int, Int, Text, Date})
	l, r := g.column(k, &scope{srcs: ls}), g.column(k, &scope{srcs: rs})
	sc := &scope{srcs: all}
	if l == nil || r == nil {
		return g.expr(Bool, sc, 1)
	}
	eq := node(Bool, "$ = $", l, r)
	if g.one(4) {
		return node(Bool, "($ AND $)", eq, g.expr(Bool, sc, 1))
	}
	if g.one(15) {
		return node(Bool, "($ OR $)", eq, g.expr(Bool, sc, 1))
	}
	return eq
}
