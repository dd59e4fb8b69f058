package main

import "testing"

// Bounds of the layout, which hold for the whole tree. Raise none of them: move or split instead.
const (
	maxRootFolders   = 17
	maxPackageLines  = 6000 // not blank, tests left out
	maxComplexPer10k = 10.0
	maxCommentWidth  = 100
)

// TestBounds keeps the tree as easy to find one's way in as it has become.
func TestBounds(t *testing.T) {
	r, err := Measure("../..")
	if err != nil {
		t.Fatal(err)
	}
	if r.Total.Lines < 50_000 {
		t.Fatalf("only %d lines were found: is this the module's root?", r.Total.Lines)
	}
	if n := len(r.RootFolders); n > maxRootFolders {
		t.Errorf("%d folders at the root, more than %d: %v", n, maxRootFolders, r.RootFolders)
	}
	for _, p := range r.Packages {
		if p.Lines > maxPackageLines {
			t.Errorf("package %s has %d lines, more than %d: split it along a seam", p.Folder, p.Lines, maxPackageLines)
		}
	}
	if per := r.Total.Per10k(r.Total.Complex); per > maxComplexPer10k {
		t.Errorf("%.1f functions of complexity over %d for each 10,000 lines, more than %.1f; the worst is %s in %s:%d with %d",
			per, complexFunction, maxComplexPer10k, r.MostComplex.Name, r.MostComplex.File, r.MostComplex.Line,
			r.MostComplex.Complexity)
	}
	if r.CommentWidth90 > maxCommentWidth {
		t.Errorf("one comment line of ten is wider than %d columns", maxCommentWidth)
	}
}
