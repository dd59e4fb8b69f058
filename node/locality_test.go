package node

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
)

// TestLocalityChangesUnderLoad: a table goes from BY ROW to BY TABLE, GLOBAL and back while another
// region updates it. No acknowledged update is lost, rows move exactly while the locality lets
// them, and pins stay.
func TestLocalityChangesUnderLoad(t *testing.T) { bubble(t, localityChangesUnderLoad) }

func localityChangesUnderLoad(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	first, second := l.cfg.Matrix.Names[0], l.cfg.Matrix.Names[1]
	a, b, load := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[1], ""), openSQL(t, l.Nodes()[1], "")
	mustExec(t, a, "CREATE DATABASE d")
	for _, c := range []string{"USE d"} {
		mustExec(t, a, c)
		mustExec(t, b, c)
		mustExec(t, load, c)
	}
	mustExec(t, a, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, KEY (k))")
	mustExec(t, a, "INSERT INTO t VALUES (1,10,0),(2,20,0),(3,30,0)")
	mustExec(t, a, "UPDATE t__homes SET pinned = 1 WHERE id = 3")
	homes := func() string {
		return strings.Join(column(t, a, "SELECT id, home_region, pinned FROM t__homes ORDER BY id"), " ")
	}
	in := func(one, two, three string) string {
		return "1|" + one + "|0 2|" + two + "|0 3|" + three + "|1"
	}

	var acked, unsure atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			// Schema changes abort transactions with a retryable error; another error may have been
			// a success.
			if _, err := load.ExecContext(context.Background(),
				"UPDATE t SET v = v + 1, k = k + 1 WHERE id IN (1, 3)"); err == nil {
				acked.Add(1)
			} else if !strings.Contains(err.Error(), "1213") {
				unsure.Add(1)
				t.Errorf("update: %v", err)
				return
			}
		}
	}()
	defer stop()
	waitFor := func(what, want string) {
		t.Helper()
		until(t, what, func() string {
			if got := homes(); got != want {
				return got + ", want " + want
			}
			return ""
		})
	}
	waitFor("the row to move", in(second, first, first))
	mustExec(t, a, "ALTER TABLE t SET LOCALITY REGIONAL BY TABLE IN '"+first+"'")
	waitFor("the table to be in one region", in(first, first, first))
	n := acked.Load()
	until(t, "updates to go on", func() string {
		if acked.Load() < n+10 {
			return "too few"
		}
		return ""
	})
	if got := homes(); got != in(first, first, first) {
		t.Errorf("rows of a table that is homed as a whole moved: %s", got)
	}
	mustExec(t, a, "ALTER TABLE t SET LOCALITY REGIONAL BY ROW")
	waitFor("rows to move again", in(second, first, first))
	mustExec(t, a, "UPDATE t__homes SET pinned = 1") // the whole table
	mustExec(t, a, "UPDATE t__homes SET home_region = '"+first+"'")
	n = acked.Load()
	until(t, "updates to go on", func() string {
		if acked.Load() < n+10 {
			return "too few"
		}
		return ""
	})
	if got, want := homes(), "1|"+first+"|1 2|"+first+"|1 3|"+first+"|1"; got != want {
		t.Errorf("pinned rows are at %s, want %s", got, want)
	}
	// rewrites the table
	mustExec(t, a, "ALTER TABLE t ADD COLUMN x INT DEFAULT 7, MODIFY COLUMN v BIGINT")
	if got, want := homes(), "1|"+first+"|1 2|"+first+"|1 3|"+first+"|1"; got != want {
		t.Errorf("after a rewrite rows are at %s, want %s", got, want)
	}
	mustExec(t, a, "UPDATE t__homes SET pinned = 0 WHERE id < 3")
	waitFor("the row to move once more", in(second, first, first))
	stop()
	<-done
	for _, q := range []string{"SELECT v, k - 10 FROM t WHERE id = 1", "SELECT v, k - 30 FROM t WHERE id = 3",
		"SELECT v, k - 10 FROM t WHERE k >= 10 AND id = 1"} {
		var v, k int64
		if err := b.QueryRowContext(t.Context(), q).Scan(&v, &k); err != nil || v != acked.Load() || k != v {
			t.Errorf("%s: %d and %d (%v), acknowledged %d", q, v, k, err, acked.Load())
		}
	}
}
