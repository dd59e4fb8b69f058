package evaluate

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Cover is what a piece of a large transaction locks: of each section the range from the first key
// that it writes to the last one, or to the end of the last of the gaps that it gives to other
// groups. So its locks are few, however many keys it has. The writes are in order.
func Cover(ws []*wire.Write, handover []base.Span) (out []base.Span) {
	for keys := WrittenSpans(ws); len(keys) > 0; {
		n := run(keys)
		s := base.Span{Start: keys[0].Start, End: keys[n-1].Start.Next()}
		for _, g := range handover {
			if s.Contains(g.Start) && bytes.Compare(g.Limit(), s.End) > 0 {
				s.End = g.Limit()
			}
		}
		out, keys = append(out, s), keys[n:]
	}
	return out
}

// Ranges are spans that cover the ones given, one for each section.
func Ranges(spans []base.Span) (out []base.Span) {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b base.Span) int { return a.Start.Compare(b.Start) })
	for len(sorted) > 0 {
		n := run(sorted)
		s := sorted[0]
		for _, o := range sorted[1:n] {
			if l := o.Limit(); s.IsPoint() || bytes.Compare(l, s.End) > 0 {
				s.End = l
			}
		}
		out, sorted = append(out, s), sorted[n:]
	}
	return out
}
