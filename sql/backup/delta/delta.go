// Package delta reads what has changed between two moments, by the timestamps of commits: of each
// key that was written in between, what it was at the first moment and what it is at the second.
// Blocks of the stores without such versions are not read.
package delta

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// getAtOnce is how many keys one read of the past has.
const getAtOnce = 1000

// Change is a key that was written in the period.
type Change struct {
	Key base.Key
	// Was and Is are the row at the beginning and at the end of the period; nil: there was none.
	Was, Is *kv.Row
}

// Period is above Since, at or below UpTo.
type Period struct {
	Since, UpTo base.Timestamp
	// At runs a read of the past, as often as it takes.
	At func(ctx context.Context, ts base.Timestamp, fn func(context.Context, kv.Txn) error) error
	// MaxBytes bounds a page, but for the versions of its last key.
	MaxBytes int
}

// Read calls fn with the changes of a span within one shard, page by page, in the order of keys.
// All changes of keys below next have been told then; nil: all of the span. It fails with
// [base.CodeTooOld] if versions of the period, or what there was before it, may have been
// collected; fn may have been called before that.
func (p *Period) Read(ctx context.Context, db kv.DB, span base.Span, fn func(page []Change, next base.Key) error) error {
	for spans := []base.Span{span}; len(spans) > 0; {
		var res kv.ChangesResult
		err := p.At(ctx, p.UpTo, func(ctx context.Context, _ kv.Txn) (err error) {
			res, err = db.Changes(ctx, kv.ChangesRequest{Spans: spans, Since: p.Since, UpTo: p.UpTo, MaxBytes: p.MaxBytes})
			return err
		})
		if err != nil {
			return err
		}
		page, err := p.page(ctx, res.Rows)
		if err != nil {
			return err
		}
		var next base.Key
		if spans = res.Next; len(spans) > 0 {
			next = spans[0].Start
		}
		if err := fn(page, next); err != nil {
			return err
		}
	}
	return nil
}

// page makes changes of versions, of which the newest of a key comes first.
func (p *Period) page(ctx context.Context, versions []kv.Row) ([]Change, error) {
	var page []Change
	var keys []base.Key
	for i := range versions {
		v := &versions[i]
		if n := len(keys); n > 0 && keys[n-1].Compare(v.Key) == 0 {
			continue
		}
		c := Change{Key: v.Key}
		if v.Value != nil {
			c.Is = v
		}
		page, keys = append(page, c), append(keys, v.Key)
	}
	for from := 0; from < len(keys); from += getAtOnce {
		some := keys[from:min(from+getAtOnce, len(keys))]
		err := p.At(ctx, p.Since, func(ctx context.Context, k kv.Txn) error {
			rows, err := k.Get(ctx, some, kv.LockNone)
			for i := range rows {
				if page[from+i].Was = nil; err == nil && rows[i].Value != nil {
					page[from+i].Was = &rows[i]
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}
