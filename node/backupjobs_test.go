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

// TestBackupSchedule: a schedule takes one backup at each of its times, also when the node dies
// that has taken those before; and what is removed is not needed for any moment that is kept.
func TestBackupSchedule(t *testing.T) { bubble(t, backupSchedule) }

func backupSchedule(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	l, cs := startBackups(t, 3, dir)
	mustExec(t, cs[0], "CREATE DATABASE d")
	mustExec(t, cs[0], "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
	place := "'file://" + dir + "'"
	refused(t, cs[0], "CREATE BACKUP SCHEDULE s FOR DATABASE nowhere INTO "+place+" EVERY 1 HOUR", "database not found")
	refused(t, cs[0], "CREATE BACKUP SCHEDULE s FOR INTO "+place+" EVERY 2 HOURS KEEP 1 HOUR", "KEEP is less than EVERY")
	refused(t, cs[0], "CREATE BACKUP SCHEDULE s FOR INTO "+place+" EVERY 2 YEARS", "MINUTE, HOUR, DAY or WEEK is expected")
	mustExec(t, cs[2], "CREATE BACKUP SCHEDULE s FOR DATABASE d INTO "+place+" EVERY 2 MINUTES FULL EVERY 6 MINUTES KEEP 7 MINUTES")
	if _, err := cs[0].ExecContext(t.Context(), "CREATE BACKUP SCHEDULE s FOR DATABASE d INTO "+place+" EVERY 1 HOUR"); err == nil ||
		!strings.HasSuffix(err.Error(), "drop it first") {
		t.Errorf("a second schedule of the name: %v, which should end with what to do", err)
	}
	shown := func() []string {
		t.Helper()
		return rowsOf(t, cs[0], "SHOW BACKUP FROM "+place)
	}
	taken := map[string]bool{}
	note := func() (kinds string) {
		t.Helper()
		for _, line := range shown() {
			f := strings.Split(line, "|")
			if f[1] != "complete" {
				t.Errorf("SHOW BACKUP: %s", line)
			}
			taken[f[0]] = true
			kinds += f[2][:1]
		}
		return kinds
	}
	time.Sleep(12 * time.Second)
	var kinds []string
	for i := range 9 {
		mustExec(t, cs[0], "INSERT INTO d.t (v) VALUES (?)", i)
		kinds = append(kinds, note())
		if i == 4 {
			if err := l.Nodes()[2].Kill(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
	}
	// Each chain is kept until all that is in it, and a moment 7 minutes ago, is in later ones.
	if got, want := strings.Join(kinds, " "), "f fi fii fiif fiifi fiifii fiifiif fiifi fiifii"; got != want {
		t.Errorf("backups after each time: %s, want %s", got, want)
	}
	if len(taken) != 9 {
		t.Errorf("%d backups in 18 minutes: %s", len(taken), strings.Join(kinds, " "))
	}
	f := strings.Split(rowsOf(t, cs[1], "SHOW BACKUP SCHEDULES")[0], "|")
	if f[0] != "s" || f[1] != "DATABASE d" || f[3] != "2" || f[4] != "6" || f[5] != "7" || f[8] != "succeeded" ||
		f[10] == "" || f[12] != "0" || len(f[11]) > 3 {
		t.Errorf("SHOW BACKUP SCHEDULES: %q", f)
	}
	rowsOf(t, cs[0], "VERIFY BACKUP "+place)
	for i, line := range shown() {
		one(t, cs[1], fmt.Sprintf("RESTORE DATABASE d FROM %s AS OF SYSTEM TIME '%s' AS r%d", place, strings.Split(line, "|")[4], i))
	}
	mustExec(t, cs[0], "DROP BACKUP SCHEDULE s")
	refused(t, cs[0], "DROP BACKUP SCHEDULE s", "there is no backup schedule s")
	before := len(shown())
	time.Sleep(6 * time.Minute)
	if after := len(shown()); after != before {
		t.Errorf("%d backups, and %d after the schedule was dropped", before, after)
	}
}

// TestFlashbackAndUndrop: within the retention of old versions a table is again what it was, at any
// gateway; beyond it that is refused, and nothing has changed.
func TestFlashbackAndUndrop(t *testing.T) { bubble(t, flashbackAndUndrop) }

func flashbackAndUndrop(t *testing.T) {
	t.Helper()
	_, cs := startBackups(t, 3, t.TempDir())
	mustExec(t, cs[0], "CREATE DATABASE d")
	mustExec(t, cs[0], "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, KEY (v))")
	for i := range 300 {
		mustExec(t, cs[i%3], "INSERT INTO d.t VALUES (?, ?)", i, i)
	}
	time.Sleep(time.Second)
	was := rowsOf(t, cs[0], "SELECT id, home_region FROM d.t__homes ORDER BY id")
	at := time.Now().UTC().Format("2006-01-02 15:04:05.000000")
	time.Sleep(time.Second)
	mustExec(t, cs[1], "DELETE FROM d.t WHERE id % 2 = 0")
	mustExec(t, cs[2], "UPDATE d.t SET v = v + 1000")
	one(t, cs[2], "FLASHBACK TABLE d.t TO TIMESTAMP '"+at+"'")
	look := func(what string) {
		t.Helper()
		for _, c := range cs {
			if got := one(t, c, "SELECT COUNT(*), SUM(v) FROM d.t WHERE v >= 0"); got[0] != "300" || got[1] != "44850" {
				t.Errorf("%s: %s rows with the sum %s", what, got[0], got[1])
			}
		}
		if got := rowsOf(t, cs[0], "SELECT id, home_region FROM d.t__homes ORDER BY id"); strings.Join(got, " ") != strings.Join(was, " ") {
			t.Errorf("%s: homes are %q, want %q", what, got, was)
		}
	}
	look("FLASHBACK TABLE")
	time.Sleep(2 * time.Minute) // the collector comes by
	look("after the collector")
	mustExec(t, cs[1], "DROP TABLE d.t")
	time.Sleep(2 * time.Minute)
	one(t, cs[1], "UNDROP TABLE d.t")
	look("UNDROP TABLE")
	mustExec(t, cs[0], "DROP TABLE d.t")
	time.Sleep(30 * time.Minute)
	refused(t, cs[2], "UNDROP TABLE d.t", "table not found")
	refused(t, cs[2], "FLASHBACK TABLE d.t TO TIMESTAMP '"+at+"'", "have been collected")
	refused(t, cs[2], "SELECT * FROM d.t", "doesn't exist")
}
