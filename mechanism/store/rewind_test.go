package store

import (
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestImportOfOtherIncarnations: a snapshot from before a group began anew is refused before
// anything depends on it, and a group does not begin anew while one is being installed.
func TestImportOfOtherIncarnations(t *testing.T) {
	g, sibling := base.DataGroup(1, 1), base.DataGroup(1, 2)
	from, to := openMem(t), openMem(t)
	v := Version{Key: userKey(1, 0, "a"), TS: 5, Value: []byte("v"), Label: base.MakeLabel(1, 0, 0),
		Writer: base.GroupIndex{Region: 1, Index: 3}}
	apply(t, from, testEntry{group: g, index: 3, puts: []Version{v}})
	begin := func() *Import {
		e, err := from.ExportShard(1)
		must(t, err)
		defer e.Close()
		i, err := to.ImportShard(1)
		must(t, err)
		i.Incarnations = e.Incarnations
		must(t, e.Chunks(200, i.Add))
		return i
	}
	rewind := func(s *Store) {
		must(t, s.Rewind(sibling, 1, func(*Version) bool { return false }, func(*Batch) error { return nil }))
	}
	old := begin()
	rewind(to)
	if err := old.Hold(); base.CodeOf(err) != base.CodeUnavailable {
		t.Errorf("a snapshot of another incarnation is taken: %v", err)
	}
	must(t, old.Abort())

	rewind(from)
	i := begin()
	must(t, i.Hold())
	done := make(chan error)
	go func() {
		done <- to.Rewind(sibling, 2, func(*Version) bool { return false }, func(*Batch) error { return nil })
	}()
	must(t, i.Finish([]base.GroupID{g}, nil))
	must(t, <-done)
	if n, err := to.Applied(g); err != nil || n != 3 {
		t.Errorf("applied %d (%v)", n, err)
	}
	if n, err := to.Incarnation(sibling); err != nil || n != 2 {
		t.Errorf("incarnation %d (%v)", n, err)
	}
}
