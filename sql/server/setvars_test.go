package server

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestWhoMaySet: the answers are those of MySQL's manual ("System Variable Privileges"), and
// of MariaDB 10.11 for what it has. 0: the statement runs.
func TestWhoMaySet(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	for user, grant := range map[string]string{"reader": "SELECT ON test.t", "vars": "SYSTEM_VARIABLES_ADMIN ON *.*",
		"sess": "SESSION_VARIABLES_ADMIN ON *.*", "supr": "SUPER ON *.*", "every": "ALL ON test.*"} {
		exec(t, c, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY ''", user))
		exec(t, c, fmt.Sprintf("GRANT %s TO %s@'%%'", grant, user))
	}
	defer exec(t, c, "SET GLOBAL group_concat_max_len = DEFAULT, GLOBAL local_infile = 0")
	for _, x := range []struct {
		q                                string
		reader, every, sess, vars, super uint16
	}{
		{"SET GLOBAL autocommit = 1", 1227, 1227, 1227, 0, 0},
		{"SET @@GLOBAL.autocommit = 1", 1227, 1227, 1227, 0, 0},
		{"SET @@global.group_concat_max_len = 2000", 1227, 1227, 1227, 0, 0},
		{"SET @a = 1, SESSION sql_mode = '', GLOBAL local_infile = 1", 1227, 1227, 1227, 0, 0},
		{"SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE", 1227, 1227, 1227, 0, 0},
		{"SET GLOBAL foreign_key_checks = 1", 1227, 1227, 1227, 0, 0},
		{"SET GLOBAL read_staleness = ''", 1227, 1227, 1227, 0, 0},
		{"SET GLOBAL sql_mode = @@GLOBAL.sql_mode", 1227, 1227, 1227, 0, 0},
		{"SET GLOBAL transaction_consistency = 'cluster'", 1227, 1227, 1227, 0, 0},
		{"SET PERSIST autocommit = 1", 1227, 1227, 1227, 1235, 1235},
		{"SET @@PERSIST_ONLY.autocommit = 1", 1227, 1227, 1227, 1235, 1235},
		{"SET GLOBAL version = 'x'", 1238, 1238, 1238, 1238, 1238},
		{"SET SESSION local_infile = 1", 1229, 1229, 1229, 1229, 1229},
		{"SET GLOBAL pseudo_thread_id = 1", 1228, 1228, 1228, 1228, 1228},
		{"SET GLOBAL no_such_variable = 1", 1193, 1193, 1193, 1193, 1193},
		{"SET SESSION sql_log_bin = 1", 1227, 1227, 0, 0, 0},
		{"SET sql_log_off = 0", 1227, 1227, 0, 0, 0},
		{"SET SESSION bulk_insert_buffer_size = 8388608", 1227, 1227, 0, 0, 0},
		{"SET SESSION autocommit = 1", 0, 0, 0, 0, 0},
		{"SET sql_mode = 'STRICT_TRANS_TABLES', @x = 2", 0, 0, 0, 0, 0},
		{"SET NAMES utf8mb4", 0, 0, 0, 0, 0},
	} {
		for user, want := range map[string]uint16{"reader": x.reader, "every": x.every, "sess": x.sess, "vars": x.vars,
			"supr": x.super} {
			_, err := openDSN(t, fmt.Sprintf("%s@tcp(%s)/", user, s.Addr())).ExecContext(t.Context(), x.q)
			var e *mysql.MySQLError
			got := uint16(0)
			if errors.As(err, &e) {
				got = e.Number
			}
			if got != want || got == 0 && err != nil {
				t.Errorf("%s: %s: %v, want error %d", user, x.q, err, want)
			}
		}
	}
	// A statement that fails sets nothing.
	k := conn(t, openDSN(t, fmt.Sprintf("reader@tcp(%s)/", s.Addr())))
	expectErr(t, k, 1227, "SET SESSION group_concat_max_len = 7, GLOBAL group_concat_max_len = 7")
	expect(t, k, "SELECT @@group_concat_max_len > 7", "1")
	// The privilege can be granted and revoked, by who has it.
	exec(t, c, "GRANT SYSTEM_VARIABLES_ADMIN, PROCESS ON *.* TO reader@'%'")
	exec(t, k, "SET GLOBAL local_infile = 1")
	exec(t, c, "GRANT SELECT ON *.* TO reader@'%' WITH GRANT OPTION")
	expectErr(t, k, 1227, "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO reader@'%'")
	exec(t, c, "CREATE USER other@'%'")
	expectErr(t, k, 1227, "GRANT SELECT, SYSTEM_VARIABLES_ADMIN ON *.* TO other@'%'")
	expect(t, c, "SELECT Select_priv FROM mysql.user WHERE User = 'other'", "N") // all or nothing
	expectErr(t, c, 3619, "GRANT SYSTEM_VARIABLES_ADMIN ON test.* TO reader@'%'")
	exec(t, c, "REVOKE SYSTEM_VARIABLES_ADMIN ON *.* FROM reader@'%'")
	expectErr(t, k, 1227, "SET GLOBAL local_infile = 1")
	exec(t, k, "PREPARE x FROM 'SET GLOBAL local_infile = 1'")
	expectErr(t, k, 1227, "EXECUTE x")
}

// TestVariablesWithoutEffect: who changes a variable that nothing reads is told so.
func TestVariablesWithoutEffect(t *testing.T) {
	_, c := newServer(t)
	k := conn(t, c)
	for _, q := range []string{"SET unique_checks = 0", "SET @@sql_notes = 0", "SET SESSION sort_buffer_size = 1000000"} {
		exec(t, k, q)
		if w := query(t, k, "SHOW WARNINGS"); len(w) != 1 || w[0][:12] != "Warning|1618" {
			t.Errorf("%s: warnings %q", q, w)
		}
	}
	for _, q := range []string{"SET unique_checks = 0", "SET sql_auto_is_null = 0", "SET sql_notes = @@sql_notes",
		"SET sql_mode = ''", "SET time_zone = '+00:00'", "SET @old = @@unique_checks", "SET GLOBAL read_only = 0",
		"SET GLOBAL super_read_only = OFF", "SET transaction_consistency = 'relay'", "SET read_staleness = '1s'",
		"SET godwit_forward = 0", "SET character_set_results = NULL"} {
		exec(t, k, q)
		expect(t, k, "SHOW WARNINGS")
	}
	for _, q := range []string{"SET GLOBAL read_only = 1", "SET GLOBAL super_read_only = ON", "SET GLOBAL offline_mode = ON",
		"SET GLOBAL init_connect = 'SELECT 1'", "SET sql_require_primary_key = 1",
		"SET GLOBAL general_log = 1", "SET GLOBAL log_output = 'TABLE'", "SET GLOBAL slow_query_log_file = '/tmp/slow'",
		"SET GLOBAL log_queries_not_using_indexes = 1", "SET min_examined_row_limit = 7", "SET GLOBAL tls_version = 'TLSv1.3'",
		"SET GLOBAL ssl_key = '/tmp/key'"} {
		expectErr(t, k, 1235, q)
	}
	expect(t, k, "SELECT @@GLOBAL.read_only, @@GLOBAL.offline_mode", "0|0")
}

// TestNamedVariablesExist: the lists of variables name no variable that the engine does not know.
func TestNamedVariablesExist(t *testing.T) {
	_, c := newServer(t)
	for _, set := range []map[string]bool{restricted, effective, promises} {
		for name := range set {
			if len(query(t, c, "SHOW VARIABLES LIKE '"+name+"'")) != 1 {
				t.Errorf("there is no variable %s", name)
			}
		}
	}
}

// TestGlobalValuesShow: a variable of which sessions have no value of their own shows the global
// one in sessions that had begun before it was set.
func TestGlobalValuesShow(t *testing.T) {
	_, c := newServer(t)
	a, b := conn(t, c), conn(t, c)
	expect(t, a, "SELECT @@activate_all_roles_on_login, @@max_connections", "1|2000")
	exec(t, b, "SET GLOBAL activate_all_roles_on_login = OFF, GLOBAL max_connections = 1999")
	defer exec(t, b, "SET GLOBAL activate_all_roles_on_login = ON, GLOBAL max_connections = 2000")
	for _, k := range []*sql.Conn{a, b} {
		expect(t, k, "SELECT @@activate_all_roles_on_login, @@GLOBAL.max_connections, @@max_connections", "0|1999|1999")
		expect(t, k, "SHOW VARIABLES LIKE 'activate_all_roles_on_login'", "activate_all_roles_on_login|OFF")
		expect(t, k, "SHOW VARIABLES WHERE Variable_name = 'max_connections'", "max_connections|1999")
	}
}
