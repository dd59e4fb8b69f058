package schema

import (
	"context"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// putTables writes descriptors as schema changes do; nil deletes.
func putTables(t testing.TB, db kv.DB, dbs []string, tables map[string]*TableDesc) base.Timestamp {
	t.Helper()
	ts, err := kv.Run(context.Background(), db, kv.Options{}, func(k kv.Txn) error {
		for _, name := range dbs {
			k.Put(CatalogKey(IxDatabase, name), Marshal(&DatabaseDesc{V: DescVersion, Name: name}), 0)
		}
		for name, d := range tables {
			if d == nil {
				k.Delete(TableKey("d", name))
			} else {
				k.Put(TableKey(d.DB, d.Name), Marshal(d), 0)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

func namedTable(t testing.TB, id base.TableID, name string) *TableDesc {
	d := tableOf(t, 1, []ColumnDesc{descOf(1, "int"), descOf(2, "int")}).Desc
	d.ID, d.Name = id, name
	return d
}

// TestCatalogFollows: the snapshot of a node is the newest that its replica has, and objects that
// have not changed are the same ones.
func TestCatalogFollows(t *testing.T) {
	ctx := context.Background()
	db := memkv.New(2, "eu", "us")
	c := NewCatalog(db)
	first := putTables(t, db, []string{"d"}, map[string]*TableDesc{"t": namedTable(t, 1601, "t"), "u": namedTable(t, 1617, "u")})
	s, err := c.Current(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tab := s.Table("D", "T")
	if tab == nil || tab.TS != first || s.ByID[1601] != tab || s.Table("d", "nosuch") != nil || s.Table("nosuch", "t") != nil {
		t.Fatalf("table %+v", tab)
	}
	if again, _ := c.Current(ctx); again.Table("d", "t") != tab || c.Loaded() == nil {
		t.Error("nothing has changed, and the table is another one")
	}
	second := putTables(t, db, nil, map[string]*TableDesc{"u": namedTable(t, 1617, "u"), "v": namedTable(t, 1633, "v")})
	if s, err = c.Current(ctx); err != nil || s.Table("d", "v") == nil || s.Table("d", "u").TS != second ||
		s.Table("d", "t") != tab {
		t.Errorf("after a change: %+v (%v)", s, err)
	}
	// What is dropped is gone, though it leaves nothing to be seen.
	putTables(t, db, nil, map[string]*TableDesc{"v": nil})
	if s, err = c.Current(ctx); err != nil || s.Table("d", "v") != nil || s.ByID[1633] != nil {
		t.Errorf("a table that was dropped: %v (%v)", s.Table("d", "v"), err)
	}
}

// TestCatalogOfAnotherNode: Fresh has every change that was made anywhere before.
func TestCatalogOfAnotherNode(t *testing.T) {
	ctx := context.Background()
	eu := memkv.New(2, "eu", "us")
	c := NewCatalog(eu.Gateway(2))
	for i := range base.TableID(5) {
		putTables(t, eu, []string{"d"}, map[string]*TableDesc{"t": namedTable(t, 1601+16*i, "t")})
		s, err := c.Fresh(ctx)
		if err != nil || s.Table("d", "t") == nil || s.Table("d", "t").Desc.ID != 1601+16*i {
			t.Errorf("version %d: %v (%v)", i, s, err)
		}
	}
}

// TestCatalogOfThePast: a snapshot at a timestamp, and what it shares with the present.
func TestCatalogOfThePast(t *testing.T) {
	ctx := context.Background()
	db := memkv.New(2)
	first := putTables(t, db, []string{"d"}, map[string]*TableDesc{"t": namedTable(t, 1601, "t"), "u": namedTable(t, 1617, "u")})
	putTables(t, db, nil, map[string]*TableDesc{"t": namedTable(t, 1633, "t"), "u": nil})
	now, err := NewCatalog(db).Current(ctx)
	if err != nil {
		t.Fatal(err)
	}
	past, err := LoadSnapshot(ctx, db, now, first)
	if err != nil || past.Table("d", "t").Desc.ID != 1601 || past.Table("d", "u") == nil {
		t.Errorf("%+v (%v)", past, err)
	}
	if now.Table("d", "t").Desc.ID != 1633 || now.Table("d", "u") != nil {
		t.Error("the present has changed")
	}
}

// TestCorruptCatalog: a row that is no descriptor is an error, and not a table less.
func TestCorruptCatalog(t *testing.T) {
	ctx := context.Background()
	db := memkv.New(2)
	putTables(t, db, []string{"d"}, nil)
	for _, bytes := range []string{"", "{", `{"v":1,"db":"d","name":"t","cols":[{"type":"nonsense"}]}`} {
		if _, err := kv.Run(ctx, db, kv.Options{}, func(k kv.Txn) error {
			k.Put(TableKey("d", "t"), []byte(bytes), 0)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := NewCatalog(db).Current(ctx); base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("%q: %v", bytes, err)
		}
	}
}

// TestCatalogWaits: a client that goes away does not wait for a catalog that is being loaded.
func TestCatalogWaits(t *testing.T) {
	c := NewCatalog(memkv.New(1))
	if err := c.lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Fresh(ctx); err == nil {
		t.Error("a client that is gone got a catalog")
	}
	c.unlock()
	if _, err := c.Fresh(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestChangesOfASnapshot: With changes a copy; the references between tables follow.
func TestChangesOfASnapshot(t *testing.T) {
	parent, child := namedTable(t, 1601, "p"), namedTable(t, 1617, "c")
	child.FKs = []sql.ForeignKeyConstraint{{Name: "fk", Database: "d", Table: "c", ParentDatabase: "d", ParentTable: "P"}}
	tables := map[string]*Table{}
	for _, d := range []*TableDesc{parent, child} {
		tab, err := NewTable(d)
		if err != nil {
			t.Fatal(err)
		}
		tables[d.Name] = tab
	}
	empty := &Snapshot{Databases: map[string]*Database{"d": NewDatabase(&DatabaseDesc{Name: "d"})},
		ByID: map[base.TableID]*Table{}}
	both := empty.With("d", func(db *Database) { db.Tables["p"], db.Tables["c"] = tables["p"], tables["c"] })
	if len(empty.Database("d").Tables) != 0 || len(empty.ByID) != 0 {
		t.Error("the snapshot has changed")
	}
	if both.Table("d", "p") != tables["p"] || both.ByID[1617] != tables["c"] || len(both.Database("d").ReferencedBy["p"]) != 1 {
		t.Errorf("%+v", both.Database("d"))
	}
	less := both.With("d", func(db *Database) { delete(db.Tables, "c") })
	if len(less.Database("d").ReferencedBy["p"]) != 0 || less.ByID[1617] != nil ||
		len(both.Database("d").ReferencedBy["p"]) != 1 {
		t.Error("a child that went is still known, or is gone in the snapshot before")
	}
	if other := both.With("nosuch", func(*Database) { t.Error("there is no such database") }); other.Table("d",
		"p") != tables["p"] {
		t.Error("a change of a database that is not there")
	}
}

// TestObjectsInOrder: triggers fire in the order in which they were made.
func TestObjectsInOrder(t *testing.T) {
	d := NewDatabase(&DatabaseDesc{Name: "d"})
	for name, seq := range map[string]uint64{"b": 1, "a": 3, "d": 2, "c": 2} {
		d.Objects[IxTrigger][name] = &ObjectDesc{Name: name, Seq: seq}
	}
	got := ""
	for _, o := range d.ObjectsInOrder(IxTrigger) {
		got += o.Name
	}
	if got != "bcda" {
		t.Errorf("order %s", got)
	}
}

// TestCatalogKeys: names are found in any case, and no name is the beginning of another one.
func TestCatalogKeys(t *testing.T) {
	if TableKey("D", "T").Compare(TableKey("d", "t")) != 0 {
		t.Error("case matters")
	}
	if TableKey("d", "tt").Compare(TableKey("dt", "t")) == 0 || TableKey("d", "t").Compare(CatalogKey(IxTrigger, "d", "t")) == 0 {
		t.Error("two names have one key")
	}
	for _, k := range []base.Key{TableKey("d", "t"), CatalogKey(IxDatabase, "d"), CatalogKey(IxTrigger, "d", "t")} {
		if !catalogSpan().Contains(k) {
			t.Errorf("%s is not in the catalog", k)
		}
	}
}
