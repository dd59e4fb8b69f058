package memkv

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
)

var _ kv.Programs = (*DB)(nil)

// Program implements kv.Programs, under locks.
func (d *DB) Program(ctx context.Context, opts kv.Options, p kv.Program) (kv.ProgramResult, error) {
	if err := d.fits(&p); err != nil {
		return kv.ProgramResult{}, err
	}
	opts.ReadOnly, opts.ReadTS = false, 0
	t := d.Begin(opts)
	defer t.Rollback(context.WithoutCancel(ctx))
	for _, pin := range p.Pins {
		t.Pin(pin.TS, pin.Key)
	}
	keys := make([]base.Key, len(p.Updates))
	for i, u := range p.Updates {
		keys[i] = u.Key
	}
	written, err := t.Get(ctx, keys, kv.LockExclusive)
	if err != nil {
		return kv.ProgramResult{}, err
	}
	rows, err := t.Get(ctx, p.Reads, kv.LockShared)
	if err != nil {
		return kv.ProgramResult{}, err
	}
	for i, u := range p.Updates {
		v, ok := patch.Apply(u.Patch, written[i].Value)
		if written[i].Value == nil || !ok {
			return kv.ProgramResult{}, kv.ProgramUndefined
		}
		t.Put(u.Key, v, 0)
	}
	ts, err := t.Commit(ctx)
	return kv.ProgramResult{TS: ts, Rows: rows}, err
}

// fits is why a transaction is no program; nil: it is one.
func (d *DB) fits(p *kv.Program) error {
	if len(p.Updates) == 0 {
		return kv.ProgramUpdates
	}
	far, seen := false, map[string]bool{}
	for _, u := range p.Updates {
		if seen[string(u.Key)] {
			return kv.ProgramTwice
		}
		seen[string(u.Key)] = true
		far = far || d.far(u.Key)
	}
	for _, k := range p.Reads {
		far = far || d.far(k)
	}
	if !far {
		return kv.ProgramLocal
	}
	return nil
}

// far reports whether a row is at home in another region.
func (d *DB) far(k base.Key) bool {
	_, r := d.Owner(k)
	return r != 0 && r != d.region
}
