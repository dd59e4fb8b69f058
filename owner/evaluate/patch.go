package evaluate

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// patched is what is to be logged of a write with a patch: a vote for a slot has only to know that
// it is defined over the row.
func (l *look) patched(w *wire.Write, p *view.Place, there bool) (*wire.Write, error) {
	if there {
		if value, ok := patch.Apply(w.Patch, p.V.Value); ok && l.Request.Slot != 0 {
			if patch.Stacks(w.Patch) {
				l.Stacked = append(l.Stacked, Stacked{Key: w.Key, Patch: w.Patch, Value: bytes.Clone(p.V.Value)})
			}
			return w, nil
		} else if ok {
			return &wire.Write{Kind: w.Kind, Key: w.Key, Value: value, Label: w.Label}, nil
		}
	}
	return nil, base.Changed(l.Request.Txn.Id, "updates", w.Key)
}

// Stacked is a patch that may be pending beside others of its row, and the newest value of the row.
type Stacked struct {
	Key   base.Key
	Patch *wire.Patch
	Value []byte
}

// Unstackable finds a pending transaction whose patch of a row, together with the others there, and
// the one that is to come, might not be defined: it has to end first.
func Unstackable(stacked []Stacked, x *txns.Txn, slots map[*txns.Txn]struct{}) *txns.Txn {
	for i := range stacked {
		s := &stacked[i]
		ps := []*wire.Patch{s.Patch}
		var last *txns.Txn
		for p := range slots {
			if pt := p.Patches[string(s.Key)]; pt != nil && p != x {
				last, ps = p, append(ps, pt)
			}
		}
		if last != nil && !patch.Joint(s.Value, ps) {
			return last
		}
	}
	return nil
}

// Interval is the timestamps at which an attempt may commit: [TS, Hi) of a vote, TS of a commit. Hi
// 0 is no bound.
type Interval struct{ TS, Hi base.Timestamp }

// Spoiled finds a transaction with a slot whose patch would not be defined over what an attempt of
// x writes, and moves the attempt off slots with such patches: no two versions of a row have one
// timestamp, and an interval of timestamps does not contain a slot.
func (a *Attempt) Spoiled(x *txns.Txn, slots map[*txns.Txn]struct{}, writes []*wire.Write, at *Interval) *txns.Txn {
	if p := crowded(x, slots, writes); p != nil {
		return p
	}
	for again := true; again; {
		again = false
		for p := range slots {
			if len(p.Patches) == 0 || p == x {
				continue
			}
			moved, spoils := a.spoils(p, writes, at)
			if spoils {
				return p
			}
			again = again || moved
		}
	}
	return nil
}

// crowded finds a transaction with one of several patches of a row that would not all be defined
// over what x writes.
func crowded(x *txns.Txn, slots map[*txns.Txn]struct{}, writes []*wire.Write) *txns.Txn {
	for _, w := range writes {
		var ps []*wire.Patch
		var last *txns.Txn
		for p := range slots {
			if pt := p.Patches[string(w.Key)]; pt != nil && p != x {
				last, ps = p, append(ps, pt)
			}
		}
		if len(ps) > 1 && !patch.Joint(w.Value, ps) {
			return last
		}
	}
	return nil
}

// spoils reports whether the writes would leave a patch of p undefined. moved: the attempt has been
// moved off the slot of p.
func (a *Attempt) spoils(p *txns.Txn, writes []*wire.Write, at *Interval) (moved, spoils bool) {
	for _, w := range writes {
		pt := p.Patches[string(w.Key)]
		if pt == nil {
			continue
		}
		if at.TS == p.TS {
			at.TS, moved = at.TS.Next(), true
		}
		if at.TS < p.TS && (at.Hi == 0 || at.Hi > p.TS) && a.Request.Prepare {
			at.Hi = p.TS
		}
		switch {
		case w.Move != 0 || w.Kind == wire.WriteKind_MOVE || a.Group.HandsOver(w):
			return moved, true // it takes the row elsewhere, or logs the value that it has now
		case at.TS > p.TS:
		case w.Kind == wire.WriteKind_DELETE:
			return moved, true
		default:
			if _, ok := patch.Apply(pt, w.Value); !ok {
				return moved, true
			}
		}
	}
	return moved, false
}

// ValueAt is what a patch makes of its row as of just below the slot; false if it is not defined
// there.
func ValueAt(rd *store.Reader, w *wire.Write, slot base.Timestamp) (value []byte, ok bool, err error) {
	old, there, err := rd.Get(w.Key, slot.Prev())
	if err != nil || !there || old.Tombstone {
		return nil, false, err
	}
	if value, ok = patch.Apply(w.Patch, old.Value); !ok {
		return nil, false, nil
	}
	return value, true, nil
}
