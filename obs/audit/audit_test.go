package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// read returns the events of a file.
func read(t *testing.T, path string) (out []Event) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		var e Event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatalf("%s: %q: %v", path, s.Text(), err)
		}
		out = append(out, e)
	}
	return out
}

func open(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestRotation: files are bounded in size and number, and no line is lost between two of them.
func TestRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := open(t, dir)
	l.Set(Params{FileSize: 2000, Files: 3})
	for i := range 100 {
		l.Write(Event{Kind: DDL, Statement: fmt.Sprint("CREATE TABLE t", i)})
	}
	l.Close()
	l.Write(Event{Kind: DDL}) // too late, and not fatal
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	slices.Sort(files)
	if len(files) != 3 {
		t.Fatalf("files %v", files)
	}
	var all []Event
	for _, f := range files { // audit-... sorts before audit.log
		if s, err := os.Stat(f); err != nil || s.Size() > 2000 || s.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v bytes, mode %v, %v", f, s.Size(), s.Mode(), err)
		}
		all = append(all, read(t, f)...)
	}
	for i, e := range all {
		if want := fmt.Sprint("CREATE TABLE t", 100-len(all)+i); e.Statement != want || e.Lost != 0 || e.Time.IsZero() {
			t.Errorf("line %d: %+v, want %s", i, e, want)
		}
	}
	if len(all) < 30 {
		t.Errorf("%d lines are left", len(all))
	}
}

// TestNoRoom: while lines cannot be written the log counts them, and says so in the next one that
// can. A line cut off by a crash does not spoil what follows.
func TestNoRoom(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, current), []byte("{\"event\":\"ddl\"}\n{\"event\":\"lo"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	l := &Log{dir: filepath.Join(dir, "gone"), log: slog.New(slog.NewTextHandler(&said, nil)), now: time.Now}
	l.params.Store(&Params{})
	for range 3 { // the folder is not there
		l.put(Event{Kind: DDL})
	}
	if l.Lost() != 3 || strings.Count(said.String(), "cannot be written") != 1 {
		t.Errorf("%d are lost, and it said:\n%s", l.Lost(), said.String())
	}
	l.dir = dir
	l.put(Event{Kind: Login})
	l.put(Event{Kind: Logout})
	if !strings.Contains(said.String(), "is written again") {
		t.Errorf("it said:\n%s", said.String())
	}
	got := read(t, filepath.Join(dir, current))
	if len(got) != 3 || got[1].Kind != Login || got[1].Lost != 3 || got[2].Lost != 0 {
		t.Errorf("%+v", got)
	}
	l.file.Close()
}

// TestGuessing: logins that fail do not push out what else there is.
func TestGuessing(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	for range 1000 {
		l.Write(Event{Kind: LoginFailed})
	}
	l.Write(Event{Kind: Login})
	now = now.Add(time.Second)
	l.Write(Event{Kind: LoginFailed})
	l.Close()
	got := read(t, filepath.Join(dir, current))
	lost := uint64(0)
	for _, e := range got {
		lost += e.Lost
	}
	if len(got) != failedPerSecond+2 || lost != 1000-failedPerSecond || l.Lost() != lost {
		t.Errorf("%d lines, %d lost, %d said", len(got), l.Lost(), lost)
	}
}

func TestOff(t *testing.T) {
	var none *Log
	none.Write(Event{})
	none.Set(Params{})
	if none.Lost() != 0 || none.Close() != nil || !none.Params().Off {
		t.Error("a log that is not there")
	}
	dir := t.TempDir()
	l := open(t, dir)
	l.Set(Params{Off: true})
	l.Write(Event{Kind: DDL})
	l.Close()
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 0 {
		t.Errorf("%v", files)
	}
}

func TestMask(t *testing.T) {
	for q, want := range map[string]string{
		"CREATE USER 'u'@'%' IDENTIFIED BY 'geheim'":                         "CREATE USER 'u'@'%' IDENTIFIED BY '***'",
		`create user "u" identified with caching_sha2_password by "ge'heim"`: `create user "u" identified with caching_sha2_password by '***'`,
		"CREATE USER IF NOT EXISTS 'u' IDENTIFIED BY 'geheim', 'v' IDENTIFIED WITH mysql_native_password AS '*geheim'": "CREATE USER IF NOT EXISTS 'u' " +
			"IDENTIFIED BY '***', 'v' IDENTIFIED WITH mysql_native_password AS '***'",
		"ALTER USER u IDENTIFIED BY 'geheim''x' REPLACE 'geheim'":       "ALTER USER u IDENTIFIED BY '***' REPLACE '***'",
		"SET PASSWORD FOR 'u'@'h' = 'geheim'":                           "SET PASSWORD FOR 'u'@'h' = '***'",
		"SET PASSWORD = PASSWORD('geheim')":                             "SET PASSWORD = PASSWORD('***')",
		"GRANT SELECT ON d.t TO 'u' IDENTIFIED BY 'geheim'":             "GRANT SELECT ON d.t TO 'u' IDENTIFIED BY '***'",
		"CREATE USER u IDENTIFED BY 'geheim'":                           "CREATE USER u IDENTIFED BY '***'",
		"CREATE USER u IDENTIFIED BY geheim":                            "CREATE USER u IDENTIFIED BY '***'",
		"CREATE /*! USER u IDENTIFIED BY 'geheim' */":                   "CREATE /*! USER u IDENTIFIED BY '***' */",
		"ALTER USER u IDENTIFIED BY RANDOM PASSWORD":                    "ALTER USER u IDENTIFIED BY RANDOM PASSWORD",
		"PREPARE s FROM 'ALTER USER u IDENTIFIED BY ''geheim'''":        "PREPARE s FROM '***'",
		"ALTER USER u IDENTIFIED BY 'geheim":                            "ALTER USER u IDENTIFIED BY '***'",
		"CREATE TABLE t (a VARCHAR(9) DEFAULT 'x'); DROP TABLE t":       "CREATE TABLE t (a VARCHAR(9) DEFAULT 'x')",
		"BACKUP INTO 'file:///a' WITH ENCRYPTION_PASSPHRASE = 'geheim'": "BACKUP INTO 'file:///a' WITH ENCRYPTION_PASSPHRASE = '***'",
		"VERIFY BACKUP 's3://b' WITH ENCRYPTION_PASSPHRAS = 'geheim'":   "VERIFY BACKUP 's3://b' WITH ENCRYPTION_PASSPHRAS = '***'",
		"RESTORE FROM 's3://b' WITH encryption_passphrase \"geheim\"":   "RESTORE FROM 's3://b' WITH encryption_passphrase '***'",
		"CREATE PROCEDURE p() ALTER USER u IDENTIFIED BY 'geheim'":      "CREATE PROCEDURE p() ALTER USER u IDENTIFIED BY '***'",
	} {
		if got := Mask(q); got != want || strings.Contains(got, "geheim") {
			t.Errorf("%s\n is %s\nnot %s", q, got, want)
		}
	}
}

func TestDigest(t *testing.T) {
	q := "SELECT `a 1`, 'x''y', 1.5e3 FROM t2 WHERE b = -7 AND c IN (1,2) -- 'z'\n AND d = \"w\"; SELECT 3"
	want := "SELECT `a 1`, ?, ?.? FROM t2 WHERE b = -? AND c IN (?,?) -- 'z'\n AND d = ?"
	if got := Digest(q); got != want {
		t.Errorf("%s", got)
	}
}

func TestClassify(t *testing.T) {
	for q, want := range map[string]Kind{
		"select 1": "", "INSERT INTO user VALUES (1)": "", "": "", ";": "",
		"SET autocommit = 1": "", "SET @global = 1": "", "SET names utf8": "", "PREPARE s FROM @x": "",
		"create table user (a int)": DDL, "DROP VIEW v": DDL, "TRUNCATE t": DDL, "/* x */ ALTER TABLE t ADD b INT": DDL,
		"RENAME TABLE a TO b": DDL, "CREATE DATABASE d": DDL, "PREPARE s FROM 'DROP TABLE t'": DDL,
		"CREATE USER u": Account, "drop user if exists u": Account, "GRANT a TO b": Account, "revoke a from b": Account,
		"SET PASSWORD = 'x'": Account, "RENAME USER a TO b": Account, "CREATE ROLE r": Account,
		"SET DEFAULT ROLE r TO u": Account, "ALTER USER u ACCOUNT LOCK": Account,
		"SET GLOBAL a = 1": Setting, "SET a = 1, @@GLOBAL.b = 2": Setting, "set cluster setting x.y = 1": Setting,
		"SET PERSIST a = 1": Setting, "KILL 3": Admin, "FLUSH PRIVILEGES": Admin,
		"BACKUP INTO 'x'": Admin, "restore from 'x'": Admin, "VERIFY BACKUP 'x'": Admin,
	} {
		if got := Classify(q); got != want {
			t.Errorf("%s: %q, want %q", q, got, want)
		}
	}
}

func TestTables(t *testing.T) {
	list, err := ParseTables("bank.accounts, HR.*,*.secret")
	if err != nil {
		t.Fatal(err)
	}
	p := Params{Tables: list}
	if got := p.Audited([]string{"bank.Accounts", "bank.t", "hr.x", "q.secret"}); !slices.Equal(got,
		[]string{"bank.Accounts", "hr.x", "q.secret"}) {
		t.Error(got)
	}
	for _, bad := range []string{"accounts", "a.b.c", ".", "a."} {
		if _, err := ParseTables(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("CREATE USER u IDENTIFIED BY 'a'")
	f.Add("'\\")
	f.Fuzz(func(t *testing.T, q string) {
		Classify(q)
		Digest(q)
		if m := Mask("ALTER USER u IDENTIFIED BY 'geheim' " + q); strings.Contains(m, "geheim") && !strings.Contains(q, "geheim") {
			t.Errorf("%q", m)
		}
	})
}
