package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/feed"
)

// TestFeedLag: what is committed in any region comes out of a change feed in each region within the
// one-way delay of the farthest region, whose groups must have passed it, too, and 200 ms; so do 99
// changes in a hundred. Times are from a client's answer, in virtual time.
func TestFeedLag(t *testing.T) {
	const each, slack = 150, 200 * time.Millisecond
	ms := time.Millisecond
	delays := [][]time.Duration{{0, 20 * ms, 70 * ms}, {20 * ms, 0, 110 * ms}, {70 * ms, 110 * ms, 0}}
	onStageTuned(t, 3, 1, func(cfg *Config) { cfg.Shards, cfg.SQL, cfg.Stay, cfg.Delay = 2, true, true, delays }, func(s *stage) {
		l := &rtLab{t: s.t, w: s.world}
		db, first := l.sqlConn(1, "")
		l.exec(first, "CREATE DATABASE d")
		l.exec(first, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
		first.Close()
		db.Close()
		time.Sleep(5 * time.Second)

		var mu sync.Mutex
		answered := map[int64]time.Time{}
		var arrived [3]map[int64]time.Time
		ctx, stop := context.WithCancel(context.Background())
		var readers, writers sync.WaitGroup
		for i := range arrived {
			arrived[i] = map[int64]time.Time{}
			r, err := feed.Open(ctx, feed.Env{DB: s.db(i + 1), Log: slog.New(slog.DiscardHandler)}, feed.Options{Why: "lag"})
			if err != nil {
				s.t.Fatal(err)
			}
			readers.Go(func() {
				defer r.Close()
				for {
					txs, _, err := r.Next(ctx)
					if err != nil {
						if ctx.Err() == nil {
							s.t.Error(err)
						}
						return
					}
					mu.Lock()
					for _, tx := range txs {
						for _, c := range tx.Changes {
							arrived[i][asInt(c.After[0])] = time.Now()
						}
					}
					mu.Unlock()
				}
			})
		}
		for i := range arrived {
			writers.Go(func() {
				db, c := l.sqlConn(base.RegionID(i+1), "d")
				defer db.Close()
				defer c.Close()
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				for n := range each {
					time.Sleep(time.Duration(rng.IntN(300)) * ms)
					id := int64(1000*i + n)
					l.exec(c, "INSERT INTO t VALUES (?, 1)", id)
					mu.Lock()
					answered[id] = time.Now()
					mu.Unlock()
				}
			})
		}
		writers.Wait()
		time.Sleep(5 * time.Second)
		stop()
		readers.Wait()
		for i := range arrived {
			var lags []time.Duration
			for id, at := range answered {
				if arrived[i][id].IsZero() {
					s.t.Fatalf("region %d: row %d did not come", i+1, id)
				}
				lags = append(lags, arrived[i][id].Sub(at))
			}
			slices.Sort(lags)
			far := slices.Max(delays[i])
			s.t.Logf("region %d, the farthest one %v away: median %v, slowest hundredth %v, slowest %v", i+1, far,
				lags[len(lags)/2].Round(ms), lags[len(lags)*99/100].Round(ms), lags[len(lags)-1].Round(ms))
			if lag := lags[len(lags)*99/100]; lag > far+slack {
				s.t.Errorf("region %d: one change in a hundred comes %v after its client's answer, want at most %v", i+1, lag, far+slack)
			}
		}
	})
}

// asInt is an INT of a row.
func asInt(v any) int64 {
	n, _ := v.(int32)
	return int64(n)
}
