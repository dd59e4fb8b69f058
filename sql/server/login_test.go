package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	vitess "github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/kv/memkv"
)

// tlsServer is a server that offers TLS.
func tlsServer(t *testing.T) (*Server, *sql.DB) {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	return startServer(t, memkv.New(4, "eu", "us"), func(c *Config) {
		c.TLS = &tls.Config{Certificates: web.TLS.Certificates}
	})
}

// login is the number of the error of one login, 0 if it succeeds.
func login(t *testing.T, s *Server, user, password, options string) uint16 {
	t.Helper()
	c, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/?%s", user, password, s.Addr(), options))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return errNumber(t, c.Ping())
}

func errNumber(t *testing.T, err error) uint16 {
	t.Helper()
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	if err != nil {
		t.Errorf("login: %v", err)
		return 1
	}
	return 0
}

// hold is one login, which stays.
func hold(t *testing.T, s *Server, user, password string) (*sql.Conn, uint16) {
	t.Helper()
	c := openDSN(t, fmt.Sprintf("%s:%s@tcp(%s)/", user, password, s.Addr()))
	k, err := c.Conn(context.Background())
	return k, errNumber(t, err)
}

// TestLogins: both kinds of accounts, with TLS and without.
func TestLogins(t *testing.T) {
	s, c := tlsServer(t)
	exec(t, c, "CREATE USER fresh IDENTIFIED BY 'secret'")
	exec(t, c, "CREATE USER old IDENTIFIED WITH mysql_native_password BY 'secret'")
	exec(t, c, "CREATE USER oldhash IDENTIFIED WITH mysql_native_password AS '*14E65567ABDB5135D0CFD9A70B3032C179A49EE7'")
	exec(t, c, "CREATE USER open1, open2 IDENTIFIED WITH mysql_native_password")
	exec(t, c, "CREATE USER tlsonly IDENTIFIED BY 'secret' REQUIRE SSL")
	exec(t, c, "CREATE USER x509 IDENTIFIED WITH mysql_native_password BY 'secret' REQUIRE X509")
	expect(t, c, "SELECT user, plugin FROM mysql.user WHERE user IN ('fresh','old','open1','root') ORDER BY user",
		"fresh|caching_sha2_password", "old|mysql_native_password", "open1|caching_sha2_password",
		"root|caching_sha2_password")
	for _, x := range []struct {
		user, password string
		plain, tls     uint16
	}{
		{"fresh", "secret", 0, 0}, {"fresh", "Secret", 1045, 1045}, {"fresh", "", 1045, 1045},
		{"old", "secret", 0, 0}, {"old", "Secret", 1045, 1045}, {"old", "", 1045, 1045},
		{"oldhash", "secret", 0, 0}, {"oldhash", "Secret", 1045, 1045},
		{"open1", "", 0, 0}, {"open1", "secret", 1045, 1045}, {"open2", "", 0, 0}, {"open2", "secret", 1045, 1045},
		{"nobody", "secret", 1045, 1045}, {"nobody", "", 1045, 1045},
		{"root", "", 0, 0}, {"root", "secret", 1045, 1045},
		{"tlsonly", "secret", 1045, 0}, {"x509", "secret", 1045, 1045},
	} {
		for range 2 { // the second one of an account may take the fast way
			if got := login(t, s, x.user, x.password, ""); got != x.plain {
				t.Errorf("%s with password %q: error %d, want %d", x.user, x.password, got, x.plain)
			}
			if got := login(t, s, x.user, x.password, "tls=skip-verify"); got != x.tls {
				t.Errorf("%s with password %q and TLS: error %d, want %d", x.user, x.password, got, x.tls)
			}
		}
	}
	exec(t, c, "SET GLOBAL require_secure_transport = ON")
	defer exec(t, openDSN(t, fmt.Sprintf("root@tcp(%s)/?tls=skip-verify", s.Addr())),
		"SET GLOBAL require_secure_transport = OFF")
	for _, user := range []string{"fresh", "old", "nobody"} {
		if got := login(t, s, user, "secret", ""); got != 3159 {
			t.Errorf("%s without TLS: error %d, want 3159", user, got)
		}
	}
	if login(t, s, "fresh", "secret", "tls=skip-verify") != 0 || login(t, s, "old", "secret", "tls=skip-verify") != 0 {
		t.Error("no login with TLS, which is required")
	}
}

// TestFastLogin: a node keeps a hash after the first login with caching_sha2_password, which is
// good until the password changes.
func TestFastLogin(t *testing.T) {
	s, c := tlsServer(t)
	exec(t, c, "CREATE USER u IDENTIFIED BY 'secret'")
	kept := func() *account {
		s.g.logins.mu.Lock()
		defer s.g.logins.mu.Unlock()
		return s.g.logins.accounts[accountName{"u", "%"}]
	}
	for _, options := range []string{"", "tls=skip-verify"} {
		if login(t, s, "u", "secret", options) != 0 {
			t.Fatal("no login")
		}
		// Only the fast way looks at the hash: another one has another password.
		one := sha256.Sum256([]byte("other"))
		two := sha256.Sum256(one[:])
		x := kept()
		was := x.hash
		x.hash = two[:]
		if login(t, s, "u", "other", options) != 0 {
			t.Errorf("options %q: the hash is not used", options)
		}
		x.hash = was
		exec(t, c, "ALTER USER u IDENTIFIED BY 'second'")
		if got := login(t, s, "u", "secret", options); got != 1045 {
			t.Errorf("options %q: the password that was changed: error %d, want 1045", options, got)
		}
		if login(t, s, "u", "second", options) != 0 {
			t.Errorf("options %q: the new password is refused", options)
		}
		exec(t, c, "ALTER USER u IDENTIFIED BY 'secret'")
	}
	expect(t, c, "SELECT COUNT(*) FROM mysql.user WHERE user = 'u'", "1")
}

// TestShortScrambles: what has the wrong length is a wrong password.
func TestShortScrambles(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE USER old IDENTIFIED WITH mysql_native_password BY 'secret'")
	exec(t, c, "CREATE USER fresh IDENTIFIED BY 'secret'")
	login(t, s, "fresh", "secret", "")
	salt, err := newSalt()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		_, err := nativeLogin{s.g.logins}.HandleAuthPluginData(&vitess.Conn{}, "old", salt, make([]byte, n), s.Addr())
		var e *vitess.SQLError
		if !errors.As(err, &e) || e.Num != 1045 {
			t.Errorf("%d bytes: %v", n, err)
		}
		if s.g.logins.remembers(s.g.logins.find("fresh", s.Addr()), make([]byte, n), salt[:20]) {
			t.Errorf("%d bytes are the password", n)
		}
	}
}

// TestLockedAccounts: ACCOUNT LOCK, and failed logins that block an account.
func TestLockedAccounts(t *testing.T) {
	s, c := newServer(t)
	want := func(what, user, password string, num uint16) {
		t.Helper()
		if got := login(t, s, user, password, ""); got != num {
			t.Errorf("%s: error %d, want %d", what, got, num)
		}
	}
	exec(t, c, "CREATE USER shut IDENTIFIED BY 'a' ACCOUNT LOCK")
	want("a locked account", "shut", "a", 3118)
	want("a locked account, without the password", "shut", "b", 1045)
	exec(t, c, "ALTER USER shut ACCOUNT UNLOCK")
	want("an unlocked account", "shut", "a", 0)
	exec(t, c, "ALTER USER shut ACCOUNT LOCK")
	want("an account that is locked again", "shut", "a", 3118)
	exec(t, c, "ALTER USER shut IDENTIFIED BY 'c'")
	want("a locked account with another password", "shut", "c", 3118)
	expect(t, c, "SELECT account_locked FROM mysql.user WHERE user = 'shut'", "Y")

	for _, plugin := range []string{"mysql_native_password", "caching_sha2_password"} {
		exec(t, c, "CREATE USER g IDENTIFIED WITH "+plugin+" BY 'a' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2")
		fail := func(n int, last uint16) {
			t.Helper()
			for i := range n {
				num := uint16(1045)
				if i == n-1 {
					num = last
				}
				want("a wrong password", "g", "b", num)
			}
		}
		fail(2, 1045)
		want("before the third", "g", "a", 0)
		fail(2, 1045) // the login between has made good for those before
		want("before the third", "g", "a", 0)
		fail(3, 3955)
		want("the right password of a blocked account", "g", "a", 3955)
		exec(t, c, "ALTER USER g ACCOUNT UNLOCK")
		want("after it was unlocked", "g", "a", 0)
		fail(3, 3955)
		x := s.g.logins.accounts[accountName{"g", "%"}]
		x.blocked = x.blocked.Add(-47 * time.Hour)
		want("before two days", "g", "a", 3955)
		x.blocked = x.blocked.Add(-2 * time.Hour)
		want("after two days", "g", "a", 0)
		exec(t, c, "ALTER USER g PASSWORD_LOCK_TIME UNBOUNDED")
		fail(3, 3955)
		x.blocked = x.blocked.Add(-10000 * time.Hour)
		want("after a year", "g", "a", 3955)
		exec(t, c, "ALTER USER g FAILED_LOGIN_ATTEMPTS 0")
		want("without a limit", "g", "a", 0)
		fail(7, 1045)
		exec(t, c, "DROP USER g")
	}
}

// TestConnectionLimits: max_connections, and those of accounts.
func TestConnectionLimits(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE USER one IDENTIFIED BY 'a' WITH MAX_USER_CONNECTIONS 1")
	exec(t, c, "CREATE USER many IDENTIFIED BY 'a'")
	exec(t, c, "CREATE USER admin IDENTIFIED BY 'a'")
	exec(t, c, "GRANT CONNECTION_ADMIN ON *.* TO admin")
	k, num := hold(t, s, "one", "a")
	if num != 0 {
		t.Fatalf("the first connection: error %d", num)
	}
	if got := login(t, s, "one", "a", ""); got != 1226 {
		t.Errorf("the second connection of an account that may have one: error %d, want 1226", got)
	}
	exec(t, c, "ALTER USER one WITH MAX_USER_CONNECTIONS 2")
	if got := login(t, s, "one", "a", ""); got != 0 {
		t.Errorf("the second connection of an account that may have two: error %d", got)
	}
	k.Close()

	exec(t, c, "SET GLOBAL max_user_connections = 1")
	if _, num := hold(t, s, "many", "a"); num != 0 {
		t.Errorf("the first connection: error %d", num)
	}
	if got := login(t, s, "many", "a", ""); got != 1203 {
		t.Errorf("the second connection where all accounts may have one: error %d, want 1203", got)
	}
	exec(t, c, "SET GLOBAL max_user_connections = 0")
	opened := func() int {
		s.g.logins.mu.Lock()
		defer s.g.logins.mu.Unlock()
		return s.g.logins.open
	}
	eventually(t, "closed connections do not count", func() bool { return opened() <= 4 })
	was := query(t, c, "SELECT @@GLOBAL.max_connections")[0]
	exec(t, c, fmt.Sprintf("SET GLOBAL max_connections = %d", opened()+1))
	defer exec(t, c, "SET GLOBAL max_connections = "+was)
	if _, num := hold(t, s, "many", "a"); num != 0 {
		t.Errorf("the last connection: error %d", num)
	}
	if got := login(t, s, "many", "a", ""); got != 1040 {
		t.Errorf("one connection too many: error %d, want 1040", got)
	}
	if _, num := hold(t, s, "admin", "a"); num != 0 {
		t.Errorf("the administrator's connection: error %d", num)
	}
	if got := login(t, s, "admin", "a", ""); got != 1040 {
		t.Errorf("the administrator's second connection: error %d, want 1040", got)
	}
}

// TestWhoMayAlterUsers: everybody its own password, and nothing else.
func TestWhoMayAlterUsers(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE USER me IDENTIFIED BY 'a', you IDENTIFIED BY 'a', me@'10.0.0.1' IDENTIFIED BY 'a'")
	k, _ := hold(t, s, "me", "a")
	exec(t, k, "ALTER USER me IDENTIFIED BY 'b'")
	for _, q := range []string{"ALTER USER you IDENTIFIED BY 'b'", "ALTER USER me@'10.0.0.1' IDENTIFIED BY 'b'",
		"ALTER USER me ACCOUNT UNLOCK", "ALTER USER me WITH MAX_USER_CONNECTIONS 9",
		"ALTER USER me IDENTIFIED BY 'c' ACCOUNT UNLOCK", "ALTER USER me IDENTIFIED BY 'c' REQUIRE NONE",
		"ALTER USER me IDENTIFIED BY 'c', you IDENTIFIED BY 'c'"} {
		expectErr(t, k, 1227, q)
	}
	if login(t, s, "me", "b", "") != 0 || login(t, s, "you", "a", "") != 0 {
		t.Error("the wrong password was changed")
	}
	if _, err := k.ExecContext(t.Context(), "CREATE USER them"); err == nil {
		t.Error("a user without privileges makes another one")
	}
}

// TestAccountOptions: an option works, or is refused.
func TestAccountOptions(t *testing.T) {
	_, c := newServer(t)
	for _, q := range []string{"CREATE USER u WITH MAX_QUERIES_PER_HOUR 5", "CREATE USER u WITH MAX_UPDATES_PER_HOUR 5",
		"CREATE USER u WITH MAX_CONNECTIONS_PER_HOUR 5", "CREATE USER u PASSWORD EXPIRE INTERVAL 9 DAY",
		"CREATE USER u PASSWORD HISTORY 5", "CREATE USER u PASSWORD REUSE INTERVAL 3 DAY"} {
		expectErr(t, c, 1235, q)
	}
	expectErr(t, c, 1396, "CREATE USER u IDENTIFIED WITH no_such_plugin BY 'a'")
	expectErr(t, c, 1396, "CREATE USER u IDENTIFIED WITH caching_sha2_password AS 'rubbish'")
	expectErr(t, c, 1396, "ALTER USER u ACCOUNT LOCK")
	exec(t, c, "CREATE USER u IDENTIFIED BY 'ACCOUNT LOCK' REQUIRE NONE WITH MAX_QUERIES_PER_HOUR 0 "+
		"PASSWORD EXPIRE DEFAULT PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT "+
		"PASSWORD REQUIRE CURRENT DEFAULT ACCOUNT UNLOCK COMMENT 'hers'")
	exec(t, c, "ALTER USER u FAILED_LOGIN_ATTEMPTS 4")
	got := query(t, c, "SELECT account_locked, User_attributes FROM mysql.user WHERE user = 'u'")
	if len(got) != 1 || !strings.HasPrefix(got[0], "N|") || !strings.Contains(got[0], "hers") ||
		!strings.Contains(got[0], `"failed_login_attempts"`) {
		t.Errorf("the account is %q", got)
	}
	exec(t, c, "CREATE USER IF NOT EXISTS u ACCOUNT LOCK")
	exec(t, c, "ALTER USER IF EXISTS v ACCOUNT LOCK")
	expect(t, c, "SELECT user, account_locked FROM mysql.user WHERE user IN ('u','v')", "u|N")
}

// TestDatabaseOfALogin: a client that names a database as it logs in, or by COM_INIT_DB, is told
// what USE tells.
func TestDatabaseOfALogin(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE DATABASE `mine``s`")
	for _, q := range []string{"CREATE USER u IDENTIFIED BY ''", "GRANT SELECT ON `mine``s`.* TO u"} {
		exec(t, c, q)
	}
	for db, want := range map[string]uint16{"mine`s": 0, "information_schema": 0, "mysql": 1044, "performance_schema": 0, "godwit": 1044,
		"nowhere": 1044} {
		for _, atLogin := range []bool{true, false} {
			cfg := mysql.NewConfig()
			cfg.User, cfg.Net, cfg.Addr = "u", "tcp", s.Addr().String()
			q := "USE `" + strings.ReplaceAll(db, "`", "``") + "`"
			if atLogin {
				cfg.DBName, q = db, "DO 1"
			}
			connector, err := mysql.NewConnector(cfg)
			if err != nil {
				t.Fatal(err)
			}
			u := sql.OpenDB(connector)
			_, err = u.Exec(q)
			if got := errNumber(t, err); got != want {
				t.Errorf("%s, at the login %v: error %d, want %d", db, atLogin, got, want)
			}
			if err == nil && atLogin {
				expect(t, u, "SELECT DATABASE()", db)
			}
			u.Close()
		}
	}
	connector, err := mysql.NewConnector(&mysql.Config{User: "root", Net: "tcp", Addr: s.Addr().String(), DBName: "nowhere",
		AllowNativePasswords: true})
	if err != nil {
		t.Fatal(err)
	}
	root := sql.OpenDB(connector)
	defer root.Close()
	if got := errNumber(t, root.Ping()); got != 1049 {
		t.Errorf("no such database: error %d, want 1049", got)
	}
}

// TestManyPlaceholders: a statement has 65,528 of them at most, since the protocol library reads no
// more.
func TestManyPlaceholders(t *testing.T) {
	_, c := newServer(t)
	q := func(n int) string { return "SELECT COALESCE(?" + strings.Repeat(",?", n-1) + ")" }
	const most = 65_528
	for _, n := range []int{most + 1, 1 << 16, 1<<16 + 3} {
		if _, err := c.PrepareContext(t.Context(), q(n)); errNumber(t, err) != 1390 {
			t.Errorf("%d placeholders: %v, want error 1390", n, err)
		}
	}
	p, err := c.PrepareContext(t.Context(), q(most))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	args := make([]any, most)
	args[most-1] = 7
	var got int
	if err := p.QueryRow(args...).Scan(&got); err != nil || got != 7 {
		t.Errorf("%d, %v", got, err)
	}
}
