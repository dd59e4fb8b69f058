package node

import (
	"fmt"
	"strings"
	"testing"
)

// TestReplaceKeepsHomes: a REPLACE that takes the place of two rows, at a node in another region
// than theirs, writes the entries of indexes by home where the row that it writes again has its
// home. It learns of the second row by a failed insert, which it takes back.
func TestReplaceKeepsHomes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := startLocal(t, 3, 1)
		near, far := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[2], "")
		mustExec(t, near, "CREATE DATABASE d")
		mustExec(t, near, "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9), n INT, UNIQUE KEY v (v), KEY n (n))")
		for i := range 6 {
			mustExec(t, near, "INSERT INTO d.t VALUES (?, ?, ?), (?, ?, ?)", 2*i, fmt.Sprint("v", 2*i), i, 2*i+1, fmt.Sprint("v", 2*i+1), i)
		}
		for i := range 6 {
			mustExec(t, far, "REPLACE INTO d.t VALUES (?, ?, ?)", 2*i, fmt.Sprint("v", 2*i+1), 10+i)
			mustExec(t, near, "REPLACE INTO d.t VALUES (?, ?, ?), (?, ?, ?)", 2*i+1, fmt.Sprint("v", 2*i+1), i, 2*i, fmt.Sprint("v", 2*i), i)
		}
		if got := column(t, near, "CHECK TABLE d.t"); len(got) != 1 || !strings.HasSuffix(got[0], "|OK") {
			t.Error(got)
		}
	})
}
