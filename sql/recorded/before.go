package recorded

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/recording"
)

// This file finds rows that statements meet at their beginning, and that are gone since, and tells
// which of those that there are were not there then.

// beganAt is when the first statement that was kept began; zero: there is none.
func beganAt(parts []recording.Part) (first time.Time, err error) {
	for i := range parts {
		all, err := parts[i].Taken.All()
		if err != nil {
			return first, err
		}
		for _, s := range all {
			if at := time.Unix(0, int64(s.Began)); first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	return first, nil
}

// deleted adds the rows of a table that were there at a moment, or at the oldest one that can be
// read, and are not there now. They are missing where the past cannot be read, as that of a table
// whose definition has changed since.
func (r *reader) deleted(ctx context.Context, at time.Time) {
	if at.IsZero() || r.out.Cut {
		return
	}
	if at.Before(r.s.Since) {
		at = r.s.Since
	}
	n, txn := len(r.out.Rows), r.txn
	r.txn = r.s.DB.Begin(kv.Options{ReadOnly: true, ReadTS: base.FromTime(at)})
	defer func() {
		r.txn.Rollback(context.WithoutCancel(ctx))
		r.txn = txn
	}()
	r.past = true
	if r.read(ctx) != nil {
		r.out.Rows, r.out.Home, r.out.Pinned = r.out.Rows[:n], r.out.Home[:n], r.out.Pinned[:n]
		return
	}
	if !r.out.Cut {
		for _, k := range r.keys {
			r.out.New = append(r.out.New, !r.had[k])
		}
	}
}
