package evacuate

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/sql/schema"
)

// mover takes so many moves.
type mover struct {
	most     int
	proposed []homing.Proposal
}

func (m *mover) Propose(p homing.Proposal) { m.proposed = append(m.proposed, p) }
func (m *mover) Waiting() (n, most int)    { return len(m.proposed), m.most }

// Rows are proposed as far as the mover takes them, entries are left to their rows, and what is
// left is said.
func TestRows(t *testing.T) {
	key := func(ix base.IndexID, n int64) base.Key {
		return base.AppendInt64(base.IndexPrefix(1, base.MakeTableID(base.FirstSpace-2, 3), ix, 0), n)
	}
	keys := []base.Key{key(0, 1), key(0, 2), key(0, 3), key(4, 1)}
	m := &mover{most: 2}
	n := &Node{Mover: func() Mover { return m }, Catalog: func() (*schema.Catalog, error) { return nil, nil },
		Living: func(_ base.GroupID, row func(base.Key) bool) (int, error) {
			for _, k := range keys {
				row(k)
			}
			return len(keys), nil
		}}
	g := base.DataGroup(1, 3)
	left, err := n.Rows(t.Context(), g, 2)
	if err != nil || !strings.HasPrefix(left, "4 rows and entries are still at home there") {
		t.Errorf("left: %q, %v", left, err)
	}
	if len(m.proposed) != 2 {
		t.Errorf("%d moves, the mover takes 2", len(m.proposed))
	}
	for _, p := range m.proposed {
		if p.From != 3 || p.To != 2 || !p.Must || p.Key.Index() != 0 {
			t.Errorf("proposed %+v", p)
		}
	}
	keys = nil
	if left, err := n.Rows(t.Context(), g, 2); left != "" || err != nil {
		t.Errorf("nothing is left: %q, %v", left, err)
	}
	n.Mover = func() Mover { return nil }
	if left, _ := n.Rows(t.Context(), g, 2); left == "" {
		t.Error("a node that starts says that nothing is left")
	}
	if names, err := n.Bound(t.Context(), 2); names != nil || err != nil {
		t.Errorf("without SQL: %v, %v", names, err)
	}
}
