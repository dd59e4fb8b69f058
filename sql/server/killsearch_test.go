package server

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"
)

// killOne kills a statement that runs for long, once it is in the list of processes. It must not
// end by itself, and be told why it ended.
func killOne(t *testing.T, s *Server, k, killer *sql.Conn, id, q string) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := k.ExecContext(context.Background(), q)
		ended <- err
	}()
	eventually(t, "the statement begins", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("%.40s has ended by itself: %v", q, err)
		default:
		}
		for _, p := range s.g.engine.ProcessList.Processes() {
			if p.Query == q {
				return true
			}
		}
		return false
	})
	exec(t, killer, "KILL QUERY "+id)
	if got := errNumber(t, <-ended); got != 1317 {
		t.Errorf("%.40s was killed: error %d, want 1317", q, got)
	}
}

// TestKillSearches: a search in a long text that would take hours, all of it one call of a function
// for one row, ends when it is killed.
func TestKillSearches(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
	exec(t, c, "INSERT INTO t VALUES (1, 'b')")
	k, killer := conn(t, c), conn(t, c)
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	const text, part = "REPEAT('a', 2000000)", "REPEAT('a', 500000), 'b'"
	const engines = "SELECT @@godwit_own_engine, " // which go-mysql-server runs
	for _, q := range []string{
		"SELECT SLEEP(10000)",
		"UPDATE t SET b = SLEEP(10000)",
		"SELECT LOCATE(CONCAT(" + part + "), " + text + ")",
		"SELECT " + text + " LIKE CONCAT('%', " + part + ", '%')",
		"SELECT COUNT(*) FROM t WHERE CONCAT(b, " + text + ") LIKE CONCAT('%', " + part + ", '%c%')",
		"SELECT JSON_SEARCH(JSON_ARRAY(" + text + "), 'one', CONCAT('%', " + part + ", '%c%'))",
		engines + text + " LIKE CONCAT('%', " + part + ", '%')",
		engines + "a FROM t WHERE CONCAT(b, " + text + ") LIKE CONCAT('%', " + part + ", '%c%')",
		engines + "a FROM t WHERE EXISTS (SELECT 1 FROM t x WHERE x.a = t.a AND CONCAT(t.b, " + text + ") NOT LIKE CONCAT('%', " + part +
			", '%c%'))",
		engines + "JSON_SEARCH(JSON_ARRAY(" + text + "), 'one', CONCAT('%', " + part + ", '%c%'))",
		"UPDATE t SET a = 2 WHERE CONCAT(b, " + text + ") LIKE CONCAT('%', " + part + ", '%c%')",
		"UPDATE t SET b = CONCAT(b, " + text + ") LIKE CONCAT('%', " + part + ", '%c%')",
		"UPDATE t SET b = JSON_SEARCH(JSON_ARRAY(" + text + "), 'one', CONCAT('%', " + part + ", '%c%'))",
		"UPDATE t JOIN t u ON CONCAT(u.b, " + text + ") LIKE CONCAT('%', " + part + ", '%c%') SET t.b = 'c'",
		"INSERT INTO t VALUES (9, " + text + " LIKE CONCAT('%', " + part + ", '%c%'))",
		"INSERT INTO t VALUES (1, 'c') ON DUPLICATE KEY UPDATE b = " + text + " LIKE CONCAT('%', " + part + ", '%c%')",
		"SET @x = " + text + " LIKE CONCAT('%', " + part + ", '%c%')",
		"DO " + text + " LIKE CONCAT('%', " + part + ", '%c%')",
	} {
		if strings.HasPrefix(q, engines) {
			exec(t, k, toEngine)
		}
		killOne(t, s, k, killer, id, q)
	}
	if n := s.g.query.Memory().Used(); n != 0 {
		t.Errorf("%d bytes were not given back", n)
	}
}

// TestKillParser: a statement ends when it is killed while its text is parsed, and one that was not
// killed is answered. The text that nobody wants any more is parsed to its end, by one lane.
func TestKillParser(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO t VALUES (1), (2), (3)")
	k, killer := conn(t, c), conn(t, c)
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	list := make([]byte, 0, 3<<20)
	for len(list) < 3<<20-2 {
		list = append(list, "1,"...)
	}
	for _, q := range []string{
		"SELECT COUNT(*) FROM t WHERE a = COALESCE(" + string(list) + "2)",
		"CREATE TABLE u (a INT) COMMENT '" + string(list[:100]) + "' SELECT COALESCE(" + string(list) + "2)",
	} {
		killOne(t, s, k, killer, id, q)
	}
	eventually(t, "the parsers end, and give all memory back", func() bool { return s.g.query.Memory().Used() == 0 })
	expect(t, k, "SELECT COUNT(*) FROM t WHERE a = COALESCE("+string(list[:1<<20])+"2)", "1")
}

// TestKillWeighed: a statement can be killed while its text is weighed, before anybody parses it.
// This one would be refused at the end. Whether KILL is in time depends on the machine.
func TestKillWeighed(t *testing.T) {
	s, c := newServer(t)
	k, killer := conn(t, c), conn(t, c)
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	q := "SELECT 1 IN (" + strings.Repeat("1,", 5<<20) + "2)" + strings.Repeat("+1", 150_000)
	for range 50 {
		ended := make(chan error, 1)
		go func() {
			_, err := k.ExecContext(context.Background(), q)
			ended <- err
		}()
		var err error
		for seen := false; err == nil; {
			select {
			case err = <-ended:
			default:
				for _, p := range s.g.engine.ProcessList.Processes() {
					seen = seen || p.Query == q
				}
				if seen {
					exec(t, killer, "KILL QUERY "+id)
					err = <-ended
				}
			}
		}
		if got := errNumber(t, err); got == 1317 {
			return
		} else if got != 1436 {
			t.Fatal(err)
		}
	}
	t.Error("it was never killed")
}

// TestKillPrepare: KILL ends the wait for a statement to be prepared, also while the protocol
// library parses it, which cannot be interrupted. The session goes on.
func TestKillPrepare(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(100))")
	k, killer := conn(t, c), conn(t, c)
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	q := "INSERT INTO t VALUES " + strings.Repeat("(1,2,'x'),", 100_000) + "(?,1,'y')"
	for i := range 50 {
		killed := make(chan error, 1)
		time.AfterFunc(time.Duration(10+10*i)*time.Millisecond, func() {
			_, err := killer.ExecContext(context.Background(), "KILL QUERY "+id)
			killed <- err
		})
		st, err := k.PrepareContext(t.Context(), q)
		if err := <-killed; err != nil { // it must not meet what comes later
			t.Fatal(err)
		}
		if err == nil { // it came too early, or too late
			st.Close()
			continue
		}
		if errNumber(t, err) != 1317 {
			t.Fatal(err)
		}
		expect(t, k, "SELECT 1", "1")
		return
	}
	t.Error("none was killed")
}

// TestPrepareRefusedAgain: long statements that cannot be prepared do not add up to one that is too
// long.
func TestPrepareRefusedAgain(t *testing.T) {
	_, c := newServer(t)
	k := conn(t, c)
	for range 3 {
		_, err := k.PrepareContext(t.Context(), "SELECT "+strings.Repeat("1 OR ", 120_000)+"?")
		if n := errNumber(t, err); n != 1436 {
			t.Fatal(err)
		}
		if _, err := k.PrepareContext(t.Context(), "SELECT ("+strings.Repeat("1,", 300_000)); errNumber(t, err) == 0 {
			t.Fatal("half a statement is prepared")
		}
	}
	expect(t, k, "SELECT 1", "1")
}

// TestKilledInTransaction: KILL of a statement that waits for a lock takes back what the statement
// has done, and nothing else of its transaction.
func TestKilledInTransaction(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	exec(t, c, "INSERT INTO t VALUES (1, 0), (7, 0)")
	for i, q := range []string{"UPDATE t SET b = 1 WHERE a = 7", "UPDATE t SET b = 1 WHERE a IN (1, 7)", "UPDATE t SET b = b + 1",
		"SELECT * FROM t WHERE a = 7 FOR UPDATE", "DELETE FROM t WHERE a + 0 > 0", toEngine, "DELETE FROM t WHERE a > 0",
		"UPDATE t SET b = 1 ORDER BY a"} {
		k, killer, locker := conn(t, c), conn(t, c), conn(t, c)
		id := query(t, k, "SELECT CONNECTION_ID()")[0]
		if i > 4 {
			exec(t, k, toEngine)
		}
		exec(t, k, "BEGIN")
		exec(t, k, fmt.Sprintf("INSERT INTO t VALUES (%d, 5)", 100+i))
		exec(t, locker, "BEGIN") // after the other one, which so waits for it
		exec(t, locker, "UPDATE t SET b = 9 WHERE a = 7")
		if q == toEngine {
			q = "UPDATE t SET b = 1 WHERE a = 7"
		}
		ended := make(chan error, 1)
		go func() {
			_, err := k.ExecContext(context.Background(), q)
			ended <- err
		}()
		eventually(t, "it runs", func() bool {
			return query(t, killer, "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Query' AND id = "+id)[0] == "1"
		})
		time.Sleep(50 * time.Millisecond) // it waits by now, most of the time
		exec(t, killer, "KILL QUERY "+id)
		if n := errNumber(t, <-ended); n != 1317 {
			t.Errorf("%s: error %d, want 1317", q, n)
		}
		exec(t, k, "COMMIT")
		exec(t, locker, "ROLLBACK")
		expect(t, c, "SELECT b FROM t WHERE a IN (1, 7)", "0", "0")
		expect(t, c, fmt.Sprintf("SELECT b FROM t WHERE a = %d", 100+i), "5")
	}
}
