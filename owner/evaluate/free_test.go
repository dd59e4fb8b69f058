package evaluate

import (
	"errors"
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestFree: Free splits a request by what is locked and by its limit, and Before maps positions
// back.
func TestFree(t *testing.T) {
	points := func(keys string) (out []*wire.Span) {
		for _, k := range []byte(keys) {
			out = append(out, &wire.Span{Start: []byte{k}})
		}
		return out
	}
	for _, c := range []struct {
		keys, locked string
		limit        uint32
		free         string
		skipped      string
	}{
		{"abcd", "", 0, "abcd", "[]"},
		{"abcd", "ac", 0, "bd", "[0 2]"},
		{"abcd", "abcd", 0, "", "[0 1 2 3]"},
		{"abcd", "a", 1, "b", "[0 2 3]"},
		{"abcd", "a", 3, "bcd", "[0]"},
	} {
		q := &wire.ReadRequest{Spans: points(c.keys), Limit: c.limit, LockTerm: 7}
		free, skipped, err := Free(q, func(s base.Span) (bool, error) {
			for i := range c.locked {
				if c.locked[i] == s.Start[0] {
					return false, nil
				}
			}
			return true, nil
		})
		got := ""
		for _, s := range free.Spans {
			got += string(s.Start)
		}
		if err != nil || got != c.free || fmt.Sprint(skipped) != c.skipped || free.LockTerm != 7 || free.Limit != 0 {
			t.Errorf("%+v: %q, %v, %v", c, got, skipped, err)
		}
		for i := range got {
			if at := skipped.Before(uint32(i)); c.keys[at] != got[i] {
				t.Errorf("%+v: key %d of those left is at %d", c, i, at)
			}
		}
	}
	failed := errors.New("full")
	if _, _, err := Free(&wire.ReadRequest{Spans: points("a")}, func(base.Span) (bool, error) { return false, failed }); err != failed {
		t.Errorf("an error of a lock: %v", err)
	}
	if _, _, err := Free(&wire.ReadRequest{Spans: []*wire.Span{{Start: []byte("a"), End: []byte("b")}}}, nil); base.CodeOf(err) != base.CodeInvalid {
		t.Errorf("a range: %v", err)
	}
}
