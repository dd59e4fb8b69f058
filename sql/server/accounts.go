package server

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/rewrite"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
)

// CREATE USER, ALTER USER and RENAME USER. The engine ignores most of their options; here they work
// or are refused. What the engine's record of a user has no field for lies in its attributes, where
// MySQL keeps part of it, too.

// accountLimits are the limits of an account, as its attributes keep them.
type accountLimits struct {
	FailedAttempts int `json:"failed_login_attempts,omitempty"`
	// LockDays is how long an account is blocked after them; unbounded: until it is unlocked.
	LockDays        int `json:"password_lock_time_days,omitempty"`
	UserConnections int `json:"max_user_connections,omitempty"`
}

const unbounded = -1

// limitsOf reads the limits of an account.
func limitsOf(u *mysql_db.User) accountLimits {
	var a struct {
		Limits accountLimits `json:"Password_locking"`
	}
	if u != nil && u.Attributes != nil {
		_ = json.Unmarshal([]byte(*u.Attributes), &a) // attributes of another making have none
	}
	return a.Limits
}

// setLimits writes the limits of an account beside its other attributes.
func setLimits(u *mysql_db.User, l accountLimits) error {
	all := map[string]any{}
	if u.Attributes != nil {
		if err := json.Unmarshal([]byte(*u.Attributes), &all); err != nil {
			return fmt.Errorf("the attributes of '%s'@'%s' are no JSON object: %w", u.User, u.Host, err)
		}
	}
	delete(all, "Password_locking")
	if l != (accountLimits{}) {
		all["Password_locking"] = l
	}
	if len(all) == 0 {
		u.Attributes = nil
		return nil
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	text := string(b)
	u.Attributes = &text
	return nil
}

// errBlocked is MySQL's refusal of an account that failed logins have blocked.
func errBlocked(name, host string, l accountLimits, x *account) error {
	days, left := "unlimited", "unlimited"
	if l.LockDays != unbounded {
		days = strconv.Itoa(l.LockDays)
		rest := time.Duration(l.LockDays)*24*time.Hour - time.Since(x.blocked)
		left = strconv.Itoa(int((rest + 24*time.Hour - 1) / (24 * time.Hour)))
	}
	return mysql.NewSQLError(3955, "HY000", "Access denied for user '%s'@'%s'. Account is blocked for %s day(s) "+
		"(%s day(s) remaining) due to %d consecutive failed logins.", name, host, days, left, x.failed)
}

// accountChange is CREATE USER or ALTER USER.
type accountChange struct {
	g      *gateway
	syntax *sqlparser.CreateUser
	alter  bool
	// says are the options that the text names: the syntax tree has defaults for others.
	says func(option string) bool
}

var (
	reAlterUser = regexp.MustCompile(`(?is)^ALTER\s+USER\s+(IF\s+EXISTS\s+)?(.+)$`)
	reQuoted    = regexp.MustCompile("(?s)'(?:[^'\\\\]|\\\\.|'')*'|\"(?:[^\"\\\\]|\\\\.|\"\")*\"|`[^`]*`")
)

// password parses SET PASSWORD, which is an ALTER USER; nil if it is none.
func (p *parser) password(ctx context.Context, q string) sqlparser.Statement {
	if sc, ok := ctx.(*sql.Context); ok {
		return p.alterUser(rewrite.SetPassword(q, sc.Client()))
	}
	return nil
}

// accounts makes a statement that changes accounts ours; nil if it is none.
func (p *parser) accounts(stmt sqlparser.Statement, query string) sqlparser.Statement {
	if r, ok := stmt.(*sqlparser.RenameUser); ok {
		return p.renameUser(r)
	}
	c, ok := stmt.(*sqlparser.CreateUser)
	if !ok || !ours(c) {
		return nil
	}
	return p.accountChange(c, query, false)
}

func (p *parser) renameUser(r *sqlparser.RenameUser) sqlparser.Statement {
	x := &rights.RenameUser{Accounts: r.Accounts}
	return inject(r.Auth, &ownNode{g: p.g, name: "RENAME USER", sch: types.OkResultSchema, writes: true,
		run: func(ctx *sql.Context) ([]sql.Row, error) {
			snap, err := p.g.Snapshot(ctx)
			if err != nil {
				return nil, err
			}
			return []sql.Row{{types.NewOkResult(0)}}, x.Run(ctx, p.g.engine.Analyzer.Catalog.MySQLDb, snap)
		}})
}

// alterUser parses ALTER USER as the CREATE USER that has all its options; nil if it is none.
func (p *parser) alterUser(q string) sqlparser.Statement {
	m := reAlterUser.FindStringSubmatch(q)
	if m == nil {
		return nil
	}
	exists := ""
	if m[1] != "" {
		exists = "IF NOT EXISTS "
	}
	stmt, err := p.Parser.ParseSimple("CREATE USER " + exists + m[2])
	c, ok := stmt.(*sqlparser.CreateUser)
	if err != nil || !ok || !ours(c) {
		return nil // the engine words it
	}
	return p.accountChange(c, q, true)
}

// ours reports whether all accounts of a statement log in in a way that there is; the engine words
// the refusal of others.
func ours(c *sqlparser.CreateUser) bool {
	for _, n := range c.Users {
		if n.Auth2 != nil || n.Auth3 != nil || n.AuthInitial != nil {
			return false
		}
		if a := n.Auth1; a != nil && (a.RandomPassword || a.Plugin != "" &&
			a.Plugin != string(mysql.MysqlNativePassword) && a.Plugin != string(mysql.CachingSha2Password)) {
			return false
		}
	}
	return true
}

func (p *parser) accountChange(c *sqlparser.CreateUser, query string, alter bool) sqlparser.Statement {
	text := strings.ToUpper(strings.Join(strings.Fields(reQuoted.ReplaceAllString(query, " ")), " "))
	x := &accountChange{g: p.g, syntax: c, alter: alter, says: func(o string) bool { return strings.Contains(text, o) }}
	name, auth := "CREATE USER", c.Auth
	if alter {
		name, auth = "ALTER USER", ignoreAuth // by account: see mayAlter
	}
	return inject(auth, &ownNode{g: p.g, name: name, sch: types.OkResultSchema, writes: true,
		run: func(ctx *sql.Context) ([]sql.Row, error) { return []sql.Row{{types.NewOkResult(0)}}, x.run(ctx) }})
}

// run executes the statement: for all accounts that it names, or for none.
func (x *accountChange) run(ctx *sql.Context) error {
	if err := x.refused(); err != nil {
		return err
	}
	db := x.g.engine.Analyzer.Catalog.MySQLDb
	if err := x.mayAlter(ctx, db); err != nil {
		return err
	}
	ed := db.Editor()
	defer ed.Close()
	var changed []*mysql_db.User
	for _, n := range x.syntax.Users {
		u, err := x.account(ctx, ed, n)
		if err != nil {
			return err
		}
		if u == nil {
			continue
		}
		if err := x.change(u, n); err != nil {
			return err
		}
		changed = append(changed, u)
	}
	for _, u := range changed {
		ed.RemoveUser(mysql_db.UserPrimaryKey{Host: u.Host, User: u.User}) // it compares all fields
		ed.PutUser(u)
	}
	if err := db.Persist(ctx, ed); err != nil {
		return err
	}
	for _, u := range changed {
		x.g.logins.forgive(u)
	}
	return nil
}

func notSupported(what string) error {
	return mysql.NewSQLError(errNotSupported, "42000", "%s is not supported", what)
}

// refused names what the statement asks for and cannot get.
func (x *accountChange) refused() error {
	if l := x.syntax.AccountLimits; l != nil {
		for name, v := range map[string]*sqlparser.SQLVal{"MAX_QUERIES_PER_HOUR": l.MaxQueriesPerHour,
			"MAX_UPDATES_PER_HOUR": l.MaxUpdatesPerHour, "MAX_CONNECTIONS_PER_HOUR": l.MaxConnectionsPerHour} {
			if countOf(v) > 0 {
				return notSupported(name)
			}
		}
	}
	if o := x.syntax.PasswordOptions; o != nil {
		switch {
		case countOf(o.ExpirationTime) > 0:
			return notSupported("PASSWORD EXPIRE INTERVAL")
		case countOf(o.History) > 0, countOf(o.ReuseInterval) > 0:
			return notSupported("PASSWORD HISTORY")
		}
	}
	return nil
}

func countOf(v *sqlparser.SQLVal) int {
	if v == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(v.Val))
	return n
}

// mayAlter says whether the user may alter the accounts: everybody the password of its own, and
// nothing else of it.
func (x *accountChange) mayAlter(ctx *sql.Context, db *mysql_db.MySQLDb) error {
	if !x.alter || db.UserHasPrivileges(ctx, sql.NewPrivilegedOperation(sql.PrivilegeCheckSubject{},
		sql.PrivilegeType_CreateUser)) || db.UserHasPrivileges(ctx, sql.NewPrivilegedOperation(
		sql.PrivilegeCheckSubject{Database: "mysql"}, sql.PrivilegeType_Update)) {
		return nil
	}
	me := ctx.Session.Client()
	rd := db.Reader()
	defer rd.Close()
	own := db.GetUser(rd, me.User, me.Address, false)
	password := x.syntax.TLSOptions == nil && x.syntax.AccountLimits == nil && x.syntax.PasswordOptions == nil &&
		x.syntax.Attribute == "" && !x.says(" REQUIRE ")
	for _, n := range x.syntax.Users {
		if !password || n.Auth1 == nil || own == nil || n.Name != own.User || hostName(n.AccountName) != own.Host {
			return rights.ErrNeeds("CREATE USER")
		}
	}
	return nil
}

func hostName(n sqlparser.AccountName) string {
	if n.AnyHost || n.Host == "" {
		return "%"
	}
	return n.Host
}

// account is the one that is to be changed, a copy; nil if there is nothing to do.
func (x *accountChange) account(ctx *sql.Context, ed *mysql_db.Editor, n sqlparser.AccountWithAuth) (*mysql_db.User, error) {
	name := plan.UserName{Name: n.Name, Host: hostName(n.AccountName)}
	u, ok := ed.GetUser(mysql_db.UserPrimaryKey{Host: name.Host, User: name.Name})
	switch {
	case x.alter && ok:
		return mysql_db.UserCopy(u), nil
	case x.alter && x.syntax.IfNotExists: // IF EXISTS
		ctx.Warn(3162, "Authorization ID %s does not exist.", name.String("'"))
		return nil, nil
	case x.alter:
		return nil, sql.ErrUserAlterFailure.New(name.String("'"))
	case ok && x.syntax.IfNotExists:
		ctx.Warn(3163, "Authorization ID %s already exists.", name.String("'"))
		return nil, nil
	case ok:
		return nil, sql.ErrUserCreationFailure.New(name.String("'"))
	case len(name.Name) > 32:
		return nil, sql.ErrUserNameTooLong.New(name.Name)
	case len(name.Host) > 255:
		return nil, sql.ErrUserHostTooLong.New(name.Host)
	}
	return &mysql_db.User{User: name.Name, Host: name.Host, PrivilegeSet: mysql_db.NewPrivilegeSet(),
		Plugin: defaultPlugin(), PasswordLastChanged: time.Now().UTC()}, nil
}

// defaultPlugin is how new accounts log in.
func defaultPlugin() string {
	if _, v, _ := sql.SystemVariables.GetGlobal("default_authentication_plugin"); v == string(mysql.MysqlNativePassword) {
		return string(mysql.MysqlNativePassword)
	}
	return string(mysql.CachingSha2Password)
}

// change puts the statement's options into an account.
func (x *accountChange) change(u *mysql_db.User, n sqlparser.AccountWithAuth) error {
	if n.Auth1 != nil {
		if err := setPassword(u, n.Auth1); err != nil {
			if x.alter {
				return sql.ErrUserAlterFailure.New(err)
			}
			return sql.ErrUserCreationFailure.New(err)
		}
	}
	if x.says(" REQUIRE ") {
		requireTLS(u, x.syntax.TLSOptions)
	}
	switch {
	case x.says("ACCOUNT UNLOCK"):
		u.Locked = false
	case x.says("ACCOUNT LOCK"):
		u.Locked = true
	}
	l := limitsOf(u)
	if a := x.syntax.AccountLimits; a != nil && a.MaxUserConnections != nil {
		l.UserConnections = countOf(a.MaxUserConnections)
	}
	if o := x.syntax.PasswordOptions; o != nil {
		if x.says("FAILED_LOGIN_ATTEMPTS") {
			l.FailedAttempts = countOf(o.FailedAttempts)
		}
		if x.says("PASSWORD_LOCK_TIME") {
			if l.LockDays = countOf(o.LockTime); o.LockTime == nil {
				l.LockDays = unbounded
			}
		}
	}
	if max(l.FailedAttempts, l.LockDays) > 32767 {
		return mysql.NewSQLError(1231, "42000", "FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME are at most 32767")
	}
	if a := x.syntax.Attribute; a != "" {
		if err := setAttribute(u, a); err != nil {
			return err
		}
	}
	if list := x.syntax.DefaultRoles; len(list) > 0 {
		var roles []session.Role
		for _, r := range list {
			roles = append(roles, session.Role{Name: r.Name, Host: hostName(r)})
		}
		if err := rights.SetDefaultRoles(u, roles); err != nil {
			return err
		}
	}
	return setLimits(u, l)
}

// setAttribute keeps a COMMENT or ATTRIBUTE, where MySQL keeps it.
func setAttribute(u *mysql_db.User, text string) error {
	var value map[string]any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return mysql.NewSQLError(3141, "22032", "Invalid JSON text in argument 1 to function ATTRIBUTE: %v", err)
	}
	all := map[string]any{}
	if u.Attributes != nil {
		_ = json.Unmarshal([]byte(*u.Attributes), &all)
	}
	all["metadata"] = value
	b, err := json.Marshal(all)
	out := string(b)
	u.Attributes = &out
	return err
}

// setPassword gives an account another password, or another way to log in.
func setPassword(u *mysql_db.User, a *sqlparser.Authentication) error {
	if a.Plugin != "" {
		u.Plugin = a.Plugin
	}
	u.Identity, u.PasswordLastChanged = a.Identity, time.Now().UTC()
	var auth plan.Authentication
	switch mysql.AuthMethodDescription(u.Plugin) {
	case mysql.MysqlNativePassword:
		auth = plan.AuthenticationMysqlNativePassword(a.Password)
	case mysql.CachingSha2Password:
		auth = plan.NewCachingSha2PasswordAuthentication(a.Password)
	default:
		return fmt.Errorf("there is no authentication plugin '%s'", u.Plugin)
	}
	var err error
	if a.Password == "" && a.Identity != "" { // IDENTIFIED WITH plugin AS 'hash'
		u.AuthString = a.Identity
		return checkHash(u)
	}
	u.AuthString, err = auth.AuthString()
	return err
}

// checkHash refuses what no password has as its hash.
func checkHash(u *mysql_db.User) error {
	var err error
	if u.Plugin == string(mysql.MysqlNativePassword) {
		var b []byte
		if b, err = mysql.DecodeMysqlNativePasswordHex(u.AuthString); err == nil && len(b) != 20 {
			err = fmt.Errorf("it has %d bytes", len(b))
		}
	} else {
		_, _, _, _, err = mysql.DeserializeCachingSha2PasswordAuthString([]byte(u.AuthString))
	}
	if err != nil {
		return mysql.NewSQLError(1827, "HY000", "The password hash doesn't have the expected format. (%v)", err)
	}
	return nil
}

// requireTLS sets what connections of an account have to be.
func requireTLS(u *mysql_db.User, o *sqlparser.TLSOptions) {
	u.SslType, u.SslCipher, u.X509Issuer, u.X509Subject = "", "", "", ""
	switch {
	case o == nil:
	case o.Cipher != "" || o.Issuer != "" || o.Subject != "":
		u.SslType, u.SslCipher, u.X509Issuer, u.X509Subject = "SPECIFIED", o.Cipher, o.Issuer, o.Subject
	case o.X509:
		u.SslType = "X509"
	case o.SSL:
		u.SslType = "ANY"
	}
}

// setRole parses SET ROLE and its like.
func (p *parser) setRole(q string) sqlparser.Statement {
	x := rights.ParseSetRole(q)
	if x == nil {
		return nil
	}
	return inject(ignoreAuth, &ownNode{g: p.g, name: "SET ROLE", sch: types.OkResultSchema, writes: x.Defaults,
		run: func(ctx *sql.Context) ([]sql.Row, error) {
			return []sql.Row{{types.NewOkResult(0)}}, x.Run(ctx, p.g.engine.Analyzer.Catalog.MySQLDb)
		}})
}
