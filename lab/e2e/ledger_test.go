package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/workload"
)

// ledger records the answers that clients got. In every region a writer runs transactions that
// insert a row with a number of their own and increment a row of the region. At the end every
// acknowledged transaction must be there, one whose commit was not answered may be there, and no
// other one. Each is there as a whole.
type ledger struct {
	c    *processes
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	sent map[int64]outcome
	told map[int64]step
	done []int // acknowledged transactions by region
}

// step is what a transaction read of its region's counter after incrementing it, and when.
type step struct {
	n     int64
	began time.Time
	ended time.Time
}

// outcome is what a client knows of a transaction.
type outcome int

const (
	// failed before its commit was sent, or was rolled back by the server
	refused      outcome = iota
	unknown              // the commit was not answered, or the answer says that the outcome is unknown
	acknowledged         // the commit succeeded
)

// openLedger makes the tables in database db, one row homed in each region, and starts the writers.
func openLedger(t *testing.T, c *processes, db string) *ledger {
	t.Helper()
	first := c.nodes[0].open(t, "")
	exec1(t, first, "CREATE DATABASE IF NOT EXISTS "+db)
	first = c.nodes[0].open(t, db)
	exec1(t, first, "CREATE TABLE ledger (n BIGINT PRIMARY KEY, region INT NOT NULL, value BIGINT NOT NULL)")
	exec1(t, first, "CREATE TABLE counter (region INT PRIMARY KEY, n BIGINT NOT NULL, probe BIGINT NOT NULL)")
	ctx, stop := context.WithCancel(context.Background())
	l := &ledger{c: c, stop: stop, sent: map[int64]outcome{}, told: map[int64]step{}, done: make([]int, len(c.regions))}
	for r, name := range c.regions {
		exec1(t, c.of(name)[0].open(t, db), "INSERT INTO counter VALUES (?, 0, 0)", r)
		var pools []*sql.DB
		for _, n := range c.of(name) {
			pools = append(pools, n.open(t, db))
		}
		l.wg.Go(func() { l.write(ctx, r, pools) })
	}
	t.Cleanup(l.close)
	return l
}

func (l *ledger) close() {
	l.stop()
	l.wg.Wait()
}

// write runs transactions until ctx is done, through the region's nodes in turn.
func (l *ledger) write(ctx context.Context, region int, pools []*sql.DB) {
	for i := int64(0); ctx.Err() == nil; i++ {
		n := i*int64(len(l.c.regions)) + int64(region)
		st := step{began: time.Now()}
		o := post(ctx, pools[i%int64(len(pools))], region, n, &st.n)
		st.ended = time.Now()
		l.mu.Lock()
		l.sent[n], l.told[n] = o, st
		if o == acknowledged {
			l.done[region]++
		}
		l.mu.Unlock()
		if o != acknowledged {
			pause(ctx, 20*time.Millisecond)
		}
	}
}

func post(ctx context.Context, db *sql.DB, region int, n int64, count *int64) outcome {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return refused
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing to roll back
	if _, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?, ?)", n, region, value(n)); err != nil {
		return refused
	}
	if _, err := tx.ExecContext(ctx, "UPDATE counter SET n = n + 1 WHERE region = ?", region); err != nil {
		return refused
	}
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counter WHERE region = ?", region).Scan(count); err != nil {
		return refused
	}
	err = tx.Commit()
	switch {
	case err == nil:
		return acknowledged
	case workload.Retryable(err):
		return refused
	}
	return unknown
}

// value computes a row's value from its number, so that a mixed-up row is noticed.
func value(n int64) int64 { return n*1_000_003 + 17 }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// acknowledged is the number of transactions so far, by region.
func (l *ledger) acknowledged() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.done...)
}

// advances waits until every one of the regions has n more acknowledged transactions, and returns
// how long that took.
func (l *ledger) advances(t *testing.T, n int, regions ...string) time.Duration {
	t.Helper()
	begin, before := time.Now(), l.acknowledged()
	for {
		slow := ""
		now := l.acknowledged()
		for r, name := range l.c.regions {
			if slices.Contains(regions, name) && now[r] < before[r]+n {
				slow = name
			}
		}
		took := time.Since(begin)
		if slow == "" {
			return took
		}
		if took > patience {
			t.Fatalf("%s did not commit %d transactions within %s: %v then, %v now\n%s", slow, n, patience, before,
				now, l.c.status(t))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// stands reports whether the node commits a write within some seconds, more than an election takes.
func (l *ledger) stands(t *testing.T, through *node) bool {
	t.Helper()
	pool := through.open(t, "ledger")
	defer pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := pool.ExecContext(ctx, "UPDATE counter SET probe = probe + 1 WHERE region = 0"); err == nil {
			return true
		}
		pause(ctx, 100*time.Millisecond)
	}
	return false
}

// compare stops the writers and reads the ledger through every region.
func (l *ledger) compare(t *testing.T, db string) {
	t.Helper()
	l.close()
	for r, name := range l.c.regions {
		if err := l.compareAt(l.c.of(name)[0].open(t, db)); err != nil {
			t.Errorf("read through %s: %v", name, err)
		}
		if l.done[r] == 0 {
			t.Errorf("no transaction of %s was ever acknowledged", name)
		}
	}
	count := map[outcome]int{}
	for _, o := range l.sent {
		count[o]++
	}
	t.Logf("ledger: %v transactions acknowledged by region, %d refused, %d with an unknown outcome", l.done,
		count[refused], count[unknown])
}

func (l *ledger) compareAt(db *sql.DB) error {
	seen, err := l.read(db)
	if err != nil {
		return err
	}
	if lost := len(l.missing(seen)); lost > 0 {
		return fmt.Errorf("%d acknowledged transactions are lost", lost)
	}
	return nil
}

// missing lists the acknowledged transactions that are not among those seen.
func (l *ledger) missing(seen map[int64]bool) (lost []int64) {
	for n, o := range l.sent {
		if o == acknowledged && !seen[n] {
			lost = append(lost, n)
		}
	}
	slices.Sort(lost)
	return lost
}

// read returns the numbers of the transactions that are there. It fails if one is there in part or
// altered.
func (l *ledger) read(db *sql.DB) (map[int64]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // one snapshot
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	rows, err := tx.QueryContext(ctx, "SELECT n, region, value FROM ledger")
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer rows.Close()
	seen := map[int64]bool{}
	perRegion := make([]int64, len(l.c.regions))
	for rows.Next() {
		var n, region, v int64
		if err := rows.Scan(&n, &region, &v); err != nil {
			return nil, err
		}
		if l.sent[n] == refused || v != value(n) || region != n%int64(len(l.c.regions)) || seen[n] {
			return nil, fmt.Errorf("row %d (region %d, value %d) was refused, or never sent like this", n, region, v)
		}
		seen[n] = true
		perRegion[region]++
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read row %d of the ledger: %w", len(seen), err)
	}
	for r, want := range perRegion {
		var n int64
		if err := tx.QueryRowContext(ctx, "SELECT n FROM counter WHERE region = ?", r).Scan(&n); err != nil {
			return nil, fmt.Errorf("read counter %d: %w", r, err)
		}
		if n != want {
			return seen, fmt.Errorf("region %d has %d rows but counted %d: half a transaction is there\n%s", r, want,
				n, l.explain(seen, r))
		}
	}
	return seen, nil
}

// explain lists the transactions of a region whose count does not follow from the one before, with
// their neighbours.
func (l *ledger) explain(seen map[int64]bool, region int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ns []int64
	for n := range l.sent {
		if n%int64(len(l.c.regions)) == int64(region) {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	var out strings.Builder
	last, shown := int64(0), -1
	for i, n := range ns {
		if !seen[n] {
			continue
		}
		if now := l.told[n].n; now != last+1 {
			for j := max(shown+1, i-6); j < min(i+4, len(ns)); j++ {
				s := l.told[ns[j]]
				fmt.Fprintf(&out, "  %d: counted %d, outcome %d, there %v, %s to %s\n", ns[j], s.n, l.sent[ns[j]],
					seen[ns[j]], s.began.UTC().Format("05.000"), s.ended.UTC().Format("05.000"))
				shown = j
			}
			out.WriteString("\n")
		}
		last = l.told[n].n
	}
	return out.String()
}

// serves waits until a write to a row of the region goes through the node, and returns how long
// that took.
func (l *ledger) serves(t *testing.T, db string, through *node, region int) time.Duration {
	t.Helper()
	begin := time.Now()
	pool := through.open(t, db)
	defer pool.Close()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, err := pool.ExecContext(ctx, "UPDATE counter SET probe = probe + 1 WHERE region = ?", region)
		cancel()
		took := time.Since(begin)
		if err == nil {
			return took
		}
		if took > patience {
			t.Fatalf("rows of %s cannot be written through the node of %s within %s: %v\n%s", l.c.regions[region],
				through.region, patience, err, l.c.status(t))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
