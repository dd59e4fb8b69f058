package layers

import (
	"io/fs"
	"path/filepath"
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
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "tmp"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		seen++
		if slices.ContainsFunc(strays, func(s string) bool { return strings.HasSuffix(d.Name(), s) }) {
			t.Errorf("%s was left behind: remove it, and let what wrote it write elsewhere", path)
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Fatalf("%d files were seen: %v", seen, err)
	}
}
