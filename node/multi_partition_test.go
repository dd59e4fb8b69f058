package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// A region is cut off. There, rows are read as of the last epoch that has arrived, and writes are
// refused, for certain and so that they can be tried again; the others go on. Afterwards it catches
// up, and all have the same rows.
func TestMultiMasterPartition(t *testing.T) { bubble(t, multiMasterPartition) }

func multiMasterPartition(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	nodes := l.Nodes()
	admin := openSQL(t, nodes[0], "")
	mustExec(t, admin, "CREATE DATABASE d")
	mustExec(t, admin, "CREATE TABLE d.t (id INT PRIMARY KEY, who INT, KEY (who)) LOCALITY MULTI MASTER")
	mustExec(t, admin, "INSERT INTO d.t VALUES (1, 1), (2, 2), (3, 3)")
	major, minor := openSQL(t, nodes[0], "d"), openSQL(t, nodes[2], "d")
	rows := "SELECT id FROM t ORDER BY id"
	until(t, "the rows to be everywhere", func() string {
		if got := strings.Join(column(t, minor, rows), " "); got != "1 2 3" {
			return got
		}
		return ""
	})
	mustExec(t, minor, "INSERT INTO t VALUES (4, 4)")
	until(t, "the row to be everywhere", func() string {
		if got := strings.Join(column(t, major, rows), " "); got != "1 2 3 4" {
			return got
		}
		return ""
	})

	l.Network().Isolate(nodes[2].ID())
	var unknown []int // of unknown outcome: they were part of an epoch when the path was cut
	next := 100
	write := func() string {
		next++
		mustExec(t, minor, "BEGIN") // a statement by itself would be tried again for some seconds
		_, err := minor.ExecContext(t.Context(), "INSERT INTO t VALUES (?, 3)", next)
		if err == nil {
			_, err = minor.ExecContext(t.Context(), "COMMIT")
		}
		if err != nil {
			_, _ = minor.ExecContext(t.Context(), "ROLLBACK")
		}
		switch mysqlCode(err) {
		case 1213:
			if !strings.Contains(err.Error(), "nothing was done") {
				t.Errorf("the refusal says %v", err)
			}
			return ""
		case 1105:
			unknown = append(unknown, next)
		}
		return fmt.Sprint(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		until(t, "writes to be refused on the smaller side", write)
		for range 2 {
			begin := time.Now()
			if why := write(); why != "" {
				t.Errorf("a later write: %s", why)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("it was refused after %v", d)
			}
		}
	}()
	held := until(t, "the larger side to go on", func() string {
		_, err := major.ExecContext(t.Context(), "REPLACE INTO t VALUES (5, 1)")
		return errText(err)
	})
	t.Logf("the larger side went on after %v", held)
	other := openSQL(t, nodes[1], "d")
	mustExec(t, other, "DELETE FROM t WHERE id = 2")
	<-done
	if got := strings.Join(column(t, minor, rows), " "); got != "1 2 3 4" {
		t.Errorf("the smaller side reads %s", got)
	}
	if got := strings.Join(column(t, minor, "SELECT id FROM t WHERE who = 2"), " "); got != "2" {
		t.Errorf("and by the index %s", got)
	}

	l.Network().Rejoin(nodes[2].ID())
	until(t, "the smaller side to write again", func() string {
		_, err := minor.ExecContext(t.Context(), "REPLACE INTO t VALUES (6, 3)")
		return errText(err)
	})
	var want []string
	until(t, "all replicas to be the same", func() string {
		want = nil
		for i, n := range nodes {
			got := column(t, openSQL(t, n, "d"), "SELECT id, who FROM t ORDER BY id")
			if i == 0 {
				want = got
			}
			if !slices.Equal(got, want) || len(got) < 5 {
				return fmt.Sprintf("node %d has %v instead of %v", n.ID(), got, want)
			}
		}
		return ""
	})
	for _, row := range want {
		var id, who int
		fmt.Sscanf(strings.ReplaceAll(row, "|", " "), "%d %d", &id, &who)
		if id > 100 && !slices.Contains(unknown, id) {
			t.Errorf("row %d is there, and was refused", id)
		}
	}
	t.Logf("rows %v, of unknown outcome were %v", want, unknown)

	// What the cluster says of it.
	until(t, "godwit.epochs to show all members", func() string {
		got := column(t, major, "SELECT node, state, members, lag_epochs, round_plan FROM godwit.epochs ORDER BY node")
		if len(got) != 3 || slices.ContainsFunc(got, func(s string) bool { return !strings.Contains(s, "|member|[1 2 3]|0|") }) {
			return strings.Join(got, "\n")
		}
		return ""
	})
	if got := column(t, major, "SELECT committed > 0 AND bytes > 0 AND view_number > 1 FROM godwit.epochs "+
		"WHERE node = "+fmt.Sprint(base.NodeID(1))); len(got) != 1 || got[0] != "1" {
		t.Errorf("the counters of node 1: %v", got)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
