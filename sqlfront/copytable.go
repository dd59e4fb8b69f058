package sqlfront

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// The rows of a table are copied to its successor (mirror.go) by the node that was told to. If that dies, another one goes on,
// or itself when it is back: what is there already is passed over.

const (
	copyRows   = 256             // rows of a batch, which is a transaction
	copyAtOnce = 4               // shards that are copied at the same time
	adoptEvery = 2 * time.Second // between two looks for copies that nobody makes any more
	callOffIn  = 10 * time.Second
)

// errCalledOff ends a copy whose table has been dropped, or told to stay as it was.
var errCalledOff = base.Errorf(base.CodeCanceled, "the change was called off, or the table was dropped: the table is as it was before")

// online reports whether the table can get a successor: what only the engine can compute is not kept up in it.
func (g *gateway) online(d *tableDesc) bool {
	return !slices.ContainsFunc(d.Indexes, func(x indexDesc) bool { return x.Fulltext != nil || x.stored() && g.indexesVirtual(d, &x) })
}

// copyTable gives a table other keys, and returns when it has them.
func (g *gateway) copyTable(ctx *sql.Context, t *sqlTable, kind string, l locality) error {
	s := sessionOf(ctx)
	// As each schema change, it ends the transaction of the session.
	m, _, err := t.changing(ctx)
	if err != nil {
		return err
	}
	tx := m.txn
	tx.rollback()
	*tx = Txn{s: s}
	kctx := s.kvctx(ctx)
	var id base.TableID
	_, err = g.redefine(kctx, t.t.desc.DB, t.Name(), func(k kv.Txn, cur *table, d *tableDesc) error {
		if d.Next != nil {
			return busy(d)
		}
		for _, x := range d.Indexes {
			if x.State != indexPublic {
				return base.Errorf(base.CodeInvalid, "index %s of table %s is being built: SHOW JOBS tells how far it is", x.Name, d.Name)
			}
		}
		region := d.ID.Region()
		if l.Kind == byTable {
			region = l.Region
		}
		if id, err = nextTableID(kctx, k, region); err != nil {
			return err
		}
		d.Next = &nextDesc{ID: id, Locality: l, Shards: g.db.Topology().Shards, Kind: kind, Node: g.db.Node(), Since: time.Now().UTC()}
		return nil
	})
	if err != nil {
		return clientError(err)
	}
	ts, err := g.copying(kctx, ctx, id)
	s.snap = nil
	s.wroteAt = max(s.wroteAt, ts)
	return clientError(err)
}

func busy(d *tableDesc) error {
	return base.Errorf(base.CodeInvalid, "%s of table %s is under way (SHOW JOBS): wait for it, or call it off with KILL QUERY or ALTER TABLE %s SET REPLICATION %s",
		d.Next.Kind, d.Name, d.Name, d.Locality.replication())
}

func (l locality) replication() string {
	if l.Async {
		return "ASYNC"
	}
	return "SYNC"
}

// callOff lets a table stay as it is.
func (g *gateway) callOff(ctx context.Context, id base.TableID) error {
	_, err := g.redefineNext(ctx, id, func(k kv.Txn, cur *table, d *tableDesc) error {
		discardTable(k, cur.next)
		d.Next = nil
		return nil
	})
	if err == nil {
		g.gc.kick()
	}
	return err
}

// copying copies the rows of a table to its successor, and lets that take its place. sctx is the statement that waits for it, if any.
func (g *gateway) copying(ctx context.Context, sctx *sql.Context, id base.TableID) (ts base.Timestamp, err error) {
	if _, already := g.copies.LoadOrStore(id, true); already {
		return 0, base.Errorf(base.CodeInvalid, "this node is copying the table already")
	}
	defer g.copies.Delete(id)
	snap, err := g.catalog.fresh(ctx)
	if err != nil {
		return 0, err
	}
	n := snap.byID[id]
	if n == nil || n.prev == nil {
		return 0, errCalledOff
	}
	c := &copier{g: g, id: id, sctx: sctx, job: g.jobs.begin(sctx, n.prev.desc.Next.Kind, n.prev)}
	defer func() { c.job.end(err) }()
	if err = c.fill(ctx, n); err == nil && n.desc.Locality.Async && g.cluster != nil {
		// Rows that were synchronous must not be lost as they become asynchronous.
		err = g.cluster.AwaitHeld(ctx)
	}
	if err == nil {
		ts, err = g.redefineNext(ctx, id, func(k kv.Txn, cur *table, d *tableDesc) error {
			discardTable(k, cur)
			*d = *cur.next.desc.clone()
			return nil
		})
	}
	switch {
	case err == nil:
		g.gc.kick()
	case sctx != nil && !errors.Is(err, errCalledOff):
		off, cancel := context.WithTimeout(context.WithoutCancel(ctx), callOffIn)
		defer cancel()
		if oerr := g.callOff(off, id); oerr != nil && !errors.Is(oerr, errCalledOff) {
			g.log.Warn("a table could not be left as it was: the copy will be resumed", "table", n.desc.Name, "err", oerr)
		}
	}
	return ts, err
}

// copier copies the rows of one table.
type copier struct {
	g    *gateway
	id   base.TableID // of the successor
	sctx *sql.Context
	job  *job
}

// fill copies all rows that the successor does not have.
func (c *copier) fill(ctx context.Context, n *table) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, copyAtOnce)
	for _, shard := range n.prev.shards() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			p := base.IndexPrefix(shard, n.prev.desc.ID, 0, 0)
			span := base.Span{Start: p, End: p.PrefixEnd()}
			for span.Start != nil && ctx.Err() == nil {
				var err error
				if span.Start, err = c.page(ctx, n, span); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// page copies the first rows of a span and returns where to go on, nil at its end.
func (c *copier) page(ctx context.Context, n *table, span base.Span) (base.Key, error) {
	snap := c.g.db.Begin(kv.Options{ReadOnly: true})
	defer snap.Rollback(context.Background())
	res, err := snap.Scan(ctx, kv.ScanRequest{Spans: []base.Span{span}, Limit: copyRows})
	if err != nil || len(res.Rows) == 0 {
		return nil, err
	}
	// What is there already needs no lock.
	keys, err := n.keysOf(ctx, res.Rows)
	if err != nil {
		return nil, err
	}
	have, err := snap.Get(ctx, keys, kv.LockNone)
	if err != nil {
		return nil, err
	}
	// Rows of one home at a time: those who hold locks of several wait for the slowest.
	byHome := map[base.RegionID][]base.Key{}
	var homes []base.RegionID
	for i, r := range res.Rows {
		if have[i].Value == nil {
			if byHome[r.Home] == nil {
				homes = append(homes, r.Home)
			}
			byHome[r.Home] = append(byHome[r.Home], r.Key)
		}
	}
	for _, h := range homes {
		if err := c.batch(ctx, byHome[h]); err != nil {
			return nil, err
		}
	}
	c.job.did(c.sctx, n, len(res.Rows))
	if res.Next == nil {
		return nil, nil
	}
	return res.Rows[len(res.Rows)-1].Key.Next(), nil
}

// keysOf are the keys of another table's rows in the table.
func (t *table) keysOf(ctx context.Context, rows []kv.Row) ([]base.Key, error) {
	keys := make([]base.Key, len(rows))
	row := make(sql.Row, len(t.cols))
	for i, r := range rows {
		if len(t.pk) > 0 {
			if err := t.decodeRow(ctx, r.Value, row); err != nil {
				return nil, err
			}
		}
		ref, err := t.refIn(ctx, row, refOfKey(r.Key))
		if err != nil {
			return nil, err
		}
		keys[i] = t.rowKey(ref)
	}
	return keys, nil
}

// batch copies rows as they are now.
func (c *copier) batch(ctx context.Context, keys []base.Key) error {
	var pins []base.Key
	var home base.RegionID
	_, err := kv.Run(ctx, c.g.db, kv.Options{}, func(k kv.Txn) error {
		pins = nil
		snap, err := c.g.catalog.current(ctx)
		if err != nil {
			return err
		}
		n := snap.byID[c.id]
		if n == nil || n.prev == nil {
			if snap, err = c.g.catalog.fresh(ctx); err != nil {
				return err
			}
			if n = snap.byID[c.id]; n == nil || n.prev == nil {
				return errCalledOff
			}
		}
		k.Pin(max(n.ts, snap.at), n.key)
		rows, err := k.Get(ctx, keys, kv.LockShared)
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r kv.Row) bool { return r.Value == nil }) // deleted meanwhile
		to, err := n.keysOf(ctx, rows)
		if err != nil {
			return err
		}
		have, err := k.Get(ctx, to, kv.LockExclusive)
		if err != nil {
			return err
		}
		for i, r := range rows {
			if r.Label.Pinned() {
				pins = append(pins, to[i]) // also where a writer was faster: he knows nothing of it
			}
			if have[i].Value != nil {
				continue
			}
			row := make(sql.Row, len(n.cols))
			if err := n.decodeRow(ctx, r.Value, row); err != nil {
				return err
			}
			if home = r.Home; home == 0 {
				home = c.g.db.Region()
			}
			home = n.homeFor(home)
			ws, err := n.rowWrites(ctx, row, r.Value, refOfKey(to[i]), home)
			if err != nil {
				return err
			}
			for _, w := range ws {
				k.Put(w.key, w.value, w.home)
			}
		}
		return nil
	})
	if err != nil || len(pins) == 0 {
		return err
	}
	_, err = kv.Run(ctx, c.g.db, kv.Options{}, func(k kv.Txn) error {
		rows, err := k.Get(ctx, pins, kv.LockExclusive)
		for _, r := range rows {
			if r.Value != nil {
				k.Move(r.Key, r.Home, kv.MoveOptions{Pin: kv.PinOn})
			}
		}
		return err
	})
	return err
}

// redefine changes a table's descriptor in a transaction of its own.
func (g *gateway) redefine(ctx context.Context, db, name string, fn func(k kv.Txn, cur *table, d *tableDesc) error) (base.Timestamp, error) {
	return g.redefineFound(ctx, func(s *snapshot) (*table, error) {
		if t := s.table(db, name); t != nil {
			return t, nil
		}
		return nil, sql.ErrTableNotFound.New(name)
	}, fn)
}

// redefineNext does so with the table that has a successor with that id, whatever it is called by now.
func (g *gateway) redefineNext(ctx context.Context, id base.TableID, fn func(k kv.Txn, cur *table, d *tableDesc) error) (base.Timestamp, error) {
	return g.redefineFound(ctx, func(s *snapshot) (*table, error) {
		if n := s.byID[id]; n != nil && n.prev != nil {
			return n.prev, nil
		}
		return nil, errCalledOff
	}, fn)
}

func (g *gateway) redefineFound(ctx context.Context, find func(*snapshot) (*table, error), fn func(k kv.Txn, cur *table, d *tableDesc) error) (base.Timestamp, error) {
	ts, err := kv.Run(ctx, g.db, kv.Options{}, func(k kv.Txn) error {
		snap, err := g.catalog.fresh(ctx)
		if err != nil {
			return err
		}
		cur, err := find(snap)
		if err != nil {
			return err
		}
		rows, err := k.Get(ctx, []base.Key{cur.key}, kv.LockExclusive)
		if err != nil {
			return err
		}
		if rows[0].TS != cur.ts || rows[0].Value == nil {
			return base.Errorf(base.CodeSchemaChanged, "table %s was changed by somebody else", cur.desc.Name)
		}
		d := cur.desc.clone()
		if err := fn(k, cur, d); err != nil {
			return err
		}
		d.V = d.format()
		k.Put(cur.key, marshal(d), 0)
		return nil
	})
	if err != nil {
		return 0, err
	}
	_, err = g.catalog.fresh(ctx)
	return ts, err
}

// adopt goes on with copies whose node has died.
func (g *gateway) adopt(ctx context.Context) {
	tick := time.NewTicker(adoptEvery)
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		snap, err := g.catalog.current(ctx)
		if err != nil {
			continue
		}
		for id, n := range snap.byID {
			if n.prev == nil {
				continue
			}
			was := n.prev.desc.Next.Node
			if _, mine := g.copies.Load(id); mine || was != g.db.Node() && (g.cluster == nil || g.cluster.Live(was)) {
				continue
			}
			wg.Go(func() {
				if err := g.resume(ctx, id, was); err != nil && ctx.Err() == nil && !errors.Is(err, errCalledOff) {
					g.log.Warn("a table that another node has begun to copy could not be copied yet", "table", n.desc.Name, "err", err)
				}
			})
		}
	}
}

// resume takes a copy over from a node.
func (g *gateway) resume(ctx context.Context, id base.TableID, from base.NodeID) error {
	_, err := g.redefineNext(ctx, id, func(_ kv.Txn, cur *table, d *tableDesc) error {
		if d.Next.Node != from {
			return errCalledOff // somebody else was faster
		}
		next := *d.Next
		next.Node = g.db.Node()
		d.Next = &next
		return nil
	})
	if err != nil {
		return err
	}
	g.log.Info("goes on with the copy of a table", "id", id, "from_node", from)
	_, err = g.copying(ctx, nil, id)
	return err
}

// nextTableID takes the next table id.
func nextTableID(ctx context.Context, k kv.Txn, region base.RegionID) (base.TableID, error) {
	key := base.IndexPrefix(base.MetaShard, tabCounter, 1, 0)
	rows, err := k.Get(ctx, []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return 0, err
	}
	seq := uint64(firstTableSeq)
	if v := rows[0].Value; v != nil {
		if seq, _, err = base.TakeUint64(v); err != nil {
			return 0, fmt.Errorf("the counter of table ids: %w", err)
		}
	}
	k.Put(key, base.AppendUint64(nil, seq+1), 0)
	return base.MakeTableID(seq, region), nil
}
