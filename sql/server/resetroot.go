package server

import (
	"context"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
)

// ResetRoot gives root another password, of which auth is the hash ([PasswordHash]), and unlocks
// it; a root that was dropped is made anew, with all privileges. Who asks is the operator of the
// node.
func (s *Server) ResetRoot(ctx context.Context, auth string) error {
	if _, _, _, _, err := mysql.DeserializeCachingSha2PasswordAuthString([]byte(auth)); err != nil {
		return base.Errorf(base.CodeInvalid, "the hash of a password is malformed: %v", err)
	}
	if err := s.g.users.Refresh(ctx); err != nil {
		return err
	}
	db := s.g.engine.Analyzer.Catalog.MySQLDb
	var u *mysql_db.User
	if err := s.g.users.Change(ctx, func(ctx *sql.Context, ed *mysql_db.Editor) error {
		key := mysql_db.UserPrimaryKey{Host: "%", User: "root"}
		if _, ok := ed.GetUser(key); !ok {
			db.AddSuperUser(ed, key.User, key.Host, "")
		}
		old, _ := ed.GetUser(key)
		u = mysql_db.UserCopy(old)
		u.Plugin, u.AuthString, u.Locked, u.PasswordLastChanged = string(mysql.CachingSha2Password), auth, false, time.Now().UTC()
		ed.RemoveUser(key) // it compares all fields
		ed.PutUser(u)
		return db.Persist(ctx, ed)
	}); err != nil {
		return err
	}
	s.g.logins.forgive(u)
	return nil
}
