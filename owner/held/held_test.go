package held

import (
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// A shard is whole when it has the replicas of all groups that count, whatever else is there.
func TestTable(t *testing.T) {
	a, b, c := base.DataGroup(1, 1), base.DataGroup(1, 2), base.DataGroup(1, 3)
	counted := []base.GroupID{base.MetaGroup, a, b}
	table := New[int](func() []base.GroupID { return counted })
	one, two, three := 1, 2, 3
	is := func(what string, holds bool, siblings, counts int) {
		t.Helper()
		n := func(s *Siblings[int]) (n int) {
			for _, r := range s {
				if r != nil {
					n++
				}
			}
			return n
		}
		if got := table.Holds(1); got != holds {
			t.Errorf("%s: holds the shard: %v", what, got)
		}
		if x, y := n(table.Siblings(1)), n(table.Counted(1)); x != siblings || y != counts {
			t.Errorf("%s: %d siblings, of which %d count", what, x, y)
		}
		if got := slices.Contains(table.Whole(), 1); got != holds {
			t.Errorf("%s: whole: %v", what, got)
		}
	}
	is("nothing is here", false, 0, 0)
	table.Put(a, &one)
	is("one of two", false, 1, 1)
	table.Put(c, &three)
	is("one that does not count", false, 2, 1)
	table.Put(b, &two)
	is("both", true, 3, 2)
	counted = append(counted, c)
	is("nobody has counted anew", true, 3, 2)
	table.Recount()
	is("the third counts", true, 3, 3)
	table.Put(c, nil)
	is("it is missing", false, 2, 2)
	if all := table.All(); len(all) != 2 || *all[0] != 1 || *all[1] != 2 || table.Len() != 2 || table.Get(c) != nil || *table.Get(b) != 2 {
		t.Errorf("all: %v", all)
	}
	bare := New[int](nil)
	bare.Put(a, &one)
	if !bare.Holds(1) || bare.Counted(1)[1] != &one {
		t.Error("without groups, what is here does not count")
	}
}
