package sim

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// asyncLedger is the promotion test of package e2e in virtual time, over SQL. In every region one
// client inserts rows and counts them in a row of the region, in two asynchronous tables. Another
// one writes rows of asynchronous and synchronous tables together. Regions are lost under that load
// one after another, promoted over, come back, and take their groups home. At the end each
// transaction is there as a whole or not at all, and exactly the reported ones of the acknowledged
// transactions are missing.
type asyncLedger struct {
	*world
	rng   *rand.Rand
	stop  chan struct{}
	wg    sync.WaitGroup
	conns map[*life]*sql.DB

	mu    sync.Mutex
	sent  [4]map[int64]posting // by region
	pairs []int64              // acknowledged transactions of both kinds
	lost  int                  // promotions so far

	elapsed time.Duration // virtual
}

// posting is a transaction of the ledger.
type posting struct {
	acked, refused bool
	count          int64 // what it read of its counter
	ts             time.Duration
}

func ledgerConfig(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 7))
	c := stageConfig(3)
	c.Seed, c.Shards, c.SQL = seed, 2, true
	c.NodesPerRegion = pick(r, 1, 1, 2)
	c.LAN = 250 * time.Microsecond
	c.ClockBound = pick(r, 100*time.Microsecond, time.Millisecond, 5*time.Millisecond)
	c.SyncDelay = pick(r, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond)
	c.Jitter = pick(r, 0, 2*time.Millisecond)
	c.ShortLogs = r.IntN(2) == 0
	c.Delay = even(3, pick(r, 250*time.Microsecond, time.Millisecond, 20*time.Millisecond, 50*time.Millisecond))
	// in half of the runs messages use relays and fan-out, as asynchronous tables have a copy at
	// every node
	if r := rand.New(rand.NewPCG(seed, 10)); r.IntN(2) == 0 {
		c.Network, c.NodesPerRegion = pickNetwork(r), 2+r.IntN(2)
		if c.Network.Relay {
			c.Delay = detours(r)
		}
	}
	return c
}

// run plays, and returns the first thing that is wrong.
func (l *asyncLedger) run(t *testing.T, cfg Config, losses int) (err error) {
	l.rng, l.stop, l.conns = rand.New(rand.NewPCG(cfg.Seed, 8)), make(chan struct{}), map[*life]*sql.DB{}
	bubble(t, cfg.Seed, func(*testing.T) {
		l.world = newWorld(cfg)
		for _, h := range l.hosts {
			h.boot()
		}
		time.Sleep(20 * time.Second) // leaders go home
		err = l.open()
		for r := base.RegionID(1); r <= 3 && err == nil; r++ {
			l.wg.Go(func() { l.write(r) })
			l.wg.Go(func() { l.writePairs(r) })
			l.wg.Go(func() { l.probe(r) })
		}
		time.Sleep(5 * time.Second) // so that others have the counters
		for range losses {
			if err == nil {
				err = l.lose()
			}
		}
		time.Sleep(10 * time.Second)
		close(l.stop)
		l.wg.Wait()
		if err == nil {
			err = l.judge()
		}
		for _, db := range l.conns {
			db.Close()
		}
		l.elapsed = l.now()
		l.close()
	})
	return errors.Join(err, l.err())
}

// db connects to a node of the region.
func (l *asyncLedger) db(r base.RegionID) *sql.DB {
	for _, h := range l.hosts {
		if p := h.up(); h.region == r && p != nil {
			return l.dbOf(p)
		}
	}
	return nil
}

func (l *asyncLedger) dbOf(p *life) *sql.DB {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[p] == nil {
		l.conns[p] = openSQL(func() *life { return p }, func(cfg *mysql.Config) {
			cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = 5*time.Second, 30*time.Second, 30*time.Second
		})
	}
	return l.conns[p]
}

func (l *asyncLedger) open() error {
	for _, q := range []string{
		"CREATE DATABASE sync", "CREATE DATABASE async", "ALTER DATABASE async SET REPLICATION ASYNC",
		"CREATE TABLE async.ledger (n BIGINT PRIMARY KEY, region INT NOT NULL)",
		"CREATE TABLE async.counter (region INT PRIMARY KEY, n BIGINT NOT NULL, probe BIGINT NOT NULL)",
		"CREATE TABLE async.pair (n BIGINT PRIMARY KEY)", "CREATE TABLE sync.pair (n BIGINT PRIMARY KEY)",
	} {
		if _, err := l.db(1).Exec(q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	for r := base.RegionID(1); r <= 3; r++ {
		l.sent[r] = map[int64]posting{}
		if _, err := l.db(r).Exec("INSERT INTO async.counter VALUES (?, 0, 0)", r); err != nil {
			return err
		}
	}
	return nil
}

func (l *asyncLedger) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// write posts transactions; n of region r is r modulo 3.
func (l *asyncLedger) write(r base.RegionID) {
	for n := int64(r); !l.stopped(); n += 3 {
		var p posting
		err := errors.New("no node is up")
		if db := l.db(r); db != nil {
			p, err = l.post(db, r, n)
		}
		p.ts = l.now()
		l.mu.Lock()
		l.sent[r][n] = p
		l.mu.Unlock()
		if err != nil {
			l.printf("client of region %d: %v", r, err)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(40 * time.Millisecond)
	}
}

func (l *asyncLedger) post(db *sql.DB, r base.RegionID, n int64) (p posting, err error) {
	p.refused = true
	tx, err := db.Begin()
	if err != nil {
		return p, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing to roll back
	if _, err := tx.Exec("INSERT INTO async.ledger VALUES (?, ?)", n, r); err != nil {
		return p, err
	}
	if _, err := tx.Exec("UPDATE async.counter SET n = n + 1 WHERE region = ?", r); err != nil {
		return p, err
	}
	if err := tx.QueryRow("SELECT n FROM async.counter WHERE region = ?", r).Scan(&p.count); err != nil {
		return p, err
	}
	err = tx.Commit()
	p.acked, p.refused = err == nil, err != nil && certain(err)
	return p, err
}

func (l *asyncLedger) writePairs(r base.RegionID) {
	for n := int64(r); !l.stopped(); n += 3 {
		time.Sleep(50 * time.Millisecond)
		db := l.db(r)
		if db == nil {
			continue
		}
		tx, err := db.Begin()
		for _, name := range []string{"async", "sync"} {
			if err == nil {
				_, err = tx.Exec("INSERT INTO "+name+".pair VALUES (?)", n)
			}
		}
		if err == nil {
			err = tx.Commit()
		}
		if tx != nil {
			_ = tx.Rollback() // after a commit there is nothing to roll back
		}
		if err == nil {
			l.mu.Lock()
			l.pairs = append(l.pairs, n)
			l.mu.Unlock()
		}
	}
}

// probe writes the counters of all regions, and moves them to other regions: by statements, and by
// as many writes as make the home policy move them.
func (l *asyncLedger) probe(r base.RegionID) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 100+uint64(r)))
	for !l.stopped() {
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
		db, row := l.db(r), 1+rng.IntN(3)
		if db == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if rng.IntN(2) == 0 {
			_, _ = db.ExecContext(ctx, "UPDATE async.counter__homes SET home_region = ? WHERE region = ?",
				seatName(base.RegionID(1+rng.IntN(3))), row)
		} else {
			for range 1 + rng.IntN(6) {
				_, _ = db.ExecContext(ctx, "UPDATE async.counter SET probe = probe + 1 WHERE region = ?", row)
			}
		}
		cancel()
	}
}

// alive waits until clients of the region have n more transactions acknowledged.
func (l *asyncLedger) alive(n int, rs ...base.RegionID) error {
	count := func(r base.RegionID) (n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, p := range l.sent[r] {
			if p.acked {
				n++
			}
		}
		return n
	}
	for _, r := range rs {
		deadline := time.Now().Add(90 * time.Second)
		for before := count(r); count(r) < before+n; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				return fmt.Errorf("%v: clients of region %d do not get on", l.now(), r)
			}
		}
	}
	return nil
}

// lose destroys a region, promotes another one over it, and brings the first one back.
func (l *asyncLedger) lose() error {
	upTo := func(d time.Duration) { time.Sleep(time.Duration(l.rng.Int64N(int64(d)))) }
	lost := base.RegionID(1 + l.rng.IntN(3))
	var others []base.RegionID
	for r := base.RegionID(1); r <= 3; r++ {
		if r != lost {
			others = append(others, r)
		}
	}
	if l.rng.IntN(2) == 0 {
		upTo(2 * time.Second)
	}
	if l.rng.IntN(3) == 0 { // the region goes on for a while without the others
		for _, r := range others {
			l.net.Cut(lost, r)
		}
		upTo(3 * time.Second)
	}
	l.printf("region %d is lost", lost)
	for _, h := range l.hosts {
		if h.region == lost {
			h.crash()
		}
	}
	q := cluster.PromoteRequest{Lost: seatName(lost)}
	if l.rng.IntN(2) == 0 {
		q.Seat = seatName(others[l.rng.IntN(2)])
	}
	deadline := time.Now().Add(90 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		_, err := l.hosts[l.nodeOf(others[l.rng.IntN(2)])].up().node.Cluster().Promote(ctx, q)
		cancel()
		if err == nil {
			l.lost++
			break
		}
		if strings.Contains(err.Error(), "already") || strings.Contains(err.Error(), "no asynchronous table votes") {
			break // its groups vote elsewhere, and it has no others
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v: promote over region %d: %w", l.now(), lost, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.printf("region %d was promoted over", lost)
	if l.rng.IntN(2) == 0 {
		if err := l.alive(10, others...); err != nil {
			return err
		}
	}
	upTo(2 * time.Second)
	l.net.HealAll()
	for _, h := range l.hosts {
		if h.region == lost {
			h.boot()
		}
	}
	if err := l.alive(10, 1, 2, 3); err != nil {
		return err
	}
	if l.rng.IntN(2) == 0 {
		return l.home(lost)
	}
	return nil
}

// home orders the groups of a region to vote there again, and waits until they do.
func (l *asyncLedger) home(r base.RegionID) error {
	c := l.hosts[0].up().node.Cluster()
	if c.Topology().Seat(r) == r {
		return nil
	}
	if _, err := c.Promote(context.Background(), cluster.PromoteRequest{Lost: seatName(r), Back: true}); err != nil {
		return fmt.Errorf("%v: return of region %d: %w", l.now(), r, err)
	}
	l.printf("region %d is to vote at home again", r)
	if l.rng.IntN(2) == 0 {
		time.Sleep(time.Duration(l.rng.IntN(600)) * time.Millisecond)
		return nil // perhaps its voters are on their way when the next region is lost
	}
	deadline := time.Now().Add(90 * time.Second)
	for {
		away := 0
		for _, g := range c.Topology().AsyncGroups(r) {
			if n := c.Leader(g); n == 0 || c.Topology().RegionOf(n) != r {
				away++
			}
		}
		if away == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v: %d groups of region %d do not go home", l.now(), away, r)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (l *asyncLedger) nodeOf(r base.RegionID) int {
	return slices.IndexFunc(l.hosts, func(h *host) bool { return h.region == r })
}

func (l *asyncLedger) printf(format string, args ...any) { l.log.printf(format, args...) }

var reLedgerRow = regexp.MustCompile(`^async\.(ledger|pair)\((\d+)\)$`)

// judge compares the rows that are there, the answers that clients got, and the reported losses.
func (l *asyncLedger) judge() error {
	var errs []error
	reported := map[int64]bool{}
	rows, err := l.db(1).Query("SELECT DISTINCT row_name FROM godwit.losses WHERE row_name IS NOT NULL")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		switch m := reLedgerRow.FindStringSubmatch(name); {
		case m == nil: // a counter, which was written again
		case m[1] == "pair":
			errs = append(errs, fmt.Errorf("%s is reported as lost, a row of a transaction with synchronous rows", name))
		default:
			n, _ := strconv.ParseInt(m[2], 10, 64)
			reported[n] = true
		}
	}
	for r := base.RegionID(1); r <= 3; r++ {
		if err := l.judgeAt(r, reported); err != nil {
			errs = append(errs, fmt.Errorf("through region %d: %w", r, err))
		}
	}
	if d := l.divergence(); d != "" {
		errs = append(errs, errors.New(d))
	}
	return errors.Join(errs...)
}

func numbers(tx *sql.Tx, q string, args ...any) (out []int64, err error) {
	rows, err := tx.Query(q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, rows.Err()
}

func (l *asyncLedger) judgeAt(through base.RegionID, reported map[int64]bool) error {
	// one snapshot
	tx, err := l.db(through).BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for r := base.RegionID(1); r <= 3; r++ {
		ns, err := numbers(tx, "SELECT n FROM async.ledger WHERE region = ?", r)
		if err != nil {
			return err
		}
		count, err := numbers(tx, "SELECT n FROM async.counter WHERE region = ?", r)
		if err != nil {
			return err
		}
		if len(count) != 1 || int(count[0]) != len(ns) {
			bad("region %d has %d rows but counted %v: half a transaction is there\n%s", r, len(ns), count, l.explain(r, ns))
		}
		seen := map[int64]bool{}
		for _, n := range ns {
			seen[n] = true
			if p, ok := l.sent[r][n]; !ok || p.refused {
				bad("row %d was refused, or never sent", n)
			}
			if reported[n] {
				bad("row %d is reported as lost and is there", n)
			}
		}
		acked, unreported := 0, 0
		for n, p := range l.sent[r] {
			if p.acked {
				acked++
			}
			if p.acked && !seen[n] && !reported[n] {
				if unreported++; unreported <= 3 {
					bad("transaction %d of %v was acknowledged, is not there, and is not reported as lost", n, p.ts)
				}
			}
		}
		if unreported > 3 {
			bad("so are %d in all of region %d", unreported, r)
		}
		if acked < 50 {
			bad("only %d transactions of region %d were acknowledged: this shows nothing", acked, r)
		}
	}
	var pairs [2][]int64
	for i, name := range []string{"async", "sync"} {
		if pairs[i], err = numbers(tx, "SELECT n FROM "+name+".pair ORDER BY n"); err != nil {
			return err
		}
	}
	if !slices.Equal(pairs[0], pairs[1]) {
		bad("%d asynchronous rows of transactions of both kinds, %d synchronous ones", len(pairs[0]), len(pairs[1]))
	}
	for _, n := range l.pairs {
		if _, ok := slices.BinarySearch(pairs[0], n); !ok {
			bad("transaction %d of both kinds was acknowledged and is lost", n)
		}
	}
	if len(l.pairs) == 0 {
		bad("no transaction of both kinds was acknowledged")
	}
	return errors.Join(errs...)
}

// explain lists the transactions whose count does not follow from the one before.
func (l *asyncLedger) explain(r base.RegionID, there []int64) string {
	slices.Sort(there)
	var b strings.Builder
	last := int64(0)
	for i, n := range there {
		if p := l.sent[r][n]; p.count != last+1 {
			for _, m := range there[max(0, i-2):min(len(there), i+3)] {
				p := l.sent[r][m]
				fmt.Fprintf(&b, "  %d: counted %d, acknowledged %v, %v\n", m, p.count, p.acked, p.ts)
			}
		}
		last = l.sent[r][n].count
	}
	return b.String()
}

// TestAsyncLedger: transactions of asynchronous tables are lost as a whole or not at all, and every
// loss is reported.
func TestAsyncLedger(t *testing.T) {
	for _, seed := range seeds([]uint64{2}, 9) {
		l := &asyncLedger{}
		if err := l.run(t, ledgerConfig(seed), 3); err != nil {
			t.Errorf("%s%v\njournal: %s", l.cfg.String(), err, l.keep(t))
		}
	}
}

// keep writes the journal and returns where.
func (l *asyncLedger) keep(t *testing.T) string {
	f, err := os.CreateTemp("", fmt.Sprintf("godwit-ledger-%d-*.log", l.cfg.Seed))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(l.log.text()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestAsyncLedgerSoak is TestAsyncLedger for many seeds, 8 s each: -first and -seeds, as TestSoak.
func TestAsyncLedgerSoak(t *testing.T) {
	needsSeeds(t)
	for seed := *flagFirst; seed < *flagFirst+uint64(*flagSeeds); seed++ {
		began := time.Now()
		l := &asyncLedger{}
		err := l.run(t, ledgerConfig(seed), 4)
		t.Logf("seed %d: %v in %v, %d promotions", seed, l.elapsed.Round(time.Second),
			time.Since(began).Round(100*time.Millisecond), l.lost)
		if err != nil {
			t.Errorf("%s%v\njournal: %s", l.cfg.String(), err, l.keep(t))
		}
	}
}
