package rights

import (
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
)

// Loaded mends what go-mysql-server has just loaded: it looks for privileges under names in lower
// case, and files those that it loads under names as they were written. Without this, REVOKE did
// nothing to a database or table with capitals, at all nodes but the one that had granted.
func Loaded(ed *mysql_db.Editor) {
	var all []*mysql_db.User
	ed.VisitUsers(func(u *mysql_db.User) { all = append(all, u) })
	for _, old := range all {
		u := mysql_db.UserCopy(old)
		u.PrivilegeSet = mysql_db.NewPrivilegeSet()
		u.PrivilegeSet.UnionWith(old.PrivilegeSet)
		ed.RemoveUser(mysql_db.UserPrimaryKey{Host: old.Host, User: old.User})
		ed.PutUser(u)
	}
}
