package exec

import (
	"slices"

	"github.com/godwitdb/godwit/sql/expr"
)

// framer finds the frames of rows. The ends of frames never go back from one row of a partition to
// the next.
type framer struct {
	frame  WindowFrame
	lo, hi *rangeEnd // of RANGE with a number or an interval
}

func (w *window) framer(f WindowFrame, env *expr.Env) (framer, error) {
	x := framer{frame: f}
	if f.Rows {
		return x, nil
	}
	w.peers = true
	var err error
	if x.lo, err = w.rangeEnd(f.Lo, false, env); err != nil {
		return x, err
	}
	x.hi, err = w.rangeEnd(f.Hi, true, env)
	return x, err
}

func (f *framer) open(b *rowBuf) {
	for _, e := range []*rangeEnd{f.lo, f.hi} {
		if e != nil {
			e.at, e.here = rowCursor{buf: b}, rowCursor{buf: b}
		}
	}
}

// begin finds the frames of a segment. In front of the first one of a partition, which is at row
// s.lo, the rows of the one before are forgotten.
func (f *framer) begin(s *segment, reset func(row int)) error {
	if s.from == s.lo {
		reset(s.lo)
	}
	return f.frames(s)
}

// frames fills frameLo and frameHi of a segment: the first row of the frame, and the first one
// behind it. A frame without rows has any lo that is not below hi.
func (f *framer) frames(s *segment) error {
	n := s.to - s.from
	s.frameLo = slices.Grow(s.frameLo[:0], n)[:n]
	s.frameHi = slices.Grow(s.frameHi[:0], n)[:n]
	if f.frame.Rows {
		for k := range n {
			s.frameLo[k] = rowsEnd(f.frame.Lo, s, s.from+k, 0)
			s.frameHi[k] = rowsEnd(f.frame.Hi, s, s.from+k, 1)
		}
		return nil
	}
	for k := range n {
		var err error
		if s.frameLo[k], err = rangeAt(f.frame.Lo, f.lo, s, k, s.peerLo[k]); err != nil {
			return err
		}
		if s.frameHi[k], err = rangeAt(f.frame.Hi, f.hi, s, k, s.peerHi[k]); err != nil {
			return err
		}
	}
	return nil
}

// rowsEnd is an end of a frame of ROWS, more rows further for the upper one.
func rowsEnd(b WindowBound, s *segment, r, more int) int {
	switch b.Kind {
	case UnboundedPreceding:
		return s.lo
	case UnboundedFollowing:
		return s.hi
	case Preceding:
		if b.N > int64(r-s.lo) {
			return s.lo
		}
		return r - int(b.N) + more
	case Following:
		if b.N >= int64(s.hi-r-more) {
			return s.hi
		}
		return r + int(b.N) + more
	}
	return r + more
}

// rangeAt is an end of a frame of RANGE, for row k of a segment, whose own group of peers ends at
// peer.
func rangeAt(b WindowBound, e *rangeEnd, s *segment, k, peer int) (int, error) {
	switch b.Kind {
	case UnboundedPreceding:
		return s.lo, nil
	case UnboundedFollowing:
		return s.hi, nil
	case CurrentRow:
		return peer, nil
	}
	return e.find(s, s.from+k, peer)
}

// rangeEnd finds an end of a frame of RANGE with a number or an interval.
type rangeEnd struct {
	pace      *pace
	key, edge int
	cmp       expr.Comparer
	desc      bool
	upper     bool
	following bool
	next      int // the first row that is not before the end
	at, here  rowCursor
}

// rangeEnd makes an end; nil if it has no number.
func (w *window) rangeEnd(b WindowBound, upper bool, env *expr.Env) (*rangeEnd, error) {
	if b.Kind != Preceding && b.Kind != Following {
		return nil, nil
	}
	e := &rangeEnd{pace: &w.pace, desc: w.spec.Order[0].Desc, upper: upper, following: b.Kind == Following}
	var err error
	if e.key, err = w.slot(b.Key, env); err != nil {
		return nil, err
	}
	if e.edge, err = w.slot(b.Edge, env); err != nil {
		return nil, err
	}
	e.cmp = expr.NewComparer(w.rows[e.key])
	return e, nil
}

// find is the end for row r.
func (e *rangeEnd) find(s *segment, r, peer int) (int, error) {
	if r == s.lo {
		e.next = s.lo
	}
	cols, i, _, err := e.here.at(r)
	if err != nil {
		return 0, err
	}
	if cols[e.key].IsNull(i) { // it has no numbers around it: the frame is that of its peers
		return peer, nil
	}
	for e.next < s.hi {
		if err := e.pace.step(1); err != nil {
			return 0, err
		}
		keys, j, _, err := e.at.at(e.next)
		if err != nil {
			return 0, err
		}
		if !e.before(keys[e.key], j, cols[e.edge], i) {
			break
		}
		e.next++
	}
	return e.next, nil
}

// before reports whether a row is before the end of the frame of another one, which has a key.
func (e *rangeEnd) before(key *expr.Vec, j int32, edge *expr.Vec, i int32) bool {
	if key.IsNull(j) {
		return !e.desc // NULLs are first, or last in a descending order
	}
	if edge.IsNull(i) { // a date beyond the calendar
		return e.following
	}
	c := e.cmp(key, j, edge, i)
	if e.desc {
		c = -c
	}
	return c < 0 || c == 0 && e.upper
}
