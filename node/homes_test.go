package node

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// dsn names a database at a node, which listens on a socket or a pipe.
func dsn(n *Node, database string) string {
	network := "tcp"
	if strings.HasPrefix(n.SQLAddr(), "pipe:") {
		network = "pipe"
	}
	return "root@" + network + "(" + n.SQLAddr() + ")/" + database
}

func openSQL(t testing.TB, n *Node, name string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("mysql", dsn(n, name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); db.Close() })
	return c
}

// execer is a connection, a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error)
}

func mustExec(t testing.TB, c execer, q string, args ...any) {
	t.Helper()
	if _, err := c.ExecContext(t.Context(), q, args...); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

func column(t *testing.T, c *sql.Conn, q string, args ...any) (out []string) {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), q, args...)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	defer rows.Close()
	for rows.Next() {
		cols, _ := rows.Columns()
		vals := make([]sql.NullString, len(cols))
		ptrs := make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			t.Fatal(err)
		}
		var b []string
		for _, v := range vals {
			b = append(b, v.String)
		}
		out = append(out, strings.Join(b, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRowsComeHome: rows that another region uses move there by themselves with their
// index entries, for writes and for reads; pins, localities and the mode of the policy keep them.
func TestRowsComeHome(t *testing.T) { bubble(t, rowsComeHome) }

func rowsComeHome(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	a, b := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[1], "")
	mustExec(t, a, "CREATE DATABASE d")
	mustExec(t, a, "USE d")
	mustExec(t, b, "USE d")
	mustExec(t, a, "CREATE TABLE t (id INT PRIMARY KEY, k INT, u INT, v INT, KEY (k), UNIQUE (u))")
	mustExec(t, a, "CREATE TABLE plain (id INT PRIMARY KEY, v INT)")
	mustExec(t, a, "CREATE TABLE whole (id INT PRIMARY KEY, v INT)")
	mustExec(t, a, "ALTER TABLE whole SET LOCALITY REGIONAL BY TABLE IN '"+l.cfg.Matrix.Names[0]+"'")
	for _, q := range []string{"INSERT INTO t VALUES (1,10,100,0),(2,20,200,0),(3,30,300,0),(4,40,400,0)",
		"INSERT INTO plain VALUES (1,0),(2,0)", "INSERT INTO whole VALUES (1,0)"} {
		mustExec(t, a, q)
	}
	first, second := l.cfg.Matrix.Names[0], l.cfg.Matrix.Names[1]
	mustExec(t, a, "UPDATE t__homes SET pinned = 1 WHERE id = 4")
	for range 5 {
		mustExec(t, b, "UPDATE t SET v = v + 1, k = k + 1 WHERE id IN (1, 4)")
		mustExec(t, b, "UPDATE plain SET v = v + 1 WHERE id = 1")
		mustExec(t, b, "UPDATE whole SET v = v + 1 WHERE id = 1")
		column(t, b, "SELECT v FROM t WHERE id = 2")
	}
	until(t, "rows to come home", func() string {
		got := strings.Join(append(column(t, a, "SELECT id, home_region FROM t__homes ORDER BY id"),
			column(t, a, "SELECT id, home_region FROM plain__homes")...), " ")
		want := "1|" + second + " 2|" + second + " 3|" + first + " 4|" + first + " 1|" + second + " 2|" + first
		if got != want {
			return got + ", want " + want
		}
		return ""
	})
	if got := column(t, a, "SELECT home_region FROM whole__homes"); got[0] != first {
		t.Errorf("the row of a table that is homed as a whole is in %s", got[0])
	}
	// Indexes find the rows still, from everywhere, and only once.
	for _, c := range []*sql.Conn{a, b} {
		if got := strings.Join(column(t, c, "SELECT id, v FROM t WHERE k BETWEEN 0 AND 100 ORDER BY k"),
			" "); got != "1|5 2|0 3|0 4|5" {
			t.Errorf("by k: %s", got)
		}
		if got := strings.Join(column(t, c, "SELECT id FROM t WHERE u IN (100, 200, 300, 400) ORDER BY u"),
			" "); got != "1 2 3 4" {
			t.Errorf("by u: %s", got)
		}
	}
	// EXPLAIN says where a statement runs, and what the row's owner makes of the row's home; to ask
	// is no use of the row.
	for range 5 {
		for _, q := range []string{"EXPLAIN PLAN UPDATE t SET v = 1 WHERE id = 4", "EXPLAIN PLAN SELECT * FROM t WHERE id = 4"} {
			if got := strings.Join(column(t, b, q), "\n"); !strings.Contains(got,
				"region "+first+"; row stays at "+first+" (pinned): pinned") {
				t.Errorf("%s:\n%s", q, got)
			}
		}
		if got := strings.Join(column(t, b, "EXPLAIN PLAN SELECT * FROM t WHERE id IN (1, 4)"),
			"\n"); !strings.Contains(got, "Execution: cross-region") {
			t.Errorf("rows of two regions:\n%s", got)
		}
		column(t, b, "EXPLAIN PLAN UPDATE t SET v = 1 WHERE id = 3")
	}
	if got := column(t, b, "SELECT id, home_region FROM t__homes WHERE id > 2"); strings.Join(got,
		" ") != "3|"+first+" 4|"+first {
		t.Errorf("rows moved that were only explained: %s", got)
	}
	if got := strings.Join(column(t, b, "EXPLAIN PLAN UPDATE t SET v = 1 WHERE id = 1"), "\n"); !strings.Contains(got,
		"Execution: local") {
		t.Errorf("a row that has come home:\n%s", got)
	}
	moves := column(t, b, "SHOW GODWIT MOVES")
	if got := strings.Join(moves, "\n"); !strings.Contains(got, "d.t(1)|d.t|"+first+"|"+second+"|policy|") ||
		!strings.Contains(got, "d.t(2)|d.t|"+first+"|"+second+"|policy|") {
		t.Errorf("moves:\n%s", got)
	}
	// The same as a table: filtered, joined, with the facts that decided.
	if got := column(t, b, "SELECT m.to_region, m.why_json->>'$.rule', m.why LIKE CONCAT(m.from_region, ' to ', "+
		"m.to_region, '%'), m.at BETWEEN NOW(6) - INTERVAL 1 HOUR AND NOW(6) FROM godwit.moves m "+
		"JOIN t__homes h ON m.row_name = CONCAT('d.t(', h.id, ')') "+
		"WHERE h.id = 1 AND NOT m.dry_run"); len(got) != 1 || got[0] != second+"|run|1|1" {
		t.Errorf("godwit.moves: %q", got)
	}
	if got := column(t, b, "SELECT home_region FROM godwit.heat WHERE table_name = 'd.t' AND row_name = 'd.t(1)' AND "+
		"home_heat > 0"); len(got) != 1 || got[0] != second {
		t.Errorf("godwit.heat: %q", got)
	}
	for _, topic := range topics {
		column(t, b, "SELECT * FROM godwit."+topic.Name)
		column(t, b, "SHOW GODWIT "+topic.Name)
	}
	if got := column(t, a, "SELECT COUNT(*) FROM godwit.nodes WHERE state = 'live' AND uptime_s >= 0"); got[0] != "3" {
		t.Errorf("%s live nodes", got[0])
	}
	// What a dry run would move is told everywhere, and does not move.
	setting := func(name, value, want string) {
		mustExec(t, a, "SET CLUSTER SETTING "+name+" = "+value)
		until(t, "the setting to arrive", func() string {
			if got := column(t, b, "SHOW CLUSTER SETTING "+name)[0]; !strings.HasPrefix(got, name+"|"+want+"|") {
				return got
			}
			return ""
		})
	}
	setting("home.dry_run", "true", "true")
	for range 4 {
		mustExec(t, b, "UPDATE t SET v = v + 0 WHERE id = 3")
	}
	for _, c := range []*sql.Conn{a, b} {
		if got := column(t, c, "SELECT row_name, to_region, cost FROM godwit.moves WHERE dry_run"); len(got) != 1 ||
			got[0] != "d.t(3)|"+second+"|none: dry run" {
			t.Errorf("dry run: %q", got)
		}
	}
	if got := column(t, b, "SELECT home_region FROM t__homes WHERE id = 3"); got[0] != first {
		t.Errorf("a row has moved to %s in a dry run", got[0])
	}
	setting("home.dry_run", "DEFAULT", "false")
	n := len(column(t, b, "SHOW GODWIT MOVES"))
	setting("home.mode", "'never'", "never")
	defer mustExec(t, a, "SET CLUSTER SETTING home.mode = DEFAULT")
	for range 5 {
		mustExec(t, b, "UPDATE t SET v = v + 1 WHERE id = 3")
	}
	time.Sleep(200 * time.Millisecond)
	if got := column(t, b, "SHOW GODWIT MOVES"); len(got) != n {
		t.Errorf("rows moved with mode never:\n%s", strings.Join(got, "\n"))
	}
}

// TestCanMove: rows of tables are moved only by who can move their index entries, rows without
// tables by every node.
func TestCanMove(t *testing.T) {
	row := key(base.MakeTableID(100, 1), 1, 1)
	space := key(base.MakeTableID(base.FirstSpace|7, 1), 1, 1)
	kvOnly := &base.Topology{Regions: []base.Region{{ID: 1}, {ID: 2}}, Nodes: []base.Node{{ID: 1, Region: 1}, {ID: 2, Region: 2}}}
	mixed := &base.Topology{Regions: kvOnly.Regions, Nodes: []base.Node{{ID: 1, Region: 1, SQL: "127.0.0.1:1"},
		{ID: 2, Region: 2}}}
	one := &base.Topology{Regions: []base.Region{{ID: 1}}, Nodes: []base.Node{{ID: 1, Region: 1}}}
	without, with := &Node{}, &Node{}
	known := func(k base.Key) bool { return k.Compare(row) == 0 }
	with.movable.Store(&known)
	for _, c := range []struct {
		what string
		n    *Node
		topo *base.Topology
		sql  bool
		key  base.Key
		want bool
	}{
		{"no SQL anywhere, any key", without, kvOnly, false, row, true},
		{"no SQL here, but elsewhere, a row of a table", without, mixed, false, row, false},
		{"no SQL here, but elsewhere, a row without table", without, mixed, false, space, true},
		{"SQL here, catalog not read yet", without, mixed, true, row, false},
		{"SQL here, a row that the catalog knows", with, mixed, true, row, true},
		{"SQL here, a key that the catalog does not know", with, mixed, true, key(base.MakeTableID(101, 1), 1, 1), false},
		{"SQL here, a row without table", with, mixed, true, space, true},
		{"one region", with, one, true, row, false},
	} {
		if got := c.n.canMove(c.topo, c.sql, c.key); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestMovesAreCounted: a statement says how many rows it moved, regions count what came whatever
// the number of replicas, and looking at where rows live moves none.
func TestMovesAreCounted(t *testing.T) { bubble(t, movesAreCounted) }

func movesAreCounted(t *testing.T) {
	t.Helper()
	l := startLocal(t, 2, 2) // the first region has two replicas
	names := l.cfg.Matrix.Names
	a, b := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[2], "")
	mustExec(t, a, "CREATE DATABASE d")
	for _, c := range []*sql.Conn{a, b} {
		mustExec(t, c, "USE d")
	}
	mustExec(t, a, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, KEY (k), KEY (id, v))")
	mustExec(t, a, "INSERT INTO t VALUES (1,1,0),(2,2,0),(3,3,0)")
	mustExec(t, b, "INSERT INTO t VALUES (11,1,0),(12,2,0)")
	home := func(id int) string {
		return column(t, a, "SELECT home_region FROM t__homes WHERE id = ?", id)[0]
	}
	for range 8 {
		column(t, b, "SELECT * FROM t__homes WHERE id = 1")
		column(t, b, "SELECT t.id FROM d.t__homes t JOIN d.t__homes u USING (id) WHERE t.id = 1 FOR UPDATE")
		mustExec(t, b, "UPDATE t__homes SET pinned = 0 WHERE id = 1")
	}
	for i, want := range []string{"0", "0", "1", "0"} {
		mustExec(t, b, "UPDATE t SET v = v + 1 WHERE id = 3")
		if got := column(t, b, "SELECT @@last_statement_rows_moved")[0]; got != want {
			t.Errorf("UPDATE %d moved %s rows, want %s", i+1, got, want)
		}
		if got := column(t, b, "SHOW GODWIT STATEMENT COST")[0]; i > 0 && !strings.Contains(got, "|"+want+"|") {
			t.Errorf("its cost: %s", got)
		}
		if i == 2 { // it has entries keyed by home, and was forwarded: it moves afterwards
			until(t, "row 3 to move", func() string {
				if h := home(3); h != names[1] {
					return h
				}
				return ""
			})
		}
	}
	// What a read from the local replica sets off is decided later, when the owner hears of it.
	for range 10 {
		column(t, b, "SELECT * FROM t WHERE id = 2")
	}
	until(t, "row 2 to move", func() string {
		if h := home(2); h != names[1] {
			return h
		}
		return ""
	})
	if h := home(1); h != names[0] {
		t.Errorf("row 1, of which only the home was looked at, is in %s", h)
	}
	mustExec(t, b, "UPDATE t__homes SET home_region = ? WHERE id = 12", names[0])
	until(t, "the moves to be counted", func() string {
		s := l.Stats()
		if x, y := s.Regions[names[0]].MovedIn, s.Regions[names[1]].MovedIn; x != 1 || y != 2 {
			return fmt.Sprint(x, y)
		}
		return ""
	})
}
