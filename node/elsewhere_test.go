package node

import (
	"cmp"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"
)

// journey is a workload of the clients of one region, which others execute afterwards.
type journey struct {
	name    string
	create  []string // in the first region
	load    func(round int) []string
	from    int // the region
	rounds  int
	regions int // 0: 3
	// unknown: the model says that it does not know, and why has this text.
	unknown string
	// follow: leads follow their load until all is predicted.
	follow bool
	pause  int // the longest between two statements, in ms; 0: 11
}

var journeys = []journey{
	{
		name:   "rows that stay in the region where they were made",
		create: []string{table, fill(), "UPDATE t__homes SET pinned = TRUE"},
		load: func(round int) []string {
			return append(set("SELECT v FROM t WHERE id = %d", (round+3000)%30), set("UPDATE t SET v = v + 1 WHERE id = %d", (round+3000)%30)...)
		},
		rounds: 40,
	},
	{
		name:   "a table that lives in a third region",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fill()},
		load: func(round int) []string {
			return append(set("SELECT v FROM t WHERE id = %d", (round+3000)%30), append(set("UPDATE t SET v = v + 1 WHERE id = %d", (round+3000)%30),
				set("SELECT v FROM t WHERE id = %d FOR UPDATE", round%30)...)...)
		},
		from: 2, rounds: 40,
	},
	{
		name:   "a table that is read everywhere",
		create: []string{table + " LOCALITY GLOBAL", fill()},
		load: func(round int) []string {
			return append(set("SELECT v FROM t WHERE id = %d", (round+3000)%30), set("UPDATE t SET v = v + 1 WHERE id = %d", (round+3000)%30)...)
		},
		from: 1, rounds: 40,
	},
	{
		name:   "a table that is written everywhere",
		create: []string{table + " LOCALITY MULTI MASTER", fill()},
		load: func(round int) []string {
			return append(set("SELECT v FROM t WHERE id = %d", (round+3000)%30), set("UPDATE t SET v = v + 1 WHERE id = %d", (round+3000)%30)...)
		},
		rounds: 80, pause: 131,
	},
	{
		name:   "asynchronous rows",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'us-west-2' REPLICATION ASYNC", fill()},
		load:   func(round int) []string { return set("UPDATE t SET v = v + 1 WHERE id = %d", (round+3000)%30) },
		from:   1, rounds: 40,
	},
	{
		name:   "reads of a moment ago",
		create: []string{table, fill()},
		load: func(round int) []string {
			return set("SELECT v FROM t AS OF SYSTEM TIME '-5s' WHERE id = %d", round%30)
		},
		rounds: 40,
	},
	// Those that follow were not there while the model was made.
	{
		name:   "new rows",
		create: []string{table},
		load:   func(round int) []string { return set("INSERT INTO t VALUES (%d, 0, 0)", 7*round) },
		rounds: 40,
	},
	{
		name:   "a report on all rows",
		create: []string{table, fill(), "UPDATE t__homes SET pinned = TRUE"},
		load:   func(round int) []string { return set("SELECT SUM(v) FROM t WHERE code > %d", round) },
		from:   2, rounds: 40,
	},
	{
		name: "a join of a table nearby and one far away",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'eu-west-1'", fill(),
			"CREATE TABLE customer (id INT PRIMARY KEY) LOCALITY GLOBAL", "INSERT INTO customer VALUES (0), (1)"},
		load: func(round int) []string {
			return set("SELECT t.v FROM t JOIN customer c ON c.id = t.v WHERE t.code = %d", 1000+round%30)
		},
		from: 2, rounds: 40,
	},
	{
		name:   "five regions",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'eu-west-1'", fill()},
		load: func(round int) []string {
			return append(set("SELECT v FROM t WHERE id = %d", (round+3000)%30), set("UPDATE t SET v = v + 1 WHERE id = %d", (round+3000)%30)...)
		},
		from: 3, rounds: 40, regions: 5,
	},
	{
		name:   "a table whose leads follow its clients",
		create: []string{table + " LOCALITY REGIONAL BY TABLE IN 'us-east-1'", fill()},
		load: func(round int) []string {
			return append(set("SELECT v FROM t WHERE id = %d", (round+3000)%30), set("UPDATE t SET v = v + 1 WHERE id = %d", (round+3000)%30)...)
		},
		from: 2, rounds: 80, follow: true,
	},
	{
		name:   "changes that lock what all regions have",
		create: []string{table, fill(), "UPDATE t__homes SET pinned = TRUE"},
		load:   func(round int) []string { return set("UPDATE t SET v = v + 1 WHERE code = %d", 1000+round%30) },
		rounds: 20, unknown: "locks what all regions have",
	},
}

// TestElsewhereComesTrue has clients of other regions execute in virtual time what those of one
// have executed: p50, p99, round trips and bytes are those that godwit.elsewhere has said before
// any of them did, within 15 %.
func TestElsewhereComesTrue(t *testing.T) {
	for _, x := range journeys {
		t.Run(x.name, func(t *testing.T) { bubble(t, x.run) })
	}
}

func (x journey) run(t *testing.T) {
	l := startLocal(t, cmp.Or(x.regions, 3), 1)
	set := []string{"SET CLUSTER SETTING transaction.tier = 'strict'"}
	if !x.follow {
		set = append(set, "SET CLUSTER SETTING leader.mode = 'off'")
	}
	cs := sessionsIn(t, l, set, x.create)
	time.Sleep(10 * time.Second) // leads and definitions have settled
	for i := range 1 + 4*btoi(x.follow) {
		x.play(t, cs[x.from], -i*x.rounds)
	}
	trial{}.forget(t, l)
	x.play(t, cs[x.from], x.rounds)
	for _, row := range column(t, cs[0], "SELECT region, digest_text, p50_ms, p99_ms, avg_ms, wan_round_trips / statements FROM godwit.statements "+
		"WHERE schema_name = 'd' AND digest_text LIKE '%`t`%' AND statements >= 20") {
		t.Log("measured: " + row)
	}
	type place struct{ digest, region string }
	said := map[place]promise{}
	for _, row := range column(t, cs[0], "SELECT digest_text, other_region, p50_ms_there, p99_ms_there, wan_round_trips_there, wan_bytes_there, "+
		"why_not FROM godwit.elsewhere WHERE schema_name = 'd' AND digest_text LIKE '%`t`%' AND statements >= 20") {
		f := strings.Split(row, "|")
		if x.unknown != "" && !strings.Contains(f[6], x.unknown) || x.unknown == "" && f[2] == "" {
			t.Errorf("%s in %s: not known is %q, want %q", f[0], f[1], f[6], x.unknown)
		}
		said[place{f[0], f[1]}] = promise{p50: number(f[2]), p99: number(f[3]), trips: number(f[4]), bytes: number(f[5])}
	}
	if want := len(x.load(0)) * (len(cs) - 1); len(said) != want {
		t.Fatalf("%d predictions, want %d: %v", len(said), want, said)
	}
	if x.follow { // they stay where they have come to
		if got := column(t, cs[0], "SELECT DISTINCT leader FROM godwit.groups WHERE name IN ('s1@r1', 's2@r1')"); !slices.Equal(got, []string{"3"}) {
			t.Fatalf("the leads are at nodes %q, want 3", got)
		}
		mustExec(t, cs[0], "SET CLUSTER SETTING leader.pin = 's1@r1=3 s2@r1=3'")
	}
	if x.unknown != "" {
		return
	}
	for i, c := range cs {
		if i == x.from {
			continue
		}
		x.play(t, c, (2+2*i)*x.rounds)
		trial{}.forget(t, l)
		x.play(t, c, (3+2*i)*x.rounds)
		for _, row := range column(t, c, "SELECT digest_text, region, p50_ms, p99_ms, wan_round_trips / statements, wan_bytes / statements "+
			"FROM godwit.statements WHERE schema_name = 'd' AND digest_text LIKE '%`t`%' AND statements >= 20") {
			f := strings.Split(row, "|")
			m := promise{p50: number(f[2]), p99: number(f[3]), trips: number(f[4]), bytes: number(f[5])}
			want, ok := said[place{f[0], f[1]}]
			t.Logf("%.40s in %s: p50 %.1f ms, said %.1f; p99 %.1f, said %.1f; round trips %.2f, said %.2f; bytes %.0f, said %.0f", f[0], f[1],
				m.p50, want.p50, m.p99, want.p99, m.trips, want.trips, m.bytes, want.bytes)
			if !ok || !near(m.p50, want.p50, 1) || !near(m.p99, want.p99, 1) || !near(m.trips, want.trips, 0.05) || !near(m.bytes, want.bytes, 32) {
				t.Errorf("%s in %s takes something else than godwit.elsewhere has said: %+v, said %+v", f[0], f[1], m, want)
			}
			delete(said, place{f[0], f[1]})
		}
	}
	for k := range said {
		t.Errorf("nothing was measured of %+v", k)
	}
}

// play has a client run the workload, at uneven intervals.
func (x journey) play(t *testing.T, c *sql.Conn, begin int) {
	for i := range x.rounds {
		for _, q := range x.load(begin + i) {
			if strings.HasPrefix(q, "SELECT") {
				column(t, c, q)
			} else {
				mustExec(t, c, q)
			}
			time.Sleep(time.Duration(3+7*i%cmp.Or(x.pause, 11)) * time.Millisecond)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
