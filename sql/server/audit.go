package server

import (
	"net"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// addressOf is where the client of a session is; nil if there is none.
func (g *gateway) addressOf(s *session.Session) net.Addr {
	if p, ok := g.presences.Load(s.ID()); ok {
		return p.(*presence).conn.RemoteAddr()
	}
	return nil
}

// noteLogin writes a login, a refused one, or the end of a connection.
func (g *gateway) noteLogin(kind audit.Kind, c *mysql.Conn, user string, addr net.Addr, why string) {
	e := audit.Event{Kind: kind, User: user, Address: hostOf(addr), Error: why}
	if c != nil {
		e.Connection = c.ConnectionID
		if kind == audit.Login && c.TLSEnabled() {
			e.Detail = "tls"
		}
	}
	g.audit.Log.Write(e)
}

// noteLogout writes the end of a connection that had logged in.
func (g *gateway) noteLogout(c *mysql.Conn) {
	if id, ok := c.UserData.(sql.MysqlConnectionUser); ok {
		g.noteLogin(audit.Logout, c, id.User, c.RemoteAddr(), "")
	}
}

// runEvent runs the body of an event, which the audit log takes for one statement.
func (g *gateway) runEvent(ctx *sql.Context, s *session.Session, t *schema.EventTask) error {
	g.audit.Begin(s)
	err := g.query.Event(ctx, s, t)
	g.audit.Statement(s, "call", "CALL event "+t.DB+"."+t.Name, err)
	return err
}
