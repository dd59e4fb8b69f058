package server

import (
	"context"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
)

// loadUsers reads the blob, or makes root on a fresh cluster, and follows changes.
func (g *gateway) loadUsers(ctx context.Context, cfg Config) error {
	db := g.engine.Analyzer.Catalog.MySQLDb
	db.SetPersister(g.users)
	db.SetEnabled(true)
	data, ts, err := g.users.Read(ctx)
	if err != nil {
		return err
	}
	if data != nil {
		return g.users.Apply(ctx, data, ts)
	}
	if cfg.AwaitRoot {
		return base.Errorf(base.CodeUnavailable, "the user root is not made yet")
	}
	if err = g.makeRoot(ctx, cfg.RootAuth); err != nil { // another node that starts may have been faster
		if data, ts, rerr := g.users.Read(ctx); rerr == nil && data != nil {
			return g.users.Apply(ctx, data, ts)
		}
	}
	return err
}

// makeRoot makes the first user.
func (g *gateway) makeRoot(ctx context.Context, auth string) error {
	db := g.engine.Analyzer.Catalog.MySQLDb
	return g.users.Change(ctx, func(ctx *sql.Context, ed *mysql_db.Editor) error {
		db.AddSuperUser(ed, "root", "%", "")
		root := db.GetUser(ed, "root", "%", false)
		root.Plugin = defaultPlugin()
		if auth != "" {
			root.Plugin, root.AuthString = string(mysql.CachingSha2Password), auth
		}
		return db.Persist(ctx, ed)
	})
}

// PasswordHash is what is stored of a password: its hash for caching_sha2_password.
func PasswordHash(password string) (string, error) {
	if len(password) > longestPassword {
		return "", fmt.Errorf("a password has at most %d bytes", longestPassword)
	}
	return plan.NewCachingSha2PasswordAuthentication(password).AuthString()
}
