package replica

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Kind is that of the jobs.
const Kind = "REPLICA"

// admin is the privilege that statements need, in lower case as the engine keeps it.
const admin = "replication_slave_admin"

// Env is what the channels of one gateway share.
type Env struct {
	*ddl.Env
	// Rights are those of the user of a statement.
	Rights func(*sql.Context) rights.Set
	// Sessions makes the sessions in which changes are applied, and Closed ends one.
	Sessions *server.SessionManager
	Closed   func(*mysql.Conn)
	// Query executes a statement of a session.
	Query func(ctx context.Context, c *mysql.Conn, query string, each mysql.ResultSpoolFn) error
	// ServerID is the number of this cluster among servers that follow each other.
	ServerID func() uint32

	mu   sync.Mutex
	jobs map[uint64]*running // that this node does
}

// spec is what a job has to do, as its record keeps it. It has no secrets.
type spec struct {
	Channel string `json:"channel"`
}

// running is the job that this node does, or nil.
func (g *Env) running(id uint64) *running {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.jobs[id]
}

// told is what the node that does a job has said last.
func (g *Env) told(rec *job.Record) (now live, err error) {
	if rec == nil || rec.State != job.Running || rec.Free(g.DB.Time()) {
		return live{State: stateNode}, nil
	}
	if len(rec.Checkpoint) > 0 {
		err = json.Unmarshal(rec.Checkpoint, &now)
	}
	return now, err
}

// Run executes a statement.
func (g *Env) Run(ctx *sql.Context, st *Statement) (rows []sql.Row, err error) {
	if st.err != nil {
		return nil, st.err
	}
	r := g.Rights(ctx)
	switch {
	case st.verb == verbShow:
		if !r.Global(sql.PrivilegeType_ReplicationClient) {
			return nil, rights.ErrNeeds("SUPER", "REPLICATION CLIENT")
		}
	case st.verb == verbReset:
		if !r.Global(sql.PrivilegeType_Reload) {
			return nil, rights.ErrNeeds("RELOAD")
		}
	case !r.Dynamic(admin):
		return nil, rights.ErrNeeds("SUPER", admin)
	}
	s := session.Of(ctx)
	if s == nil {
		return nil, schema.Invalid(st.Name() + " needs a session")
	}
	if st.verb != verbShow && s.Explicit(ctx) {
		return nil, schema.Invalid(st.Name() + " is no part of a transaction: COMMIT first, or SET autocommit = 1")
	}
	rows = []sql.Row{{types.NewOkResult(0)}}
	switch st.verb {
	case verbChange:
		err = g.change(ctx, s, st)
	case verbStart:
		err = g.each(ctx, st, func(c *channel) error { return g.start(ctx, s, c) })
	case verbStop:
		err = g.each(ctx, st, func(c *channel) error { return g.stop(ctx, s, c) })
	case verbReset:
		err = g.each(ctx, st, func(c *channel) error { return g.reset(ctx, c, st.all) })
	case verbShow:
		rows = nil
		err = g.each(ctx, st, func(c *channel) error {
			row, err := g.status(ctx, c)
			rows = append(rows, row)
			return err
		})
	}
	return rows, schema.ClientError(err)
}

// each does something with the channel that a statement names, or with all if it names none.
func (g *Env) each(ctx context.Context, st *Statement, do func(*channel) error) error {
	all, err := list(ctx, g.DB)
	if err != nil {
		return err
	}
	found := false
	for _, c := range all {
		if st.named && keyOf(c.Name).Compare(keyOf(st.channel)) != 0 {
			continue
		}
		found = true
		if err := do(c); err != nil {
			return err
		}
	}
	switch {
	case found, st.verb == verbShow && !st.named, st.verb == verbReset && !st.named:
		return nil
	case st.verb == verbStop && !st.named:
		return errNotReplica()
	}
	return errNoChannel(st.channel)
}

// change executes CHANGE REPLICATION SOURCE TO.
func (g *Env) change(ctx context.Context, s *session.Session, st *Statement) error {
	if !st.named {
		all, err := list(ctx, g.DB)
		if err != nil {
			return err
		}
		if len(all) > 1 || len(all) == 1 && all[0].Name != "" {
			return errSeveral()
		}
	}
	given := map[string]bool{}
	for _, o := range st.set {
		given[o.name] = true
	}
	moved := false
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) error {
		c, err := load(ctx, t, st.channel, kv.LockExclusive)
		switch {
		case err != nil:
			return err
		case c == nil:
			c = newChannel(st.channel)
		case c.Job != 0:
			return errRunning(c.Name)
		}
		// Another source has another log: MySQL's rule, also if it has the same name.
		moved = (given["SOURCE_HOST"] || given["SOURCE_PORT"]) && !given["SOURCE_LOG_FILE"] && !given["SOURCE_LOG_POS"]
		if moved {
			moved = c.At.File != ""
			c.At = newChannel("").At
		}
		for _, o := range st.set {
			o.to(c)
		}
		if c.Verify && !c.SSL {
			return schema.Invalid("SOURCE_SSL_VERIFY_SERVER_CERT = 1 takes SOURCE_SSL = 1: the connection is not encrypted without it")
		}
		c.IO, c.SQL = nil, nil
		return c.save(t)
	})
	if err == nil && moved {
		s.Warn(&sql.Warning{Level: "Note", Code: 1105, Message: "Another source has another log: the channel begins at that of the " +
			"source, unless SOURCE_LOG_FILE and SOURCE_LOG_POS are given, too"})
	}
	return err
}

// start executes START REPLICA for a channel.
func (g *Env) start(ctx *sql.Context, s *session.Session, c *channel) error {
	note := func() {
		s.Warn(&sql.Warning{Level: "Note", Code: 1254, Message: "Replication thread(s) for channel '" + c.Name + "' are already running."})
	}
	switch {
	case c.Host == "":
		return errNotReplica()
	case c.Job != 0:
		note()
		return nil
	}
	raw, err := json.Marshal(spec{c.Name})
	if err != nil {
		return err
	}
	lease, err := job.Create(ctx, g.DB, job.Record{Kind: Kind, What: c.what(), User: ctx.Client().User, Spec: raw})
	if err != nil {
		return err
	}
	there := false
	_, err = change(ctx, g.DB, c.Name, func(_ kv.Txn, c *channel) error {
		if there = c.Job != 0; !there {
			c.Job, c.Term, c.IO, c.SQL = lease.ID(), lease.Term(), nil, nil
			c.Account = account{ctx.Client().User, ctx.Client().Address}
		}
		return nil
	})
	if err != nil || there { // somebody was faster
		if there {
			note()
		}
		return errors.Join(err, lease.Finish(ctx, job.ErrCanceled))
	}
	g.Log.Info("a replica begins", "job", lease.ID(), "source", lease.Record().What)
	g.run(lease, c.Name, nil)
	return nil
}

// stop executes STOP REPLICA for a channel. From its commit on nothing more is applied.
func (g *Env) stop(ctx context.Context, s *session.Session, c *channel) error {
	id := uint64(0)
	if _, err := change(ctx, g.DB, c.Name, func(_ kv.Txn, c *channel) error {
		id, c.Job = c.Job, 0
		return nil
	}); err != nil {
		return err
	}
	if id == 0 {
		s.Warn(&sql.Warning{Level: "Note", Code: 1255, Message: "Replication thread(s) for channel '" + c.Name + "' are already stopped."})
		return nil
	}
	if r := g.running(id); r != nil {
		r.cancel(job.ErrCanceled)
		select {
		case <-r.done:
		case <-time.After(stopFor):
		case <-ctx.Done():
		}
		return nil
	}
	if err := job.Cancel(ctx, g.DB, id); base.CodeOf(err) != base.CodeInvalid {
		return err
	}
	return nil // the job has ended by itself
}

// stopFor is how long STOP REPLICA waits for what runs at this node to end. It applies nothing more
// in any case.
const stopFor = 10 * time.Second

// reset executes RESET REPLICA for a channel.
func (g *Env) reset(ctx context.Context, c *channel, all bool) error {
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) error {
		c, err := load(ctx, t, c.Name, kv.LockExclusive)
		switch {
		case err != nil || c == nil:
			return err
		case c.Job != 0:
			return errRunning(c.Name)
		case all:
			t.Delete(keyOf(c.Name))
			return nil
		}
		c.At, c.IO, c.SQL = newChannel("").At, nil, nil
		return c.save(t)
	})
	return err
}
