package server

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/wire"
)

// TestRoles: the active roles of a session are what SET ROLE says, for forwarded statements, too,
// follow what is granted to them, and end with the session.
func TestRoles(t *testing.T) {
	s, root := newServer(t)
	exec(t, root, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, root, "CREATE TABLE u (id INT PRIMARY KEY)")
	exec(t, root, "CREATE ROLE rt, ru")
	exec(t, root, "GRANT SELECT ON test.t TO rt")
	exec(t, root, "CREATE TABLE own (id INT PRIMARY KEY)")
	few := as(t, s, root, "few", "SELECT ON test.own")
	exec(t, root, "GRANT rt TO few")
	exec(t, root, "GRANT ru TO few")
	expect(t, few, "SELECT COUNT(*) FROM t", "0")
	expect(t, few, "SELECT CURRENT_ROLE()", "`rt`@`%`,`ru`@`%`")
	refused(t, few, 1142, "SELECT COUNT(*) FROM u")
	exec(t, few, "SET ROLE ru")
	expect(t, few, "SELECT CURRENT_ROLE(), role_name FROM information_schema.enabled_roles", "`ru`@`%`|ru")
	refused(t, few, 1142, "SELECT COUNT(*) FROM t")
	exec(t, root, "GRANT SELECT ON test.u TO ru")
	expect(t, few, "SELECT COUNT(*) FROM u", "0")
	refused(t, few, 1142, "SELECT COUNT(*) FROM t") // though privileges have changed
	exec(t, root, "REVOKE ru FROM few")
	refused(t, few, 1142, "SELECT COUNT(*) FROM u")
	refused(t, few, 3530, "SET ROLE ru")
	expect(t, few, "SELECT CURRENT_ROLE()", "NONE")
	exec(t, few, "SET ROLE ALL")
	expect(t, few, "SELECT COUNT(*) FROM t", "0")

	// What another node is asked to execute.
	id, err := strconv.ParseUint(query(t, few, "SELECT CONNECTION_ID()")[0], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	present, _ := s.g.presences.Load(uint32(id))
	conn := present.(*presence).conn
	forwarded := func() uint32 {
		return s.Execute(t.Context(), &wire.ForwardRequest{Query: "SELECT id FROM t WHERE id = 1 LOCK IN SHARE MODE",
			Session: s.h.session(conn).StateBytes()}).Error
	}
	if n := forwarded(); n != 0 {
		t.Errorf("a forwarded statement: error %d", n)
	}
	exec(t, few, "SET ROLE NONE")
	if n := forwarded(); n != 1142 {
		t.Errorf("a forwarded statement without roles: error %d", n)
	}
	exec(t, few, "SET ROLE rt")
	if n := forwarded(); n != 0 {
		t.Errorf("a forwarded statement with one role: error %d", n)
	}
	// A connection that is handed on.
	if err := s.h.ComResetConnection(conn); err != nil {
		t.Fatal(err)
	}
	expect(t, few, "SELECT CURRENT_ROLE()", "`rt`@`%`")

	// Default roles.
	login := func(user string) string {
		c, err := openDSN(t, fmt.Sprintf("%s@tcp(%s)/", user, s.Addr())).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return query(t, c, "SELECT CURRENT_ROLE()")[0]
	}
	exec(t, root, "GRANT ru TO few")
	exec(t, root, "CREATE USER other DEFAULT ROLE rt")
	exec(t, root, "GRANT rt, ru TO other")
	refused(t, root, 3530, "SET DEFAULT ROLE nobody TO few")
	exec(t, root, "SET GLOBAL "+rights.AllRolesVar+" = OFF")
	defer func() { _ = sql.SystemVariables.SetGlobal(nil, rights.AllRolesVar, int8(1)) }()
	for _, x := range [][2]string{
		{"", "NONE"}, {"SET DEFAULT ROLE ru TO few", "`ru`@`%`"}, {"ALTER USER few DEFAULT ROLE ALL", "`rt`@`%`,`ru`@`%`"},
		{"ALTER USER few DEFAULT ROLE rt", "`rt`@`%`"}, {"SET DEFAULT ROLE NONE TO few", "NONE"},
	} {
		if x[0] != "" {
			exec(t, root, x[0])
		}
		if got := login("few"); got != x[1] {
			t.Errorf("%s: a login has the roles %s, want %s", x[0], got, x[1])
		}
	}
	if got := login("other"); got != "`rt`@`%`" {
		t.Errorf("CREATE USER ... DEFAULT ROLE: a login has the roles %s", got)
	}
	exec(t, few, "SET ROLE ALL")
	exec(t, few, "SET SESSION group_concat_max_len = 2048") // another session executes what is forwarded
	if n := forwarded(); n != 0 {
		t.Errorf("a forwarded statement with all roles: error %d", n)
	}
	refused(t, root, 1235, "SET GLOBAL mandatory_roles = 'rt'")
}
