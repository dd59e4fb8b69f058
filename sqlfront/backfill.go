package sqlfront

import (
	"context"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// buildOnline fills an index that the transaction of m has defined as write-only:
// it commits that first, so that every writer keeps the index up, then writes the
// entries of the rows that were there, and leaves the publication to the statement's own commit.
func (t *sqlTable) buildOnline(ctx *sql.Context, m *mutation, id base.IndexID) error {
	s, tx := m.s, m.txn
	if err := s.restart(ctx, tx); err != nil {
		return err
	}
	m2, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	cur := m2.snap().table(d.DB, d.Name)
	// The descriptor's lock must not be held while rows are copied: end the transaction again.
	tx.rollback()
	*tx = Txn{s: s}
	if err := t.fill(ctx, cur, id); err != nil {
		if derr := t.dropFailed(ctx, id); derr != nil {
			t.g.log.Warn("an index that could not be built remains as write-only", "table", d.Name, "err", derr)
		}
		return err
	}
	m3, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	x := d.indexByID(id)
	if x == nil {
		return sql.ErrIndexNotFound.New(t.Name())
	}
	x.State = indexPublic
	return t.done(m3, d)
}

// dropFailed removes the definition of an index that could not be built.
func (t *sqlTable) dropFailed(ctx *sql.Context, id base.IndexID) error {
	s := sessionOf(ctx)
	tx := s.txn()
	tx.rollback()
	*tx = Txn{s: s}
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(d.Indexes, func(x indexDesc) bool { return x.ID == id })
	if i < 0 {
		return nil
	}
	m.discardIndex(d, &d.Indexes[i])
	d.Indexes = slices.Delete(d.Indexes, i, i+1)
	if err := t.done(m, d); err != nil {
		return err
	}
	return s.restart(ctx, tx)
}

// fill writes the entries of an index in batches. A batch reads its rows from a
// snapshot, then locks them and writes the entries of what they are now.
func (t *sqlTable) fill(ctx *sql.Context, cur *table, id base.IndexID) (err error) {
	var x *index
	for _, i := range cur.indexes {
		if i.desc.ID == id {
			x = i
		}
	}
	if x == nil {
		return sql.ErrIndexNotFound.New(cur.desc.Name)
	}
	j := t.g.jobs.begin(ctx, "CREATE INDEX "+x.desc.Name, cur)
	defer func() { j.end(err) }()
	s := sessionOf(ctx)
	kctx := s.kvctx(ctx)
	snap := t.g.db.Begin(kv.Options{ReadOnly: true, Trace: s.trace})
	defer snap.Rollback(context.Background())
	for _, shard := range cur.shards() {
		p := base.IndexPrefix(shard, cur.desc.ID, 0, 0)
		req := &kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}, Limit: flushRows}
		for req != nil {
			res, err := snap.Scan(kctx, *req)
			if err != nil {
				return clientError(err)
			}
			if err := t.fillBatch(ctx, cur, x, res.Rows); err != nil {
				return err
			}
			j.did(ctx, cur, len(res.Rows))
			req = res.Next
		}
	}
	return nil
}

// fillBatch writes the entries of some rows in one transaction. In a MULTI MASTER table that loses to any change of one of the
// rows, so there it is tried with fewer and fewer.
func (t *sqlTable) fillBatch(ctx *sql.Context, cur *table, x *index, rows []kv.Row) error {
	if len(rows) == 0 {
		return nil
	}
	if cur.desc.Locality.Kind != multi || len(rows) == 1 {
		return t.fillRows(ctx, cur, x, rows, kv.Run)
	}
	lost := false
	err := t.fillRows(ctx, cur, x, rows, func(ctx context.Context, db kv.DB, opts kv.Options, fn func(kv.Txn) error) (base.Timestamp, error) {
		k := db.Begin(opts)
		defer k.Rollback(context.Background())
		if err := fn(k); err != nil {
			lost = base.Retryable(err)
			return 0, err
		}
		ts, err := k.Commit(ctx)
		lost = base.Retryable(err)
		return ts, err
	})
	if !lost {
		return err
	}
	half := len(rows) / 2
	if err := t.fillBatch(ctx, cur, x, rows[:half]); err != nil {
		return err
	}
	return t.fillBatch(ctx, cur, x, rows[half:])
}

func (t *sqlTable) fillRows(ctx *sql.Context, cur *table, x *index, rows []kv.Row,
	run func(context.Context, kv.DB, kv.Options, func(kv.Txn) error) (base.Timestamp, error)) error {
	s := sessionOf(ctx)
	keys := make([]base.Key, len(rows))
	for i, r := range rows {
		keys[i] = r.Key
	}
	var clash error
	_, err := run(s.kvctx(ctx), t.g.db, kv.Options{Trace: s.trace}, func(k kv.Txn) error {
		clash = nil
		kctx := s.kvctx(ctx)
		locked, err := k.Get(kctx, keys, kv.LockExclusive)
		if err != nil {
			return err
		}
		type entry struct {
			write
			row    sql.Row
			unique bool
		}
		var es []entry
		var check []base.Key
		for _, r := range locked {
			if r.Value == nil {
				continue // deleted meanwhile
			}
			row := make(sql.Row, len(cur.cols))
			if err := cur.decodeRow(kctx, r.Value, row); err != nil {
				return err
			}
			home := r.Home
			if home == 0 {
				home = t.g.db.Region()
			}
			ek, ev, err := cur.indexEntry(kctx, x, row, refOfKey(r.Key), home)
			if err != nil {
				return err
			}
			if x.desc.Class == classGlobal {
				home = 0
			}
			e := entry{write{ek, ev, home}, row, x.desc.unique() && !x.null(row)}
			if e.unique {
				check = append(check, ek)
			}
			es = append(es, e)
		}
		if len(check) > 0 {
			found, err := k.Get(kctx, check, kv.LockExclusive)
			if err != nil {
				return err
			}
			present := map[string][]byte{}
			for _, f := range found {
				if f.Value != nil {
					present[string(f.Key)] = f.Value
				}
			}
			for _, e := range es {
				if !e.unique {
					continue
				}
				if v, ok := present[string(e.key)]; ok && string(v) != string(e.value) {
					clash = dupError(s, cur, x, e.row, nil)
					return clash
				}
				present[string(e.key)] = e.value
			}
		}
		for _, e := range es {
			k.Put(e.key, e.value, e.home)
		}
		return nil
	})
	if clash != nil {
		return clash
	}
	return clientError(err)
}

// garbageDesc tells what to remove: all rows of a table id, or of one index of it.
type garbageDesc struct {
	V      int            `json:"v"`
	Table  base.TableID   `json:"table"`
	Index  *base.IndexID  `json:"index,omitempty"` // as in keys; nil is the whole table
	All    []base.IndexID `json:"all,omitempty"`   // the indexes of the table, as in keys
	Shards int            `json:"shards"`
	Global bool           `json:"global,omitempty"`
	Async  bool           `json:"async,omitempty"`
	Multi  bool           `json:"multi,omitempty"`
	Since  time.Time      `json:"since"`
	// Node is set while a rewrite is filling the table; it is garbage only if that fails.
	Node base.NodeID `json:"node,omitempty"`
}

func garbageKey(id base.TableID, ix uint64) base.Key {
	k := base.IndexPrefix(base.MetaShard, tabCatalog, ixGarbage, 0)
	return base.AppendUint64(base.AppendUint64(k, uint64(id)), ix)
}

func garbageOf(t *table) *garbageDesc {
	g := &garbageDesc{
		V: t.desc.format(), Table: t.desc.ID, All: []base.IndexID{0}, Shards: t.desc.Shards, Async: t.desc.Locality.Async,
		Global: t.desc.Locality.Kind == global, Multi: t.desc.Locality.Kind == multi, Since: time.Now().UTC(),
	}
	for _, x := range t.indexes {
		if x.desc.stored() {
			g.All = append(g.All, x.desc.key())
		}
	}
	return g
}

// discard hands the rows of a table to the collector when the transaction commits.
func (m *mutation) discard(t *table) {
	discardTable(m.kv, t)
	if t.next != nil {
		discardTable(m.kv, t.next)
	}
	if t.desc.Locality.Kind == multi {
		m.txn.declares(t.desc.ID, true)
	}
	m.txn.after = append(m.txn.after, m.g.gc.kick)
}

// discardTable does so for the rows of one table id.
func discardTable(k kv.Txn, t *table) { k.Put(garbageKey(t.desc.ID, 0), marshal(garbageOf(t)), 0) }

func (m *mutation) discardIndex(d *tableDesc, x *indexDesc) {
	if !x.stored() {
		return
	}
	k := x.key()
	m.put(garbageKey(d.ID, uint64(k)), marshal(&garbageDesc{
		V: d.format(), Table: d.ID, Index: &k, Shards: d.Shards, Async: d.Locality.Async, Global: d.Locality.Kind == global,
		Multi: d.Locality.Kind == multi, Since: time.Now().UTC(),
	}))
	m.txn.after = append(m.txn.after, m.g.gc.kick)
}

// noteGarbage records, in a transaction of its own, a table id that is garbage unless keepNew commits.
func (g *gateway) noteGarbage(ctx *sql.Context, t *table) error {
	d := garbageOf(t)
	d.Node = g.db.Node()
	_, err := kv.Run(ctx, g.db, kv.Options{}, func(k kv.Txn) error {
		k.Put(garbageKey(t.desc.ID, 0), marshal(d), 0)
		return nil
	})
	return err
}

// keepNew takes a table id back from the garbage.
func (m *mutation) keepNew(id base.TableID) { m.del(garbageKey(id, 0)) }
