package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// mariaReplica is a MariaDB server that follows a gateway.
type mariaReplica struct {
	t  *testing.T
	db *sql.DB
}

// follow begins to follow a node behind a position.
func (m *mariaReplica) follow(n *node, file, pos string) {
	m.t.Helper()
	_, number, _ := net.SplitHostPort(n.sql)
	exec1(m.t, m.db, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %s, MASTER_USER = 'repl', MASTER_PASSWORD = 'p', "+
		"MASTER_LOG_FILE = '%s', MASTER_LOG_POS = %s, MASTER_USE_GTID = no, MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 3", number, file, pos))
	exec1(m.t, m.db, "START SLAVE")
}

// status is what SHOW SLAVE STATUS says.
func (m *mariaReplica) status() map[string]string {
	m.t.Helper()
	return statusOf(m.t, m.db, "SHOW SLAVE STATUS")
}

// statusOf is the first row that a server shows, by the names of its columns.
func statusOf(t *testing.T, db *sql.DB, query string) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil || !rows.Next() {
		t.Fatalf("%s: it is no replica: %v", query, err)
	}
	vals, to, out := make([]sql.NullString, len(cols)), make([]any, len(cols)), map[string]string{}
	for i := range vals {
		to[i] = &vals[i]
	}
	if err := rows.Scan(to...); err != nil {
		t.Fatal(err)
	}
	for i, c := range cols {
		out[c] = vals[i].String
	}
	return out
}

// await waits until a mark that is written now has arrived.
func (m *mariaReplica) await(source *sql.DB, mark int) {
	m.t.Helper()
	exec1(m.t, source, "INSERT INTO follow.marks VALUES (?)", mark)
	begin := time.Now()
	for {
		var n int
		if err := m.db.QueryRow("SELECT COUNT(*) FROM follow.marks WHERE id = ?", mark).Scan(&n); err == nil && n == 1 {
			m.t.Logf("mark %d arrived after %s", mark, time.Since(begin).Round(time.Millisecond))
			return
		}
		s := m.status()
		if stopped := s["Slave_SQL_Running"] != "Yes" || s["Slave_IO_Running"] == "No"; stopped || time.Since(begin) > 2*patience {
			m.t.Fatalf("the replica has not got mark %d: %s %s; %s %s", mark, s["Last_IO_Error"], s["Last_SQL_Error"], s["Relay_Master_Log_File"], s["Exec_Master_Log_Pos"])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// rowsOf are the rows of a table, in the order of their texts.
func rowsOf(t *testing.T, db *sql.DB, table string) (out []string) {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "SET time_zone = '+00:00'"); err != nil {
		t.Fatal(err)
	}
	rows, err := c.QueryContext(t.Context(), "SELECT * FROM "+table)
	if err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	defer rows.Close()
	cols, _ := rows.Columns()
	for rows.Next() {
		vals, to := make([]sql.NullString, len(cols)), make([]any, len(cols))
		for i := range vals {
			to[i] = &vals[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		line := ""
		for i, v := range vals {
			line += fmt.Sprintf("%s=%v:%q ", cols[i], v.Valid, v.String)
		}
		out = append(out, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// compare demands that the tables and views of a database are the same, with their rows.
func (m *mariaReplica) compare(source *sql.DB, database string) {
	m.t.Helper()
	names := func(db *sql.DB) (out []string) {
		rows, err := db.Query("SELECT table_name FROM information_schema.tables WHERE table_schema = ? ORDER BY 1", database)
		if err != nil {
			m.t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				m.t.Fatal(err)
			}
			out = append(out, s)
		}
		return out
	}
	want, got := names(source), names(m.db)
	if slices.Sort(want); !slices.Equal(want, slices.Sorted(slices.Values(got))) {
		m.t.Fatalf("the replica has %v, want %v", got, want)
	}
	total := 0
	for _, n := range want {
		w, g := rowsOf(m.t, source, database+"."+n), rowsOf(m.t, m.db, database+"."+n)
		total += len(w)
		if len(w) != len(g) {
			m.t.Errorf("%s: %d rows, want %d", n, len(g), len(w))
		}
		shown := 0
		for i := range min(len(w), len(g)) {
			if w[i] != g[i] && shown < 3 {
				shown++
				m.t.Errorf("%s:\nhas  %s\nwant %s", n, g[i], w[i])
			}
		}
	}
	m.t.Logf("%s: %d tables and views compared, with %d rows", database, len(want), total)
}

// followSchema has all types that MariaDB has, too.
var followSchema = []string{
	"CREATE DATABASE follow",
	"CREATE TABLE follow.marks (id INT PRIMARY KEY)",
	"CREATE TABLE follow.customers (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, mail VARCHAR(120), born DATE, " +
		"created TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE (mail))",
	"CREATE TABLE follow.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, cust INT UNSIGNED NOT NULL, total DECIMAL(20,6), note TEXT, at DATETIME(3), " +
		"FOREIGN KEY (cust) REFERENCES follow.customers (id) ON DELETE CASCADE ON UPDATE CASCADE, INDEX (at))",
	"CREATE TABLE follow.kinds (id INT PRIMARY KEY AUTO_INCREMENT, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT UNSIGNED, e BIGINT UNSIGNED, " +
		"f FLOAT, g DOUBLE, h DECIMAL(30,10), i DATE, j TIME(3), k DATETIME(6), l TIMESTAMP(6) NULL, m YEAR, n CHAR(10), o VARCHAR(300), " +
		"p BINARY(5), q VARBINARY(300), r TINYBLOB, s LONGBLOB, u MEDIUMTEXT, v ENUM('x','y z','é'), w SET('a','b','c'), y BIT(11), x JSON, " +
		"z INT GENERATED ALWAYS AS (a * 2) STORED, zz INT GENERATED ALWAYS AS (a * 3) VIRTUAL, la VARCHAR(20) CHARACTER SET latin1)",
	"CREATE TABLE follow.keyless (a INT, b VARCHAR(20), c DOUBLE)",
	"CREATE TABLE follow.uniques (id INT PRIMARY KEY, u INT, UNIQUE (u))",
	"INSERT INTO follow.uniques VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
	`INSERT INTO follow.kinds (a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,u,v,w,y,x,la) VALUES
	(-128,65535,-8388608,4294967295,18446744073709551615,3.5,2.718281828459045,-12345678901234567890.0123456789,'9999-12-31','-838:59:59',
	 '2026-02-03 04:05:06.123456','2026-02-03 04:05:06.654321',2155,'ab','long \\ \' " \0 x','ab','\0\1\2','t','blob\0','é text','é','a,c',b'10101010101','{"a": [1, "é", null]}','é'),
	(NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL),
	(0,0,0,0,0,-0.0,1e-300,0,'1000-01-01','00:00:00','1000-01-01',NULL,0,'','','','','','','','x','',0,'[]','')`,
}

// followStatements are what clients do at random.
var followStatements = []func(rng *rand.Rand) string{
	func(rng *rand.Rand) string {
		return fmt.Sprintf("INSERT INTO follow.customers (name, mail) VALUES ('n%d', UUID())", rng.IntN(1000))
	},
	func(rng *rand.Rand) string {
		return fmt.Sprintf("INSERT INTO follow.orders (cust, total, at) SELECT id, %d / 7, NOW(3) FROM follow.customers ORDER BY RAND() LIMIT %d", rng.IntN(1e6), 1+rng.IntN(20))
	},
	func(*rand.Rand) string {
		return "UPDATE follow.orders SET total = total + 0.000001, note = CONCAT('é', total) ORDER BY RAND() LIMIT 5"
	},
	func(*rand.Rand) string { return "UPDATE follow.customers SET id = id + 1000 ORDER BY RAND() LIMIT 1" }, // cascades
	func(*rand.Rand) string { return "DELETE FROM follow.customers ORDER BY RAND() LIMIT 1" },               // cascades
	func(rng *rand.Rand) string {
		return fmt.Sprintf("INSERT INTO follow.kinds (a, f, g, h, j, k, l, n, o, q, u, v, w, y, x) VALUES (1, %d / 4, RAND(), RAND() * 1e9, '-11:12:13.5', NOW(6), NOW(6), "+
			"'né', 'o\\\\o', '\\0x', 'ü', 'y z', 'b,c', b'111', JSON_OBJECT('r', %d))", rng.IntN(100), rng.IntN(100))
	},
	func(*rand.Rand) string {
		return "UPDATE follow.kinds SET h = h / 3, a = 7, m = 1999, s = RANDOM_BYTES(30) ORDER BY RAND() LIMIT 2"
	},
	func(rng *rand.Rand) string {
		return fmt.Sprintf("INSERT INTO follow.keyless VALUES (%d, 'k', %d)", rng.IntN(5), rng.IntN(3))
	},
	func(*rand.Rand) string { return "UPDATE follow.keyless SET b = CONCAT('x', a) ORDER BY RAND() LIMIT 1" },
	func(*rand.Rand) string { return "DELETE FROM follow.keyless ORDER BY RAND() LIMIT 1" },
	func(rng *rand.Rand) string {
		return fmt.Sprintf("REPLACE INTO follow.uniques VALUES (%d, %d)", rng.IntN(50), rng.IntN(50))
	},
	func(rng *rand.Rand) string {
		return fmt.Sprintf("UPDATE follow.orders__homes SET home_region = 'region-%c' WHERE id %% 7 = %d", 'a'+rng.IntN(3), rng.IntN(7))
	},
	func(rng *rand.Rand) string {
		return fmt.Sprintf("UPDATE follow.keyless__homes SET home_region = 'region-%c'", 'a'+rng.IntN(3))
	},
}

// followDefinitions are executed once each, in this order.
var followDefinitions = []string{
	"ALTER TABLE follow.orders ADD COLUMN extra VARCHAR(10) DEFAULT 'e' AFTER cust, ADD INDEX (total)",
	"CREATE TABLE follow.copied AS SELECT id, total FROM follow.orders LIMIT 10",
	"CREATE TABLE follow.t3 (a INT PRIMARY KEY, n INT)", "INSERT INTO follow.t3 VALUES (1, 1), (2, 2)", "RENAME TABLE follow.t3 TO follow.t4",
	"ALTER TABLE follow.t4 ADD COLUMN id2 CHAR(36) DEFAULT (UUID()), DROP COLUMN n",
	"ALTER TABLE follow.orders SET LOCALITY REGIONAL BY TABLE IN 'region-b'",
	"CREATE VIEW follow.spent AS SELECT cust, SUM(total) AS s FROM follow.orders GROUP BY cust",
	"CREATE VIEW follow.named (x, y) AS SELECT a, COUNT(*) FROM follow.keyless GROUP BY a",
	"ALTER TABLE follow.keyless MODIFY COLUMN a BIGINT, ADD COLUMN d INT NOT NULL DEFAULT 4",
	"CREATE TABLE follow.gone (a INT)", "INSERT INTO follow.gone VALUES (1)", "TRUNCATE TABLE follow.gone", "DROP TABLE follow.gone",
	"ALTER TABLE follow.uniques RENAME COLUMN u TO uu, ADD COLUMN u INT",
	"TRUNCATE TABLE follow.copied", "INSERT INTO follow.copied VALUES (7, 8)",
	"ALTER TABLE follow.orders DROP COLUMN extra, RENAME INDEX total TO by_total",
	"ALTER TABLE follow.copied ADD PRIMARY KEY (id)",
	"RENAME TABLE follow.copied TO follow.between, follow.t4 TO follow.copied, follow.between TO follow.t4",
}

// TestReplica: a MariaDB follows through random statements, new definitions and moves of rows,
// while the gateway that it reads from is killed, twice, and then from another one. Nothing is
// missing, and nothing comes twice.
func TestReplica(t *testing.T) {
	needTime(t)
	m := &mariaReplica{t: t, db: client(startMaria(t).addr, "")}
	t.Cleanup(func() { m.db.Close() })
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	source := c.nodes[0].open(t, "")
	exec1(t, source, "CREATE USER 'repl'@'%' IDENTIFIED WITH mysql_native_password BY 'p'")
	exec1(t, source, "GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%'")
	var file, pos, do, ignore, set string
	if err := source.QueryRow("SHOW MASTER STATUS").Scan(&file, &pos, &do, &ignore, &set); err != nil {
		t.Fatal(err)
	}
	m.follow(c.nodes[2], file, pos)
	for _, q := range followSchema {
		exec1(t, source, q)
	}
	m.await(source, 1)
	source = c.nodes[0].open(t, "follow")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	done, failed, why := 0, 0, map[string]int{}
	for i, n := range c.nodes[:2] {
		db := n.open(t, "")
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			for ctx.Err() == nil {
				_, err := db.ExecContext(ctx, followStatements[rng.IntN(len(followStatements))](rng))
				mu.Lock()
				if done++; err != nil && ctx.Err() == nil {
					failed++
					why[err.Error()[:min(90, len(err.Error()))]]++
				}
				mu.Unlock()
			}
		})
	}
	define := func(qs []string) {
		for _, q := range qs {
			if !executed(t, source, q) {
				return
			}
		}
	}
	third := len(followDefinitions) / 3
	for i := range 2 {
		define(followDefinitions[i*third : (i+1)*third])
		m.await(source, 10+i)
		c.nodes[2].kill()
		time.Sleep(time.Second) // statements that the replica has to catch up with
		c.nodes[2].start(t)
		c.nodes[2].awaitSQL(t)
		m.await(source, 20+i)
	}
	exec1(t, m.db, "STOP SLAVE")
	define(followDefinitions[2*third:])
	s := m.status()
	m.follow(c.nodes[1], s["Relay_Master_Log_File"], s["Exec_Master_Log_Pos"])
	m.await(source, 30)
	stop()
	wg.Wait()
	t.Logf("%d statements, of which %d failed: %v", done, failed, why)
	if done-failed < 100 {
		t.Errorf("only %d statements succeeded", done-failed)
	}
	m.await(source, 40)
	m.compare(source, "follow")
}

// executed executes a statement, again if it may be, since nodes come and go.
func executed(t *testing.T, db *sql.DB, q string) bool {
	t.Helper()
	var err error
	for range 20 {
		if _, err = db.ExecContext(t.Context(), q); err == nil {
			return true
		}
		if s := err.Error(); strings.Contains(s, "exists") || strings.Contains(s, "Unknown") || strings.Contains(s, "syntax") {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("%s: %v", q, err)
	return false
}
