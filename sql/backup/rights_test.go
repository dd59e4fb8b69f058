package backup_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup/place"
)

// TestRights: BACKUP_ADMIN is needed for all statements, more for accounts and for what acts in the
// name of others.
func TestRights(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY)")
	w.exec("CREATE USER ann")
	w.exec("GRANT ALL ON test.* TO ann")
	ann := w.as("ann", "test")
	w.backup("", "")
	at := " '" + w.url + "'"
	for _, q := range []string{"BACKUP INTO" + at, "RESTORE FROM" + at, "SHOW BACKUP FROM" + at, "VERIFY BACKUP" + at} {
		refusedTo(t, ann, "SUPER OR BACKUP_ADMIN", q)
	}
	w.exec("GRANT BACKUP_ADMIN ON *.* TO ann")
	ann = w.as("ann", "test")
	if got, err := ask(ann, "RESTORE DATABASE test FROM"+at+" AS one"); err != nil {
		t.Errorf("with BACKUP_ADMIN: %q, %v", got, err)
	}
	w.exec("CREATE VIEW v AS SELECT * FROM t")
	w.backup("", "")
	refusedTo(t, ann, "SUPER OR SET_USER_ID", "RESTORE DATABASE test FROM"+at+" AS two")
	w.exec("DROP DATABASE test")
	w.exec("DROP DATABASE one")
	w.exec("GRANT SET_USER_ID ON *.* TO ann")
	ann = w.as("ann", "")
	refusedTo(t, ann, "SUPER", "RESTORE FROM"+at) // with accounts
	if _, err := ask(ann, "RESTORE DATABASE test FROM"+at); err != nil {
		t.Error(err)
	}
	w.exec("DROP DATABASE test")
	w.query("RESTORE FROM" + at)
	w.expect("SELECT * FROM test.v")

	tx, err := w.c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("BACKUP INTO" + at); err == nil {
		t.Error("a backup is part of a transaction")
	}
	tx.Rollback()
}

// TestPlaces: a statement reaches only what the operator has said.
func TestPlaces(t *testing.T) {
	w := newWorld(t, "eu")
	out := t.TempDir()
	if err := os.Symlink(out, filepath.Join(w.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{
		"file://" + out:                 "does not lie below the directory for backups",
		w.url + "/../x":                 "does not lie below",
		w.url + "/%2e%2e/x":             "does not lie below",
		w.url + "/link":                 "escapes",
		"file://host" + w.dir:           "names no directory of this node",
		"file:relative":                 "names no directory of this node",
		"s3://bucket/x":                 "this node knows no bucket",
		"gs://bucket/x":                 "this node knows no bucket",
		"azblob://bucket/x":             "this node knows no bucket",
		"s3://bucket?endpoint=evil":     "has more than a path",
		"s3://key:secret@bucket/x":      "has more than a path",
		"http://example.com/x":          "is no place for backups",
		"nothing":                       "is no place for backups",
		"file://" + w.dir + "\x01/x":    "is no place for backups",
		"file://" + w.dir + "?metadata": "has more than a path",
	} {
		w.refused(want, "BACKUP INTO '"+place+"'")
	}
	if !empty(t, out) {
		t.Error("files were written elsewhere")
	}
	w.query("BACKUP INTO '" + w.url + "/a/b'")
	w.expect("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'test'", "0")
	w.refused("no such file", "RESTORE FROM '"+w.url+"/none'")
	w.refused("no backup in that place", "VERIFY BACKUP '"+w.url+"'")

	none := start(t, memkv.New(2, "eu"), "")
	none.refused("--backup-dir", "BACKUP INTO 'file:///tmp/x'")
	for _, p := range []place.Policy{{Dir: "relative"}, {Buckets: []string{"bucket"}}, {Buckets: []string{"s3://a:b@c"}},
		{Buckets: []string{"gs://"}}, {Buckets: []string{"ftp://bucket"}}} {
		if p.Check() == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}

// TestBucket: backups in a bucket, over S3's protocol, full and incremental, encrypted.
func TestBucket(t *testing.T) {
	back := s3mem.New()
	srv := httptest.NewServer(gofakes3.New(back).Server())
	defer srv.Close()
	if err := back.CreateBucket("acme"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	policy := place.Policy{Buckets: []string{"s3://acme/prod?region=us-east-1&use_path_style=true&endpoint=" + srv.URL}}
	a := startAt(t, memkv.New(4, "eu"), policy)
	a.exec("CREATE DATABASE d")
	a.exec("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
	a.exec("INSERT INTO d.t VALUES (1, 1), (2, 2)")
	const with = "ENCRYPTION_PASSPHRASE = 'sesame'"
	a.query("BACKUP INTO 's3://acme/prod/daily' WITH " + with)
	a.exec("DELETE FROM d.t WHERE id = 1")
	a.query("BACKUP INTO 's3://acme/prod/daily' WITH INCREMENTAL, " + with)
	a.refused("is in none of the buckets", "BACKUP INTO 's3://acme/other'")
	if got := a.query("VERIFY BACKUP 's3://acme/prod/daily' WITH " + with); len(got) != 2 {
		t.Errorf("VERIFY BACKUP: %q", got)
	}
	b := startAt(t, memkv.New(3, "us"), policy)
	b.query("RESTORE FROM 's3://acme/prod/daily' WITH " + with)
	b.expect("SELECT * FROM d.t", "2|2")
}
