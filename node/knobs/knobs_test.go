package knobs

import (
	"testing"

	"github.com/godwitdb/godwit/policy/home"
)

// TestLargeSettings: numbers are shown as one would write them.
func TestLargeSettings(t *testing.T) {
	s := Settings{groups: []Group{{prefix: "home.", defaults: home.Defaults(), help: map[string]string{"memory": ""}}}}
	for _, x := range s.List() {
		if x.Value != "67108864" || x.Default != x.Value {
			t.Errorf("%s is %s, by default %s", x.Name, x.Value, x.Default)
		}
	}
}
