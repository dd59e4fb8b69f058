package rowuse

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/recording"
)

func keyOf(table string) []string {
	switch table {
	case "d.t":
		return []string{"id"}
	case "d.two":
		return []string{"b", "a"}
	}
	return nil
}

// kept is what a recorder keeps of statements.
func kept(queries ...string) *recording.Taken {
	var r recording.Recorder
	r.Keep(true)
	at := time.Unix(1e9, 0)
	for _, q := range queries {
		r.Add(&recording.Note{Statement: digest.Statement{Text: q, Schema: "d", End: at}, Began: at})
	}
	taken := r.Take()
	return &taken
}

// TestNamed: rows are counted that statements name by the primary key, in whatever form.
func TestNamed(t *testing.T) {
	for _, c := range []struct {
		queries        []string
		rows, uses     int
		named, unnamed uint64
	}{
		{[]string{"SELECT v FROM t WHERE id = 5", "SELECT v FROM d.t WHERE v > 1 AND (id = '5')", "UPDATE T SET v = 7 WHERE 5 = id",
			"DELETE FROM t WHERE id = 6"}, 2, 4, 4, 0},
		{[]string{"SELECT v FROM t WHERE id IN (1, 2, 3)", "SELECT v FROM t WHERE id IN (2, 1)"}, 3, 5, 2, 0},
		{[]string{"INSERT INTO t VALUES (1, 9), (2, 9)", "INSERT INTO t (v, id) VALUES (9, 1)", "REPLACE INTO t SET v = 3, id = 2", "SELECT * FROM t WHERE id = 2"}, 2, 1, 4, 0},
		{[]string{"SELECT v FROM two WHERE a = 1 AND b IN (2, 3)", "UPDATE two SET v = 0 WHERE b = 3 AND a = 1",
			"SELECT v FROM two WHERE a = 3 AND b = 1"}, 3, 4, 3, 0},
		{[]string{"SELECT v FROM t WHERE id = 5 OR v = 1", "SELECT v FROM t WHERE id > 5", "SELECT SUM(v) FROM t", "SELECT v FROM t WHERE id = 1 + 2",
			"SELECT v FROM two WHERE a = 1", "INSERT INTO t (v) VALUES (1)"}, 0, 0, 0, 6},
		{[]string{"SELECT v FROM other WHERE id = 5", "SELECT t.v FROM t JOIN two ON t.id = two.a WHERE t.id = 5", "COMMIT"}, 0, 0, 0, 0},
	} {
		all, err := Of(kept(c.queries...), keyOf)
		if err != nil {
			t.Fatal(err)
		}
		rows, uses, named, unnamed := 0, 0, uint64(0), uint64(0)
		for _, x := range all {
			rows, named, unnamed = rows+len(x.Rows), named+x.Named, unnamed+x.Unnamed
			for _, r := range x.Rows {
				uses += int(r.Reads + r.Writes)
			}
		}
		if rows != c.rows || uses != c.uses || named != c.named || unnamed != c.unnamed {
			t.Errorf("%q: %d rows, %d uses, %d statements that name rows and %d that do not; want %d, %d, %d, %d", c.queries, rows, uses,
				named, unnamed, c.rows, c.uses, c.named, c.unnamed)
		}
	}
}

// TestMerge: of rows that two regions use both are known, though each node samples for itself.
func TestMerge(t *testing.T) {
	var parts []Part
	for region := range 2 {
		var qs []string
		for i := range 2*MaxRows + 100 {
			for range 1 + region {
				qs = append(qs, fmt.Sprintf("UPDATE t SET v = 1 WHERE id = %d", i+region*MaxRows))
			}
		}
		x := Part{Region: region}
		for some := range slices.Chunk(qs, 2000) { // as much as a recorder keeps at once
			more, err := Of(kept(some...), keyOf)
			if err != nil {
				t.Fatal(err)
			}
			x.Tables = append(x.Tables, more...)
		}
		parts = append(parts, x)
	}
	s := Merge(2, parts)["d.t"]
	if s == nil || s.Named != 1 || len(s.Writes) < MaxRows {
		t.Fatalf("%+v", s)
	}
	counts := map[[2]float64]int{}
	for _, u := range s.Writes {
		counts[[2]float64(u)]++
	}
	all := 2*MaxRows + 100
	if counts[[2]float64{1, 2}] != all-MaxRows || counts[[2]float64{1, 0}] != MaxRows || counts[[2]float64{0, 2}] != MaxRows {
		t.Errorf("%v", counts)
	}
}

// TestCut: a sample is bounded, and two samples leave out the same rows.
func TestCut(t *testing.T) {
	c := [2]count{{rows: map[uint64]*Row{}}, {rows: map[uint64]*Row{}}}
	p := &tree.Keys{Table: "d.t", Params: 1, Rows: [][]int{{0}}}
	const n = 5 * MaxRows
	for i := range n {
		for j := range c {
			c[j].add(p, []recording.Literal{{Text: fmt.Sprint(i + j*n/2)}})
		}
	}
	var parts []Part
	for j := range c {
		x := c[j].sample("d.t")
		if len(x.Rows) != MaxRows || !x.Cut {
			t.Fatalf("%d rows, cut: %v", len(x.Rows), x.Cut)
		}
		parts = append(parts, Part{j, []Table{x}})
	}
	both, one := 0, 0
	for _, u := range Merge(2, parts)["d.t"].Writes {
		switch {
		case u[0] == 1 && u[1] == 1:
			both++
		default:
			one++
		}
	}
	// Half of the rows of each are the other's, too: a third of all. Independent samples would have
	// a tenth of their rows in common.
	if share := float64(both) / float64(both+one); share < 0.28 || share > 0.39 {
		t.Errorf("%d rows of both, and %d of one", both, one)
	}
}
