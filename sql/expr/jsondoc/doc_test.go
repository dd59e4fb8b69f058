package jsondoc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestParseAsks: reading a long document asks as it goes, and ends when it is told to.
func TestParseAsks(t *testing.T) {
	const n = 50 * askEvery
	s := "[" + strings.Repeat("1,", n-1) + "1]"
	asked := 0
	if _, err := Parse(s, func() error { asked++; return nil }); err != nil || asked != n/askEvery {
		t.Fatalf("%v, asked %d times", err, asked)
	}
	stop := errors.New("stop")
	asked = 0
	if _, err := ReadAsking(s, func() error { asked++; return stop }); err != stop || asked != 1 {
		t.Fatalf("%v, asked %d times", err, asked)
	}
}

// TestMembers: members come in MySQL's order, whatever order they are in, and the last of a name
// stays.
func TestMembers(t *testing.T) {
	for s, want := range map[string]string{
		`{"b": 1, "aa": 2, "a": 3}`:         `{"a": 3, "b": 1, "aa": 2}`,
		`{"a": 1, "b": 2, "a": 3, "b": 4}`:  `{"a": 3, "b": 4}`,
		`{"a": 1, "a": 2, "a": 3}`:          `{"a": 3}`,
		`{"c": {"y": 1, "x": 2}, "a": [1]}`: `{"a": [1], "c": {"x": 2, "y": 1}}`,
		`{}`:                                `{}`,
	} {
		d, err := Parse(s, nil)
		if err != nil || Text(d) != want {
			t.Errorf("%s is %s, %v, want %s", s, Text(d), err, want)
		}
	}
	// Very many do not take time that grows with the square of their number: those that come last
	// are not put before all others one by one.
	var b strings.Builder
	const n = 300_000
	for i := range n {
		fmt.Fprintf(&b, `,"%06d":0`, n-i)
	}
	d, err := Parse("{"+b.String()[1:]+"}", nil)
	if o, ok := d.(*Object); err != nil || !ok || len(o.Keys) != n || o.Keys[0] != "000001" {
		t.Fatal(err)
	}
}
