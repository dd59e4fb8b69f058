package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// predicted is a kind of statements as `godwit whatif --json` prints it.
type predicted struct {
	Region, Digest          string
	N                       int
	Measured, Played, After struct{ P50, P99, Bytes float64 }
}

// whatIf is a workload of real clients, and a change under it.
type whatIf struct {
	name   string
	create []string
	load   func(rng *rand.Rand, region, client, n int) string // empty: nothing
	flags  []string                                           // of godwit whatif
	do     string
}

var whatIfs = []whatIf{
	{
		name: "a price list that all regions read becomes GLOBAL",
		create: []string{"CREATE TABLE w.t (id INT PRIMARY KEY, v INT, code INT)", fillT(),
			"UPDATE w.t__homes SET pinned = TRUE"},
		load: func(rng *rand.Rand, region, client, n int) string {
			if region == 0 && client == 0 && n%5 == 0 {
				return fmt.Sprintf("UPDATE w.t SET v = v + 1 WHERE id = %d", rng.IntN(30))
			}
			return fmt.Sprintf("SELECT v FROM w.t WHERE id = %d", rng.IntN(30))
		},
		flags: []string{"--locality", "w.t=GLOBAL"}, do: "ALTER TABLE w.t SET LOCALITY GLOBAL",
	},
	{
		name: "stock goes to the region that sells it",
		create: []string{"CREATE TABLE w.t (id INT PRIMARY KEY, v INT, code INT)", fillT(),
			"UPDATE w.t__homes SET pinned = TRUE"},
		load: func(rng *rand.Rand, region, client, n int) string {
			switch {
			case region == 2 && n%2 == 0:
				return fmt.Sprintf("UPDATE w.t SET v = v - 1 WHERE id = %d", 10*client+rng.IntN(10))
			case region == 2:
				return fmt.Sprintf("SELECT v FROM w.t WHERE id = %d", rng.IntN(30))
			case region == 1:
				return fmt.Sprintf("SELECT code FROM w.t WHERE id = %d", rng.IntN(30))
			}
			return ""
		},
		flags: []string{"--locality", "w.t=REGIONAL BY TABLE IN 'eu-west-1'"},
		do:    "ALTER TABLE w.t SET LOCALITY REGIONAL BY TABLE IN 'eu-west-1'",
	},
	{
		name:   "a log of clicks becomes asynchronous",
		create: []string{"CREATE TABLE w.t (region INT, client INT, n INT, page VARCHAR(60), PRIMARY KEY (region, client, n))"},
		load: func(_ *rand.Rand, region, client, n int) string {
			return fmt.Sprintf("INSERT INTO w.t VALUES (%d, %d, %d, '%s')", region, client, n, strings.Repeat("page ", 1+n%10))
		},
		flags: []string{"--do", "ALTER TABLE w.t SET REPLICATION ASYNC"}, do: "ALTER TABLE w.t SET REPLICATION ASYNC",
	},
}

func fillT() string {
	var rows []string
	for i := range 30 {
		rows = append(rows, fmt.Sprintf("(%d, 0, %d)", i, 1000+i))
	}
	return "INSERT INTO w.t VALUES " + strings.Join(rows, ", ")
}

// TestWhatIfOnProcesses predicts with godwit whatif what a change does to clients of a demo, whose
// disks, processors and MySQL protocol are real, and measures what it does. How busy the machine is
// decides how near the times are: docs/figures/whatif.md has them, and only bytes are judged here.
func TestWhatIfOnProcesses(t *testing.T) {
	needTime(t)
	for i := range whatIfs {
		t.Run(whatIfs[i].name, whatIfs[i].run)
	}
}

func (x *whatIf) run(t *testing.T) {
	console, dbs := startDemo(t, 3, "--workload", "none")
	addr := regexp.MustCompile(`//([^/]+)/`).FindStringSubmatch(console)[1]
	exec1(t, dbs[0], "CREATE DATABASE w")
	for _, q := range x.create {
		exec1(t, dbs[0], q)
	}
	x.work(t, dbs, 0, 3*time.Second)
	exec1(t, dbs[0], "SET CLUSTER SETTING sql.statement_recording = off") // begin anew
	time.Sleep(time.Second)
	exec1(t, dbs[0], "SET CLUSTER SETTING sql.statement_recording = on")
	time.Sleep(time.Second)
	x.work(t, dbs, 1, 20*time.Second)
	status, out, errs := godwit(t, append([]string{"whatif", "--insecure", "--addr", addr, "--json"}, x.flags...)...)
	var told struct{ Statements []predicted }
	if err := json.Unmarshal([]byte(out), &told); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s\n%s", status, err, errs, out)
	}
	exec1(t, dbs[0], x.do)
	x.work(t, dbs, 2, 3*time.Second)
	for _, db := range dbs {
		exec1(t, db, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
	}
	x.work(t, dbs, 3, 20*time.Second)
	near := func(got, want, least float64) bool { return math.Abs(got-want) <= max(0.15*want, least) }
	checked := 0
	for _, p := range told.Statements {
		var n int
		var p50, p99, bytes float64
		err := dbs[0].QueryRow("SELECT statements, p50_ms, p99_ms, wan_bytes / statements FROM godwit.statements "+
			"WHERE region = ? AND digest_text = ?", p.Region, p.Digest).Scan(&n, &p50, &p99, &bytes)
		if err != nil || n < 20 || !strings.Contains(p.Digest, "`w`") {
			continue
		}
		checked++
		t.Logf("| %s | %.40s | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f | %.0f | p50 %v, p99 %v, bytes %v |", p.Region, p.Digest, p.N,
			p.Measured.P50, p.After.P50, p50, p.Measured.P99, p.After.P99, p99, p.Measured.Bytes, p.After.Bytes, bytes,
			near(p50, p.After.P50, 1), near(p99, p.After.P99, 1), near(bytes, p.After.Bytes, 32))
		if !near(bytes, p.After.Bytes, 32) {
			t.Errorf("%s %s: %.0f bytes, where %.0f were predicted", p.Region, p.Digest, bytes, p.After.Bytes)
		}
	}
	if checked == 0 {
		t.Errorf("nothing was compared: %s", out)
	}
}

// work has three clients in each region work for a while.
func (x *whatIf) work(t *testing.T, dbs []*sql.DB, part int, length time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	end := time.Now().Add(length)
	for region, db := range dbs {
		for client := range 3 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(part), uint64(10*region+client)))
				for n := 0; time.Now().Before(end); n++ {
					if q := x.load(rng, region, client, 100_000*part+n); q != "" {
						if _, err := db.Exec(q); err != nil {
							t.Errorf("%s: %v", q, err)
							return
						}
					}
					time.Sleep(time.Duration(30+rng.IntN(40)) * time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
}
