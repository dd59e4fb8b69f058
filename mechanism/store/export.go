package store

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/godwitdb/godwit/base"
)

// Export is a consistent copy of a whole shard: versions, collection marks,
// threshold and context, and for each of its groups the state records, the applied
// index and the transaction records. Raft logs are not part of it.
type Export struct {
	s    *Store
	id   base.ShardID
	snap *pebble.Snapshot
	// Threshold is the shard's collection threshold.
	Threshold base.Timestamp
	// Applied is each group's applied index, by home region.
	Applied Vector
	// Incarnations are those of the groups.
	Incarnations Incarnations
	seen         Vector
}

// ExportShard opens a copy as of now. It pins no memory, but versions
// overwritten meanwhile stay on disk until Close.
func (s *Store) ExportShard(id base.ShardID) (*Export, error) {
	// before the copy: if it changes in between, the receiver refuses
	inc, err := s.Incarnations(id)
	if err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, errClosed
	}
	e := &Export{s: s, id: id, snap: s.db.NewSnapshot(), Incarnations: inc}
	if err := e.load(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Export) load() error {
	if v, c, err := e.snap.Get(localKey(shardName(e.id))); err == nil {
		var ok bool
		e.Threshold, e.seen, ok = parseShardRecord(v)
		_ = c.Close()
		if !ok {
			return e.s.corrupt(corruptf("store %s: the record of %s is damaged", e.s.opts.Dir, e.s.shards.get(e.id)))
		}
	} else if err != pebble.ErrNotFound {
		return e.s.wrap(err)
	}
	if err := e.s.shards.get(e.id).whole(); err != nil {
		return err
	}
	lo, hi := shardSpan(areaMark, e.id)
	err := scanIn(e.s, e.snap, lo, hi, func(ek, _ []byte) error {
		_, below, _ := splitKey(ek)
		e.Threshold = max(e.Threshold, below)
		return nil
	})
	if err != nil {
		return err
	}
	var err2 error
	e.Applied, err2 = e.s.appliedIn(e.snap, e.id)
	return err2
}

// appliedIn reads the applied indexes of a shard's groups.
func (s *Store) appliedIn(r pebble.Reader, id base.ShardID) (x Vector, err error) {
	for region := range x {
		g := base.DataGroup(id, base.RegionID(region))
		if id == base.MetaShard && region > 0 {
			break
		}
		v, c, err := r.Get(stateKey(g, stateApplied))
		if err == pebble.ErrNotFound {
			continue
		}
		if err != nil {
			return x, s.wrap(err)
		}
		if len(v) == 8 {
			x[region] = binary.BigEndian.Uint64(v)
		}
		_ = c.Close()
	}
	return x, nil
}

// exported reports whether a state record leaves the node.
func exported(ek []byte) bool {
	body, _, ok := splitKey(ek)
	_, name, fine := groupOf(body)
	return ok && fine && !strings.HasPrefix(string(name), raftNames) && !strings.HasPrefix(string(name), localNames)
}

// headerKey starts the stream; no engine key of an area sorts before it.
var headerKey = []byte{0, 0}

// Header: format (1) | shard (2) | shard record.
func (e *Export) header() []byte {
	v := []byte{byte(e.s.Format())}
	v = binary.BigEndian.AppendUint16(v, uint16(e.id))
	return append(v, shardRecord(e.Threshold, &e.seen)...)
}

// Chunks calls fn with engine keys and values of about chunkBytes at a time (0: 1 MiB), for
// Import.Add on another node. The slices are fn's to keep. An error of fn ends the export and is
// returned. Between chunks nothing is held but the disk space.
func (e *Export) Chunks(chunkBytes int, fn func(keys, vals [][]byte) error) error {
	if chunkBytes <= 0 {
		chunkBytes = 1 << 20
	}
	c := &chunker{max: chunkBytes, fn: fn}
	if err := c.add(headerKey, e.header()); err != nil {
		return err
	}
	type span struct {
		lo, hi []byte
		skip   func(ek []byte) bool
	}
	var spans []span
	for _, area := range []byte{areaState, areaTxn, areaVersion, areaMark} {
		sp := span{}
		if area == areaState || area == areaTxn {
			sp.lo, sp.hi = groupsSpan(area, e.id)
		} else {
			sp.lo, sp.hi = shardSpan(area, e.id)
		}
		if area == areaState {
			sp.skip = func(ek []byte) bool { return !exported(ek) }
		}
		spans = append(spans, sp)
	}
	for _, sp := range spans {
		for lo := sp.lo; lo != nil; {
			var err error
			if lo, err = e.step(c, lo, sp.hi, sp.skip); err != nil {
				return err
			}
			// The iterator is closed while a chunk is sent.
			if c.bytes >= c.max {
				if err := c.flush(); err != nil {
					return err
				}
			}
		}
	}
	// A snapshot of Pebble does not keep what is taken out of damaged tables.
	if err := e.s.shards.get(e.id).whole(); err != nil {
		return err
	}
	return c.flush()
}

// step fills one chunk from [lo, hi) and returns where to go on, nil at the end.
func (e *Export) step(c *chunker, lo, hi []byte, skip func([]byte) bool) (next []byte, err error) {
	it, err := e.snap.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, e.s.wrap(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if c.bytes >= c.max {
			return bytes.Clone(it.Key()), nil
		}
		if skip != nil && skip(it.Key()) {
			continue
		}
		val, err := it.ValueAndErr()
		if err != nil {
			return nil, e.s.wrap(err)
		}
		c.keep(it.Key(), val)
	}
	return nil, e.s.wrap(it.Error())
}

// Close gives the space back.
func (e *Export) Close() {
	if e.snap != nil {
		_ = e.snap.Close()
		e.snap = nil
	}
}

// chunker gathers pairs.
type chunker struct {
	max, bytes int
	keys, vals [][]byte
	fn         func(keys, vals [][]byte) error
}

func (c *chunker) keep(k, v []byte) {
	buf := append(append(make([]byte, 0, len(k)+len(v)), k...), v...)
	c.keys = append(c.keys, buf[:len(k):len(k)])
	c.vals = append(c.vals, buf[len(k):])
	c.bytes += len(buf) + 16
}

func (c *chunker) add(k, v []byte) error {
	c.keep(k, v)
	if c.bytes >= c.max {
		return c.flush()
	}
	return nil
}

func (c *chunker) flush() error {
	if len(c.keys) == 0 {
		return nil
	}
	err := c.fn(c.keys, c.vals)
	c.keys, c.vals, c.bytes = nil, nil, 0
	return err
}
