package node

import "testing"

// TestTopicsAreShown: each topic that SHOW GODWIT offers has rows, and no rows are made that it
// does not offer.
func TestTopicsAreShown(t *testing.T) {
	offered := map[string]bool{}
	for _, topic := range (show{}).Topics() {
		offered[topic.Name] = true
		if shown[topic.Name] == nil {
			t.Errorf("nothing makes the rows of %s", topic.Name)
		}
	}
	for name := range shown {
		if !offered[name] {
			t.Errorf("%s is not offered", name)
		}
	}
}
