package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/follow"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/standin"
)

// systemDatabases are left out, whatever a source has there: accounts are not copied, and the rest
// is the server's own.
var systemDatabases = []string{"mysql", "information_schema", "performance_schema", "sys", ddl.SystemDatabase, "godwit_import"}

// target is this cluster, as package follow wants it.
type target struct {
	r       *running
	account account
	reader  *inner // reads what tables are like; nil: nothing did yet
	// locked is the channel as Lock has found it.
	locked *channel
}

func (t *target) close() {
	if t.reader != nil {
		t.reader.Close()
		t.reader = nil
	}
}

// inner is a session of an account that no client has.
type inner struct {
	g    *Env
	conn *mysql.Conn
	peer *standin.Conn
	s    *session.Session
}

// innerIDs are above the ids of clients' connections, and below those of forwarded statements.
const innerIDs = 1 << 30

var innerID atomic.Uint32

// open makes a session.
func (g *Env) open(ctx context.Context, a account) (*inner, error) {
	peer := &standin.Conn{Host: a.Host}
	c := &mysql.Conn{Conn: peer, ConnectionID: innerIDs | 1<<29 | innerID.Add(1)&(1<<29-1), User: a.User,
		UserData:    sql.MysqlConnectionUser{User: a.User, Host: a.Host},
		PrepareData: map[uint32]*mysql.PrepareData{}, ClientData: base.RegionID(kv.HomeRegion(g.DB)),
		// Rows that a statement has found count, whether it has changed them or not.
		Capabilities: mysql.CapabilityClientFoundRows, StatusFlags: uint16(mysql.ServerStatusAutocommit)}
	g.Sessions.AddConn(c)
	if err := g.Sessions.ConnReady(ctx, c); err != nil {
		g.Closed(c)
		return nil, err
	}
	in := &inner{g: g, conn: c, peer: peer}
	sctx, err := g.Sessions.NewContextWithQuery(ctx, c, "")
	if err != nil {
		g.Closed(c)
		return nil, err
	}
	in.s = session.Of(sctx)
	in.s.Replicates = true
	for name, v := range map[string]any{"sql_mode": "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO", "time_zone": "+00:00",
		"foreign_key_checks": int8(0), "max_execution_time": int64(0), "autocommit": int8(1), "transaction_read_only": int8(0),
		"character_set_client": "utf8mb4", "character_set_connection": "utf8mb4", "character_set_results": "utf8mb4",
		"collation_connection": "utf8mb4_0900_ai_ci"} {
		if err := in.s.SetSessionVariable(sctx, name, v); err != nil {
			g.Closed(c)
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return in, nil
}

// Close implements follow.Session.
func (in *inner) Close() { in.g.Closed(in.conn) }

// run executes a statement.
func (in *inner) run(ctx context.Context, query string, each func(*sqltypes.Result)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in.peer.Running(cancel)
	defer in.peer.Running(nil)
	return in.g.Query(ctx, in.conn, query, func(r *sqltypes.Result, _ bool) error {
		each(r)
		return nil
	})
}

// Exec implements follow.Session.
func (in *inner) Exec(ctx context.Context, query string) (rows int64, err error) {
	err = in.run(ctx, query, func(r *sqltypes.Result) { rows += int64(r.RowsAffected) })
	return rows, err
}

// query reads all rows of a query as texts; NULL is "". args take the places of question marks.
func (in *inner) query(ctx context.Context, query string, args ...any) (out [][]string, err error) {
	var b []byte
	for i, piece := range strings.Split(query, "?") {
		if i > 0 {
			b = follow.QuoteText(b, fmt.Sprint(args[i-1]))
		}
		b = append(b, piece...)
	}
	err = in.run(ctx, string(b), func(r *sqltypes.Result) {
		for _, row := range r.Rows {
			line := make([]string, len(row))
			for i, v := range row {
				line[i] = v.ToString()
			}
			out = append(out, line)
		}
	})
	return out, err
}

// Session implements follow.Target.
func (t *target) Session(ctx context.Context) (follow.Session, error) {
	in, err := t.r.g.open(ctx, t.account)
	if err != nil {
		return nil, err
	}
	return in, nil
}

// Has implements follow.Target.
func (t *target) Has(db string) bool { return !slices.Contains(systemDatabases, strings.ToLower(db)) }

// Table implements follow.Target.
func (t *target) Table(ctx context.Context, n follow.Name) (_ *follow.Table, err error) {
	if !t.Has(n.DB) {
		return nil, nil
	}
	snap, err := t.r.g.Catalog.Current(ctx)
	if err != nil {
		return nil, err
	}
	def := snap.Table(n.DB, n.Of)
	switch {
	case def == nil:
		return nil, fmt.Errorf("%w %s", follow.ErrGone, n)
	case def.Desc.Locality.Kind == schema.MultiMaster, def.Desc.Locality.Async:
		return nil, schema.Invalid(n.String() + " is MULTI MASTER or asynchronous: its rows cannot be written together with the position in the " +
			"source's log. ALTER TABLE ... SET LOCALITY or SET REPLICATION, and START REPLICA")
	}
	if t.reader == nil {
		if t.reader, err = t.r.g.open(ctx, t.account); err != nil {
			return nil, err
		}
	}
	return follow.ReadTable(ctx, t.reader.query, n)
}

// errOther is why a statement of the log stops a replica.
var errOther = errors.New("START REPLICA follows rows, and definitions of databases, tables, indexes, views, routines and triggers")

// Follows implements follow.Target.
func (t *target) Follows(db, text string) (bool, error) {
	what := follow.KindOf(text)
	if !t.Has(db) {
		return false, nil
	}
	switch what {
	case follow.Tables, follow.Programs:
		return true, nil
	case follow.Accounts, follow.Events, follow.Upkeep:
		t.r.g.Log.Info("a replica leaves a statement out", "job", t.r.lease.ID(), "of", string(what))
		return false, nil
	}
	return false, errOther
}

// Defined implements follow.Target.
func (t *target) Defined(string) {}

// check says why this node must apply nothing, if so.
func (t *target) check(c *channel) error {
	switch {
	case c == nil || c.Job != t.r.lease.ID():
		return job.ErrCanceled
	case c.Term != t.r.lease.Term():
		return job.ErrLost
	}
	return nil
}

// Lock implements follow.Target.
func (t *target) Lock(ctx context.Context, fs follow.Session) (at follow.Position, err error) {
	in := fs.(*inner)
	s := in.s
	s.BeginPatience(time.Now())
	defer s.EndTries()
	s.BeginTry(false)
	sctx, err := in.g.Sessions.NewContextWithQuery(ctx, in.conn, "")
	if err != nil {
		return at, err
	}
	tx := s.Txn()
	if tx == nil {
		return at, errors.New("the transaction has ended by itself")
	}
	k, err := tx.Begin(sctx)
	if err != nil {
		return at, err
	}
	c, err := load(s.KVContext(sctx), k, t.r.name, kv.LockExclusive)
	if err != nil {
		return at, tx.Fail(err)
	}
	if err := t.check(c); err != nil {
		return at, err
	}
	t.locked = c
	return c.At, nil
}

// Advance implements follow.Target.
func (t *target) Advance(ctx context.Context, fs follow.Session, open bool, from, to follow.Position) error {
	if open {
		t.locked.At = to
		return t.locked.save(fs.(*inner).s.Txn().KV)
	}
	_, err := change(ctx, t.r.g.DB, t.r.name, func(_ kv.Txn, c *channel) error {
		if err := t.check(c); err != nil {
			return err
		}
		if c.At != from && c.At != to {
			return fmt.Errorf("the channel is at %s of the log, and not at %s", c.At, from)
		}
		c.At = to
		return nil
	})
	return err
}
