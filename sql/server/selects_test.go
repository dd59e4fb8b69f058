package server

import (
	"context"
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
//	change [user=NAME]   statements that change rows, followed by how many rows they have changed
//	                     and the value of LAST_INSERT_ID that the client is told, or the error
//
// A new reason is a change of the output, and so a failure.
func TestSelects(t *testing.T) { statementScripts(t, "testdata/selects") }

// TestChanges runs the scripts of testdata/changes, as TestSelects does.
func TestChanges(t *testing.T) { statementScripts(t, "testdata/changes") }

func statementScripts(t *testing.T, dir string) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
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
				run := tryQuery
				if d.Cmd == "change" {
					run = tryChange
				}
				rows, err := run(users[user], q)
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

// tryChange runs a statement that changes rows.
func tryChange(c execer, q string, args ...any) ([]string, error) {
	r, err := c.ExecContext(context.Background(), q, args...)
	if err != nil {
		return nil, err
	}
	n, err := r.RowsAffected()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprint(n, " changed")
	if id, err := r.LastInsertId(); err == nil && id != 0 {
		text += fmt.Sprint(", id ", id)
	}
	return []string{text}, nil
}
