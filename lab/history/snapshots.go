package history

import (
	"cmp"
	"fmt"
	"slices"
)

// SnapshotWrite is a committed version of a key.
type SnapshotWrite struct {
	Key, Value string
	TS         uint64
	Unknown    bool // whether it committed is not known, nor is TS
}

// SnapshotRead is what a client was shown of some keys at one timestamp; absent keys have no value.
// Reads of a client are in the order in which it made them, whatever nodes it asked.
type SnapshotRead struct {
	Client int
	Node   int
	TS     uint64
	Rows   map[string]string
}

// CheckSnapshots finds replica reads that were torn, incomplete or otherwise not the snapshot of
// their timestamp, and clients whose snapshots went backwards.
func CheckSnapshots(writes []SnapshotWrite, reads []SnapshotRead) error {
	versions := map[string][]SnapshotWrite{}
	unknown := map[[2]string]bool{}
	for _, w := range writes {
		if w.Unknown {
			unknown[[2]string{w.Key, w.Value}] = true
			continue
		}
		versions[w.Key] = append(versions[w.Key], w)
	}
	for k := range versions {
		slices.SortFunc(versions[k], func(a, b SnapshotWrite) int { return cmp.Compare(a.TS, b.TS) })
	}
	last := map[int]SnapshotRead{}
	for _, r := range reads {
		if old, ok := last[r.Client]; ok && r.TS < old.TS {
			return fmt.Errorf("client %d was shown snapshot %d at node %d, and then %d at node %d", r.Client, old.TS,
				old.Node, r.TS, r.Node)
		}
		last[r.Client] = r
		for key, got := range r.Rows {
			if unknown[[2]string{key, got}] {
				continue
			}
			vs := versions[key]
			n, exact := slices.BinarySearchFunc(vs, r.TS, func(w SnapshotWrite, ts uint64) int { return cmp.Compare(w.TS, ts) })
			if exact {
				n++
			}
			want := ""
			if n > 0 {
				want = vs[n-1].Value
			}
			if got != want {
				return fmt.Errorf("client %d at node %d: the snapshot of %d has %s = %q; it was shown %q", r.Client,
					r.Node, r.TS, key, want, got)
			}
		}
	}
	return nil
}
