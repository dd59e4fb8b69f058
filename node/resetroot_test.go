package node

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/server"
)

// TestResetRoot: an administrator gives root another password, also one that is locked or was
// dropped, and the audit log has who did it without the hash. No other certificate does.
func TestResetRoot(t *testing.T) {
	t.Parallel()
	p := newWorld(t, cfgs{}, "eu").procs[0]
	hash, err := server.PasswordHash("the new one")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(cluster.ResetRootRequest{Root: hash})
	if err != nil {
		t.Fatal(err)
	}
	root := func(password string) error {
		db, err := sql.Open("mysql", "root:"+password+"@tcp("+p.n.SQLAddr()+")/?tls=skip-verify")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		_, err = db.Exec("CREATE DATABASE IF NOT EXISTS x")
		return err
	}
	old := p.sql(t)
	for _, q := range []string{"SELECT 1", "ALTER USER root ACCOUNT LOCK", "DROP USER root"} {
		if _, err := old.Exec(q); err != nil {
			t.Fatal(err)
		}
		if q != "SELECT 1" && root("the new one") == nil {
			t.Fatalf("%s: root logs in", q)
		}
		if err := p.post(t, cluster.PathResetRoot, string(b)); err != nil {
			t.Fatal(err)
		}
		if err := root("the new one"); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if err := root("the old one"); err == nil {
			t.Fatal("any password will do")
		}
	}
	if err := p.post(t, cluster.PathResetRoot, `{"root":"nonsense"}`); err == nil {
		t.Error("a hash that is none")
	}
	p.stop(t)
	found := 0
	for _, e := range auditOf(t, p) {
		if e.Kind == audit.Admin && strings.HasSuffix(e.Action, cluster.PathResetRoot) {
			found++
			if e.User == "" || e.Detail != "" {
				t.Errorf("%+v", e)
			}
		}
	}
	if found != 4 {
		t.Errorf("%d events", found)
	}
}
