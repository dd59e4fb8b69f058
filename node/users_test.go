package node

import (
	"fmt"
	"testing"
)

// TestUsersAtOnce: statements that change users follow each other at once, through one node, and
// all nodes have what came of them.
func TestUsersAtOnce(t *testing.T) { bubble(t, usersAtOnce) }

func usersAtOnce(t *testing.T) {
	l := startLocal(t, 3, 1)
	c := openSQL(t, l.Nodes()[1], "")
	mustExec(t, c, "CREATE DATABASE d")
	for i := range 8 {
		mustExec(t, c, fmt.Sprintf("CREATE USER u%d IDENTIFIED BY 'secret'", i))
		mustExec(t, c, fmt.Sprintf("GRANT SELECT ON d.* TO u%d", i))
		if i%2 == 0 {
			mustExec(t, c, fmt.Sprintf("DROP USER u%d", i))
		}
	}
	for _, n := range l.Nodes() {
		k := openSQL(t, n, "")
		until(t, "the node knows the users", func() string {
			if got := fmt.Sprint(column(t, k, "SELECT user FROM mysql.user WHERE user LIKE 'u%' "+
				"ORDER BY user")); got != "[u1 u3 u5 u7]" {
				return got
			}
			return ""
		})
	}
}
