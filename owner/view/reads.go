package view

import (
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// ReadsCatalog reports whether a read concerns nothing but the catalog.
func ReadsCatalog(spans []*wire.Span) bool {
	return !slices.ContainsFunc(spans, func(s *wire.Span) bool { return !base.Span{Start: s.Start, End: s.End}.InCatalog() })
}

// NothingHere reports whether other groups own all of the keys asked for.
func NothingHere(q *wire.ReadRequest, resp *wire.ReadResponse) bool {
	return len(resp.Rows) == 0 && len(resp.Foreign) == len(q.Spans) && AllPoints(q.Spans)
}
