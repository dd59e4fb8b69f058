package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestSelects runs the scripts of testdata/selects against one server each. Their commands take one
// statement a line:
//
//	exec [user=NAME]     statements that yield no rows
//	query [user=NAME]    SELECTs. Each is followed by its rows, or its error. A line "old engine:"
//	                     and a reason says that go-mysql-server has run it.
//
// A new reason is a change of the output, and so a failure.
func TestSelects(t *testing.T) {
	datadriven.Walk(t, "testdata/selects", func(t *testing.T, path string) {
		s, c := newServer(t)
		s.g.query.Off = false
		k := conn(t, c)
		var before []string
		reasons := func() (fresh []string) {
			var now []string
			for _, f := range s.g.query.Fallbacks.All() {
				now = append(now, fmt.Sprint(f.Reason, " ", f.Count))
				if !slices.Contains(before, now[len(now)-1]) {
					fresh = append(fresh, f.Reason)
				}
			}
			before = now
			return fresh
		}
		users := map[string]execer{"": k}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			user := ""
			for _, a := range d.CmdArgs {
				if a.Key == "user" {
					user = a.Vals[0]
				}
			}
			if users[user] == nil {
				users[user] = conn(t, openDSN(t, fmt.Sprintf("%s@tcp(%s)/", user, s.Addr())))
			}
			var out strings.Builder
			for _, q := range strings.Split(d.Input, "\n") {
				if d.Cmd == "exec" {
					exec(t, users[user], q)
					reasons()
					continue
				}
				if strings.Count(d.Input, "\n") > 0 {
					fmt.Fprintf(&out, "%s\n", q)
				}
				rows, err := tryQuery(users[user], q)
				for _, r := range reasons() {
					fmt.Fprintf(&out, "  old engine: %s\n", r)
				}
				if err != nil {
					fmt.Fprintf(&out, "  error: %v\n", err)
					continue
				}
				for _, r := range rows {
					fmt.Fprintf(&out, "  %s\n", r)
				}
				if len(rows) == 0 {
					out.WriteString("  (no rows)\n")
				}
			}
			return out.String()
		})
	})
}
