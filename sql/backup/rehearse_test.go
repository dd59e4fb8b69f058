package backup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/backup/archive"
)

// TestRehearse: VERIFY BACKUP WITH TABLES finds rows that are not those that were read, although
// every file is whole and has the checksum that its manifest says.
func TestRehearse(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), KEY (v))")
	w.exec("CREATE TABLE u (id INT PRIMARY KEY)")
	w.exec("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
	w.exec("INSERT INTO u VALUES (1)")
	first, _ := w.backup("DATABASE test", "")
	w.exec("UPDATE t SET v = 'more' WHERE id = 2")
	w.backup("DATABASE test", " WITH INCREMENTAL")
	verify := "VERIFY BACKUP '" + w.url + "'"
	for _, line := range w.query(verify + " WITH TABLES") {
		if f := strings.Split(line, "|"); f[2] != "ok" || f[4] != f[5] || len(f[4]) != 32 {
			t.Errorf("VERIFY BACKUP WITH TABLES: %s", line)
		}
	}
	// Another value, in a file that is made anew with all of its sums.
	name := filepath.Join(w.dir, first, archive.ManifestName)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := archive.DecodeManifest(first, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := false
	for i := range m.Tables {
		for j := range m.Tables[i].Streams {
			for k, f := range m.Tables[i].Streams[j].Rows {
				file := filepath.Join(w.dir, first, f.Name)
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				d, err := archive.Open(first, f, archive.RowPiece, b, nil)
				e := archive.Encoder{Kind: archive.RowPiece}
				for ok := err == nil; ok; {
					var r archive.Record
					if ok, err = d.Next(&r); ok {
						if s := string(r.Value); strings.Contains(s, "three") {
							r.Value, changed = []byte(strings.Replace(s, "three", "thrEE", 1)), true
						}
						e.Add(&r)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				b, out, err := e.Finish(first, f.Name, nil)
				if err == nil {
					m.Tables[i].Streams[j].Rows[k] = out
					err = os.WriteFile(file, b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if b, err = m.Encode(nil); err == nil {
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	w.query(verify)
	w.refused("the rows of table test.t that backup", verify+" WITH TABLES")
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS bad")
	w.expect("SELECT v FROM bad.t WHERE id = 3", "thrEE")
}

// FuzzSumText: what is read as a checksum is written as it was.
func FuzzSumText(f *testing.F) {
	f.Add("00000000000000010000000000000002")
	f.Add("xyz")
	f.Fuzz(func(t *testing.T, s string) {
		var sum archive.Sum
		if err := sum.UnmarshalText([]byte(s)); err == nil && !strings.EqualFold(sum.String(), s) {
			t.Errorf("%q becomes %s", s, sum)
		}
	})
}
