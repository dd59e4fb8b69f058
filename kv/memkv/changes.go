package memkv

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Changes implements kv.DB.
func (d *DB) Changes(_ context.Context, q kv.ChangesRequest) (res kv.ChangesResult, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.UpTo > d.last {
		d.last = q.UpTo // nothing commits at or below it from now on
	}
	room := q.MaxBytes
	if room == 0 {
		room = 1 << 20
	}
	for i, s := range q.Spans {
		for at := d.seek(s.Start); at < len(d.keys) && d.keys[at] < string(s.Limit()); at++ {
			k := d.keys[at]
			if room <= 0 {
				res.Next = append([]base.Span{{Start: base.Key(k), End: s.End}}, q.Spans[i+1:]...)
				return res, nil
			}
			for _, v := range slices.Backward(d.versions[k]) {
				if v.ts <= q.UpTo && (v.ts > q.Since || q.Whole) {
					res.Rows = append(res.Rows, kv.Row{Key: base.Key(k), Value: v.value, TS: v.ts, Home: v.home})
					room -= len(k) + len(v.value)
				}
			}
		}
	}
	return res, nil
}
