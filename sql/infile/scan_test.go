package infile

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// scanned are the lines of a file, each as its line, its offset, and its fields.
func scanned(t testing.TB, in io.Reader, l Layout, offset, line int64) (out []string) {
	t.Helper()
	c := NewScanner(in, l, offset, line)
	for {
		at := fmt.Sprintf("%d@%d", c.Line(), c.Offset())
		fs, err := c.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fs {
			at += fmt.Sprintf(" %q", f.Text)
			if f.Null {
				at += "N"
			}
			if f.Enclosed {
				at += "E"
			}
		}
		out = append(out, at)
	}
}

// TestScanner: lines are where they are said to be, also behind line feeds in quotes, and a scanner
// that begins at one of them reads the rest.
func TestScanner(t *testing.T) {
	const file = "a,b\n\"x\ny\",\\N\n\n7,\"\"\nNULL,end"
	l := Layout{FieldEnd: ",", LineEnd: "\n", Enclosed: '"', Escape: '\\'}
	want := []string{`1@0 "a" "b"`, `2@4 "x\ny"E "N"N`, `4@13 ""`, `5@14 "7" ""E`, `6@19 "NULL"N "end"`}
	offsets, lines := []int64{0, 4, 13, 14, 19}, []int64{1, 2, 4, 5, 6}
	for i := range want {
		for _, in := range []io.Reader{strings.NewReader(file[offsets[i]:]), iotest.OneByteReader(strings.NewReader(file[offsets[i]:]))} {
			if got := scanned(t, in, l, offsets[i], lines[i]); fmt.Sprint(got) != fmt.Sprint(want[i:]) {
				t.Errorf("from line %d:\n got %q\nwant %q", lines[i], got, want[i:])
			}
		}
	}
}

// FuzzScanner: whatever a file has in it, a scanner that begins at any of its lines reads the rest
// alike, and no byte is lost between them.
func FuzzScanner(f *testing.F) {
	f.Add([]byte("a,b\n\"x\ny\",\\N\n\n7,\"\"\nNULL,end"), true)
	f.Add([]byte("\"open,\n1"), false)
	f.Fuzz(func(t *testing.T, file []byte, escape bool) {
		l := Layout{FieldEnd: ",", LineEnd: "\n", Enclosed: '"', Escape: -1}
		if escape {
			l.Escape = '\\'
		}
		text := string(file)
		all := scanned(t, strings.NewReader(text), l, 0, 1)
		for i := range all {
			var line, at int64
			if _, err := fmt.Sscanf(all[i], "%d@%d", &line, &at); err != nil || line != int64(strings.Count(text[:at], "\n"))+1 {
				t.Fatalf("%q: line %d at %d, %v", text, line, at, err)
			}
			if i == len(all)/2 {
				if got := scanned(t, iotest.HalfReader(strings.NewReader(text[at:])), l, at, line); fmt.Sprint(got) != fmt.Sprint(all[i:]) {
					t.Fatalf("%q from %d: %q, want %q", text, at, got, all[i:])
				}
			}
		}
	})
}
