package sim

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"
)

// shipped is the number of updates that the owners have evaluated.
func (s *stage) shipped() (n int64) {
	for _, h := range s.hosts {
		for _, r := range h.up().node.Owners().Replicas() {
			n += r.Stats().Patches.Load()
		}
	}
	return n
}

// TestShippedStatements: which UPDATE statements of a cross-region transaction are shipped to the
// owners. Their effect is the same as without.
func TestShippedStatements(t *testing.T) {
	forwardStage(t, func(s *stage, l *rtLab, c *sql.Conn) {
		ctx := context.Background()
		l.exec(c, "INSERT INTO f VALUES (101, 0)")
		l.exec(c, "CREATE TABLE g (id INT PRIMARY KEY, n TINYINT, u INT, w VARCHAR(10), d DECIMAL(6,2), KEY (u))")
		db2, c2 := l.sqlConn(2, "d")
		defer db2.Close()
		defer c2.Close()
		l.exec(c2, "INSERT INTO g VALUES (1, 100, 1, 'x', 10.5), (2, NULL, 1, 'x', NULL)")
		time.Sleep(3 * time.Second)
		l.exec(c, "SET transaction_consistency = 'relay'")
		for i, q := range []struct {
			before, text string
			changed      int64
			ships        bool
		}{
			{"", "UPDATE f SET v = v + 1 WHERE id = 1", 1, true},
			{"", "UPDATE f SET v = v - 3 WHERE id = 1", 1, true},
			{"", "UPDATE f SET v = 7 WHERE id = 1", 1, true},
			{"", "UPDATE f SET v = 7 WHERE id = 1", 0, false}, // no change, which may not change
			{"", "UPDATE f SET v = NULL WHERE id = 1", 1, true},
			{"", "UPDATE f SET v = v + 1 WHERE id = 1", 0, false}, // NULL + 1
			{"", "UPDATE f SET v = v + 1 WHERE id = 77", 0, false},
			{"SELECT v FROM f WHERE id = 2", "UPDATE f SET v = v + 1 WHERE id = 2", 1, false},
			{"", "UPDATE f SET v = v + 1 WHERE id > 1 AND id < 4", 2, false},
			{"", "UPDATE f SET v = v * 2 WHERE id = 2", 1, false},
			{"", "UPDATE g SET n = n + 27 WHERE id = 1", 1, true},
			{"", "UPDATE g SET w = 'yy', n = n - 1 WHERE id = 1", 1, true},
			{"", "UPDATE g SET u = u + 1 WHERE id = 1", 1, false},
			{"", "UPDATE g SET n = 5 WHERE id = 2", 1, true},
			{"", "UPDATE g SET d = d + 1.25 WHERE id = 1", 1, true},
			{"", "UPDATE g SET d = d - 3, n = n - 1 WHERE id = 1", 1, true},
			{"", "UPDATE g SET d = d + 0.005 WHERE id = 1", 1, false}, // is rounded
			{"", "UPDATE g SET d = d + 1.25 WHERE id = 2", 0, false},  // NULL + 1.25
		} {
			was := s.shipped()
			l.exec(c, "BEGIN")
			l.exec(c, "INSERT INTO f VALUES (?, 0)", 200+i) // of this region
			if q.before != "" {
				rows, err := c.QueryContext(ctx, q.before)
				if err != nil {
					t.Fatal(err)
				}
				for rows.Next() {
				}
				rows.Close()
			}
			start := time.Now()
			res, err := c.ExecContext(ctx, q.text)
			if err != nil {
				t.Fatalf("%s: %v", q.text, err)
			}
			if d := time.Since(start); q.ships && d > 5*time.Millisecond {
				t.Errorf("%s: took %v, as if it waited for the snapshot", q.text, d)
			}
			if n, err := res.RowsAffected(); err != nil || n != q.changed {
				t.Errorf("%s: %d rows changed, %v; want %d", q.text, n, err, q.changed)
			}
			l.exec(c, "COMMIT")
			time.Sleep(time.Second)
			if n := s.shipped() - was; (n > 0) != q.ships {
				t.Errorf("%s: %d updates were shipped", q.text, n)
			}
		}
		var v, n, u int
		var w, d string
		if err := c2.QueryRowContext(ctx, "SELECT v, n, u, w, d FROM f, g WHERE f.id = 2 AND g.id = 1").Scan(&v, &n,
			&u, &w, &d); err != nil || v != 4 || n != 125 || u != 2 || w != "yy" || d != "8.76" {
			t.Errorf("%d %d %d %q %s %v", v, n, u, w, d, err)
		}
		for q, want := range map[string]bool{"UPDATE f SET v = v + 1 WHERE id = 1": true,
			"UPDATE g SET u = u + 1 WHERE id = 1": false, "UPDATE f SET v = 1 WHERE v = 2": false} {
			var text strings.Builder
			rows, err := c.QueryContext(ctx, "EXPLAIN PLAN "+q)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var line string
				if err := rows.Scan(&line); err != nil {
					t.Fatal(err)
				}
				text.WriteString(line + "\n")
			}
			rows.Close()
			if strings.Contains(text.String(), "shipped") != want {
				t.Errorf("EXPLAIN %s: %s", q, text.String())
			}
		}
	})
}
