package server

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// TestInformationSchemaHides: no table of information_schema, and no SHOW, tells a user with SELECT
// on one table of other databases, tables, accounts, routines, or of what is in their definitions.
func TestInformationSchemaHides(t *testing.T) {
	s, root := startServer(t, memkv.New(1), withCluster)
	for _, q := range []string{
		"CREATE TABLE t (id INT PRIMARY KEY, v INT)",
		"CREATE DATABASE clandestine",
		"CREATE TABLE clandestine.parents (id INT PRIMARY KEY)",
		"CREATE TABLE clandestine.kids (id INT PRIMARY KEY, v VARCHAR(20) DEFAULT 'clandestine', n INT, p INT, KEY clandestine_key (n), " +
			"CONSTRAINT clandestine_check CHECK (n > 17), CONSTRAINT clandestine_fk FOREIGN KEY (p) REFERENCES clandestine.parents (id))",
		"INSERT INTO clandestine.parents VALUES (1)",
		"INSERT INTO clandestine.kids VALUES (1, 'clandestine', 18, 1)",
		"CREATE VIEW clandestine.v AS SELECT v FROM clandestine.kids WHERE v = 'clandestine'",
		"CREATE TABLE clandestine_sibling (id INT PRIMARY KEY, CONSTRAINT clandestine_c CHECK (id > 18))",
		"CREATE VIEW clandestine_view AS SELECT id FROM clandestine_sibling",
		"CREATE TRIGGER clandestine_trigger BEFORE INSERT ON clandestine_sibling FOR EACH ROW SET NEW.id = 'clandestine'",
		"CREATE PROCEDURE clandestine_proc(clandestine_arg INT) SELECT 'clandestine'",
		"CREATE EVENT clandestine_event ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 'clandestine'",
		"CREATE USER clandestine_user IDENTIFIED BY 'a' COMMENT 'clandestine'",
		"CREATE ROLE clandestine_role",
		"GRANT SELECT (v), UPDATE ON clandestine.kids TO clandestine_user",
		"GRANT SELECT, DROP ON clandestine.* TO clandestine_user",
		"GRANT clandestine_role TO clandestine_user",
		"GRANT CREATE USER, PROCESS ON *.* TO clandestine_user",
		"GRANT EXECUTE ON PROCEDURE test.clandestine_proc TO clandestine_user",
	} {
		exec(t, root, q)
	}
	query(t, root, "ANALYZE TABLE clandestine.kids")
	few := as(t, s, root, "few", "SELECT ON test.t")
	open := openDSN(t, "clandestine_user:a@tcp("+s.Addr().String()+")/")
	query(t, open, "SELECT 'clandestine'")
	looks := []string{"SHOW DATABASES", "SHOW TABLES", "SHOW FULL TABLES", "SHOW TABLE STATUS", "SHOW TRIGGERS", "SHOW EVENTS",
		"SHOW PROCEDURE STATUS", "SHOW FUNCTION STATUS", "SHOW PROCESSLIST", "SHOW FULL PROCESSLIST", "SHOW GRANTS", "SHOW VARIABLES",
		"SHOW STATUS", "SHOW WARNINGS", "SHOW INDEX FROM t", "SHOW CREATE TABLE t", "SHOW COLUMNS FROM t", "SHOW PLUGINS",
		"SELECT * FROM t__homes", "SHOW CREATE PROCEDURE clandestine_proc", "SHOW CREATE EVENT clandestine_event",
		"SHOW CREATE VIEW clandestine_view", "SHOW CREATE TRIGGER clandestine_trigger", "SHOW CREATE DATABASE clandestine",
		"SHOW CREATE TABLE clandestine.kids", "SHOW INDEX FROM clandestine.kids", "DESCRIBE clandestine.kids",
		"EXPLAIN SELECT * FROM clandestine_view", "EXPLAIN FORMAT=TREE SELECT * FROM clandestine.kids", "SHOW GRANTS FOR clandestine_user",
		"SHOW CREATE USER clandestine_user", "USE clandestine", "SHOW TABLES FROM clandestine", "SHOW TRIGGERS FROM clandestine",
		"SELECT * FROM mysql.user", "SELECT * FROM mysql.db", "SELECT * FROM mysql.tables_priv", "SELECT * FROM mysql.columns_priv",
		"SELECT * FROM mysql.procs_priv",
		"SELECT * FROM mysql.role_edges", "SELECT * FROM performance_schema.events_statements_summary_by_digest",
		"CALL clandestine_proc(1)", "TABLE clandestine.kids", "CREATE TEMPORARY TABLE x LIKE clandestine.kids"}
	for _, name := range query(t, root, "SELECT LOWER(table_name) FROM information_schema.tables WHERE table_schema = 'information_schema'") {
		looks = append(looks, "SELECT * FROM information_schema.`"+name+"`")
	}
	for _, name := range query(t, root, "SHOW TABLES FROM godwit") {
		looks = append(looks, "SELECT * FROM godwit.`"+name+"`", "SHOW GODWIT "+name)
	}
	told := 0
	for _, q := range looks {
		rows, err := tryQuery(few, q)
		for _, r := range rows {
			if strings.Contains(strings.ToLower(r), "clandestine") {
				t.Errorf("%s tells: %.200s", q, r)
			}
		}
		if err == nil {
			told++
		}
		if err != nil && strings.Contains(err.Error(), "kids'@") {
			t.Errorf("%s: %v", q, err)
		}
	}
	if told < 40 {
		t.Errorf("of %d statements only %d are answered at all", len(looks), told)
	}
	// Root sees what there is to see, so the words are the right ones.
	for _, q := range []string{"SELECT * FROM information_schema.check_constraints", "SELECT * FROM information_schema.routines",
		"SELECT * FROM information_schema.user_privileges", "SELECT * FROM information_schema.schema_privileges",
		"SELECT * FROM information_schema.table_privileges"} {
		if !strings.Contains(strings.Join(query(t, root, q), " "), "clandestine") {
			t.Errorf("%s tells root nothing", q)
		}
	}
}
