package node

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// trial is a workload, and an advice that it must lead to. The advice is taken, and what it has
// promised is compared with what the same workload takes then.
type trial struct {
	name   string
	create []string // in the first region
	load   func(round, region int) []string
	rounds int
	// regions is how many there are; 0: 3
	regions int
	// kind and do find the advice: its kind, and with what its statement ends.
	kind, do string
	tier     string // transaction.tier; empty: strict
}

const table = "CREATE TABLE t (id INT PRIMARY KEY, v INT, code INT)"

// fill is rows 0 to 29.
func fill() string {
	var rows []string
	for i := range 30 {
		rows = append(rows, fmt.Sprintf("(%d, 0, %d)", i, 1000+i))
	}
	return "INSERT INTO t VALUES " + strings.Join(rows, ", ")
}

func set(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }

var trials = []trial{
	{
		name:   "a price list that all regions read",
		create: []string{table, fill(), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region int) []string {
			q := set("SELECT v FROM t WHERE id = %d", round%30)
			if round%20 == 0 && region == 0 {
				q = append(q, set("UPDATE t SET v = v + 1 WHERE id = %d", round%30)...)
			}
			return q
		},
		rounds: 80, kind: "locality", do: "GLOBAL",
	},
	{
		name:   "a table that lives where nobody uses it",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fill()},
		load: func(round, region int) []string {
			switch region {
			case 2:
				return append(set("SELECT v FROM t WHERE id = %d", round%30), set("UPDATE t SET v = v + 1 WHERE id = %d", round%30)...)
			case 1:
				if round%4 == 0 {
					return set("SELECT v FROM t WHERE id = %d", round%30)
				}
			}
			return nil
		},
		rounds: 40, kind: "locality", do: "REGIONAL BY TABLE IN 'eu-west-1'",
	},
	{
		name:   "pinned rows that another region uses",
		create: []string{table, fill(), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region int) []string {
			if region != 1 {
				return nil
			}
			return append(set("UPDATE t SET v = v + 1 WHERE id = %d", round%30), set("SELECT v FROM t WHERE id = %d", round%30)...)
		},
		rounds: 40, kind: "locality", do: "REGIONAL BY TABLE IN 'us-west-2'",
	},
	{
		name:   "a log of clicks",
		create: []string{table, fill()},
		load: func(round, region int) []string {
			return set("INSERT INTO t VALUES (%d, %d, 0)", 1000*(region+1)+round, round)
		},
		rounds: 40, kind: "replication", do: "REPLICATION ASYNC",
	},
	{
		name:   "counters of all regions",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fill()},
		load: func(round, region int) []string {
			if (round+2*region)%5 == 0 {
				return set("UPDATE t SET v = v + 1 WHERE id = %d", 3*(round%10)+region)
			}
			return set("SELECT v FROM t WHERE id = %d", round%30)
		},
		rounds: 80, kind: "locality", do: "MULTI MASTER",
	},
	{
		name:   "a report that may be a moment old",
		create: []string{table, fill(), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region int) []string {
			q := set("SELECT SUM(v) FROM t WHERE code > %d", round)
			if region == 0 {
				q = append(q, set("UPDATE t SET v = v + 1 WHERE id = %d", round%30)...)
			}
			return q
		},
		rounds: 40, kind: "staleness", do: "s'",
	},
	{
		name:   "rows found by a column that is not declared unique",
		create: []string{table},
		load: func(round, region int) []string {
			if id := 100*region + round%8; round < 8 {
				return set("INSERT INTO t VALUES (%d, 0, %d)", id, id)
			} else {
				return set("UPDATE t SET v = v + 1 WHERE code = %d", id)
			}
		},
		rounds: 40, kind: "index", do: "ADD UNIQUE INDEX (`code`)",
	},
	{
		name:   "carts that lie in one region, and each is used in one",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fill()},
		load: func(round, region int) []string {
			return append(set("SELECT v FROM t WHERE id = %d", 10*region+round%10), set("UPDATE t SET v = v + 1 WHERE id = %d", 10*region+round%10)...)
		},
		rounds: 60, kind: "locality", do: "REGIONAL BY ROW",
	},
	{
		name:   "carts that are GLOBAL, and each is used in one region",
		create: []string{table + " LOCALITY GLOBAL", fill()},
		load: func(round, region int) []string {
			return set("UPDATE t SET v = v + 1 WHERE id = %d", 10*region+round%10)
		},
		rounds: 60, kind: "locality", do: "REGIONAL BY ROW",
	},
	{
		name:   "carts that are MULTI MASTER, and each is used in one region",
		create: []string{table + " LOCALITY MULTI MASTER", fill()},
		load: func(round, region int) []string {
			return append(set("SELECT v FROM t WHERE id = %d", 10*region+round%10), set("UPDATE t SET v = v + 1 WHERE id = %d", 10*region+round%10)...)
		},
		rounds: 60, kind: "locality", do: "`d`.`t__by_row` TO `d`.`t`",
	},
	{
		name:   "rows in one region: one in five is read everywhere, and the others are used in one region each",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fill()},
		load: func(round, region int) []string {
			if round%5 == 0 { // by the first region twice as often, so that they live there
				q := set("SELECT v FROM t WHERE id = %d", 25+round%2)
				if region == 0 {
					q = append(q, q[0])
				}
				return q
			}
			return set("UPDATE t SET v = v + 1 WHERE id = %d", 8*region+round%8)
		},
		rounds: 100, kind: "locality", do: "REGIONAL BY ROW",
	},
	{
		name:   "orders with a unique number that nobody looks for",
		create: []string{"CREATE TABLE t (id INT PRIMARY KEY, v INT, code INT, UNIQUE KEY codes (code))"},
		load: func(round, region int) []string {
			return set("INSERT INTO t VALUES (%d, 0, %d)", 10000*(region+1)+round, 3*round+region)
		},
		rounds: 60, kind: "index", do: "DROP INDEX `codes`",
	},
	{
		name:   "a table of two regions, whose quorum is farther away",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'sa-east-1'", fill()},
		load: func(round, region int) []string {
			switch region {
			case 4:
				return append(set("SELECT v FROM t WHERE id = %d", round%30), set("UPDATE t SET v = v + 1 WHERE id = %d", round%30)...)
			case 0:
				if round%4 == 0 {
					return set("SELECT v FROM t WHERE id = %d", round%30)
				}
			}
			return nil
		},
		rounds: 60, regions: 5, kind: "placement", do: "SET PLACEMENT `near_sa_east_1`",
	},
	{
		name:   "rows that move between two regions of five",
		create: []string{table},
		load: func(round, region int) []string {
			if region > 1 {
				return nil
			}
			if round < 12 {
				return set("INSERT INTO t VALUES (%d, 0, 0)", 100*region+round)
			}
			return append(set("UPDATE t SET v = v + 1 WHERE id = %d", 100*region+round%12), set("SELECT v FROM t WHERE id = %d", 100*region+round%12)...)
		},
		rounds: 60, regions: 5, kind: "placement", do: "SET PLACEMENT `near_us_west_2`",
	},
	{
		name:   "a catalogue that one region writes, and two far ones read",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'sa-east-1'", fill()},
		load: func(round, region int) []string {
			switch region {
			case 4:
				return set("UPDATE t SET v = v + 1 WHERE id = %d", round%30)
			case 2, 3:
				if round%3 == 0 {
					return set("SELECT v FROM t WHERE id = %d", round%30)
				}
			}
			return nil
		},
		rounds: 60, regions: 5, kind: "placement", do: "SET PLACEMENT `near_sa_east_1`",
	},
	{
		name:   "rows whose groups are led where nobody uses them",
		create: []string{table, fill(), "SET CLUSTER SETTING leader.pin = 's1@r1=3'"},
		load: func(round, region int) []string {
			if region != 0 {
				return nil
			}
			return append(set("SELECT v FROM t WHERE id = %d", round%30), set("UPDATE t SET v = v + 1 WHERE id = %d", round%30)...)
		},
		rounds: 40, kind: "leads", do: "leader.pin = DEFAULT",
	},
	{
		name:   "regions that may not lead",
		create: []string{table, "SET CLUSTER SETTING leader.may_lead = 'us-west-2'"},
		load: func(round, region int) []string {
			if round < 10 {
				return set("INSERT INTO t VALUES (%d, 0, 0)", 100*region+round)
			}
			return append(set("SELECT v FROM t WHERE id = %d", 100*region+round%10), set("UPDATE t SET v = v + 1 WHERE id = %d", 100*region+round%10)...)
		},
		rounds: 40, kind: "leads", do: "leader.may_lead = DEFAULT",
	},
	{
		name:   "a table in one region that another uses, and leads that do not follow",
		create: []string{"SET CLUSTER SETTING leader.mode = 'off'", table + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fill()},
		load: func(round, region int) []string {
			if region != 2 {
				return nil
			}
			return append(set("SELECT v FROM t WHERE id = %d", round%30), set("UPDATE t SET v = v + 1 WHERE id = %d", round%30)...)
		},
		rounds: 600, kind: "leads", do: "leader.mode = DEFAULT",
	},
	{
		name: "transactions of which some read another region",
		create: []string{table, fill(), "UPDATE t__homes SET home_region = 'us-west-2' WHERE id BETWEEN 10 AND 19",
			"UPDATE t__homes SET home_region = 'eu-west-1' WHERE id > 19", "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region int) []string {
			q := append(set("BEGIN"), set("UPDATE t SET v = v + 1 WHERE id = %d", 10*region+round%10)...)
			if round%2 == 0 {
				q = append(q, set("SELECT v FROM t WHERE id = %d", (10*region+10+round%10)%30)...)
			}
			return append(q, "COMMIT")
		},
		rounds: 80, kind: "tier", do: "transaction.tier = DEFAULT",
	},
	// Those that follow were not there while the model was made.
	{
		name:   "a price list that five regions read",
		create: []string{table, fill(), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round, region int) []string {
			if round%25 == 0 && region == 3 {
				return set("UPDATE t SET v = v + 1 WHERE id = %d", round%30)
			}
			return set("SELECT v FROM t WHERE id = %d", (round+region)%30)
		},
		rounds: 100, regions: 5, kind: "locality", do: "GLOBAL",
	},
	{
		name: "orders and their customers, of which the orders move",
		create: []string{table, fill(), "UPDATE t__homes SET pinned = TRUE",
			"CREATE TABLE customer (id INT PRIMARY KEY) LOCALITY GLOBAL", "INSERT INTO customer VALUES (1), (2)"},
		load: func(round, region int) []string {
			if region != 2 {
				return nil
			}
			return append(set("SELECT t.v FROM t JOIN customer c ON c.id = t.v WHERE t.code = %d", 1000+round%30),
				append(set("UPDATE t SET v = v + 1 WHERE id = %d", round%30), set("UPDATE t SET v = v - 1 WHERE id = %d", round%30)...)...)
		},
		rounds: 40, kind: "locality", do: "REGIONAL BY TABLE IN 'eu-west-1'",
	},
	{
		name:   "writes in four regions that may be lost with one",
		create: []string{table, fill()},
		load: func(round, region int) []string {
			if round%2 == 0 {
				return set("INSERT INTO t VALUES (%d, %d, 0)", 1000*(region+1)+round, round)
			}
			return set("UPDATE t SET v = v + 1 WHERE id = %d", 1000*(region+1)+round-1)
		},
		rounds: 40, regions: 4, kind: "replication", do: "REPLICATION ASYNC",
	},
}

// TestAdviceComesTrue takes advice in virtual time: p50, p99, round trips and bytes that it has
// promised to each region are those that are measured then, within 15 %.
func TestAdviceComesTrue(t *testing.T) {
	for _, x := range trials {
		t.Run(x.name, func(t *testing.T) { bubble(t, x.run) })
		if x.kind == "index" && strings.HasPrefix(x.do, "ADD") { // where transactions cross regions
			x.tier = "auto"
			t.Run(x.name+", auto", func(t *testing.T) { bubble(t, x.run) })
		}
	}
}

// sessionsIn are a client at each node, in a database that the first one makes after it has set
// something, and with what it makes in there.
func sessionsIn(t *testing.T, l *Local, set, create []string) (cs []*sql.Conn) {
	for i, n := range l.Nodes() {
		c := openSQL(t, n, "")
		if i == 0 {
			for _, q := range slices.Concat(set, []string{"CREATE DATABASE d", "USE d"}, create) {
				mustExec(t, c, q)
			}
		}
		mustExec(t, c, "USE d")
		cs = append(cs, c)
	}
	return cs
}

func (x trial) run(t *testing.T) {
	l := startLocal(t, cmp.Or(x.regions, 3), 1)
	cs := sessionsIn(t, l, []string{"SET CLUSTER SETTING transaction.tier = '" + cmp.Or(x.tier, "strict") + "'"}, x.create)
	time.Sleep(10 * time.Second) // leads and definitions have settled
	x.play(t, cs, 0)
	x.forget(t, l)
	x.play(t, cs, 1)
	promised, do := x.promised(t, cs[0])
	if strings.HasPrefix(do, "SET ") {
		for _, c := range cs {
			mustExec(t, c, do)
		}
	} else {
		for q := range strings.SplitSeq(do, "; ") {
			mustExec(t, cs[0], q)
		}
	}
	time.Sleep(10 * time.Second)
	x.play(t, cs, 2)
	x.forget(t, l)
	x.play(t, cs, 3)
	got := x.measured(t, cs[0])
	for k, want := range promised {
		m, ok := got[k]
		if !ok {
			t.Errorf("%s: nothing was measured", k)
			continue
		}
		t.Logf("%-18s p50 %6.1f ms, promised %6.1f, was %6.1f; p99 %6.1f, promised %6.1f, was %6.1f; round trips %.2f, promised %.2f, was %.2f; "+
			"bytes %.0f, promised %.0f, was %.0f", k, m.p50, want.p50, want.wasP50, m.p99, want.p99, want.wasP99, m.trips, want.trips, want.wasTrips,
			m.bytes, want.bytes, want.wasBytes)
		if !near(m.p50, want.p50, 1) || !near(m.p99, want.p99, 1) || !near(m.trips, want.trips, 0.05) || !near(m.bytes, want.bytes, 32) {
			t.Errorf("%s: p50 %.1f ms, p99 %.1f ms, %.2f round trips and %.0f bytes; the advice %q promised %.1f, %.1f, %.2f and %.0f", k,
				m.p50, m.p99, m.trips, m.bytes, do, want.p50, want.p99, want.trips, want.bytes)
		}
	}
}

// near reports whether two figures agree within 15 %, or within the least that matters.
func near(got, want, least float64) bool { return math.Abs(got-want) <= max(0.15*want, least) }

// play runs the workload of all regions, one after the other, at uneven intervals.
func (x trial) play(t *testing.T, cs []*sql.Conn, part int) {
	for i := range x.rounds {
		round := part*x.rounds + i
		for region, c := range cs {
			for _, q := range x.load(round, region) {
				if strings.HasPrefix(q, "SELECT") {
					column(t, c, q)
				} else {
					mustExec(t, c, q)
				}
				time.Sleep(time.Duration(3+(7*round+5*region)%11) * time.Millisecond)
			}
		}
	}
}

// forget begins to count statements anew.
func (x trial) forget(t *testing.T, l *Local) {
	for _, n := range l.Nodes() {
		mustExec(t, openSQL(t, n, ""), "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
	}
}

type promise struct{ p50, p99, trips, bytes, wasP50, wasP99, wasTrips, wasBytes float64 }

// promised is what the advice says, by region and kind of statement, and its statement.
func (x trial) promised(t *testing.T, c *sql.Conn) (map[string]promise, string) {
	out, do, all := map[string]promise{}, "", ""
	for _, row := range column(t, c, "SELECT kind, table_name, do_this, region, statement_kind, p50_ms_after, wan_round_trips_after, "+
		"p50_ms, wan_round_trips, p99_ms_after, p99_ms, wan_bytes_after, wan_bytes, saves_s FROM godwit.advice") {
		f := strings.Split(row, "|")
		all += "\n" + row
		if f[0] == x.kind && f[1] == "d.t" && strings.HasSuffix(f[2], x.do) {
			do = f[2]
			out[f[3]+" "+f[4]] = promise{p50: number(f[5]), trips: number(f[6]), wasP50: number(f[7]), wasTrips: number(f[8]),
				p99: number(f[9]), wasP99: number(f[10]), bytes: number(f[11]), wasBytes: number(f[12])}
		}
	}
	if do == "" {
		t.Fatalf("no advice of kind %s that ends with %s, but:%s", x.kind, x.do, all)
	}
	return out, do
}

func number(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

// measured is what statements on the table have taken, by region and kind.
func (x trial) measured(t *testing.T, c *sql.Conn) map[string]promise {
	type digest struct{ p50, p99, count, trips, bytes float64 }
	by := map[string][]digest{}
	for _, row := range column(t, c, "SELECT region, IF(digest_text LIKE 'SELECT%', 'read', 'write'), p50_ms, statements, "+
		"wan_round_trips, p99_ms, wan_bytes FROM godwit.statements WHERE schema_name = 'd' AND digest_text LIKE '%`t`%' AND "+
		"digest_text REGEXP '^(SELECT|INSERT|UPDATE)' AND digest_text NOT LIKE '%godwit%'") {
		f := strings.Split(row, "|")
		k := f[0] + " " + f[1]
		by[k] = append(by[k], digest{p50: number(f[2]), count: number(f[3]), trips: number(f[4]), p99: number(f[5]), bytes: number(f[6])})
	}
	out := map[string]promise{}
	for k, ds := range by {
		slices.SortFunc(ds, func(a, b digest) int { return int(b.count - a.count) })
		n, trips, bytes, p99 := 0.0, 0.0, 0.0, 0.0
		for _, d := range ds {
			n, trips, bytes, p99 = n+d.count, trips+d.trips, bytes+d.bytes, max(p99, d.p99)
		}
		out[k] = promise{p50: ds[0].p50, p99: p99, trips: trips / n, bytes: bytes / n}
	}
	return out
}
