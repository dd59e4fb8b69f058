package peers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
)

// mariaBulk is the figure of statements that change many rows. The two servers run each in turn.
const mariaBulk = "bulk"

// bulkStep is one statement of the figure. Before and after it come statements that are not timed.
type bulkStep struct {
	name          string
	before, after []string
	run           string
}

// bulkSteps are for a table bulk of so many rows, and sysbench's table of more.
func bulkSteps(rows, large int) []bulkStep {
	copyOf := "CREATE TABLE copied (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c VARCHAR(40))"
	fill := "INSERT INTO copied SELECT * FROM bulk"
	const drop = "DROP TABLE copied"
	return []bulkStep{
		{name: fmt.Sprintf("UPDATE of %d rows", rows), run: "UPDATE bulk SET a = a + 1"},
		{name: fmt.Sprintf("UPDATE of %d rows with an index", rows), run: "UPDATE bulk SET b = b + 1"},
		{name: fmt.Sprintf("INSERT ... SELECT of %d rows", rows), before: []string{copyOf}, run: fill, after: []string{drop}},
		{name: fmt.Sprintf("DELETE of %d rows", rows/2), before: []string{copyOf, fill},
			run: fmt.Sprintf("DELETE FROM copied WHERE id <= %d", rows/2), after: []string{drop}},
		{name: fmt.Sprintf("ADD INDEX over %d rows", large), run: "ALTER TABLE sbtest1 ADD INDEX another (k)",
			after: []string{"ALTER TABLE sbtest1 DROP INDEX another"}},
	}
}

// bulkClient is a connection to one of the servers.
type bulkClient struct {
	*server
	db    *sql.DB
	conn  *sql.Conn
	times map[string][]float64 // seconds, by step
	cpus  map[string][]float64 // seconds of CPU time of the server
}

// runBulk measures each step several times, the servers in turn, and emits the medians.
func runBulk(ctx context.Context, p rig.Params, god, maria *server, large int) (err error) {
	rows, rounds := 200_000, 3
	if p.Quick {
		rows, rounds = 20_000, 2
	}
	var clients []*bulkClient
	for _, s := range []*server{god, maria} {
		c, err := s.bulkClient(ctx, rows)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.conn.Close(), c.db.Close()) }()
		clients = append(clients, c)
	}
	steps := bulkSteps(rows, large)
	for range rounds {
		for _, st := range steps {
			for _, c := range clients {
				if err := c.step(ctx, st); err != nil {
					return err
				}
			}
		}
		for _, c := range clients {
			if err := c.load(ctx, large); err != nil {
				return err
			}
		}
	}
	names := []string{bulkLoad(large)}
	for _, st := range steps {
		names = append(names, st.name)
	}
	for _, name := range names {
		for _, c := range clients {
			fmt.Fprintf(p.Log, "%s %s: %s s, CPU %s s\n", c.Name, name, listed(c.times[name]), listed(c.cpus[name]))
		}
		if err := emitBulk(p, name, clients[0], clients[1]); err != nil {
			return err
		}
	}
	return nil
}

func bulkLoad(rows int) string { return fmt.Sprintf("sysbench's load of %d rows with an index", rows) }

func emitBulk(p rig.Params, name string, g, m *bulkClient) error {
	return errors.Join(
		p.Emit(rig.Line{Figure: "mariadb/" + mariaBulk, Series: "one statement", X: name, Metric: "time", Unit: "s",
			Value: middle(g.times[name]), Baseline: rig.Float(middle(m.times[name])), Better: rig.Lower}),
		p.Emit(rig.Line{Figure: "mariadb/" + mariaBulk, Series: "one statement", X: name, Metric: "server CPU", Unit: "s",
			Value: middle(g.cpus[name]), Baseline: rig.Float(middle(m.cpus[name])), Better: rig.Lower}))
}

// bulkClient connects, and fills the table bulk.
func (s *server) bulkClient(ctx context.Context, rows int) (c *bulkClient, err error) {
	c = &bulkClient{server: s, times: map[string][]float64{}, cpus: map[string][]float64{}}
	if c.db, err = rig.OpenMySQL(s.Port, "sbtest"); err != nil {
		return nil, err
	}
	if c.conn, err = c.db.Conn(ctx); err != nil {
		return nil, errors.Join(err, c.db.Close())
	}
	err = c.exec(ctx, "CREATE TABLE bulk (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c VARCHAR(40), KEY (b))")
	const batch = 1000
	for from := 1; from <= rows && err == nil; from += batch {
		var q strings.Builder
		for i := from; i < from+batch && i <= rows; i++ {
			sep := ", "
			if i == from {
				sep = "INSERT INTO bulk VALUES "
			}
			fmt.Fprintf(&q, "%s(%d, %d, %d, 'some text of row %d')", sep, i, i, i%1000, i)
		}
		err = c.exec(ctx, q.String())
	}
	if err != nil {
		return nil, errors.Join(err, c.conn.Close(), c.db.Close())
	}
	return c, nil
}

func (c *bulkClient) exec(ctx context.Context, statements ...string) error {
	for _, q := range statements {
		if _, err := c.conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %.80s: %w", c.Name, q, err)
		}
	}
	return nil
}

func (c *bulkClient) step(ctx context.Context, st bulkStep) error {
	if err := c.exec(ctx, st.before...); err != nil {
		return err
	}
	if err := c.timed(st.name, func() error { return c.exec(ctx, st.run) }); err != nil {
		return err
	}
	return c.exec(ctx, st.after...)
}

// load has sysbench fill a table in a database of its own, and build its index.
func (c *bulkClient) load(ctx context.Context, rows int) error {
	if err := c.exec(ctx, "CREATE DATABASE loaded"); err != nil {
		return err
	}
	if err := c.timed(bulkLoad(rows), func() error { return c.Prepare(ctx, "loaded", rows) }); err != nil {
		return err
	}
	return c.exec(ctx, "DROP DATABASE loaded")
}

// timed notes the time that a step takes, and the server's CPU time.
func (c *bulkClient) timed(name string, f func() error) error {
	before, err := c.CPU()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := f(); err != nil {
		return err
	}
	c.times[name] = append(c.times[name], time.Since(begin).Seconds())
	after, err := c.CPU()
	c.cpus[name] = append(c.cpus[name], (after - before).Seconds())
	return err
}

// middle is the median.
func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func listed(v []float64) string {
	var b strings.Builder
	for i, x := range v {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.2f", x)
	}
	return b.String()
}
