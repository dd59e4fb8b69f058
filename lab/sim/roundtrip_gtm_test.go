package sim

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
)

// gtm measures, on a cluster of its own, the cost of clock mode GTM. A snapshot takes a trip to the
// oracle. A commit takes the longer of the quorum's and the oracle's trip. A transaction of writes
// only takes one oracle trip before that; others have taken it earlier.
func (l *rtLab) gtm(cfg Config) {
	cfg.SQL = false
	onWorld(l.t, cfg, func(s *stage) {
		l.w = s.world
		time.Sleep(20 * time.Second) // leaders go home
		l.runGTM()
	})
}

func (l *rtLab) runGTM() {
	val := []byte("v")
	for r := base.RegionID(1); int(r) <= len(l.m.Names); r++ {
		if _, err := kv.Run(context.Background(), l.db(r), kv.Options{}, func(t kv.Txn) error {
			for i := range 4 {
				t.Put(l.key(1, r, i), val, 0)
				t.Put(l.key(2, r, i), val, 0)
			}
			return nil
		}); err != nil {
			l.t.Fatal(err)
		}
	}
	l.w.setPolicy(clock.WantGTM)
	time.Sleep(10 * time.Second)
	c := l.w.hosts[0].up().node.Cluster()
	if s := c.Clock(); s.Mode != clock.GTM.String() {
		l.t.Fatalf("%+v", s)
	}
	oracle := c.Topology().RegionOf(c.Leader(base.MetaGroup))
	for r := base.RegionID(1); int(r) <= len(l.m.Names); r++ {
		trip, rtts := time.Duration(0), 0.0
		if r != oracle {
			trip, rtts = l.rtt(r, oracle), 1
		}
		q := l.quorum(r)
		own := []base.Key{l.key(1, r, 0), l.key(2, r, 1)}
		opened := func(keys ...base.Key) func(context.Context, kv.Txn) error {
			return func(ctx context.Context, t kv.Txn) error {
				defer time.Sleep(time.Second) // the client thinks
				return getAll(kv.LockExclusive, keys...)(ctx, t)
			}
		}
		l.measure(budget{op: "clock mode GTM: snapshot read, own-region rows of two shards", at: r, exact: true,
			maxRTTs: rtts, formula: "oracle: RTT to the meta group's leader, if that is elsewhere", want: trip},
			kv.Options{ReadOnly: true}, nil, getAll(kv.LockNone, own...))
		l.measure(budget{op: "clock mode GTM: locking read, own-region rows", at: r, exact: true, formula: "0"},
			kv.Options{}, nil, getAll(kv.LockExclusive, own...))
		l.measure(budget{op: "clock mode GTM: commit in own region after locking reads", at: r, exact: true,
			maxRTTs: 1, formula: "max(quorum, oracle)", want: max(q, trip)},
			kv.Options{}, opened(own[0]), commitNow(func(t kv.Txn) { t.Put(own[0], val, 0) }))
		l.measure(budget{op: "clock mode GTM: commit in two shards after locking reads", at: r, exact: true,
			maxRTTs: 1, formula: "max(quorum, oracle)", want: max(q, trip)},
			kv.Options{}, opened(own...), commitNow(func(t kv.Txn) { t.Put(own[0], val, 0); t.Put(own[1], val, 0) }))
		l.measure(budget{op: "clock mode GTM: blind write in own region", at: r, exact: true, maxRTTs: rtts + 1,
			formula: "oracle + max(quorum, oracle)", want: trip + max(q, trip)},
			kv.Options{}, nil, commitNow(func(t kv.Txn) { t.Put(own[0], val, 0) }))
	}
}
