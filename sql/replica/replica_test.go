package replica_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/digest"
)

// TestRefused: what is not there is refused, and what is wrong says what is right.
func TestRefused(t *testing.T) {
	w := newWorld(t, "a")
	w.exec("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'nowhere.invalid' FOR CHANNEL 'c'")
	for _, c := range []struct {
		q, want string
		number  uint16
	}{
		{"CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1", "SOURCE_LOG_FILE", 1235},
		{"CHANGE MASTER TO MASTER_USE_GTID = slave_pos", "MASTER_USE_GTID", 1235},
		{"CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 10", "SOURCE_DELAY", 1235},
		{"CHANGE REPLICATION SOURCE TO SOURCE_SSL_CA = '/ca.pem'", "SOURCE_SSL_VERIFY_SERVER_CERT", 1235},
		{"CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 1.5", "SOURCE_HEARTBEAT_PERIOD", 1235},
		{"CHANGE REPLICATION SOURCE TO IGNORE_SERVER_IDS = (1, 2)", "empty list", 1105},
		{"CHANGE REPLICATION SOURCE TO SOURCE_PORT = 0", "a number from 1 to 65535", 1210},
		{"CHANGE REPLICATION SOURCE TO SOURCE_PORT = '3306'", "a number from 1 to 65535", 1210},
		{"CHANGE REPLICATION SOURCE TO SOURCE_HOST = ''", "address of a server", 1210},
		{"CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'a', MASTER_HOST = 'b'", "given twice", 1105},
		{"CHANGE REPLICATION SOURCE TO SOURCE_HOST 'a'", "=", 1105},
		{"CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = 'hush' SOURCE_USER = 'u'", "the end", 1105},
		{"CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'a'", "Multiple channels", 3079},
		{"CHANGE REPLICATION SOURCE TO SOURCE_SSL_VERIFY_SERVER_CERT = 1 FOR CHANNEL 'c'", "SOURCE_SSL = 1", 1105},
		{"START REPLICA FOR CHANNEL 'd'", "channel 'd' does not exist", 3074},
		{"STOP REPLICA FOR CHANNEL 'd'", "channel 'd' does not exist", 3074},
		{"SHOW REPLICA STATUS FOR CHANNEL 'd'", "channel 'd' does not exist", 3074},
		{"START REPLICA SQL_THREAD", "SQL_THREAD", 1235},
		{"STOP SLAVE IO_THREAD", "IO_THREAD", 1235},
		{"START REPLICA UNTIL SOURCE_LOG_FILE = 'a', SOURCE_LOG_POS = 4", "UNTIL", 1235},
		{"START REPLICA USER = 'u' PASSWORD = 'hush'", "SOURCE_USER", 1235},
	} {
		_, err := query(w.c, c.q)
		if numberOf(err) != c.number || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v; want %d, and %q in it", c.q, err, c.number, c.want)
		}
	}
	w.exec("BEGIN")
	if _, err := w.c.Exec("STOP REPLICA"); err == nil || !strings.Contains(err.Error(), "no part of a transaction") {
		t.Errorf("within a transaction: %v", err)
	}
	w.exec("ROLLBACK", "RESET REPLICA ALL")
	if got := w.status("SHOW REPLICA STATUS"); got != nil {
		t.Errorf("after RESET REPLICA ALL: %v", got)
	}
	for _, q := range []string{"START REPLICA", "STOP SLAVE"} {
		if _, err := w.c.Exec(q); numberOf(err) != 1200 {
			t.Errorf("%s of no replica: %v", q, err)
		}
	}
}

// TestShow: what was given is shown by the names of the release that a client asks for, but the
// password never, wherever one looks.
func TestShow(t *testing.T) {
	w := newWorld(t, "a")
	const text = "CHANGE MASTER TO MASTER_HOST='db.invalid', MASTER_PORT=3307, MASTER_USER='repl', MASTER_PASSWORD='hush', MASTER_CONNECT_RETRY=7, " +
		"MASTER_SSL=1, MASTER_LOG_FILE='bin.000002', MASTER_LOG_POS=1234, MASTER_USE_GTID=no"
	w.exec(text)
	now, old := w.status("SHOW REPLICA STATUS"), w.status("show slave status")
	if len(now) != 60 || len(old) != len(now) {
		t.Errorf("%d and %d columns; MySQL 8.0 has 60", len(now), len(old))
	}
	for name, want := range map[string]string{"Source_Host": "db.invalid", "Source_Port": "3307", "Source_User": "repl", "Connect_Retry": "7",
		"Source_Log_File": "bin.000002", "Read_Source_Log_Pos": "1234", "Relay_Source_Log_File": "bin.000002", "Exec_Source_Log_Pos": "1234",
		"Source_SSL_Allowed": "Yes", "Source_SSL_Verify_Server_Cert": "No", "Replica_IO_Running": "No", "Replica_SQL_Running": "No", "Last_Errno": "0",
		"Last_Error": "", "Seconds_Behind_Source": "", "Channel_Name": "", "Auto_Position": "0"} {
		if now[name] != want {
			t.Errorf("%s is %q, want %q", name, now[name], want)
		}
		before := strings.NewReplacer("Source", "Master", "Replica_", "Slave_").Replace(name)
		if got, ok := old[before]; !ok || got != want {
			t.Errorf("%s is %q, %v, want %q", before, got, ok, want)
		}
	}
	for _, shown := range []string{fmt.Sprint(now), audit.Mask(text), audit.Mask(strings.ReplaceAll(text, "MASTER", "SOURCE")),
		digest.Redact(text, 0), w.log.String(), strings.Join(w.query("SELECT * FROM performance_schema.events_statements_summary_by_digest"), "\n")} {
		if strings.Contains(shown, "hush") {
			t.Errorf("a password is shown: %s", shown)
		}
	}
	if audit.Classify(text) != audit.Admin || audit.Classify("START SLAVE") != audit.Admin || audit.Classify("START TRANSACTION") != "" {
		t.Error("the audit log takes statements for what they are not")
	}
	// Another source has another log; RESET REPLICA forgets how far the old one was read.
	w.exec("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'other.invalid'")
	if got := w.query("SHOW WARNINGS"); len(got) != 1 || !strings.Contains(got[0], "Another source has another log") {
		t.Errorf("SHOW WARNINGS: %q", got)
	}
	if got := w.status("SHOW REPLICA STATUS"); got["Exec_Source_Log_Pos"] != "4" || got["Relay_Source_Log_File"] != "" || got["Source_User"] != "repl" {
		t.Errorf("after another host: %v", got)
	}
	w.exec("CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE = 'x', SOURCE_LOG_POS = 99", "RESET SLAVE")
	if got := w.status("SHOW REPLICA STATUS"); got["Exec_Source_Log_Pos"] != "4" || got["Source_Host"] != "other.invalid" {
		t.Errorf("after RESET SLAVE: %v", got)
	}
}

// TestRights: who administers replicas needs REPLICATION_SLAVE_ADMIN, who has them forget positions
// RELOAD, who looks REPLICATION CLIENT.
func TestRights(t *testing.T) {
	w := newWorld(t, "a")
	w.exec("CREATE USER none IDENTIFIED BY 'p'", "CREATE USER admin IDENTIFIED BY 'p'", "CREATE USER looks IDENTIFIED BY 'p'",
		"CREATE USER resets IDENTIFIED BY 'p'", "GRANT RELOAD ON *.* TO resets",
		"GRANT REPLICATION_SLAVE_ADMIN ON *.* TO admin", "GRANT REPLICATION CLIENT ON *.* TO looks")
	for _, u := range []struct {
		name                  string
		changes, resets, sees bool
	}{{"none", false, false, false}, {"admin", true, false, false}, {"resets", false, true, false}, {"looks", false, false, true}} {
		c := w.as(u.name, "p")
		for q, may := range map[string]bool{"CHANGE REPLICATION SOURCE TO SOURCE_USER = 'x'": u.changes, "START REPLICA": u.changes,
			"STOP REPLICA": u.changes, "RESET REPLICA": u.resets, "SHOW REPLICA STATUS": u.sees, "SHOW SLAVE STATUS": u.sees} {
			if _, err := query(c, q); (numberOf(err) != 1227) != may {
				t.Errorf("%s: %s: %v", u.name, q, err)
			}
		}
	}
}

// clientStatements are what clients of a source do at random.
func clientStatements(r *rand.Rand) []string {
	all := []func() string{
		func() string {
			return fmt.Sprintf("INSERT INTO shop.customers (name) VALUES ('n%d'), ('é')", r.IntN(1000))
		},
		func() string {
			return fmt.Sprintf("INSERT INTO shop.orders (cust, total, at) SELECT id, %d / 7, NOW(3) FROM shop.customers ORDER BY RAND() LIMIT %d",
				r.IntN(1e6), 1+r.IntN(20))
		},
		func() string {
			return "UPDATE shop.orders SET total = total + 0.000001, note = CONCAT('é''\\\\', total) ORDER BY RAND() LIMIT 5"
		},
		func() string { return "UPDATE shop.customers SET id = id + 1000 ORDER BY RAND() LIMIT 1" },
		func() string { return "DELETE FROM shop.customers WHERE id > 3 ORDER BY RAND() LIMIT 1" },
		func() string { return fmt.Sprintf("INSERT INTO shop.keyless (a, b) VALUES (%d, 'k')", r.IntN(5)) },
		func() string { return "DELETE FROM shop.keyless ORDER BY RAND() LIMIT 1" },
		func() string {
			return "INSERT INTO shop.kinds (a, b, d, f, g, h, i) VALUES (7, -1.5, NOW(6), '-11:12:13.5', x'00ff', b'101', 'y z')"
		},
	}
	qs := []string{"BEGIN"}
	for range 1 + r.IntN(3) {
		qs = append(qs, all[r.IntN(len(all))]())
	}
	return append(qs, "COMMIT")
}

var clientDefinitions = []string{
	"ALTER TABLE shop.orders ADD COLUMN extra VARCHAR(10) DEFAULT 'e' AFTER cust, ADD INDEX (total)",
	"CREATE TABLE shop.t3 (a INT PRIMARY KEY, n INT)", "INSERT INTO shop.t3 VALUES (1, 1), (2, 2)", "RENAME TABLE shop.t3 TO shop.t4",
	"CREATE DATABASE more", "CREATE TABLE more.t (a INT)", "INSERT INTO more.t VALUES (1), (1)", "TRUNCATE TABLE shop.keyless",
	"ALTER TABLE shop.keyless ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY FIRST",
}

var clientTables = []string{"shop.customers", "shop.orders", "shop.kinds", "shop.keyless"}

func rowsOf(tables ...string) (qs []string) {
	for _, n := range tables {
		qs = append(qs, "SELECT * FROM "+n+" ORDER BY 1")
	}
	return qs
}

// TestFollow: a cluster follows another one through changes of rows and definitions. It is stopped
// and started, and its node ends and another one goes on. Nothing is applied twice, and nothing is
// left out.
func TestFollow(t *testing.T) {
	source, w := newWorld(t, "source"), newWorld(t, "replica")
	source.replUser()
	schema := []string{"CREATE DATABASE shop",
		"CREATE TABLE shop.customers (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40))",
		"CREATE TABLE shop.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, cust INT NOT NULL, total DECIMAL(20,6), note TEXT, at DATETIME(3), " +
			"FOREIGN KEY (cust) REFERENCES shop.customers (id) ON DELETE CASCADE ON UPDATE CASCADE, INDEX (at))",
		"CREATE TABLE shop.kinds (id INT AUTO_INCREMENT PRIMARY KEY, a TINYINT UNSIGNED, b DOUBLE, c INT GENERATED ALWAYS AS (a * 2) STORED, " +
			"d TIMESTAMP(6) NULL, f TIME(3), g VARBINARY(20), h BIT(11), i ENUM('x', 'y z'))",
		"CREATE TABLE shop.keyless (a INT, b VARCHAR(20))",
		"CREATE TABLE shop.counted (n INT)", "CREATE TRIGGER shop.counts AFTER INSERT ON shop.customers FOR EACH ROW INSERT INTO shop.counted VALUES (NEW.id)"}
	source.exec(schema...)
	source.exec("INSERT INTO shop.customers (name) VALUES ('Ann'), ('Bea'), ('Cid')")
	// As after a dump: the replica has what the source has, triggers included.
	w.exec(schema[:len(schema)-1]...)
	w.exec("INSERT INTO shop.customers (name) VALUES ('Ann'), ('Bea'), ('Cid')", "INSERT INTO shop.counted VALUES (1), (2), (3)", schema[len(schema)-1])
	w.follows(source)
	r := rand.New(rand.NewPCG(1, 2))
	some := func(n int) {
		for range n {
			source.exec(clientStatements(r)...)
		}
	}
	tables := append([]string{"shop.counted"}, clientTables...)
	for i, q := range clientDefinitions {
		some(4)
		source.exec(q)
		switch i {
		case 2:
			w.same(source, rowsOf(tables...)...)
			w.exec("STOP REPLICA")
			if got := w.status("SHOW REPLICA STATUS"); got["Replica_IO_Running"] != "No" || got["Replica_SQL_Running"] != "No" || got["Last_Error"] != "" {
				t.Errorf("after STOP REPLICA: %v", got)
			}
			some(3)
			w.exec("START REPLICA", "START REPLICA")
			if got := w.query("SHOW WARNINGS"); len(got) != 1 || !strings.Contains(got[0], "already running") {
				t.Errorf("SHOW WARNINGS: %q", got)
			}
			if _, err := w.c.Exec("CHANGE REPLICATION SOURCE TO SOURCE_PORT = 1"); numberOf(err) != 3081 {
				t.Errorf("CHANGE of a replica that runs: %v", err)
			}
			if _, err := w.c.Exec("RESET REPLICA ALL"); numberOf(err) != 3081 {
				t.Errorf("RESET of a replica that runs: %v", err)
			}
		case 5: // the node ends, and one of the other region goes on
			w.srv.Close()
			w = start(t, w.db.(*memkv.DB).Gateway(2))
		}
	}
	some(4)
	w.same(source, rowsOf(append(tables, "shop.t4", "more.t")...)...)
	w.same(source, "SHOW CREATE TABLE shop.keyless")
	w.until("the replica says that it has everything", func() bool {
		got := w.status("SHOW REPLICA STATUS")
		return got["Replica_IO_Running"] == "Yes" && got["Replica_SQL_Running"] == "Yes" && got["Seconds_Behind_Source"] == "0" && got["Last_Error"] == "" &&
			got["Replica_IO_State"] == "Waiting for source to send event" && got["Source_Server_Id"] != "0"
	})
	if got := w.query("SHOW JOBS"); len(got) == 0 || !strings.Contains(got[0], "|REPLICA|repl@127.0.0.1:") || !strings.Contains(got[0], "|running|") ||
		strings.Contains(strings.Join(got, ""), "hush") {
		t.Errorf("the job: %q", got)
	}
	// What the replica has committed by itself does not come back: the source follows it, too.
	w.replUser()
	source.exec(source.changeTo(w), "START REPLICA")
	w.exec("INSERT INTO more.t VALUES (77)")
	source.until("the other way", func() bool { return len(source.query("SELECT * FROM more.t WHERE a = 77")) == 1 })
	source.exec("INSERT INTO more.t VALUES (78)")
	w.until("and this way again", func() bool { return len(w.query("SELECT * FROM more.t WHERE a = 78")) == 1 })
	source.exec("STOP REPLICA")
	if strings.Contains(w.log.String(), "hush") {
		t.Error("the log shows a password")
	}
}

// TestStops: a replica stops at what it cannot apply, says what that is, and goes on from there
// once that can be applied.
func TestStops(t *testing.T) {
	source, w := newWorld(t, "source"), newWorld(t, "replica")
	source.replUser()
	for _, x := range []*world{source, w} {
		x.exec("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, n INT)", "INSERT INTO d.t VALUES (1, 1), (2, 2)")
	}
	w.follows(source)
	source.exec("UPDATE d.t SET n = 10 WHERE id = 1")
	w.same(source, "SELECT * FROM d.t")
	stopped := func(want string) {
		t.Helper()
		var got map[string]string
		w.until(want, func() bool { got = w.status("SHOW REPLICA STATUS"); return got["Last_SQL_Errno"] != "0" })
		if got["Replica_IO_Running"] != "No" || got["Replica_SQL_Running"] != "No" || !strings.Contains(got["Last_Error"], want) ||
			!strings.Contains(got["Last_SQL_Error"], want) || got["Last_SQL_Error_Timestamp"] == "" {
			t.Errorf("%v; want %q", got, want)
		}
	}
	w.exec("DELETE FROM d.t WHERE id = 2")
	source.exec("BEGIN", "INSERT INTO d.t VALUES (3, 3)", "UPDATE d.t SET n = 20 WHERE id = 2", "COMMIT")
	stopped("d.t: a row that the source changed")
	if got := w.query("SELECT * FROM d.t"); strings.Join(got, ",") != "1|10" {
		t.Errorf("a half of a transaction was applied: %q", got)
	}
	w.exec("INSERT INTO d.t VALUES (2, 2)", "START REPLICA")
	w.same(source, "SELECT * FROM d.t ORDER BY id")
	w.exec("INSERT INTO d.t VALUES (4, 40)")
	source.exec("INSERT INTO d.t VALUES (4, 4)")
	stopped("Duplicate entry '4'")
	w.exec("DELETE FROM d.t WHERE id = 4", "START REPLICA")
	w.same(source, "SELECT * FROM d.t ORDER BY id")
	w.exec("DROP TABLE d.t")
	source.exec("INSERT INTO d.t VALUES (5, 5)")
	stopped("Table 'd.t' doesn't exist")
	if got := w.query("SHOW JOBS"); len(got) == 0 || !strings.Contains(got[0], "|REPLICA|repl@") || !strings.Contains(got[0], "|failed|") {
		t.Errorf("the job: %q", got)
	}
	// A source that is not there is tried again; one that does not know the position is not.
	w.exec("CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE = 'other.000001', SOURCE_LOG_POS = 4", "START REPLICA")
	w.until("the position is refused", func() bool { return w.status("SHOW REPLICA STATUS")["Last_IO_Errno"] == "1236" })
	w.exec("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_CONNECT_RETRY = 1", "START REPLICA")
	w.until("there is no server", func() bool {
		got := w.status("SHOW REPLICA STATUS")
		return got["Replica_IO_Running"] == "Connecting" && got["Replica_SQL_Running"] == "Yes" && got["Last_IO_Errno"] == "2003"
	})
	w.exec("STOP REPLICA", "CHANGE REPLICATION SOURCE TO SOURCE_RETRY_COUNT = 1", "START REPLICA")
	w.until("it gives up", func() bool {
		got := w.status("SHOW REPLICA STATUS")
		return got["Replica_IO_Running"] == "No" && got["Last_IO_Errno"] == "2003"
	})
	// A cluster does not follow itself.
	w.replUser()
	w.exec(w.changeTo(w), "START REPLICA")
	w.until("it is the same cluster", func() bool {
		return strings.Contains(w.status("SHOW REPLICA STATUS")["Last_Error"], "equal MySQL server ids")
	})
}
