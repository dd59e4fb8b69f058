package access

import (
	"slices"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// Take implements exec.Parted.
func (r *rows) Take() (any, error) {
	got, err := r.more()
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got, nil
}

// Ready implements exec.Parted.
func (r *rows) Ready() bool {
	if len(r.pending) > 0 || r.req == nil {
		return true
	}
	ahead, ok := r.req.State.(interface{ Ready() bool })
	return ok && ahead.Ready()
}

// Decoder implements exec.Parted. Rows that are locked one by one or computed, entries of indexes,
// and values that the engine makes are left to Next.
func (r *rows) Decoder() func(part any, b *expr.Batch) error {
	if r.dec == nil || r.homes || r.skip != nil || r.computing != nil || r.entries != nil || r.read.Limit > 0 || r.dec.whole >= 0 ||
		r.src.Take != kv.LockNone || slices.ContainsFunc(r.dec.typs, made) {
		return nil
	}
	d := newDecoder(r.dec.ctx, r.dec.t, r.read.Cols, r.dec.typs)
	return func(part any, b *expr.Batch) error {
		got := part.([]kv.Row)
		d.begin(b, len(got))
		for i := range got {
			if err := d.row(got[i].Value, b, i); err != nil {
				return schema.ClientError(err)
			}
		}
		return nil
	}
}

// made reports whether the engine takes part in decoding values of a type.
func made(t expr.Type) bool { return t.Kind == expr.JSON || t.Kind == expr.Opaque }
