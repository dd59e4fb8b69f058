package session

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
)

// TestRefreshRoles: what a session may do with its active roles is found out when privileges have
// changed, and asking whether they have costs next to nothing: every statement asks.
func TestRefreshRoles(t *testing.T) {
	db := mysql_db.CreateEmptyMySQLDb()
	db.SetEnabled(true)
	grant := func(privileges ...sql.PrivilegeType) {
		ed := db.Editor()
		defer ed.Close()
		set := mysql_db.NewPrivilegeSet()
		set.AddGlobalStatic(privileges...)
		for _, u := range []*mysql_db.User{{User: "u", Host: "%", PrivilegeSet: mysql_db.NewPrivilegeSet()},
			{User: "r", Host: "%", PrivilegeSet: set, IsRole: true, Locked: true}} {
			ed.RemoveUser(mysql_db.UserPrimaryKey{Host: u.Host, User: u.User})
			ed.PutUser(u)
		}
		ed.PutRoleEdge(&mysql_db.RoleEdge{FromUser: "r", FromHost: "%", ToUser: "u", ToHost: "%"})
	}
	grant(sql.PrivilegeType_Select)
	s := New(sql.NewBaseSessionWithClientServer("", sql.Client{User: "u", Address: "localhost"}, 1), nil)
	may := func() (selects, inserts bool) {
		set, _ := s.GetPrivilegeSet()
		return set.(mysql_db.PrivilegeSet).Has(sql.PrivilegeType_Select), set.(mysql_db.PrivilegeSet).Has(sql.PrivilegeType_Insert)
	}
	s.SetRoles(Roles{Some: true, List: []Role{{"r", "%"}}})
	s.RefreshRoles(db)
	if selects, inserts := may(); !selects || inserts {
		t.Fatal(selects, inserts)
	}
	grant(sql.PrivilegeType_Insert)
	s.RefreshRoles(db)
	if selects, inserts := may(); selects || !inserts {
		t.Fatal(selects, inserts)
	}
	if n := testing.AllocsPerRun(10, func() { s.RefreshRoles(db) }); n > 5 {
		t.Errorf("%v allocations where nothing has changed", n)
	}
}
