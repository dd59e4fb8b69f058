package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/kv"
)

// asyncKey is row n of a table that region 1 owns, in one of the shards of asynchronous tables (of
// which there are two behind two others).
func asyncKey(n int) base.Key {
	return base.AppendInt64(base.IndexPrefix(base.ShardID(3+n%2), base.MakeTableID(2000, 1), 0, 0), int64(n))
}

func syncKey(n int) base.Key {
	return base.AppendInt64(base.IndexPrefix(base.ShardID(1+n%2), base.MakeTableID(2001, 1), 0, 0), int64(n))
}

type written struct {
	ts    base.Timestamp
	value string
}

// TestPromotion: a region with the voters of asynchronous groups is cut off, goes on, and crashes.
// Survivors take over at the cut. The commits that they held are kept, among them all that also
// wrote synchronous rows; the others are gone everywhere. When the region is back, the report lists
// exactly these, and all replicas are equal.
func TestPromotion(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes a region", nodes), func(t *testing.T) {
			cfg := stageConfig(3)
			cfg.NodesPerRegion, cfg.Shards = nodes, 2
			onWorld(t, cfg, func(s *stage) {
				time.Sleep(20 * time.Second) // leaders go home
				(&promotionLab{t: t, w: s.world, acked: map[string][]written{}}).run()
			})
		})
	}
}

type promotionLab struct {
	t     *testing.T
	w     *world
	acked map[string][]written // by key
	n     int
}

func (l *promotionLab) in(r base.RegionID) (hs []*host) {
	for _, h := range l.w.hosts {
		if h.region == r {
			hs = append(hs, h)
		}
	}
	return hs
}

// write commits a transaction at a region and remembers it if it is acknowledged.
func (l *promotionLab) write(r base.RegionID, limit time.Duration, keys ...base.Key) (base.Timestamp, error) {
	l.n++
	value := fmt.Sprintf("value %d", l.n)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	x := l.in(r)[0].up().node.DB().Begin(kv.Options{})
	defer x.Rollback(context.Background())
	for _, k := range keys {
		x.Put(k, []byte(value), 0)
	}
	ts, err := x.Commit(ctx)
	if err == nil {
		for _, k := range keys {
			l.acked[string(k)] = append(l.acked[string(k)], written{ts, value})
		}
	}
	return ts, err
}

func (l *promotionLab) must(r base.RegionID, keys ...base.Key) base.Timestamp {
	l.t.Helper()
	var err error
	for range 3 {
		var ts base.Timestamp
		if ts, err = l.write(r, 10*time.Second, keys...); err == nil {
			return ts
		}
		time.Sleep(time.Second)
	}
	l.t.Errorf("write at region %d: %v", r, err)
	return 0
}

func (l *promotionLab) run() {
	t, ctx := l.t, context.Background()
	if err := l.in(1)[0].up().node.Cluster().EnableAsync(ctx); err != nil {
		t.Error(err)
		return
	}
	time.Sleep(10 * time.Second)
	for n := range 20 {
		l.must(1, asyncKey(n), asyncKey(n+1)) // two shards
		if n%4 == 0 {
			l.must(1, asyncKey(n), syncKey(n))
		}
		l.must(2, asyncKey(100+n)) // a row of region 2, inserted into a gap of region 1
	}
	// A row of region 1 goes to region 2.
	if _, err := kv.Run(ctx, l.in(1)[0].up().node.DB(), kv.Options{}, func(x kv.Txn) error {
		_, err := x.Get(ctx, []base.Key{asyncKey(7)}, kv.LockExclusive)
		x.Move(asyncKey(7), 2, kv.MoveOptions{})
		return err
	}); err != nil {
		t.Error(err)
		return
	}
	l.must(2, asyncKey(7))
	time.Sleep(2 * time.Second)

	// The region is cut off. It acknowledges commits that no other region holds, but none with rows
	// of other groups.
	if _, err := l.in(2)[0].up().node.Cluster().Promote(ctx,
		cluster.PromoteRequest{Lost: "r1"}); base.CodeOf(err) != base.CodeInvalid {
		t.Errorf("promotion over a region that is alive: %v", err)
	}
	l.w.net.Cut(1, 2)
	l.w.net.Cut(1, 3)
	var lost []base.Timestamp
	for n := range 10 {
		ts, err := l.write(1, 5*time.Second, asyncKey(8+n), asyncKey(9+n), asyncKey(30+n))
		if err != nil {
			if n < 5 {
				t.Errorf("async write %d in the region that is cut off: %v", n, err)
			}
			continue
		}
		lost = append(lost, ts)
	}
	if _, err := l.write(1, 5*time.Second, asyncKey(60), syncKey(60)); err == nil {
		t.Error("a transaction of both kinds was acknowledged in a region that is cut off")
	}
	for _, h := range l.in(1) {
		h.crash()
	}
	time.Sleep(5 * time.Second)
	ps, err := l.in(2)[0].up().node.Cluster().Promote(ctx, cluster.PromoteRequest{Lost: "r1"})
	if err != nil {
		t.Error(err)
		return
	}
	if len(ps) != 1 {
		t.Errorf("%d promotions", len(ps))
		return
	}
	cut := ps[0].Cut
	for _, ts := range lost {
		if ts <= cut {
			t.Errorf("a transaction at %s that nobody else held is below the cut %s", ts, cut)
		}
	}
	t.Logf("cut %s, sources %v, %d transactions lost", cut, ps[0].Groups, len(lost))
	l.forget(cut)
	// Survivors go on.
	for n := range 10 {
		l.must(3, asyncKey(n))
		l.must(2, asyncKey(n), asyncKey(n+1), syncKey(n))
	}
	time.Sleep(5 * time.Second)
	l.verify(2, 3)

	// The region is back.
	l.w.net.HealAll()
	for _, h := range l.in(1) {
		h.boot()
	}
	time.Sleep(60 * time.Second)
	l.verify(1, 2, 3)
	l.must(1, asyncKey(1), asyncKey(2))
	l.report(lost)
	if _, err := l.in(1)[0].up().node.Cluster().Promote(ctx, cluster.PromoteRequest{Lost: "r1", Back: true}); err != nil {
		t.Error(err)
	}
	time.Sleep(60 * time.Second)
	for n := range 20 {
		l.must(1, asyncKey(n), asyncKey(n+1))
		l.must(2, asyncKey(n+50))
	}
	time.Sleep(5 * time.Second)
	l.verify(1, 2, 3)
	if d := l.w.divergence(); d != "" {
		t.Error(d)
	}
}

// forget drops what was acknowledged above the cut.
func (l *promotionLab) forget(cut base.Timestamp) {
	for k, ws := range l.acked {
		if l.isLost(k) {
			l.acked[k] = slices.DeleteFunc(ws, func(w written) bool { return w.ts > cut })
		}
	}
}

// isLost reports whether a key belongs to an asynchronous table and was owned by region 1 when that
// was lost.
func (l *promotionLab) isLost(k string) bool {
	return base.Key(k).Shard() > 2 && !bytes.Equal([]byte(k), asyncKey(7))
}

// verify reads all rows in some regions.
func (l *promotionLab) verify(regions ...base.RegionID) {
	for _, r := range regions {
		for k, ws := range l.acked {
			var last written
			for _, w := range ws {
				if w.ts > last.ts {
					last = w
				}
			}
			var rows []kv.Row
			var err error
			for range 5 {
				x := l.in(r)[0].up().node.DB().Begin(kv.Options{ReadOnly: true})
				rows, err = x.Get(context.Background(), []base.Key{base.Key(k)}, kv.LockNone)
				x.Rollback(context.Background())
				if err == nil {
					break
				}
				time.Sleep(time.Second)
			}
			if err != nil || string(rows[0].Value) != last.value {
				l.t.Errorf("region %d reads %q of %s, want %q of %s (%v)", r, value(rows), base.Key(k), last.value, last.ts, err)
			}
		}
	}
}

func value(rows []kv.Row) string {
	if len(rows) == 0 {
		return "nothing"
	}
	return string(rows[0].Value)
}

// report compares the losses that the nodes report with the real ones.
func (l *promotionLab) report(lost []base.Timestamp) {
	got := map[base.Timestamp]int{}
	for _, x := range l.in(2)[0].up().node.Losses(context.Background()) {
		for _, y := range x.List {
			got[y.TS] += len(y.Keys)
			if y.Unsure {
				l.t.Errorf("transaction %s at %s is reported as unsure", y.ID, y.TS)
			}
		}
	}
	for _, ts := range lost {
		if got[ts] != 3 {
			l.t.Errorf("%d of 3 rows of the transaction at %s are reported as lost", got[ts], ts)
		}
		delete(got, ts)
	}
	for ts, n := range got {
		l.t.Errorf("%d rows of a transaction at %s are reported as lost, which nobody was told had committed", n, ts)
	}
}
