package txn

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

var _ kv.Programs = (*DB)(nil)

// Program implements kv.Programs: the writes are shipped to their owners, which vote for a slot
// (slot.go), and the reads are made at the timestamp just below the slot, once that has come.
func (db *DB) Program(ctx context.Context, opts kv.Options, p kv.Program) (kv.ProgramResult, error) {
	if err := db.fits(&p); err != nil {
		return kv.ProgramResult{}, err
	}
	opts.Relay, opts.ReadOnly, opts.ReadTS = true, false, 0
	t := db.Begin(opts).(*Txn)
	defer t.Rollback(context.WithoutCancel(ctx))
	s, err := t.now(ctx)
	if err != nil {
		return kv.ProgramResult{}, err
	}
	t.mode, t.crossing, t.readTS, t.program = bySlot, &crossing{snapshot: s, valid: s}, s, true
	if err := t.programmed(ctx, &p); err != nil {
		return kv.ProgramResult{}, err
	}
	for _, pin := range p.Pins {
		t.Pin(pin.TS, pin.Key)
	}
	if len(p.Reads) > 0 {
		db.cfg.Reads.Want() // so that the copies here are complete up to the slot soon after it
	}
	db.stats.Programs.Add(1)
	ts, err := t.Commit(ctx)
	if err == errNoSlot {
		err = kv.ProgramUnheld
	}
	if err != nil || len(p.Reads) == 0 {
		return kv.ProgramResult{TS: ts}, err
	}
	rows, err := db.readBelow(ctx, opts, ts, p.Reads)
	if err != nil {
		err = base.Errorf(base.CodeAmbiguous, "transaction %v committed at %s, but what it read could not be had in time: %v",
			t.id, ts, err)
	}
	return kv.ProgramResult{TS: ts, Rows: rows}, err
}

// programmed takes in what a program writes.
func (t *Txn) programmed(ctx context.Context, p *kv.Program) error {
	for _, u := range p.Updates {
		// A look at the copy here costs no trip, a vote that refuses does.
		if row, at, err := t.glance(ctx, u.Key); err != nil {
			return err
		} else if at != 0 {
			if _, ok := patch.Apply(u.Patch, row.Value); !ok || row.Value == nil {
				return kv.ProgramUndefined
			}
		}
		t.buffer(nil, &writes.Write{Key: u.Key, Kind: wire.WriteKind_PUT, Home: t.home(u.Key, 0), Patch: u.Patch})
	}
	for _, w := range p.Writes {
		if !w.Absent || t.db.cfg.BlindPrograms {
			t.Put(w.Key, w.Value, w.Home)
		} else if err := t.Insert(w.Key, w.Value, w.Home); err != nil {
			return err
		}
	}
	for _, d := range p.Deletes {
		if err := t.programDelete(ctx, d); err != nil {
			return err
		}
	}
	return t.err
}

// programDelete deletes a row as the copy here shows it. What goes with it follows from that, so
// the vote makes sure that it has not changed since (REL-14).
func (t *Txn) programDelete(ctx context.Context, d kv.ProgramDelete) error {
	row, at, err := t.glance(ctx, d.Key)
	switch {
	case err != nil:
		return err
	case at == 0:
		return kv.ProgramUnseen
	case row.Value == nil:
		return kv.ProgramUndefined
	}
	var keys []base.Key
	if d.Entries != nil {
		if keys, err = d.Entries(row); err != nil {
			return err
		}
	}
	for _, k := range append(keys, d.Key) {
		if t.buf.Get(k) != nil {
			return kv.ProgramTwice
		}
		t.Delete(k)
	}
	if !t.db.cfg.BlindPrograms {
		t.reads = append(t.reads, base.PointSpan(d.Key))
		t.crossing.valid = min(t.crossing.valid, at)
	}
	return nil
}

// readBelow reads rows as they were just below a timestamp that has passed.
func (db *DB) readBelow(ctx context.Context, opts kv.Options, ts base.Timestamp, keys []base.Key) ([]kv.Row, error) {
	at := ts.Prev()
	if db.cfg.EarlyPrograms > 0 {
		at = ts.Add(-db.cfg.EarlyPrograms)
	}
	x := db.Begin(kv.Options{ReadOnly: true, ReadTS: at, Source: opts.Source, Trace: opts.Trace})
	defer x.Rollback(context.WithoutCancel(ctx))
	return x.Get(ctx, keys, kv.LockNone)
}

// fits is why a transaction is of no use as a program, or may not be one; nil: it may.
func (db *DB) fits(p *kv.Program) error {
	keys, once := p.Written()
	switch {
	case db.ordered:
		return kv.ProgramOrdered
	case len(keys) == 0:
		return kv.ProgramUpdates
	case db.slotNames.Fresh():
		return kv.ProgramFresh
	case !once:
		return kv.ProgramTwice
	}
	far := false
	for _, k := range append(keys, p.Reads...) {
		g, ok := db.set.Locate(k)
		if !ok || g == base.MetaGroup {
			return kv.ProgramElsewhere
		}
		far = far || g.Region() != db.cfg.Region
	}
	if !far {
		return kv.ProgramLocal
	}
	return nil
}
