package peers

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

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

// bulkColumns are sysbench's: a row has about 190 bytes.
const bulkColumns = "id INT NOT NULL PRIMARY KEY, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', " +
	"pad CHAR(60) NOT NULL DEFAULT ''"

// bulkSteps are for a table bulk of so many rows, and sysbench's table of more, which file holds,
// too.
func bulkSteps(rows, large int, file string) []bulkStep {
	create := func(t, index string) string { return "CREATE TABLE " + t + " (" + bulkColumns + index + ")" }
	const indexed, plain = "copied", "copied_plain"
	fill := func(t string) string { return "INSERT INTO " + t + " SELECT * FROM bulk" }
	of := fmt.Sprintf(" of %d rows", rows)
	return []bulkStep{
		{name: "UPDATE" + of, run: "UPDATE bulk SET c = REVERSE(c), pad = REVERSE(pad)"},
		{name: "UPDATE" + of + ", of an indexed column", run: "UPDATE bulk SET k = k + 1"},
		{name: "INSERT ... SELECT" + of + ", with an index", before: []string{create(indexed, ", KEY (k)")}, run: fill(indexed)},
		{name: "DELETE" + of + ", with an index", run: "DELETE FROM " + indexed, after: []string{"DROP TABLE " + indexed}},
		{name: "INSERT ... SELECT" + of, before: []string{create(plain, "")}, run: fill(plain)},
		{name: "DELETE" + of, run: "DELETE FROM " + plain, after: []string{"DROP TABLE " + plain}},
		{name: fmt.Sprintf("ADD INDEX over %d rows", large), run: "ALTER TABLE sbtest1 ADD INDEX another (k)",
			after: []string{"ALTER TABLE sbtest1 DROP INDEX another"}},
		{name: fmt.Sprintf("LOAD DATA of %d rows, with an index", large), before: []string{create("loaded_file", ", KEY (k)")},
			run: "LOAD DATA LOCAL INFILE '" + file + "' INTO TABLE loaded_file", after: []string{"DROP TABLE loaded_file"}},
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
	rows, rounds := 200_000, 5
	if p.Quick {
		rows, rounds = 20_000, 2
	}
	file := filepath.Join(p.Dir, "bulk.tsv")
	if err := writeBulkFile(file, large); err != nil {
		return err
	}
	mysql.RegisterLocalFile(file)
	defer mysql.DeregisterLocalFile(file)
	var clients []*bulkClient
	for _, s := range []*server{god, maria} {
		c, err := s.bulkClient(ctx, rows)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.conn.Close(), c.db.Close()) }()
		clients = append(clients, c)
	}
	steps := bulkSteps(rows, large, file)
	for round := range rounds {
		for _, st := range steps {
			for i := range clients {
				c := clients[(i+round)%len(clients)]
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
	err = c.exec(ctx, "SET GLOBAL local_infile = 1", "CREATE TABLE bulk ("+bulkColumns+", KEY (k))")
	const batch = 1000
	r := rand.New(rand.NewPCG(1, 1))
	for from := 1; from <= rows && err == nil; from += batch {
		q := strings.Builder{}
		q.WriteString("INSERT INTO bulk VALUES ")
		for i := from; i < from+batch && i <= rows; i++ {
			if i > from {
				q.WriteString(", ")
			}
			fmt.Fprintf(&q, "(%d, %d, '%s', '%s')", i, 1+r.IntN(rows), digits(r, 10), digits(r, 5))
		}
		err = c.exec(ctx, q.String())
	}
	if err != nil {
		return nil, errors.Join(err, c.conn.Close(), c.db.Close())
	}
	return c, nil
}

// digits are groups of eleven digits, as sysbench has them.
func digits(r *rand.Rand, groups int) string {
	var b strings.Builder
	for i := range groups {
		if i > 0 {
			b.WriteByte('-')
		}
		fmt.Fprintf(&b, "%011d", r.Int64N(1e11))
	}
	return b.String()
}

// writeBulkFile writes so many rows for LOAD DATA.
func writeBulkFile(path string, rows int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(2, 2))
	for i := range rows {
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", i+1, 1+r.IntN(rows), digits(r, 10), digits(r, 5))
	}
	return w.Flush()
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
	if err := c.idle(ctx); err != nil {
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
	if err := c.idle(ctx); err != nil {
		return err
	}
	if err := c.timed(bulkLoad(rows), func() error { return c.Prepare(ctx, "loaded", rows) }); err != nil {
		return err
	}
	return c.exec(ctx, "DROP DATABASE loaded")
}

// idle waits until the server has done what earlier statements have left it to do: for two seconds
// it takes less than a tenth of a processor. It waits for a minute at most.
func (c *bulkClient) idle(ctx context.Context) error {
	for calm, n := 0, 0; calm < 4 && n < 120; n++ {
		before, err := c.CPU()
		if err != nil {
			return err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := c.CPU()
		if err != nil {
			return err
		}
		if calm++; after-before > 50*time.Millisecond {
			calm = 0
		}
	}
	return nil
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
