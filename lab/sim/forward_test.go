package sim

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
)

// forwardStage is a quiet cluster of three regions with SQL: rows 1 to 9 of table f live in region
// 2.
func forwardStage(t *testing.T, play func(s *stage, l *rtLab, c *sql.Conn)) {
	t.Helper()
	cfg := stageConfig(3)
	cfg.SQL, cfg.Stay = true, true
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(15 * time.Second) // leaders go home
		l := &rtLab{t: t, w: s.world}
		db, c := l.sqlConn(2, "")
		l.exec(c, "CREATE DATABASE d")
		l.exec(c, "CREATE TABLE d.f (id INT PRIMARY KEY, v INT)")
		for i := 1; i < 10; i++ {
			l.exec(c, "INSERT INTO d.f VALUES (?, 0)", i)
		}
		c.Close()
		db.Close()
		time.Sleep(5 * time.Second)
		db, c = l.sqlConn(1, "d")
		defer db.Close()
		defer c.Close()
		play(s, l, c)
	})
}

func (s *stage) forwarded(n int) (asked, executed int64) {
	st := s.hosts[n-1].up().node.Statements()
	return st.Forwarded.Load(), st.Executed.Load()
}

func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// value reads v of a row of f through a region.
func (l *rtLab) value(r base.RegionID, id int) int {
	db, c := l.sqlConn(r, "d")
	defer db.Close()
	defer c.Close()
	v := -1
	if err := c.QueryRowContext(context.Background(), "SELECT v FROM f WHERE id = ?", id).Scan(&v); err != nil {
		l.t.Error(err)
	}
	return v
}

// TestForwardCounts: both ends count a forwarded statement, and its cost is the total.
func TestForwardCounts(t *testing.T) {
	forwardStage(t, func(s *stage, l *rtLab, c *sql.Conn) {
		l.exec(c, "UPDATE f SET v = v + 1 WHERE id = 1")
		var rtts float64
		if err := c.QueryRowContext(context.Background(),
			"SELECT @@last_statement_wan_rtts").Scan(&rtts); err != nil || rtts != 2 {
			t.Errorf("%v round trips, %v; want 2", rtts, err)
		}
		a, _ := s.forwarded(1)
		_, e := s.forwarded(2)
		if a != 1 || e != 1 {
			t.Errorf("%d statements forwarded, %d executed, want 1", a, e)
		}
		if n := s.hosts[1].up().node.Statements().Kind("update").Latency.Snapshot().Count(); n != 0 {
			t.Errorf("the executor counts %d UPDATE of its own clients", n)
		}
		if v := l.value(3, 1); v != 1 {
			t.Errorf("v is %d, want 1", v)
		}
	})
}

// TestForwardLeaderMoved: statements on rows whose group is led from outside of its home are
// forwarded to that leader. A statement that was sent to a former leader is executed all the same.
func TestForwardLeaderMoved(t *testing.T) {
	forwardStage(t, func(s *stage, l *rtLab, c *sql.Conn) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 40 {
				l.exec(c, "UPDATE f SET v = v + 1 WHERE id IN (1, 2)")
			}
		}()
		time.Sleep(time.Second)
		s.move(base.DataGroup(1, 2), 3)
		<-done
		if a, b := l.value(1, 1), l.value(2, 2); a != 40 || b != 40 {
			t.Errorf("v is %d and %d, want 40", a, b)
		}
		if _, e := s.forwarded(3); e == 0 {
			t.Error("nothing was forwarded to the leader that stands in")
		}
		if _, e := s.forwarded(2); e == 0 {
			t.Error("nothing was forwarded before the leader moved")
		}
	})
}

// TestForwardConflictsAsLocal: a statement that meets an older transaction's lock is finally
// aborted. As its age stays, a later attempt waits for the lock of a younger transaction, until its
// timeout. Forwarded statements behave like local ones.
func TestForwardConflictsAsLocal(t *testing.T) {
	forwardStage(t, func(s *stage, l *rtLab, _ *sql.Conn) {
		db, holder := l.sqlConn(2, "d")
		defer db.Close()
		defer holder.Close()
		for _, mode := range []string{"ON", "OFF"} {
			db, c := l.sqlConn(1, "d")
			l.exec(c, "SET godwit_forward = "+mode)
			before, _ := s.forwarded(1)
			for i, want := range []uint16{1213, 1205} {
				l.exec(holder, "BEGIN")
				l.exec(holder, "UPDATE f SET v = 100 WHERE id = 1")
				time.Sleep(20 * time.Millisecond)
				start := time.Now()
				_, err := c.ExecContext(context.Background(), "UPDATE f SET v = v + 1 WHERE id = 1")
				if took := time.Since(start); number(err) != want || took < 10*time.Second || took > 11*time.Second {
					t.Errorf("godwit_forward %s, attempt %d: %v after %v, want error %d after 10 s", mode, i+1, err, took, want)
				}
				l.exec(holder, "ROLLBACK")
			}
			if after, _ := s.forwarded(1); (after-before == 2) != (mode == "ON") {
				t.Errorf("godwit_forward %s: %d statements were forwarded", mode, after-before)
			}
			c.Close()
			db.Close()
		}
		if v := l.value(1, 1); v != 0 {
			t.Errorf("v is %d, want 0", v)
		}
	})
}

// TestForwardExecutorDies: whenever the executor dies, the client hears that its statement was
// done, and it was done once.
func TestForwardExecutorDies(t *testing.T) {
	for after := 10 * time.Millisecond; after < 220*time.Millisecond; after += time.Duration(some(60, 10)) * time.Millisecond {
		forwardStage(t, func(s *stage, l *rtLab, c *sql.Conn) {
			done := make(chan error, 1)
			began := time.Now()
			go func() {
				_, err := c.ExecContext(context.Background(), "UPDATE f SET v = v + 1 WHERE id = 1")
				done <- err
			}()
			time.Sleep(after)
			s.hosts[1].crash()
			if err := <-done; err != nil {
				t.Errorf("death after %v: the client saw %v", after, err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("death after %v: the answer took %v", after, took)
			}
			time.Sleep(20 * time.Second) // another region leads
			if v := l.value(1, 1); v != 1 {
				t.Errorf("death after %v: v is %d, want 1", after, v)
			}
			s.hosts[1].boot()
		})
	}
}

// TestForwardAskerDies: the statement of a gateway that dies leaves no lock behind, and takes
// effect once or not at all.
func TestForwardAskerDies(t *testing.T) {
	forwardStage(t, func(s *stage, l *rtLab, c *sql.Conn) {
		db, holder := l.sqlConn(2, "d")
		defer db.Close()
		defer holder.Close()
		l.exec(holder, "BEGIN")
		l.exec(holder, "UPDATE f SET v = 10 WHERE id = 1")
		go func() { _, _ = c.ExecContext(context.Background(), "UPDATE f SET v = v + 1 WHERE id = 1") }()
		time.Sleep(80 * time.Millisecond)
		s.hosts[0].crash()
		time.Sleep(5 * time.Second)
		l.exec(holder, "COMMIT")
		if v := l.value(2, 1); v != 10 {
			t.Errorf("v is %d, want 10: the statement's client is gone", v)
		}
		l.exec(holder, "UPDATE f SET v = v + 1 WHERE id = 1")
		s.hosts[0].boot()
	})
}
