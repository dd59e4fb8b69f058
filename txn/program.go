package txn

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

var _ kv.Programs = (*DB)(nil)

// Program implements kv.Programs: the updates are shipped to their owners, which vote for a slot
// (slot.go), and the reads are made at the timestamp just below the slot, once that has come.
func (db *DB) Program(ctx context.Context, opts kv.Options, p kv.Program) (kv.ProgramResult, error) {
	if !db.fits(&p) {
		return kv.ProgramResult{}, kv.ErrNoProgram
	}
	opts.Relay, opts.ReadOnly, opts.ReadTS = true, false, 0
	t := db.Begin(opts).(*Txn)
	defer t.Rollback(context.WithoutCancel(ctx))
	s, err := t.now(ctx)
	if err != nil {
		return kv.ProgramResult{}, err
	}
	t.mode, t.crossing, t.readTS, t.program = bySlot, &crossing{snapshot: s, valid: s}, s, true
	for _, u := range p.Updates {
		t.buffer(nil, &writes.Write{Key: u.Key, Kind: wire.WriteKind_PUT, Home: t.home(0), Patch: u.Patch})
	}
	db.stats.Programs.Add(1)
	ts, err := t.Commit(ctx)
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

// fits reports whether a transaction is of use as a program, and may be one.
func (db *DB) fits(p *kv.Program) bool {
	if db.ordered || len(p.Updates) == 0 || db.slotNames.fresh() {
		return false
	}
	far := false
	seen := make(map[string]bool, len(p.Updates))
	for _, u := range p.Updates {
		g, ok := db.set.Locate(u.Key)
		if !ok || g == base.MetaGroup || u.Patch == nil || seen[string(u.Key)] {
			return false
		}
		seen[string(u.Key)] = true
		far = far || g.Region() != db.cfg.Region
	}
	for _, k := range p.Reads {
		g, ok := db.set.Locate(k)
		if !ok || g == base.MetaGroup {
			return false
		}
		far = far || g.Region() != db.cfg.Region
	}
	return far
}

// slotNames makes the slots of a gateway differ from each other, and from those of all others: a
// slot names its gateway in its lowest bits (REL-13). A process does not know the slots of its
// former life, so programs, which rely on that, wait until these have passed.
type slotNames struct {
	since time.Time // the start of the process
	mu    sync.Mutex
	last  base.Timestamp
}

// slotUnit is the distance between slots of one gateway, in ns: room for the ids of all nodes.
const slotUnit = 1 << 16

// fresh reports whether slots of a former life of the process may still be ahead.
func (n *slotNames) fresh() bool { return time.Since(n.since) < 2*maxSlot }

// next is a slot at or above ts, and below bound if that is not 0; false: there is none.
func (n *slotNames) next(ts, bound base.Timestamp, self base.NodeID) (base.Timestamp, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if bound != 0 && ts >= bound {
		ts = bound.Add(-slotUnit)
	}
	slot := ts&^(slotUnit-1) | base.Timestamp(self)&(slotUnit-1)
	if slot < ts {
		slot += slotUnit
	}
	if slot <= n.last {
		slot = n.last + slotUnit
	}
	if bound != 0 && slot >= bound {
		return 0, false
	}
	n.last = slot
	return slot, true
}
