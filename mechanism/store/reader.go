package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/godwitdb/godwit/base"
)

// Reader reads versions from one consistent view: all batches committed before
// NewReader, and possibly some committed during it, each wholly or not at all.
// It pins memory and files: close it soon.
type Reader struct {
	s *Store
	// made by NewPointReader: the view is made when it is needed, and rows come from the cache
	late bool
	done bool // closed
	view *pebble.Iterator
	gen  uint64
	lent bool             // an Iter is using view
	twin *pebble.Iterator // for point reads meanwhile
	err  error
	buf  []byte
}

var versionsLo, versionsHi = areaSpan([]byte{areaVersion})

func wholeBounds() *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: versionsLo, UpperBound: versionsHi}
}

// NewReader opens a view.
func (s *Store) NewReader() *Reader {
	r := &Reader{s: s}
	r.open()
	return r
}

// NewPointReader makes a reader for those who know that no version they may see can come up or go
// away until they close it, because they hold locks or read at a closed timestamp. All batches
// committed before it are seen, but what is committed meanwhile may be seen in a part of the reads.
// In return it looks for rows in the cache first, and opens a view when one is not there.
func (s *Store) NewPointReader() *Reader { return &Reader{s: s, late: true} }

// open makes the view.
func (r *Reader) open() {
	if r.view == nil && r.err == nil && !r.done {
		if r.s.closed.Load() { // a request that outlived the transport; Pebble would panic
			r.err = errClosed
			return
		}
		if r.view, r.gen = r.s.idle.take(); r.view == nil {
			r.view, r.err = r.s.db.NewIter(wholeBounds())
		}
	}
}

// Close ends the view. Its iterators must have been closed.
func (r *Reader) Close() {
	r.done = true
	if r.twin != nil {
		_ = r.twin.Close()
		r.twin = nil
	}
	if r.view != nil {
		r.view.SetBounds(versionsLo, versionsHi)
		r.s.idle.put(r.view, r.gen)
		r.view = nil
	}
}

// iter is the iterator for point reads.
func (r *Reader) iter() (*pebble.Iterator, error) {
	r.open()
	switch {
	case r.err != nil:
		return nil, r.s.wrap(r.err)
	case r.view == nil:
		return nil, base.Errorf(base.CodeInvalid, "store: the reader is closed")
	case !r.lent:
		r.view.SetBounds(versionsLo, versionsHi)
		return r.view, nil
	case r.twin == nil:
		if r.twin, r.err = r.view.Clone(pebble.CloneOptions{IterOptions: wholeBounds()}); r.err != nil {
			return nil, r.s.wrap(r.err)
		}
	}
	return r.twin, nil
}

// checkAge refuses timestamps whose versions may be gone. It must be called
// after the view was made: the threshold is raised before anything is removed.
func (r *Reader) checkAge(key base.Key, ts base.Timestamp) error {
	if th := r.s.GCThreshold(key.Shard()); ts < th {
		return base.Errorf(base.CodeTooOld, "read at %s: versions older than %s have been collected; "+
			"read at a newer timestamp, or raise the collection age", ts, th)
	}
	return r.whole(key)
}

// Get returns the newest version of key at or below ts, a tombstone too. The
// result shares no memory with the reader; its Key is the one passed in.
func (r *Reader) Get(key base.Key, ts base.Timestamp) (Version, bool, error) {
	v, cached := r.cached(key)
	if cached = cached && v.TS <= ts; !cached {
		r.open()
	}
	if err := r.checkAge(key, ts); err != nil {
		return Version{}, false, err
	}
	if cached {
		return v, true, nil
	}
	return r.newest(key, ts)
}

// Newest returns the newest version of key, a tombstone too.
func (r *Reader) Newest(key base.Key) (Version, bool, error) {
	if v, ok := r.cached(key); ok {
		return v, true, nil
	}
	v, ok, err := r.newest(key, base.MaxTimestamp)
	if ok && r.late {
		r.s.rows.add(&v, r.gen)
	}
	return v, ok, err
}

// cached asks the cache for the newest version of key.
func (r *Reader) cached(key base.Key) (Version, bool) {
	if !r.late || r.done {
		return Version{}, false
	}
	return r.s.rows.get(key)
}

func (r *Reader) newest(key base.Key, ts base.Timestamp) (v Version, ok bool, err error) {
	it, err := r.iter()
	if err != nil || ts == 0 {
		return v, false, err
	}
	if err := r.whole(key); err != nil {
		return v, false, err
	}
	r.buf = appendVersionKey(r.buf[:0], key, ts)
	if !it.SeekPrefixGE(r.buf) {
		return v, false, r.s.wrap(it.Error())
	}
	v.Key = key
	if err := r.s.decodeAt(it, &v); err != nil {
		return Version{}, false, err
	}
	v.Value = clone(v.Value)
	return v, true, nil
}

// Pred returns the newest version, a tombstone too, of the greatest key below key that has any
// version and lies in key's section: its label covers the gap that key lies in. Without one the gap
// belongs to key.DefaultOwner.
func (r *Reader) Pred(key base.Key) (v Version, ok bool, err error) {
	it, err := r.iter()
	if err != nil {
		return v, false, err
	}
	if err := r.whole(key); err != nil {
		return v, false, err
	}
	r.buf = appendVersionKey(r.buf[:0], key, 0)
	if !it.SeekLT(r.buf) {
		return v, false, r.s.wrap(it.Error())
	}
	prefix := prefixOf(it.Key())
	section := key.Section()
	if len(prefix) < 2+len(section) || !bytes.Equal(prefix[1:1+len(section)], section) {
		return v, false, nil
	}
	r.buf = append(r.buf[:0], prefix...)
	v.Key = bytes.Clone(prefix[1 : len(prefix)-1])
	if err = r.s.decodeAt(it, &v); err == nil {
		v.Value = clone(v.Value)
		// Most keys have one version, which is here; else the newest is found by a seek.
		if !it.Prev() || !bytes.Equal(prefixOf(it.Key()), r.buf) {
			err = r.s.wrap(it.Error())
		} else if it.SeekPrefixGE(r.buf) {
			err = r.s.decodeAt(it, &v)
			v.Value = clone(v.Value)
		} else if err = r.s.wrap(it.Error()); err == nil {
			err = r.s.corrupt(corruptf("store %s: the versions of %s cannot be found again", r.s.opts.Dir, v.Key))
		}
	}
	if err != nil {
		return Version{}, false, err
	}
	return v, true, nil
}

// decodeAt fills all of v but Key from the iterator; Value is the iterator's memory.
func (s *Store) decodeAt(it *pebble.Iterator, v *Version) error {
	val, err := it.ValueAndErr()
	if err != nil {
		return s.wrap(err)
	}
	v.TS = versionTS(it.Key())
	if v.TS == 0 || !decodeVersionValue(val, v) {
		return s.corrupt(corruptf("store %s: version %x holds the malformed value %x", s.opts.Dir, it.Key(),
			val[:min(len(val), 32)]))
	}
	return nil
}

// clone copies; nil stays nil and empty becomes nil.
func clone(b []byte) []byte { return append([]byte(nil), b...) }
