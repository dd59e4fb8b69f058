package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestDirectory plays announcements of leaders, in the order in which they arrive.
func TestDirectory(t *testing.T) {
	datadriven.Walk(t, "testdata/directory", func(t *testing.T, path string) {
		dir := NewDirectory()
		began := time.Now()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			a := args{t, d}
			var g base.GroupID
			switch d.Cmd {
			case "heard": // from=1 group=s1@r1 term=3 closed=10 [incarnation=1]
				var err error
				if g, err = base.ParseGroup(a.text("group")); err != nil {
					d.Fatalf(t, "%v", err)
				}
				l := &wire.GroupLead{Group: uint32(g), Term: uint64(a.numbers("term")[0]), Closed: uint64(a.numbers("closed")[0])}
				if a.has("incarnation") {
					l.Incarnation = uint32(a.numbers("incarnation")[0])
				}
				dir.Heard(a.nodes("from")[0], l, began)
			case "leader":
				g = a.group()
			default:
				d.Fatalf(t, "no command %s", d.Cmd)
			}
			closed, _ := dir.Closed(g)
			return fmt.Sprintf("%v: n%d, incarnation %d, closed %d", g, dir.Leader(g), dir.Incarnation(g), closed)
		})
	})
}
