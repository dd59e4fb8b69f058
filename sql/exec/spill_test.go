package exec

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
)

// TestSpillIsSealed: rows in a temporary file cannot be read there, and come back.
func TestSpillIsSealed(t *testing.T) {
	types := []expr.Type{{Kind: expr.Text}}
	s, err := newSpill(&Ctx{Context: t.Context(), TempDir: t.TempDir()}, types)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	rows := 5 * expr.BatchSize
	v := &expr.Vec{}
	for from := 0; from < rows; from += expr.BatchSize {
		v.Reset(types[0], expr.BatchSize)
		for i := range expr.BatchSize {
			v.S[i] = fmt.Sprint("secret ", from+i)
		}
		if err := s.write([]*expr.Vec{v}, expr.All(expr.BatchSize)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(io.NewSectionReader(s.f, 0, math.MaxInt64))
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) < rows*8 || bytes.Contains(raw, []byte("secret")) {
		t.Errorf("%d bytes in the file: %q", len(raw), raw[:min(len(raw), 80)])
	}
	n := 0
	for {
		b, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			break
		}
		for _, i := range b.Sel {
			if want := fmt.Sprint("secret ", n); b.Cols[0].S[i] != want {
				t.Fatalf("row %d is %q", n, b.Cols[0].S[i])
			}
			n++
		}
	}
	if n != rows {
		t.Errorf("%d rows of %d", n, rows)
	}
}
