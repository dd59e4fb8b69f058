package access

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// skipping is the state of a read with SKIP LOCKED. Such a read first looks at rows without locks
// (Next). Then it locks those that pass the filter, unless others have locked them (Lock). A row
// that is not the same under its lock has been changed meanwhile. It is left out as if it were
// locked, though its lock stays until the transaction ends.
type skipping struct {
	at    base.Timestamp // of the snapshot that Next reads
	shown []kv.Row       // the last batch of Next
}

// mostTried is how many rows are tried in one step.
const mostTried = 256

// Lock implements exec.Skipper.
func (r *rows) Lock(sel []int32, want int) ([]int32, error) {
	if r.skip == nil {
		if want > 0 && len(sel) > want {
			sel = sel[:want]
		}
		return sel, nil
	}
	locked := make([]int32, 0, len(sel))
	for len(sel) > 0 && (want == 0 || len(locked) < want) {
		n := min(len(sel), mostTried)
		got, err := r.lockSome(sel[:n], want, locked)
		if err != nil {
			return nil, err
		}
		locked, sel = got, sel[n:]
	}
	return locked, nil
}

// lockSome locks some of the rows of the last batch and adds them to those that are locked. Each
// owner locks no more than are wanted still, and what it locks may have changed, or be another
// owner's by now. So rows that were skipped are tried again as long as others are locked.
func (r *rows) lockSome(sel []int32, want int, locked []int32) ([]int32, error) {
	for first := len(locked); len(sel) > 0; {
		most := 0
		if want > 0 {
			if most = want - len(locked); most <= 0 {
				break
			}
		}
		got, err := r.try(sel, most)
		if err != nil {
			return nil, err
		}
		var skipped []int32
		for i, x := range got {
			switch {
			case x.Skipped:
				skipped = append(skipped, sel[i])
			case x.Value != nil && bytes.Equal(x.Value, r.skip.shown[sel[i]].Value) && (want == 0 || len(locked) < want):
				locked = append(locked, sel[i])
				r.src.Remember(got[i : i+1])
			}
		}
		slices.Sort(locked[first:]) // as they were asked for
		if want == 0 || len(skipped) == len(sel) {
			break
		}
		sel = skipped
	}
	return locked, nil
}

// try locks rows of the last batch; each owner locks no more than most of them (0: all).
func (r *rows) try(sel []int32, most int) ([]kv.Row, error) {
	keys := make([]base.Key, len(sel))
	for i, at := range sel {
		keys[i] = r.skip.shown[at].Key
	}
	got, err := r.src.KV.Get(kv.WithSkip(r.src.Kvctx(r.s.ctx), most), keys, r.src.Take)
	if err != nil {
		return nil, r.src.Txn.Fail(err)
	}
	return got, nil
}
