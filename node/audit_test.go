package node

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/obs/audit"
)

// auditOf are the events of a node that has ended.
func auditOf(t *testing.T, p *proc) (out []audit.Event) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.cfg.Store, "audit", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var e audit.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, e)
	}
	return out
}

// TestAudit: what clients and administrators do is in the audit log of the node where they do it,
// without a password.
func TestAudit(t *testing.T) {
	t.Parallel()
	p := newWorld(t, cfgs{}, "eu").procs[0]
	db := p.sql(t)
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, secret VARCHAR(20))",
		"SET CLUSTER SETTING audit.tables = 'd.t, x.*'", "CREATE USER 'ann'@'%' IDENTIFIED BY 'geheim'",
		"GRANT SELECT ON d.t TO ann", "INSERT INTO d.t VALUES (1, 'geheim')", "SELECT 17", "SET GLOBAL sql_mode = ''"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []string{"DROP TABLE d.nothing", "ALTER USER nobody IDENTIFIED BY 'geheim'",
		"CREATE USER bob IDENTIFED BY 'geheim'", "SELECT * FROM d.t WHERE nothing = 'geheim'"} {
		if _, err := db.Exec(q); err == nil {
			t.Error(q)
		}
	}
	if _, err := db.Exec("SELECT id FROM d.t WHERE secret = ?", "geheim"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE EVENT d.e ON SCHEDULE AT CURRENT_TIMESTAMP DO INSERT INTO d.t VALUES (2, NULL)"); err != nil {
		t.Fatal(err)
	}
	until(t, "the event has run", func() string {
		n := 0
		if err := db.QueryRow("SELECT COUNT(*) FROM d.t").Scan(&n); err != nil || n < 2 {
			return fmt.Sprint(n, " rows, ", err)
		}
		return ""
	})
	ann, err := sql.Open("mysql", "ann:falsch@tcp("+p.n.SQLAddr()+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer ann.Close()
	if err := ann.Ping(); err == nil {
		t.Error("a wrong password")
	}
	if err := p.post(t, "/cluster/decommission", `{"node":9}`); err == nil {
		t.Error("node 9 was decommissioned")
	}
	if err := p.post(t, "/cluster/init", `{"root":"geheim"}`); err == nil {
		t.Error("a second init")
	}
	if res, err := http.Post("http://"+p.n.Addr()+"/cluster/decommission", "application/json", strings.NewReader(`{}`)); err == nil {
		res.Body.Close()
	}
	p.stop(t)
	events := auditOf(t, p)
	for _, want := range []audit.Event{
		{Kind: audit.Node, Action: "start"},
		{Kind: audit.Login, User: "root"},
		{Kind: audit.DDL, User: "root", Statement: "CREATE DATABASE d"},
		{Kind: audit.Setting, Statement: "SET CLUSTER SETTING audit.tables = 'd.t, x.*'"},
		{Kind: audit.Account, Statement: "CREATE USER 'ann'@'%' IDENTIFIED BY '***'"},
		{Kind: audit.Account, Statement: "GRANT SELECT ON d.t TO ann"},
		{Kind: audit.Table, Statement: "INSERT INTO d.t VALUES (?, ?)"},
		{Kind: audit.Setting, Statement: "SET GLOBAL sql_mode = ''"},
		{Kind: audit.DDL, Statement: "DROP TABLE d.nothing", Error: "nothing"},
		{Kind: audit.Account, Statement: "ALTER USER nobody IDENTIFIED BY '***'", Error: "*"},
		{Kind: audit.Account, Statement: "CREATE USER bob IDENTIFED BY '***'", Error: "error 1064"},
		{Kind: audit.Table, Statement: "SELECT * FROM d.t WHERE nothing = ?", Error: "*"},
		{Kind: audit.Table, Statement: "SELECT id FROM d.t WHERE secret = ?"},
		{Kind: audit.Table, User: "root", Statement: "CALL event d.e"},
		{Kind: audit.LoginFailed, User: "ann", Error: "wrong password"},
		{Kind: audit.Admin, Action: "POST /cluster/decommission", Error: "Conflict"},
		{Kind: audit.Admin, Action: "POST /cluster/init", Error: "Conflict"},
		{Kind: audit.Logout, User: "root"},
		{Kind: audit.Node, Action: "end"},
	} {
		n := 0
		for _, e := range events {
			if e.Kind == want.Kind && (want.User == "" || e.User == want.User) && e.Statement == want.Statement &&
				e.Action == want.Action && (e.Error == "") == (want.Error == "") &&
				(want.Error == "*" || strings.Contains(e.Error, want.Error)) {
				n++
			}
		}
		if n == 0 {
			t.Errorf("there is no %+v", want)
		}
	}
	raw, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "geheim") || strings.Contains(string(raw), "falsch") || strings.Contains(string(raw), "SELECT 17") {
		t.Errorf("%s", raw)
	}
	if t.Failed() {
		for _, e := range events {
			t.Logf("%+v", e)
		}
	}
}

// TestAuditReached: a statement that reaches an audited table is written whatever way it takes, and
// once; what procedures define is written when they are called.
func TestAuditReached(t *testing.T) {
	t.Parallel()
	p := newWorld(t, cfgs{}, "eu").procs[0]
	db := p.sql(t)
	db.SetMaxOpenConns(1)
	for _, q := range []string{"CREATE DATABASE d", "USE d", "CREATE TABLE secret (id INT PRIMARY KEY, x INT)",
		"CREATE TABLE plain (id INT PRIMARY KEY, x INT)", "CREATE TABLE other (id INT PRIMARY KEY)",
		"CREATE TABLE parent (id INT PRIMARY KEY)",
		"CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
		"INSERT INTO parent VALUES (1), (2)", "INSERT INTO child VALUES (1, 1)", "INSERT INTO secret VALUES (1, 1)",
		"CREATE VIEW v AS SELECT id FROM secret", "CREATE VIEW vv AS SELECT id FROM v",
		"CREATE TRIGGER tr AFTER INSERT ON plain FOR EACH ROW UPDATE secret SET x = x + 1",
		"CREATE TRIGGER tr2 AFTER INSERT ON other FOR EACH ROW INSERT INTO plain VALUES (NEW.id, 0)",
		"CREATE PROCEDURE pr() BEGIN SELECT COUNT(*) FROM secret; SELECT COUNT(*) FROM secret; END",
		"CREATE PROCEDURE defines() BEGIN CREATE TABLE made (id INT PRIMARY KEY); DROP TABLE made; END",
		"CREATE PROCEDURE harmless() SELECT COUNT(*) FROM parent",
		"SET CLUSTER SETTING audit.tables = 'd.secret, d.child'",
		"SELECT * FROM vv", "SELECT id + 0 FROM v INTO @z", "INSERT INTO plain VALUES (1, 1)", "INSERT INTO other VALUES (7)",
		"CALL pr()", "CALL defines()", "CALL harmless()", "DELETE FROM parent WHERE id = 1", "SELECT 'none' FROM parent",
		"PREPARE p1 FROM 'SELECT x FROM secret WHERE id = ?'", "SET @n = 4711", "EXECUTE p1 USING @n",
		"SET @ddl = 'CREATE TABLE hidden (id INT PRIMARY KEY)'", "PREPARE p2 FROM @ddl", "EXECUTE p2",
		"SELECT COUNT(*) FROM information_schema.tables",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(q, err)
		}
	}
	if _, err := db.Exec("CALL defines2()"); err == nil {
		t.Error("there is no such procedure")
	}
	p.stop(t)
	events := auditOf(t, p)
	count := func(kind audit.Kind, statement, detail string, tables ...string) (n int) {
		for _, e := range events {
			if e.Kind == kind && e.Statement == statement && e.Detail == detail && strings.Join(e.Tables, ",") == strings.Join(tables, ",") {
				if e.User != "root" || e.Connection == 0 || e.Address == "" || e.Database != "d" {
					t.Errorf("whose is %+v", e)
				}
				n++
			}
		}
		return n
	}
	for _, want := range []struct {
		kind              audit.Kind
		statement, detail string
		tables            []string
	}{
		{audit.Table, "SELECT * FROM vv", "", []string{"d.secret"}},
		{audit.Table, "SELECT id + ? FROM v INTO @z", "", []string{"d.secret"}},
		{audit.Table, "INSERT INTO plain VALUES (?, ?)", "", []string{"d.secret"}},
		{audit.Table, "INSERT INTO other VALUES (?)", "", []string{"d.secret"}},
		{audit.Table, "CALL pr()", "", []string{"d.secret"}},
		{audit.Table, "DELETE FROM parent WHERE id = ?", "", []string{"d.child"}},
		{audit.DDL, "create table made (\n\tid INT primary key\n)", "in a procedure", nil},
		{audit.DDL, "drop table made", "in a procedure", nil},
		{audit.Table, "EXECUTE p1 USING @n", "select x from secret where id = :v1", []string{"d.secret"}},
		{audit.DDL, "EXECUTE p2", "create table hidden (\n\tid INT primary key\n)", nil},
	} {
		if n := count(want.kind, want.statement, want.detail, want.tables...); n != 1 {
			t.Errorf("%d of %+v", n, want)
		}
	}
	for _, e := range events {
		if strings.Contains(e.Statement, "harmless()") && e.Kind == audit.Table || strings.Contains(e.Statement, "information_schema") ||
			strings.Contains(e.Statement, "none") || strings.Contains(e.Statement+e.Detail, "4711") {
			t.Errorf("%+v", e)
		}
	}
	if t.Failed() {
		for _, e := range events {
			t.Logf("%+v", e)
		}
	}
}
