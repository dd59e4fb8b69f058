package base

import "testing"

// TestContainsFold: a word is found in any case, at both ends, and not where it is cut off.
func TestContainsFold(t *testing.T) {
	for text, want := range map[string]bool{"interval": true, "date + INTERVAL 1 DAY": true, "a InTeRvAl": true,
		"xintervals": true, "": false, "interva": false, "inter val": false, "iinterval": true} {
		if got := ContainsFold(text, "interval"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
