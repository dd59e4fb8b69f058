package kv

import (
	"maps"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// Touched holds what the attempts of a transaction have read ([Options.Touched]), and whether the
// next attempt has to lock. It is not safe for concurrent use.
type Touched struct {
	locks map[string]LockMode // by key; of ranges the start, with LockNone
	must  bool
	known bool // the present attempt has begun to read
}

const mostTouched = 1 << 12

// Next is called as another attempt begins.
func (t *Touched) Next() {
	if t != nil {
		t.known = false
	}
}

// Begin is called before the attempt locks spans. The first ones tell whether it repeats the
// attempts before it. One that begins with something else is another transaction: its client has
// not repeated what was lost, and what that has read is forgotten. Otherwise later attempts would
// lock what their own transaction never reads, and wait for whoever has locked it.
func (t *Touched) Begin(spans []base.Span) {
	if t == nil || t.known || len(spans) == 0 {
		return
	}
	t.known = true
	if !slices.ContainsFunc(spans, func(s base.Span) bool { return t.has(s.Start) }) {
		t.locks = nil
	}
}

// Note adds a key, or a range, and the lock that was asked for. An attempt that begins with it is
// recognised by it; nothing of a range is locked ahead. When there is very much, it drops what
// comes.
func (t *Touched) Note(s base.Span, lock LockMode) {
	if t == nil {
		return
	}
	if t.locks == nil {
		t.locks = map[string]LockMode{}
	}
	if !s.IsPoint() {
		lock = LockNone
	}
	if old, ok := t.locks[string(s.Start)]; ok || len(t.locks) < mostTouched {
		t.locks[string(s.Start)] = max(old, lock)
	}
}

// Lock says that the next attempt has to lock: it does what cannot be done at a slot. It reports
// whether there is somebody to tell.
func (t *Touched) Lock() bool {
	if t != nil {
		t.must = true
	}
	return t != nil
}

// MustLock reports whether the next attempt has to lock.
func (t *Touched) MustLock() bool { return t != nil && t.must }

// Empty reports whether nothing was noted.
func (t *Touched) Empty() bool { return t == nil || len(t.locks) == 0 }

func (t *Touched) has(k base.Key) bool {
	_, ok := t.locks[string(k)]
	return ok
}

// Keys lists the keys for which a lock was asked for.
func (t *Touched) Keys(lock LockMode) (out []base.Key) {
	if t.Empty() {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(t.locks)) {
		if t.locks[k] == lock {
			out = append(out, base.Key(k))
		}
	}
	return out
}
