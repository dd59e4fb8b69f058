package inorder

import (
	"errors"
	"slices"
	"testing"
)

// TestRun: steps start and are waited for in order, no more of them at once than are allowed, some
// at once, and none behind one that fails.
func TestRun(t *testing.T) {
	bad := errors.New("bad")
	for _, x := range []struct {
		first, last, failsAtStart, failsAtEnd uint32
		most                                  int
	}{{1, 10, 0, 0, 4}, {3, 3, 0, 0, 4}, {1, 10, 6, 0, 4}, {1, 10, 0, 5, 4}, {4, 3, 0, 0, 4}, {1, 7, 0, 0, 1}} {
		var started, ended []uint32
		peak := 0
		err := Run(x.first, x.last, x.most, func(n uint32) (uint32, error) {
			if n == x.failsAtStart {
				return 0, bad
			}
			started = append(started, n)
			peak = max(peak, len(started)-len(ended))
			return n, nil
		}, func(n uint32) error {
			ended = append(ended, n)
			if n == x.failsAtEnd {
				return bad
			}
			return nil
		})
		var want []uint32
		for n := x.first; n <= x.last && n != x.failsAtStart; n++ {
			want = append(want, n)
		}
		fails := x.failsAtStart+x.failsAtEnd > 0
		if x.failsAtEnd > 0 {
			want = want[:len(started)]
			if int(x.failsAtEnd-x.first)+x.most < len(started) {
				t.Errorf("%+v: %d steps were started", x, len(started))
			}
		}
		if !slices.Equal(started, want) || !slices.Equal(ended, want) || (err != nil) != fails || peak > x.most {
			t.Errorf("%+v: started %v, ended %v, %v; %d at once", x, started, ended, err, peak)
		}
		if len(want) > x.most && peak < x.most {
			t.Errorf("%+v: at most %d at once", x, peak)
		}
	}
}
