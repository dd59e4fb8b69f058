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
	if err := writeProgram(ctx, t, &p); err != nil {
		return kv.ProgramResult{}, err
	}
	ts, err := t.Commit(ctx)
	return kv.ProgramResult{TS: ts, Rows: rows}, err
}

// writeProgram inserts and deletes.
func writeProgram(ctx context.Context, t kv.Txn, p *kv.Program) error {
	for _, w := range p.Writes {
		if !w.Absent {
			t.Put(w.Key, w.Value, w.Home)
		} else if err := t.Insert(w.Key, w.Value, w.Home); err != nil {
			return err
		}
	}
	for _, d := range p.Deletes {
		rows, err := t.Get(ctx, []base.Key{d.Key}, kv.LockExclusive)
		if err != nil {
			return err
		}
		if rows[0].Value == nil {
			return kv.ProgramUndefined
		}
		t.Delete(d.Key)
		if d.Entries == nil {
			continue
		}
		entries, err := d.Entries(rows[0])
		if err != nil {
			return err
		}
		for _, k := range entries {
			t.Delete(k)
		}
	}
	return nil
}

// fits is why a transaction is no program; nil: it is one.
func (d *DB) fits(p *kv.Program) error {
	keys, once := p.Written()
	switch {
	case len(keys) == 0:
		return kv.ProgramUpdates
	case !once:
		return kv.ProgramTwice
	}
	far := false
	for _, k := range keys {
		far = far || d.far(k)
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
