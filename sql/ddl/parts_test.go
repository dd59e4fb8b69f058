package ddl

import (
	"slices"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/ddl/placing"
	"github.com/godwitdb/godwit/sql/schema"
)

// TestRule: PLACEMENT BY as clients write it, also through the option that carries it to the plan.
func TestRule(t *testing.T) {
	text := "placement by (`the land`) (('a,b', \"it's\", 'it''s', 'a\\'(', -12) in `eu w`, default IN none)"
	got, err := placing.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a,b", "it's", "it's", "a'(", "-12"}; !slices.Equal(got.Cols, []string{"the land"}) || len(got.Entries) != 2 ||
		!slices.Equal(got.Entries[0].Values, want) || got.Entries[0].Placement != "eu w" || !got.Entries[1].Rest {
		t.Errorf("%+v", got)
	}
	if q := RewriteCreate("CREATE TABLE t (a INT) " + text); !strings.Contains(q, `"placement by (`) || !strings.Contains(q, `\"it's\"`) {
		t.Error(q)
	}
	for _, bad := range []string{"(a) (('x') IN)", "(a) ('x' IN p)", "() (('x') IN p)", "(a) (('x') IN p) more", "(a) (('x' IN p)", "(a) ((x) IN p)"} {
		if r, err := placing.ParseRule("PLACEMENT BY " + bad); err == nil {
			t.Errorf("%s is read as %+v", bad, r)
		}
	}
}

// TestPartsAreCollected: what a table with PLACEMENT BY leaves behind is all that it had.
func TestPartsAreCollected(t *testing.T) {
	d := &schema.TableDesc{ID: base.MakeTableID(1000, 4), DB: "d", Name: "t", Shards: 3,
		Cols: []schema.ColumnDesc{{ID: 1, Name: "id", Type: "int"}, {ID: 2, Name: "c", Type: "int"}}, PK: []uint32{1, 2},
		Indexes: []schema.IndexDesc{{ID: 1, Name: "c", Cols: []schema.IndexedColumn{{Col: 2}}, Class: schema.ClassByHome},
			{ID: 2, Name: "u", Cols: []schema.IndexedColumn{{Col: 2}}, Class: schema.ClassUnique, Constraint: sql.IndexConstraint_Unique}},
		Locality: schema.Locality{Parts: &schema.PartsDesc{Col: 2, List: []schema.PartDesc{
			{Values: []string{"1"}, Placed: base.Placed{ID: 1, Regions: base.RegionsOf(1, 2), First: 1}},
			{Values: []string{"2"}, Placed: base.Placed{ID: 2, Regions: base.RegionsOf(3), First: 3}},
			{Default: true}}}}}
	def, err := schema.NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	regions := []base.Region{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}}
	g := GarbageOf(def)
	owners := map[base.GroupID]bool{}
	for c := range int32(3) {
		row := sql.Row{int32(7), c}
		ref, err := def.RefOf(t.Context(), row)
		if err != nil {
			t.Fatal(err)
		}
		home := def.HomeFor(ref.Shard, 4)
		ws, err := def.RowWrites(t.Context(), row, []byte{1}, ref, home)
		if err != nil {
			t.Fatal(err)
		}
		if !def.PlacedAt(ref.Shard).Allows(home) || len(ws) != 3 {
			t.Errorf("row %v has home %d and %d keys", row, home, len(ws))
		}
		for _, w := range ws {
			found := slices.ContainsFunc(g.prefixes(w.Key.Index(), regions), func(p base.Key) bool {
				return base.Span{Start: p, End: p.PrefixEnd()}.Contains(w.Key)
			})
			if !found || !def.PlacedAt(w.Key.Shard()).Allows(w.Key.DefaultOwner().Region()) || w.Key.Table() != d.ID {
				t.Errorf("key %v of row %v: collected %v, its first gap is %v's", w.Key, row, found, w.Key.DefaultOwner())
			}
			owners[base.DataGroup(1, w.Key.DefaultOwner().Region())] = true
		}
	}
	if len(owners) != 3 {
		t.Errorf("the first gaps are those of %v", owners)
	}
}
