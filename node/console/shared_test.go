package console

import (
	"testing"
	"time"
)

// TestShared: an answer is shared for a while, by sessions of one account only.
func TestShared(t *testing.T) {
	var s shared
	at := time.Unix(1e9, 0)
	s.put("map", "ann@%", shown{At: at})
	s.put("why", "ann@%", shown{At: at.Add(time.Second)})
	for _, c := range []struct {
		page, account string
		after         time.Duration
		want          bool
	}{
		{"map", "ann@%", 0, true}, {"map", "ann@%", sharedFor - 1, true}, {"map", "ann@%", sharedFor, false},
		{"map", "bob@%", 0, false}, {"map", "ann@10.%", 0, false}, {"health", "ann@%", 0, false}, {"why", "ann@%", sharedFor, true},
	} {
		if _, ok := s.get(c.page, c.account, at.Add(c.after)); ok != c.want {
			t.Errorf("%s of %s after %v: %v", c.page, c.account, c.after, ok)
		}
	}
	s.put("map", "bob@%", shown{At: at.Add(3 * time.Second)})
	if len(s.all) != 2 { // ann's map is too old
		t.Errorf("%d answers are kept", len(s.all))
	}
}
