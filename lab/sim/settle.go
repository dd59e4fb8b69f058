package sim

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// Bounds of what must hold again after the last fault, in virtual time.
const (
	liveBound  = 30 * time.Second // a transaction through every gateway into every group
	drainBound = 60 * time.Second // no transaction left anywhere, replicas alike
)

// probe runs, through every node, one transaction for each group and one over all groups. It
// returns how long the slowest of those for one group of rows took.
func (b *bench) probe() (slowest time.Duration) {
	w := b.w
	began := time.Now()
	var longest atomic.Int64
	defer func() { slowest = time.Duration(longest.Load()) }()
	ctx, cancel := context.WithTimeout(context.Background(), liveBound)
	defer cancel()
	groups := w.topology().Groups()
	var wg sync.WaitGroup
	for _, h := range w.hosts {
		l := h.up()
		if h.ident.Load() == nil {
			continue
		}
		if l == nil {
			w.fail("node %d is not up after the faults", h.id)
			continue
		}
		write := func(gs ...base.GroupID) {
			wg.Go(func() {
				if err := w.writeAlive(ctx, l.node.DB(), h.id, gs); err != nil {
					w.fail("%v after the last fault, node %d cannot write to %v: %w", liveBound, h.id, gs, err)
				}
				if took := int64(time.Since(began)); len(gs) == 1 && gs[0] != base.MetaGroup {
					for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
					}
				}
			})
		}
		for _, g := range groups {
			write(g)
		}
		write(groups...)
	}
	wg.Wait()
	w.log.printf("all gateways reach all groups")
	return 0
}

// writeAlive writes a row of each group, again and again until it is known to be written: a node
// that waits for an answer has less patience than the bound, and may say that an outcome is
// unknown.
func (w *world) writeAlive(ctx context.Context, db kv.DB, from base.NodeID, gs []base.GroupID) error {
	for {
		_, err := kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
			for _, g := range gs {
				t.Put(probeKey(g, from, len(gs)), []byte("alive"), db.Topology().HomeFor(g.Region()))
			}
			return nil
		})
		if code := base.CodeOf(err); code != base.CodeAmbiguous && code != base.CodeUnavailable || ctx.Err() != nil {
			return err
		}
		w.log.printf("probe of node %d, %v: not written: %v", from, gs, err)
		time.Sleep(100 * time.Millisecond)
	}
}

// probeKey is a key that a group owns from the start.
func probeKey(g base.GroupID, id base.NodeID, n int) base.Key {
	return base.AppendInt64(base.AppendInt64(base.IndexPrefix(g.Shard(), base.MakeTableID(tableProbe, g.Region()), 0,
		0), int64(id)), int64(n))
}

// drain waits until nothing is under way and all replicas are equal.
func (b *bench) drain() {
	w := b.w
	end := time.Now().Add(drainBound)
	for {
		left := w.leftovers()
		if left == "" {
			left = w.divergence()
		}
		if left == "" {
			w.log.printf("drained")
			return
		}
		if time.Now().After(end) {
			w.fail("%v after the last transaction: %s", drainBound, left)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// leftovers names a transaction that still holds locks or a vote; empty if there is none.
func (w *world) leftovers() string {
	for _, h := range w.hosts {
		l := h.up()
		if h.ident.Load() == nil {
			continue
		}
		if l == nil {
			return fmt.Sprintf("node %d is down", h.id)
		}
		for _, r := range l.node.Owners().Replicas() {
			for _, x := range r.Txns() {
				if x.Locks > 0 || x.Phase == "prepared" {
					return fmt.Sprintf("node %d, group %v still has %+v", h.id, r.ID(), x)
				}
			}
			if n := r.Staged(); n > 0 {
				return fmt.Sprintf("node %d, group %v: %d transactions have pieces and no vote", h.id, r.ID(), n)
			}
			if rows := r.Locks(1); len(rows) > 0 {
				return fmt.Sprintf("node %d, group %v: a lock without a transaction: %+v", h.id, r.ID(), rows[0])
			}
			left := ""
			err := l.store.ScanTxns(r.ID(), base.TxnID{}, base.TxnID{}, func(id base.TxnID, rec []byte) error {
				if wire.TxnState(rec[0]) == wire.TxnState_PREPARED {
					left = fmt.Sprintf("node %d, group %v: transaction %v is still prepared", h.id, r.ID(), id)
				}
				return nil
			})
			if err != nil {
				return fmt.Sprintf("node %d, group %v: %v", h.id, r.ID(), err)
			}
			if left != "" {
				return left
			}
		}
	}
	return ""
}

// divergence says where two replicas of a shard differ; empty if nowhere.
func (w *world) divergence() string {
	t := w.topology()
	for _, s := range append(t.DataShards(), base.MetaShard) {
		first, of := []version(nil), base.NodeID(0)
		for _, id := range t.ShardReplicas(s) {
			l := w.hosts[id-1].up()
			if l == nil {
				return fmt.Sprintf("node %d is down", id)
			}
			vs, err := w.versions(l.store, s)
			if err != nil {
				return fmt.Sprintf("node %d, shard %d: %v", id, s, err)
			}
			if of == 0 {
				first, of = vs, id
				continue
			}
			for i := range max(len(vs), len(first)) {
				a, b := version{}, version{}
				if i < len(first) {
					a = first[i]
				}
				if i < len(vs) {
					b = vs[i]
				}
				if a != b {
					return fmt.Sprintf("shard %d differs: node %d has %v where node %d has %v", s, of, a, id, b)
				}
			}
		}
	}
	return ""
}

type version struct {
	key, value string
	ts         base.Timestamp
	label      base.Label
	dead       bool
	writer     base.GroupIndex
}

func (v version) String() string {
	if v.key == "" {
		return "nothing"
	}
	return fmt.Sprintf("%v@%d=%q (absent %v, home %d, by %v)", base.Key(v.key), v.ts, v.value, v.dead, v.label.Home(), v.writer)
}

// versions lists all versions of a shard, or, if old ones are collected, the newest of each key.
func (w *world) versions(st *store.Store, s base.ShardID) ([]version, error) {
	rd := st.NewReader()
	defer rd.Close()
	prefix := base.Key{byte(s >> 8), byte(s)}
	it := rd.Iter(base.Span{Start: prefix, End: prefix.PrefixEnd()}, base.MaxTimestamp, store.IterOptions{})
	defer it.Close()
	var out []version
	for it.Next() {
		v := it.Version()
		key := v.Key.Clone()
		for {
			out = append(out, version{string(key), string(v.Value), v.TS, v.Label, v.Tombstone, v.Writer})
			if w.collects() {
				break
			}
			older, ok, err := rd.Get(key, v.TS.Prev())
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			v = older
		}
	}
	return out, it.Err()
}

func (w *world) collects() bool { return w.cfg.GCAge < w.cfg.Duration }

// final reads all keys through every gateway, at a snapshot and under locks; all must agree.
func (b *bench) final() map[string]string {
	w := b.w
	var first map[string]string
	for _, h := range w.hosts {
		l := h.up()
		if l == nil {
			continue
		}
		for _, lock := range []kv.LockMode{kv.LockNone, kv.LockShared} {
			state := map[string]string{}
			ctx, cancel := context.WithTimeout(l.ctx, liveBound)
			var err error
			for _, sections := range b.ks.parts(w.cfg.Concurrency.Ordered()) {
				if _, err = kv.Run(ctx, l.node.DB(), kv.Options{ReadOnly: lock == kv.LockNone}, func(t kv.Txn) error {
					return b.scan(ctx, t, lock, sections, state)
				}); err != nil {
					break
				}
			}
			cancel()
			if err != nil {
				w.fail("the final state cannot be read through node %d: %w", h.id, err)
				continue
			}
			if first == nil {
				first = state
				continue
			}
			for _, k := range b.ks.all() {
				if first[k] != state[k] {
					w.fail("the final state of %s is %q through one node, and %q through node %d (lock mode %d)", k,
						first[k], state[k], h.id, lock)
				}
			}
		}
	}
	return first
}

// scan reads all rows of sections into state.
func (b *bench) scan(ctx context.Context, t kv.Txn, lock kv.LockMode, sections []*section, state map[string]string) error {
	for _, s := range sections {
		sp, _, _ := b.ks.span(s, 0, -1)
		for next := (&kv.ScanRequest{Spans: []base.Span{sp}, Lock: lock}); next != nil; {
			res, err := t.Scan(ctx, *next)
			if err != nil {
				return err
			}
			for _, r := range res.Rows {
				state[b.ks.names[string(r.Key)]] = string(r.Value)
			}
			next = res.Next
		}
	}
	return nil
}
