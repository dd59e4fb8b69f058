// Package touched keeps for a moment which rows of other regions were read here: the policy of
// homes counts strong reads of points at their owners.
package touched

import (
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

const (
	every = 50 * time.Millisecond
	most  = 1000 // rows that one owner is still to be notified of; more are not counted
)

// Rows are what is still to be told. The zero value has none.
type Rows struct {
	mu   sync.Mutex
	rows map[By][]*wire.KV
}

// By is whom to tell, and the region that has read.
type By struct {
	Owner  base.NodeID
	Region uint32
}

// Note adds rows. If there were none, tell is called for each owner in a moment.
func (t *Rows) Note(by By, rows []*wire.KV, tell func(By, []*wire.KV)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) == 0 {
		t.rows = map[By][]*wire.KV{}
		time.AfterFunc(every, func() { t.tell(tell) })
	}
	list := t.rows[by]
	for _, r := range rows {
		if !r.Absent && len(list) < most {
			list = append(list, &wire.KV{Key: r.Key, Label: r.Label})
		}
	}
	t.rows[by] = list
}

func (t *Rows) tell(tell func(By, []*wire.KV)) {
	t.mu.Lock()
	all := t.rows
	t.rows = nil
	t.mu.Unlock()
	for by, rows := range all {
		if len(rows) > 0 {
			tell(by, rows)
		}
	}
}
