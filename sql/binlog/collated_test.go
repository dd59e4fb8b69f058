package binlog

import (
	"fmt"
	"testing"
)

// TestCollated: collations are written as MySQL writes them.
func TestCollated(t *testing.T) {
	for _, c := range []struct {
		of   []uint16
		want string
	}{
		{nil, "[] 0"},
		{[]uint16{255, 255}, "[252 255 0] 0"},
		{[]uint16{8}, "[8] 0"},
		{[]uint16{63, 255, 255, 8}, "[252 255 0 0 63 3 8] 0"},
		{[]uint16{8, 63, 255}, "[8 63 252 255 0] 1"},
		{[]uint16{8, 63, 9, 10}, "[8 63 9 10] 1"},
	} {
		b, each := collated(c.of)
		if got := fmt.Sprint(b, each); got != c.want {
			t.Errorf("%v: %s, want %s", c.of, got, c.want)
		}
	}
}
