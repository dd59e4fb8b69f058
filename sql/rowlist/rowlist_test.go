package rowlist

import (
	"cmp"
	"testing"
)

// TestList: a list is not copied when it grows, is cut at any place, and stays in order when it is
// sorted.
func TestList(t *testing.T) {
	type pair struct{ key, at int }
	for _, n := range []int{0, 1, 1023, 1024, 1025, 5000} {
		var l List[pair]
		var places []*pair
		for i := range n {
			l.Add(pair{(n - i) / 3, i})
			if i%listBlock == listBlock-1 {
				places = append(places, l.At(i))
			}
		}
		for i, p := range places {
			if l.At((i+1)*listBlock-1) != p {
				t.Fatalf("of %d: block %d was copied after it was full", n, i)
			}
		}
		l.Sort(func(a, b pair) int { return cmp.Compare(a.key, b.key) })
		for i := 1; i < n; i++ {
			if a, b := *l.At(i - 1), *l.At(i); a.key > b.key || a.key == b.key && a.at > b.at {
				t.Fatalf("of %d: %v before %v", n, a, b)
			}
		}
		for _, to := range []int{n, n - 1, 1024, 1023, 1, 0} {
			if to < 0 || to > l.Len() {
				continue
			}
			l.Cut(to)
			if l.Len() != to {
				t.Fatalf("%d of %d values", l.Len(), to)
			}
			if to > 0 {
				_ = l.At(to - 1)
			}
		}
		l.Add(pair{7, 7})
		if l.Len() != 1 || *l.At(0) != (pair{7, 7}) {
			t.Fatalf("after a cut: %d values", l.Len())
		}
	}
}
