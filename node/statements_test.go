package node

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	engine "github.com/dolthub/go-mysql-server/sql"
	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/sql/session"
)

// TestStatementsOfAllNodes: each node counts the statements of its own clients, also those that
// another region has executed, and any node shows those of all.
func TestStatementsOfAllNodes(t *testing.T) { bubble(t, statementsOfAllNodes) }

func statementsOfAllNodes(t *testing.T) {
	l := startLocal(t, 3, 1)
	root := openSQL(t, l.Nodes()[0], "")
	mustExec(t, root, "CREATE DATABASE d")
	mustExec(t, root, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
	mustExec(t, root, "INSERT INTO d.t VALUES (1, 0), (2, 0)")
	for i, n := range l.Nodes() {
		c := openSQL(t, n, "d")
		for range 3 {
			mustExec(t, c, fmt.Sprintf("UPDATE d.t SET v = v + %d WHERE id = %d", i+1, 1))
		}
	}
	const q = "SELECT node, statements, errors, rows_affected, wan_round_trips > 0, crossed_wan > 0, wan_bytes > 0, " +
		"avg_ms > 50, p50_ms <= p99_ms, last_seen >= first_seen, sample FROM godwit.statements WHERE schema_name = 'd' AND " +
		"digest_text LIKE 'UPDATE%' ORDER BY node"
	for _, n := range l.Nodes() {
		// The row is at home where it was inserted: the others' statements are executed there.
		var want []string
		for _, m := range l.Nodes() {
			want = append(want, fmt.Sprintf("%d|3|0|3|1|1|1|1|1|1|UPDATE d.t SET v = v + ? WHERE id = ?", m.ID()))
		}
		if got := column(t, openSQL(t, n, ""), q); !slices.Equal(got, want) {
			t.Errorf("node %d shows\n%s\nwant\n%s", n.ID(), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	answersOfAllNodes(t, l)
	column(t, root, "SELECT a.v, COUNT(*) FROM d.t a JOIN d.t b GROUP BY a.v ORDER BY 2")
	if got := column(t, root, "SELECT max_memory_bytes > 0, max_memory_bytes = MAX_TOTAL_MEMORY FROM godwit.statements s JOIN "+
		"performance_schema.events_statements_summary_by_digest p ON s.digest = p.DIGEST AND s.schema_name <=> p.SCHEMA_NAME "+
		"WHERE s.digest_text LIKE '%GROUP BY%' AND s.node = 1"); !slices.Equal(got, []string{"1|1"}) {
		t.Errorf("memory of a statement: %q", got)
	}
	column(t, root, "SELECT v FROM d.t WHERE id = 1")
	if got := column(t, root, "SELECT statements, rows_sent, wan_round_trips, wan_bytes FROM godwit.statements WHERE "+
		"digest_text = 'SELECT `v` FROM `d` . `t` WHERE `id` = ?'"); !slices.Equal(got, []string{"1|1|0|0"}) {
		t.Errorf("a read at home: %q", got)
	}
	mustExec(t, root, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
	got := column(t, root, "SELECT node FROM godwit.statements WHERE digest_text LIKE 'UPDATE%' ORDER BY 1")
	if want := []string{fmt.Sprint(l.Nodes()[1].ID()), fmt.Sprint(l.Nodes()[2].ID())}; !slices.Equal(got, want) {
		t.Errorf("after the first node has forgotten: %q, want %q", got, want)
	}
	mustExec(t, root, "CREATE USER nobody")
	db, err := sql.Open("mysql", strings.Replace(dsn(l.Nodes()[0], ""), "root@", "nobody@", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var denied *mysql.MySQLError
	for _, q := range []string{"SELECT * FROM godwit.statements", "SHOW GODWIT STATEMENTS"} {
		if _, err := db.ExecContext(t.Context(), q); !errors.As(err, &denied) {
			t.Errorf("%s: %v, without a privilege", q, err)
		}
	}
}

// answersOfAllNodes: the updates were answered where the row is at home, and to ask for that counts
// as answered by nobody else.
func answersOfAllNodes(t *testing.T, l *Local) {
	t.Helper()
	top := l.Nodes()[0].cluster.Topology()
	name := func(n *Node) string { return top.RegionName(n.db.Region()) }
	home := name(l.Nodes()[0])
	for _, n := range l.Nodes()[1:] {
		db := openSQL(t, n, "")
		q := fmt.Sprintf("SELECT statements, total_ms > 50 * statements FROM godwit.answers WHERE client_region = '%s' AND answered_by = '%s'",
			name(n), home)
		before := column(t, db, q)
		if len(before) != 1 || before[0] < "3|1" {
			t.Errorf("of clients of %s: %q", name(n), before)
		}
		if after := column(t, db, q); !slices.Equal(before, after) {
			t.Errorf("to ask makes %q of %q", after, before)
		}
		if got := column(t, db, fmt.Sprintf("SELECT statements > 0 FROM godwit.answers WHERE client_region = '%[1]s' AND answered_by = '%[1]s'",
			name(n))); !slices.Equal(got, []string{"1"}) {
			t.Errorf("clients of %s at home: %q", name(n), got)
		}
	}
	want := []string{}
	for _, a := range top.Regions {
		for _, b := range top.Regions {
			if a.ID != b.ID { // the emulated network has no packets
				want = append(want, a.Name+"|"+b.Name+"|1|1|1|||")
			}
		}
	}
	slices.Sort(want)
	if got := column(t, openSQL(t, l.Nodes()[0], ""), "SELECT from_region, to_region, links, connected, wire_bytes > 0, packets, "+
		"resent_packets, loss FROM godwit.region_links ORDER BY 1, 2"); !slices.Equal(got, want) {
		t.Errorf("links\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLockWaits: any node says who waits for whom, until nobody does.
func TestLockWaits(t *testing.T) { bubble(t, lockWaits) }

func lockWaits(t *testing.T) {
	l := startLocal(t, 3, 1)
	root := openSQL(t, l.Nodes()[0], "")
	mustExec(t, root, "CREATE DATABASE d")
	mustExec(t, root, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
	mustExec(t, root, "INSERT INTO d.t VALUES (1, 0)")
	const q = "SELECT table_name, waiting_txn <> holding_txn, age_ms >= 0, EXISTS (SELECT * FROM godwit.groups WHERE name = group_name) " +
		"FROM godwit.lock_waits"
	if got := column(t, root, q); len(got) != 0 {
		t.Errorf("nobody waits, and there is %q", got)
	}
	holder, err := openSQL(t, l.Nodes()[0], "d").BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec("UPDATE t SET v = 1 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	waiter := openSQL(t, l.Nodes()[1], "d")
	go func() {
		_, err := waiter.ExecContext(t.Context(), "UPDATE t SET v = 2 WHERE id = 1")
		done <- err
	}()
	for _, n := range l.Nodes() {
		db := openSQL(t, n, "")
		until(t, "a wait", func() string {
			if got := column(t, db, q); !slices.Equal(got, []string{"d.t|1|1|1"}) {
				return fmt.Sprintf("node %d: %q", n.ID(), got)
			}
			return ""
		})
	}
	if err := holder.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := column(t, root, q); len(got) != 0 {
		t.Errorf("everybody is done, and there is %q", got)
	}
}

// TestSlowLogSettings: the cluster settings of the slow log are MySQL's variables, and are checked.
func TestSlowLogSettings(t *testing.T) {
	session.InitSystemVariables() // as the node's SQL server does when it starts
	n := new(Node)
	s := knobs.New(n.sqlSettings())
	t.Cleanup(func() { s.Apply(nil) })
	value := func(name string) any {
		_, v, ok := engine.SystemVariables.GetGlobal(name)
		if !ok {
			t.Fatalf("there is no variable %s", name)
		}
		return v
	}
	for _, bad := range []string{"-1", "1e9", "ten", "null"} {
		if s.Check(map[string]string{"sql.long_query_time": bad}) == nil {
			t.Errorf("a long_query_time of %s is taken", bad)
		}
	}
	set := map[string]string{"sql.slow_query_log": "on", "sql.long_query_time": "0.25", "sql.statement_literals": "true"}
	if err := s.Check(set); err != nil {
		t.Fatal(err)
	}
	s.Apply(set)
	for name, want := range map[string]any{"slow_query_log": int8(1), "long_query_time": 0.25, "godwit_statement_literals": int8(1)} {
		if got := value(name); got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	s.Apply(nil)
	if a, b := value("slow_query_log"), value("long_query_time"); a != int8(0) || b != float64(10) {
		t.Errorf("without settings slow_query_log is %v, long_query_time %v", a, b)
	}
}
