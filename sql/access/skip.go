package access

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// skipping is what a read with SKIP LOCKED knows besides. It looks at rows without locks, and locks
// those that are wanted and that nobody else has locked. What it has looked at is a hint only: a
// row that is not the same under its lock was being changed, and is left out as one that is locked.
type skipping struct {
	at    base.Timestamp // of the look
	shown []kv.Row       // of the last batch
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
		most := 0
		if want > 0 {
			most = want - len(locked)
		}
		got, err := r.try(sel[:n], most)
		if err != nil {
			return nil, err
		}
		tried := n
		if most > 0 {
			tried = triedOf(got, most)
		}
		for i, x := range got[:tried] {
			if shown := &r.skip.shown[sel[i]]; !x.Skipped && x.Value != nil && bytes.Equal(x.Value, shown.Value) &&
				(want == 0 || len(locked) < want) {
				locked = append(locked, sel[i])
				r.src.Remember(got[i : i+1])
			}
		}
		sel = sel[tried:]
	}
	return locked, nil
}

// try locks rows of the last batch, most of them at most (0: all) at each owner.
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

// triedOf is how many of the rows count as tried, if most were to be locked at most: those behind
// the last one that is locked may have been left out for that reason.
func triedOf(got []kv.Row, most int) int {
	n, last := 0, 0
	for i, x := range got {
		if !x.Skipped {
			n, last = n+1, i+1
		}
	}
	if n < most {
		return len(got)
	}
	return last
}
