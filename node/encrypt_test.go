package node

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEncryptedNode: a node with a key keeps its rows through restarts and a change of the key,
// shows nothing of them in its files, and does not start without the key.
func TestEncryptedNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := func(name, digit string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Repeat(digit, 64)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := key("first", "a"), key("second", "b")
	p := newProcs(t, "eu")[0]
	p.stop(t)
	p.cfg.EncryptionKey = first
	p.cfg.Store = t.TempDir()
	p.start(t)
	initCluster(t, p.n.Addr(), 1)
	p.ready(t)
	db := p.sql(t)
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(50))",
		"INSERT INTO d.t VALUES (1, 'a secret that is nowhere')"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	p.stop(t)
	if err := filepath.WalkDir(p.cfg.Store, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Base(filepath.Dir(path)) == "audit" {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("a secret")) {
			t.Errorf("%s shows a row", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, old string }{{"", ""}, {second, ""}} {
		cfg := p.cfg
		cfg.EncryptionKey, cfg.EncryptionOldKey = c.key, c.old
		if n, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil {
			n.Kill()
			t.Fatalf("it starts with %+v", c)
		} else if !strings.Contains(err.Error(), "--encryption-key") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []struct{ key, old string }{{first, ""}, {second, first}, {second, ""}} {
		p.cfg.EncryptionKey, p.cfg.EncryptionOldKey = c.key, c.old
		p.start(t)
		p.ready(t)
		var v string
		if err := p.sql(t).QueryRow("SELECT v FROM d.t WHERE id = 1").Scan(&v); err != nil || v != "a secret that is nowhere" {
			t.Errorf("%+v: %q, %v", c, v, err)
		}
		p.stop(t)
	}
}
