package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/history"
	"github.com/godwitdb/godwit/lab/workload"
)

// historian is a client of real processes that records its requests and their answers.
type historian struct {
	rec    *history.Recorder
	id     int
	region int
	pool   *sql.DB
	rng    *rand.Rand
	// consistency is the session's transaction_consistency; empty: the default.
	consistency string
}

const (
	historyRows = 3 // of each region
	// of clients of each region: one that locks across regions, and one that does not
	historyPairs = 2
)

// TestHistoriesOfRealProcesses: clients of three regions change a few rows of all of them through
// SQL, half of them with each transaction_consistency, while a node is killed and started again.
// Their history is strictly serializable, and so has Relay's three properties.
func TestHistoriesOfRealProcesses(t *testing.T) {
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	h := recordHistory(t, c, "relay", "strict")
	judge(t, map[string]*history.Violation{
		"Relay": history.RelayConsistent(h), "strict": history.StrictSerializable(h),
		"acknowledged writes": history.NoLostWrites(h), "whole transactions": history.NoTornReads(h),
	})
}

// TestHistoriesByTimestamp does the same in clusters that order by timestamps, which promise less.
func TestHistoriesByTimestamp(t *testing.T) {
	for _, how := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
		t.Run(string(how), func(t *testing.T) {
			c := startCluster(t, t.TempDir(), 3, 1, "--concurrency", string(how))
			t.Cleanup(c.kill)
			if s := c.status(t); !strings.Contains(s, "concurrency control "+string(how)+",") {
				t.Errorf("status: %s", s)
			}
			h := recordHistory(t, c, "")
			found := map[string]*history.Violation{"acknowledged writes": history.NoLostWrites(h),
				"whole transactions": history.NoTornReads(h)}
			if how == base.ByTimestampRelay {
				found["Relay"] = history.RelayConsistent(h)
			} else {
				found["serializable"] = history.Serializable(h)
			}
			_, found["each key"] = history.Linearizable(h, 10*time.Second)
			judge(t, found)
		})
	}
}

func judge(t *testing.T, found map[string]*history.Violation) {
	t.Helper()
	for name, v := range found {
		if v != nil {
			t.Errorf("%s: %.3000v", name, v)
		}
	}
}

// recordHistory lets clients of three regions work, while a node is killed and started again. A
// last reader reads when all of them have ended.
func recordHistory(t *testing.T, c *processes, consistencies ...string) *history.History {
	t.Helper()
	c.logOnFailure(t)
	first := c.nodes[0].open(t, "")
	exec1(t, first, "CREATE DATABASE h")
	exec1(t, first, "CREATE TABLE h.t (k VARCHAR(10) PRIMARY KEY, v VARCHAR(20) NOT NULL)")
	exec1(t, first, "SET CLUSTER SETTING home.mode = 'never'")
	began := time.Now()
	rec := history.NewRecorder(func() int64 { return int64(time.Since(began)) })
	initial := map[string]string{}
	for r, name := range c.regions {
		for i := range historyRows {
			k := historyKey(r, i)
			initial[k] = "0." + k
			exec1(t, c.of(name)[0].open(t, "h"), "INSERT INTO t VALUES (?, ?)", k, initial[k])
		}
	}
	rec.SetInit(initial)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var clients sync.WaitGroup
	for r, name := range c.regions {
		for i := range 2 * historyPairs {
			h := &historian{rec: rec, id: 100*r + i, region: r, pool: c.of(name)[0].open(t, "h"),
				rng: rand.New(rand.NewPCG(uint64(r), uint64(i))), consistency: consistencies[i%len(consistencies)]}
			clients.Go(func() { h.work(ctx, len(c.regions)) })
		}
	}
	pause(ctx, 2*time.Second)
	c.nodes[1].kill()
	pause(ctx, time.Second)
	c.nodes[1].start(t)
	c.nodes[1].awaitSQL(t)
	pause(ctx, 2*time.Second)
	stop()
	clients.Wait()
	for _, n := range c.nodes {
		n.kill()
	}
	for _, n := range c.nodes {
		n.start(t)
	}
	for _, n := range c.nodes {
		n.awaitSQL(t)
	}

	first = c.nodes[0].open(t, "")
	final := map[string]string{}
	rows, err := first.Query("SELECT k, v FROM h.t FOR UPDATE")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var k, v string
		if err := rows.Scan(&k, &v); err != nil {
			t.Fatal(err)
		}
		final[k] = v
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	rec.SetFinal(final)
	h := rec.History()
	if err := h.Validate(); err != nil {
		t.Fatal(err)
	}
	outcomes, crossed := map[history.Outcome]int{}, 0
	for i := range h.Txns {
		x := &h.Txns[i]
		outcomes[x.Outcome]++
		if x.Outcome == history.Committed && len(x.Regions) > 1 {
			crossed++
		}
	}
	t.Logf("%v; %d of those committed cross regions", outcomes, crossed)
	if outcomes[history.Committed] < 100 || crossed < 20 {
		t.Error("too few transactions committed to say anything")
	}
	return h
}

func historyKey(region, i int) string { return fmt.Sprintf("%c%d", 'a'+region, i) }

// work runs transactions until ctx is done, on a connection of its own.
func (h *historian) work(ctx context.Context, regions int) {
	for ctx.Err() == nil {
		conn, err := h.pool.Conn(context.Background())
		if err == nil {
			if h.consistency != "" {
				_, err = conn.ExecContext(context.Background(), "SET transaction_consistency = '"+h.consistency+"'")
			}
			for err == nil && ctx.Err() == nil {
				err = h.one(conn, regions)
			}
			_ = conn.Close()
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// one runs a transaction. An error means that the connection is unusable.
func (h *historian) one(conn *sql.Conn, regions int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	a := h.rec.Begin(h.id, fmt.Sprint("r", h.region))
	read := func(k string, r int, suffix string) error {
		var v string
		err := conn.QueryRowContext(ctx, "SELECT v FROM t WHERE k = ?"+suffix, k).Scan(&v)
		if err == nil {
			a.Touch(fmt.Sprint("r", r))
			a.Read(k, v)
		}
		return err
	}
	pick := func() int {
		if h.rng.IntN(2) == 0 {
			return h.region
		}
		return h.rng.IntN(regions)
	}
	if h.rng.IntN(4) == 0 { // an autocommit read
		r := pick()
		err := read(historyKey(r, h.rng.IntN(historyRows)), r, "")
		if err != nil {
			a.Abort()
			return keep(err)
		}
		a.Commit(0)
		return nil
	}
	body := func() error {
		if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
			return err
		}
		seen := map[string]bool{}
		for range 1 + h.rng.IntN(3) {
			r := pick()
			k := historyKey(r, h.rng.IntN(historyRows))
			if seen[k] {
				continue
			}
			seen[k] = true
			write := h.rng.IntN(2) == 0
			suffix := ""
			if write && h.rng.IntN(2) == 0 {
				suffix = " FOR UPDATE"
			}
			if err := read(k, r, suffix); err != nil {
				return err
			}
			if write {
				v := fmt.Sprintf("%d.%s", a.ID(), k)
				a.Write(k, v)
				if _, err := conn.ExecContext(ctx, "UPDATE t SET v = ? WHERE k = ?", v, k); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := body(); err != nil {
		a.Abort()
		if workload.Retryable(err) {
			_, err = conn.ExecContext(ctx, "ROLLBACK")
		}
		return err
	}
	_, err := conn.ExecContext(ctx, "COMMIT")
	switch {
	case err == nil:
		a.Commit(0)
		return nil
	case workload.Retryable(err):
		a.Abort()
		return nil
	}
	a.Unknown(0)
	h.id += 1000 // its last transaction may still be under way
	return err
}

// keep returns the error if the connection is unusable after it.
func keep(err error) error {
	if workload.Retryable(err) {
		return nil
	}
	return err
}
