package jsondoc

import (
	"errors"
	"fmt"
	"math"
	"strconv"
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

// TestWithin: a document is written up to a length, and the writing can be ended.
func TestWithin(t *testing.T) {
	doc := []any{int64(1), "a\"b\x01", &Object{Keys: []string{"k"}, Vals: []any{[]any{}}}}
	text := Text(doc)
	if text != `[1, "a\"b\u0001", {"k": []}]` {
		t.Error(text)
	}
	for most := range len(text) + 2 {
		got, fits, err := Within(doc, most, func() error { return nil })
		if err != nil || fits != (most >= len(text)) || fits && got != text {
			t.Errorf("%d bytes: %q, %v, %v", most, got, fits, err)
		}
	}
	long := make([]any, 10*askEvery)
	for i := range long {
		long[i] = int64(i)
	}
	stop, asked := errors.New("stop"), 0
	ask := func() error {
		if asked++; asked == 3 {
			return stop
		}
		return nil
	}
	if _, fits, err := Within(long, 1<<40, ask); fits || err != stop || asked != 3 {
		t.Error(fits, err, asked)
	}
}

// TestNewObject: members come into their order, of those with one name the last stays, and the
// sorting can be ended.
func TestNewObject(t *testing.T) {
	never := func() error { return nil }
	o, err := NewObject([]string{"bb", "a", "bb", "c"}, []any{int64(1), int64(2), int64(3), int64(4)}, never)
	if err != nil || Text(o) != `{"a": 2, "c": 4, "bb": 3}` {
		t.Error(Text(o), err)
	}
	keys, vals := make([]string, 10_000), make([]any, 10_000)
	for i := range keys {
		keys[i] = strconv.Itoa(len(keys) - i)
	}
	stop, asked := errors.New("stop"), 0
	ask := func() error {
		if asked++; asked == 50 {
			return stop
		}
		return nil
	}
	if _, err := NewObject(keys, vals, ask); err != stop || asked != 50 {
		t.Error(err, asked)
	}
}

// TestWholeNumbers: those of up to 64 bits are whole, larger ones doubles, and what is in no double
// is refused, however long it is.
func TestWholeNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64),
		"18446744073709551615": uint64(math.MaxUint64), "18446744073709551616": Num("1.8446744073709552e19"),
		"-9223372036854775809": Num("-9.223372036854776e18"), strings.Repeat("1", 309): Num("1.1111111111111112e308"),
		"-" + strings.Repeat("1", 309): Num("-1.1111111111111112e308"), strings.Repeat("9", 309): nil, strings.Repeat("1", 310): nil,
		"-" + strings.Repeat("1", 310): nil, strings.Repeat("1", 1<<20): nil, strings.Repeat("1", 400) + "e-399": Num("1.1111111111111112"),
		strings.Repeat("1", 312) + ".5": nil,
	} {
		got, err := Parse(text, nil)
		if got != want || (err == nil) != (want != nil) {
			t.Errorf("%.30s of %d: %v, %v, want %v", text, len(text), got, err, want)
		}
	}
}
