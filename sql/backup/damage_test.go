package backup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamagedFiles: a file that was cut, changed, exchanged or removed is refused by its name, by
// RESTORE, VERIFY BACKUP and INCREMENTAL, and nothing is made.
func TestDamagedFiles(t *testing.T) {
	for _, passphrase := range []string{"", " WITH ENCRYPTION_PASSPHRASE = 'sesame'"} {
		name := "plain"
		if passphrase != "" {
			name = "encrypted"
		}
		t.Run(name, func(t *testing.T) { damagedFiles(t, passphrase) })
	}
}

func damagedFiles(t *testing.T, with string) {
	t.Helper()
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))")
	for i := range 40 {
		w.exec("INSERT INTO t VALUES (?, ?)", i, strings.Repeat(fmt.Sprint("row ", i, " "), 5))
	}
	id, _ := w.backup("", with)
	restore := "RESTORE DATABASE test FROM '" + w.url + "' AS copied" + with
	verify := "VERIFY BACKUP '" + w.url + "'" + with
	var rows []string
	kinds := map[string]bool{}
	for _, f := range w.files(id) {
		if strings.HasSuffix(f, ".rows") {
			rows = append(rows, id+"/"+f)
		}
	}
	for _, f := range append(w.files(id), "manifest") {
		if with != "" && kinds[filepath.Ext(f)] { // deriving a key takes a while, by intention
			continue
		}
		kinds[filepath.Ext(f)] = true
		file := id + "/" + f
		for what, fn := range map[string]func([]byte) []byte{
			"cut":          func(b []byte) []byte { return b[:len(b)/2] },
			"cut to one":   func(b []byte) []byte { return b[:1] },
			"emptied":      func([]byte) []byte { return nil },
			"grown":        func(b []byte) []byte { return append(b, 0) },
			"first bit":    func(b []byte) []byte { b[0] ^= 1; return b },
			"version":      func(b []byte) []byte { b[7]++; return b },
			"flags":        func(b []byte) []byte { b[8] ^= 1; return b },
			"a middle bit": func(b []byte) []byte { b[len(b)/2] ^= 16; return b },
			"last bit":     func(b []byte) []byte { b[len(b)-1] ^= 128; return b },
			"zeros":        func(b []byte) []byte { clear(b[len(b)/3 : len(b)/2]); return b },
		} {
			undo := w.change(file, fn)
			t.Log(f, what)
			w.refused(file, verify)
			if !strings.HasSuffix(f, ".keys") { // restores read no keys
				w.refused(file, restore)
			}
			undo()
		}
	}
	w.expect("SHOW DATABASES LIKE 'copied'")
	// One piece in the place of another one.
	a, b := filepath.Join(w.dir, filepath.FromSlash(rows[0])), filepath.Join(w.dir, filepath.FromSlash(rows[1]))
	text, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	undo := w.change(rows[0], func([]byte) []byte { return text })
	w.refused(rows[0], restore)
	undo()
	// A missing piece, and a missing manifest.
	if err := os.Rename(a, a+".away"); err != nil {
		t.Fatal(err)
	}
	w.refused(rows[0]+": it is missing", restore)
	w.refused(rows[0]+": it is missing", verify)
	if err := os.Rename(a+".away", a); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(w.dir, id, "manifest")
	if err := os.Rename(manifest, manifest+".away"); err != nil {
		t.Fatal(err)
	}
	w.refused(id+"/manifest: it is missing: the backup was never completed", restore)
	if got := w.query("SHOW BACKUP FROM '" + w.url + "'" + with); len(got) != 1 || !strings.HasPrefix(got[0], id+"|incomplete|") {
		t.Errorf("SHOW BACKUP of one that is not complete: %q", got)
	}
	w.refused("no complete backup", "BACKUP INTO '"+w.url+"' WITH INCREMENTAL"+strings.Replace(with, " WITH", ",", 1))
	if err := os.Rename(manifest+".away", manifest); err != nil {
		t.Fatal(err)
	}
	w.query(restore)
	w.expect("SELECT COUNT(*) FROM copied.t", "40")
	if got := w.query(verify); len(got) != 1 || !strings.HasPrefix(got[0], id+"|ok|") {
		t.Errorf("VERIFY BACKUP: %q", got)
	}
}

// TestBrokenChain: a backup that others build on has to be there, and to be that one.
func TestBrokenChain(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	w.exec("INSERT INTO t VALUES (1, 1), (2, 2)")
	first, _ := w.backup("", "")
	w.exec("UPDATE t SET v = 3 WHERE id = 2")
	second, _ := w.backup("", " WITH INCREMENTAL")
	w.exec("INSERT INTO t VALUES (3, 3)")
	third, _ := w.backup("", " WITH INCREMENTAL")
	restore := "RESTORE DATABASE test FROM '" + w.url + "' AS copied"
	if err := os.Rename(filepath.Join(w.dir, second), filepath.Join(w.dir, "away")); err != nil {
		t.Fatal(err)
	}
	w.refused(second+"/manifest: it is missing, and backup "+third+" builds on it", restore)
	w.refused(second+"/manifest", "VERIFY BACKUP '"+w.url+"'")
	w.refused(second+"/manifest", "BACKUP INTO '"+w.url+"' WITH INCREMENTAL")
	// The first one, dressed up as the second.
	if err := os.CopyFS(filepath.Join(w.dir, second), os.DirFS(filepath.Join(w.dir, first))); err != nil {
		t.Fatal(err)
	}
	w.refused(second+"/manifest: it is the manifest of backup", restore)
	if err := os.RemoveAll(filepath.Join(w.dir, second)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(w.dir, "away"), filepath.Join(w.dir, second)); err != nil {
		t.Fatal(err)
	}
	w.query(restore)
	w.expect("SELECT * FROM copied.t ORDER BY id", "1|1", "2|3", "3|3")
}

// TestPassphrase: an encrypted backup shows nothing without its passphrase, and one that is not
// encrypted is not taken for one.
func TestPassphrase(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))")
	w.exec("INSERT INTO t VALUES (1, 'a well kept secret')")
	id, _ := w.backup("", " WITH ENCRYPTION_PASSPHRASE = 'sesame, it''s open'")
	for _, f := range append(w.files(id), "manifest") {
		b, err := os.ReadFile(filepath.Join(w.dir, id, f))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "kept secret") || strings.Contains(string(b), "test") {
			t.Errorf("file %s can be read", f)
		}
	}
	for _, q := range []string{"RESTORE DATABASE test FROM '" + w.url + "' AS copied", "SHOW BACKUP FROM '" + w.url + "'",
		"VERIFY BACKUP '" + w.url + "'", "BACKUP INTO '" + w.url + "' WITH INCREMENTAL, SKIP_MULTI_MASTER"} {
		w.refused(id+"/manifest: the backup is encrypted: give the passphrase", q)
	}
	w.refused("cannot be decrypted", "RESTORE DATABASE test FROM '"+w.url+"' AS copied WITH ENCRYPTION_PASSPHRASE = 'Sesame'")
	w.exec("UPDATE t SET v = 'another' WHERE id = 1")
	with := "ENCRYPTION_PASSPHRASE = \"sesame, it's open\""
	w.backup("", " WITH INCREMENTAL, "+with)
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS copied WITH " + with)
	w.expect("SELECT * FROM copied.t", "1|another")

	plain := newWorld(t, "eu")
	pid, _ := plain.backup("", "")
	plain.refused(pid+"/manifest: the backup is not encrypted, and a passphrase was given", "RESTORE FROM '"+plain.url+"' WITH "+with)
}

// TestFailedBackup: one that fails leaves no file, and a restore that fails no row.
func TestFailedBackup(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY)")
	w.exec("INSERT INTO t VALUES (1)")
	w.exec("CREATE TABLE m (id INT PRIMARY KEY)")
	if err := os.WriteFile(filepath.Join(w.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.refused("not a directory", "BACKUP INTO '"+w.url+"/file/x'")
	if err := os.Remove(filepath.Join(w.dir, "file")); err != nil {
		t.Fatal(err)
	}
	w.refused("TIME is expected there", "BACKUP INTO '"+w.url+"' AS OF SYSTEM 'x'")
	w.refused("lies in the future", "BACKUP INTO '"+w.url+"' AS OF SYSTEM TIME '2999-01-01'")
	if !empty(t, w.dir) {
		t.Error("files are left")
	}
}
