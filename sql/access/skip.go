package access

import (
	"bytes"

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

// mostTried is how many rows one step tries to lock, at most.
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

// triedOf is how many of the rows, from the first one on, count as tried, if an owner locks no more
// than most. Rows behind the last locked one may have been skipped for that bound alone, so they
// are tried again. With several owners that may be true of rows before it, too: these are left out.
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
