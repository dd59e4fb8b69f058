package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"

	"github.com/godwitdb/godwit/base"
)

// Changes calls fn for the versions of the keys of a span, within one shard, that were committed
// above since and at or below upTo, or for all at or below upTo if whole is set: key by key, the
// newest of a key first, tombstones included. It fails with base.CodeTooOld if versions above since
// may have been collected. A version is valid until fn returns; fn ends the walk by returning
// false.
//
// Tables of versions keep, for each of their blocks, the least and the greatest timestamp in it.
// What lies outside the period is not read.
func (s *Store) Changes(span base.Span, since, upTo base.Timestamp, whole bool, fn func(*Version) bool) error {
	o := &pebble.IterOptions{LowerBound: appendVersionKey(nil, span.Start, 0), UpperBound: appendVersionKey(nil, span.Limit(), 0)}
	if !whole {
		// A removed version and its removal have one timestamp: both are seen, or neither.
		o.PointKeyFilters = []pebble.BlockPropertyFilter{cockroachkvs.NewMVCCTimeIntervalFilter(uint64(since)+1, uint64(upTo))}
	}
	r := &Reader{s: s, gen: s.idle.gen.Load()}
	it, err := s.newIter(o)
	if err != nil {
		return s.wrap(err)
	}
	defer it.Close()
	r.view = it
	if err := r.checkAge(span.Start, since); err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		ek := it.Key()
		ts := versionTS(ek)
		if ts > upTo || ts <= since && !whole {
			if ts == 0 {
				return s.corrupt(corruptf("store %s: the version with engine key %x is malformed", s.opts.Dir, ek))
			}
			continue
		}
		v := Version{Key: bytes.Clone(ek[1 : len(ek)-tsSuffixLen-1])}
		if err := s.decodeAt(it, &v); err != nil {
			return err
		}
		if !fn(&v) {
			return nil
		}
	}
	return s.wrap(it.Error())
}
