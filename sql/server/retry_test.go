package server

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/sql/session"
)

// The first statement of a transaction holds nothing, so losing a conflict there costs nothing: it
// is tried again here.
func TestFirstStatementIsTriedAgain(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	exec(t, c, "INSERT INTO t VALUES (1,1), (2,2)")
	for name, begin := range map[string]string{"explicit": "BEGIN", "autocommit off": "SET autocommit = 0"} {
		older, younger := conn(t, c), conn(t, c)
		exec(t, older, "BEGIN")
		exec(t, older, "UPDATE t SET n = n + 10 WHERE id = 1")
		exec(t, younger, begin)
		done := make(chan error, 1)
		go func() {
			_, err := younger.ExecContext(t.Context(), "UPDATE t SET n = n * 2 WHERE id = 1")
			done <- err
		}()
		exec(t, older, "COMMIT")
		if err := <-done; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		exec(t, younger, "UPDATE t SET n = n + 1 WHERE id = 2")
		exec(t, younger, "ROLLBACK") // it is still one transaction
		exec(t, younger, "SET autocommit = 1")
	}
	expect(t, c, "SELECT n FROM t ORDER BY id", "21", "2")
}

// A later statement that loses ends the transaction: what was read before it may be wrong.
func TestLaterStatementIsNotTriedAgain(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	exec(t, c, "INSERT INTO t VALUES (1,1), (2,2)")
	older, younger := conn(t, c), conn(t, c)
	exec(t, older, "BEGIN")
	exec(t, older, "UPDATE t SET n = n + 10 WHERE id = 1")
	exec(t, younger, "BEGIN")
	exec(t, younger, "UPDATE t SET n = n + 1 WHERE id = 2")
	_, err := younger.ExecContext(t.Context(), "UPDATE t SET n = n * 2 WHERE id = 1")
	var me *mysql.MySQLError
	if !errors.As(err, &me) || me.Number != 1213 {
		t.Fatalf("got %v, want 1213", err)
	}
	exec(t, older, "UPDATE t SET n = n + 10 WHERE id = 2")
	exec(t, older, "COMMIT")
	expect(t, c, "SELECT n FROM t ORDER BY id", "11", "12")
}

// Clients act on MySQL's numbers.
func TestErrorNumbers(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, n INT, CHECK (n < 9))")
	exec(t, c, "CREATE TABLE k (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))")
	exec(t, c, "CREATE TABLE w (id INT AUTO_INCREMENT PRIMARY KEY, e ENUM('a'), t TINYINT UNSIGNED, y YEAR, "+
		"s VARCHAR(3), b BIT(3), j JSON)")
	// others act on these
	states := map[uint16]string{1146: "42S02", 1452: "23000", 1054: "42S22", 1264: "22003", 1406: "22001"}
	for q, num := range map[string]uint16{
		"SELEC 1":                             1064,
		"SELECT nonesuch FROM t":              1054,
		"SELECT t.nonesuch FROM t":            1054,
		"SELECT id FROM t a JOIN t b":         1052,
		"CREATE TABLE t (id INT)":             1050,
		"ALTER TABLE t ADD n INT":             1060,
		"SELECT * FROM t JOIN t":              1066,
		"SELECT nonesuch(1)":                  1305,
		"INSERT INTO t VALUES (1, 9)":         3819,
		"INSERT INTO t VALUES (1)":            1136,
		"SELECT * FROM nonesuch":              1146,
		"INSERT INTO t (nonesuch) VALUES (1)": 1054,
		"UPDATE t SET nonesuch = 1":           1054,
		"INSERT INTO k VALUES (1)":            1452,
		"INSERT INTO w (e) VALUES ('c')":      1265,
		"INSERT INTO w (t) VALUES (-1)":       1264,
		"INSERT INTO w (t) VALUES (256)":      1264,
		"INSERT INTO w (y) VALUES (1800)":     1264,
		"INSERT INTO w (s) VALUES ('long')":   1406,
		"INSERT INTO w (b) VALUES (9)":        1406,
		"INSERT INTO w (j) VALUES ('{bad')":   3140,
		"ROLLBACK TO nonesuch":                1305,
		"CALL nonesuch()":                     1305,
		"CREATE TABLE v (a INT, a INT)":       1060,
		"DROP USER nonesuch":                  1396,
		"GRANT SELECT ON *.* TO nonesuch":     1410,
	} {
		for kind, run := range map[string]func() error{
			"text": func() error { _, err := c.ExecContext(t.Context(), q); return err },
			"prepared": func() error {
				p, err := c.PrepareContext(t.Context(), q)
				if err == nil {
					_, err = p.ExecContext(t.Context())
					p.Close()
				}
				return err
			},
		} {
			if num == 1064 && kind == "prepared" {
				continue // the protocol library parses, and answers, before the handler is asked
			}
			var me *mysql.MySQLError
			if err := run(); !errors.As(err, &me) || me.Number != num {
				t.Errorf("%s, %s: got %v, want %d", q, kind, err, num)
			} else if state := states[num]; state != "" && string(me.SQLState[:]) != state {
				t.Errorf("%s, %s: SQLSTATE %s, want %s", q, kind, me.SQLState, state)
			}
		}
	}
}

// The cost variables show the last statement's, also after a dearer one.
func TestCostVariablesFollow(t *testing.T) {
	s, c := newServer(t)
	k := conn(t, c)
	exec(t, k, "SELECT 1")
	s.g.sessions.Range(func(_, v any) bool {
		v.(*session.Session).NoteCost(session.StatementCost{Hops: 6, Bytes: 700})
		return true
	})
	expect(t, k, "SELECT @@last_statement_wan_rtts, @@last_statement_wan_bytes", "3|700")
	expect(t, k, "SELECT @@session.last_statement_wan_rtts", "3")
	exec(t, k, "SELECT 1")
	expect(t, k, "SELECT @@last_statement_wan_rtts, @@last_statement_wan_bytes", "0|0")
}
