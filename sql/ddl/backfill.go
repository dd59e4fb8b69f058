package ddl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/sql/ddl/sorted"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// buildOnline fills an index that the transaction of m has defined as write-only:
// it commits that first, so that every writer keeps the index up, then writes the
// entries of the rows that were there, and leaves the publication to the statement's own commit,
// with that of the indexes that the statement has built before.
func (t *Table) buildOnline(ctx *sql.Context, m *mutation, id base.IndexID, built []base.IndexID) error {
	s, tx := m.s, m.txn
	if err := s.Restart(ctx, tx); err != nil {
		return err
	}
	s.State.Undoes()
	m2, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	cur := m2.snap().Table(d.DB, d.Name)
	// The descriptor's lock must not be held while rows are copied: end the transaction again.
	tx.Rollback()
	tx.Reset()
	if err := t.fill(ctx, cur, id); err != nil {
		t.dropAll(ctx, append([]base.IndexID{id}, built...))
		return err
	}
	m3, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	built = append(built, id)
	for _, id := range built {
		x := d.IndexByID(id)
		if x == nil {
			return sql.ErrIndexNotFound.New(t.Name())
		}
		x.State, x.Builder, t.built = schema.IndexPublic, 0, id
		m3.discardSuperseded(d, id)
	}
	if err := t.done(m3, d); err != nil {
		return err
	}
	s.Stmt.Unpublished, s.Stmt.CallOff = built, func() { t.dropAll(ctx, built) }
	return nil
}

// dropAll does so with several indexes.
func (t *Table) dropAll(ctx *sql.Context, ids []base.IndexID) {
	for _, id := range ids {
		if err := t.dropFailed(ctx, id); err != nil {
			t.g.Log.Warn("an index that is not to be published remains as write-only", "table", t.Name(), "err", err)
		}
	}
}

// dropFailed removes the definition of an index that could not be built, or is not to be published:
// mostly because the statement has been killed, so it does not end with it.
func (t *Table) dropFailed(ctx *sql.Context, id base.IndexID) error {
	off, cancel := context.WithTimeout(context.WithoutCancel(ctx), callOffIn)
	defer cancel()
	s := session.Of(ctx)
	if tx := s.Txn(); tx != nil { // else the statement has ended it
		tx.Rollback()
		tx.Reset()
		tx.Ends = true
	}
	err := t.g.dropIndex(kv.WithStatement(off, s.Trace, s.Patience(), false), t.Def.Desc.ID, id)
	if s.Stmt.Snap = nil; errors.Is(err, errCalledOff) {
		err = nil
	}
	return err
}

// fillSorted writes the entries of an index in its order.
func (t *Table) fillSorted(ctx *sql.Context, cur *schema.Table, x *schema.Index, j *job) error {
	s := session.Of(ctx)
	b := sorted.Build{DB: t.g.DB, Table: cur, Index: x, Trace: s.Trace, Did: func(rows int) { j.did(ctx, cur, rows) },
		Barrier: func(kctx context.Context) (base.Timestamp, error) { return t.g.touch(kctx, cur.Desc.ID, x.Desc.ID) }}
	traces := s.Trace.Parallel(sorted.Writers)
	copy(b.Traces[:], traces)
	defer s.Trace.Join(traces)
	return schema.ClientError(b.Run(s.KVContext(ctx)))
}

// touch makes a new version of the definition of a table that has an index, and changes nothing in
// it: transactions that depend on the version before do not commit any more.
func (g *Env) touch(ctx context.Context, id base.TableID, index base.IndexID) (base.Timestamp, error) {
	return g.redefineFound(ctx, func(s *schema.Snapshot) (*schema.Table, error) {
		if t := s.ByID[id]; t != nil && t.Desc.IndexByID(index) != nil {
			return t, nil
		}
		return nil, errCalledOff
	}, func(kv.Txn, *schema.Table, *schema.TableDesc) error { return nil })
}

// fill writes the entries of an index in batches, some of them at once. A batch reads its rows from
// a snapshot, then locks them and writes the entries of what they are now.
func (t *Table) fill(ctx *sql.Context, cur *schema.Table, id base.IndexID) (err error) {
	var x *schema.Index
	for _, i := range cur.Indexes {
		if i.Desc.ID == id {
			x = i
		}
	}
	if x == nil {
		return sql.ErrIndexNotFound.New(cur.Desc.Name)
	}
	j := t.g.Jobs.Begin(ctx, "CREATE INDEX "+x.Desc.Name, cur)
	defer func() { j.end(err) }()
	if sorted.Fits(cur, x) {
		return t.fillSorted(ctx, cur, x, j)
	}
	s := session.Of(ctx)
	kctx := s.KVContext(ctx)
	together := fillTogether
	if cur.Desc.Locality.Kind == schema.MultiMaster {
		together = 1 // they would lose to each other
	}
	var batches [][]kv.Row
	snap := t.g.DB.Begin(kv.Options{ReadOnly: true, Trace: s.Trace})
	defer snap.Rollback(context.Background())
	for _, shard := range cur.Shards() {
		p := cur.Prefix(shard, 0, 0)
		req := &kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}, Limit: fillRows(cur)}
		for req != nil {
			res, err := snap.Scan(kctx, *req)
			if err != nil {
				return schema.ClientError(err)
			}
			if batches = append(batches, res.Rows); len(batches) == together {
				if err := t.fillBatches(ctx, cur, x, batches, j); err != nil {
					return err
				}
				batches = batches[:0]
			}
			req = res.Next
		}
	}
	return t.fillBatches(ctx, cur, x, batches, j)
}

// fillTogether is how many batches are written at once: while one waits for the disk, another one
// is worked on, and their entries go to the disk together.
const fillTogether = 4

// fillBatches writes the entries of some batches at once.
func (t *Table) fillBatches(ctx *sql.Context, cur *schema.Table, x *schema.Index, batches [][]kv.Row, j *job) error {
	s := session.Of(ctx)
	traces := s.Trace.Parallel(len(batches))
	errs := make([]error, len(batches))
	panics := make([]any, len(batches))
	var all sync.WaitGroup
	for i := range batches {
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = t.fillBatch(ctx, cur, x, batches[i], traces[i])
		})
	}
	all.Wait()
	s.Trace.Join(traces)
	for i, rows := range batches {
		if panics[i] != nil {
			panic(panics[i]) // for the statement's own guard
		}
		if clash, ok := errs[i].(*takenRow); ok {
			return session.DuplicateKey(s, cur, x, clash.row, nil)
		}
		if errs[i] != nil {
			return errs[i]
		}
		j.did(ctx, cur, len(rows))
	}
	return nil
}

// fillRows is how many rows a batch has. A batch keeps its locks for one commit.
func fillRows(t *schema.Table) int {
	if t.Desc.Locality.Kind == schema.MultiMaster {
		return table.FlushRows
	}
	return 8 * table.FlushRows
}

// relock reads the rows of a batch again, under locks: as one range, unless they are few.
func relock(ctx context.Context, k kv.Txn, t *schema.Table, rows []kv.Row) ([]kv.Row, error) {
	if len(rows) < table.FlushRows || t.Desc.Locality.Kind == schema.MultiMaster {
		keys := make([]base.Key, len(rows))
		for i, r := range rows {
			keys[i] = r.Key
		}
		return k.Get(ctx, keys, kv.LockExclusive)
	}
	// It brings rows that others have inserted meanwhile, with their entries. Those are the same.
	req := &kv.ScanRequest{Spans: []base.Span{{Start: rows[0].Key, End: rows[len(rows)-1].Key.Next()}},
		Lock: kv.LockExclusive}
	var out []kv.Row
	for req != nil {
		res, err := k.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		out, req = append(out, res.Rows...), res.Next
	}
	return out, nil
}

// fillBatch writes the entries of some rows in one transaction. In a MULTI MASTER table that loses
// to any change of one of the rows, so there it is tried with fewer and fewer.
func (t *Table) fillBatch(ctx *sql.Context, cur *schema.Table, x *schema.Index, rows []kv.Row, trace *obs.Trace) error {
	if len(rows) == 0 {
		return nil
	}
	if cur.Desc.Locality.Kind != schema.MultiMaster || len(rows) == 1 {
		return t.fillIn(ctx, cur, x, rows, trace, kv.Run)
	}
	lost := false
	err := t.fillIn(ctx, cur, x, rows, trace, func(ctx context.Context, db kv.DB, opts kv.Options,
		fn func(kv.Txn) error) (base.Timestamp, error) {
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
	if err := t.fillBatch(ctx, cur, x, rows[:half], trace); err != nil {
		return err
	}
	return t.fillBatch(ctx, cur, x, rows[half:], trace)
}

// fillIn does so in a transaction that run runs.
func (t *Table) fillIn(ctx *sql.Context, cur *schema.Table, x *schema.Index, rows []kv.Row, trace *obs.Trace,
	run func(context.Context, kv.DB, kv.Options, func(kv.Txn) error) (base.Timestamp, error)) error {
	s := session.Of(ctx)
	var clash *takenRow
	_, err := run(s.KVContext(ctx), t.g.DB, kv.Options{Trace: trace}, func(k kv.Txn) error {
		clash = nil
		kctx := s.KVContext(ctx)
		locked, err := relock(kctx, k, cur, rows)
		if err != nil {
			return err
		}
		es, err := t.entriesOf(kctx, cur, x, locked)
		if err != nil {
			return err
		}
		taken, err := takenBy(kctx, k, es)
		if err != nil {
			return err
		}
		if taken != nil {
			clash = &takenRow{taken}
			return clash
		}
		for _, e := range es {
			k.Put(e.Key, e.Value, cur.HomeAt(e.Key, e.Home))
		}
		return nil
	})
	if clash != nil {
		return clash
	}
	return schema.ClientError(err)
}

// takenRow is a row whose unique key belongs to another row.
type takenRow struct{ row sql.Row }

func (*takenRow) Error() string { return "a row has the key of another one" }

// entry is an index entry of a row.
type entry struct {
	schema.Write
	row    sql.Row
	unique bool // no other row may have the key
}

// entriesOf are the entries of rows in an index; a row without value was deleted meanwhile.
func (t *Table) entriesOf(ctx context.Context, cur *schema.Table, x *schema.Index, rows []kv.Row) (es []entry, err error) {
	want := make([]bool, len(cur.Cols))
	for _, c := range x.Cols {
		want[c.Pos] = true
	}
	es = make([]entry, 0, len(rows))
	for i := range rows {
		if rows[i].Value == nil {
			continue
		}
		row := make(sql.Row, len(cur.Cols))
		w, err := sorted.Entry(ctx, t.g.DB, cur, x, &rows[i], row, want)
		if err != nil {
			return nil, err
		}
		es = append(es, entry{w, row, x.Desc.Unique() && !x.HasNull(row)})
	}
	return es, nil
}

// takenBy is a row whose unique key belongs to another row, nil if there is none.
func takenBy(ctx context.Context, k kv.Txn, es []entry) (sql.Row, error) {
	var keys []base.Key
	for _, e := range es {
		if e.unique {
			keys = append(keys, e.Key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	found, err := k.Get(ctx, keys, kv.LockExclusive)
	if err != nil {
		return nil, err
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
		if v, ok := present[string(e.Key)]; ok && string(v) != string(e.Value) {
			return e.row, nil
		}
		present[string(e.Key)] = e.Value
	}
	return nil, nil
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
	Placed base.Placed    `json:"placed,omitzero"`
	// Parts are the placements, or copy sets, of the rows, if they have several, in place of
	// Placed.
	Parts       []base.Placed `json:"parts,omitempty"`
	MultiMaster bool          `json:"multi,omitempty"`
	Since       time.Time     `json:"since"`
	// Node is set while a rewrite is filling the table; it is garbage only if that fails.
	Node base.NodeID `json:"node,omitempty"`
}

// partsOfGarbage are the placements, or copy sets, of the rows of a table whose rows have several.
func partsOfGarbage(d *schema.TableDesc) []base.Placed {
	if d.Locality.Sets != nil {
		return d.Locality.Sets
	}
	if d.Locality.Parts == nil {
		return nil
	}
	return d.Locality.Places()
}

func garbageKey(id base.TableID, ix uint64) base.Key {
	k := base.IndexPrefix(base.MetaShard, schema.TabCatalog, schema.IxGarbage, 0)
	return base.AppendUint64(base.AppendUint64(k, uint64(id)), ix)
}

// GarbageOf describes the rows of a table id for the collector.
func GarbageOf(t *schema.Table) *garbageDesc {
	g := &garbageDesc{
		V: t.Desc.Format(), Table: t.Desc.ID, All: []base.IndexID{0}, Shards: t.Desc.Shards, Async: t.Desc.Locality.Async,
		Global: t.Desc.Locality.Kind == schema.Global, MultiMaster: t.Desc.Locality.Kind == schema.MultiMaster,
		Placed: t.Desc.Locality.Placed, Parts: partsOfGarbage(t.Desc), Since: time.Now().UTC(),
	}
	for _, x := range t.Indexes {
		if x.Desc.Stored() {
			g.All = append(g.All, x.Desc.Key())
		}
	}
	return g
}

// discard hands the rows of a table to the collector when the transaction commits.
func (m *mutation) discard(t *schema.Table) {
	if m.temporary != nil {
		m.txn.DiscardTemporary(temporarySpan(t))
		return
	}
	discardTable(m.kv, t)
	if t.Next != nil {
		discardTable(m.kv, t.Next)
	}
	if t.Desc.Locality.Kind == schema.MultiMaster {
		m.txn.Declares(t.Desc.ID, true)
	}
	m.txn.After = append(m.txn.After, m.g.GC.Kick)
}

// discardTable does so for the rows of one table id.
func discardTable(k kv.Txn, t *schema.Table) {
	k.Put(garbageKey(t.Desc.ID, 0), schema.Marshal(GarbageOf(t)), 0)
}

func (m *mutation) discardIndex(d *schema.TableDesc, x *schema.IndexDesc) {
	if !x.Stored() {
		return
	}
	if m.temporary != nil {
		m.discardTemporary(d, x)
		return
	}
	m.put(garbageKey(d.ID, uint64(x.Key())), schema.Marshal(indexGarbage(d, x)))
	m.txn.After = append(m.txn.After, m.g.GC.Kick)
}

// indexGarbage is what is left of an index that has gone.
func indexGarbage(d *schema.TableDesc, x *schema.IndexDesc) *garbageDesc {
	k := x.Key()
	return &garbageDesc{V: d.Format(), Table: d.ID, Index: &k, Shards: d.Shards, Async: d.Locality.Async,
		Global:      d.Locality.Kind == schema.Global,
		MultiMaster: d.Locality.Kind == schema.MultiMaster, Placed: d.Locality.Placed, Parts: partsOfGarbage(d),
		Since: time.Now().UTC(),
	}
}

// noteGarbage records, in a transaction of its own, a table id that is garbage unless keepNew
// commits.
func (g *Env) noteGarbage(ctx *sql.Context, t *schema.Table) error {
	d := GarbageOf(t)
	d.Node = g.DB.Node()
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(k kv.Txn) error {
		k.Put(garbageKey(t.Desc.ID, 0), schema.Marshal(d), 0)
		return nil
	})
	return err
}

// keepNew takes a table id back from the garbage.
func (m *mutation) keepNew(id base.TableID) { m.del(garbageKey(id, 0)) }
