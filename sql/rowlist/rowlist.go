// Package rowlist has a list for the many rows of a statement.
package rowlist

import "slices"

// listBlock is how many values a block of a list has.
const listBlock = 1024

// List is a list of many values, in blocks: what is there is not copied when it grows. A slice
// that doubles takes twice the memory of its values on its way, all of it work for the collector,
// which holds up other statements. The zero value is empty.
type List[T any] struct {
	blocks [][]T
	n      int
}

// Len is how many values there are.
func (l *List[T]) Len() int { return l.n }

// Add appends a value.
func (l *List[T]) Add(v T) {
	if l.n%listBlock == 0 {
		var b []T
		if l.n > 0 {
			b = make([]T, 0, listBlock)
		}
		l.blocks = append(l.blocks, b)
	}
	last := &l.blocks[len(l.blocks)-1]
	*last = append(*last, v)
	l.n++
}

// At is the place of value i.
func (l *List[T]) At(i int) *T { return &l.blocks[i/listBlock][i%listBlock] }

// Cut leaves the first n values only.
func (l *List[T]) Cut(n int) {
	keep := (n + listBlock - 1) / listBlock
	clear(l.blocks[keep:])
	l.blocks = l.blocks[:keep]
	if at := n % listBlock; at > 0 {
		b := l.blocks[keep-1]
		clear(b[at:])
		l.blocks[keep-1] = b[:at]
	}
	l.n = n
}

// Sort orders the values; those that are equal stay in their order.
func (l *List[T]) Sort(cmp func(a, b T) int) {
	all := slices.Concat(l.blocks...)
	slices.SortStableFunc(all, cmp)
	for i, v := range all {
		*l.At(i) = v
	}
}
