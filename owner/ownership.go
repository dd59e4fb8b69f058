package owner

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// place is what a view of the store says about one key.
type place struct {
	owner base.GroupID
	// since is the timestamp of the version whose label says so: the owner
	// writes the key only above it (C2). 0 for the default owner.
	since  base.Timestamp
	writer base.GroupIndex // log entry that wrote that version
	found  bool            // the key has a version, v; else it lies in a gap
	v      store.Version   // newest version, maybe a tombstone
}

// locate finds the owner of a key: the home of its newest version, else of its
// predecessor in the section, else the section's default owner (C5).
func locate(rd *store.Reader, key base.Key) (place, error) {
	v, ok, err := rd.Newest(key)
	if err != nil {
		return place{}, err
	}
	if ok {
		return place{owner: homeGroup(key, v.Label), since: v.TS, writer: v.Writer, found: true, v: v}, nil
	}
	if key.Shard() == base.MetaShard {
		return place{owner: base.MetaGroup}, nil
	}
	p, ok, err := rd.Pred(key)
	if err != nil {
		return place{}, err
	}
	if !ok {
		return place{owner: key.DefaultOwner()}, nil
	}
	return place{owner: homeGroup(key, p.Label), since: p.TS, writer: p.Writer}, nil
}

// foreign is the place as an answer to who thought that we own it.
func (p *place) foreign(key base.Key) *wire.Foreign {
	s := segment{owner: p.owner}
	s.note(p.writer)
	return &wire.Foreign{Span: &wire.Span{Start: key}, Group: uint32(p.owner), Since: s.since}
}

func homeGroup(key base.Key, l base.Label) base.GroupID {
	return base.DataGroup(key.Shard(), l.Home())
}

// gapEnd is the end of the gap that begins at key: the next key with any version
// in the section, else the section's end.
func gapEnd(rd *store.Reader, key base.Key) (base.Key, error) {
	end := key.Section().PrefixEnd()
	it := rd.Iter(base.Span{Start: key.Next(), End: end}, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	if it.Next() {
		return it.Version().Key.Clone(), nil
	}
	return end, it.Err()
}

// writeSpans is what a logged write locks: its key, and if its row belongs
// to another group from then on, the gap behind it as well: that gap changes hands, and nothing locked does (C2).
func (r *Replica) writeSpans(rd *store.Reader, w *wire.Write) (base.Span, error) {
	key := base.Key(w.Key)
	if !r.handsOver(w) {
		return base.PointSpan(key.Clone()), nil
	}
	end, err := gapEnd(rd, key)
	return base.Span{Start: key.Clone(), End: end}, err
}

// handsOver reports whether a labelled write gives its key to another group.
func (r *Replica) handsOver(w *wire.Write) bool {
	return homeGroup(w.Key, base.Label(w.Label)) != r.id
}

// ownsSection reports whether all keys of key's section are this group's for good: an index keyed by
// home has a section for each home, and all labels in it name that one.
func (r *Replica) ownsSection(key base.Key) bool {
	return key.Shard() != base.MetaShard && key.Index()&base.ByHome != 0 && len(key) > base.IndexPrefixLen && key.DefaultOwner() == r.id
}

// missing is what this node must still apply before the group may act as the owner of a gap that the entry w of another
// group's log gave it (C3): all that group's log names, because keys whose homes are elsewhere may lie in what looks
// like a gap here. No replica's mu is held.
func (r *Replica) missing(w base.GroupIndex) (need []*wire.GroupIndex) {
	if w.Index == 0 || w.Region == 0 || w.Region == r.region || r.vouched[w.Region].Load() >= w.Index {
		return nil
	}
	all := r.set.siblings(r.shard)
	sib := all[w.Region]
	if sib == nil {
		return nil
	}
	sib.mu.Lock()
	join, at := sib.rep.join, sib.applied.Load()
	sib.mu.Unlock()
	for i, o := range all {
		if o != nil && o != r && o != sib && o.applied.Load() < join[i] {
			need = append(need, &wire.GroupIndex{Region: uint32(i), Index: join[i]})
		}
	}
	if need == nil && at >= w.Index {
		r.vouched[w.Region].Store(at)
	}
	return need
}

// maxSeen bounds what a transaction remembers of the keys it has locked.
const maxSeen = 32

// seenKey is the place of a key that this group owns, as a view said that was taken while the transaction held
// the key's exclusive lock: it stays true until the lock is released (I12).
type seenKey struct {
	key base.Key
	place
}

// recall finds the place of a key among those seen.
func recall(seen []seenKey, key base.Key) (place, bool) {
	for i := range seen {
		if bytes.Equal(seen[i].key, key) {
			return seen[i].place, true
		}
	}
	return place{}, false
}

// segment is a part of a range with one owner, as a view of the store says.
type segment struct {
	span  base.Span
	owner base.GroupID
	since []*wire.GroupIndex // log entries that gave it to owner
}

// segmenter cuts a range into segments in the order of a scan: it is told the
// versions met (add), and then where the scan ended (finish).
type segmenter struct {
	rd      *store.Reader
	span    base.Span
	reverse bool
	emit    func(segment)
	// by, if not nil, is told of each label that names an owner: who wrote it, and when.
	by func(owner base.GroupID, w base.GroupIndex, ts base.Timestamp)

	cur     segment // reverse: Start is the lowest key so far
	started bool
}

func (s *segmenter) switchTo(owner base.GroupID, w base.GroupIndex, cut base.Key) {
	if s.started && owner == s.cur.owner {
		s.cur.note(w)
		return
	}
	if s.started {
		if s.reverse {
			cut = s.cur.span.Start
			s.emitCur()
			s.cur = segment{span: base.Span{End: cut}}
		} else {
			s.cur.span.End = cut
			s.emitCur()
			s.cur = segment{span: base.Span{Start: cut}}
		}
	} else if s.reverse {
		s.cur.span.End = s.span.End
	} else {
		s.cur.span.Start = cut
	}
	s.started = true
	s.cur.owner = owner
	s.cur.note(w)
}

func (s *segmenter) emitCur() {
	if bytes.Compare(s.cur.span.Start, s.cur.span.End) < 0 {
		s.emit(s.cur)
	}
}

// note remembers which entry of another group made the owner so.
func (s *segment) note(w base.GroupIndex) {
	if w.Index == 0 || w.Region == s.owner.Region() {
		return
	}
	for _, o := range s.since {
		if o.Region == uint32(w.Region) {
			o.Index = max(o.Index, w.Index)
			return
		}
	}
	s.since = append(s.since, &wire.GroupIndex{Region: uint32(w.Region), Index: w.Index})
}

// add tells of the next key's newest version. Its key is kept.
func (s *segmenter) add(v *store.Version) error {
	if !s.started && !s.reverse && !bytes.Equal(v.Key, s.span.Start) {
		if err := s.gap(s.span.Start); err != nil {
			return err
		}
	}
	owner := homeGroup(v.Key, v.Label)
	if s.by != nil {
		s.by(owner, v.Writer, v.TS)
	}
	s.switchTo(owner, v.Writer, v.Key)
	if s.reverse {
		s.cur.span.Start = v.Key
	}
	return nil
}

// gap tells that the range goes on with the gap at key.
func (s *segmenter) gap(key base.Key) error {
	owner, w := key.DefaultOwner(), base.GroupIndex{}
	if key.Shard() != base.MetaShard {
		p, ok, err := s.rd.Pred(key)
		if err != nil {
			return err
		}
		if ok {
			owner, w = homeGroup(key, p.Label), p.Writer
			if s.by != nil {
				s.by(owner, w, p.TS)
			}
		}
	}
	s.switchTo(owner, w, key)
	if s.reverse {
		s.cur.span.Start = key
	}
	return nil
}

// finish ends the range: at end if forward, at its start if reverse, unless the scan stopped at the last key told.
func (s *segmenter) finish(stopped bool, end base.Key) error {
	if !stopped && (!s.started || s.reverse && !bytes.Equal(s.cur.span.Start, s.span.Start)) {
		if err := s.gap(s.span.Start); err != nil {
			return err
		}
	}
	if !s.started {
		return nil
	}
	if !s.reverse {
		s.cur.span.End = end
	}
	s.emitCur()
	return nil
}
