package node

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/node/residency"
	"github.com/godwitdb/godwit/sql/backup/archive"
)

// TestPlacesOfPlacements: with places of their own for regions, tables with placements, also with
// those of single rows and with copy sets, are in backups and logs that any node begins; their rows
// get to places of their placements only, and come back where they may lie, to any moment.
func TestPlacesOfPlacements(t *testing.T) { bubble(t, placesOfPlacements) }

func placesOfPlacements(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	l, cs := startBackups(t, 4, dir)
	names := l.Regions()
	mustExec(t, cs[0], "CREATE PLACEMENT near REGIONS ('"+names[1]+"', '"+names[2]+"')")
	mustExec(t, cs[0], "CREATE PLACEMENT far REGIONS ('"+names[3]+"')")
	mustExec(t, cs[0], "CREATE PLACEMENT spread REGIONS ('"+strings.Join(names, "', '")+"') VOTERS 3")
	mustExec(t, cs[0], "CREATE DATABASE d")
	mustExec(t, cs[0], "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(30), KEY (v)) PLACEMENT near")
	mustExec(t, cs[0], "CREATE TABLE d.r (id INT, c INT, v VARCHAR(30), PRIMARY KEY (id, c), KEY (v)) PLACEMENT BY (c) "+
		"((1) IN near, (2) IN far, DEFAULT IN NONE)")
	mustExec(t, cs[0], "CREATE TABLE d.s (id INT PRIMARY KEY, v VARCHAR(30), UNIQUE KEY (v)) PLACEMENT spread")
	mustExec(t, cs[0], "CREATE TABLE d.u (id INT PRIMARY KEY, v VARCHAR(30))")
	for i, c := range cs {
		mustExec(t, c, "INSERT INTO d.t VALUES (?, 'nearby')", i)
		mustExec(t, c, "INSERT INTO d.r VALUES (?, 1, 'nearby'), (?, 2, 'faraway'), (?, 3, ?)", i, i, i, fmt.Sprint("from", i))
		mustExec(t, c, "INSERT INTO d.s VALUES (?, ?)", i, fmt.Sprint("s", i))
		mustExec(t, c, "INSERT INTO d.u VALUES (?, ?)", i, fmt.Sprint("from", i))
	}
	at := "'file://" + dir + "/main' PLACES ("
	refused(t, cs[0], "BACKUP DATABASE d INTO "+at+"'"+names[2]+"' = 'file://"+dir+"/2')", "d.r (with PLACEMENT BY)")
	for i := range 4 {
		at += fmt.Sprintf("'%s' = 'file://%s/%d'", names[i], dir, i) + map[bool]string{true: ", ", false: ")"}[i < 3]
	}
	job := one(t, cs[0], "BACKUP LOG DATABASE d INTO "+at)[0]
	time.Sleep(20 * time.Second)
	one(t, cs[0], "BACKUP DATABASE d INTO "+at)
	mustExec(t, cs[2], "UPDATE d.r SET id = 100, c = 2, v = 'faraway' WHERE id = 1 AND c = 1")
	mustExec(t, cs[3], "DELETE FROM d.s WHERE id = 2")
	mustExec(t, cs[1], "UPDATE d.s__homes SET home_region = home_region")
	mustExec(t, cs[1], "INSERT INTO d.t VALUES (9, 'nearby'), (10, 'nearby')")
	mustExec(t, cs[0], "DELETE FROM d.t WHERE id = 0")
	all := []string{"SELECT id, v FROM %s.t ORDER BY id", "SELECT id, c, v FROM %s.r ORDER BY id, c", "SELECT id, v FROM %s.s ORDER BY id",
		"SELECT id, v FROM %s.u ORDER BY id", "SELECT id FROM %s.r WHERE v = 'faraway' ORDER BY id", "SELECT id FROM %s.s WHERE v = 's3'",
		"SELECT id, c, home_region FROM %s.r__homes ORDER BY id, c", "SELECT id, home_region FROM %s.t__homes ORDER BY id"}
	var want [][]string
	for _, q := range all {
		want = append(want, rowsOf(t, cs[1], fmt.Sprintf(q, "d")))
	}
	moment := one(t, cs[0], "SELECT NOW(6)")[0]
	time.Sleep(20 * time.Second)
	mustExec(t, cs[0], "DELETE FROM d.r")
	time.Sleep(20 * time.Second)
	mustExec(t, cs[0], "CANCEL JOB "+job)
	time.Sleep(20 * time.Second)
	for _, line := range rowsOf(t, cs[0], "SHOW JOBS") {
		if strings.Contains(line, "BACKUP LOG") && !strings.Contains(line, "canceled") {
			t.Errorf("the log of a region goes on: %s", line)
		}
	}
	for i := range 4 {
		text := archived(t, filepath.Join(dir, fmt.Sprint(i)))
		for what, is := range map[string]bool{"nearby": i == 1 || i == 2, "faraway": i == 3, fmt.Sprint("from", i): true,
			fmt.Sprint("from", (i+1)%4): false} {
			if strings.Contains(text, what) != is {
				t.Errorf("the place of region %d has rows that say %s: %v", i, what, !is)
			}
		}
	}
	if text := archived(t, filepath.Join(dir, "main")); strings.Contains(text, "nearby") || strings.Contains(text, "from") {
		t.Error("the main place has rows of regions that have their own")
	}
	other, oc := startBackups(t, 4, dir)
	for i, c := range []*sql.Conn{cs[2], oc[3]} {
		if i == 1 {
			mustExec(t, c, "CREATE PLACEMENT one REGIONS ('"+names[2]+"', '"+names[1]+"')")
			mustExec(t, c, "CREATE PLACEMENT two REGIONS ('"+names[3]+"')")
			mustExec(t, c, "CREATE PLACEMENT wide REGIONS ('"+strings.Join(names, "', '")+"') VOTERS 3")
		}
		one(t, c, "RESTORE DATABASE d FROM 'file://"+dir+"/main' AS OF SYSTEM TIME '"+moment+"' AS e")
		for j, q := range all {
			if got := rowsOf(t, c, fmt.Sprintf(q, "e")); !slices.Equal(got, want[j]) {
				t.Errorf("restored into cluster %d: %s:\n got %q\nwant %q", i, q, got, want[j])
			}
		}
	}
	for _, cluster := range []*Local{l, other} {
		for i, n := range cluster.Nodes() {
			r, err := residency.Audit(t.Context(), n.store, n.Cluster().Topology(), n.ident.Node, residency.Request{})
			if err != nil || len(r.Findings) > 0 {
				t.Errorf("node %d: %v (%v)", i+1, r, err)
			}
		}
	}
}

// archived is what the records of all pieces below a directory say.
func archived(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	pieces := func(folder string, kind archive.Kind, files []archive.File) {
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(dir, folder, f.Name))
			if err != nil {
				t.Fatal(err)
			}
			d, err := archive.Open(folder, f, kind, b, nil)
			for ok := err == nil; ok; {
				var r archive.Record
				if ok, err = d.Next(&r); ok {
					out.Write(r.PK)
					out.Write(r.Value)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files: %q, %v", files, err)
	}
	for _, file := range files {
		folder, name := filepath.Base(filepath.Dir(file)), filepath.Base(file)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := strings.CutSuffix(name, archive.SegmentSuffix); ok {
			s, _, err := archive.DecodeSegment(folder, id, b, nil)
			if err != nil {
				t.Fatal(err)
			}
			pieces(folder, archive.LogPiece, s.Pieces)
		} else if name == archive.ManifestName {
			m, _, err := archive.DecodeManifest(folder, b, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range m.Tables {
				for _, s := range x.Streams {
					pieces(folder, archive.RowPiece, s.Rows)
					pieces(folder, archive.KeyPiece, s.Keys)
				}
			}
		}
	}
	return out.String()
}
