package evaluate

import (
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestLockRuns: many rows of one table are locked as one range if that is free; few rows, and
// entries of indexes, are left to be locked one by one.
func TestLockRuns(t *testing.T) {
	keys := func(table base.TableID, index base.IndexID, n int) (out []base.Span) {
		for i := range n {
			out = append(out, base.PointSpan(base.AppendUint64(base.IndexPrefix(1, table, index, 1), uint64(i))))
		}
		return out
	}
	const together = 20
	few, index := keys(8, 0, together-1), keys(9, base.ByHome|2, together)
	many, more := keys(10, 0, together), keys(11, 0, together+1)
	all := append(append(append(append([]base.Span{}, few...), index...), many...), more...)
	for _, c := range []struct {
		name  string
		taken base.TableID // others hold a lock in it
		rest  int
		tried int
	}{
		{"free", 0, len(few) + len(index), 2},
		{"held", 10, len(few) + len(index) + len(many), 2},
	} {
		var tried []base.Span
		rest, err := LockRuns(all, together, func(s base.Span) (bool, error) {
			tried = append(tried, s)
			return s.Start.Table() != c.taken, nil
		})
		if err != nil || len(rest) != c.rest || len(tried) != c.tried {
			t.Errorf("%s: %d keys are left after %d ranges, want %d after %d (%v)", c.name, len(rest), len(tried), c.rest,
				c.tried, err)
		}
		for i, run := range [][]base.Span{many, more} {
			first, last := run[0].Start, run[len(run)-1].Start
			if s := tried[i]; s.Start.Compare(first) != 0 || !s.Contains(last) || s.Contains(last.Next()) {
				t.Errorf("%s: range %v is not that from %v to %v", c.name, s, first, last)
			}
		}
	}
	failed := base.Errorf(base.CodeAborted, "lost")
	if _, err := LockRuns(many, together, func(base.Span) (bool, error) { return false, failed }); err != failed {
		t.Errorf("the error of a lock is lost: %v", err)
	}
}
