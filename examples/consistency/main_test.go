package main

import (
	"strings"
	"testing"
)

// TestFigure13a asserts what docs/consistency.md says of the example.
func TestFigure13a(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, 4); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
}
