package bench

import (
	"strings"
	"testing"
)

// TestRegistry: every benchmark can be found by its name, is complete, and names its figures so
// that they can be asked for.
func TestRegistry(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range All() {
		if b.Name == "" || b.Title == "" || len(b.Figures) == 0 || b.Run == nil || seen[b.Name] {
			t.Errorf("benchmark %q is incomplete or listed twice", b.Name)
		}
		seen[b.Name] = true
		if found, err := Find(b.Name); err != nil || found.Name != b.Name {
			t.Errorf("%s: found %q, %v", b.Name, found.Name, err)
		}
		if !b.Parts {
			continue
		}
		for _, f := range b.Figures {
			if only, err := b.Part([]string{f}); err != nil || len(only) != 1 || only[0] != f {
				t.Errorf("%s: figure %q is taken for %v, %v", b.Name, f, only, err)
			}
		}
	}
	if _, err := Find("x"); err == nil || !strings.Contains(err.Error(), "geococo, geolm") {
		t.Errorf("got %v", err)
	}
}
