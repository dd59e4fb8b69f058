package backup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogOfChanges: what was committed, made, altered and dropped behind a backup comes back as of
// each moment, also what is not there any more; and damage of the log is refused by the file's
// name.
func TestLogOfChanges(t *testing.T) {
	for _, with := range []string{"", " WITH ENCRYPTION_PASSPHRASE = 'sesame'"} {
		t.Run("with"+with, func(t *testing.T) { logOfChanges(t, with) })
	}
}

func logOfChanges(t *testing.T, with string) {
	t.Helper()
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (a INT, b INT, v VARCHAR(20), PRIMARY KEY (a, b), UNIQUE KEY (v))")
	w.exec("CREATE TABLE seq (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
	w.exec("CREATE TABLE nokey (v INT)")
	w.exec("INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three')")
	w.exec("INSERT INTO nokey VALUES (1), (2)")
	m := newMortal(t, w)
	l := m.env.NewLog(m.ctx, "BACKUP LOG DATABASE test INTO '"+w.url+"'"+with)
	w.backup("DATABASE test", with)
	w.exec("UPDATE t SET v = 'x' WHERE a = 1")
	w.exec("UPDATE t SET v = 'one' WHERE a = 2") // the unique value goes to another row
	w.exec("INSERT INTO seq (v) VALUES (7), (8)")
	w.exec("CREATE VIEW vw AS SELECT COUNT(*) AS n FROM t")
	w.exec("UPDATE t__homes SET home_region = 'us' WHERE a = 3")
	m1 := w.query("SELECT NOW(6)")[0]
	l.Segment(t)
	w.exec("DELETE FROM t WHERE a = 2")
	w.exec("DELETE FROM nokey WHERE v = 1")
	w.exec("CREATE TABLE brief (id INT PRIMARY KEY, v INT, KEY (v))")
	w.exec("INSERT INTO brief VALUES (1, 10), (2, 20)")
	m2 := w.query("SELECT NOW(6)")[0]
	w.exec("DROP TABLE brief")
	w.exec("DROP VIEW vw")
	w.exec("ALTER TABLE t ADD COLUMN late INT DEFAULT 9")
	l.Segment(t)
	w.exec("INSERT INTO t VALUES (5, 5, 'two', 1)")
	l.Segment(t)
	restore := func(as, at string) {
		t.Helper()
		if at != "" {
			at = " AS OF SYSTEM TIME '" + at + "'"
		}
		w.query("RESTORE DATABASE test FROM '" + w.url + "'" + at + " AS " + as + with)
	}
	restore("copy1", m1)
	w.expect("SELECT * FROM copy1.t ORDER BY a", "1|1|x", "2|2|one", "3|3|three")
	w.expect("SELECT a FROM copy1.t WHERE v = 'one'", "2")
	w.expect("SELECT home_region FROM copy1.t__homes ORDER BY a", "eu", "eu", "us")
	w.expect("SELECT * FROM copy1.vw", "3")
	w.expect("SELECT v FROM copy1.nokey ORDER BY v", "1", "2")
	w.exec("INSERT INTO copy1.seq (v) VALUES (9)")
	w.expect("SELECT COUNT(DISTINCT id) FROM copy1.seq", "3")
	w.refused("Duplicate", "INSERT INTO copy1.t VALUES (9, 9, 'one')")
	restore("copy2", m2)
	w.expect("SELECT * FROM copy2.t ORDER BY a", "1|1|x", "3|3|three")
	w.expect("SELECT id FROM copy2.brief WHERE v = 20", "2")
	w.expect("SELECT v FROM copy2.nokey", "2")
	w.exec("INSERT INTO copy2.t VALUES (9, 9, 'one')")
	restore("latest", "")
	w.expect("SELECT * FROM latest.t ORDER BY a", "1|1|x|9", "3|3|three|9", "5|5|two|1")
	w.expect("SHOW TABLES FROM latest", "nokey", "seq", "t")

	for _, line := range w.query("VERIFY BACKUP '" + w.url + "'" + with) {
		if !strings.Contains(line, "|ok|") {
			t.Errorf("VERIFY BACKUP: %s", line)
		}
	}
	files, err := filepath.Glob(filepath.Join(w.dir, "log-2*", "*"))
	if err != nil || len(files) < 6 {
		t.Fatalf("files: %q, %v", files, err)
	}
	for i, file := range files {
		name := filepath.ToSlash(strings.TrimPrefix(file, w.dir+string(filepath.Separator)))
		for way, damage := range []struct {
			what string
			fn   func([]byte) []byte
		}{
			{"cut", func(b []byte) []byte { return b[:len(b)/2] }},
			{"emptied", func([]byte) []byte { return nil }},
			{"a middle bit", func(b []byte) []byte { b[len(b)/2] ^= 16; return b }},
			{"grown", func(b []byte) []byte { return append(b, 0) }},
		} {
			if with != "" && way != i%4 {
				continue // a key takes a third of a second to be made from a passphrase
			}
			undo := w.change(name, damage.fn)
			t.Log(name, damage.what)
			w.refused(name, "RESTORE DATABASE test FROM '"+w.url+"' AS copied"+with)
			w.refused(name, "VERIFY BACKUP '"+w.url+"'"+with)
			undo()
		}
	}
	// Without the segment in the middle the log ends before it.
	middle := ""
	for _, f := range files {
		if strings.HasSuffix(f, ".segment") && middle == "" {
			middle = f
		}
	}
	if err := os.Rename(middle, middle+".away"); err != nil {
		t.Fatal(err)
	}
	w.refused("the log of changes leads from the one of", "RESTORE DATABASE test FROM '"+w.url+"' AS OF SYSTEM TIME '"+m2+"' AS copied"+with)
}
