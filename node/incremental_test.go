package node

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/txn"
)

// readChanges compares what the backups of a place have read, and the checksums of the newest one's
// tables with those of a full backup of the same moment, which reads all rows.
func readChanges(t *testing.T, c *sql.Conn, db, place, whole, moment string, read ...string) {
	t.Helper()
	var got []string
	for _, line := range rowsOf(t, c, "SHOW BACKUP FROM '"+place+"'") {
		got = append(got, line[strings.LastIndexByte(line, '|')+1:])
	}
	if !slices.Equal(got, read) {
		t.Errorf("the backups have read %q, want %q", got, read)
	}
	one(t, c, "BACKUP DATABASE "+db+" INTO '"+whole+"' AS OF SYSTEM TIME '"+moment+"'")
	sums := func(place string) (out []string) {
		for _, line := range rowsOf(t, c, "VERIFY BACKUP '"+place+"' WITH TABLES") {
			out = append(out, line[strings.IndexByte(line, '|'):])
		}
		return out
	}
	if got, want := sums(place), sums(whole); !slices.Equal(got, want) {
		t.Errorf("checksums are %q, of a full backup %q", got, want)
	}
}

// TestIncrementalBehindCollection: an incremental backup whose parent's versions have been
// collected compares all rows, those before and behind it read changes, and all are right.
func TestIncrementalBehindCollection(t *testing.T) { bubble(t, incrementalBehindCollection) }

func incrementalBehindCollection(t *testing.T) {
	t.Helper()
	m, err := matrix.Default(2)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l := startVirtual(t, LocalConfig{Matrix: m, NodesPerRegion: 1, GCAge: 15 * time.Second, BackupDir: dir,
		Tune: func(_ *group.HostOptions, o *owner.Config, _ *txn.Config) { o.GCInterval = 500 * time.Millisecond }})
	c, far := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[1], "")
	mustExec(t, c, "CREATE DATABASE d")
	mustExec(t, c, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, KEY (v))")
	mustExec(t, c, "CREATE TABLE d.g (id INT PRIMARY KEY, v INT) LOCALITY GLOBAL")
	mustExec(t, c, "CREATE TABLE d.a (id INT PRIMARY KEY, v INT) REPLICATION ASYNC")
	for i := range 100 {
		for _, table := range []string{"t", "g", "a"} {
			mustExec(t, []*sql.Conn{c, far}[i%2], fmt.Sprintf("INSERT INTO d.%s VALUES (%d, %d)", table, i, i))
		}
	}
	place := "file://" + dir + "/b"
	take := func(options string) string {
		t.Helper()
		return one(t, c, "BACKUP DATABASE d INTO '"+place+"'"+options)[1]
	}
	take("")
	mustExec(t, c, "UPDATE d.t SET v = v + 1000 WHERE id < 5")
	mustExec(t, far, "DELETE FROM d.t WHERE id BETWEEN 10 AND 14")
	mustExec(t, far, "DELETE FROM d.g WHERE id = 3")
	mustExec(t, c, "UPDATE d.t__homes SET home_region = '"+l.Regions()[1]+"' WHERE id = 20")
	mustExec(t, c, "UPDATE d.t__homes SET pinned = TRUE WHERE id = 21")
	mustExec(t, c, "UPDATE d.a SET v = 7 WHERE id = 7")
	take(" WITH INCREMENTAL")
	mustExec(t, c, "DELETE FROM d.t WHERE id = 30")
	mustExec(t, c, "INSERT INTO d.t VALUES (12, 12)")
	time.Sleep(time.Minute)
	take(" WITH INCREMENTAL")
	mustExec(t, c, "DELETE FROM d.t WHERE id = 31")
	mustExec(t, c, "UPDATE d.g SET v = -1 WHERE id = 4")
	now := take(" WITH INCREMENTAL")
	readChanges(t, far, "d", place, "file://"+dir+"/whole", now, "all rows", "changes; all rows of d.a",
		"changes; all rows of d.a, d.g, d.t", "changes; all rows of d.a")
	one(t, far, "RESTORE DATABASE d FROM '"+place+"' AS e")
	for _, q := range []string{"SELECT * FROM %s.t ORDER BY id", "SELECT id, home_region, pinned FROM %s.t__homes ORDER BY id",
		"SELECT * FROM %s.g ORDER BY id", "SELECT * FROM %s.a ORDER BY id"} {
		if got, want := rowsOf(t, far, fmt.Sprintf(q, "e")), rowsOf(t, c, fmt.Sprintf(q, "d")); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", q, got, want)
		}
	}
}
