package exec

import "slices"

// AppendDoubling is append for lists of many rows: they double. append grows by a quarter, which
// makes five times the memory of such a list, and the collector's work that comes with it holds up
// other statements.
func AppendDoubling[T any](list []T, v T) []T {
	if n := len(list); n == cap(list) {
		list = slices.Grow(list, max(n, 1))
	}
	return append(list, v)
}
