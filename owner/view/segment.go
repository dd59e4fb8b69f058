package view

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// Segment is a part of a range with one owner, as a view of the store says.
type Segment struct {
	Span  base.Span
	Owner base.GroupID
	Since []*wire.GroupIndex // log entries that gave it to Owner
}

// Foreign is the segment as an answer to a node that thought that this group owns it.
func (s *Segment) Foreign() *wire.Foreign {
	return &wire.Foreign{Span: &wire.Span{Start: s.Span.Start, End: s.Span.End}, Group: uint32(s.Owner), Since: s.Since}
}

// note remembers which entry of another group made the owner so.
func (s *Segment) note(w base.GroupIndex) {
	if w.Index == 0 || w.Region == s.Owner.Region() {
		return
	}
	for _, o := range s.Since {
		if o.Region == uint32(w.Region) {
			o.Index = max(o.Index, w.Index)
			return
		}
	}
	s.Since = append(s.Since, &wire.GroupIndex{Region: uint32(w.Region), Index: w.Index})
}

// Segmenter cuts a range into segments in the order of a scan. Its user calls Add for the newest
// version of each key, and then Finish where the scan ended.
type Segmenter struct {
	Reader  *store.Reader
	Span    base.Span
	Reverse bool
	Emit    func(Segment)
	// By, if not nil, gets each label that names an owner: which group wrote it, and when.
	By func(owner base.GroupID, w base.GroupIndex, ts base.Timestamp)

	cur     Segment // reverse: Start is the lowest key so far
	started bool
}

// Within reports whether a version would only prolong the segment that the scan is in.
func (s *Segmenter) Within(v *store.Version) bool {
	return s.started && HomeGroup(v.Key, v.Label) == s.cur.Owner
}

func (s *Segmenter) switchTo(owner base.GroupID, w base.GroupIndex, cut base.Key) {
	switch {
	case s.started && owner == s.cur.Owner:
		s.cur.note(w)
		return
	case s.started && s.Reverse:
		cut = s.cur.Span.Start
		s.emitCur()
		s.cur = Segment{Span: base.Span{End: cut}}
	case s.started:
		s.cur.Span.End = cut
		s.emitCur()
		s.cur = Segment{Span: base.Span{Start: cut}}
	case s.Reverse:
		s.cur.Span.End = s.Span.End
	default:
		s.cur.Span.Start = cut
	}
	s.started = true
	s.cur.Owner = owner
	s.cur.note(w)
}

func (s *Segmenter) emitCur() {
	if bytes.Compare(s.cur.Span.Start, s.cur.Span.End) < 0 {
		s.Emit(s.cur)
	}
}

// Add takes the next key's newest version. Its key is kept.
func (s *Segmenter) Add(v *store.Version) error {
	if !s.started && !s.Reverse && !bytes.Equal(v.Key, s.Span.Start) {
		if err := s.gap(s.Span.Start); err != nil {
			return err
		}
	}
	owner := HomeGroup(v.Key, v.Label)
	if s.By != nil {
		s.By(owner, v.Writer, v.TS)
	}
	s.switchTo(owner, v.Writer, v.Key)
	if s.Reverse {
		s.cur.Span.Start = v.Key
	}
	return nil
}

// gap goes on with the gap at key. For the range of a look-up in an index keyed by home it looks
// nothing up: that would be a second seek.
func (s *Segmenter) gap(key base.Key) error {
	owner, w := key.DefaultOwner(), base.GroupIndex{}
	if !FixedOwner(key) {
		p, ok, err := s.Reader.Pred(key)
		if err != nil {
			return err
		}
		if ok {
			owner, w = HomeGroup(key, p.Label), p.Writer
			if s.By != nil {
				s.By(owner, w, p.TS)
			}
		}
	}
	s.switchTo(owner, w, key)
	if s.Reverse {
		s.cur.Span.Start = key
	}
	return nil
}

// Finish ends the range: at end if forward, at its start if reverse, unless the scan stopped at the
// last key given.
func (s *Segmenter) Finish(stopped bool, end base.Key) error {
	if !stopped && (!s.started || s.Reverse && !bytes.Equal(s.cur.Span.Start, s.Span.Start)) {
		if err := s.gap(s.Span.Start); err != nil {
			return err
		}
	}
	if !s.started {
		return nil
	}
	if !s.Reverse {
		s.cur.Span.End = end
	}
	s.emitCur()
	return nil
}

// SpanOf is a span as it travels; without an end it is one key.
func SpanOf(s *wire.Span) base.Span {
	if len(s.End) == 0 {
		return base.Span{Start: s.Start}
	}
	return base.Span{Start: s.Start, End: s.End}
}

// SpansOf are the spans of those that travel.
func SpansOf(in []*wire.Span) []base.Span {
	out := make([]base.Span, len(in))
	for i, s := range in {
		out[i] = SpanOf(s)
	}
	return out
}

// Wired are spans as they travel: the inverse of SpansOf.
func Wired(in []base.Span) []*wire.Span {
	out := make([]*wire.Span, len(in))
	for i, s := range in {
		out[i] = &wire.Span{Start: s.Start, End: s.End}
	}
	return out
}

// AllPoints reports whether all spans are of one key.
func AllPoints(spans []*wire.Span) bool {
	for _, s := range spans {
		if len(s.End) > 0 {
			return false
		}
	}
	return true
}
