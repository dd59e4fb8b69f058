package kv

import (
	"maps"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// Touched holds the keys that the attempts of a transaction have read ([Options.Touched]), and
// whether the next attempt has to lock. It is not safe for concurrent use.
type Touched struct {
	locks map[string]LockMode
	must  bool
}

const mostTouched = 1 << 12

// Note adds a key, and the lock that was asked for. When there are very many keys, it drops further
// ones.
func (t *Touched) Note(k base.Key, lock LockMode) {
	if t == nil {
		return
	}
	if t.locks == nil {
		t.locks = map[string]LockMode{}
	}
	if old, ok := t.locks[string(k)]; ok || len(t.locks) < mostTouched {
		t.locks[string(k)] = max(old, lock)
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

// Has reports whether a key was noted.
func (t *Touched) Has(k base.Key) bool {
	if t == nil {
		return false
	}
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
