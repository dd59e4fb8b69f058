package server

import (
	"context"
	"fmt"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
)

// Users and grants are one blob of the engine's making in the meta shard.

var usersKey = schema.UsersKey

// Persist implements mysql_db.MySQLDbPersistence.
func (g *gateway) Persist(ctx *sql.Context, data []byte) error {
	g.usersTurn <- struct{}{} // refreshUsers keeps it for an instant, other statements wait before
	defer func() { <-g.usersTurn }()
	ts, err := kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) error {
		rows, err := t.Get(ctx, []base.Key{usersKey}, kv.LockExclusive)
		if err != nil {
			return err
		}
		if uint64(rows[0].TS) > g.usersTS.Load() {
			// What would be written does not know of that change, and would undo it.
			return base.Errorf(base.CodeInvalid, "users or grants were changed through another node at the same time: "+
				"run the statement again")
		}
		t.Put(usersKey, data, 0)
		return nil
	})
	// After an error what is in force here was not persisted: it is read anew.
	g.usersTS.Store(uint64(ts))
	if err != nil {
		g.Go(g.restoreUsers)
	}
	return schema.ClientError(err)
}

// restoreUsers reads the users anew, as soon as that can be done. Until then a statement that
// changes them is refused.
func (g *gateway) restoreUsers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for g.refreshUsers(ctx) != nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
}

// loadUsers reads the blob, or makes root on a fresh cluster, and follows changes.
func (g *gateway) loadUsers(ctx context.Context, cfg Config) error {
	db := g.engine.Analyzer.Catalog.MySQLDb
	db.SetPersister(g)
	db.SetEnabled(true)
	data, ts, err := g.readUsers(ctx)
	if err != nil {
		return err
	}
	if data != nil {
		return g.applyUsers(data, ts)
	}
	if cfg.AwaitRoot {
		return base.Errorf(base.CodeUnavailable, "the user root is not made yet")
	}
	if err = g.makeRoot(ctx, cfg.RootAuth); err != nil { // another node that starts may have been faster
		if data, ts, rerr := g.readUsers(ctx); rerr == nil && data != nil {
			return g.applyUsers(data, ts)
		}
	}
	return err
}

// makeRoot makes the first user.
func (g *gateway) makeRoot(ctx context.Context, auth string) error {
	db := g.engine.Analyzer.Catalog.MySQLDb
	ed := db.Editor()
	defer ed.Close()
	db.AddSuperUser(ed, "root", "%", "")
	root := db.GetUser(ed, "root", "%", false)
	root.Plugin = defaultPlugin()
	if auth != "" {
		root.Plugin, root.AuthString = string(mysql.CachingSha2Password), auth
	}
	return db.Persist(sql.NewContext(ctx), ed)
}

// PasswordHash is what is stored of a password: its hash for caching_sha2_password.
func PasswordHash(password string) (string, error) {
	if len(password) > longestPassword {
		return "", fmt.Errorf("a password has at most %d bytes", longestPassword)
	}
	return plan.NewCachingSha2PasswordAuthentication(password).AuthString()
}

// readUsers reads the blob as of a timestamp.
func (g *gateway) readUsers(ctx context.Context) (data []byte, at base.Timestamp, err error) {
	t := g.DB.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(ctx)
	rows, err := t.Get(ctx, []base.Key{usersKey}, kv.LockNone)
	if err != nil {
		return nil, 0, err
	}
	return rows[0].Value, t.ReadTimestamp(), nil
}

// applyUsers takes over what was read at a timestamp, unless something newer is in force. A
// statement that changes users holds the editor until they are persisted, and its change shows in
// the meta shard before it ends. So what is in force is compared with the editor in hand.
func (g *gateway) applyUsers(data []byte, ts base.Timestamp) error {
	db := g.engine.Analyzer.Catalog.MySQLDb
	ed := db.Editor()
	defer ed.Close()
	if uint64(ts) <= g.usersTS.Load() {
		return nil
	}
	if err := db.OverwriteUsersAndGrantData(sql.NewEmptyContext(), ed, data); err != nil {
		return err
	}
	rights.Loaded(ed)
	g.usersTS.Store(uint64(ts))
	return nil
}

// refreshUsers takes over grants that another gateway has changed. A change that this gateway is
// persisting may show in the meta shard already: it is waited for.
func (g *gateway) refreshUsers(ctx context.Context) error {
	select {
	case g.usersTurn <- struct{}{}:
		<-g.usersTurn
	case <-ctx.Done():
		return ctx.Err()
	}
	changed, _ := g.DB.MetaVersion(base.PointSpan(usersKey))
	if uint64(changed) <= g.usersTS.Load() {
		return nil
	}
	data, at, err := g.readUsers(ctx)
	if err != nil || data == nil {
		return err
	}
	if err := g.applyUsers(data, min(changed, at)); err != nil || at >= changed {
		return err
	}
	return errBehind
}
