package evaluate

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// MissingLocks are gaps that an attempt gives away and has not locked.
type MissingLocks struct {
	Gaps []base.Span
	// Soft are those of moves that can be left out, by write.
	Soft map[*wire.Write]base.Span
}

// Missing are the locks of gaps that the attempt does not have yet. The lock of the key that a gap
// begins with is there already, mostly. Then only the part behind it is asked for: who waits for
// the key waits for this transaction, which must not wait for it in turn. Else a row that others
// wait for would never move with a write.
func (f *Findings) Missing(holds func(base.Span) bool) (m MissingLocks) {
	for i, s := range f.Handover {
		if holds(s) {
			continue
		}
		if holds(base.PointSpan(s.Start)) {
			s.Start = s.Start.Next()
		}
		switch {
		case bytes.Compare(s.Start, s.End) >= 0 || holds(s):
		case f.Movers[i] != nil:
			if m.Soft == nil {
				m.Soft = map[*wire.Write]base.Span{}
			}
			m.Soft[f.Movers[i]] = s
		default:
			m.Gaps = append(m.Gaps, s)
		}
	}
	return m
}
