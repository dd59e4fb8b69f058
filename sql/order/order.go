// Package order sorts in small steps, between which the caller may be told to stop, and may let
// others compute. The library's sorts cannot be left before they have ended, which may take
// seconds.
package order

import "slices"

const (
	// run is how many rows are sorted by the library at once.
	run = 64
	// step is after how many rows that were merged check is called. Comparisons of long texts take
	// some 100 µs each.
	step = 128
)

// Stable sorts rows; equal ones keep their order. check is called every [step] rows or so. Its
// error ends the sort, and the rows are in no order then. It takes as much room as the rows, once
// more.
func Stable[T any](rows []T, compare func(a, b T) int, check func() error) error {
	if len(rows) <= run {
		return stable(rows, nil, compare, check)
	}
	return stable(rows, make([]T, len(rows)), compare, check)
}

// stable sorts rows with room for as many again, which is not needed if one run holds them.
func stable[T any](rows, room []T, compare func(a, b T) int, check func() error) error {
	for from := 0; from < len(rows); from += run {
		if err := check(); err != nil {
			return err
		}
		slices.SortStableFunc(rows[from:min(from+run, len(rows))], compare)
	}
	if len(rows) <= run {
		return nil
	}
	in, out := rows, room
	for width := run; width < len(rows); width *= 2 {
		for from := 0; from < len(rows); from += 2 * width {
			mid, end := min(from+width, len(rows)), min(from+2*width, len(rows))
			if err := merge(out[from:end], in[from:mid], in[mid:end], compare, check); err != nil {
				return err
			}
		}
		in, out = out, in
	}
	if &in[0] != &rows[0] {
		copy(rows, in)
	}
	return nil
}

// merge puts two sorted lists into one.
func merge[T any](out, a, b []T, compare func(a, b T) int, check func() error) error {
	if len(a) == 0 || len(b) == 0 || compare(a[len(a)-1], b[0]) <= 0 {
		copy(out[copy(out, a):], b)
		return check()
	}
	for k := range out {
		if k%step == step-1 {
			if err := check(); err != nil {
				return err
			}
		}
		if len(a) == 0 || len(b) > 0 && compare(a[0], b[0]) > 0 {
			out[k], b = b[0], b[1:]
			continue
		}
		if out[k], a = a[0], a[1:]; len(b) == 0 {
			copy(out[k+1:], a)
			return nil
		}
	}
	return nil
}
