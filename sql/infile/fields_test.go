package infile

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// split are the lines of a file with at most n fields each, as text; a field that is NULL is <N>.
func split(t *testing.T, in io.Reader, l Layout, n int) (out []string) {
	t.Helper()
	s := newSplitter(in, l)
	for more := true; more; {
		var fs []string
		for len(fs) < n && s.next() {
			f := fmt.Sprintf("%q", s.data[s.start:])
			if s.isNull() {
				f = "<N>"
			}
			fs = append(fs, f)
		}
		if s.err != nil {
			t.Fatal(s.err)
		}
		if len(fs) == 0 {
			break
		}
		var cut bool
		if cut, more = s.nextLine(); cut && more {
			fs = append(fs, "...")
		}
		out = append(out, strings.Join(fs, " "))
	}
	return out
}

// TestSplit: MariaDB 10.11 divides these files alike.
func TestSplit(t *testing.T) {
	tabs := Layout{FieldEnd: "\t", LineEnd: "\n", Enclosed: -1, Escape: '\\'}
	csv := Layout{FieldEnd: ",", LineEnd: "\n", Enclosed: '"', Escape: '\\'}
	bare := Layout{FieldEnd: ",", LineEnd: "\r\n", Enclosed: '"', Escape: -1}
	self := Layout{FieldEnd: ",", LineEnd: "\n", Enclosed: '"', Escape: '"'}
	long := Layout{FieldEnd: ";;", LineEnd: "||", Enclosed: '\'', Escape: '!'}
	start := Layout{FieldEnd: ",", LineEnd: "\n", LineStart: "xx", Enclosed: -1, Escape: '\\'}
	one := Layout{FieldEnd: ",", LineEnd: ",", Enclosed: -1, Escape: '\\'}
	for _, c := range []struct {
		l    Layout
		n    int
		in   string
		want []string
	}{
		{tabs, 2, "1\ta\n2\tb\n", []string{`"1" "a"`, `"2" "b"`}},
		{tabs, 2, "1\ta\n2\tb", []string{`"1" "a"`, `"2" "b"`}},
		{tabs, 2, "\\N\tNULL\n\n\\NN\t\\\t\n", []string{`<N> "NULL"`, `""`, `"NN" "\t"`}},
		{tabs, 2, "1\ta\tmore\n2\n3\tc\td", []string{`"1" "a" ...`, `"2"`, `"3" "c"`}},
		{tabs, 2, "1\ta\\\nb\n", []string{`"1" "a\nb"`}},
		{csv, 2, "1,\"say, \"\"hi\"\"\"\n2,\"\"\n", []string{`"1" "say, \"hi\""`, `"2" ""`}},
		{csv, 2, "NULL,\"NULL\"\n\"\\N\",x\"y\n", []string{`<N> "NULL"`, `<N> "x\"y"`}},
		{csv, 2, "\"5\" wide\",6\"\n\"a\nb\",\"c\\\"\"\n", []string{`"5\" wide" "6\""`, `"a\nb" "c\""`}},
		{csv, 2, "1,\"open\n2,x", []string{`"1" "\"open\n2,x"`}},
		{csv, 1, "\"a\",\"b\nc\"\nd\n", []string{`"a" ...`, `"c\""`, `"d"`}},
		{bare, 2, "c:\\new,\"a\r\nb\"\r\nx,\\N\r\n", []string{`"c:\\new" "a\r\nb"`, `"x" "\\N"`}},
		{self, 2, "\"a\"\"b\",\"c,d\"\n\"e\n", []string{`"a\"b" "c,d"`, `"\"e\n"`}},
		{long, 2, "1;;'a;;b||c'';;d'||2;;e;f|g", []string{`"1" "a;;b||c';;d"`, `"2" "e;f|g"`}},
		{start, 2, "junk xx1,a\nnothing\nxxx2,b\n", []string{`"1" "a"`, `"x2" "b"`}},
		{one, 2, "1,a,2,b", []string{`"1" "a"`, `"2" "b"`}},
	} {
		want := c.want
		if c.n == 1 { // the rest of a line knows no quotes
			want = []string{`"a" ...`, `"c\""`, `"d"`}
		}
		for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			if got := split(t, in, c.l, c.n); !slices.Equal(got, want) {
				t.Errorf("%q:\n got %q\nwant %q", c.in, got, want)
			}
		}
	}
}

// TestSplitWhatWasWritten: random fields that are written with quotes and escapes are read as they
// were, however the file comes in pieces.
func TestSplitWhatWasWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	layouts := []Layout{
		{FieldEnd: "\t", LineEnd: "\n", Enclosed: -1, Escape: '\\'},
		{FieldEnd: ",", LineEnd: "\n", Enclosed: '"', Escape: '\\'},
		{FieldEnd: ";;", LineEnd: "\r\n", LineStart: ">>", Enclosed: '\'', Escape: '!'},
		{FieldEnd: "ab", LineEnd: "aa", Enclosed: '"', Escape: '\\'},
	}
	const letters = "a b,;>\t\n\r\"'\\!NnZ0\x00\x1aé"
	for range 2000 {
		l := layouts[rng.IntN(len(layouts))]
		var file strings.Builder
		var want []string
		for range rng.IntN(6) {
			file.WriteString(l.LineStart)
			var fs []string
			for k := range 3 {
				if k > 0 {
					file.WriteString(l.FieldEnd)
				}
				f := make([]byte, rng.IntN(6))
				for i := range f {
					f[i] = letters[rng.IntN(len(letters))]
				}
				write(&file, l, string(f), rng.IntN(2) == 0)
				fs = append(fs, fmt.Sprintf("%q", f))
			}
			file.WriteString(l.LineEnd)
			want = append(want, strings.Join(fs, " "))
		}
		in := io.Reader(strings.NewReader(file.String()))
		if rng.IntN(2) == 0 {
			in = iotest.HalfReader(in)
		}
		if got := split(t, in, l, 3); !slices.Equal(got, want) {
			t.Fatalf("%+v %q:\n got %q\nwant %q", l, file.String(), got, want)
		}
	}
}

// write writes a field as SELECT ... INTO OUTFILE does: each byte that could mean something has an
// escape before it.
func write(w *strings.Builder, l Layout, f string, quoted bool) {
	quoted = quoted && l.Enclosed >= 0
	if quoted {
		w.WriteByte(byte(l.Enclosed))
	}
	for _, b := range []byte(f) {
		switch {
		case b == 0:
			w.WriteByte(byte(l.Escape))
			b = '0'
		case b == byte(l.Escape), int(b) == l.Enclosed, b == l.FieldEnd[0], b == l.LineEnd[0]:
			if strings.IndexByte("nrbtZ0N", b) < 0 {
				w.WriteByte(byte(l.Escape))
			}
		}
		w.WriteByte(b)
	}
	if quoted {
		w.WriteByte(byte(l.Enclosed))
	}
}
