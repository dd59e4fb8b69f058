package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/godwitdb/godwit/base"
)

// IterOptions of a scan.
type IterOptions struct {
	Reverse  bool
	KeysOnly bool // Version.Value is left nil
}

// Iter walks the newest version at or below a timestamp of each key of a span,
// tombstones included, in key order or in reverse.
type Iter struct {
	r       *Reader
	it      *pebble.Iterator
	lent    bool // it is the reader's own
	ts      base.Timestamp
	opts    IterOptions
	started bool
	v       Version
	key     []byte // reverse: memory of v.Key, the current engine prefix
	val     []byte // reverse: memory of the encoded value
	seek    []byte
	err     error
}

// stepsBeforeSeek is how many versions of a key are stepped over before a seek
// takes over; a seek costs about as much as a few steps.
const stepsBeforeSeek = 4

// Iter starts a scan of the reader's view over a span within one shard. Errors come from Err after
// Next returned false: base.CodeTooOld when ts is below the collection threshold.
func (r *Reader) Iter(span base.Span, ts base.Timestamp, opts IterOptions) *Iter {
	i := &Iter{r: r, ts: ts, opts: opts}
	r.open()
	if i.err = r.checkAge(span.Start, ts); i.err != nil {
		return i
	}
	if r.err != nil || r.view == nil {
		_, i.err = r.iter()
		return i
	}
	limit := span.Limit()
	buf := make([]byte, 0, len(span.Start)+len(limit)+4)
	buf = appendVersionKey(buf, span.Start, 0)
	n := len(buf)
	buf = appendVersionKey(buf, limit, 0)
	lo, hi := buf[:n:n], buf[n:]
	if !r.lent {
		r.lent, i.lent = true, true
		i.it = r.view
		i.it.SetBounds(lo, hi)
		return i
	}
	it, err := r.view.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: lo, UpperBound: hi}})
	if err != nil {
		i.err = r.s.wrap(err)
		return i
	}
	i.it = it
	return i
}

// Next moves to the next key that has a version at or below the timestamp.
func (i *Iter) Next() bool {
	if i.err != nil || i.it == nil {
		return false
	}
	if i.opts.Reverse {
		return i.prev()
	}
	return i.next()
}

// Version is the current one; its memory is valid until Next or Close.
func (i *Iter) Version() Version { return i.v }

// Err is what ended the scan early, if anything did.
func (i *Iter) Err() error { return i.err }

// Close ends the scan.
func (i *Iter) Close() {
	if i.it == nil {
		return
	}
	if i.lent {
		// Its bounds stay: the engine goes to the next range without a seek from the top.
		i.r.lent = false
	} else {
		_ = i.it.Close()
	}
	i.it = nil
}

func (i *Iter) next() bool {
	it := i.it
	var ok bool
	if i.started {
		// Most keys have one version: a step is cheaper than the seek that NextPrefix is in a
		// memtable.
		i.key = append(i.key[:0], prefixOf(it.Key())...)
		if ok = it.Next(); ok && bytes.Equal(prefixOf(it.Key()), i.key) {
			ok = it.NextPrefix()
		}
	} else {
		i.started = true
		ok = it.First()
	}
	for steps := 0; ok; {
		ek := it.Key()
		ts := versionTS(ek)
		if ts == 0 {
			i.err = i.malformed(ek)
			return false
		}
		if ts <= i.ts {
			return i.emit(ek)
		}
		// Too new: step to an older version, or to the next key; when there are many, seek.
		if steps++; steps%stepsBeforeSeek != 0 {
			ok = it.Next()
			continue
		}
		if i.ts == 0 {
			ok = it.NextPrefix()
			continue
		}
		i.seek = append(i.seek[:0], ek[:len(ek)-tsSuffixLen-1]...)
		i.seek = sealAt(i.seek, i.ts)
		ok = it.SeekGE(i.seek)
	}
	i.err = i.r.s.wrap(it.Error())
	return false
}

// emit makes the iterator's position the current version.
func (i *Iter) emit(ek []byte) bool {
	i.v = Version{Key: ek[1 : len(ek)-tsSuffixLen-1 : len(ek)-tsSuffixLen-1]}
	if i.err = i.r.s.decodeAt(i.it, &i.v); i.err != nil {
		return false
	}
	i.trim()
	return true
}

func (i *Iter) trim() {
	if i.opts.KeysOnly || len(i.v.Value) == 0 {
		i.v.Value = nil
	}
}

// prev walks a key's versions from the oldest up to the timestamp. On entry
// the iterator is at the oldest version of the next key to look at.
func (i *Iter) prev() bool {
	it := i.it
	if !i.started {
		i.started = true
		it.Last()
	}
	for it.Valid() {
		i.key = append(i.key[:0], prefixOf(it.Key())...)
		best, steps, ok := i.climb()
		if !ok {
			return false
		}
		if it.Valid() && bytes.Equal(prefixOf(it.Key()), i.key) {
			// Newer versions remain. Find the one wanted, if it lies among them, and leave the key.
			if steps > stepsBeforeSeek && versionTS(it.Key()) <= i.ts {
				i.seek = sealAt(append(i.seek[:0], i.key[:len(i.key)-1]...), i.ts)
				if !it.SeekGE(i.seek) || !bytes.Equal(prefixOf(it.Key()), i.key) {
					break
				}
				best = versionTS(it.Key())
				if !i.keep() {
					return false
				}
			}
			it.SeekLT(i.key)
		}
		if best != 0 {
			return i.emitKept(best)
		}
	}
	i.err = i.r.s.wrap(it.Error())
	return false
}

// climb steps from a key's oldest version towards newer ones, keeping the newest at or below the
// timestamp: best, 0 if there is none. It gives up after a few steps.
func (i *Iter) climb() (best base.Timestamp, steps int, ok bool) {
	it := i.it
	for ; it.Valid() && bytes.Equal(prefixOf(it.Key()), i.key); it.Prev() {
		ts := versionTS(it.Key())
		if ts == 0 {
			i.err = i.malformed(it.Key())
			return 0, 0, false
		}
		if steps++; ts > i.ts || steps > stepsBeforeSeek {
			break
		}
		best = ts
		if !i.keep() {
			return 0, 0, false
		}
	}
	return best, steps, true
}

// emitKept makes the kept value of the key the current version.
func (i *Iter) emitKept(ts base.Timestamp) bool {
	i.v = Version{Key: i.key[1 : len(i.key)-1], TS: ts}
	if !decodeVersionValue(i.val, &i.v) {
		i.err = i.malformed(i.key)
		return false
	}
	i.trim()
	return true
}

// keep copies the iterator's value.
func (i *Iter) keep() bool {
	val, err := i.it.ValueAndErr()
	if err != nil {
		i.err = i.r.s.wrap(err)
		return false
	}
	i.val = append(i.val[:0], val...)
	return true
}

func (i *Iter) malformed(ek []byte) error {
	return i.r.s.corrupt(corruptf("store %s: the version with engine key %x is malformed", i.r.s.opts.Dir, ek))
}
