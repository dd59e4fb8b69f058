package server

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/session"
)

// This file writes what clients do to the audit log. What was forwarded is written where the client
// is.

// audited are the first words of statements that package audit may take for an event whatever
// tables they name. A text that begins with a comment may be any.
var audited = map[string]bool{"grant": true, "revoke": true, "create": true, "drop": true, "alter": true, "rename": true,
	"truncate": true, "set": true, "kill": true, "shutdown": true, "promote": true, "flush": true, "reset": true,
	"purge": true, "install": true, "uninstall": true, "clone": true, "restart": true, "prepare": true, "": true}

// noteStatement writes a statement that has ended, if it is an event. kind is its first word.
func (h *handler) noteStatement(c *mysql.Conn, s *session.Session, kind, query string, err error) {
	log := h.g.audit
	if log == nil || s.Remote {
		return
	}
	p := log.Params()
	if p.Off || !audited[kind] && len(p.Tables) == 0 {
		return
	}
	e := audit.Event{User: s.Client().User, Address: hostOf(c.RemoteAddr()), Connection: c.ConnectionID,
		Database: s.GetCurrentDatabase()}
	if audited[kind] {
		e.Kind = audit.Classify(query)
	}
	if len(p.Tables) > 0 {
		e.Tables = p.Audited(tablesOf(query, e.Database, &p))
	}
	switch {
	case e.Kind != "":
		e.Statement = audit.Mask(query)
	case len(e.Tables) > 0:
		e.Kind, e.Statement = audit.Table, audit.Digest(query)
	default:
		return
	}
	if err = h.wording(s, err); err != nil {
		// What a client is told may quote what is hidden.
		if e.Error = err.Error(); e.Kind == audit.Account || e.Statement != audit.First(query) {
			e.Error = numberOf(err)
		}
	}
	log.Write(e)
}

// numberOf names an error without its text.
func numberOf(err error) string {
	var me *mysql.SQLError
	if !errors.As(err, &me) {
		return "failed"
	}
	return fmt.Sprintf("error %d (%s)", me.Num, me.State)
}

// tablesOf are the tables that the first statement of a text names, as database.table.
func tablesOf(query, db string, p *audit.Params) (out []string) {
	if !mayName(query, p) {
		return nil
	}
	stmt, err := sqlparser.Parse(audit.First(query))
	if err != nil {
		return nil
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if t, ok := n.(sqlparser.TableName); ok && !t.IsEmpty() {
			in := t.DbQualifier.String()
			if in == "" {
				in = db
			}
			out = append(out, in+"."+t.Name.String())
		}
		return true, nil
	}, stmt) // it never fails
	return out
}

// mayName reports whether the name of an audited table is in a text at all.
func mayName(query string, p *audit.Params) bool {
	for _, t := range p.Tables {
		if _, name, _ := strings.Cut(t, "."); name == "*" || base.ContainsFold(query, name) {
			return true
		}
	}
	return false
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
	g.audit.Write(e)
}

// noteLogout writes the end of a connection that had logged in.
func (g *gateway) noteLogout(c *mysql.Conn) {
	if id, ok := c.UserData.(sql.MysqlConnectionUser); ok {
		g.noteLogin(audit.Logout, c, id.User, c.RemoteAddr(), "")
	}
}
