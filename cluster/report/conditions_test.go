package report

import "testing"

// TestConditionNames: names are unique, as scripts and documents go by them.
func TestConditionNames(t *testing.T) {
	seen := map[string]bool{}
	var names []string
	for _, c := range conditions {
		names = append(names, c.name)
	}
	for _, c := range append(append([]clockCondition{}, sourceConditions...), modeConditions...) {
		names = append(names, c.name)
	}
	for _, n := range names {
		if seen[n] || n == "" {
			t.Errorf("the name %q is used twice", n)
		}
		seen[n] = true
	}
}
