package sim

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// gateways holds a connection to a node of each region.
type gateways struct {
	l     *rtLab
	conns []*sql.Conn
}

func (g *gateways) exec(r base.RegionID, q string) {
	if _, err := g.conns[r-1].ExecContext(context.Background(), q); err != nil {
		g.l.t.Errorf("%s at region %d: %v", q, r, err)
	}
}

func (g *gateways) text(r base.RegionID, q string) (s string) {
	if err := g.conns[r-1].QueryRowContext(context.Background(), q).Scan(&s); err != nil {
		g.l.t.Errorf("%s at region %d: %v", q, r, err)
	}
	return s
}

// measure runs an autocommit statement and writes down what it cost.
func (g *gateways) measure(b budget, q string) {
	time.Sleep(time.Second)
	began := time.Now()
	_, err := g.conns[b.at-1].ExecContext(context.Background(), q)
	b.took = time.Since(began)
	if err == nil {
		err = g.conns[b.at-1].QueryRowContext(context.Background(), "SELECT @@last_statement_wan_rtts").Scan(&b.rtts)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", q, err)
	}
	g.l.check(b, err)
}

// homes measures the cost of rows with homes, through SQL on a cluster of its own.
func (l *rtLab) homes(cfg Config) {
	cfg.SQL, cfg.Stay = true, false
	onWorld(l.t, cfg, func(s *stage) {
		l.w = s.world
		time.Sleep(20 * time.Second) // leaders go home
		l.runHomes()
	})
}

func (l *rtLab) runHomes() {
	g := &gateways{l: l}
	for _, h := range l.w.hosts {
		db, c := l.connTo(h)
		defer db.Close()
		defer c.Close()
		g.conns = append(g.conns, c)
	}
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.counted (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT)",
		"CREATE TABLE d.uuids (id CHAR(36) PRIMARY KEY, v INT)", "CREATE TABLE d.t (g INT, id INT, v INT, PRIMARY KEY (g, id))",
		"CREATE TABLE d.x (g INT, id INT, v INT, w INT, PRIMARY KEY (g, id), KEY (w), KEY (v))"} {
		g.exec(1, q)
	}
	time.Sleep(5 * time.Second)
	n := base.RegionID(len(g.conns))
	for r := base.RegionID(1); r <= n; r++ {
		for i := range 10 {
			g.exec(r, fmt.Sprintf("INSERT INTO d.t VALUES (%d, %d, 0)", r, 1000*i))
			g.exec(r, fmt.Sprintf("INSERT INTO d.x VALUES (%d, %d, 0, %d)", r, 1000*i, i))
			g.exec(r, "INSERT INTO d.uuids VALUES (UUID(), 0)")
		}
	}
	for range 12 { // into both shards, and a while apart
		for r := base.RegionID(1); r <= n; r++ {
			g.exec(r, "INSERT INTO d.counted (v) VALUES (0)")
		}
		time.Sleep(3 * time.Second)
	}
	for r := base.RegionID(1); r <= n; r++ {
		g.measure(budget{op: "INSERT, AUTO_INCREMENT key, regions taking turns", at: r, exact: true, maxRTTs: 1,
			formula: "quorum", want: l.quorum(r)},
			"INSERT INTO d.counted (v) VALUES (0)")
		g.measure(budget{op: "INSERT, UUID() key", at: r, exact: true, maxRTTs: 1, formula: "quorum", want: l.quorum(r)},
			"INSERT INTO d.uuids VALUES (UUID(), 0)")
		for o := base.RegionID(1); o <= n; o++ {
			if o == r {
				continue
			}
			row := fmt.Sprintf(" WHERE g = %d AND id = %d", o, 1000*int(r))
			away := func(op string) budget {
				return budget{op: op, at: r, other: o, exact: true, maxRTTs: 2, formula: "RTT + quorum there",
					want: l.rtt(r, o) + l.quorum(o)}
			}
			home := func(op string) budget {
				return budget{op: op, at: r, other: o, exact: true, maxRTTs: 1, formula: "quorum", want: l.quorum(r)}
			}
			g.measure(away("INSERT, key in a gap of another region"),
				fmt.Sprintf("INSERT INTO d.t VALUES (%d, %d, 0)", o, 1000*int(r)+500))
			g.exec(r, "UPDATE d.t SET v = v + 1"+row)
			g.exec(r, "UPDATE d.t SET v = v + 1"+row)
			g.measure(away("UPDATE of a row of another region that comes home with it"), "UPDATE d.t SET v = v + 1"+row)
			g.measure(home("next UPDATE of that row"), "UPDATE d.t SET v = v + 1"+row)
			if got := g.text(r, "SELECT home_region FROM d.t__homes"+row); got != fmt.Sprint("r", r) {
				l.t.Errorf("%s is at home in %s after three updates from region %d", row, got, r)
			}
			g.exec(r, "UPDATE d.x SET v = v + 1"+row)
			g.exec(r, "UPDATE d.x SET v = v + 1"+row)
			g.measure(away("the same of a row with entries keyed by home"), "UPDATE d.x SET v = v + 1"+row)
			time.Sleep(time.Second)
			g.measure(home("next UPDATE of that row"), "UPDATE d.x SET v = v + 1"+row)
			if got := g.text(r, "SELECT CONCAT(h.home_region, x.w) FROM d.x x JOIN d.x__homes h "+
				"USING (g, id)"+strings.ReplaceAll(row, "WHERE g = ",
				"WHERE x.v = 4 AND x.g = ")); got != fmt.Sprintf("r%d%d", r, r) {
				l.t.Errorf("%s of d.x is %s after four updates from region %d", row, got, r)
			}
			for i, how := range []string{"an autocommit statement", "a transaction"} {
				row := fmt.Sprintf(" WHERE g = %d AND id = %d", o, 1000*int(r)+100+i)
				g.exec(o, fmt.Sprintf("INSERT INTO d.t VALUES (%d, %d, 0)", o, 1000*int(r)+100+i))
				for n := range 3 {
					if i == 1 {
						g.exec(r, "BEGIN")
					}
					op := fmt.Sprintf("SELECT ... FOR UPDATE in %s, of a row of another region that comes home behind it", how)
					if n < 2 {
						op = fmt.Sprintf("SELECT ... FOR UPDATE in %s, of a row of another region", how)
					}
					g.measure(budget{op: op, at: r, other: o, exact: true, maxRTTs: 1,
						formula: "RTT", want: l.rtt(r, o)}, "SELECT * FROM d.t"+row+" FOR UPDATE")
					if i == 1 {
						g.exec(r, "COMMIT")
					}
				}
				g.measure(home("next UPDATE of that row, a second later"), "UPDATE d.t SET v = v + 1"+row)
			}
			row = fmt.Sprintf(" WHERE g = %d AND id = 9000", o)
			g.measure(away("UPDATE t__homes of a row of another region, alone (forwarded)"),
				fmt.Sprintf("UPDATE d.t__homes SET home_region = 'r%d'%s", r, row))
			g.measure(home("next UPDATE of a row moved by statement"), "UPDATE d.t SET v = v + 1"+row)
			// for the next region
			g.exec(r, fmt.Sprintf("UPDATE d.t__homes SET home_region = 'r%d'%s", o, row))
			time.Sleep(time.Second)
		}
	}
}
