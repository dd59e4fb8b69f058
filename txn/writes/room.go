package writes

// Room makes values one by one, or, where there are many, several at once.
type Room[T any] struct{ next []T }

// several is how many are made at once, of which as many are there already.
const several = 64

// New is a value, of which there are so many already.
func (r *Room[T]) New(there int) *T {
	if len(r.next) == 0 {
		n := 1
		if there >= several {
			n = several
		}
		r.next = make([]T, n)
	}
	v := &r.next[0]
	r.next = r.next[1:]
	return v
}
