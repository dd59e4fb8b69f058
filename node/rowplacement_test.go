package node

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/node/residency"
)

// rowCanaries are part of each value of rows with a country, and the regions, by number, that may
// have them.
var rowCanaries = map[string][]int{"canary-in-eu": {1, 2}, "canary-in-us": {3, 4}}

// TestRowPlacement: rows of one table lie in different regions by their country.
func TestRowPlacement(t *testing.T) { bubble(t, rowPlacement) }

func rowPlacement(t *testing.T) {
	t.Helper()
	l := startLocal(t, 5, 1)
	names := l.Regions()
	var cs []*sql.Conn
	for i, n := range l.Nodes() {
		cs = append(cs, openSQL(t, n, ""))
		if i == 0 {
			mustExec(t, cs[0], "CREATE DATABASE d")
		}
		mustExec(t, cs[i], "USE d")
	}
	mustExec(t, cs[0], "CREATE PLACEMENT eu REGIONS ('"+names[1]+"', '"+names[2]+"')")
	mustExec(t, cs[0], "CREATE PLACEMENT us REGIONS ('"+names[3]+"', '"+names[4]+"')")
	const by = "PLACEMENT BY (country) (('DE', 'FR') IN eu, (\"US\") IN us, DEFAULT IN NONE)"
	refusedRules(t, cs[0])
	mustExec(t, cs[0], "CREATE TABLE t (id INT, country CHAR(2), v VARCHAR(40), n INT, PRIMARY KEY (id, country), "+
		"UNIQUE KEY v (v, country), KEY n (n), KEY id (id, n)) "+by)
	for i, c := range cs {
		mustExec(t, c, "INSERT INTO t VALUES (?, 'DE', ?, ?), (?, 'us', ?, ?), (?, 'JP', ?, ?)",
			i, fmt.Sprint("canary-in-eu ", i), i, i, fmt.Sprint("canary-in-us ", i), i+10, i+10*i, fmt.Sprint("anywhere ", i), i+20)
	}
	same := func(c *sql.Conn, q, want string) {
		t.Helper()
		if got := strings.Join(column(t, c, q), "; "); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
	for _, c := range cs[:3] {
		same(c, "SELECT n FROM t WHERE country = 'DE' ORDER BY n", "0; 1; 2; 3; 4")
		same(c, "SELECT n FROM t WHERE id = 3 AND country = 'US'", "13")
		same(c, "SELECT n FROM t WHERE id = 3 AND country = 'XX'", "")
		same(c, "SELECT n FROM t WHERE id = 3 ORDER BY n", "3; 13")
		same(c, "SELECT id FROM t ORDER BY id, country LIMIT 7", "0; 0; 0; 1; 1; 2; 2")
		same(c, "SELECT id FROM t ORDER BY id DESC, country DESC LIMIT 3", "44; 33; 22")
		same(c, "SELECT n FROM t FORCE INDEX (n) WHERE n BETWEEN 3 AND 11 ORDER BY n", "3; 4; 10; 11")
		same(c, "SELECT n FROM t WHERE country IN ('de', 'jp') AND n > 3 ORDER BY n DESC", "24; 23; 22; 21; 20; 4")
		same(c, "SELECT COUNT(*) FROM t WHERE country > 'F' AND country <= 'US'", "10")
	}
	reads := func(q, want string) {
		t.Helper()
		if got := strings.Split(column(t, cs[0], "EXPLAIN "+q)[0], "|")[3]; got != want {
			t.Errorf("%s reads %s, want %s", q, got, want)
		}
	}
	reads("SELECT * FROM t", "eu,us,NONE")
	reads("SELECT * FROM t WHERE country = 'FR'", "eu")
	reads("SELECT * FROM t WHERE country IN ('US', 'JP')", "us,NONE")
	reads("SELECT * FROM t WHERE n = 3 AND country = 'US'", "us")
	reads("SELECT * FROM t WHERE country < 'FR'", "eu,NONE")
	// A row moves with its country, in one transaction, with its entries.
	mustExec(t, cs[0], "UPDATE t SET country = 'US', v = 'canary-in-us moved' WHERE id = 4 AND country = 'JP'") // no such row
	mustExec(t, cs[0], "INSERT INTO t VALUES (50, 'JP', 'travels', 50)")
	for _, to := range []string{"FR", "US", "JP"} {
		mustExec(t, cs[2], "UPDATE t SET country = '"+to+"' WHERE id = 50")
		same(cs[4], "SELECT country FROM t WHERE n = 50", to)
		same(cs[1], "SELECT COUNT(*) FROM t", "16")
	}
	mustExec(t, cs[3], "CREATE INDEX later ON t (v, n)")
	same(cs[0], "SELECT n FROM t FORCE INDEX (later) WHERE v = 'travels'", "50")
	mustExec(t, cs[3], "DROP INDEX later ON t")
	mustExec(t, cs[3], "ALTER TABLE t ADD COLUMN more INT DEFAULT 7")
	same(cs[1], "SELECT SUM(more) FROM t", "112")
	mustExec(t, cs[3], "ALTER TABLE t RENAME COLUMN country TO land")
	mustExec(t, cs[3], "ALTER TABLE t RENAME COLUMN land TO country")
	mustExec(t, cs[3], "ALTER TABLE t MODIFY country CHAR(2) COMMENT 'where'")
	for _, c := range cs {
		mustExec(t, c, "ANALYZE TABLE t")
	}
	refused(t, cs[0], "ALTER TABLE t DROP COLUMN country", "country")
	refused(t, cs[0], "ALTER TABLE t MODIFY country CHAR(1)", "country")
	refused(t, cs[0], "ALTER TABLE t DROP PRIMARY KEY", "must be part of the primary key")
	refused(t, cs[0], "ALTER TABLE t ADD UNIQUE (n)", "must be part, and whole, of the unique index")
	refused(t, cs[0], "ALTER TABLE t ADD FULLTEXT (v)", "full-text")
	refused(t, cs[0], "CREATE TABLE c (id INT, l CHAR(2), FOREIGN KEY (id, l) REFERENCES t (id, country))", "PLACEMENT BY")
	refused(t, cs[0], "ALTER TABLE t SET LOCALITY GLOBAL", "lie in all regions")
	refused(t, cs[0], "ALTER TABLE t SET LOCALITY REGIONAL BY TABLE", "does not apply")
	refused(t, cs[0], "ALTER TABLE t SET REPLICATION ASYNC", "replicate synchronously")
	refused(t, cs[0], "DROP PLACEMENT eu", "rows of it")
	// Homes stay inside the placement of the row.
	for r, c := range map[int]string{3: "DE", 0: "DE", 1: "US"} {
		refused(t, cs[0], "UPDATE t__homes SET home_region = '"+names[r]+"' WHERE id = 1 AND country = '"+c+"'", "is not in the placement")
	}
	mustExec(t, cs[0], "UPDATE t__homes SET home_region = '"+names[4]+"' WHERE id = 1 AND country = 'US'")
	same(cs[0], "SELECT home_region FROM t__homes WHERE id = 1 AND country = 'US'", names[4])
	same(cs[0], "SELECT COUNT(*) FROM t__homes", "16")
	text, _, _ := strings.Cut(strings.SplitN(column(t, cs[0], "SHOW CREATE TABLE t")[0], "|", 2)[1], "|")
	if want := "/*!99999 PLACEMENT BY (`country`) (('DE', 'FR') IN `eu`, ('US') IN `us`, DEFAULT IN NONE) */"; !strings.HasSuffix(text, want) {
		t.Error(text)
	}
	mustExec(t, cs[0], strings.Replace(text, "`t`", "`t2`", 1))
	mustExec(t, cs[0], "INSERT INTO t2 SELECT * FROM t")
	same(cs[4], "SELECT COUNT(*) FROM t2 WHERE country = 'DE'", "5")
	// What lies where.
	lies := func() {
		t.Helper()
		for i, n := range l.Nodes() {
			for text, in := range rowCanaries {
				if got := storeHas(t, n, text); got != slices.Contains(in, i) {
					t.Errorf("node %d, in %s, has %s: %v", i+1, names[i], text, got)
				}
			}
			r, err := residency.Audit(t.Context(), n.store, n.Cluster().Topology(), n.ident.Node, residency.Request{Belongs: n.belongs})
			if err != nil || len(r.Findings) > 0 {
				t.Errorf("node %d: %v (%v)", i+1, r, err)
			}
		}
	}
	lies()
	alike(t, cs, rand.New(rand.NewPCG(1, 22)), 150, by)
	// Without DEFAULT a value that no entry names is refused.
	mustExec(t, cs[0], "CREATE TABLE s (id INT, country CHAR(2), v INT, PRIMARY KEY (id, country)) "+
		"PLACEMENT BY (country) (('DE') IN eu, ('US') IN us)")
	mustExec(t, cs[0], "INSERT INTO s VALUES (1, 'DE', 1), (1, 'US', 2)")
	refused(t, cs[1], "INSERT INTO s VALUES (2, 'DE', 1), (2, 'JP', 2)", "no placement for value 'JP'")
	refused(t, cs[1], "UPDATE s SET country = 'JP' WHERE id = 1 AND country = 'DE'", "no placement for value 'JP'")
	mustExec(t, cs[1], "INSERT IGNORE INTO s VALUES (3, 'DE', 1), (3, 'JP', 2)")
	same(cs[0], "SELECT CONCAT(id, country) FROM s ORDER BY 1", "1DE; 1US; 3DE")
	same(cs[0], "SELECT id FROM s WHERE id = 3 AND country = 'JP'", "")
	same(cs[0], "SELECT id FROM s WHERE country = 'JP'", "")
	mustExec(t, cs[0], "DELETE FROM s WHERE id = 3 AND country = 'JP'")
	mustExec(t, cs[0], "TRUNCATE TABLE s")
	mustExec(t, cs[0], "INSERT INTO s VALUES (1, 'DE', 1), (1, 'US', 2)")
	same(cs[3], "SELECT SUM(v) FROM s", "3")
	var count []string
	rows, err := cs[0].QueryContext(t.Context(), "SHOW PLACEMENTS")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var p, rs, n, state string
		if err := rows.Scan(&p, &rs, &n, &state, new(any), new(any), new(any)); err != nil {
			t.Fatal(err)
		}
		count = append(count, p+" "+n)
	}
	rows.Close()
	if got := strings.Join(count, ", "); got != "eu 4, us 4" {
		t.Errorf("SHOW PLACEMENTS counts %s", got)
	}
	mustExec(t, cs[0], "CREATE TABLE g (id INT, a INT, b INT, c INT AS (a * 10 + b) STORED, PRIMARY KEY (id, c)) "+
		"PLACEMENT BY (c) ((11, 12) IN eu, (-1) IN us, DEFAULT IN NONE)")
	mustExec(t, cs[0], "INSERT INTO g (id, a, b) VALUES (1, 1, 1), (2, 2, 1)")
	mustExec(t, cs[0], "UPDATE g SET b = 2")
	same(cs[0], "SELECT c FROM g WHERE c IN (11, 12)", "12")
	mustExec(t, cs[0], "CREATE TABLE a (id INT AUTO_INCREMENT, d DATE, n INT, PRIMARY KEY (id, d), KEY (d)) "+
		"PLACEMENT BY (d) (('2020-01-01') IN eu, DEFAULT IN us)")
	for range 3 {
		mustExec(t, cs[0], "INSERT INTO a (d, n) VALUES ('2020-01-01', 1), ('2021-01-01', 2)")
	}
	same(cs[0], "SELECT COUNT(DISTINCT id) FROM a", "6")
	same(cs[0], "SELECT SUM(n) FROM a WHERE d < '2020-06-01'", "3")
	mustExec(t, cs[0], "CREATE TABLE w (id INT, country CHAR(2), v INT, PRIMARY KEY (id, country), KEY (v))")
	mustExec(t, cs[0], "INSERT INTO w VALUES (1, 'DE', 1), (1, 'US', 2), (2, 'JP', 4)")
	mustExec(t, cs[0], "CREATE TABLE k (country CHAR(2), id INT PRIMARY KEY)")
	refused(t, cs[0], "ALTER TABLE k SET "+by, "must be part of the primary key")
	refused(t, cs[0], "ALTER TABLE w SET PLACEMENT BY (v) ((1) IN eu)", "must be part of the primary key")
	refused(t, cs[0], "ALTER TABLE w SET PLACEMENT BY (country) (('DE') IN eu, ('US') IN us)", "no placement for value 'JP'")
	same(cs[3], "SELECT SUM(v) FROM w", "7")
	for _, as := range []string{by, "PLACEMENT BY (country) (('US') IN eu, DEFAULT IN us)", "PLACEMENT us", "PLACEMENT NONE"} {
		mustExec(t, cs[0], "ALTER TABLE w SET "+as)
		same(cs[3], "SELECT SUM(v) FROM w", "7")
		same(cs[1], "SELECT country FROM w FORCE INDEX (v) WHERE v IN (1, 4) ORDER BY v", "DE; JP")
		mustExec(t, cs[2], "UPDATE w SET v = v WHERE id = 1")
	}
	mustExec(t, cs[0], "ALTER TABLE s SET PLACEMENT eu")
	same(cs[0], "SELECT SUM(v) FROM s", "3")
	mustExec(t, cs[0], "DROP DATABASE d")
	mustExec(t, cs[0], "DROP PLACEMENT eu")
}

// refusedRules: what PLACEMENT BY cannot say.
func refusedRules(t *testing.T, c *sql.Conn) {
	t.Helper()
	for rule, why := range map[string]string{
		"(land) (('DE') IN eu)":                               "no column land",
		"(country) (('DE') IN asia)":                          "there is no placement asia",
		"(country) (('DE') IN eu, ('de') IN us)":              "twice",
		"(country) (('DEU') IN eu)":                           "cannot have the value 'DEU'",
		"(country) (DEFAULT IN eu, DEFAULT IN us)":            "DEFAULT twice",
		"(country) ((NULL) IN eu)":                            "never NULL",
		"(country, id) (('DE') IN eu)":                        "one column",
		"(country) (('DE') eu)":                               "IN and the name of a placement",
		"(country) ((1.5) IN eu)":                             "a value",
		"(id) (('x') IN eu)":                                  "cannot have the value 'x'",
		"(n) ((1) IN eu)":                                     "must be part of the primary key",
		"(d) (('2020-01-01') IN eu)":                          "must be part of the primary key",
		"(f) ((1) IN eu)":                                     "must be part of the primary key",
		"(country) (('DE') IN eu) LOCALITY GLOBAL":            "lie in all regions",
		"(country) (('DE') IN eu) REPLICATION ASYNC":          "replicate synchronously",
		"(country) (('DE') IN eu) LOCALITY REGIONAL BY TABLE": "does not apply",
		"(country) (('D*/') IN eu)":                           "*/",
	} {
		refused(t, c, "CREATE TABLE x (id INT, country CHAR(2), n INT, d DATE, f FLOAT, PRIMARY KEY (id, country)) PLACEMENT BY "+rule, why)
	}
	refused(t, c, "CREATE TABLE x (country CHAR(2)) PLACEMENT BY (country) (('DE') IN eu)", "must be part of the primary key")
	refused(t, c, "CREATE TEMPORARY TABLE x (country CHAR(2) PRIMARY KEY) PLACEMENT BY (country) (('DE') IN eu)", "temporary")
}

// alike: the same statements at a table with PLACEMENT BY and at one without it have the same
// answers.
func alike(t *testing.T, cs []*sql.Conn, rnd *rand.Rand, steps int, by string) {
	t.Helper()
	const cols = " (id INT, country CHAR(2), v VARCHAR(40), n INT, PRIMARY KEY (id, country), UNIQUE KEY v (v, country), KEY n (n), " +
		"KEY c (country, n)) "
	mustExec(t, cs[0], "CREATE TABLE one"+cols)
	mustExec(t, cs[0], "CREATE TABLE two"+cols+by)
	countries := []string{"DE", "FR", "us", "US", "JP", "", "fr "}
	country := func() string { return "'" + countries[rnd.IntN(len(countries))] + "'" }
	value := func(c string) string {
		return fmt.Sprintf("'%s %d'", strings.Trim(c, "'"), rnd.IntN(8))
	}
	row := func() string {
		c := country()
		return fmt.Sprintf("(%d, %s, %s, %d)", rnd.IntN(12), c, value(c), rnd.IntN(20))
	}
	cond := func() string {
		return []func() string{
			func() string { return "country = " + country() },
			func() string { return fmt.Sprintf("id = %d AND country = %s", rnd.IntN(12), country()) },
			func() string { return fmt.Sprintf("id = %d", rnd.IntN(12)) },
			func() string {
				return fmt.Sprintf("n > %d AND country IN (%s, %s)", rnd.IntN(20), country(), country())
			},
			func() string { return fmt.Sprintf("n BETWEEN %d AND 15", rnd.IntN(20)) },
			func() string { return "country > " + country() },
			func() string { return "country <= " + country() + " AND id < 6" },
			func() string { return fmt.Sprintf("(id, country) IN ((1, %s), (2, %s))", country(), country()) },
			func() string { return "v = " + value(country()) },
			func() string { return "country <> " + country() },
			func() string { return "v = " + value(country()) + " AND country = " + country() },
			func() string { return "1 = 1" },
		}[rnd.IntN(12)]()
	}
	order := func() string {
		return []string{"id, country", "n, id, country", "country DESC, id DESC", "id DESC, country DESC", "country, n, id"}[rnd.IntN(5)]
	}
	statement := func() string {
		switch rnd.IntN(14) {
		case 0, 1:
			return "INSERT INTO @ VALUES " + row() + ", " + row()
		case 2:
			return "REPLACE INTO @ VALUES " + row() + ", " + row()
		case 3:
			return "INSERT IGNORE INTO @ VALUES " + row() + ", " + row() + ", " + row()
		case 4:
			return "INSERT INTO @ VALUES " + row() + " ON DUPLICATE KEY UPDATE n = n + 1"
		case 5:
			return fmt.Sprintf("UPDATE @ SET n = n + %d WHERE %s", rnd.IntN(3), cond())
		case 6:
			c := country()
			return fmt.Sprintf("UPDATE @ SET country = %s, v = %s WHERE id = %d AND country = %s", c, value(c), rnd.IntN(12), country())
		case 7:
			return "DELETE FROM @ WHERE " + cond() + " ORDER BY " + order() + " LIMIT 2"
		case 8:
			return "SELECT a.id, a.country, b.n FROM @ a JOIN @ b ON a.id = b.n AND a.country = b.country ORDER BY 1, 2, 3, b.id, b.country"
		case 9:
			return "SELECT UPPER(country), COUNT(*), SUM(n) FROM @ WHERE " + cond() + " GROUP BY country ORDER BY country"
		}
		return fmt.Sprintf("SELECT * FROM @ WHERE %s ORDER BY %s LIMIT %d", cond(), order(), 1+rnd.IntN(30))
	}
	for range steps {
		q, c := statement(), cs[rnd.IntN(len(cs))]
		a, b := says(t, c, strings.ReplaceAll(q, "@", "one")), says(t, c, strings.ReplaceAll(q, "@", "two"))
		if a != b {
			t.Fatalf("%s: %s, with PLACEMENT BY %s; then it holds\n%s\n%s", q, a, b,
				column(t, c, "SELECT * FROM one ORDER BY id, country"), column(t, c, "SELECT * FROM two ORDER BY id, country"))
		}
		a, b = says(t, c, "SELECT * FROM one ORDER BY id, country"), says(t, c, "SELECT * FROM two ORDER BY id, country")
		if a != b {
			t.Fatalf("after %s the table holds %s, with PLACEMENT BY %s", q, a, b)
		}
	}
}

// says is what a statement answers: rows, how many it changed, or the number of its error.
func says(t *testing.T, c *sql.Conn, q string) string {
	t.Helper()
	var me *mysql.MySQLError
	if strings.HasPrefix(q, "SELECT") {
		return strings.Join(column(t, c, q), "; ")
	}
	res, err := c.ExecContext(t.Context(), q)
	if errors.As(err, &me) {
		return fmt.Sprint("error ", me.Number)
	}
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	n, _ := res.RowsAffected()
	return fmt.Sprint(n, " rows")
}
