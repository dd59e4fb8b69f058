package whatif

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/recording"
)

// scenario is a workload, and a change of the cluster under it. It is recorded, the change is
// predicted from the recording, and then the workload itself runs on a cluster that is changed.
type scenario struct {
	name    string
	regions []string
	create  []string
	// load are the statements of a round of a client, with "?" for args.
	load   func(round, region, client int) []stmt
	rounds int
	// longer is how many times as many rounds there are in long runs, 2 at least: where statements
	// wait for each other's locks a recording has to be long, so that its share of changes is
	// everyone's.
	longer int
	think  time.Duration
	change Change
	// blind: it was written before the player had ever run, and nothing was changed because of it,
	// but for more rounds of all of them.
	blind bool
	// long: it is left out of short test runs.
	long bool
}

type stmt struct {
	q    string
	args []any
}

func q(text string, args ...any) stmt { return stmt{text, args} }

var three = []string{"us-east-1", "us-west-2", "eu-west-1"}

func fillRows(table string, n int) string {
	var rows []string
	for i := range n {
		rows = append(rows, fmt.Sprintf("(%d, 0, %d, 'row number %d of the table')", i, 1000+i, i))
	}
	return "INSERT INTO " + table + " VALUES " + strings.Join(rows, ", ")
}

const tableT = "CREATE TABLE t (id INT PRIMARY KEY, v INT, code INT, note VARCHAR(40))"

// mix is a number that looks random.
func mix(a ...int) int {
	x := uint64(0x9e3779b97f4a7c15)
	for _, v := range a {
		x ^= uint64(v) + 0x9e3779b97f4a7c15 + x<<6 + x>>2
		x *= 0xff51afd7ed558ccd
		x ^= x >> 33
	}
	return int(x >> 1)
}

var scenarios = []scenario{
	{
		name: "a price list that all regions read becomes GLOBAL", regions: three,
		create: []string{tableT, fillRows("t", 30), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region, client int) []stmt {
			if region == 0 && mix(round, client)%10 == 0 {
				return []stmt{q("UPDATE t SET v = v + 1 WHERE id = ?", mix(round, client, 1)%30)}
			}
			return []stmt{q("SELECT v, note FROM t WHERE id = ?", mix(round, client, 2)%30)}
		},
		rounds: 500, think: 40 * time.Millisecond, change: Change{Localities: map[string]string{"d.t": "GLOBAL"}},
	},
	{
		name: "a table moves to the region that uses it", regions: three,
		create: []string{tableT + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fillRows("t", 60)},
		load: func(round, region, client int) []stmt {
			id := mix(round, client, region) % 60
			switch {
			case region == 2:
				return []stmt{q("SELECT v, note FROM t WHERE id = ?", id), q("UPDATE t SET v = v + 1 WHERE id = ?", id)}
			case region == 1:
				return []stmt{q("SELECT v, note FROM t WHERE id = ?", id)}
			}
			return nil
		},
		rounds: 500, think: 50 * time.Millisecond,
		change: Change{Localities: map[string]string{"d.t": "REGIONAL BY TABLE IN 'eu-west-1'"}},
	},
	{
		name: "a log of clicks becomes asynchronous", regions: three,
		create: []string{"CREATE TABLE log (region INT, client INT, n INT, page VARCHAR(60), PRIMARY KEY (region, client, n))"},
		load: func(round, region, client int) []stmt {
			return []stmt{q("INSERT INTO log VALUES (?, ?, ?, ?)", region, client, round, strings.Repeat("page ", 1+mix(round)%10))}
		},
		rounds: 400, think: 20 * time.Millisecond, change: Change{Do: []string{"ALTER TABLE d.log SET REPLICATION ASYNC"}},
	},
	{
		name: "counters of all regions become MULTI MASTER", long: true, regions: three,
		create: []string{tableT + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fillRows("t", 90)},
		load: func(round, region, client int) []stmt {
			id := 3*(mix(round, client, region)%30) + region
			if mix(round, client)%4 == 0 {
				return []stmt{q("UPDATE t SET v = v + 1 WHERE id = ?", id)}
			}
			return []stmt{q("SELECT v FROM t WHERE id = ?", mix(round, region)%90)}
		},
		rounds: 600, think: 60 * time.Millisecond, change: Change{Localities: map[string]string{"d.t": "MULTI MASTER"}},
	},
	{
		name: "rows that are found by a column get a unique index", regions: three,
		create: []string{tableT, fillRows("t", 90)},
		load: func(round, region, client int) []stmt {
			return []stmt{q("UPDATE t SET v = v + 1 WHERE code = ?", 1000+30*region+10*client+mix(round)%10)}
		},
		rounds: 80, think: 300 * time.Millisecond, change: Change{Do: []string{"ALTER TABLE d.t ADD UNIQUE INDEX (code)"}},
	},
	{
		name: "what a procedure, a trigger and a view use becomes GLOBAL", regions: three,
		create: []string{tableT + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fillRows("t", 60),
			"CREATE TABLE log (region INT, client INT, n INT, what VARCHAR(20), PRIMARY KEY (region, client, n))",
			"CREATE TABLE seen (id INT, v INT, PRIMARY KEY (id, v)) LOCALITY REGIONAL BY TABLE IN 'us-east-1'",
			"CREATE VIEW dear (number, amount) AS SELECT id, v FROM t WHERE code > 1015",
			"CREATE FUNCTION worded(x INT) RETURNS VARCHAR(20) DETERMINISTIC RETURN CONCAT('order ', x)",
			"CREATE TRIGGER after_t AFTER UPDATE ON t FOR EACH ROW INSERT INTO seen VALUES (NEW.id, NEW.v)",
			"CREATE PROCEDURE buy(r INT, c INT, num INT, which INT) BEGIN\n" +
				"IF num < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'what a number'; END IF;\n" +
				"UPDATE t SET v = v + 1 WHERE id = which; INSERT INTO log VALUES (r, c, num, worded(which)); END"},
		load: func(round, region, client int) []stmt {
			if region == 0 {
				if round%3 > 0 {
					return nil
				}
				return []stmt{q("CALL buy(?, ?, ?, ?)", region, client, round, 20*client+mix(round, client, 1)%20)}
			}
			return []stmt{q("SELECT amount FROM dear WHERE number = ?", mix(round, client)%60)}
		},
		rounds: 120, think: 200 * time.Millisecond, change: Change{Localities: map[string]string{"d.t": "GLOBAL"}},
	},
	{
		name: "a table with a placement lies everywhere", long: true, regions: append(three[:3:3], "ap-northeast-1", "sa-east-1"),
		create: []string{"CREATE PLACEMENT near REGIONS ('us-east-1', 'us-west-2', 'eu-west-1')",
			tableT + " PLACEMENT near LOCALITY REGIONAL BY TABLE IN 'us-west-2'", fillRows("t", 60)},
		load: func(round, region, client int) []stmt {
			switch id := 20*client + mix(round, client, region)%20; {
			case region == 1:
				return []stmt{q("UPDATE t SET v = v + 1 WHERE id = ?", id)}
			case region == 3:
				return []stmt{q("SELECT v, note FROM t WHERE id = ?", id)}
			}
			return nil
		},
		rounds: 250, think: 50 * time.Millisecond, change: Change{Do: []string{"ALTER TABLE d.t SET PLACEMENT NONE"}},
	},
	{
		name: "a queue, of which rows are gone since, becomes asynchronous", regions: three,
		create: []string{"CREATE TABLE queue (region INT, client INT, n INT, what VARCHAR(20), PRIMARY KEY (region, client, n))"},
		load: func(round, region, client int) []stmt {
			return []stmt{q("INSERT INTO queue VALUES (?, ?, ?, ?)", region, client, round, strings.Repeat("x", 1+mix(round)%10)),
				q("DELETE FROM queue WHERE region = ? AND client = ? AND n = ?", region, client, round-30)}
		},
		rounds: 60, longer: 4, think: 100 * time.Millisecond, change: Change{Do: []string{"ALTER TABLE d.queue SET REPLICATION ASYNC"}},
	},
	{
		name: "a region is added where a part of the clients is", long: true, regions: three,
		create: []string{tableT, fillRows("t", 200)},
		load: func(round, region, client int) []stmt {
			id := 60*region + 20*client + mix(round)%20
			return []stmt{q("SELECT v, note FROM t WHERE id = ?", id), q("UPDATE t SET v = v + 1 WHERE id = ?", id)}
		},
		rounds: 400, think: 50 * time.Millisecond,
		change: Change{Add: []string{"ap-northeast-1"}, Clients: []Move{{"us-west-2", "ap-northeast-1", 1.0 / 3}}},
	},
	{
		name: "a region is dropped", long: true, regions: []string{"us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1"},
		create: []string{tableT, fillRows("t", 240)},
		load: func(round, region, client int) []stmt {
			id := 60*region + 20*client + mix(round)%20
			return []stmt{q("SELECT v, note FROM t WHERE id = ?", id), q("UPDATE t SET v = v + 1 WHERE id = ?", id)}
		},
		rounds: 400, think: 50 * time.Millisecond, change: Change{Drop: []string{"us-west-2"}},
	},
	{
		name: "transfers in transactions, and a table goes to one region", long: true, regions: three,
		create: []string{tableT, fillRows("t", 120), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region, client int) []stmt {
			a, b := mix(round, client, region)%120, mix(round, client, region, 1)%120
			if a == b {
				b = (a + 1) % 120
			}
			return []stmt{q("BEGIN"), q("UPDATE t SET v = v - ? WHERE id = ?", 25, min(a, b)), q("UPDATE t SET v = v + ? WHERE id = ?", 25, max(a, b)),
				q("COMMIT")}
		},
		rounds: 250, longer: 4, think: 400 * time.Millisecond,
		change: Change{Localities: map[string]string{"d.t": "REGIONAL BY TABLE IN 'us-west-2'"}},
	},
	{
		name: "five regions read a price list, which becomes GLOBAL", long: true, blind: true,
		regions: []string{"us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1"},
		create:  []string{tableT, fillRows("t", 50), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region, client int) []stmt {
			if region == 3 && client == 0 && round%4 == 0 {
				return []stmt{q("UPDATE t SET v = v + 1, note = ? WHERE id = ?", fmt.Sprint("changed in round ", round), mix(round)%50)}
			}
			return []stmt{q("SELECT v, note FROM t WHERE id = ?", mix(round, client, region)%50)}
		},
		rounds: 400, think: 50 * time.Millisecond, change: Change{Localities: map[string]string{"d.t": "GLOBAL"}},
	},
	{
		name: "orders with customers, longer ways", long: true, blind: true, regions: three,
		create: []string{"CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR(30), town VARCHAR(20), KEY (town)) LOCALITY GLOBAL",
			"INSERT INTO customer VALUES (1, 'Ann', 'Oslo'), (2, 'Bob', 'Rome'), (3, 'Cy', 'Oslo'), (40, 'Di', 'Bern')",
			"CREATE TABLE orders (id INT PRIMARY KEY, customer INT, total DECIMAL(8,2), made DATE, KEY (customer))"},
		load: func(round, region, client int) []stmt {
			id := 100000*region + 10000*client + round
			c := []int{1, 2, 3, 40}[mix(round, client)%4]
			return []stmt{q("INSERT INTO orders VALUES (?, ?, ?, ?)", id, c, fmt.Sprintf("%d.50", 100+mix(round)%900), "2026-03-"+fmt.Sprintf("%02d", 1+round%28)),
				q("SELECT o.total, c.name FROM orders o JOIN customer c ON c.id = o.customer WHERE o.id = ?", id)}
		},
		rounds: 300, think: 80 * time.Millisecond,
		change: Change{Matrix: &matrix.Matrix{Names: three, RTT: [][]time.Duration{{0, 120e6, 180e6}, {120e6, 0, 240e6}, {180e6, 240e6, 0}}}},
	},
	{
		name: "stock that all regions take from stays, and reads may be a moment old", long: true, blind: true, regions: three,
		create: []string{tableT, fillRows("t", 40), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region, client int) []stmt {
			if mix(round, region, client)%5 == 0 {
				return []stmt{q("UPDATE t SET v = v - 1 WHERE id = ?", mix(round, client, region, 2)%40)}
			}
			return []stmt{q("SELECT SUM(v) FROM t WHERE code > ?", 1000+mix(round)%30)}
		},
		rounds: 500, longer: 8, think: 60 * time.Millisecond, change: Change{Session: []string{"SET read_staleness = '0.3s'"}},
	},
}

const clientsOfRegion = 3

// TestPredictions: what is predicted of each kind of statement comes true within 15 %: p50, p99 and
// bytes sent over the WAN.
func TestPredictions(t *testing.T) {
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.name, func(t *testing.T) {
			if s.long && !long() {
				t.Skip("takes long: set GODWIT_LONG=1")
			}
			if long() {
				s.rounds *= max(2, s.longer)
			}
			s.run(t)
		})
	}
}

func long() bool { return os.Getenv("GODWIT_LONG") != "" }

func (s *scenario) run(t *testing.T) {
	var file *recording.File
	if err := virtual(func() (err error) { file, err = s.record(); return err }); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range file.Sessions {
		n += len(x.Steps)
	}
	// Of some hundred statements p99 is a matter of chance, in what is predicted and in what comes.
	plays, runs := 1, 2
	if long() {
		plays, runs = Plays(file), 8
		if s.longer > 0 {
			plays, runs = 4, 8
		}
	}
	began := time.Now()
	played, err := Play(t.Context(), file, Change{}, plays)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Play(t.Context(), file, s.change, plays)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d statements in %d sessions were played %d times as they were, and as often changed, in %v", n, len(file.Sessions), plays,
		time.Since(began).Round(time.Millisecond))
	lines := Compare(Measured(file), played, after)
	var got *Run
	if err := virtual(func() (err error) { got, err = s.measure(runs); return err }); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, l := range lines {
		if l.Broken > 0 {
			t.Errorf("%s %s: %d of %d failed in the play only: %s", l.Region, l.Digest, l.Broken, l.N, l.Error)
		}
		m := got.by[l.Key]
		if m == nil {
			t.Errorf("%s %s: nothing was measured", l.Region, l.Digest)
			continue
		}
		g := figures(m, 0)
		verdict := "ok"
		checked++
		p, rest := after.by[l.Key], l.After.P50-after.by[l.Key].Quantile(0.5)
		if !agree(m, p, 0.5, rest) || !near(g.Bytes, l.After.Bytes, 32) || !agree(m, p, 0.99, rest) {
			verdict = "MISSED"
			t.Fail()
		}
		t.Logf("%-14s n %4d of %5d  p50 %6.1f -> %6.1f, came %6.1f  p99 %6.1f -> %6.1f, came %6.1f  trips %.2f -> %.2f, came %.2f  bytes %5.0f -> %5.0f, came %5.0f  %s: %s",
			l.Region, l.N, m.N, l.Measured.P50, l.After.P50, g.P50, l.Measured.P99, l.After.P99, g.P99, l.Measured.Trips, l.After.Trips, g.Trips,
			l.Measured.Bytes, l.After.Bytes, g.Bytes, short(l.Digest, 60), verdict)
	}
	if checked == 0 {
		t.Error("nothing was compared")
	}
	if !near(got.Rate(), after.Rate(), 1024) {
		t.Errorf("all bytes: %.1f KiB/s predicted, %.1f came", after.Rate()/1024, got.Rate()/1024)
	}
	t.Logf("all bytes: %.1f KiB/s as it is, %.1f predicted, %.1f came", played.Rate()/1024, after.Rate()/1024, got.Rate()/1024)
}

// near reports whether two figures agree within 15 %, or within the least that matters.
func near(got, want, least float64) bool { return math.Abs(got-want) <= max(0.15*want, least) }

// agree reports whether what came and what was predicted agree in a quantile within 15 %, or 1 ms,
// whatever chance does to few statements: in each of the two the share q of all that there could
// be is between two of its statements, but for three times in a thousand (three standard deviations
// of how many are below it, which is binomial). With some ten thousand statements these two are
// hardly apart, with a hundred p99 is anything above p96. rest, in ms, is what Compare adds.
func agree(came, predicted *Sum, q, rest float64) bool {
	between := func(s *Sum) (lo, hi float64) {
		d := 3 * math.Sqrt(q*(1-q)/float64(s.N))
		return s.Quantile(max(0, q-d)), s.Quantile(min(1, q+d))
	}
	lo, hi := between(came)
	pLo, pHi := between(predicted)
	least, most := pLo+rest, pHi+rest
	return hi >= least-max(0.15*least, 1) && lo <= most+max(0.15*most, 1)
}

// TestAgree: few statements tell little of p99, and still tell other medians apart; many tell.
func TestAgree(t *testing.T) {
	sum := func(n int, at func(i int) int) *Sum {
		s := &Sum{N: n}
		for i := range n {
			s.took = append(s.took, time.Duration(at(i*1000/n))*time.Millisecond)
		}
		return s
	}
	// Of a thousand, 14 and 6 wait for 900 ms, the others 400 and a little.
	more := func(i int) int {
		if i >= 986 {
			return 900
		}
		return 400 + i/20
	}
	fewer := func(i int) int {
		if i >= 994 {
			return 900
		}
		return 400 + i/20
	}
	if few := agree(sum(240, more), sum(120, fewer), 0.99, 0); !few {
		t.Error("p99 of 240 and 120 statements is no matter of chance")
	}
	for _, n := range []int{120, 10000} {
		if agree(sum(n, more), sum(n, func(i int) int { return 100 + more(i)*3/2 }), 0.5, 0) {
			t.Errorf("medians of 425 and 737 ms agree by %d statements", n)
		}
	}
	if agree(sum(10000, more), sum(10000, fewer), 0.99, 0) {
		t.Error("p99 of 900 and 450 ms agree by 10,000 statements")
	}
	if !agree(sum(10000, more), sum(10000, more), 0.99, 2) || agree(sum(10000, more), sum(10000, more), 0.99, 500) {
		t.Error("what is added does not count")
	}
}

// live starts a cluster, with the tables of the scenario.
func (s *scenario) live(c Change) (w *world, err error) {
	m, err := matrix.Open(matrix.AWS)
	if err == nil {
		m, err = m.Pick(s.regions...)
	}
	if err != nil {
		return nil, err
	}
	f := &recording.File{Shards: 2}
	for i, n := range m.Names {
		f.Regions = append(f.Regions, recording.Region{Name: n, Nodes: 1})
		f.RTT = append(f.RTT, nil)
		for j := range m.Names {
			f.RTT[i] = append(f.RTT[i], float64(m.RoundTrip(i, j))/1e6)
		}
		for range clientsOfRegion {
			f.Sessions = append(f.Sessions, recording.Session{Region: i})
		}
	}
	p, err := planned(f, c)
	if err != nil {
		return nil, err
	}
	w = &world{p: p}
	if err := w.start(); err != nil {
		return w, err
	}
	ctx := context.Background()
	conn, err := w.regions[0][0].Conn(ctx)
	if err != nil {
		return w, err
	}
	defer conn.Close()
	if err := run(ctx, conn, append([]string{"CREATE DATABASE d", "USE d"}, s.create...)...); err != nil {
		return w, err
	}
	time.Sleep(settle)
	return w, nil
}

// record runs the workload on the cluster as it is.
func (s *scenario) record() (f *recording.File, err error) {
	w, err := s.live(Change{})
	if w != nil {
		defer func() { err = errors.Join(err, w.close()) }()
	}
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := s.work(ctx, w, 0, nil); err != nil {
		return nil, err
	}
	for _, how := range []string{"off", "on"} { // begin anew
		if _, err := w.regions[0][0].ExecContext(ctx, "SET CLUSTER SETTING sql.statement_recording = "+how); err != nil {
			return nil, err
		}
		time.Sleep(5 * time.Second)
	}
	if err := s.work(ctx, w, 1, nil); err != nil {
		return nil, err
	}
	return w.nodes[0].Recording(ctx)
}

// measure runs the workload on a cluster that is changed, so many times.
func (s *scenario) measure(runs int) (r *Run, err error) {
	w, err := s.live(s.change)
	if w != nil {
		defer func() { err = errors.Join(err, w.close()) }()
	}
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	do := s.change.Do
	for t, c := range s.change.Localities {
		do = append(do, "ALTER TABLE "+t+" SET LOCALITY "+c)
	}
	for _, x := range do {
		if _, err := w.regions[0][0].ExecContext(ctx, x); err != nil {
			return nil, err
		}
	}
	time.Sleep(settle)
	if err := s.work(ctx, w, 2, nil); err != nil {
		return nil, err
	}
	r = &Run{by: map[Key]*Sum{}}
	for _, dbs := range w.regions {
		if _, err := dbs[0].ExecContext(ctx, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest"); err != nil {
			return nil, err
		}
	}
	before, began := w.wan.Load(), time.Now()
	for i := range runs {
		if err := s.work(ctx, w, 3+i, r); err != nil {
			return nil, err
		}
	}
	r.Took, r.WAN = time.Since(began), w.wan.Load()-before
	return r, w.costs(ctx, r)
}

// work runs a part of the rounds of all clients at once; half of the clients prepare their
// statements.
func (s *scenario) work(ctx context.Context, w *world, part int, r *Run) error {
	var wg sync.WaitGroup
	errs := make([]error, len(w.p.f.Sessions))
	for i := range w.p.f.Sessions {
		wg.Go(func() { errs[i] = s.client(ctx, w, i, part, r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *scenario) client(ctx context.Context, w *world, i, part int, r *Run) error {
	region, client := i/clientsOfRegion, i%clientsOfRegion
	c, err := w.regions[w.p.gateway[i]][0].Conn(ctx)
	if err != nil {
		return err
	}
	defer drop(c)
	first := []string{"USE d"}
	if r != nil {
		first = append(first, s.change.Session...)
	}
	if err := run(ctx, c, first...); err != nil {
		return err
	}
	time.Sleep(time.Duration(mix(region, client)%int(s.think)) * 1)
	for n := range s.rounds {
		all := s.load(part*s.rounds+n, region, client)
		for j := 0; j < len(all); j++ {
			x := all[j]
			text := x.q
			args := x.args
			if client%2 == 0 || len(args) == 0 {
				text, args = interpolate(text, args), nil
			}
			begin := time.Now()
			time.Sleep(w.p.trip[i] / 2)
			if strings.HasPrefix(text, "SELECT") {
				err = drain(c.QueryContext(ctx, text, args...))
			} else {
				_, err = c.ExecContext(ctx, text, args...)
			}
			time.Sleep(w.p.trip[i] / 2)
			var lost *mysql.MySQLError
			if errors.As(err, &lost) && lost.Number == 1213 {
				j = -1 // the round again
			} else if err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
			if r != nil {
				r.add(Key{w.p.at[i], "d", digest.Text(text, 0)}, time.Since(begin), nil, false)
			}
		}
		time.Sleep(s.think/2 + time.Duration(mix(n, region, client, part)%int(s.think)))
	}
	return nil
}

func drain(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

func interpolate(text string, args []any) string {
	var all []string
	for _, a := range args {
		if s, ok := a.(string); ok {
			a = recording.Quote(s)
		}
		all = append(all, fmt.Sprint(a))
	}
	return recording.Fill(text, all)
}
