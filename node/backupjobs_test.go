package node

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBackupOutlivesItsGateway: a backup whose gateway is killed is completed by another node, and
// one job that is canceled leaves nothing.
func TestBackupOutlivesItsGateway(t *testing.T) { bubble(t, backupOutlivesItsGateway) }

func backupOutlivesItsGateway(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	l, cs := startBackups(t, 3, dir)
	mustExec(t, cs[0], "CREATE DATABASE d")
	mustExec(t, cs[0], "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(1000), KEY (v))")
	const rows = 2000
	for i := 0; i < rows; i += 500 {
		var values []string
		for j := i; j < i+500; j++ {
			values = append(values, fmt.Sprintf("(%d, SHA2('%d', 512))", j, j))
		}
		mustExec(t, cs[i/500%3], "INSERT INTO d.t VALUES "+strings.Join(values, ","))
	}
	to := " '" + "file://" + dir + "'"
	mustExec(t, cs[0], "SET CLUSTER SETTING backup.mb_per_second = 0.01") // the backup takes half a minute
	time.Sleep(time.Second)
	id := one(t, cs[2], "BACKUP INTO"+to+" WITH DETACHED")[0]
	job := func() []string {
		t.Helper()
		for _, line := range rowsOf(t, cs[0], "SHOW JOBS") {
			if f := strings.Split(line, "|"); f[0] == id {
				return f
			}
		}
		return make([]string, 20)
	}
	time.Sleep(8 * time.Second)
	if f := job(); f[1] != "BACKUP" || f[2] != "CLUSTER" || f[3] != "3" || f[4] != "running" {
		t.Fatalf("SHOW JOBS: %q", f)
	}
	mustExec(t, cs[0], "DELETE FROM d.t WHERE id >= 1000") // not of the moment
	if err := l.Nodes()[2].Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
	if f := job(); f[4] != "succeeded" || f[3] == "3" {
		t.Fatalf("SHOW JOBS after the gateway was killed: %q", f)
	}
	got := rowsOf(t, cs[1], "SHOW BACKUP FROM"+to)
	if len(got) != 1 || !strings.Contains(got[0], "|complete|") {
		t.Fatalf("SHOW BACKUP: %q", got)
	}
	id = one(t, cs[1], "RESTORE DATABASE d FROM"+to+" AS e WITH DETACHED")[0]
	time.Sleep(8 * time.Second)
	mustExec(t, cs[0], "CANCEL JOB "+id)
	time.Sleep(20 * time.Second)
	if f := job(); f[4] != "failed" || !strings.Contains(f[12], "canceled") {
		t.Errorf("SHOW JOBS after CANCEL JOB: %q", f)
	}
	refused(t, cs[0], "CANCEL JOB "+id, "has ended already")
	refused(t, cs[1], "SELECT * FROM e.t", "database not found")
	mustExec(t, cs[0], "SET CLUSTER SETTING backup.mb_per_second = 0")
	time.Sleep(time.Second)
	one(t, cs[1], "RESTORE DATABASE d FROM"+to+" AS e")
	if got := one(t, cs[0], "SELECT COUNT(*), SUM(id) FROM e.t WHERE v > ''"); got[0] != fmt.Sprint(rows) || got[1] != "1999000" {
		t.Errorf("%s rows with the sum %s", got[0], got[1])
	}
	refused(t, cs[0], "SET CLUSTER SETTING backup.mb_per_second = -1", "it must be from")
}
