package server

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/rights"
)

// logins says who may log in. It is the protocol library's AuthServer: the methods of the engine
// keep no cache for caching_sha2_password, have no exchange of keys for it, and do not count.
//
// A login is one of these exchanges, for the method of the account:
//
//   - mysql_native_password: a scramble of SHA1(password);
//   - caching_sha2_password, fast: a scramble of SHA256(password), for an account of which this
//     node keeps the hash since a full login;
//   - the same, full: the password itself, over TLS, or under the node's RSA key, which the client
//     asks for.
//
// An account that does not exist takes the way of one that does, to the same refusal.
type logins struct {
	g *gateway

	mu       sync.Mutex
	accounts map[accountName]*account
	open     int // connections that have logged in

	keyOnce sync.Once
	key     *rsa.PrivateKey
	public  []byte // PEM

	lastLog time.Time // of a login that failed
	skipped int
}

// accountName is what MySQL calls 'user'@'host'.
type accountName struct{ user, host string }

// account is what a node knows of an account beyond what the cluster stores. It is lost at a
// restart, as in MySQL.
type account struct {
	open int // connections
	// hash is SHA256(SHA256(password)) of the password that auth was made from.
	hash, auth []byte
	failed     int       // logins in a row
	blocked    time.Time // since when; zero: it is not
}

func newLogins(g *gateway) *logins { return &logins{g: g, accounts: map[accountName]*account{}} }

// AuthMethods implements mysql.AuthServer.
func (l *logins) AuthMethods() []mysql.AuthMethod {
	return []mysql.AuthMethod{sha2Login{l}, nativeLogin{l}}
}

// DefaultAuthMethodDescription implements mysql.AuthServer.
func (l *logins) DefaultAuthMethodDescription() mysql.AuthMethodDescription {
	return mysql.CachingSha2Password
}

// find is the stored account that a user at an address is, nil if none.
func (l *logins) find(user string, addr net.Addr) *mysql_db.User {
	db := l.g.engine.Analyzer.Catalog.MySQLDb
	rd := db.Reader()
	defer rd.Close()
	if u := db.GetUser(rd, user, hostOf(addr), false); u != nil && !u.IsRole {
		return mysql_db.UserCopy(u)
	}
	return nil
}

// takes reports whether a user logs in by a method.
func (l *logins) takes(user string, addr net.Addr, method mysql.AuthMethodDescription) bool {
	if u := l.find(user, addr); u != nil {
		return u.Plugin == string(method)
	}
	return method == mysql.CachingSha2Password
}

func (l *logins) of(u *mysql_db.User) *account {
	n := accountName{u.User, u.Host}
	a := l.accounts[n]
	if a == nil {
		a = &account{}
		l.accounts[n] = a
	}
	return a
}

func newSalt() ([]byte, error) {
	salt, err := mysql.NewSalt()
	return append(salt, 0), err
}

// attempt is one login.
type attempt struct {
	l        *logins
	c        *mysql.Conn
	name     string
	addr     net.Addr
	user     *mysql_db.User // nil: there is no such account
	password bool           // whether the client has sent one
}

func (l *logins) begin(c *mysql.Conn, user string, addr net.Addr, response []byte) (*attempt, error) {
	if c.TLSEnabled() || intVariable("require_secure_transport") == 0 {
		return &attempt{l: l, c: c, name: user, addr: addr, user: l.find(user, addr),
			password: len(response) > 0 && !bytes.Equal(response, []byte{0})}, nil
	}
	l.note(user, addr, "no TLS, and require_secure_transport is on")
	return nil, mysql.NewSQLError(3159, "HY000",
		"Connections using insecure transport are prohibited while --require_secure_transport=ON.")
}

// finish ends a login. good says whether the client knows the password.
func (a *attempt) finish(good bool) (mysql.Getter, error) {
	if a.user == nil {
		return nil, a.refuse("no such account")
	}
	if err := a.count(good); err != nil {
		return nil, err
	}
	switch {
	case !good:
		return nil, a.refuse("wrong password")
	case !secureEnough(a.user, a.c):
		return nil, a.refuse("the account's REQUIRE is not met")
	case a.user.Locked:
		a.l.note(a.name, a.addr, "the account is locked")
		return nil, mysql.NewSQLError(3118, "HY000", "Access denied for user '%s'@'%s'. Account is locked.", a.name,
			hostOf(a.addr))
	}
	return sql.MysqlConnectionUser{User: a.user.User, Host: a.user.Host}, nil
}

// refuse is the refusal, and its entry in the log.
func (a *attempt) refuse(why string) error {
	a.l.note(a.name, a.addr, why)
	using := "NO"
	if a.password {
		using = "YES"
	}
	return mysql.NewSQLError(1045, "28000", "Access denied for user '%s'@'%s' (using password: %s)", a.name,
		hostOf(a.addr), using)
}

// count keeps the logins that failed in a row, and refuses those of a blocked account. As in MySQL
// that does not depend on the password: who guesses learns nothing.
func (a *attempt) count(good bool) error {
	limit := limitsOf(a.user)
	if limit.FailedAttempts == 0 || limit.LockDays == 0 {
		return nil
	}
	l := a.l
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.of(a.user)
	days := time.Duration(limit.LockDays) * 24 * time.Hour
	if !x.blocked.IsZero() && limit.LockDays > 0 && time.Since(x.blocked) >= days {
		x.blocked, x.failed = time.Time{}, 0
	}
	if x.blocked.IsZero() {
		if good {
			x.failed = 0
			return nil
		}
		if x.failed++; x.failed < limit.FailedAttempts {
			return nil
		}
		x.blocked = time.Now()
	}
	l.noteLocked(a.name, a.addr, "the account is blocked by failed logins")
	return errBlocked(a.name, hostOf(a.addr), limit, x)
}

// note writes a login that failed to the log, at most one a second.
func (l *logins) note(user string, addr net.Addr, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked(user, addr, why)
}

func (l *logins) noteLocked(user string, addr net.Addr, why string) {
	l.g.noteLogin(audit.LoginFailed, nil, user, addr, why)
	if time.Since(l.lastLog) < time.Second {
		l.skipped++
		return
	}
	l.g.Log.Warn("a login failed", "user", user, "address", hostOf(addr), "why", why, "not_logged_before", l.skipped)
	l.lastLog, l.skipped = time.Now(), 0
}

// secureEnough reports whether a connection is what an account REQUIREs. The library has verified a
// client's certificate.
func secureEnough(u *mysql_db.User, c *mysql.Conn) bool {
	if u.SslType == "" {
		return true
	}
	t, ok := c.Conn.(*tls.Conn)
	if !ok {
		return false
	}
	state := t.ConnectionState()
	certs := state.PeerCertificates
	is := func(want string, have func(*x509.Certificate) pkix.Name) bool {
		return want == "" || len(certs) > 0 && slashed(have(certs[0])) == want
	}
	switch u.SslType {
	case "ANY":
		return true
	case "X509":
		return len(certs) > 0
	case "SPECIFIED":
		return (u.SslCipher == "" || tls.CipherSuiteName(state.CipherSuite) == u.SslCipher) &&
			is(u.X509Issuer, func(c *x509.Certificate) pkix.Name { return c.Issuer }) &&
			is(u.X509Subject, func(c *x509.Certificate) pkix.Name { return c.Subject })
	}
	return false
}

// slashed is a name as MySQL writes it: /C=US/O=.../CN=...
func slashed(n pkix.Name) string {
	out := ""
	for _, p := range strings.Split(n.String(), ",") {
		out = "/" + p + out
	}
	return out
}

// nativeLogin is mysql_native_password.
type nativeLogin struct{ l *logins }

// Name implements mysql.AuthMethod.
func (nativeLogin) Name() mysql.AuthMethodDescription { return mysql.MysqlNativePassword }

// HandleUser implements mysql.AuthMethod.
func (m nativeLogin) HandleUser(c *mysql.Conn, user string) bool {
	return m.l.takes(user, c.RemoteAddr(), mysql.MysqlNativePassword)
}

// AllowClearTextWithoutTLS implements mysql.AuthMethod: nothing here is clear text.
func (nativeLogin) AllowClearTextWithoutTLS() bool { return true }

// AuthPluginData implements mysql.AuthMethod.
func (nativeLogin) AuthPluginData() ([]byte, error) { return newSalt() }

// HandleAuthPluginData implements mysql.AuthMethod.
func (m nativeLogin) HandleAuthPluginData(c *mysql.Conn, user string, server, client []byte,
	addr net.Addr) (mysql.Getter, error) {
	a, err := m.l.begin(c, user, addr, client)
	if err != nil {
		return nil, err
	}
	if a.user == nil || a.user.AuthString == "" {
		return a.finish(a.user != nil && !a.password)
	}
	if cc, ok := c.Conn.(*clientConn); ok && len(client) == 0 && cc.seq == 0 {
		// A replica of MariaDB that does not have the greeting's method names this one, sends
		// nothing, and waits to be asked.
		if server, client, err = askAgain(cc); err != nil {
			return nil, err
		}
	}
	hash, err := mysql.DecodeMysqlNativePasswordHex(a.user.AuthString)
	good := err == nil && len(client) == sha1.Size && len(hash) == sha1.Size &&
		mysql.VerifyHashedMysqlNativePassword(client, bytes.TrimSuffix(server, []byte{0}), hash)
	return a.finish(good)
}

// askAgain asks for a scramble with a new salt.
func askAgain(c *clientConn) (salt, scramble []byte, err error) {
	if salt, err = newSalt(); err != nil {
		return nil, nil, err
	}
	x := exchange{c: c, seq: c.seq + 2} // the client has answered the last packet
	if err := x.send(append([]byte("\xfe"+string(mysql.MysqlNativePassword)+"\x00"), salt...)); err != nil {
		return nil, nil, err
	}
	scramble, err = x.receive()
	return salt, scramble, err
}

// sha2Login is caching_sha2_password.
type sha2Login struct{ l *logins }

// Name implements mysql.AuthMethod.
func (sha2Login) Name() mysql.AuthMethodDescription { return mysql.CachingSha2Password }

// HandleUser implements mysql.AuthMethod.
func (m sha2Login) HandleUser(c *mysql.Conn, user string) bool {
	return m.l.takes(user, c.RemoteAddr(), mysql.CachingSha2Password)
}

// AllowClearTextWithoutTLS implements mysql.AuthMethod: without TLS the password is encrypted.
func (sha2Login) AllowClearTextWithoutTLS() bool { return true }

// AuthPluginData implements mysql.AuthMethod.
func (sha2Login) AuthPluginData() ([]byte, error) { return newSalt() }

// HandleAuthPluginData implements mysql.AuthMethod.
func (m sha2Login) HandleAuthPluginData(c *mysql.Conn, user string, server, client []byte,
	addr net.Addr) (mysql.Getter, error) {
	a, err := m.l.begin(c, user, addr, client)
	if err != nil {
		return nil, err
	}
	// The library writes the packets of the fast way, and of the full way over TLS.
	x := &sha2Exchange{attempt: a}
	x.fast = a.password && m.l.remembers(a.user, client, bytes.TrimSuffix(server, []byte{0}))
	if a.password && !x.fast && !c.TLSEnabled() {
		password, err := m.l.underKey(c, bytes.TrimSuffix(server, []byte{0}))
		if err != nil {
			return nil, err
		}
		return x.UserEntryWithPassword(c, user, password, addr)
	}
	return mysql.NewSha2CachingAuthMethod(x, x, nil).HandleAuthPluginData(c, user, server, client, addr)
}

// sha2Exchange answers the library's questions during one login.
type sha2Exchange struct {
	*attempt
	fast bool
}

// UserEntryWithCacheHash implements mysql.CachingStorage.
func (x *sha2Exchange) UserEntryWithCacheHash(*mysql.Conn, []byte, string, []byte, net.Addr) (mysql.Getter,
	mysql.CacheState, error) {
	if x.password && !x.fast {
		return nil, mysql.AuthNeedMoreData, nil
	}
	g, err := x.finish(x.fast || x.user != nil && x.user.AuthString == "")
	if err != nil {
		return nil, mysql.AuthRejected, err
	}
	return g, mysql.AuthAccepted, nil
}

// longestPassword is MySQL's bound, in bytes.
const longestPassword = 256

// UserEntryWithPassword implements mysql.PlainTextStorage.
func (x *sha2Exchange) UserEntryWithPassword(_ *mysql.Conn, _, password string, _ net.Addr) (mysql.Getter, error) {
	x.password = password != ""
	if len(password) > longestPassword {
		return nil, x.refuse("a password that is too long")
	}
	stored := ""
	if x.user != nil {
		stored = x.user.AuthString
	}
	good := x.user != nil && stored == "" && password == ""
	if stored != "" || x.user == nil {
		good = matches(stored, password)
	}
	g, err := x.finish(good)
	if err == nil && stored != "" {
		x.l.remember(x.user, password)
	}
	return g, err
}

// nobody is what a password is compared with if there is no such account: that takes as long.
var nobody = func() string {
	b, err := mysql.SerializeCachingSha2PasswordAuthString("", make([]byte, 20),
		mysql.DefaultCachingSha2PasswordHashIterations)
	if err != nil {
		panic(err)
	}
	return string(b)
}()

// matches compares a password with what is stored of one.
func matches(stored, password string) bool {
	exists := stored != ""
	if !exists {
		stored = nobody
	}
	kind, rounds, salt, _, err := mysql.DeserializeCachingSha2PasswordAuthString([]byte(stored))
	if err != nil || kind != "SHA256" {
		return false
	}
	b, err := mysql.SerializeCachingSha2PasswordAuthString(password, salt, rounds)
	return err == nil && exists && subtle.ConstantTimeCompare(b, []byte(stored)) == 1
}

// mostRemembered bounds the accounts whose hash is kept.
const mostRemembered = 10_000

// remember keeps the hash for the fast way.
func (l *logins) remember(u *mysql_db.User, password string) {
	one := sha256.Sum256([]byte(password))
	two := sha256.Sum256(one[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.accounts) < mostRemembered {
		x := l.of(u)
		x.hash, x.auth = two[:], []byte(u.AuthString)
	}
}

// remembers reports whether a scramble is that of the password as it was at a full login, and still
// is.
func (l *logins) remembers(u *mysql_db.User, scramble, salt []byte) bool {
	if u == nil || len(scramble) != sha256.Size {
		return false
	}
	var hash, auth []byte
	l.mu.Lock()
	if x := l.accounts[accountName{u.User, u.Host}]; x != nil {
		hash, auth = x.hash, x.auth
	}
	l.mu.Unlock()
	return string(auth) == u.AuthString && len(hash) == sha256.Size &&
		mysql.VerifyHashedCachingSha2Password(bytes.Clone(scramble), salt, hash)
}

// The bytes of the exchange of keys.
const (
	moreData  = 1
	askForKey = 2
	fullLogin = 4
)

// underKey gets the password under the node's RSA key.
func (l *logins) underKey(c *mysql.Conn, salt []byte) (string, error) {
	cc := clientOf(c)
	if cc == nil {
		return "", mysql.NewSQLError(1105, "HY000", "this connection has no exchange of keys")
	}
	x := exchange{c: cc, seq: cc.seq + 2} // the client has answered the last packet
	if err := x.send([]byte{moreData, fullLogin}); err != nil {
		return "", err
	}
	b, err := x.receive()
	if err != nil {
		return "", err
	}
	key, public := l.rsaKey()
	if len(b) == 1 && b[0] == askForKey {
		if err := x.send(append([]byte{moreData}, public...)); err != nil {
			return "", err
		}
		if b, err = x.receive(); err != nil {
			return "", err
		}
	}
	plain, err := rsa.DecryptOAEP(sha1.New(), rand.Reader, key, b, nil)
	if err != nil {
		return "", nil // as a wrong password
	}
	for i := range plain {
		plain[i] ^= salt[i%len(salt)]
	}
	return string(bytes.TrimSuffix(plain, []byte{0})), nil
}

// rsaKey is the key of this process, which it makes when it is first asked for.
func (l *logins) rsaKey() (*rsa.PrivateKey, []byte) {
	l.keyOnce.Do(func() {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err) // there is no randomness: nothing goes
		}
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			panic(err)
		}
		l.key, l.public = key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	})
	return l.key, l.public
}

// exchange is of packets past the library, which has no way to send one. It keeps their numbers.
type exchange struct {
	c   *clientConn
	seq byte
}

func (x *exchange) send(body []byte) error {
	_, err := x.c.Conn.Write(append([]byte{byte(len(body)), byte(len(body) >> 8), 0, x.seq}, body...))
	x.seq++
	x.c.shift += 2 // this one and the answer
	return err
}

func (x *exchange) receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(x.c, head[:]); err != nil {
		return nil, err
	}
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if n > loginBytes || head[3] != x.seq {
		return nil, mysql.NewSQLError(1835, "HY000", "Malformed communication packet.")
	}
	x.seq++
	b := make([]byte, n)
	_, err := io.ReadFull(x.c, b)
	return b, err
}

// admit counts a client that knows its password, and refuses those that are too many. One more than
// max_connections is for administrators.
func (l *logins) admit(c *mysql.Conn) error {
	cc := clientOf(c)
	id, _ := c.UserData.(sql.MysqlConnectionUser)
	db := l.g.engine.Analyzer.Catalog.MySQLDb
	rd := db.Reader()
	u := db.GetUser(rd, id.User, id.Host, false)
	rd.Close()
	if cc == nil || u == nil {
		return nil
	}
	admin := u.PrivilegeSet.Has(sql.PrivilegeType_Super) || u.PrivilegeSet.HasDynamic(rights.ConnectionAdmin)
	limit, all, most := limitsOf(u), intVariable("max_user_connections"), intVariable("max_connections")
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.of(u)
	switch {
	case int64(l.open) >= most && !(admin && int64(l.open) == most):
		l.noteLocked(id.User, c.RemoteAddr(), "too many connections")
		return mysql.NewSQLError(1040, "08004", "Too many connections")
	case limit.UserConnections > 0 && x.open >= limit.UserConnections:
		return mysql.NewSQLError(1226, "42000", "User '%s' has exceeded the 'max_user_connections' resource "+
			"(current value: %d)", id.User, limit.UserConnections)
	case limit.UserConnections == 0 && all > 0 && int64(x.open) >= all && !admin:
		return mysql.NewSQLError(1203, "42000", "User %s already has more than 'max_user_connections' active "+
			"connections", id.User)
	}
	l.open++
	x.open++
	cc.account = x
	cc.loggedIn()
	l.g.noteLogin(audit.Login, c, id.User, c.RemoteAddr(), "")
	return nil
}

// leave counts a connection that ends.
func (l *logins) leave(c *mysql.Conn) {
	if cc := clientOf(c); cc != nil && cc.account != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		cc.account.open--
		cc.account = nil
		l.g.noteLogout(c)
	}
}

// forgive forgets the failed logins of an account.
func (l *logins) forgive(u *mysql_db.User) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.accounts[accountName{u.User, u.Host}]; x != nil {
		x.failed, x.blocked = 0, time.Time{}
	}
}
