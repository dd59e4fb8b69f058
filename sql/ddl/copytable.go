package ddl

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
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// The rows of a table are copied to its successor (mirror.go) by the node that was told to. If that
// dies, another one goes on, or itself when it is back: what is there already is passed over.

const (
	copyRows   = 256             // rows of a batch, which is a transaction
	copyAtOnce = 4               // shards that are copied at the same time
	adoptEvery = 2 * time.Second // between two looks for copies whose node has died
	callOffIn  = 10 * time.Second
)

// errCalledOff ends a copy whose table has been dropped, or told to stay as it was.
var errCalledOff = base.Errorf(base.CodeCanceled, "the change was called off, or the table was dropped: "+
	"the table is as it was before")

// online reports whether the table can get a successor: what only the engine can compute is not
// kept up in it.
func (g *Env) online(d *schema.TableDesc) bool {
	return !slices.ContainsFunc(d.Indexes, func(x schema.IndexDesc) bool {
		return x.Fulltext != nil || x.Stored() && g.indexesVirtual(d, &x)
	})
}

// copyTable gives a table other keys, and returns when it has them.
func (g *Env) copyTable(ctx *sql.Context, t *Table, kind string, l schema.Locality) error {
	s := session.Of(ctx)
	// As each schema change, it ends the transaction of the session.
	m, _, err := t.changing(ctx)
	if err != nil {
		return err
	}
	tx := m.txn
	tx.Rollback()
	tx.Reset()
	kctx := s.KVContext(ctx)
	id, err := g.beginCopy(kctx, t.Def.Desc.DB, t.Name(), kind, l)
	if err != nil {
		return schema.ClientError(err)
	}
	ts, err := g.Copying(kctx, ctx, id)
	s.Stmt.Snap = nil
	s.Wrote(ts)
	return schema.ClientError(err)
}

// beginCopy gives a table a successor, whose id it returns.
func (g *Env) beginCopy(kctx context.Context, db, name, kind string, l schema.Locality) (id base.TableID, err error) {
	_, err = g.Redefine(kctx, db, name, func(k kv.Txn, cur *schema.Table, d *schema.TableDesc) error {
		if d.Next != nil {
			return busy(d)
		}
		for _, x := range d.Indexes {
			if x.State != schema.IndexPublic {
				return base.Errorf(base.CodeInvalid,
					"index %s of table %s is being built: SHOW JOBS tells how far it is", x.Name, d.Name)
			}
		}
		if err := g.keepPlaces(kctx, k, l); err != nil {
			return err
		}
		region := d.ID.Region()
		if l.Kind == schema.ByTable {
			region = l.Region
		}
		region = l.Placed.HomeOf(region)
		if id, err = NextTableID(kctx, k, region); err != nil {
			return err
		}
		d.Next = &schema.SuccessorDesc{ID: id, Locality: l, Shards: l.ShardCount(g.DB.Topology().Shards), Kind: kind,
			Node: g.DB.Node(), Since: time.Now().UTC()}
		return nil
	})
	return id, err
}

func busy(d *schema.TableDesc) error {
	return base.Errorf(base.CodeInvalid, "%s of table %s is under way (SHOW JOBS): wait for it, "+
		"or call it off with KILL QUERY or ALTER TABLE %s SET REPLICATION %s",
		d.Next.Kind, d.Name, d.Name, d.Locality.Replication())
}

// callOff lets a table stay as it is.
func (g *Env) callOff(ctx context.Context, id base.TableID) error {
	_, err := g.redefineNext(ctx, id, func(k kv.Txn, cur *schema.Table, d *schema.TableDesc) error {
		discardTable(k, cur.Next)
		d.Next = nil
		return nil
	})
	if err == nil {
		g.GC.Kick()
	}
	return err
}

// Copying copies the rows of a table to its successor, and lets that take its place. sctx is the
// statement that waits for it, if any.
func (g *Env) Copying(ctx context.Context, sctx *sql.Context, id base.TableID) (ts base.Timestamp, err error) {
	if _, already := g.copies.LoadOrStore(id, true); already {
		return 0, base.Errorf(base.CodeInvalid, "this node is copying the table already")
	}
	defer g.copies.Delete(id)
	snap, err := g.Catalog.Fresh(ctx)
	if err != nil {
		return 0, err
	}
	n := snap.ByID[id]
	if n == nil || n.Prev == nil {
		return 0, errCalledOff
	}
	c := &Copier{G: g, ID: id, sctx: sctx, Job: g.Jobs.Begin(sctx, n.Prev.Desc.Next.Kind, n.Prev)}
	defer func() { c.Job.end(err) }()
	if err = c.fill(ctx, n); err == nil && n.Desc.Locality.Async && g.Nodes != nil {
		// Rows that were synchronous must not be lost as they become asynchronous.
		err = g.Nodes.AwaitHeld(ctx)
	}
	if err == nil {
		ts, err = g.redefineNext(ctx, id, func(k kv.Txn, cur *schema.Table, d *schema.TableDesc) error {
			discardTable(k, cur)
			*d = *cur.Next.Desc.Clone()
			return nil
		})
	}
	switch {
	case err == nil:
		g.GC.Kick()
	case sctx != nil && !errors.Is(err, errCalledOff):
		if base.CodeOf(err) != base.CodeAmbiguous {
			session.Of(sctx).State.Undoes()
		}
		off, cancel := context.WithTimeout(context.WithoutCancel(ctx), callOffIn)
		defer cancel()
		if oerr := g.callOff(off, id); oerr != nil && !errors.Is(oerr, errCalledOff) {
			g.Log.Warn("a table could not be left as it was: the copy will be resumed", "table", n.Desc.Name, "err", oerr)
		}
	}
	return ts, err
}

// Copier copies the rows of one table.
type Copier struct {
	G    *Env
	ID   base.TableID // of the successor
	sctx *sql.Context
	Job  *job
}

// fill copies all rows that the successor does not have.
func (c *Copier) fill(ctx context.Context, n *schema.Table) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, copyAtOnce)
	for _, shard := range n.Prev.Shards() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			p := n.Prev.Prefix(shard, 0, 0)
			span := base.Span{Start: p, End: p.PrefixEnd()}
			for span.Start != nil && ctx.Err() == nil {
				var err error
				if span.Start, err = c.Page(ctx, n, span); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Page copies the first rows of a span and returns where to go on, nil at its end.
func (c *Copier) Page(ctx context.Context, n *schema.Table, span base.Span) (base.Key, error) {
	snap := c.G.DB.Begin(kv.Options{ReadOnly: true})
	defer snap.Rollback(context.Background())
	res, err := snap.Scan(ctx, kv.ScanRequest{Spans: []base.Span{span}, Limit: copyRows})
	if err != nil || len(res.Rows) == 0 {
		return nil, err
	}
	// What is there already needs no lock.
	keys, err := n.KeysOf(ctx, res.Rows)
	if err != nil {
		return nil, err
	}
	have, err := snap.Get(ctx, keys, kv.LockNone)
	if err != nil {
		return nil, err
	}
	// Rows of one home at a time: a transaction that locks rows of several waits for the slowest.
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
	c.Job.did(c.sctx, n, len(res.Rows))
	if res.Next == nil {
		return nil, nil
	}
	return res.Rows[len(res.Rows)-1].Key.Next(), nil
}

// batch copies rows as they are now.
func (c *Copier) batch(ctx context.Context, keys []base.Key) error {
	var pins []base.Key
	_, err := kv.Run(ctx, c.G.DB, kv.Options{}, func(k kv.Txn) (err error) {
		pins, err = c.copyRows(ctx, k, keys)
		return err
	})
	if err != nil || len(pins) == 0 {
		return err
	}
	_, err = kv.Run(ctx, c.G.DB, kv.Options{}, func(k kv.Txn) error {
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

// successor is the table that rows are copied to, and the catalog that has it.
func (c *Copier) successor(ctx context.Context) (*schema.Table, *schema.Snapshot, error) {
	for _, read := range []func(context.Context) (*schema.Snapshot, error){c.G.Catalog.Current, c.G.Catalog.Fresh} {
		snap, err := read(ctx)
		if err != nil {
			return nil, nil, err
		}
		if n := snap.ByID[c.ID]; n != nil && n.Prev != nil {
			return n, snap, nil
		}
	}
	return nil, nil, errCalledOff
}

// copyRows copies, in a transaction, those of the rows that are still there and that the successor
// does not have. It returns the keys of the rows there that have to be pinned, also where a writer
// was faster: the writer knows nothing of it.
func (c *Copier) copyRows(ctx context.Context, k kv.Txn, keys []base.Key) (pins []base.Key, err error) {
	n, snap, err := c.successor(ctx)
	if err != nil {
		return nil, err
	}
	k.Pin(max(n.TS, snap.At), n.Key)
	rows, err := k.Get(ctx, keys, kv.LockShared)
	if err != nil {
		return nil, err
	}
	// deleted meanwhile
	rows = slices.DeleteFunc(rows, func(r kv.Row) bool { return r.Value == nil })
	to, err := n.KeysOf(ctx, rows)
	if err != nil {
		return nil, err
	}
	have, err := k.Get(ctx, to, kv.LockExclusive)
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		if r.Label.Pinned() {
			pins = append(pins, to[i])
		}
		if have[i].Value != nil {
			continue
		}
		if err := c.copyRow(ctx, k, n, r, to[i]); err != nil {
			return nil, err
		}
	}
	return pins, nil
}

// copyRow writes a row and its index entries under its key in the successor.
func (c *Copier) copyRow(ctx context.Context, k kv.Txn, n *schema.Table, r kv.Row, to base.Key) error {
	row := make(sql.Row, len(n.Cols))
	if err := n.DecodeRow(ctx, r.Value, row); err != nil {
		return err
	}
	home := r.Home
	if home == 0 {
		home = kv.HomeRegion(c.G.DB)
	}
	ws, err := n.RowWrites(ctx, row, r.Value, schema.RefOfKey(to), n.HomeFor(to.Shard(), home))
	if err != nil {
		return err
	}
	for _, w := range ws {
		k.Put(w.Key, w.Value, w.Home)
	}
	return nil
}

// Redefine changes a table's descriptor in a transaction of its own.
func (g *Env) Redefine(ctx context.Context, db, name string,
	fn func(k kv.Txn, cur *schema.Table, d *schema.TableDesc) error) (base.Timestamp, error) {
	return g.redefineFound(ctx, func(s *schema.Snapshot) (*schema.Table, error) {
		if t := s.Table(db, name); t != nil {
			return t, nil
		}
		return nil, sql.ErrTableNotFound.New(name)
	}, fn)
}

// redefineNext does so with the table that has a successor with that id, whatever it is called by
// now.
func (g *Env) redefineNext(ctx context.Context, id base.TableID,
	fn func(k kv.Txn, cur *schema.Table, d *schema.TableDesc) error) (base.Timestamp, error) {
	return g.redefineFound(ctx, func(s *schema.Snapshot) (*schema.Table, error) {
		if n := s.ByID[id]; n != nil && n.Prev != nil {
			return n.Prev, nil
		}
		return nil, errCalledOff
	}, fn)
}

func (g *Env) redefineFound(ctx context.Context, find func(*schema.Snapshot) (*schema.Table, error),
	fn func(k kv.Txn, cur *schema.Table, d *schema.TableDesc) error) (base.Timestamp, error) {
	ts, err := kv.Run(ctx, g.DB, kv.Options{}, func(k kv.Txn) error {
		snap, err := g.Catalog.Fresh(ctx)
		if err != nil {
			return err
		}
		cur, err := find(snap)
		if err != nil {
			return err
		}
		rows, err := k.Get(ctx, []base.Key{cur.Key}, kv.LockExclusive)
		if err != nil {
			return err
		}
		if rows[0].TS != cur.TS || rows[0].Value == nil {
			return base.Errorf(base.CodeSchemaChanged, "table %s was changed by somebody else", cur.Desc.Name)
		}
		d := cur.Desc.Clone()
		if err := fn(k, cur, d); err != nil {
			return err
		}
		d.V = d.Format()
		k.Put(cur.Key, schema.Marshal(d), 0)
		return nil
	})
	if err != nil {
		return 0, err
	}
	_, err = g.Catalog.Fresh(ctx)
	return ts, err
}

// Adopt goes on with copies whose node has died, and drops indexes that nobody fills any more.
func (g *Env) Adopt(ctx context.Context) {
	tick := time.NewTicker(adoptEvery)
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	orphans := map[base.TableID]bool{} // copies of this node that it did not make at the last look
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		snap, err := g.Catalog.Current(ctx)
		if err != nil {
			continue
		}
		g.forgetBuilt()
		before := orphans
		orphans = map[base.TableID]bool{}
		for id, n := range snap.ByID {
			g.sweepIndexes(ctx, n)
			if n.Prev == nil {
				continue
			}
			was := n.Prev.Desc.Next.Node
			if _, mine := g.copies.Load(id); mine || was != g.DB.Node() && (g.Nodes == nil || g.Nodes.Live(was)) {
				continue
			}
			// A statement of this node that has just begun one is about to make it.
			if orphans[id] = was == g.DB.Node(); orphans[id] && !before[id] {
				continue
			}
			wg.Go(func() {
				if err := g.resume(ctx, id, was); err != nil && ctx.Err() == nil && !errors.Is(err, errCalledOff) {
					g.Log.Warn("a table that another node has begun to copy could not be copied yet", "table",
						n.Desc.Name, "err", err)
				}
			})
		}
	}
}

// resume takes a copy over from a node.
func (g *Env) resume(ctx context.Context, id base.TableID, from base.NodeID) error {
	_, err := g.redefineNext(ctx, id, func(_ kv.Txn, cur *schema.Table, d *schema.TableDesc) error {
		if d.Next.Node != from {
			return errCalledOff // another node was faster
		}
		next := *d.Next
		next.Node = g.DB.Node()
		d.Next = &next
		return nil
	})
	if err != nil {
		return err
	}
	g.Log.Info("goes on with the copy of a table", "id", id, "from_node", from)
	_, err = g.Copying(ctx, nil, id)
	return err
}

// NextTableID takes the next table id.
func NextTableID(ctx context.Context, k kv.Txn, region base.RegionID) (base.TableID, error) {
	key := base.IndexPrefix(base.MetaShard, schema.TabCounter, 1, 0)
	rows, err := k.Get(ctx, []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return 0, err
	}
	seq := uint64(schema.FirstTableSeq)
	if v := rows[0].Value; v != nil {
		if seq, _, err = base.TakeUint64(v); err != nil {
			return 0, fmt.Errorf("the counter of table ids: %w", err)
		}
	}
	k.Put(key, base.AppendUint64(nil, seq+1), 0)
	return base.MakeTableID(seq, region), nil
}
