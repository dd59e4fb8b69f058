package sim

import (
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/history"
	"github.com/godwitdb/godwit/txn"
	"github.com/godwitdb/godwit/txn/multimaster"
)

// promised judges a history by the level that its cluster promises.
func (o *Outcome) promised(h *history.History) *history.Violation {
	switch o.Config.Concurrency {
	case base.ByTimestamp: // and Linearizable, for each key
		return history.Serializable(h)
	case base.ByTimestampRelay:
		return history.RelayConsistent(alone(h))
	}
	return history.StrictSerializable(h)
}

// alone puts transactions whose keys are unknown into regions of their own, so that only conflicts
// order them.
func alone(h *history.History) *history.History {
	out := *h
	out.Txns = slices.Clone(h.Txns)
	for i := range out.Txns {
		if t := &out.Txns[i]; len(t.Regions) == 0 {
			t.Regions = []string{fmt.Sprint("only ", t.ID)}
		}
	}
	return &out
}

// touch notes the regions that a committed transaction is relevant to.
func (t *tx) touch() {
	inner := t.Txn
	if m, ok := inner.(*multimaster.Txn); ok { // which adds the rows of epochs
		inner = m.Inner()
	}
	if x, ok := inner.(*txn.Txn); ok {
		for _, r := range x.Touched() {
			t.rec.Touch(fmt.Sprint("r", r))
		}
	}
}
