package node

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPlacementRace: a placement is dropped while a table is being moved into it. One of the two
// loses, whenever the drop comes: no table lies in a placement that is gone.
func TestPlacementRace(t *testing.T) { bubble(t, placementRace) }

func placementRace(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	a, b := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[1], "")
	mustExec(t, a, "CREATE DATABASE d")
	moved, dropped := 0, 0
	for i := range 24 {
		p := fmt.Sprint("p", i)
		mustExec(t, a, "CREATE PLACEMENT "+p+" REGIONS ('"+l.Regions()[0]+"', '"+l.Regions()[1]+"')")
		mustExec(t, a, fmt.Sprintf("CREATE TABLE d.t%d (a INT, c INT, PRIMARY KEY (a, c))", i))
		to := p
		if i%2 == 1 {
			to = "BY (c) ((1) IN " + p + ", DEFAULT IN NONE)"
		}
		var wg sync.WaitGroup
		var move, drop error
		// The drop comes up to 100 ms before the move, or up to 475 ms after it.
		after := time.Duration(i-4) * 25 * time.Millisecond
		wg.Go(func() {
			time.Sleep(max(0, -after))
			_, move = a.ExecContext(t.Context(), fmt.Sprintf("ALTER TABLE d.t%d SET PLACEMENT %s", i, to))
		})
		wg.Go(func() {
			time.Sleep(max(0, after))
			_, drop = b.ExecContext(t.Context(), "DROP PLACEMENT "+p)
		})
		wg.Wait()
		text := column(t, a, fmt.Sprintf("SHOW CREATE TABLE d.t%d", i))[0]
		_, clause, _ := strings.Cut(text, "PLACEMENT")
		switch lies := strings.Contains(clause, "`"+p+"`"); {
		case lies && drop == nil:
			t.Fatalf("the drop %v after: the placement is gone, and the table says PLACEMENT%s", after, clause)
		case lies != (move == nil):
			t.Fatalf("the drop %v after: %v, and the table says PLACEMENT%s", after, move, clause)
		case move == nil:
			moved++
		case drop != nil:
			t.Fatalf("the drop %v after: both fail: %v, %v", after, move, drop)
		default:
			dropped++
		}
	}
	if moved == 0 || dropped == 0 {
		t.Errorf("%d tables were moved, %d placements dropped: the two did not meet", moved, dropped)
	}
}
