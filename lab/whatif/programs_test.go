package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/recording"
)

func proc(name, create string) recording.Program {
	return recording.Program{DB: "d", Kind: "procedure", Name: name, Create: create}
}

// TestCalls: a CALL cannot be done twice if what it calls inserts or deletes, and the rows that it
// inserts are known by its arguments.
func TestCalls(t *testing.T) {
	f := recorded()
	f.Programs = []recording.Program{
		proc("add", "CREATE PROCEDURE add(IN a INT, who VARCHAR(9)) BEGIN INSERT INTO t (id, v) VALUES (a, length(who)), (7, t.a); UPDATE u SET v = 1; END"),
		proc("outer_one", "CREATE PROCEDURE outer_one() BEGIN CALL add(1, 'x'); END"),
		proc("change", "CREATE PROCEDURE `change`() UPDATE u SET v = v + 1"),
		proc("again", "CREATE PROCEDURE again(x INT) INSERT INTO t VALUES (x) ON DUPLICATE KEY UPDATE v = 1"),
		proc("loops", "CREATE PROCEDURE loops() CALL loops()")}
	for q, want := range map[string]bool{"CALL add(?, ?)": true, "call outer_one()": true, "CALL `change`()": false, "CALL d.again(?)": false,
		"CALL unknown()": true, "CALL loops()": false, "UPDATE t SET v = ?": false, "INSERT INTO t VALUES (?)": true} {
		if got := once(f, &recording.Text{Schema: "d", Text: q}); got != want {
			t.Errorf("%s can be done once only: %v", q, got)
		}
	}
	f.Programs = append(f.Programs, recording.Program{DB: "D", Kind: "trigger", Name: "tr", Create: "CREATE TRIGGER tr AFTER INSERT ON v FOR EACH ROW BEGIN " +
		"REPLACE LOW_PRIORITY INTO `other`.`w` SELECT replace(NEW.a, 'a', 'b'); INSERT IGNORE x SET a = 1; END"})
	p := plan{f: f}
	if got := fmt.Sprint(slices.Sorted(maps.Keys(p.filled()))); got != "[d.t d.x other.w]" {
		t.Errorf("programs insert into %s", got)
	}
	all, db := insertedBy(f, "CALL add(5, 'it''s')", "d")
	if want := "INSERT INTO t (id, v) VALUES (5, length('it''s')), (7, t.a)"; db != "d" || len(all) != 1 || all[0] != want {
		t.Errorf("%q in %s, want %q", all, db, want)
	}
	if all, _ := insertedBy(f, "CALL add(5)", "d"); all != nil {
		t.Errorf("a call without an argument inserts %q", all)
	}
}

// TestPlacedTables: a table keeps its placement unless its locality goes without, and a region of a
// placement cannot be dropped.
func TestPlacedTables(t *testing.T) {
	f := recorded()
	f.Placements = []string{"CREATE PLACEMENT `p` REGIONS ('" + f.Regions[0].Name + "')"}
	x := &recording.Table{DB: "d", Name: "T", Locality: "table", Region: f.Regions[0].Name, Placement: "PLACEMENT `p`"}
	for to, want := range map[string]string{"": " PLACEMENT `p` LOCALITY REGIONAL BY TABLE IN '" + f.Regions[0].Name + "'",
		"GLOBAL": " LOCALITY GLOBAL", "REGIONAL BY ROW": " PLACEMENT `p` LOCALITY REGIONAL BY ROW"} {
		c := Change{}
		if to != "" {
			c.Localities = map[string]string{"d.t": to}
		}
		p, err := planned(f, c)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.clause(x); got != want {
			t.Errorf("as %q: %q, want %q", to, got, want)
		}
	}
	if _, err := planned(f, Change{Drop: []string{f.Regions[0].Name}}); err == nil || !strings.Contains(err.Error(), "is in a placement") {
		t.Errorf("a region of a placement is dropped: %v", err)
	}
}
