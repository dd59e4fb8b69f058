package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// promotion is a test of asynchronous tables that survive the loss of regions.
type promotion struct {
	t *testing.T
	c *processes
	// sync and async record the answers that clients of either kind of tables got.
	sync, async *ledger
	pairs       *pairs
	losses      int
}

// startPromotion starts a load of clients in all regions: on synchronous tables, on asynchronous
// ones, and on both together.
func startPromotion(t *testing.T, perRegion int) *promotion {
	c := startCluster(t, t.TempDir(), 3, perRegion)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	db := c.nodes[0].open(t, "")
	exec1(t, db, "CREATE DATABASE async")
	exec1(t, db, "ALTER DATABASE async SET REPLICATION ASYNC")
	p := &promotion{t: t, c: c, sync: openLedger(t, c, "sync"), async: openLedger(t, c, "async")}
	var table, create string
	if err := db.QueryRow("SHOW CREATE TABLE async.ledger").Scan(&table, &create); err != nil ||
		!strings.Contains(create, "REPLICATION ASYNC") {
		t.Fatalf("%s: %v", create, err)
	}
	p.pairs = openPairs(t, c)
	return p
}

// pairs runs transactions that write a row in an asynchronous table and one in a synchronous table.
type pairs struct {
	stop  context.CancelFunc
	wg    sync.WaitGroup
	mu    sync.Mutex
	acked []int64
}

func openPairs(t *testing.T, c *processes) *pairs {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &pairs{stop: stop}
	db := c.nodes[0].open(t, "")
	for _, name := range []string{"sync", "async"} {
		exec1(t, db, "CREATE TABLE "+name+".pair (n BIGINT PRIMARY KEY)")
	}
	for r, name := range c.regions {
		pool := c.of(name)[0].open(t, "")
		p.wg.Go(func() {
			for n := int64(r); ctx.Err() == nil; n += int64(len(c.regions)) {
				if p.post(ctx, pool, n) != nil {
					pause(ctx, 50*time.Millisecond)
				}
			}
		})
	}
	t.Cleanup(p.close)
	return p
}

func (p *pairs) close() {
	p.stop()
	p.wg.Wait()
}

func (p *pairs) post(ctx context.Context, db *sql.DB, n int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing to roll back
	for _, name := range []string{"async", "sync"} {
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+name+".pair VALUES (?)", n); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked = append(p.acked, n)
	return nil
}

// lose kills all nodes of a region at once and lets the others take its asynchronous tables over.
func (p *promotion) lose(region string, args ...string) string {
	t := p.t
	t.Helper()
	p.sync.advances(t, 20, p.c.regions...)
	p.async.advances(t, 50, p.c.regions...)
	survivor := p.survivor(region)
	if status, _, errs := godwit(t, "promote", "--lost", region, "--addr", survivor.addr); status == 0 ||
		!strings.Contains(errs, "is not lost") {
		t.Errorf("promotion over a region that is alive: status %d: %s", status, errs)
	}
	for _, n := range p.c.of(region) {
		_ = n.cmd.Process.Kill() // all at once
	}
	p.losses++
	begin := time.Now()
	for _, n := range p.c.of(region) {
		n.kill()
	}
	var out string
	for {
		status, o, errs := godwit(t, append([]string{"promote", "--lost", region, "--addr", survivor.addr}, args...)...)
		if status == 0 {
			out = o
			break
		}
		if !strings.Contains(errs, "is not lost") && !strings.Contains(errs, "no leader") {
			t.Fatalf("promote: status %d: %s", status, errs)
		}
		if time.Since(begin) > patience {
			t.Fatalf("promote: %s", errs)
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(begin)
	var left []string
	for _, r := range p.c.regions {
		if len(p.running(r)) > 0 {
			left = append(left, r)
		}
	}
	p.async.advances(t, 20, left...)
	for _, r := range left {
		for i := range p.c.regions {
			p.async.serves(t, "async", p.running(r)[0], i)
		}
	}
	p.sync.advances(t, 20, left...)
	t.Logf("lost %s: promoted after %s, everything served after %s\n%s", region, took.Round(10*time.Millisecond),
		time.Since(begin).Round(10*time.Millisecond), out)
	return out
}

func (p *promotion) running(region string) (out []*node) {
	for _, n := range p.c.of(region) {
		select {
		case <-n.gone:
		default:
			out = append(out, n)
		}
	}
	return out
}

func (p *promotion) survivor(lost string) *node {
	for _, r := range p.c.regions {
		if up := p.running(r); r != lost && len(up) > 0 {
			return up[0]
		}
	}
	p.t.Fatal("no node runs")
	return nil
}

// back starts a region again and waits until its nodes have reported what they discarded in the
// promotions so far.
func (p *promotion) back(region string) {
	t := p.t
	t.Helper()
	for _, n := range p.c.of(region) {
		n.start(t)
	}
	begin := time.Now()
	for _, n := range p.c.of(region) {
		n.awaitSQL(t)
		for r := range p.c.regions {
			p.async.serves(t, "async", n, r)
		}
	}
	p.async.advances(t, 20, p.c.regions...)
	p.sync.advances(t, 20, p.c.regions...)
	t.Logf("%s is back: served after %s", region, time.Since(begin).Round(10*time.Millisecond))
}

// home lets the groups of a region vote there again.
func (p *promotion) home(region string) {
	t := p.t
	t.Helper()
	status, out, errs := godwit(t, "promote", "--return", region, "--addr", p.survivor("").addr)
	if status != 0 {
		t.Fatalf("return: status %d: %s%s", status, out, errs)
	}
	begin := time.Now()
	for {
		s := p.c.status(t)
		if !strings.Contains(s, "groups of "+region+" vote in") && !strings.Contains(s, "NO LEADER") &&
			!strings.Contains(s, "on the move") {
			break
		}
		if time.Since(begin) > patience {
			t.Fatalf("the groups of %s do not go back:\n%s", region, s)
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.async.advances(t, 20, p.c.regions...)
	t.Logf("%s leads its rows again after %s", region, time.Since(begin).Round(10*time.Millisecond))
}

var reLostRow = regexp.MustCompile(`^async\.(ledger|pair)\((\d+)\)$`)

// finish stops the load. It compares the rows that are there with the answers that clients got and
// with the reported losses.
func (p *promotion) finish() {
	t := p.t
	t.Helper()
	p.sync.compare(t, "sync")
	p.async.close()
	p.pairs.close()
	reported := map[int64]bool{}
	sure := 0
	db := p.survivor("").open(t, "async")
	deadline := time.Now().Add(patience)
	for silent := "?"; silent != ""; {
		// All nodes that had a copy have reported.
		silent = ""
		rows, err := db.Query("SELECT group_name, reported_by FROM godwit.promotions")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var group, by string
			if err := rows.Scan(&group, &by); err != nil {
				t.Fatal(err)
			}
			if n := len(strings.Fields(by)); n < len(p.c.regions) {
				silent = fmt.Sprintf("%s: only %s", group, by)
			}
		}
		_ = rows.Close()
		if silent != "" && time.Now().After(deadline) {
			t.Fatalf("not all nodes report what was lost: %s", silent)
		}
	}
	rows, err := db.Query("SELECT row_name, MIN(unsure) FROM godwit.losses WHERE row_name IS NOT NULL GROUP BY row_name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var unsure bool
		if err := rows.Scan(&name, &unsure); err != nil {
			t.Fatal(err)
		}
		m := reLostRow.FindStringSubmatch(name)
		if m == nil {
			continue // a counter, which was written again
		}
		if m[1] == "pair" {
			t.Errorf("%s is reported as lost, a row of a transaction with synchronous rows", name)
			continue
		}
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		reported[n] = true
		if !unsure {
			sure++
		}
	}
	for _, r := range p.c.regions {
		through := p.c.of(r)[0]
		seen, err := p.async.read(through.open(t, "async"))
		if err != nil {
			t.Errorf("read through %s: %v", r, err)
		}
		if seen == nil {
			continue
		}
		missing := p.async.missing(seen)
		for _, n := range missing {
			if !reported[n] {
				t.Errorf("through %s: transaction %d was acknowledged, is not there, and is not reported as lost", r, n)
			}
		}
		untold := 0
		for n := range reported {
			if seen[n] {
				t.Errorf("through %s: transaction %d is reported as lost and is there", r, n)
			}
			if p.async.sent[n] != acknowledged {
				// The transaction was under way when the region was lost, and the survivors
				// answered that it had not committed.
				untold++
			}
		}
		if most := p.losses * len(p.c.regions); untold > most {
			t.Errorf("through %s: %d transactions are reported as lost that were not acknowledged; "+
				"at most %d were under way", r, untold, most)
		}
		t.Logf("through %s: %d of %d asynchronous transactions are lost, %d reported (%d of them sure, %d not acknowledged)",
			r, len(missing), len(p.async.sent), len(reported), sure, untold)
		p.comparePairs(through)
	}
}

func (p *promotion) comparePairs(through *node) {
	t := p.t
	t.Helper()
	var got [2][]int64
	for i, name := range []string{"async", "sync"} {
		rows, err := through.open(t, name).Query("SELECT n FROM pair ORDER BY n")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var n int64
			if err := rows.Scan(&n); err != nil {
				t.Fatal(err)
			}
			got[i] = append(got[i], n)
		}
		_ = rows.Close()
	}
	if !slices.Equal(got[0], got[1]) {
		t.Errorf("through %s: %d asynchronous rows of transactions of both kinds, %d synchronous ones",
			through.region, len(got[0]), len(got[1]))
	}
	for _, n := range p.pairs.acked {
		if _, ok := slices.BinarySearch(got[0], n); !ok {
			t.Errorf("through %s: transaction %d of both kinds was acknowledged and is lost", through.region, n)
		}
	}
	if len(p.pairs.acked) == 0 {
		t.Error("no transaction of both kinds was acknowledged")
	}
}

// TestPromoteOverALostRegion: a region is destroyed under load and promoted over. Exactly the
// reported transactions are lost, as a whole; synchronous tables, and transactions with them, lose
// nothing. Then the region comes back, and the region that has taken over is destroyed.
func TestPromoteOverALostRegion(t *testing.T) {
	needTime(t)
	p := startPromotion(t, 1)
	a, b, c := p.c.regions[0], p.c.regions[1], p.c.regions[2]
	if out := p.lose(a, "--seat", b); !strings.Contains(out, "votes in "+b) {
		t.Errorf("promote said %q", out)
	}
	p.back(a)
	// two shards of either region
	if out := p.lose(b, "--seat", c); strings.Count(out, "votes in "+c) != 4 {
		t.Errorf("promote said %q", out)
	}
	p.back(b)
	p.home(a)
	p.home(b)
	p.lose(a) // and once more, where it began
	p.back(a)
	p.finish()
}
