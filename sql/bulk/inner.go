package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/rules"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/standin"
)

// account is whose statement a job is, and what its session was like.
type account struct {
	User     string `json:"user"`
	Host     string `json:"host"`
	DB       string `json:"db"`
	SQLMode  string `json:"sql_mode"`
	TimeZone string `json:"time_zone"`
	// ReadOnly: its transactions write nothing.
	ReadOnly bool `json:"read_only,omitempty"`
}

// accountOf is that of a statement.
func accountOf(ctx *sql.Context) (account, error) {
	a := account{User: ctx.Client().User, Host: ctx.Client().Address, DB: ctx.GetCurrentDatabase()}
	for name, at := range map[string]*string{"sql_mode": &a.SQLMode, "time_zone": &a.TimeZone} {
		v, err := ctx.GetSessionVariable(ctx, name)
		if err != nil {
			return a, err
		}
		*at = fmt.Sprint(v)
	}
	return a, nil
}

// inner is a session of an account that no client has.
type inner struct {
	g    *Env
	conn *mysql.Conn
	s    *session.Session
}

// innerIDs are above the ids of clients' connections, and below those of forwarded statements.
const innerIDs = 1 << 30

var innerID atomic.Uint32

// open makes a session of a job.
func (g *Env) open(ctx context.Context, o *order) (*inner, error) {
	a, home := o.account(), kv.HomeRegion(g.DB)
	if o.Home != 0 {
		home = g.DB.Topology().HomeFor(o.Home)
	}
	c := &mysql.Conn{Conn: &standin.Conn{Host: a.Host}, ConnectionID: innerIDs | innerID.Add(1)&(innerIDs-1), User: a.User,
		UserData:    sql.MysqlConnectionUser{User: a.User, Host: a.Host},
		PrepareData: map[uint32]*mysql.PrepareData{}, ClientData: home,
		StatusFlags: uint16(mysql.ServerStatusAutocommit)}
	g.Sessions.AddConn(c)
	if err := g.Sessions.ConnReady(ctx, c); err != nil {
		g.Closed(c)
		return nil, err
	}
	in := &inner{g: g, conn: c}
	sctx, err := g.Sessions.NewContextWithQuery(ctx, c, "")
	if err == nil {
		in.s = session.Of(sctx)
		err = in.like(sctx, a)
	}
	if err != nil {
		g.Closed(c)
		return nil, err
	}
	return in, nil
}

// like makes the session what that of the statement was.
func (in *inner) like(ctx *sql.Context, a account) error {
	in.s.SetCurrentDatabase(a.DB)
	readOnly := int8(0)
	if a.ReadOnly {
		readOnly = 1
	}
	for name, v := range map[string]any{"sql_mode": a.SQLMode, "time_zone": a.TimeZone, "max_execution_time": int64(0), "autocommit": int8(1), "transaction_read_only": readOnly,
		"character_set_client": "utf8mb4", "character_set_connection": "utf8mb4", "character_set_results": "utf8mb4", "collation_connection": "utf8mb4_0900_ai_ci"} {
		if err := in.s.SetSessionVariable(ctx, name, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (in *inner) close() { in.g.Closed(in.conn) }

// loading is a LOAD DATA from a text in a transaction of its own.
type loading struct {
	query string
	file  io.Reader
	// exact: a row in which something is wrong is an error. Else one that meets another is left
	// out. trial: nothing is committed.
	exact, trial bool
	// before and after may write in the transaction: when it has done nothing yet, and, unless it
	// is exact, when all has been done and so many rows were written. Nil: nothing is called.
	before func(context.Context, kv.Txn) error
	after  func(k kv.Txn, affected uint64) error
}

// load runs a LOAD DATA.
func (in *inner) load(ctx context.Context, l *loading) error {
	s := in.s
	s.BeginPatience(time.Now())
	defer s.EndTries()
	s.BeginTry(false)
	sctx, err := in.g.Sessions.NewContextWithQuery(ctx, in.conn, l.query)
	if err != nil {
		return err
	}
	s.Infile = &session.Infile{Exact: l.exact, Open: func(string) (io.ReadCloser, error) { return io.NopCloser(l.file), nil }}
	t := session.NewTxn(s)
	defer func() {
		if s.Infile = nil; !t.Over {
			t.Rollback()
		}
		s.SetIgnoreAutoCommit(false)
		s.SetTransaction(nil)
	}()
	k, err := t.Begin(sctx)
	if err == nil && l.before != nil {
		err = l.before(s.KVContext(sctx), k)
	}
	if err != nil {
		return err
	}
	// The statement must not commit, nor be done again in another transaction after a conflict:
	// what before has written would not be in it.
	s.SetIgnoreAutoCommit(true)
	s.SetTransaction(t)
	affected := uint64(0)
	done, err := in.try(ctx, l.query, func(r *sqltypes.Result) error { affected = r.RowsAffected; return nil })
	s.Settle()
	if err = in.named(err); err == nil && !done {
		err = errNotOurs
	}
	switch {
	case err != nil || l.exact && l.trial:
		return err
	case l.exact:
		return in.named(schema.ClientError(t.Commit(sctx)))
	}
	return in.rest(sctx, t, l, affected)
}

// named words the error of a duplicate as MySQL does.
func (in *inner) named(err error) error {
	var me *mysql.SQLError
	if errors.As(err, &me) && me.Num == errDuplicate && in.s.Stmt.Duplicate != "" {
		return mysql.NewSQLError(errDuplicate, "23000", "%s", in.s.Stmt.Duplicate)
	}
	return err
}

// rest ends a LOAD DATA that was to leave out the rows that meet others, and none but those.
func (in *inner) rest(ctx *sql.Context, t *session.Txn, l *loading, affected uint64) error {
	for _, w := range in.s.Warnings() {
		if w.Code != errDuplicate {
			return mysql.NewSQLError(w.Code, "HY000", "%s", w.Message)
		}
	}
	if l.trial {
		return nil
	}
	if l.after != nil {
		if err := l.after(t.KV, affected); err != nil {
			return err
		}
	}
	return t.Commit(ctx)
}

// errDuplicate is that of a row that meets another one.
const errDuplicate = 1062

// errNotOurs: our executor leaves the statement to the engine, which makes zeros of what is wrong.
var errNotOurs = mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'IMPORT INTO such a table, or such a SET': use LOAD DATA")

// try runs a statement with our executor. A panic is its error.
func (in *inner) try(ctx context.Context, query string, send func(*sqltypes.Result) error) (done bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			in.g.Log.Error("statement panicked", "panic", r)
			done, err = true, rules.PanicError(r, nil)
		}
	}()
	sent := false
	return in.g.Runner.Try(ctx, in.s, in.conn, query, nil, &sent, send)
}

// quote is a name in backticks.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
