package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/cmd/migrate"
)

// logWriter passes an import's lines to the test's log, and tells when it begins to follow.
type logWriter struct {
	t       testing.TB
	follows func()
}

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(b), "\n"))
	if w.follows != nil && strings.HasPrefix(string(b), "following") {
		w.follows()
	}
	return len(b), nil
}

// imports runs an import as the command does.
func imports(ctx context.Context, t *testing.T, from, to string, o migrate.Options) (*migrate.Report, error) {
	t.Helper()
	var err error
	if o.From, err = migrate.ParseAddress(from); err != nil {
		t.Fatal(err)
	}
	if o.To, err = migrate.ParseAddress(to); err != nil {
		t.Fatal(err)
	}
	o.Threads = 3
	if o.Log == nil {
		o.Log = logWriter{t: t}
	}
	return migrate.Run(ctx, o)
}

// sourceSchema has what a source may have: values of all types, a foreign key that cascades, a
// table without a key, and one object of each kind.
const sourceSchema = `
CREATE TABLE customers (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, mail VARCHAR(120), born DATE,
	created TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE (mail));
CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, cust INT UNSIGNED NOT NULL, total DECIMAL(20,6), note TEXT, at DATETIME(3),
	FOREIGN KEY (cust) REFERENCES customers (id) ON DELETE CASCADE ON UPDATE CASCADE, INDEX (at));
CREATE TABLE kinds (id INT PRIMARY KEY AUTO_INCREMENT, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT UNSIGNED, e BIGINT UNSIGNED,
	f FLOAT, g DOUBLE, h DECIMAL(30,10), i DATE, j TIME(3), k DATETIME(6), l TIMESTAMP(6) NULL, m YEAR, n CHAR(10), o VARCHAR(300),
	p BINARY(5), q VARBINARY(300), r TINYBLOB, s LONGBLOB, u MEDIUMTEXT, v ENUM('x','y z','é'), w SET('a','b','c'), y BIT(11),
	z INT GENERATED ALWAYS AS (a * 2) STORED);
CREATE TABLE keyless (a INT, b VARCHAR(20), c DOUBLE);
INSERT INTO customers (name, mail, born) VALUES ('Ann', 'ann@ex.com', '1970-01-02'), ('Bé', 'b\'é@ex.com', NULL), ('C\\D\n', 'c"d', '2000-02-29');
INSERT INTO orders (cust, total, note, at) VALUES (1, 1.5, NULL, '2026-01-01 00:00:00.125'), (2, -2, 'n', NULL), (3, 0, '', '1000-01-01');
INSERT INTO kinds (a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,u,v,w,y) VALUES
	(-128,65535,-8388608,4294967295,18446744073709551615,3.1415927,2.718281828459045,-12345678901234567890.0123456789,'9999-12-31','-838:59:59',
	 '2026-02-03 04:05:06.123456','2026-02-03 04:05:06.654321',2155,'ab','long \\ \' " \0 x','ab','\0\1\2','t','blob\0','é text','é','a,c',b'10101010101'),
	(NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL),
	(0,0,0,0,0,-0.0,1e-300,0,'1000-01-01','00:00:00','1000-01-01',NULL,0,'','','','','','','','x','',0);
INSERT INTO keyless VALUES (1, 'a', 1.5), (1, 'a', 1.5), (NULL, NULL, NULL);
CREATE VIEW second AS SELECT * FROM spent WHERE s > 0;
CREATE FUNCTION tax(x DECIMAL(20,6)) RETURNS DECIMAL(20,6) DETERMINISTIC RETURN x * 1.2;
CREATE PROCEDURE add_customer(n VARCHAR(80)) INSERT INTO customers (name, mail) VALUES (n, CONCAT(n, '@p'));
CREATE TRIGGER noted BEFORE INSERT ON orders FOR EACH ROW SET NEW.note = COALESCE(NEW.note, 'none');
CREATE EVENT cleaning ON SCHEDULE EVERY 1 DAY DO DELETE FROM keyless WHERE a = 99;
`

// sourceTables are the tables of sourceSchema.
var sourceTables = []string{"customers", "orders", "kinds", "keyless"}

// fillSource makes the database shop. The view that another one reads sorts behind it.
func fillSource(t *testing.T, db *sql.DB) {
	t.Helper()
	exec1(t, db, "CREATE DATABASE shop")
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	schema := strings.Replace(sourceSchema, "CREATE VIEW second", "CREATE VIEW spent AS SELECT c.name, SUM(o.total) s FROM customers c JOIN orders o "+
		"ON o.cust = c.id GROUP BY c.name;\nCREATE VIEW second", 1)
	for _, q := range append([]string{"USE shop"}, strings.Split(strings.TrimSpace(schema), ";\n")...) {
		if _, err := c.ExecContext(t.Context(), strings.TrimSuffix(q, ";")); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// checkImport demands that all tables were compared and are equal, and how many objects are left.
func checkImport(t *testing.T, r *migrate.Report, left int, tables ...string) {
	t.Helper()
	said := map[string]string{}
	for _, c := range r.Tables {
		said[c.Table] = c.Check
	}
	for _, n := range tables {
		if !strings.HasPrefix(said["shop."+n], "equal") {
			t.Errorf("shop.%s: %q", n, said["shop."+n])
		}
	}
	if len(r.Left) != left {
		t.Errorf("not imported: %v, and %d objects cannot be", r.Left, left)
	}
}

// TestImportFromGodwit: one cluster's databases are copied into another one. A cluster's writers
// cannot be held up for a snapshot, so that it cannot be followed.
func TestImportFromGodwit(t *testing.T) {
	source := startCluster(t, t.TempDir(), 1, 1)
	t.Cleanup(source.kill)
	target := startCluster(t, t.TempDir(), 1, 1)
	t.Cleanup(target.kill)
	fillSource(t, source.nodes[0].open(t, ""))
	from, to := source.nodes[0].url("shop"), "mysql://root@"+target.nodes[0].sql

	r, err := imports(t.Context(), t, from, to, migrate.Options{DryRun: true})
	if err != nil || len(r.Left) > 0 {
		t.Fatalf("dry run: %v, %v", r.Left, err)
	}
	db := target.nodes[0].open(t, "")
	var n int
	if scan1(t, db, &n, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'"); n != 0 {
		t.Errorf("a dry run left %d tables", n)
	}
	if _, err := imports(t.Context(), t, from, to, migrate.Options{Follow: true}); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("a cluster was followed: %v", err)
	}
	r, err = imports(t.Context(), t, from, to, migrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkImport(t, r, 0, sourceTables...)
	exec1(t, db, "USE shop")
	for q, want := range map[string]string{
		"SELECT shop.tax(10)": "12.000000",
		"SELECT GROUP_CONCAT(name ORDER BY name) FROM shop.second":                                    "Ann",
		"SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = 'shop'":              "1",
		"SELECT COUNT(*) FROM information_schema.events WHERE event_schema = 'shop'":                  "1",
		"SELECT COUNT(*) FROM information_schema.referential_constraints WHERE table_name = 'orders'": "1",
	} {
		var got string
		if scan1(t, db, &got, q); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
	if _, err := imports(t.Context(), t, from, to, migrate.Options{}); err == nil || !strings.Contains(err.Error(), "imported already") {
		t.Errorf("a second import: %v", err)
	}
	exec1(t, db, "INSERT INTO shop.keyless VALUES (7, 'mine', 0)")
	if r, err = imports(t.Context(), t, from, to, migrate.Options{Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	checkImport(t, r, 0, sourceTables...)
}

// maria is a MariaDB server of its own.
type maria struct {
	addr string
	args []string
	cmd  *exec.Cmd
	log  *os.File
}

// startMaria starts MariaDB with a binary log, for as long as the test runs. Options are for its
// command line.
func startMaria(t *testing.T, options ...string) *maria {
	t.Helper()
	install := tool(t, "mariadb-install-db")
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if out, err := exec.Command(install, "--no-defaults", "--user="+who.Username, "--datadir="+data,
		"--auth-root-authentication-method=normal").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := &maria{addr: port(t)}
	_, number, _ := net.SplitHostPort(m.addr)
	if m.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	m.args = append([]string{"--no-defaults", "--user=" + who.Username, "--datadir=" + data, "--port=" + number, "--bind-address=127.0.0.1",
		"--socket=" + filepath.Join(dir, "s"), "--log-bin=bin", "--server-id=7", "--binlog-format=ROW", "--max-binlog-size=200000",
		"--character-set-server=utf8mb4"}, options...)
	m.start(t)
	t.Cleanup(func() {
		_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = m.cmd.Wait()
		m.log.Close()
	})
	return m
}

// start starts the server, with the data that it has, and waits until it answers.
func (m *maria) start(t *testing.T) {
	t.Helper()
	m.cmd = exec.Command(tool(t, "mariadbd"), m.args...)
	m.cmd.Stderr = m.log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	db := client(m.addr, "")
	defer db.Close()
	for deadline := time.Now().Add(patience); db.Ping() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("MariaDB does not come up")
		}
	}
}

// hold lets the server stand still for a time.
func (m *maria) hold(t *testing.T, d time.Duration) {
	t.Helper()
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := m.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if s == syscall.SIGSTOP {
			time.Sleep(d)
		}
	}
}

// shopClient changes the source's tables until it may not any more. It also changes their
// definitions, once each.
func shopClient(ctx context.Context, db *sql.DB, seed uint64) (done int, err error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	statements := []func() string{
		func() string {
			return fmt.Sprintf("INSERT INTO customers (name, mail) VALUES ('n%d', UUID())", rng.IntN(1000))
		},
		func() string {
			return fmt.Sprintf("INSERT INTO orders (cust, total, at) SELECT id, %d / 7, NOW(3) FROM customers ORDER BY RAND() LIMIT %d", rng.IntN(1e6), 1+rng.IntN(20))
		},
		func() string {
			return "UPDATE orders SET total = total + 0.000001, note = CONCAT('é', total) ORDER BY RAND() LIMIT 5"
		},
		func() string { return "UPDATE IGNORE customers SET id = id + 1000 ORDER BY RAND() LIMIT 1" }, // cascades
		func() string { return "DELETE FROM customers WHERE id > 3 ORDER BY RAND() LIMIT 1" },         // cascades
		func() string {
			return "INSERT INTO kinds (a, f, g, h, j, k, l, n, o, q, u, v, w, y) VALUES (1, RAND(), RAND(), RAND() * 1e9, '-11:12:13.5', NOW(6), NOW(6), 'né', 'o\\\\o', '\\0x', 'ü', 'y z', 'b,c', b'111')"
		},
		func() string {
			return "UPDATE kinds SET h = h / 3, f = f / 3, m = 1999, s = RANDOM_BYTES(30) ORDER BY RAND() LIMIT 2"
		},
		func() string { return "DELETE FROM kinds WHERE id > 3 ORDER BY RAND() LIMIT 1" },
		func() string { return fmt.Sprintf("INSERT INTO keyless VALUES (%d, 'k', RAND())", rng.IntN(5)) },
		func() string { return "UPDATE keyless SET b = CONCAT('x', a) ORDER BY RAND() LIMIT 1" },
		func() string { return "DELETE FROM keyless ORDER BY RAND() LIMIT 1" },
		func() string { return "CALL add_customer(UUID())" },
		func() string { return "INSERT INTO odd (a) VALUES (1)" },
	}
	definitions := []string{
		"ALTER TABLE orders ADD COLUMN extra VARCHAR(10) DEFAULT 'e' AFTER cust, ADD INDEX (total)",
		"CREATE TABLE copied AS SELECT id, total FROM orders LIMIT 10",
		"CREATE TABLE t3 (a INT PRIMARY KEY)", "INSERT INTO t3 VALUES (1), (2)", "RENAME TABLE t3 TO t4",
		"CREATE INDEX by_name ON customers (name)", "TRUNCATE TABLE keyless", "ALTER TABLE keyless MODIFY b VARCHAR(40)",
		"CREATE VIEW third AS SELECT a FROM t4",
	}
	pace := time.NewTicker(25 * time.Millisecond) // a source that its replica can follow
	defer pace.Stop()
	for ; ctx.Err() == nil; done++ {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return done, nil
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return done, err
		}
		for range 1 + rng.IntN(4) {
			if _, err = tx.ExecContext(ctx, statements[rng.IntN(len(statements))]()); err != nil {
				break
			}
		}
		if err == nil && rng.IntN(10) > 0 {
			err = tx.Commit()
		} else {
			_ = tx.Rollback() // as the client wants, or after an error
		}
		if err == nil && seed == 0 && done%20 == 19 && len(definitions) > 0 {
			_, err = db.ExecContext(ctx, definitions[0])
			definitions = definitions[1:]
		}
		var e *mysql.MySQLError
		switch {
		case errors.As(err, &e) && e.Number == 1290: // it is read only
			if len(definitions) > 0 && seed == 0 {
				return done, fmt.Errorf("%d definitions were not made", len(definitions))
			}
			return done, nil
		case errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205 || e.Number == 1062 || e.Number == 1020):
		case err != nil && ctx.Err() == nil:
			return done, err
		}
	}
	return done, nil
}

// TestImportFollows: a MariaDB server that is written to is copied, followed over interruptions and
// the death of the node, and cut over. The tables of both are equal then.
func TestImportFollows(t *testing.T) {
	if os.Getenv("GODWIT_LONG") == "" {
		t.Skip("it takes a minute or more: GODWIT_LONG=1, as make e2e sets")
	}
	m := startMaria(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	admin := client(m.addr, "")
	defer admin.Close()
	fillSource(t, admin)
	// A table that Godwit refuses: it is left out, and what changes in it is not followed.
	exec1(t, admin, "CREATE TABLE shop.odd (a INT, b INT GENERATED ALWAYS AS (a + 1) VIRTUAL, CHECK (a > 0))")
	exec1(t, admin, "CREATE USER w@localhost")
	exec1(t, admin, "GRANT ALL ON shop.* TO w@localhost")
	from, to := "mysql://root@"+m.addr+"/shop", "mysql://root@"+c.nodes[0].sql

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	total := make([]int, 2)
	for i := range total {
		cfg := mysql.NewConfig()
		cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "w", "tcp", m.addr, "shop"
		conn, err := mysql.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(conn)
		defer db.Close()
		clients.Add(1)
		go func() {
			defer clients.Done()
			var err error
			if total[i], err = shopClient(ctx, db, uint64(i)); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		}()
	}
	// The copy, and two stretches of following; each is interrupted, and in one the node dies.
	for i := range 3 {
		part, cancel := context.WithCancel(ctx)
		log := logWriter{t, func() {
			time.AfterFunc(6*time.Second, cancel)
			if i == 1 {
				time.AfterFunc(2*time.Second, func() { c.nodes[0].kill(); c.nodes[0].start(t) })
			}
		}}
		r, err := imports(part, t, from, to, migrate.Options{Follow: true, SkipFailed: true, Log: log})
		if err == nil || part.Err() == nil {
			t.Fatalf("following ended by itself: %v, %v", err, r)
		}
		t.Logf("%d transactions applied until %v", r.Applied, err)
		cancel()
	}
	c.nodes[0].awaitSQL(t)
	r, err := imports(ctx, t, from, to, migrate.Options{CutOver: true, SkipFailed: true})
	clients.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v transactions of clients; read only for %s", total, r.ReadOnly)
	checkImport(t, r, 1, append(sourceTables, "copied", "t4")...)
	var n int
	if scan1(t, c.nodes[1].open(t, "shop"), &n, "SELECT COUNT(*) FROM third"); n != 2 {
		t.Errorf("the view that was made while it was followed has %d rows", n)
	}
}
