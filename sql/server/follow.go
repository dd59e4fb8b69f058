package server

import (
	"context"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/binlog"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// announces reports whether a replica or a tool for binary logs begins with a statement.
func announces(c *mysql.Conn, query string) bool {
	cc := clientOf(c)
	return binlog.Announces(query) || cc != nil && cc.tool
}

// follow hands the connection of a replica over to package binlog (see there), until it ends. query
// is the statement that the client has announced itself by; "": it has registered.
func (h *handler) follow(ctx context.Context, c *mysql.Conn, query string, r binlog.Replica) error {
	s := h.session(c)
	sctx := sql.NewContext(ctx, sql.WithSession(s))
	env := *h.g.binlog
	env.Feed.Virtual = func(t *schema.Table) (func(sql.Row) error, error) { return h.g.backups.Computed(sctx, t) }
	err := env.Serve(ctx, c.Conn, &binlog.Session{
		Context: sctx, Tool: clientOf(c) != nil && clientOf(c).tool, NoEOF: c.Capabilities&mysql.CapabilityClientDeprecateEOF != 0,
		Query: func(q string) (all *sqltypes.Result, err error) {
			all = &sqltypes.Result{}
			return all, h.run(ctx, c, q, nil, func(s *session.Session, sent *bool) error {
				return h.Handler.ComQuery(ctx, c, q, func(r *sqltypes.Result, _ bool) error {
					*sent = true
					all.Fields, all.Rows, all.RowsAffected = r.Fields, append(all.Rows, r.Rows...), r.RowsAffected
					return nil
				})
			})
		},
		Variable: func(name string) (string, bool) {
			_, v, err := s.GetUserVariable(sctx, name)
			return fmt.Sprint(v), err == nil && v != nil
		},
		MayFollow: func() bool { return h.g.rights(sctx).Global(sql.PrivilegeType_ReplicationSlave) },
		Follow: func() (func(), bool) {
			p := h.g.presence(c)
			return func() { p.leave(s) }, h.g.enter(p)
		},
	}, &h.g.replicas, c.ConnectionID, query, r)
	c.Close() // the protocol library has lost its place in the packets
	return err
}

// ComRegisterReplica implements mysql.BinlogReplicaHandler.
func (h *handler) ComRegisterReplica(c *mysql.Conn, host string, port uint16, _, _ string) error {
	return h.follow(context.Background(), c, "", binlog.Replica{Host: host, Port: port})
}

// ComBinlogDumpGTID implements mysql.BinlogReplicaHandler.
func (h *handler) ComBinlogDumpGTID(*mysql.Conn, string, uint64, mysql.GTIDSet) error {
	return mysql.NewSQLError(1236, "HY000", "a replica sets its variables or registers before it asks for the binary log")
}

// showBinlog parses statements that tell about binary logs and replicas.
func (p *parser) showBinlog(q string) sqlparser.Statement {
	t := p.g.binlog.Shows(q, &p.g.replicas)
	if t == nil {
		return nil
	}
	return inject(ignoreAuth, &ownNode{g: p.g, name: t.Name, sch: t.Schema, run: func(ctx *sql.Context) ([]sql.Row, error) {
		if !p.g.rights(ctx).Global(t.Needs) {
			return nil, rights.ErrNeeds("SUPER", t.Right)
		}
		return t.Rows(), nil
	}})
}
