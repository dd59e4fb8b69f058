package schema

import (
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// A table may have shards of its own (docs/protocol.md, SPLIT-1 to SPLIT-4): so many in each of its
// placements, or copy sets. Which these are is said where the placement is.

// Splits reports whether tables of the locality can have shards of their own.
func (l Locality) Splits() bool { return (l.Kind == ByRow || l.Kind == ByTable) && !l.Async }

// checkSplit refuses shards of their own for tables that cannot have any.
func (l Locality) checkSplit() error {
	switch {
	case l.Split == 0 || l.Splits():
	case l.Async:
		return Invalid("tables that replicate asynchronously share their shards: REPLICATION ASYNC and SPLIT INTO exclude each other")
	default:
		return Invalid("GLOBAL and MULTI MASTER tables lie whole at every node: they have no shards of their own")
	}
	if l.Split < 0 || l.Split > base.MaxOwnShards {
		return Invalid(fmt.Sprintf("a table has 1 to %d shards of its own, and not %d", base.MaxOwnShards, l.Split))
	}
	return nil
}

// ShardCount is how many shards a table has in each of its placements, in a cluster with so many
// that tables share.
func (l Locality) ShardCount(shared int) int {
	if l.Split != 0 {
		return l.Split
	}
	return shared
}

// Families are the placements and copy sets in which the table has shards, each once.
func (l Locality) Families() []base.Placed {
	if l.Sets != nil {
		return l.Sets
	}
	return l.Places()
}

// WithOwn is the locality of a table with so many shards of its own, which lie behind those that
// own says, by placement or copy set; of one that shares shards with others if split is 0. Nothing
// of the old one is changed. It fails if own lacks one.
func (l Locality) WithOwn(split int, own map[base.PlacementID]int) (Locality, error) {
	l.Split = split
	missing := false
	set := func(p *base.Placed) {
		if p.Own = 0; split != 0 {
			p.Own = own[p.ID]
			missing = missing || p.Own == 0
		}
	}
	switch {
	case l.Sets != nil:
		l.Placed.Own = 0
		l.Sets = slices.Clone(l.Sets)
		for i := range l.Sets {
			set(&l.Sets[i])
		}
	case l.Parts != nil:
		parts := *l.Parts
		parts.List = slices.Clone(parts.List)
		for i := range parts.List {
			set(&parts.List[i].Placed)
		}
		l.Parts = &parts
	default:
		set(&l.Placed)
	}
	if missing {
		return l, base.Errorf(base.CodeSchemaChanged, "the placement of the table was changed meanwhile: try again")
	}
	return l, nil
}
