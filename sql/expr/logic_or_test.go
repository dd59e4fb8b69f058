package expr

import (
	"slices"
	"testing"
)

// sparse holds for the rows that it lists.
type sparse []int32

// Filter implements Pred.
func (s sparse) Filter(_ *Batch, sel []int32, want bool) ([]int32, error) {
	var out []int32
	for _, i := range sel {
		if slices.Contains(s, i) == want {
			out = append(out, i)
		}
	}
	return out, nil
}

// A condition that holds for no row must not let the buffers of an OR meet.
func TestOrOfSparseConditions(t *testing.T) {
	or := &orPred{ps: []Pred{sparse{1, 5, 9}, sparse{}, sparse{0, 2, 4, 6, 8}, sparse{}, sparse{3}}}
	for range 3 {
		got, err := or.Filter(&Batch{N: 10, Sel: All(10)}, All(10), true)
		if err != nil {
			t.Fatal(err)
		}
		if want := []int32{0, 1, 2, 3, 4, 5, 6, 8, 9}; !slices.Equal(got, want) {
			t.Errorf("OR keeps %v, want %v", got, want)
		}
	}
}
