package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestRandomJoinsKeepTheirPredicates joins 3 to 5 tables at random, by inner and outer joins,
// nested or not, and compares with the rows that the definition of joins gives.
func TestRandomJoinsKeepTheirPredicates(t *testing.T) {
	_, c := newServer(t)
	g := &joinGen{r: rand.New(rand.NewPCG(17, 1))}
	for i := range g.tables {
		exec(t, c, fmt.Sprintf("CREATE TABLE j%d (id INT PRIMARY KEY, a INT, b INT, KEY (a))", i))
		for id := 1; id <= 4; id++ {
			row := joinRow{&id, g.value(), g.value()}
			g.tables[i] = append(g.tables[i], row)
			exec(t, c, fmt.Sprintf("INSERT INTO j%d VALUES (%s)", i, row))
		}
	}
	for range 400 {
		g.next = 0
		tree := g.tree(3 + g.r.IntN(3))
		where := g.predicate(tree.names(), 2)
		var want []string
		inside := map[int]bool{} // ids of the first table that are in the result
		first := tree.names()[0]
		for _, row := range tree.rows(g) {
			if where.eval(row) == yes {
				want = append(want, tree.show(row))
				if r := row[first]; r != nil {
					inside[*r[0]] = true
				}
			}
		}
		judge(t, c, fmt.Sprintf("SELECT %s FROM %s WHERE %s", tree.ids(), tree, where), want)
		var in, out []string
		for _, r := range g.tables[first] {
			if id := r[0]; inside[*id] {
				in = append(in, number(id))
			} else {
				out = append(out, number(id))
			}
		}
		sub := fmt.Sprintf("SELECT j%d.id FROM %s WHERE %s", first, tree, where)
		judge(t, c, fmt.Sprintf("SELECT id FROM j%d z WHERE id IN (%s)", first, sub), in)
		judge(t, c, fmt.Sprintf("SELECT id FROM j%d z WHERE EXISTS (%s AND j%d.id = z.id)", first, sub, first), in)
		judge(t, c, fmt.Sprintf("SELECT id FROM j%d z WHERE NOT EXISTS (%s AND j%d.id = z.id)", first, sub, first), out)
		judge(t, c, fmt.Sprintf("SELECT DISTINCT z.id FROM (%s) x JOIN j%d z ON z.id = x.id", sub, first), in)
	}
}

// judge compares an answer, in any order.
func judge(t *testing.T, c execer, q string, want []string) {
	t.Helper()
	got, err := tryQuery(c, q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s\nanswers %q\nnot     %q", q, got, want)
	}
}

// joinRow holds id, a and b of a row; nil is NULL. A table that an outer join found no row of has
// no joinRow.
type joinRow []*int

func (r joinRow) String() string {
	return number(r[0]) + "," + number(r[1]) + "," + number(r[2])
}

func number(p *int) string {
	if p == nil {
		return "NULL"
	}
	return fmt.Sprint(*p)
}

type joinGen struct {
	r      *rand.Rand
	tables [5][]joinRow
	next   int
}

func (g *joinGen) value() *int {
	if g.r.IntN(5) == 0 {
		return nil
	}
	v := 1 + g.r.IntN(4)
	return &v
}

// joinTree is a table, or a join of two trees.
type joinTree struct {
	table       int
	op          string
	left, right *joinTree
	on          *joinPred
}

// tree makes a tree of n tables.
func (g *joinGen) tree(n int) *joinTree {
	if n == 1 {
		g.next++
		return &joinTree{table: g.next - 1}
	}
	right := 1
	if n > 2 && g.r.IntN(4) == 0 {
		right = 2
	}
	t := &joinTree{op: []string{"JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN"}[g.r.IntN(6)]}
	t.left = g.tree(n - right)
	t.right = g.tree(right)
	l, r := t.left.names(), t.right.names()
	t.on = &joinPred{op: "=", x: g.column(l), y: g.column(r)}
	if g.r.IntN(3) == 0 {
		t.on = &joinPred{op: "AND", left: t.on, right: g.predicate(slices.Concat(l, r), 1)}
	}
	return t
}

func (t *joinTree) names() []int {
	if t.op == "" {
		return []int{t.table}
	}
	return append(t.left.names(), t.right.names()...)
}

func (t *joinTree) ids() string {
	var out []string
	for _, n := range t.names() {
		out = append(out, fmt.Sprintf("j%d.id", n))
	}
	return strings.Join(out, ", ")
}

func (t *joinTree) show(row map[int]joinRow) string {
	var out []string
	for _, n := range t.names() {
		var id *int
		if r := row[n]; r != nil {
			id = r[0]
		}
		out = append(out, number(id))
	}
	return strings.Join(out, "|")
}

func (t *joinTree) String() string {
	if t.op == "" {
		return fmt.Sprintf("j%d", t.table)
	}
	right := t.right.String()
	if t.right.op != "" {
		right = "(" + right + ")"
	}
	return fmt.Sprintf("%s %s %s ON %s", t.left, t.op, right, t.on)
}

// rows are what a tree is by definition.
func (t *joinTree) rows(g *joinGen) (out []map[int]joinRow) {
	if t.op == "" {
		for _, r := range g.tables[t.table] {
			out = append(out, map[int]joinRow{t.table: r})
		}
		return out
	}
	left, right := t.left.rows(g), t.right.rows(g)
	if t.op == "RIGHT JOIN" {
		left, right = right, left
	}
	for _, l := range left {
		found := false
		for _, r := range right {
			row := map[int]joinRow{}
			for k, v := range l {
				row[k] = v
			}
			for k, v := range r {
				row[k] = v
			}
			if t.on.eval(row) == yes {
				found = true
				out = append(out, row)
			}
		}
		if !found && t.op != "JOIN" {
			out = append(out, l)
		}
	}
	return out
}

// joinCol is a column of a table, or a constant if table is -1.
type joinCol struct {
	table, col int
}

func (c joinCol) String() string {
	if c.table < 0 {
		return fmt.Sprint(c.col)
	}
	return fmt.Sprintf("j%d.%s", c.table, []string{"id", "a", "b"}[c.col])
}

func (c joinCol) value(row map[int]joinRow) *int {
	if c.table < 0 {
		return &c.col
	}
	if r := row[c.table]; r != nil {
		return r[c.col]
	}
	return nil
}

func (g *joinGen) column(tables []int) joinCol {
	return joinCol{tables[g.r.IntN(len(tables))], g.r.IntN(3)}
}

// joinPred is a predicate with two or no parts.
type joinPred struct {
	op          string
	x, y        joinCol
	left, right *joinPred
}

func (g *joinGen) predicate(tables []int, depth int) *joinPred {
	if depth > 0 && g.r.IntN(3) > 0 {
		op := []string{"AND", "OR"}[g.r.IntN(2)]
		return &joinPred{op: op, left: g.predicate(tables, depth-1), right: g.predicate(tables, depth-1)}
	}
	p := &joinPred{op: []string{"=", "<", "<>", "<=>", "IS NULL", "IS NOT NULL"}[g.r.IntN(6)], x: g.column(tables),
		y: g.column(tables)}
	if g.r.IntN(2) == 0 {
		p.y = joinCol{-1, 1 + g.r.IntN(4)}
	}
	return p
}

func (p *joinPred) String() string {
	switch {
	case p.left != nil:
		return fmt.Sprintf("(%s %s %s)", p.left, p.op, p.right)
	case strings.HasPrefix(p.op, "IS"):
		return fmt.Sprintf("%s %s", p.x, p.op)
	}
	return fmt.Sprintf("%s %s %s", p.x, p.op, p.y)
}

// truth is SQL's: no < unknown < yes.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (p *joinPred) eval(row map[int]joinRow) truth {
	switch p.op {
	case "AND":
		return min(p.left.eval(row), p.right.eval(row))
	case "OR":
		return max(p.left.eval(row), p.right.eval(row))
	}
	x, y := p.x.value(row), p.y.value(row)
	switch p.op {
	case "IS NULL":
		return truthOf(x == nil)
	case "IS NOT NULL":
		return truthOf(x != nil)
	case "<=>":
		return truthOf(x == nil && y == nil || x != nil && y != nil && *x == *y)
	}
	if x == nil || y == nil {
		return unknown
	}
	switch p.op {
	case "=":
		return truthOf(*x == *y)
	case "<":
		return truthOf(*x < *y)
	}
	return truthOf(*x != *y)
}
