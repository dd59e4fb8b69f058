package infile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/algebra"
)

// TestPlaces: IGNORE with the lines of a place leads to the next line that is read, or the place
// says that it does not. The bytes always do.
func TestPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 8))
	led := 0
	for _, l := range []Layout{
		{FieldEnd: "\t", LineEnd: "\n", Enclosed: -1, Escape: '\\'},
		{FieldEnd: ",", LineEnd: "\n", Enclosed: '"', Escape: '\\'},
		{FieldEnd: ",", LineEnd: "\r\n", Enclosed: '"', Escape: '"'},
		{FieldEnd: ";", LineEnd: "||", LineStart: ">", Enclosed: '\'', Escape: '!'},
		{FieldEnd: ",", LineEnd: ",", Enclosed: -1, Escape: '\\'},
	} {
		const letters = "ab,;\t\n\r|>\"'\\!"
		for range 3000 {
			b := make([]byte, rng.IntN(60))
			for i := range b {
				b[i] = letters[rng.IntN(len(letters))]
			}
			s := newSplitter(strings.NewReader(string(b)), l)
			rows := func(s *splitter) (out []string, p Place) {
				for more := true; more; {
					n := 0
					for n < 2 && s.next() {
						n++
						out = append(out, fmt.Sprintf("%q", s.data[s.start:]))
					}
					if n == 0 {
						break
					}
					_, more = s.nextLine()
					if p = s.place(1); len(out) < 4 {
						return out, p
					}
				}
				return out, p
			}
			_, p := rows(s)
			rest := []string{}
			for !s.eof {
				more, _ := rows(s)
				if len(more) == 0 {
					break
				}
				rest = append(rest, more...)
			}
			read := func(s *splitter) (out []string) {
				for !s.eof {
					more, _ := rows(s)
					if len(more) == 0 {
						break
					}
					out = append(out, more...)
				}
				return out
			}
			if got := read(newSplitter(strings.NewReader(string(b[p.Bytes:])), l)); !slices.Equal(got, rest) {
				t.Fatalf("%+v %q behind %d bytes:\n got %q\nwant %q", l, b, p.Bytes, got, rest)
			}
			if p.Lines < 0 || p.Bytes == int64(len(b)) {
				continue
			}
			led++
			skips := newSplitter(strings.NewReader(string(b)), l)
			for range p.Lines {
				skips.nextLine()
			}
			if got := read(skips); !slices.Equal(got, rest) {
				t.Fatalf("%+v %q behind %d lines:\n got %q\nwant %q", l, b, p.Lines, got, rest)
			}
		}
	}
	if led < 1000 {
		t.Errorf("only %d places lead there by lines", led)
	}
}

// TestRecords: a batch is the same when it is read from its record.
func TestRecords(t *testing.T) {
	text := "1,\"two\",3,4\n,\\N\n5\n\"x\",,\"\"\n"
	f := &File{Keep: true, Batch: 100, layout: Layout{FieldEnd: ",", LineEnd: "\n", Enclosed: '"', Escape: '\\'}, wants: []int{0, 2},
		cols: make([]algebra.Column, 3)}
	b := f.batch(newSplitter(strings.NewReader(text), f.layout))
	got, err := played(b.kept, 3, f.wants)
	if err != nil {
		t.Fatal(err)
	}
	if b.kept, got.kept = nil, nil; fmt.Sprint(got.vals, got.nulls, got.fields, got.cut, got.end) != fmt.Sprint(b.vals, b.nulls, b.fields, b.cut, b.end) ||
		len(got.last) != len(b.last) || b.n != 4 || got.n != 4 {
		t.Errorf("%+v, want %+v", got, b)
	}
	if _, err := played([]byte{200}, 3, f.wants); err == nil {
		t.Error("half a record is read")
	}
}
