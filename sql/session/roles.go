package session

import (
	"context"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"

	"github.com/godwitdb/godwit/base"
)

// Role is the name of a role.
type Role struct{ Name, Host string }

// Roles are the active roles of a session. The zero value is all that its account has.
type Roles struct {
	// Some: only those of the list are, as far as the account has them.
	Some bool
	List []Role
}

// activeRoles is what a session keeps of its roles.
type activeRoles struct {
	chosen Roles
	// rights are what the account may do with these roles, as of the beginning of the statement;
	// nil: with all of its roles. stale: privileges have changed since.
	rights *mysql_db.PrivilegeSet
	stale  bool
}

// Roles are the session's active roles.
func (s *Session) Roles() Roles { return s.roles.chosen }

// SetRoles makes roles the active ones.
func (s *Session) SetRoles(r Roles) {
	s.roles = activeRoles{chosen: r, stale: true}
	s.state = nil // what travels with forwarded statements
	// Nobody knows the privileges of this version: they are found anew.
	s.BaseSession.SetPrivilegeSet(mysql_db.NewPrivilegeSet(), noVersion)
}

// noVersion is a version of the privileges that there never is.
const noVersion = ^uint64(0)

// SetPrivilegeSet implements sql.Session. The engine hands over the privileges of the account with
// all of its roles, and goes on to use that set: where not all are active, it is made the one of
// the beginning of the statement. The engine holds the lock of the accounts, so that they cannot be
// read here.
func (s *Session) SetPrivilegeSet(set sql.PrivilegeSet, version uint64) {
	_, had := s.GetPrivilegeSet()
	all, ok := set.(mysql_db.PrivilegeSet)
	switch {
	case !ok || version == had: // what the engine has changed for the text of a view, or puts back
	case s.acting != nil:
		// Grants change while something is executed in the name of a definer: it goes on with the
		// rights that it began with, not with the user's.
		clearPrivileges(all)
		all.UnionWith(*s.acting)
	case s.roles.chosen.Some:
		s.roles.stale = true
		clearPrivileges(all)
		if s.roles.rights != nil {
			all.UnionWith(*s.roles.rights)
		}
	}
	if ok && version != had {
		for _, table := range openTables {
			all.AddTable("performance_schema", table, sql.PrivilegeType_Select)
		}
	}
	s.BaseSession.SetPrivilegeSet(set, version)
}

// openTables are those of performance_schema that everybody may read, as in MySQL. Whoever has not
// PROCESS sees nothing of others there.
var openTables = []string{"global_status", "global_variables", "session_status", "session_variables", "variables_info", "persisted_variables",
	"processlist", "session_account_connect_attrs", "session_connect_attrs", "keyring_keys", "keyring_component_status", "user_defined_functions"}

// IsOpen reports whether a table of performance_schema is one that everybody may read.
func IsOpen(table string) bool { return slices.Contains(openTables, table) }

// KeepPrivilegeSet makes a set the session's, whatever roles are active.
func (s *Session) KeepPrivilegeSet(set sql.PrivilegeSet, version uint64) {
	s.BaseSession.SetPrivilegeSet(set, version)
}

// Act gives the session the rights of somebody else until end is called, also if grants change
// meanwhile. version is that of the privileges.
func (s *Session) Act(set sql.PrivilegeSet, version uint64) (end func()) {
	was, v := s.GetPrivilegeSet()
	outer := s.acting
	if s.acting = nil; set != nil {
		if p, ok := set.(mysql_db.PrivilegeSet); ok {
			s.acting = &p
		}
	}
	s.BaseSession.SetPrivilegeSet(set, version)
	return func() {
		s.acting = outer
		s.BaseSession.SetPrivilegeSet(was, v)
	}
}

// clearPrivileges empties a set that others have, too.
func clearPrivileges(set mysql_db.PrivilegeSet) {
	set.RemoveGlobalStatic(set.ToSlice()...)
	set.RemoveGlobalDynamic(set.ToSliceDynamic(true)...)
	set.RemoveGlobalDynamic(set.ToSliceDynamic(false)...)
	for _, d := range set.GetDatabases() {
		set.ClearDatabase(d.Name())
	}
}

// RefreshRoles finds out what the session may do with its active roles, before a statement begins.
func (s *Session) RefreshRoles(db *mysql_db.MySQLDb) {
	if !s.roles.chosen.Some {
		return
	}
	// It says whether they have changed, and asks the context for its session only. An empty
	// context would come with a session of its own, which has all variables, for each statement.
	db.UserActivePrivilegeSet(&sql.Context{Context: context.Background(), Session: s})
	if !s.roles.stale {
		return
	}
	set := mysql_db.NewPrivilegeSet()
	rd := db.Reader()
	client := s.Client()
	if u := db.GetUser(rd, client.User, client.Address, false); u != nil {
		set.UnionWith(u.PrivilegeSet)
		for _, e := range rd.GetToUserRoleEdges(mysql_db.RoleEdgesToKey{ToHost: u.Host, ToUser: u.User}) {
			if !slices.Contains(s.roles.chosen.List, Role{e.FromUser, e.FromHost}) {
				continue
			}
			if role := db.GetUser(rd, e.FromUser, e.FromHost, true); role != nil {
				set.UnionWith(role.PrivilegeSet)
			}
		}
	}
	rd.Close()
	_, version := s.GetPrivilegeSet()
	s.roles.rights, s.roles.stale = &set, false
	s.BaseSession.SetPrivilegeSet(set, version)
}

// encode writes roles for another node, decodeRoles reads them.
func (r Roles) encode() string {
	var b strings.Builder
	for _, x := range r.List {
		b.WriteString(x.Name + "\x00" + x.Host + "\x00")
	}
	return b.String()
}

func decodeRoles(text string) (Roles, error) {
	r := Roles{Some: true}
	parts := strings.Split(text, "\x00")
	if len(parts)%2 == 0 {
		return r, base.Errorf(base.CodeInvalid, "roles of an unknown form")
	}
	for i := 0; i+1 < len(parts); i += 2 {
		r.List = append(r.List, Role{parts[i], parts[i+1]})
	}
	return r, nil
}
