package sqldiff

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// target is a table of the schema that a statement may change, and a generator whose subqueries
// read only the others: MySQL refuses to read what is changed.
func (g *Gen) target() (*Table, *Gen) {
	i := g.r.IntN(len(g.s.Tables))
	others := &Schema{}
	for j, t := range g.s.Tables {
		if j != i {
			others.Tables = append(others.Tables, t)
		}
	}
	return g.s.Tables[i], &Gen{r: g.r, s: others, refused: g.refused}
}

// Change makes an INSERT, UPDATE, DELETE or REPLACE.
func (g *Gen) Change() *Statement {
	t, in := g.target()
	st := &Statement{Changes: []string{t.Name}}
	if len(t.Views) > 0 && g.one(2) {
		view := *t // through which the table is changed
		view.Name = t.Views[g.r.IntN(len(t.Views))].Name
		t = &view
	}
	src := source{cols: t.Cols}
	sc := &scope{srcs: []source{src}}
	switch g.r.IntN(8) {
	case 0, 1:
		st.Root = node(Other, "UPDATE "+t.Name+" SET $$", in.assignments(t, sc, ""), in.where(sc, 2))
	case 2:
		st.Root = node(Other, "DELETE FROM "+t.Name+"$", in.where(sc, 2))
	case 3, 4:
		st.Root = in.joined(t)
	case 5:
		st.Root = in.insertSelect(t)
	default:
		st.Root = in.insertValues(t, sc)
	}
	return st
}

// assignments are those of SET.
func (g *Gen) assignments(t *Table, sc *scope, alias string) *Node {
	var sets []*Node
	used := map[string]bool{}
	for range 1 + g.r.IntN(2) {
		c := t.Cols[1+g.r.IntN(len(t.Cols)-1)]
		if used[c.Name] {
			continue
		}
		used[c.Name] = true
		sets = append(sets, node(Other, alias+c.Name+" = $", g.value(c, sc)))
	}
	return list(", ", 1, sets...)
}

// value is one for a column: most often one that fits. DEFAULT is for those that have one: MariaDB
// refuses the others before it looks for rows, MySQL for each row.
func (g *Gen) value(c *Column, sc *scope) *Node {
	switch g.r.IntN(4) {
	case 0:
		return g.expr(c.Kind, sc, 1)
	case 1:
		if c.Null {
			return leaf(c.Kind, "DEFAULT")
		}
	}
	return leaf(c.Kind, pick(g, c.Values))
}

// joined changes the rows of a table that others match.
func (g *Gen) joined(t *Table) *Node {
	me := source{alias: "me", cols: t.Cols, keyed: t.Key != nil}
	rs, right := g.from(nil, 1+g.r.IntN(2), 0)
	all := append([]source{me}, rs...)
	sc := &scope{srcs: all}
	join := pick(g, []string{"JOIN", "LEFT JOIN", "JOIN"})
	if len(rs) > 1 {
		right = node(From, "($)", right)
	}
	from := node(Other, t.Name+" me "+join+" $ ON $", right, g.on(nil, []source{me}, rs, all))
	if g.one(2) {
		return node(Other, "DELETE me FROM $$", from, g.where(sc, 2))
	}
	// What is assigned must not depend on which of several partners came last.
	return node(Other, "UPDATE $ SET $$", from, g.assignments(t, &scope{srcs: []source{me}}, "me."), g.where(sc, 2))
}

// insertSelect inserts what a query gives.
func (g *Gen) insertSelect(t *Table) *Node {
	srcs, from := g.from(nil, 1, 0)
	sc := &scope{srcs: srcs}
	id := leaf(Int, "100")
	if has(srcs[0], "id") {
		id = node(Int, "100 + $", leaf(Int, srcs[0].alias+".id"))
	}
	items := []*Node{id}
	for _, c := range t.Cols[1:] {
		items = append(items, g.value2(c, sc))
	}
	return node(Other, "INSERT INTO "+t.Name+" SELECT $ FROM $$", list(", ", len(items), items...), from, g.where(sc, 1))
}

// value2 is value without DEFAULT, which a SELECT does not know.
func (g *Gen) value2(c *Column, sc *scope) *Node {
	if g.one(4) {
		return g.expr(c.Kind, sc, 1)
	}
	return leaf(c.Kind, pick(g, c.Values))
}

// insertValues inserts rows, some of which may be there.
func (g *Gen) insertValues(t *Table, sc *scope) *Node {
	var rows []*Node
	for range 1 + g.r.IntN(3) {
		vals := []*Node{leaf(Int, fmt.Sprint(g.r.IntN(60)))}
		for _, c := range t.Cols[1:] {
			v := leaf(c.Kind, pick(g, c.Values))
			switch {
			case g.one(12):
				v = g.expr(c.Kind, nil, 1)
			case g.one(20):
				v = leaf(c.Kind, "NULL")
			case g.one(20):
				v = leaf(c.Kind, "DEFAULT")
			}
			vals = append(vals, v)
		}
		rows = append(rows, node(Other, "($)", list(", ", len(vals), vals...)))
	}
	verb := pick(g, []string{"INSERT INTO", "INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"})
	n := node(Other, verb+" "+t.Name+" VALUES $", list(", ", 1, rows...))
	if verb == "INSERT INTO" && g.one(2) {
		n = node(Other, "$ ON DUPLICATE KEY UPDATE $", n, g.assignments(t, sc, ""))
	}
	return n
}

// Transaction is a list of statements, of which some fail.
func (g *Gen) Transaction() (out []*Statement) {
	plain := func(q string) *Statement { return &Statement{Root: leaf(Other, q)} }
	begin, end := "START TRANSACTION", pick(g, []string{"COMMIT", "COMMIT", "ROLLBACK"})
	if g.one(3) {
		begin = "SET autocommit = 0"
	}
	out = append(out, plain(begin))
	saved := false
	for range 2 + g.r.IntN(5) {
		switch {
		case g.one(8):
			saved = true
			out = append(out, plain("SAVEPOINT s"))
		case saved && g.one(4):
			out = append(out, plain("ROLLBACK TO SAVEPOINT s"))
		default:
			out = append(out, g.Change())
		}
	}
	return append(out, plain(end), plain("SET autocommit = 1"))
}

// change runs statements that change tables, and compares each answer and the tables in the end. A
// single one is rolled back; after several the schema is made anew.
func (r *Runner) change(ctx context.Context, sts []*Statement) error {
	r.report.Statements += len(sts)
	class, detail, at := r.changes(ctx, sts)
	if class != Same {
		if r.opts.Reduce > 0 {
			r.reduceChanges(ctx, sts, class, &detail)
		}
		var qs []string
		for _, st := range sts[:min(at+1, len(sts))] {
			qs = append(qs, st.Root.String())
		}
		r.found(class, strings.Join(qs, ";\n"), detail)
	}
	if len(sts) > 1 || class != Same {
		return r.load(ctx, r.schema)
	}
	return nil
}

// warned reports whether an error of a change is a warning of MariaDB: its strict mode holds for
// the values of columns only, MySQL's for the whole statement, also a DELETE.
func (r *Runner) warned(ctx context.Context, got, want *Result) bool {
	if want.Errno != 0 || got.Errno != 1292 && got.Errno != 1365 && got.Errno != 3020 {
		return false
	}
	return slices.ContainsFunc(r.ref.Run(ctx, "SHOW WARNINGS").Rows, func(row []string) bool {
		code, _ := strconv.Atoi(row[1])
		return sameError(got.Errno, code)
	})
}

func (r *Runner) reduceChanges(ctx context.Context, sts []*Statement, class string, detail *string) {
	for _, st := range sts {
		Reduce(st.Root, r.opts.Reduce, func(string) bool {
			if len(sts) > 1 && r.load(ctx, r.schema) != nil {
				return false
			}
			c, d, _ := r.changes(ctx, sts)
			if c == class {
				*detail = d
			}
			return c == class
		})
	}
}

// changes runs them once; at is the statement whose answer differs.
func (r *Runner) changes(ctx context.Context, sts []*Statement) (class, detail string, at int) {
	if len(sts) == 1 {
		r.both(ctx, "START TRANSACTION")
		defer r.both(ctx, "ROLLBACK")
	}
	tables := map[string]bool{}
	for i, st := range sts {
		q := st.Root.String()
		got, want := r.both(ctx, q)
		if want.Errno != 0 && got.Errno != 0 {
			r.report.Errors++
		}
		if class, detail := Compare(st, q, got, want); class != Same {
			if r.warned(ctx, got, want) {
				return Same, "", i
			}
			return class, detail, i
		}
		for _, t := range st.Changes {
			tables[t] = true
		}
	}
	for _, t := range r.schema.Tables {
		if !tables[t.Name] {
			continue
		}
		q := "SELECT * FROM " + t.Name
		got, want := r.both(ctx, q)
		if class, detail := Compare(&Statement{}, q, got, want); class != Same {
			return Stored, t.Name + ": " + class + ": " + detail, len(sts)
		}
	}
	return Same, "", 0
}
