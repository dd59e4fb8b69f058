package sim

import (
	"fmt"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/history"
	"github.com/godwitdb/godwit/txn"
)

// promised judges a history by what its cluster promises beyond what is checked of all.
func (o *Outcome) promised(h *history.History) *history.Violation {
	switch o.Config.Concurrency {
	case base.ByTimestamp: // and Linearizable, for each key
		return history.Serializable(h)
	case base.ByTimestampRelay:
		for i := range h.Txns {
			if t := &h.Txns[i]; len(t.Regions) == 0 { // nobody knows what it touched: only conflicts order it
				t.Regions = []string{fmt.Sprint("only ", t.ID)}
			}
		}
		return history.RelayConsistent(h)
	}
	return history.StrictSerializable(h)
}

// touch notes the regions that a committed transaction is relevant to.
func (t *tx) touch() {
	if x, ok := t.Txn.(*txn.Txn); ok {
		for _, r := range x.Touched() {
			t.rec.Touch(fmt.Sprint("r", r))
		}
	}
}
