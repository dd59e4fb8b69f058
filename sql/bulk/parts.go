package bulk

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/bulk/share"
)

// tally counts rows of files.
type tally struct {
	Rows    int64 `json:"rows"` // that were read
	Skipped int64 `json:"skipped,omitempty"`
	Errors  int64 `json:"errors,omitempty"`
}

func (t *tally) add(o tally) {
	t.Rows, t.Skipped, t.Errors = t.Rows+o.Rows, t.Skipped+o.Skipped, t.Errors+o.Errors
}

// part is rows of a file that follow each other, and were loaded.
type part struct {
	From rowfile.Position `json:"from"`
	To   rowfile.Position `json:"to"`
	tally
}

// parts are what was loaded of a unit. Each has a record, by its first row.
type parts struct {
	*share.Claim
	unit
	// open counts what keeps the unit from being done: its reader, and chunks under way.
	open atomic.Int64

	merging sync.Mutex

	mu    sync.Mutex
	list  []part // in the order of their first rows
	fresh int    // parts since the last merge
}

// openParts reads what was loaded of a unit that this node has claimed.
func openParts(ctx context.Context, c *share.Claim, u unit) (*parts, error) {
	r := &parts{Claim: c, unit: u}
	r.open.Store(1)
	err := c.Records(ctx, func(_ uint64, value []byte) error {
		p, err := partOf(c.Job(), c.Unit, value)
		r.list = append(r.list, p)
		return err
	})
	return r, err
}

func partOf(job uint64, unit int, value []byte) (p part, err error) {
	if err := json.Unmarshal(value, &p); err != nil {
		return p, base.Errorf(base.CodeCorrupt, "a record of job %d, unit %d: %v", job, unit, err)
	}
	return p, nil
}

// note writes the record of a part in the transaction that loads it. done: it was loaded before.
func (r *parts) note(ctx context.Context, t kv.Txn, p *part) (done bool, err error) {
	if err := r.Check(ctx, t); err != nil {
		return false, err
	}
	if done, err = r.Has(ctx, t, uint64(p.From.Row)); err != nil || done {
		return done, err
	}
	return false, r.put(t, p)
}

// put writes the record of a part.
func (r *parts) put(t kv.Txn, p *part) error { return r.Put(t, uint64(p.From.Row), p) }

// loaded notes that a part was loaded, and reports whether records should be merged.
func (r *parts) loaded(p part) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := slices.BinarySearchFunc(r.list, p, func(a, b part) int { return int(a.From.Row - b.From.Row) })
	r.list = slices.Insert(r.list, i, p)
	r.fresh++
	if r.fresh < mergeEvery {
		return false
	}
	r.fresh = 0
	return true
}

// mergeEvery is how many records there are before those that follow each other become one.
const mergeEvery = 64

// next is where the unit goes on at a row: behind what was loaded from there on. most is the row at
// which something begins that was loaded, or another unit.
func (r *parts) next(at rowfile.Position) (to rowfile.Position, most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Row < r.unit.From {
		at.Row = r.unit.From
	}
	if most = r.unit.To; most == 0 {
		most = math.MaxInt64
	}
	for _, p := range r.list {
		switch {
		case p.From.Row == at.Row:
			at = p.To
		case p.From.Row > at.Row:
			return at, min(most, p.From.Row)
		}
	}
	return at, most
}

// merge makes one record of those that follow each other from the beginning of the unit.
func (r *parts) merge(ctx context.Context) error {
	if !r.merging.TryLock() {
		return nil
	}
	defer r.merging.Unlock()
	whole, gone := r.prefix()
	if len(gone) == 0 {
		return nil
	}
	err := r.Run(ctx, func(t kv.Txn) error {
		for _, row := range gone {
			r.Delete(t, row)
		}
		return r.put(t, &whole)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.Replace(r.list, 0, len(gone)+1, whole) // parts that have come meanwhile are behind these
	return nil
}

// prefix is the parts that follow each other from the beginning of the unit as one, and the first
// rows of all but the first.
func (r *parts) prefix() (whole part, gone []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) < 2 || r.list[0].From.Row > r.unit.From {
		return whole, nil
	}
	whole = r.list[0]
	for _, p := range r.list[1:] {
		if p.From.Row != whole.To.Row {
			break
		}
		whole.To = p.To
		whole.add(p.tally)
		gone = append(gone, uint64(p.From.Row))
	}
	return whole, gone
}
