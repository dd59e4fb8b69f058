package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
)

// TestClasses: where the entries of an index live is decided when it is made.
func TestClasses(t *testing.T) {
	plain, unique := sql.IndexConstraint_None, sql.IndexConstraint_Unique
	for _, k := range []struct {
		locality LocalityKind
		pk       int
		cols     []IndexedColumn
		kind     sql.IndexConstraint
		want     indexClass
	}{
		{ByRow, 1, []IndexedColumn{{Col: 1}}, plain, ClassLocal},
		{ByRow, 1, []IndexedColumn{{Col: 1}, {Col: 2}}, unique, ClassLocal},
		{ByRow, 1, []IndexedColumn{{Col: 1, Length: 3}}, plain, ClassByHome}, // of the beginning only
		{ByRow, 1, []IndexedColumn{{Col: 2}}, plain, ClassByHome},
		{ByRow, 1, []IndexedColumn{{Col: 2}, {Col: 1}}, plain, ClassByHome},
		{ByRow, 1, []IndexedColumn{{Col: 2}}, unique, ClassUnique},
		{ByRow, 0, []IndexedColumn{{Col: 1}}, plain, ClassByHome}, // no primary key
		{ByTable, 1, []IndexedColumn{{Col: 2}}, plain, ClassByHome},
		{Global, 1, []IndexedColumn{{Col: 2}}, plain, ClassGlobal},
		{Global, 1, []IndexedColumn{{Col: 1}}, unique, ClassGlobal},
		{MultiMaster, 1, []IndexedColumn{{Col: 2}}, unique, ClassGlobal},
	} {
		tab := tableOf(t, k.pk, []ColumnDesc{descOf(1, "int"), descOf(2, "int")})
		tab.Desc.Locality.Kind = k.locality
		if got := tab.Desc.ClassFor(k.cols, k.kind); got != k.want {
			t.Errorf("%q, %d primary-key columns, index %v: class %d, want %d", k.locality, k.pk, k.cols, got, k.want)
		}
	}
}

// TestFormats: a descriptor has the oldest format that can tell what it says, so that nodes of an
// older release go on reading tables that use nothing new.
func TestFormats(t *testing.T) {
	d := tableOf(t, 1, []ColumnDesc{descOf(1, "int")}).Desc
	if d.Format() != DescVersion {
		t.Errorf("an ordinary table has format %d", d.Format())
	}
	d.Locality.Async = true
	if d.Format() != asyncVersion {
		t.Errorf("an asynchronous table has format %d", d.Format())
	}
	d.Next = &SuccessorDesc{ID: 7}
	if d.Format() != nextVersion {
		t.Errorf("a table with a successor has format %d", d.Format())
	}
	d.Locality.Kind = MultiMaster
	if d.Format() != MultiVersion {
		t.Errorf("a MULTI MASTER table has format %d", d.Format())
	}
}

// TestUnmarshal: what a newer release has written is refused with a word on what to do, what is no
// descriptor is corrupt.
func TestUnmarshal(t *testing.T) {
	read := func(text string) error {
		_, err := unmarshal([]byte(text), func(d *TableDesc) int { return d.V })
		return err
	}
	if err := read(`{"v": 1, "name": "t"}`); err != nil {
		t.Error(err)
	}
	if err := read(`{"v": 99}`); base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("a format of the future: %v", err)
	}
	for _, bad := range []string{"", "{", "[]", `{"v": "x"}`, "\x00"} {
		if err := read(bad); base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestClone: a clone shares nothing that is changed, and is the next version.
func TestClone(t *testing.T) {
	d := indexedTable(t).Desc
	d.FKs = []sql.ForeignKeyConstraint{{Name: "fk", Columns: []string{"a"}, ParentColumns: []string{"b"}}}
	d.Checks = []sql.CheckDefinition{{Name: "chk"}}
	d.Dropped = map[uint32]Kind{9: KindInt}
	before, _ := json.Marshal(d)
	c := d.Clone()
	if c.Version != d.Version+1 {
		t.Errorf("version %d after %d", c.Version, d.Version)
	}
	c.Cols[0].Name, c.PK[0], c.Indexes[0].Name, c.Checks[0].Name = "x", 99, "x", "x"
	c.FKs[0].Columns[0], c.FKs[0].ParentColumns[0] = "x", "x"
	c.Dropped[10] = KindFloat
	if after, _ := json.Marshal(d); string(after) != string(before) {
		t.Errorf("changing a clone has made\n%s\nof\n%s", after, before)
	}
}

// TestFind: columns and indexes by id and by name, in any case.
func TestFind(t *testing.T) {
	d := indexedTable(t).Desc
	if d.Col(3) != 2 || d.Col(77) != -1 || d.ColByName("C") != 2 || d.ColByName("nosuch") != -1 {
		t.Error("columns")
	}
	if d.Index("UNIQ") != &d.Indexes[1] || d.Index("nosuch") != nil || d.IndexByID(3) != &d.Indexes[2] ||
		d.IndexByID(3|base.ByHome) != &d.Indexes[2] || d.IndexByID(9) != nil {
		t.Error("indexes")
	}
	if d.AutoIncCol() != -1 {
		t.Error("there is no AUTO_INCREMENT column")
	}
	d.Cols[1].AutoInc = true
	if d.AutoIncCol() != 1 {
		t.Error("AUTO_INCREMENT column")
	}
	if d.Indexes[2].Key() != 3|base.ByHome || d.Indexes[0].Key() != 1 {
		t.Error("index ids in keys")
	}
}

// TestHomes: the home that rows of a table get.
func TestHomes(t *testing.T) {
	for _, k := range []struct {
		l           Locality
		fresh, from base.RegionID // of a new row, of one from region 3
	}{
		{Locality{}, 0, 3}, {Locality{Kind: ByTable, Region: 2}, 2, 2}, {Locality{Kind: Global}, 0, 0},
		{Locality{Kind: MultiMaster}, 0, 3},
	} {
		tab := tableOf(t, 1, []ColumnDesc{descOf(1, "int")})
		tab.Desc.Locality = k.l
		if got := tab.Desc.Home(); got != k.fresh {
			t.Errorf("%+v: a new row is at home in %d", k.l, got)
		}
		if got := tab.HomeFor(1, 3); got != k.from {
			t.Errorf("%+v: a row from region 3 is at home in %d", k.l, got)
		}
	}
	for _, l := range []Locality{{Kind: Global, Async: true}, {Kind: MultiMaster, Async: true}} {
		if l.Check() == nil {
			t.Errorf("%+v is allowed", l)
		}
	}
	for _, l := range []Locality{{}, {Async: true}, {Kind: ByTable, Region: 1, Async: true}, {Kind: Global}} {
		if err := l.Check(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// TestSuccessors: the successor of a table is the table with other keys.
func TestSuccessors(t *testing.T) {
	d := indexedTable(t).Desc.Clone()
	d.Next = &SuccessorDesc{ID: 3201, Locality: Locality{Kind: Global}, Shards: 8}
	tab, err := NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	n := tab.Next
	if n == nil || n.Prev != tab || n.Desc.ID != 3201 || n.Desc.Shards != 8 || n.Desc.Next != nil || n.Desc.Name != "t" {
		t.Fatalf("successor %+v", n)
	}
	for _, x := range n.Desc.Indexes {
		if x.Class != ClassGlobal {
			t.Errorf("index %s of the successor has class %d", x.Name, x.Class)
		}
	}
	if d.Indexes[2].Class != ClassByHome {
		t.Error("the classes of the table itself have changed")
	}
}

// TestTypesComeBack: a type is stored as text and read as the same type.
func TestTypesComeBack(t *testing.T) {
	for _, typ := range []sql.Type{
		types.Int8, types.Uint64, types.Int24, types.Float32, types.Float64, types.MustCreateDecimalType(65, 30),
		types.MustCreateDecimalType(1, 0), types.Year,
		types.Date, types.MustCreateDatetimeType(sqltypes.Datetime, 6),
		types.MustCreateDatetimeType(sqltypes.Timestamp, 0), types.Time,
		types.MustCreateStringWithDefaults(sqltypes.VarChar, 20),
		types.MustCreateString(sqltypes.Char, 5, sql.Collation_utf8mb4_general_ci),
		types.LongText, types.LongBlob, types.MustCreateBinary(sqltypes.VarBinary, 7),
		types.MustCreateBinary(sqltypes.Binary, 7), types.JSON,
		types.MustCreateEnumType([]string{"a'b", "c,d", ""}, sql.Collation_Default),
		types.MustCreateSetType([]string{"x", "y"}, sql.Collation_utf8mb4_bin),
		types.MustCreateBitType(17), types.Boolean, types.PointType{}, types.GeometryType{SRID: 4326, DefinedSRID: true},
	} {
		d := ColumnDesc{Name: "c"}
		if err := describeType(&d, typ); err != nil {
			t.Error(err)
			continue
		}
		c, err := NewColumn(&d)
		if err != nil || !c.Type.Equals(typ) {
			t.Errorf("%s is stored as %q and read as %v (%v)", typ, d.Type, c, err)
		}
	}
	if _, err := NewColumn(&ColumnDesc{Name: "c", Type: "nonsense"}); err == nil || !strings.Contains(err.Error(), "c") {
		t.Errorf("a type that is none: %v", err)
	}
}

// TestWidens: which changes of a type need no row written anew.
func TestWidens(t *testing.T) {
	text := func(n int64, c sql.CollationID) sql.Type { return types.MustCreateString(sqltypes.VarChar, n, c) }
	bin := func(n int64) sql.Type { return types.MustCreateBinary(sqltypes.VarBinary, n) }
	a, b := sql.Collation_Default, sql.Collation_utf8mb4_general_ci
	for _, k := range []struct {
		from, to sql.Type
		want     bool
	}{
		{types.Int32, types.Int32, true}, {types.Int32, types.Int64, true}, {types.Int8, types.Int16, true},
		{types.Int64, types.Int32, false},
		{types.Int32, types.Uint32, false}, {types.Uint8, types.Uint64, true}, {types.Int32, types.Float64, false},
		{types.Year, types.Int32, false},
		{types.Float32, types.Float64, false}, {types.MustCreateDecimalType(5, 2), types.MustCreateDecimalType(6, 2), false},
		{text(10, a), text(20, a), true}, {text(20, a), text(10, a), false}, {text(10, a), text(20, b), false},
		{text(10, a), types.LongText, false},
		{bin(10), bin(20), true}, {bin(20), bin(10), false}, {text(10, a), bin(10), false},
		{types.MustCreateBinary(sqltypes.Binary, 4), types.MustCreateBinary(sqltypes.Binary, 8), false},
		{types.MustCreateEnumType([]string{"a"}, a), types.MustCreateEnumType([]string{"a"}, a), true},
		{types.MustCreateEnumType([]string{"a"}, a), types.MustCreateEnumType([]string{"a", "b"}, a), false},
		{types.MustCreateBitType(3), types.MustCreateBitType(4), false},
		{types.Date, types.MustCreateDatetimeType(sqltypes.Datetime, 0), false},
	} {
		if got := Widens(k.from, k.to); got != k.want {
			t.Errorf("%s to %s: %v", k.from, k.to, got)
		}
	}
}

// TestPositions: FIRST, AFTER, and nothing.
func TestPositions(t *testing.T) {
	d := indexedTable(t).Desc
	for _, k := range []struct {
		order *sql.ColumnOrder
		want  int
	}{{nil, 9}, {&sql.ColumnOrder{First: true}, 0}, {&sql.ColumnOrder{AfterColumn: "A"}, 1},
		{&sql.ColumnOrder{AfterColumn: "d"}, 4}} {
		if got, err := d.Position(k.order, 9); err != nil || got != k.want {
			t.Errorf("%+v: %d (%v)", k.order, got, err)
		}
	}
	if _, err := d.Position(&sql.ColumnOrder{AfterColumn: "nosuch"}, 0); err == nil {
		t.Error("behind a column that is not there")
	}
}

// TestAddColumn: ids are never used again, wherever the column stands.
func TestAddColumn(t *testing.T) {
	d := indexedTable(t).Desc
	if err := d.AddColumn(&sql.Column{Name: "new", Type: types.Int32, Nullable: true}, 1); err != nil {
		t.Fatal(err)
	}
	if c := d.Cols[1]; c.Name != "new" || c.ID != 5 || d.NextCol != 5 || d.ColByName("b") != 2 {
		t.Errorf("%+v", d.Cols)
	}
	d.Cols = d.Cols[:1]
	if err := d.AddColumn(&sql.Column{Name: "newer", Type: types.Int32}, 0); err != nil || d.Cols[0].ID != 6 ||
		d.Cols[0].Nullable {
		t.Errorf("%+v (%v)", d.Cols, err)
	}
}

// TestDefineIndex: what an index may be made of.
func TestDefineIndex(t *testing.T) {
	d := tableOf(t, 1, []ColumnDesc{descOf(1, "int"), descOf(2, "varchar(10)", collated(sql.Collation_Default)),
		descOf(3, "json")}).Desc
	cols := func(names ...string) (out []sql.IndexColumn) {
		for _, n := range names {
			out = append(out, sql.IndexColumn{Name: n})
		}
		return out
	}
	x, err := d.DefineIndex(sql.IndexDef{Name: "x", Columns: cols("b", "a"), Constraint: sql.IndexConstraint_Unique},
		IndexWriteOnly)
	if err != nil || x.ID != 1 || x.Class != ClassUnique || x.State != IndexWriteOnly || len(x.Cols) != 2 || x.Cols[0].Col != 2 {
		t.Errorf("%+v (%v)", x, err)
	}
	if x, err = d.DefineIndex(sql.IndexDef{Columns: cols("b", "a")}, IndexPublic); err != nil || x.Name != "b_a_" || x.ID != 2 {
		t.Errorf("an index without a name: %+v (%v)", x, err)
	}
	for what, def := range map[string]sql.IndexDef{
		"a name twice": {Name: "X", Columns: cols("a")}, "no such column": {Name: "y", Columns: cols("nosuch")},
		"JSON": {Name: "y", Columns: cols("c")},
	} {
		if _, err := d.DefineIndex(def, IndexPublic); err == nil {
			t.Errorf("%s: allowed", what)
		}
	}
	if len(d.Indexes) != 2 || d.NextIndex != 3 {
		t.Errorf("what was refused has left %+v", d.Indexes)
	}
}

// TestColumnFacts: bounds and what may be compared by key.
func TestColumnFacts(t *testing.T) {
	for _, k := range []struct {
		typ     string
		least   int64
		most    uint64
		bounded bool
		largest uint64
		integer bool
	}{
		{"tinyint", -128, 127, true, 127, true}, {"mediumint", -8388608, 8388607, true, 8388607, true},
		{"bigint", -1 << 63, 1<<63 - 1, true, 1<<63 - 1, true},
		{"tinyint unsigned", 0, 0, false, 255, true}, {"mediumint unsigned", 0, 0, false, 1<<24 - 1, true},
		{"bigint unsigned", 0, 0, false, 1<<64 - 1, true},
		{"year", 0, 0, false, 1<<15 - 1, false}, {"bit(3)", 0, 0, false, 1<<64 - 1, false},
	} {
		c := columnOf(t, 1, k.typ)
		least, most, ok := c.Bounds()
		if ok != k.bounded || ok && (least != k.least || most != k.most) {
			t.Errorf("%s: bounds %d, %d, %v", k.typ, least, most, ok)
		}
		if c.Integer() != k.integer || k.integer && c.LargestInt() != k.largest {
			t.Errorf("%s: integer %v, at most %d", k.typ, c.Integer(), c.LargestInt())
		}
	}
}
