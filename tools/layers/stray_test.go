package layers

import (
	"slices"
	"strings"
	"testing"
)

// strays are endings of files that programs leave behind: logs, copies made by editors or merges,
// and compiled scripts.
var strays = []string{".log", ".orig", ".rej", ".bak", ".swp", ".tmp", "~", ".pyc"}

// TestNoStrayFiles: no file in the tree was left behind by a program.
func TestNoStrayFiles(t *testing.T) {
	seen := 0
	err := walk(func(path string) error {
		seen++
		if slices.ContainsFunc(strays, func(s string) bool { return strings.HasSuffix(path, s) }) {
			t.Errorf("%s was left behind: remove it, and let what wrote it write elsewhere", path)
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Fatalf("%d files were seen: %v", seen, err)
	}
}
