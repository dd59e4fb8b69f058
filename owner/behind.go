package owner

import (
	"context"
	"errors"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Ownership may come by the log of another group: a row that moves here, or a split of a foreign gap. The entry that gives
// it away relies on what its proposer had applied of the shard's other groups (its vector), and this replica may have
// applied that entry before them: a key of a third group can be hidden in the gap that just came. So an owner acts on such
// a label only in a view in which all of that is visible (PROTOCOLS C3).

// known are, by region, indexes of the sibling groups' logs: whatever the vectors of the entries up to there name is visible.
type known [16]uint64

// behind is the error of a view that does not show all that one of its labels relies on; the read or commit is tried again.
type behind struct {
	region base.RegionID // whose log the label is from
	upTo   uint64        // of that log
	need   []*wire.GroupIndex
}

func (b *behind) Error() string { return "the replica has not applied what a label relies on" }

// known is taken before a view of the store is opened.
func (r *Replica) known() (k known) {
	for i := range k {
		k[i] = r.settledTo[i].Load()
	}
	return k
}

// relies checks that all is visible that the entry relies on which made this group the owner of something.
func (r *Replica) relies(k *known, region base.RegionID, index uint64) error {
	if index == 0 || region == r.region || int(region) >= len(k) || index <= k[region] {
		return nil
	}
	sib := r.set.siblings(r.shard)[region]
	if sib == nil {
		return base.Errorf(base.CodeUnavailable, "group %v has no replica on node %d, which holds its shard: it is being set up", base.DataGroup(r.shard, region), r.cfg.Self)
	}
	b := &behind{region: region}
	sib.mu.Lock()
	b.upTo = sib.applied.Load()
	for i, v := range sib.rep.join {
		if v > 0 && base.RegionID(i) != region {
			b.need = append(b.need, &wire.GroupIndex{Region: uint32(i), Index: v})
		}
	}
	sib.mu.Unlock()
	return b
}

// caughtUp waits, after such an error, until a new view will do. Any other error is passed on, nil too.
func (r *Replica) caughtUp(ctx context.Context, err error) (again bool, _ error) {
	var b *behind
	if !errors.As(err, &b) {
		return false, err
	}
	if err := r.waitVector(ctx, b.need); err != nil {
		return false, err
	}
	c := &r.settledTo[b.region]
	for old := c.Load(); old < b.upTo && !c.CompareAndSwap(old, b.upTo); old = c.Load() {
	}
	return true, nil
}
