package system

import (
	"context"
	"fmt"
	"testing"

	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/exec/budget"
	"github.com/godwitdb/godwit/sql/expr"
)

// counted counts how often tables are looked up.
type counted struct {
	sql.Catalog
	n *int
}

func (c counted) AllDatabases(ctx *sql.Context) (out []sql.Database) {
	for _, d := range c.Catalog.AllDatabases(ctx) {
		out = append(out, countedDatabase{d, c.n})
	}
	return out
}

type countedDatabase struct {
	sql.Database
	n *int
}

func (d countedDatabase) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	*d.n++
	return d.Database.GetTableInsensitive(ctx, name)
}

// world is a catalog of two databases with 40 tables each.
func world(t *testing.T) (*sql.Context, counted) {
	var dbs []sql.Database
	ctx := sql.NewEmptyContext()
	for _, name := range []string{"shop", "other"} {
		db := memory.NewDatabase(name)
		for i := range 40 {
			n := fmt.Sprint("t", i)
			db.AddTable(n, memory.NewTable(ctx, db, n, sql.NewPrimaryKeySchema(sql.Schema{
				{Name: "id", Type: types.Int64, Source: n, PrimaryKey: true}, {Name: "v", Type: types.Text, Source: n, Nullable: true}}), nil))
		}
		dbs = append(dbs, db)
	}
	pro := memory.NewDBProvider(dbs...)
	ctx = sql.NewContext(context.Background(), sql.WithSession(memory.NewSession(sql.NewBaseSession(), pro)))
	return ctx, counted{analyzer.NewCatalog(pro, sql.EngineOverrides{}), new(int)}
}

func open(t *testing.T, ctx *sql.Context, cat sql.Catalog, name string) *Table {
	t.Helper()
	db, err := cat.Database(ctx, "information_schema")
	if err != nil {
		t.Fatal(err)
	}
	x, ok, err := db.GetTableInsensitive(ctx, name)
	if err != nil || !ok {
		t.Fatal(name, ok, err)
	}
	out, ok := New(ctx, cat, db.Name(), x)
	if !ok {
		t.Fatal(name, "has a column of an unknown type")
	}
	return out
}

func count(t *testing.T, tab *Table, ctx *exec.Ctx, r exec.Read) (n int) {
	t.Helper()
	it, err := tab.Start(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for {
		var b expr.Batch
		ok, err := it.Next(&b)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return n
		}
		n += len(b.Sel)
	}
}

func span(names ...string) exec.Span {
	var s exec.Span
	for _, n := range names {
		s.Lo = append(s.Lo, expr.Value{Kind: expr.Text, S: n})
	}
	s.Hi = s.Lo
	return s
}

// TestNarrow: what a statement says of names decides how many tables are looked up, and what is
// read once is kept, accounted for.
func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		table      string
		read       exec.Read
		rows, most int
	}{
		{"columns", exec.Read{Index: 0, Spans: []exec.Span{span("shop", "T7")}}, 2, 2},
		{"columns", exec.Read{Index: 1, Spans: []exec.Span{span("t7")}}, 4, 4},
		{"columns", exec.Read{Index: 0, Spans: []exec.Span{span("shop", "t7"), span("other", "t8")}}, 4, 4},
		{"columns", exec.Read{Index: 0, Spans: []exec.Span{span("other")}}, 80, 90},
		{"tables", exec.Read{Index: 0, Spans: []exec.Span{span("shop", "t7")}}, 1, 1},
		{"tables", exec.Read{Index: 0, Spans: []exec.Span{span("none", "t7")}}, 0, 0},
		{"statistics", exec.Read{Index: 0, Spans: []exec.Span{span("shop", "t7 ")}}, 1, 1},
		{"key_column_usage", exec.Read{Index: 0, Spans: []exec.Span{span("shop", "t7")}}, 1, 1},
		{"table_constraints", exec.Read{Index: 0, Spans: []exec.Span{span("shop", "t7")}}, 1, 1},
	} {
		ctx, cat := world(t)
		tab := open(t, ctx, cat, c.table)
		mem := budget.NewMem(nil, 0)
		ec := &exec.Ctx{Context: context.Background(), Mem: mem}
		c.read.Cols = []int{tab.part.db, tab.part.table}
		for range 2 {
			if n := count(t, tab, ec, c.read); n != c.rows {
				t.Errorf("%s %v: %d rows, not %d", c.table, c.read.Spans, n, c.rows)
			}
		}
		if *cat.n > c.most {
			t.Errorf("%s %v: looked up %d tables", c.table, c.read.Spans, *cat.n)
		}
		if c.rows > 0 && mem.Used() == 0 {
			t.Errorf("%s %v: the rows that are kept are not accounted for", c.table, c.read.Spans)
		}
		if tab.Close(); mem.Used() != 0 {
			t.Errorf("%s: %d bytes are left", c.table, mem.Used())
		}
	}
}

// TestMemory: a table that is larger than what a statement may keep is an error.
func TestMemory(t *testing.T) {
	ctx, cat := world(t)
	tab := open(t, ctx, cat, "columns")
	it, err := tab.Start(&exec.Ctx{Context: context.Background(), Mem: budget.NewMem(nil, 1<<10)}, exec.Read{Index: -1, Cols: []int{2}})
	if err != nil {
		t.Fatal(err)
	}
	var b expr.Batch
	if _, err := it.Next(&b); err == nil {
		t.Error("all columns fit one KiB")
	}
}

// TestNames: a range, the beginning of a name and a name that others may equal are no part.
func TestNames(t *testing.T) {
	ctx, cat := world(t)
	tab := open(t, ctx, cat, "tables")
	begins := span("shop", "t1")
	begins.Begins = true
	for _, c := range []struct {
		spans []exec.Span
		want  string
	}{
		{[]exec.Span{span("Shop", "T1")}, "shop\x00t1"},
		{[]exec.Span{begins}, "shop\x00"},
		{[]exec.Span{span("shop", "café")}, "shop\x00"},
		{[]exec.Span{span("café")}, ""},
		{[]exec.Span{{Lo: span("a").Lo, Hi: span("b").Lo}}, ""},
		{[]exec.Span{span("shop"), {Lo: span("a").Lo}}, ""},
		{nil, ""},
	} {
		if got := tab.asked(exec.Read{Index: 0, Spans: c.spans}).key(); got != c.want {
			t.Errorf("%v: %q, not %q", c.spans, got, c.want)
		}
	}
}
