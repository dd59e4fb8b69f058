package main

import (
	"os"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// TestDashboard: the dashboard is what Grafana's own schema says: no field is missing, none is
// unknown, and the values are allowed. It is not a Grafana that loads it.
func TestDashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile("deploy/grafana/godwit.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text []byte) string {
		var d dashboard.Dashboard
		// Without complaints the error is an empty list, and not nil.
		if err := d.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
			return err.Error()
		}
		if err := d.Validate(); err != nil && err.Error() != "" {
			return err.Error()
		}
		if len(d.Panels) < 10 {
			return "it has hardly a panel"
		}
		return ""
	}
	if why := check(text); why != "" {
		t.Error(why)
	}
	for _, bad := range []string{`{"title": "x"}`, `{"title": 5}`, string(text[:len(text)-3]) + `, "no_such_field": 1}`} {
		if check([]byte(bad)) == "" {
			t.Errorf("a wrong dashboard passes: %.80s", bad)
		}
	}
}
