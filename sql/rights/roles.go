package rights

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/session"
)

// AllRolesVar says whether all roles of an account are active when a client has logged in, or its
// default roles only.
const AllRolesVar = "activate_all_roles_on_login"

// SetRole is SET ROLE or SET DEFAULT ROLE.
type SetRole struct {
	// kind is NONE, ALL, DEFAULT, EXCEPT (all but the list), or LIST.
	kind string
	list []session.Role
	// Defaults: the default roles of accounts are set.
	Defaults bool
	of       []session.Role
}

const (
	nameRE    = "(?:`(?:[^`]|``)*`|'(?:[^'\\\\]|'')*'|\"(?:[^\"\\\\]|\"\")*\"|[\\w$.%-]+)"
	accountRE = nameRE + `(?:\s*@\s*` + nameRE + `)?`
	listRE    = accountRE + `(?:\s*,\s*` + accountRE + `)*`
)

var (
	reSetRole    = regexp.MustCompile(`(?is)^SET\s+ROLE\s+(?:(NONE|DEFAULT|ALL)|ALL\s+(EXCEPT)\s+(` + listRE + `)|(` + listRE + `))$`)
	reSetDefault = regexp.MustCompile(`(?is)^SET\s+DEFAULT\s+ROLE\s+(?:(NONE|ALL)|(` + listRE + `))\s+TO\s+(` + listRE + `)$`)
	reAlterRole  = regexp.MustCompile(`(?is)^ALTER\s+USER\s+(?:IF\s+EXISTS\s+)?(` + listRE + `)\s+DEFAULT\s+ROLE\s+(?:(NONE|ALL)|(` +
		listRE + `))$`)
	reAccount = regexp.MustCompile(`(?s)(` + nameRE + `)(?:\s*@\s*(` + nameRE + `))?`)
)

// ParseSetRole parses SET ROLE, SET DEFAULT ROLE and ALTER USER ... DEFAULT ROLE; nil if a
// statement is none of them.
func ParseSetRole(q string) *SetRole {
	if m := reSetRole.FindStringSubmatch(q); m != nil {
		x := &SetRole{kind: strings.ToUpper(m[1] + m[2]), list: accounts(m[3] + m[4])}
		if x.kind == "" {
			x.kind = "LIST"
		}
		return x
	}
	if m := reSetDefault.FindStringSubmatch(q); m != nil {
		return defaultsOf(m[3], m[1], m[2])
	}
	if m := reAlterRole.FindStringSubmatch(q); m != nil {
		return defaultsOf(m[1], m[2], m[3])
	}
	return nil
}

func defaultsOf(of, kind, list string) *SetRole {
	x := &SetRole{kind: strings.ToUpper(kind), list: accounts(list), Defaults: true, of: accounts(of)}
	if x.kind == "" {
		x.kind = "LIST"
	}
	return x
}

// accounts are the names of a list.
func accounts(list string) (out []session.Role) {
	for _, m := range reAccount.FindAllStringSubmatch(list, -1) {
		r := session.Role{Name: unquoteName(m[1]), Host: "%"}
		if m[2] != "" {
			r.Host = unquoteName(m[2])
		}
		out = append(out, r)
	}
	return out
}

func unquoteName(s string) string {
	if len(s) < 2 || !strings.ContainsRune("`'\"", rune(s[0])) {
		return s
	}
	q := s[:1]
	return strings.ReplaceAll(s[1:len(s)-1], q+q, q)
}

// Run executes the statement.
func (x *SetRole) Run(ctx *sql.Context, users *mysql_db.MySQLDb) error {
	if x.Defaults {
		return x.setDefaults(ctx, users)
	}
	s := session.Of(ctx)
	if s == nil {
		return nil
	}
	me := ctx.Client()
	granted, defaults := rolesOf(users, me.User, me.Address)
	active, err := x.chosen(granted, defaults, me.User, me.Address)
	if err != nil {
		return err
	}
	s.SetRoles(active)
	s.RefreshRoles(users)
	return nil
}

// chosen are the roles that the statement makes active.
func (x *SetRole) chosen(granted, defaults []session.Role, user, host string) (session.Roles, error) {
	switch x.kind {
	case "NONE":
		return session.Roles{Some: true}, nil
	case "ALL":
		return session.Roles{}, nil
	case "DEFAULT":
		if allRoles() {
			return session.Roles{}, nil
		}
		return session.Roles{Some: true, List: defaults}, nil
	case "EXCEPT":
		out := session.Roles{Some: true}
		for _, r := range granted {
			if !slices.Contains(x.list, r) {
				out.List = append(out.List, r)
			}
		}
		return out, nil
	}
	return session.Roles{Some: true, List: x.list}, notGranted(x.list, granted, user, host)
}

// notGranted is the error of a role in the list that an account does not have; nil if it has all.
func notGranted(list, granted []session.Role, user, host string) error {
	for _, r := range list {
		if !slices.Contains(granted, r) {
			return mysql.NewSQLError(3530, "HY000", "%s is not granted to %s", written(r), written(session.Role{Name: user, Host: host}))
		}
	}
	return nil
}

func written(r session.Role) string { return quote(r.Name) + "@" + quote(r.Host) }

// allRoles reports whether a login makes all roles active.
func allRoles() bool {
	_, v, ok := sql.SystemVariables.GetGlobal(AllRolesVar)
	on, err := sql.ConvertToBool(&sql.Context{Context: context.Background()}, v) // a session is dear, and not asked
	return !ok || err != nil || on
}

// rolesOf are the roles that an account has, and its default ones among them, by name.
func rolesOf(users *mysql_db.MySQLDb, name, host string) (granted, defaults []session.Role) {
	rd := users.Reader()
	defer rd.Close()
	u := users.GetUser(rd, name, host, false)
	if u == nil {
		return nil, nil
	}
	for _, e := range rd.GetToUserRoleEdges(mysql_db.RoleEdgesToKey{ToHost: u.Host, ToUser: u.User}) {
		granted = append(granted, session.Role{Name: e.FromUser, Host: e.FromHost})
	}
	slices.SortFunc(granted, func(a, b session.Role) int { return strings.Compare(a.Name+"@"+a.Host, b.Name+"@"+b.Host) })
	for _, r := range defaultRoles(u) {
		if slices.Contains(granted, r) {
			defaults = append(defaults, r)
		}
	}
	return granted, defaults
}

// defaultsKey is the attribute of an account that has its default roles.
const defaultsKey = "default_roles"

func defaultRoles(u *mysql_db.User) []session.Role {
	var a struct {
		Roles []session.Role `json:"default_roles"`
	}
	if u.Attributes != nil {
		_ = json.Unmarshal([]byte(*u.Attributes), &a) // attributes of another making have none
	}
	return a.Roles
}

// SetDefaultRoles keeps the default roles of an account beside its other attributes.
func SetDefaultRoles(u *mysql_db.User, roles []session.Role) error {
	all := map[string]any{}
	if u.Attributes != nil {
		if err := json.Unmarshal([]byte(*u.Attributes), &all); err != nil {
			return err
		}
	}
	delete(all, defaultsKey)
	if len(roles) > 0 {
		all[defaultsKey] = roles
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	text := string(b)
	if u.Attributes = &text; len(all) == 0 {
		u.Attributes = nil
	}
	return nil
}

// setDefaults executes SET DEFAULT ROLE, for all accounts that it names or for none. Everybody may
// set the own ones.
func (x *SetRole) setDefaults(ctx *sql.Context, users *mysql_db.MySQLDb) error {
	me, mine := ctx.Client(), Of(ctx, users)
	for _, o := range x.of {
		if o != (session.Role{Name: me.User, Host: me.Address}) && !mine.Global(sql.PrivilegeType_CreateUser) {
			return ErrNeeds("CREATE USER")
		}
	}
	var sets [][]session.Role
	for _, o := range x.of {
		granted, _ := rolesOf(users, o.Name, o.Host)
		list := x.list
		if x.kind == "ALL" {
			list = granted
		}
		if err := notGranted(list, granted, o.Name, o.Host); err != nil {
			return err
		}
		sets = append(sets, list)
	}
	ed := users.Editor()
	defer ed.Close()
	var changed []*mysql_db.User
	for i, o := range x.of {
		u, ok := ed.GetUser(mysql_db.UserPrimaryKey{Host: o.Host, User: o.Name})
		if !ok {
			return mysql.NewSQLError(3523, "HY000", "Unknown authorization ID %s", written(o))
		}
		u = mysql_db.UserCopy(u)
		if err := SetDefaultRoles(u, sets[i]); err != nil {
			return err
		}
		changed = append(changed, u)
	}
	for _, u := range changed {
		ed.RemoveUser(mysql_db.UserPrimaryKey{Host: u.Host, User: u.User}) // it compares all fields
		ed.PutUser(u)
	}
	return users.Persist(ctx, ed)
}

// Login gives a new session the roles that a login makes active.
func Login(s *session.Session, users *mysql_db.MySQLDb) {
	if allRoles() {
		return
	}
	me := s.Client()
	_, defaults := rolesOf(users, me.User, me.Address)
	s.SetRoles(session.Roles{Some: true, List: defaults})
	s.RefreshRoles(users)
}

// active are the active roles of the session, by name.
func active(ctx *sql.Context, users *mysql_db.MySQLDb) (out, defaults []session.Role) {
	me := ctx.Client()
	granted, defaults := rolesOf(users, me.User, me.Address)
	s := session.Of(ctx)
	for _, r := range granted {
		if s == nil || !s.Roles().Some || slices.Contains(s.Roles().List, r) {
			out = append(out, r)
		}
	}
	return out, defaults
}

// CurrentRole is what CURRENT_ROLE() tells.
func CurrentRole(ctx *sql.Context, users *mysql_db.MySQLDb) string {
	roles, _ := active(ctx, users)
	if len(roles) == 0 {
		return "NONE"
	}
	var out []string
	for _, r := range roles {
		out = append(out, written(r))
	}
	return strings.Join(out, ",")
}

// enabledRoles and applicableRoles are the rows of these tables of information_schema.
func enabledRoles(users *mysql_db.MySQLDb) SchemaReader {
	return func(ctx *sql.Context, _ sql.Catalog) (sql.RowIter, error) {
		roles, defaults := active(ctx, users)
		var rows []sql.Row
		for _, r := range roles {
			rows = append(rows, sql.Row{r.Name, r.Host, yes(slices.Contains(defaults, r)), "NO"})
		}
		return sql.RowsToRowIter(rows...), nil
	}
}

func applicableRoles(users *mysql_db.MySQLDb) SchemaReader {
	return func(ctx *sql.Context, _ sql.Catalog) (sql.RowIter, error) {
		me := ctx.Client()
		_, defaults := rolesOf(users, me.User, me.Address)
		rd := users.Reader()
		defer rd.Close()
		u := users.GetUser(rd, me.User, me.Address, false)
		if u == nil {
			return sql.RowsToRowIter(), nil
		}
		var rows []sql.Row
		for _, e := range rd.GetToUserRoleEdges(mysql_db.RoleEdgesToKey{ToHost: u.Host, ToUser: u.User}) {
			r := session.Role{Name: e.FromUser, Host: e.FromHost}
			rows = append(rows, sql.Row{me.User, me.Address, me.User, me.Address, r.Name, r.Host, yes(e.WithAdminOption),
				yes(slices.Contains(defaults, r)), "NO"})
		}
		return sql.RowsToRowIter(rows...), nil
	}
}

func yes(b bool) string {
	if b {
		return "YES"
	}
	return "NO"
}

// currentRole is the function CURRENT_ROLE().
type currentRole struct{ users *mysql_db.MySQLDb }

var _ sql.FunctionExpression = (*currentRole)(nil)

// RoleFunction is CURRENT_ROLE() over the accounts of a server.
func RoleFunction(users func() *mysql_db.MySQLDb) sql.Function {
	return sql.Function0{Name: "current_role", Fn: func(*sql.Context) sql.Expression { return &currentRole{users()} }}
}

// FunctionName implements sql.FunctionExpression.
func (*currentRole) FunctionName() string { return "current_role" }

// Description implements sql.FunctionExpression.
func (*currentRole) Description() string { return "returns the active roles of the session." }

// String implements sql.Expression.
func (*currentRole) String() string { return "current_role()" }

// Resolved implements sql.Expression.
func (*currentRole) Resolved() bool { return true }

// Type implements sql.Expression.
func (*currentRole) Type(*sql.Context) sql.Type { return types.LongText }

// IsNullable implements sql.Expression.
func (*currentRole) IsNullable(*sql.Context) bool { return false }

// Eval implements sql.Expression.
func (f *currentRole) Eval(ctx *sql.Context, _ sql.Row) (any, error) {
	return CurrentRole(ctx, f.users), nil
}

// Children implements sql.Expression.
func (*currentRole) Children() []sql.Expression { return nil }

// WithChildren implements sql.Expression.
func (f *currentRole) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(f, len(children), 0)
	}
	return f, nil
}
