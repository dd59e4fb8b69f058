package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/sql/ddl"
)

// TestJobs: SHOW JOBS tells how far long statements are, and how they ended.
func TestJobs(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	const rows = 3000
	for i := 0; i < rows; i += 500 {
		var values []string
		for j := i; j < i+500; j++ {
			values = append(values, fmt.Sprintf("(%d, %d)", j, j%1000))
		}
		exec(t, c, "INSERT INTO t VALUES "+strings.Join(values, ","))
	}
	if got := query(t, c, "SHOW JOBS"); len(got) != 0 {
		t.Errorf("before any job: %q", got)
	}
	exec(t, c, "CREATE INDEX v ON t (v)")
	expectErr(t, c, 1062, "CREATE UNIQUE INDEX u ON t (v)")
	exec(t, c, "ALTER TABLE t SET LOCALITY GLOBAL")
	exec(t, c, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)")
	got := query(t, c, "SHOW GODWIT JOBS") // newest first
	if len(got) != 5 {                     // the last statement rewrites the table twice
		t.Fatalf("%d jobs: %q", len(got), got)
	}
	for i, want := range []struct {
		kind, state string
		whole       bool
	}{{"ALTER TABLE", "succeeded", true}, {"ALTER TABLE", "succeeded", true},
		{"SET LOCALITY GLOBAL", "succeeded", true}, {"CREATE INDEX u", "failed", false},
		{"CREATE INDEX v", "succeeded", true}} {
		f := strings.Split(got[i], "|")
		if !strings.HasPrefix(f[1], want.kind) || !strings.HasSuffix(f[2], ".t") || f[4] != want.state ||
			(f[5] == fmt.Sprint(rows)) != want.whole ||
			(f[12] != "NULL") != (want.state == "failed") || want.whole && (f[6] != f[5] || f[7] != "100") {
			t.Errorf("job %d is %q, want %+v", i, got[i], want)
		}
	}
}

// TestJobRow: percent, rate and the time that is left.
func TestJobRow(t *testing.T) {
	row := func(j ddl.Job) string {
		var out []string
		for _, v := range j.Row(3) {
			if v == nil {
				v = "-"
			}
			out = append(out, fmt.Sprint(v))
		}
		return strings.Join(out, "|")
	}
	j := ddl.Job{ID: 7, Kind: "CREATE INDEX v", Table: "d.t", State: ddl.JobRunning, Rows: 250, Total: 1000,
		Elapsed: 10 * time.Second}
	if got := row(j); !strings.HasPrefix(got, "7|CREATE INDEX v|d.t|3|running|250|1000|25|25|30|") {
		t.Error(got)
	}
	j.Total = 0 // not counted yet
	if got := row(j); !strings.HasPrefix(got, "7|CREATE INDEX v|d.t|3|running|250|-|-|25|-|") {
		t.Error(got)
	}
	j.Total, j.Rows, j.State = 240, 250, ddl.JobSucceeded // rows came while it ran
	if got := row(j); !strings.HasPrefix(got, "7|CREATE INDEX v|d.t|3|succeeded|250|240|100|25|-|") {
		t.Error(got)
	}
}
