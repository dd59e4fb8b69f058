package sqldiff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
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
	src := source{alias: t.Name, cols: t.Cols} // a subquery may have a column of the same name
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
	// What is assigned must not depend on which of several partners came last, or column first.
	sets := g.assignments(t, &scope{srcs: []source{me}}, "me.")
	if len(sets.Kids) > 1 {
		first, _, _ := strings.Cut(sets.Kids[0].Form, " ")
		second, _, _ := strings.Cut(sets.Kids[1].Form, " ")
		if names(sets.Kids[1].Kids[0], first) || names(sets.Kids[0].Kids[0], second) {
			sets.Kids = sets.Kids[:1]
		}
	}
	return node(Other, "UPDATE $ SET $$", from, sets, g.where(sc, 2))
}

// names reports whether an expression names a column.
func names(n *Node, column string) bool {
	is := func(n *Node) bool { return len(n.Kids) == 0 && n.Form == column }
	return is(n) || n.below(is)
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
	verb := pick(g, []string{"INSERT INTO", "INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"})
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
			if strings.HasPrefix(verb, "INSERT IGNORE") && !c.Null && (c.Kind == Date || c.Kind == Datetime) {
				v = leaf(c.Kind, pick(g, c.Values)) // no zero dates: what becomes of them is a matter of sql_mode
			}
			vals = append(vals, v)
		}
		rows = append(rows, node(Other, "($)", list(", ", len(vals), vals...)))
	}
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
// single one is rolled back; after several, the tables get their rows again.
func (w *worker) change(ctx context.Context, sts []*Statement) error {
	out := w.changes(ctx, sts, way{}, way{})
	w.report.Statements += out.compared
	w.report.Errors += out.refused
	w.report.Unjudged += out.unjudged
	d := out.d
	if d != nil && w.explained(ctx, d) {
		d = nil
	}
	if d != nil {
		if d.Class != Lost && w.reduces(d) {
			begin := time.Now()
			d = w.reduceChanges(ctx, sts, d)
			w.reduced_(time.Since(begin))
		}
		w.found(d)
	}
	if len(sts) == 1 && d == nil {
		return nil
	}
	return w.reset(ctx, changed(sts))
}

func changed(sts []*Statement) map[string]bool {
	tables := map[string]bool{}
	for _, st := range sts {
		for _, t := range st.Changes {
			tables[t] = true
		}
	}
	return tables
}

func (w *worker) reduceChanges(ctx context.Context, sts []*Statement, d *Difference) *Difference {
	for _, st := range sts {
		Reduce(st.Root, w.opts.Reduce, func(string) bool {
			if w.reset(ctx, changed(sts)) != nil {
				return false
			}
			e := w.changes(ctx, sts, way{}, way{}).d
			if e == nil || e.Class != d.Class || e.Got.Errno != d.Got.Errno || e.Want.Errno != d.Want.Errno ||
				w.explains(ctx, e) != "" {
				return false
			}
			d = e
			return true
		})
	}
	return d
}

// outcome is what a run of changes gave.
type outcome struct {
	d        *Difference // the first one; nil: none
	compared int         // statements
	refused  int         // by both servers
	unjudged int
}

// changes runs them once, with other forms for each server if there are any.
func (w *worker) changes(ctx context.Context, sts []*Statement, here, ref way) (out outcome) {
	tables := changed(sts)
	var reads []string
	for _, t := range w.schema.Tables {
		if tables[t.Name] {
			reads = append(reads, "SELECT * FROM "+t.Name)
		}
	}
	single := len(sts) == 1
	script := func(as *way) (qs []string) {
		if single {
			qs = append(qs, "START TRANSACTION")
		}
		for i, st := range sts {
			forms := as.forms
			if as.late && i == len(sts)-1 {
				as.from = len(qs)
			} else if as.late {
				forms = nil
			}
			qs = append(qs, st.Root.Text(forms))
		}
		if qs = append(qs, reads...); single {
			qs = append(qs, "ROLLBACK")
		}
		return qs
	}
	var got, want []*Result
	run := func() error {
		return w.each(func(side *Side) error {
			if side == w.here {
				qs := script(&here)
				got = side.as(ctx, qs, here)
			} else {
				qs := script(&ref)
				want = side.as(ctx, qs, ref)
			}
			return nil
		})
	}
	_ = run()
	for n := 0; n < retries && slices.ContainsFunc(got, (*Result).aborted) && w.reset(ctx, tables) == nil; n++ {
		w.report.Retried++
		_ = run()
	}
	if single {
		got, want = got[1:], want[1:]
	}
	var qs []string
	for i, st := range sts {
		if out.compared = i + 1; want[i].Errno != 0 && got[i].Errno != 0 {
			out.refused++
		}
		if want[i].unjudged() {
			out.unjudged++
		}
		qs = append(qs, st.Root.String())
		d := &Difference{SQL: qs[i], Got: got[i], Want: want[i], St: st, Sts: sts}
		if !d.compare() {
			d.SQL = strings.Join(qs, ";\n")
			out.d = d
			return out
		}
	}
	for i, q := range reads {
		d := &Difference{SQL: q, Got: got[len(sts)+i], Want: want[len(sts)+i], St: &Statement{}}
		if !d.compare() {
			out.d = &Difference{Class: Stored, Detail: q + ": " + d.Class + ": " + d.Detail, Got: d.Got, Want: d.Want,
				SQL: strings.Join(qs, ";\n"), Sts: sts}
			return out
		}
	}
	return out
}
