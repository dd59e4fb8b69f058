package server

import (
	"context"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// TestGrantTables: mysql.columns_priv and mysql.tables_priv have what MariaDB 10.11 shows after the
// same statements.
func TestGrantTables(t *testing.T) {
	s, root := startServer(t, memkv.New(4, "eu", "us"))
	for _, q := range []string{"CREATE TABLE t (a INT, b INT, c INT)", "CREATE VIEW v AS SELECT a FROM t", "CREATE USER u", "CREATE USER w"} {
		exec(t, root, q)
	}
	const columns = "SELECT Host, Db, User, Table_name, Column_name, Column_priv, Column_priv + 0 FROM mysql.columns_priv ORDER BY 3, 4, 5"
	const tables = "SELECT Host, Db, User, Table_name, Table_priv, Column_priv, Column_priv + 0 FROM mysql.tables_priv " +
		"WHERE Db = 'test' ORDER BY 3, 4"
	for _, x := range []struct {
		does            []string
		columns, tables []string
	}{
		{[]string{"GRANT SELECT (a), INSERT (a, b), REFERENCES (c) ON t TO u"},
			[]string{"%|test|u|t|a|Select,Insert|3", "%|test|u|t|b|Insert|2", "%|test|u|t|c|References|8"},
			[]string{"%|test|u|t||Select,Insert,References|11"}},
		{[]string{"GRANT UPDATE ON t TO u", "GRANT SELECT (a) ON v TO w WITH GRANT OPTION"},
			[]string{"%|test|u|t|a|Select,Insert|3", "%|test|u|t|b|Insert|2", "%|test|u|t|c|References|8", "%|test|w|v|a|Select|1"},
			[]string{"%|test|u|t|Update|Select,Insert,References|11", "%|test|w|v|Grant|Select|1"}},
		{[]string{"REVOKE INSERT (a) ON t FROM u"},
			[]string{"%|test|u|t|a|Select|1", "%|test|u|t|b|Insert|2", "%|test|u|t|c|References|8", "%|test|w|v|a|Select|1"},
			[]string{"%|test|u|t|Update|Select,Insert,References|11", "%|test|w|v|Grant|Select|1"}},
		{[]string{"REVOKE INSERT (b) ON t FROM u"},
			[]string{"%|test|u|t|a|Select|1", "%|test|u|t|c|References|8", "%|test|w|v|a|Select|1"},
			[]string{"%|test|u|t|Update|Select,References|9", "%|test|w|v|Grant|Select|1"}},
		{[]string{"REVOKE UPDATE ON t FROM u", "REVOKE SELECT ON t FROM u"},
			[]string{"%|test|u|t|c|References|8", "%|test|w|v|a|Select|1"},
			[]string{"%|test|u|t||References|8", "%|test|w|v|Grant|Select|1"}},
		{[]string{"REVOKE REFERENCES (c) ON t FROM u", "REVOKE SELECT (a) ON v FROM w"},
			nil, []string{"%|test|w|v|Grant||0"}},
		{[]string{"REVOKE GRANT OPTION ON v FROM w"}, nil, nil},
		{[]string{"GRANT SELECT (a) ON t TO u", "GRANT DELETE ON t TO u", "REVOKE ALL ON t FROM u"}, nil, nil},
		{[]string{"GRANT SELECT (b), UPDATE (b) ON t TO u"}, []string{"%|test|u|t|b|Select,Update|5"},
			[]string{"%|test|u|t||Select,Update|5"}},
	} {
		for _, q := range x.does {
			exec(t, root, q)
		}
		expect(t, root, columns, x.columns...)
		expect(t, root, tables, x.tables...)
	}

	// However the table is named.
	one, err := root.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"SELECT mysql.columns_priv.Column_name FROM mysql.columns_priv", "SELECT p.Column_name FROM MYSQL.Columns_Priv p",
		"SELECT x.c FROM (SELECT Column_name AS c FROM mysql.columns_priv WHERE Column_priv = 5) x",
		"WITH x AS (SELECT Column_name FROM mysql.columns_priv) SELECT * FROM x",
		"SELECT MAX(c.Column_name) FROM mysql.tables_priv p JOIN mysql.columns_priv c USING (Host, Db, User, Table_name)",
		"SELECT 'b' FROM mysql.user WHERE User = (SELECT User FROM mysql.columns_priv)",
		"SELECT Column_name FROM mysql.columns_priv WHERE FIND_IN_SET('Update', Column_priv)",
		"SELECT Column_name FROM mysql.columns_priv UNION SELECT 'b'",
	} {
		expect(t, one, q, "b")
	}
	if got, err := tryQuery(one, "SELECT Column_name FROM mysql.columns_priv WHERE User = ?", "u"); err != nil || len(got) != 1 {
		t.Errorf("prepared: %q, %v", got, err)
	}
	exec(t, one, "CREATE VIEW p AS SELECT Column_name FROM mysql.columns_priv")
	expect(t, one, "SELECT * FROM p", "b")
	if text := query(t, one, "SHOW CREATE VIEW p")[0]; !strings.Contains(text, "mysql.columns_priv") {
		t.Error(text)
	}
	exec(t, one, "CREATE TABLE columns_priv (n INT)")
	exec(t, one, "INSERT INTO columns_priv VALUES (7)")
	exec(t, one, "CREATE VIEW q AS SELECT * FROM columns_priv")
	exec(t, one, "CREATE PROCEDURE pr() SELECT Column_name FROM mysql.columns_priv")
	expect(t, one, "SELECT * FROM columns_priv", "7")
	expect(t, one, "CALL pr()", "b")
	exec(t, one, "USE mysql")
	expect(t, one, "SELECT Column_name FROM columns_priv", "b")
	expect(t, one, "SELECT * FROM test.q", "7")
	expect(t, one, "SELECT columns_priv.n FROM test.columns_priv", "7")
	expect(t, one, "WITH columns_priv AS (SELECT 3 AS n) SELECT n FROM columns_priv", "3")
	if got := query(t, one, "DESCRIBE columns_priv"); len(got) != 7 || !strings.HasPrefix(got[4], "Column_name|char(64) ") ||
		!strings.HasPrefix(got[6], "Column_priv|set('Select','Insert','Update','References') ") {
		t.Errorf("%q", got)
	}
	exec(t, one, "USE test")
	for _, q := range []string{"SHOW COLUMNS FROM mysql.columns_priv", "SHOW COLUMNS FROM columns_priv FROM mysql"} {
		if got := query(t, one, q); len(got) != 7 {
			t.Errorf("%s: %q", q, got)
		}
	}
	if got := query(t, one, "SHOW CREATE TABLE mysql.columns_priv"); !strings.Contains(got[0], "`Column_name` char(64)") {
		t.Errorf("%q", got)
	}
	expect(t, one, "SHOW TABLES FROM mysql LIKE '%s_priv'", "columns_priv", "procs_priv", "tables_priv")
	expect(t, one, "SHOW FULL TABLES FROM mysql LIKE 'col%'", "columns_priv|BASE TABLE")

	// It takes no writes, and nobody makes a database of the name behind it.
	for _, q := range []string{"INSERT INTO mysql.columns_priv (User) VALUES ('x')", "DELETE FROM mysql.columns_priv",
		"UPDATE mysql.columns_priv SET User = 'x'", "TRUNCATE mysql.columns_priv", "DROP TABLE mysql.columns_priv"} {
		if _, err := tryQuery(one, q); err == nil || strings.Contains(err.Error(), "\x00") {
			t.Errorf("%s: %v", q, err)
		}
	}

	// Who may not read the database mysql may not read these.
	few := as(t, s, root, "few", "SELECT ON test.t")
	for _, q := range []string{"SELECT * FROM mysql.columns_priv", "SELECT * FROM mysql.tables_priv", "SELECT * FROM mysql.user",
		"SELECT * FROM t, mysql.columns_priv", "SELECT (SELECT MAX(User) FROM mysql.columns_priv)", "DESCRIBE mysql.columns_priv",
		"SELECT * FROM `\x00mysql`.columns_priv"} {
		if got, err := tryQuery(few, q); err == nil {
			t.Errorf("%s: %q", q, got)
		}
	}
	refused(t, few, 1142, "SELECT * FROM mysql.columns_priv")
	some := as(t, s, root, "some", "SELECT ON test.t", "SELECT ON mysql.columns_priv")
	expect(t, some, "SELECT Column_name FROM mysql.columns_priv", "b")
	refused(t, some, 1142, "SELECT * FROM mysql.tables_priv")
	col := as(t, s, root, "col", "SELECT ON test.t", "SELECT (User) ON mysql.columns_priv")
	expect(t, col, "SELECT DISTINCT User FROM mysql.columns_priv ORDER BY 1", "col", "u")
	refused(t, col, 1143, "SELECT Column_name FROM mysql.columns_priv")
	all := as(t, s, root, "everything", "SELECT ON test.t", "SELECT ON mysql.*")
	if got := query(t, all, "DESCRIBE mysql.columns_priv"); len(got) != 7 {
		t.Errorf("%q", got)
	}
}
