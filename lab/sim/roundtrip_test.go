package sim

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/policy/matrix"
)

var flagUpdate = flag.Bool("update", false, "TestRoundTrips: rewrite docs/figures/round-trips.md")

const (
	roundTripsFile = "../../docs/figures/round-trips.md"
	// slack is what an operation may take on top of its round trips: local work takes no virtual
	// time, so it is commit wait (twice the clock bound, which is 100 µs here).
	slack = time.Millisecond
	// heartbeat is the time between closed timestamps that are sent to nodes that wait for them.
	heartbeat = 10 * time.Millisecond
)

// budget is one row of the table.
type budget struct {
	op, formula string
	at, other   base.RegionID
	rtts        float64       // counted
	took        time.Duration // virtual
	// What is allowed.
	maxRTTs float64
	exact   bool // no less, either
	want    time.Duration
}

// rtLab measures single operations on a quiet cluster.
type rtLab struct {
	t    *testing.T
	w    *world
	m    *matrix.Matrix
	rows []budget
}

// key is row n of a table whose first gaps belong to a region.
func (l *rtLab) key(shard int, home base.RegionID, n int) base.Key {
	return base.AppendInt64(base.IndexPrefix(base.ShardID(shard), base.MakeTableID(2000, home), 0, 0), int64(1000*n))
}

// gap is a key in the gap after row n.
func (l *rtLab) gap(shard int, home base.RegionID, n int) base.Key {
	return base.AppendInt64(base.IndexPrefix(base.ShardID(shard), base.MakeTableID(2000, home), 0, 0), int64(1000*n+500))
}

func (l *rtLab) db(r base.RegionID) kv.DB {
	for _, h := range l.w.hosts {
		if h.region == r {
			return h.up().node.DB()
		}
	}
	return nil
}

// measure runs one transaction and records its cost, without that of setUp, which runs first in the
// same transaction.
func (l *rtLab) measure(b budget, opts kv.Options, setUp, fn func(ctx context.Context, t kv.Txn) error) {
	// the outcome of the last transaction is still on its way to the participants
	time.Sleep(time.Second)
	tr := new(obs.Trace)
	opts.Trace = tr
	ctx := context.Background()
	t := l.db(b.at).Begin(opts)
	defer t.Rollback(ctx)
	if setUp != nil {
		if err := setUp(ctx, t); err != nil {
			l.t.Errorf("%s at region %d: %v", b.op, b.at, err)
			return
		}
		tr.Reset()
	}
	began := time.Now()
	err := fn(ctx, t)
	b.took, b.rtts = time.Since(began), tr.RTTs()
	l.check(b, err)
}

// check compares a measurement with its budget.
func (l *rtLab) check(b budget, err error) {
	switch {
	case err != nil:
		l.t.Errorf("%s at region %d (with %d): %v", b.op, b.at, b.other, err)
	case b.rtts > b.maxRTTs || b.exact && b.rtts != b.maxRTTs:
		l.t.Errorf("%s at region %d (with %d): counted %v round trips, budget %v", b.op, b.at, b.other, b.rtts, b.maxRTTs)
	case b.took > b.want+slack || b.exact && b.took < b.want:
		l.t.Errorf("%s at region %d (with %d): took %v, budget %v = %v", b.op, b.at, b.other, b.took, b.formula, b.want)
	}
	l.rows = append(l.rows, b)
}

func (l *rtLab) rtt(a, b base.RegionID) time.Duration { return l.m.RoundTrip(int(a)-1, int(b)-1) }

// farthest is the longest round trip between a region and another one.
func (l *rtLab) farthest(r base.RegionID) (d time.Duration) {
	for o := range l.m.Names {
		d = max(d, l.m.RoundTrip(int(r)-1, o))
	}
	return d
}
func (l *rtLab) quorum(r base.RegionID) time.Duration { return l.m.Quorum(int(r) - 1) }

// commitNow is the body of a transaction that only writes.
func commitNow(write func(t kv.Txn)) func(context.Context, kv.Txn) error {
	return func(ctx context.Context, t kv.Txn) error {
		write(t)
		_, err := t.Commit(ctx)
		return err
	}
}

func getAll(lock kv.LockMode, keys ...base.Key) func(context.Context, kv.Txn) error {
	return func(ctx context.Context, t kv.Txn) error {
		_, err := t.Get(ctx, keys, lock)
		return err
	}
}

func (l *rtLab) run() {
	n := len(l.m.Names)
	val := []byte("v")
	// Every region has rows 0..9 of its own in both shards.
	for r := base.RegionID(1); int(r) <= n; r++ {
		if _, err := kv.Run(context.Background(), l.db(r), kv.Options{}, func(t kv.Txn) error {
			for i := range 10 {
				t.Put(l.key(1, r, i), val, 0)
				t.Put(l.key(2, r, i), val, 0)
			}
			return nil
		}); err != nil {
			l.t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Second)
	for r := base.RegionID(1); int(r) <= n; r++ {
		q := l.quorum(r)
		local := func(op string) budget { return budget{op: op, at: r, exact: true, formula: "0"} }
		one := func(op string) budget {
			return budget{op: op, at: r, exact: true, maxRTTs: 1, formula: "quorum", want: q}
		}
		own := []base.Key{l.key(1, r, 0), l.key(2, r, 1), l.key(1, r, 2)}
		l.measure(local("snapshot read, own-region rows of two shards"), kv.Options{ReadOnly: true}, nil,
			getAll(kv.LockNone, own...))
		l.measure(local("snapshot scan, own-region rows"), kv.Options{ReadOnly: true},
			nil, func(ctx context.Context, t kv.Txn) error {
				_, err := t.Scan(ctx, kv.ScanRequest{Spans: []base.Span{{Start: l.key(2, r, 0), End: l.key(2, r, 9)}}})
				return err
			})
		l.measure(local("locking read, own-region rows of two shards"), kv.Options{}, nil, getAll(kv.LockExclusive, own...))
		l.measure(one("commit in own region, one shard"), kv.Options{}, nil, commitNow(func(t kv.Txn) { t.Put(own[0], val, 0) }))
		l.measure(one("commit in own region, one shard, after locking reads"), kv.Options{},
			getAll(kv.LockExclusive, own[0], own[2]),
			commitNow(func(t kv.Txn) { t.Put(own[0], val, 0) }))
		l.measure(one("commit in own region, two shards (parallel prepare)"), kv.Options{}, nil, commitNow(func(t kv.Txn) {
			for _, k := range own {
				t.Put(k, val, 0)
			}
		}))
		l.measure(one("read-modify-write in own region, two shards, all in all"), kv.Options{},
			nil, func(ctx context.Context, t kv.Txn) error {
				if _, err := t.Get(ctx, own, kv.LockExclusive); err != nil {
					return err
				}
				for _, k := range own {
					t.Put(k, val, 0)
				}
				_, err := t.Commit(ctx)
				return err
			})
		l.measure(one("insert into a gap of the own region"), kv.Options{}, nil,
			commitNow(func(t kv.Txn) { _ = t.Insert(l.gap(1, r, 8), val, 0) }))
		l.measure(one("delete of an own-region row"), kv.Options{}, nil, commitNow(func(t kv.Txn) { t.Delete(l.key(1, r, 9)) }))
		l.measure(local("read of the catalog (meta shard), validated at commit"), kv.Options{}, nil,
			func(ctx context.Context, t kv.Txn) error {
				_, err := t.Get(ctx, []base.Key{base.IndexPrefix(0, 5, 0, 0)}, kv.LockShared)
				return err
			})
		l.measure(one("commit in own region that read the catalog"), kv.Options{},
			getAll(kv.LockShared, base.IndexPrefix(0, 5, 0, 0)),
			commitNow(func(t kv.Txn) { t.Put(own[0], val, 0) }))
		for o := base.RegionID(1); int(o) <= n; o++ {
			if o == r {
				continue
			}
			theirs := []base.Key{l.key(1, o, 0), l.key(1, o, 3)}
			both := []base.Key{l.key(1, o, 0), l.key(2, o, 3)}
			trip, oq := l.rtt(r, o), l.quorum(o)
			l.measure(budget{op: "locking read, rows of another region", at: r, other: o, exact: true, maxRTTs: 1,
				formula: "RTT", want: trip},
				kv.Options{}, nil, getAll(kv.LockExclusive, theirs...))
			l.measure(budget{op: "snapshot read, rows of another region", at: r, other: o, maxRTTs: 1,
				formula: "at most RTT", want: trip},
				kv.Options{ReadOnly: true}, nil, getAll(kv.LockNone, theirs...))
			// While others read like that too, closed timestamps come every 10 ms.
			warm := func(ctx context.Context, _ kv.Txn) error {
				for range 2 {
					t := l.db(r).Begin(kv.Options{ReadOnly: true})
					if _, err := t.Get(ctx, theirs, kv.LockNone); err != nil {
						return err
					}
					t.Rollback(ctx)
					time.Sleep(trip + 50*time.Millisecond)
				}
				return nil
			}
			half := func(op string, trip time.Duration) budget {
				return budget{op: op, at: r, other: o, maxRTTs: 0.5, formula: "half an RTT + heartbeat", want: trip/2 + heartbeat}
			}
			l.measure(half("strong read from the local replica, rows of another region", trip),
				kv.Options{ReadOnly: true}, warm, getAll(kv.LockNone, theirs...))
			l.measure(half("strong read from the local replica, rows of this and another region", trip),
				kv.Options{ReadOnly: true}, warm, getAll(kv.LockNone, own[0], theirs[0]))
			l.measure(half("strong scan from the local replica, rows of all regions", l.farthest(r)),
				kv.Options{ReadOnly: true}, warm, func(ctx context.Context, t kv.Txn) error {
					var spans []base.Span
					for h := base.RegionID(1); int(h) <= n; h++ {
						spans = append(spans, base.Span{Start: l.key(1, h, 0), End: l.key(1, h, 9)},
							base.Span{Start: l.key(2, h, 0), End: l.key(2, h, 9)})
					}
					_, err := t.Scan(ctx, kv.ScanRequest{Spans: spans})
					return err
				})
			l.measure(budget{op: "snapshot read, 3 s in the past, rows of another region", at: r, other: o,
				exact: true, formula: "0"},
				kv.Options{ReadOnly: true, ReadTS: base.FromTime(time.Now().Add(-3 * time.Second))}, nil,
				getAll(kv.LockNone, theirs...))
			l.measure(budget{op: "blind write of a row of another region", at: r, other: o, exact: true, maxRTTs: 2,
				formula: "RTT + quorum there", want: trip + oq},
				kv.Options{}, nil, commitNow(func(t kv.Txn) { t.Put(theirs[0], val, 0) }))
			l.measure(budget{op: "blind writes of another region, two shards", at: r, other: o, exact: true,
				maxRTTs: 2, formula: "RTT + quorum there", want: trip + oq},
				kv.Options{}, nil, commitNow(func(t kv.Txn) { t.Put(both[0], val, 0); t.Put(both[1], val, 0) }))
			l.measure(budget{op: "insert into a gap of another region", at: r, other: o, maxRTTs: 2,
				formula: "at most RTT + quorum there", want: trip + oq},
				kv.Options{}, nil, commitNow(func(t kv.Txn) { _ = t.Insert(l.gap(1, o, int(r)), val, 0) }))
			for _, n := range []int{1, 3, 10} {
				// Every statement reads a row for update and writes it, here and there.
				statements := func(ctx context.Context, t kv.Txn) error {
					for i := range n {
						for _, k := range []base.Key{l.key(1, r, i%9), l.key(1+i%2, o, i%9)} {
							if _, err := t.Get(ctx, []base.Key{k}, kv.LockExclusive); err != nil {
								return err
							}
							t.Put(k, val, 0)
						}
					}
					_, err := t.Commit(ctx)
					return err
				}
				// Or it leaves the row there to be updated by its owner (docs/protocol.md REL-9).
				updates := func(ctx context.Context, t kv.Txn) error {
					for i := range n {
						t.Put(l.key(1, r, i%9), val, 0)
						k := l.key(1+i%2, o, i%9)
						row, ok, err := t.Draft(ctx, k)
						switch {
						case err != nil:
							return err
						case ok:
							t.Update(k, append(bytes.Clone(row.Value), '+'), patch.Append([]byte{'+'}))
						case i < 9:
							return fmt.Errorf("%v is not known here", k)
						}
					}
					_, err := t.Commit(ctx)
					return err
				}
				before := func(ctx context.Context, x kv.Txn) error {
					// from which the gateway learns how far ahead slots have to be
					t := l.db(r).Begin(kv.Options{Relay: true})
					if err := statements(ctx, t); err != nil {
						return err
					}
					return warm(ctx, x)
				}
				hops := 2.5
				if n > 1 {
					// the wait for the second shard counts as half a trip, however short; the time
					// shows that the two waits overlap
					hops = 3
				}
				l.measure(budget{op: fmt.Sprintf("transaction across regions without locks (relay), "+
					"%d statements in each", n), at: r, other: o, maxRTTs: hops,
					formula: "half an RTT + heartbeat, then max(quorum, RTT + quorum there) and a slack of 1/16 + 3 ms",
					want:    trip/2 + heartbeat + max(q, trip+oq)*17/16 + 3*time.Millisecond},
					kv.Options{Relay: true}, before, statements)
				l.measure(budget{op: fmt.Sprintf("the same, %d updates in each that are left to the owners", n),
					at: r, other: o, maxRTTs: 2,
					formula: "max(quorum, RTT + quorum there) and a slack of 1/16 + 3 ms",
					want:    max(q, trip+oq)*17/16 + 3*time.Millisecond}, kv.Options{Relay: true}, before, updates)
			}
			l.measure(budget{op: "commit in both regions (parallel prepare)", at: r, other: o, maxRTTs: 2,
				formula: "max(quorum, RTT + quorum there)", want: max(q, trip+oq)},
				kv.Options{}, nil, commitNow(func(t kv.Txn) { t.Put(own[0], val, 0); t.Put(theirs[0], val, 0) }))
		}
	}
}

// TestRoundTrips holds the round-trip budget of docs/design.md, counted and in virtual time: of
// three regions, and at full length or with -update of five, too.
func TestRoundTrips(t *testing.T) {
	var doc strings.Builder
	fmt.Fprintf(&doc, "# Round trips\n\nMeasured on virtual time by\n\n    go test -tags gms_pure_go ./lab/sim -run "+
		"TestRoundTrips -args -update\n\n"+
		"One node a region (two where it says so), two shards, no load, clock bound 100 µs (commit wait is at most "+
		"twice that).\n"+
		"Counted are WAN round trips on the critical path, as `EXPLAIN ANALYZE` shows them; allowed is the formula from the\n"+
		"matrix plus %v. The test fails where a row exceeds its budget, and, for rows without \"at most\", where it undercuts\n"+
		"it.\n", slack)
	regions := []int{3}
	if long() || *flagUpdate {
		regions = append(regions, 5)
	}
	for _, n := range regions {
		t.Run(fmt.Sprintf("regions=%d", n), func(t *testing.T) {
			m, err := matrix.Default(n)
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Seed: 1, Regions: n, NodesPerRegion: 1, Shards: 2, Delay: m.OneWays(), LAN: 250 * time.Microsecond,
				ClockBound: 100 * time.Microsecond, GCAge: time.Hour, SQL: true, Stay: true}
			l := &rtLab{t: t, m: m}
			onWorld(t, cfg, func(s *stage) {
				l.w = s.world
				time.Sleep(20 * time.Second) // leaders go home
				l.run()
				l.runSQL()
			})
			l.homes(cfg)
			if n == 3 {
				l.stale(cfg)
			}
			l.gtm(cfg)
			l.print(&doc)
		})
	}
	if *flagUpdate && !t.Failed() {
		if err := os.MkdirAll("../../docs/figures", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(roundTripsFile, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// print adds a table: one line per operation, the worst of all regions and pairs.
func (l *rtLab) print(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %d regions\n\nRegions: %s.\nQuorum round trips:", len(l.m.Names), strings.Join(l.m.Names, ", "))
	for i, name := range l.m.Names {
		fmt.Fprintf(b, " %s %s", name, ms(l.m.Quorum(i)))
	}
	b.WriteString(" ms.\n\n| Operation | Round trips counted | Time in ms, least - most over all regions | Allowed by " +
		"the matrix | Largest excess over it, ms |\n|---|---|---|---|---|\n")
	var ops []string
	by := map[string][]budget{}
	for _, r := range l.rows {
		if by[r.op] == nil {
			ops = append(ops, r.op)
		}
		by[r.op] = append(by[r.op], r)
	}
	for _, op := range ops {
		rows := by[op]
		lo, hi, over := rows[0].took, rows[0].took, rows[0].took-rows[0].want
		least, most := rows[0].rtts, rows[0].rtts
		for _, r := range rows {
			lo, hi, over = min(lo, r.took), max(hi, r.took), max(over, r.took-r.want)
			least, most = min(least, r.rtts), max(most, r.rtts)
		}
		counted := fmt.Sprint(least)
		if most != least {
			counted = fmt.Sprintf("%v - %v", least, most)
		}
		fmt.Fprintf(b, "| %s | %s | %s - %s | %s | %s |\n", op, counted, ms(lo), ms(hi), rows[0].formula, ms(over))
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
