package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

const (
	readAtOnce = 4       // streams that are read at the same time
	pageBytes  = 1 << 20 // of rows in one read
	cleanFor   = 30 * time.Second
	// longestChain bounds how many backups build on each other: a restore reads them side by side.
	longestChain = 100
)

// taking is a backup that is being taken.
type taking struct {
	g      *Env
	l      *library
	m      *archive.Manifest
	key    *archive.Key
	parent *volume // nil: the backup stands alone
	job    ddl.Work

	mu      sync.Mutex
	written []string // files, to be removed if it fails
}

// backup runs BACKUP.
func (g *Env) backup(ctx *sql.Context, s *session.Session, st *Statement, l *library) (rows []sql.Row, err error) {
	t := &taking{g: g, l: l}
	t.key, err = l.keys.New()
	if err != nil {
		return nil, err
	}
	if st.incremental {
		if t.parent, err = l.parent(ctx, g, st); err != nil {
			return nil, err
		}
		if t.parent.key != nil {
			t.key = t.parent.key // one passphrase, one key: making another one takes a while
		}
	}
	ts, err := g.moment(ctx, st)
	if err != nil {
		return nil, err
	}
	if t.parent != nil && ts <= t.parent.Timestamp {
		return nil, schema.Invalid("the newest backup there is of " + moment(t.parent.Timestamp) + ", which is not before " +
			moment(ts) + ": an incremental backup is of a later moment")
	}
	h, err := hold.Take(ctx, g.DB, ts, "BACKUP "+st.target())
	if err != nil {
		return nil, err
	}
	defer g.keep(ctx, h)()
	t.job = g.Jobs.Work(ctx, "BACKUP", st.target(), 0)
	defer func() { t.job.End(err) }()
	if err = t.take(ctx, st, ts); err != nil {
		t.remove(ctx)
		return nil, err
	}
	files := 0
	t.m.Files(func(archive.File) { files++ })
	s.Wrote(ts)
	return []sql.Row{{t.m.ID, moment(ts), int64(len(t.m.Tables)), t.m.Rows(), int64(files), t.m.Bytes(),
		strings.Join(t.m.Skipped, ", ")}}, nil
}

// moment is that of the backup, in whole microseconds, as it is shown.
func (g *Env) moment(ctx *sql.Context, st *Statement) (base.Timestamp, error) {
	if st.asOf != nil {
		_, ts, err := g.SnapshotAsOf(ctx, st.asOf)
		if err != nil {
			return 0, err
		}
		return ts - ts%1000, nil
	}
	ts := g.DB.Clock() + 999
	return ts - ts%1000, nil
}

// keep renews a hold until the function that it returns is called.
func (g *Env) keep(ctx context.Context, h *hold.Hold) (release func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(hold.Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := h.Renew(kv.WithPatience(ctx, kv.NewPatience())); err != nil && ctx.Err() == nil {
				g.Log.Warn("the snapshot of a backup could not be held for longer yet", "err", err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanFor)
		defer done()
		if err := h.Release(kv.WithPatience(ctx, kv.NewPatience())); err != nil {
			g.Log.Warn("the snapshot of a backup is kept until its hold ends", "in", hold.Lasts, "err", err)
		}
	}
}

// parent is the backup that an incremental one builds on.
func (l *library) parent(ctx context.Context, g *Env, st *Statement) (*volume, error) {
	v, _, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case v == nil:
		return nil, schema.Invalid("there is no complete backup in that place to build on: leave out INCREMENTAL for the first one")
	case v.Target != st.target():
		return nil, schema.Invalid("the newest backup in that place is of " + v.Target + ", this one would be of " + st.target() +
			": keep them in places of their own")
	case v.Cluster != g.DB.Topology().ClusterID:
		return nil, schema.Invalid("the newest backup in that place is of another cluster: take a full backup first")
	}
	chain, err := l.chain(ctx, v)
	if err == nil && len(chain) >= longestChain {
		err = schema.Invalid(fmt.Sprintf("%d backups build on each other in that place: take a full one", len(chain)))
	}
	return v, err
}

// take writes all files, the manifest last.
func (t *taking) take(ctx *sql.Context, st *Statement, ts base.Timestamp) error {
	snap, err := schema.LoadSnapshot(ctx, t.g.DB, nil, ts)
	if err != nil {
		return err
	}
	topo := t.g.DB.Topology()
	t.m = &archive.Manifest{ID: archive.NewID(ts), Target: st.target(), Timestamp: ts, Cluster: topo.ClusterID,
		Started: time.Now().UTC(), Regions: map[base.RegionID]string{}}
	t.m.Whole = len(st.databases) == 0 && len(st.tables) == 0
	for _, r := range topo.Regions {
		t.m.Regions[r.ID] = r.Name
	}
	if t.parent != nil {
		t.m.Parent = t.parent.ID
	}
	tables, err := t.choose(st, snap)
	if err != nil {
		return err
	}
	estimate := int64(0)
	for _, d := range tables {
		estimate += int64(t.g.Stats.Rows(d))
	}
	t.job.Total(estimate)
	if err := t.state(ctx, tables); err != nil {
		return err
	}
	if err := t.streams(ctx, tables); err != nil {
		return err
	}
	t.job.Total(t.m.Rows())
	t.m.Finished = time.Now().UTC()
	b, err := t.m.Encode(t.key)
	if err != nil {
		return err
	}
	return t.write(ctx, archive.ManifestName, b)
}

// choose fills the manifest with the definitions of what is backed up, and returns its tables.
func (t *taking) choose(st *Statement, snap *schema.Snapshot) ([]*schema.Table, error) {
	c := &choice{snap: snap, whole: map[string]bool{}, parts: map[string]map[string]bool{}}
	for _, d := range st.databases {
		if snap.Database(d) == nil {
			return nil, sql.ErrDatabaseNotFound.New(d)
		}
		c.whole[strings.ToLower(d)] = true
	}
	for _, n := range st.tables {
		if err := c.table(n); err != nil {
			return nil, err
		}
	}
	if t.m.Whole {
		for d := range snap.Databases {
			c.whole[d] = true
		}
	}
	tables, multi := c.tables()
	if len(multi) > 0 && !st.skipMultiMaster {
		return nil, schema.Invalid("MULTI MASTER tables have no reads of the past, and so no backup: " + strings.Join(multi, ", ") +
			". Leave them out: WITH SKIP_MULTI_MASTER")
	}
	t.m.Skipped = multi
	t.m.Databases, t.m.Objects = c.databases(), c.objects()
	for _, d := range tables {
		t.m.Tables = append(t.m.Tables, archive.Table{Desc: schema.Marshal(stored(d.Desc))})
	}
	return tables, nil
}

// stored is a descriptor without what is under way.
func stored(d *schema.TableDesc) *schema.TableDesc {
	d = d.Clone()
	d.Version--
	d.Next = nil
	d.Indexes = slices.DeleteFunc(d.Indexes, func(x schema.IndexDesc) bool { return x.State != schema.IndexPublic })
	d.V = d.Format()
	return d
}

// choice is what of a catalog is backed up.
type choice struct {
	snap  *schema.Snapshot
	whole map[string]bool            // databases, by lower name
	parts map[string]map[string]bool // tables of others
}

// table adds a table, and those with which the engine keeps its full-text indexes.
func (c *choice) table(n name) error {
	t := c.snap.Table(n.DB, n.Table)
	if t == nil {
		if c.snap.Database(n.DB) == nil {
			return sql.ErrDatabaseNotFound.New(n.DB)
		}
		return sql.ErrTableNotFound.New(n.Table)
	}
	db := strings.ToLower(n.DB)
	if c.parts[db] == nil {
		c.parts[db] = map[string]bool{}
	}
	for _, name := range append(fulltextTables(t.Desc), t.Desc.Name) {
		c.parts[db][strings.ToLower(name)] = true
	}
	return nil
}

// fulltextTables are the tables with which the engine keeps the full-text indexes of a table.
func fulltextTables(d *schema.TableDesc) (names []string) {
	for _, x := range d.Indexes {
		if f := x.Fulltext; f != nil {
			names = append(names, f.Config, f.Position, f.DocCount, f.GlobalCount, f.RowCount)
		}
	}
	return names
}

// tables are those chosen, in the order of their names; multi are MULTI MASTER.
func (c *choice) tables() (out []*schema.Table, multi []string) {
	for _, name := range slices.Sorted(maps.Keys(c.snap.Databases)) {
		db := c.snap.Databases[name]
		for _, tn := range slices.Sorted(maps.Keys(db.Tables)) {
			switch t := db.Tables[tn]; {
			case !c.whole[name] && !c.parts[name][tn]:
			case t.Desc.Locality.Kind == schema.MultiMaster:
				multi = append(multi, t.Desc.DB+"."+t.Desc.Name)
			default:
				out = append(out, t)
			}
		}
	}
	return out, multi
}

func (c *choice) databases() (out []json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(c.snap.Databases)) {
		if c.whole[name] || c.parts[name] != nil {
			out = append(out, schema.Marshal(c.snap.Databases[name].Desc))
		}
	}
	return out
}

// objects are those of whole databases, and the triggers of single tables.
func (c *choice) objects() (out []archive.Object) {
	for _, name := range slices.Sorted(maps.Keys(c.snap.Databases)) {
		db := c.snap.Databases[name]
		for _, ix := range slices.Sorted(maps.Keys(db.Objects)) {
			for _, o := range db.ObjectsInOrder(ix) {
				if c.whole[name] || o.Trigger != nil && c.parts[name][strings.ToLower(schema.TriggerTable(o.Trigger.CreateStatement))] {
					out = append(out, archive.Object{Kind: ix, Desc: schema.Marshal(o)})
				}
			}
		}
	}
	return out
}

// state reads what is not in rows of tables: counters, and of a whole cluster its users.
func (t *taking) state(ctx context.Context, tables []*schema.Table) error {
	var keys []base.Key
	var of []int
	for i, d := range tables {
		if d.Desc.AutoIncCol() >= 0 {
			keys, of = append(keys, table.CounterKey(d.Desc.AutoKey)), append(of, i)
		}
	}
	return t.g.at(ctx, t.m.Timestamp, func(ctx context.Context, k kv.Txn) error {
		if t.m.Whole {
			rows, err := k.Get(ctx, []base.Key{schema.UsersKey}, kv.LockNone)
			if err != nil {
				return err
			}
			t.m.Users = rows[0].Value
		}
		if len(keys) == 0 {
			return nil
		}
		rows, err := k.Get(ctx, keys, kv.LockNone)
		for i, r := range rows {
			if err == nil && r.Value != nil {
				t.m.Tables[of[i]].Counter, err = table.CounterValue(r.Value)
			}
		}
		return err
	})
}

// stream is a shard of a table that is being written.
type stream struct {
	t     *taking
	table int // in the manifest
	of    *schema.Table
	at    int // in the streams of the table
	was   *cursor
	alone bool

	out  archive.Stream
	rows archive.Encoder
	keys archive.Encoder
	n    [2]int
	all  int64
}

// streams writes the rows of all tables.
func (t *taking) streams(ctx context.Context, tables []*schema.Table) error {
	var was map[base.TableID]*archive.Table
	if t.parent != nil {
		if err := t.parent.index(); err != nil {
			return err
		}
		was = t.parent.byID
	}
	var todo []*stream
	for i, d := range tables {
		shards := d.Shards()
		old := was[d.Desc.ID]
		alone := old == nil || !sameShards(old.Streams, shards)
		t.m.Tables[i].Alone = alone
		t.m.Tables[i].Streams = make([]archive.Stream, len(shards))
		for j, s := range shards {
			x := &stream{t: t, table: i, of: d, at: j, alone: alone, out: archive.Stream{Shard: s},
				rows: archive.Encoder{Kind: archive.RowPiece}, keys: archive.Encoder{Kind: archive.KeyPiece}}
			if x.was = (&cursor{done: true}); !alone {
				x.was = t.parent.cursor(&old.Streams[j], archive.KeyPiece)
			}
			todo = append(todo, x)
		}
	}
	return each(ctx, len(todo), readAtOnce, func(ctx context.Context, i int) error {
		x := todo[i]
		todo[i] = nil
		if err := x.run(ctx); err != nil {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		to := &t.m.Tables[x.table]
		to.Streams[x.at] = x.out
		to.Rows += x.all
		return nil
	})
}

func sameShards(old []archive.Stream, now []base.ShardID) bool {
	return slices.EqualFunc(old, now, func(s archive.Stream, id base.ShardID) bool { return s.Shard == id })
}

// run reads the shard, and writes what differs from the parent.
func (x *stream) run(ctx context.Context) error {
	if err := x.was.next(ctx); err != nil {
		return err
	}
	p := base.IndexPrefix(x.out.Shard, x.of.Desc.ID, 0, 0)
	span := base.Span{Start: p, End: p.PrefixEnd()}
	for span.Start != nil {
		rows, next, err := x.t.page(ctx, span)
		if err != nil {
			return err
		}
		for i := range rows {
			if err := x.row(ctx, &rows[i]); err != nil {
				return err
			}
		}
		x.t.job.Did(len(rows))
		span.Start = next
	}
	for !x.was.done {
		if err := x.gone(ctx); err != nil {
			return err
		}
	}
	return cmp.Or(x.flush(ctx, &x.rows), x.flush(ctx, &x.keys))
}

// page reads the first rows of a span; next is where to go on, nil at its end.
func (t *taking) page(ctx context.Context, span base.Span) (rows []kv.Row, next base.Key, err error) {
	err = t.g.at(ctx, t.m.Timestamp, func(ctx context.Context, k kv.Txn) error {
		res, err := k.Scan(ctx, kv.ScanRequest{Spans: []base.Span{span}, MaxBytes: pageBytes})
		if err != nil {
			return err
		}
		rows, next = res.Rows, nil
		if res.Next != nil && len(rows) > 0 {
			next = rows[len(rows)-1].Key.Next()
		}
		return nil
	})
	return rows, next, err
}

// row writes a row, unless the parent has it as it is.
func (x *stream) row(ctx context.Context, r *kv.Row) error {
	rec := archive.Record{PK: r.Key[base.IndexPrefixLen:], TS: r.TS, Home: r.Home, Pinned: r.Label.Pinned(), Value: r.Value}
	for !x.was.done && string(x.was.rec.PK) < string(rec.PK) {
		if err := x.gone(ctx); err != nil {
			return err
		}
	}
	same := false
	if !x.was.done && string(x.was.rec.PK) == string(rec.PK) {
		same = x.was.rec.Same(&rec)
		if err := x.was.next(ctx); err != nil {
			return err
		}
	}
	x.all++
	if !same {
		if err := x.add(ctx, &x.rows, &rec); err != nil {
			return err
		}
	}
	return x.add(ctx, &x.keys, &rec)
}

// gone notes that a row of the parent is not there any more.
func (x *stream) gone(ctx context.Context) error {
	err := x.add(ctx, &x.rows, &archive.Record{PK: x.was.rec.PK, TS: x.t.m.Timestamp, Deleted: true})
	return cmp.Or(err, x.was.next(ctx))
}

func (x *stream) add(ctx context.Context, e *archive.Encoder, r *archive.Record) error {
	e.Add(r)
	if e.Size() < archive.PieceSize {
		return nil
	}
	return x.flush(ctx, e)
}

// flush writes a piece.
func (x *stream) flush(ctx context.Context, e *archive.Encoder) error {
	if e.Size() == 0 {
		return nil
	}
	files, n := &x.out.Rows, &x.n[0]
	if e.Kind == archive.KeyPiece {
		files, n = &x.out.Keys, &x.n[1]
	}
	name := fmt.Sprintf("t%d-s%d-%d%s", x.of.Desc.ID, x.out.Shard, *n, e.Kind.Suffix())
	b, f, err := e.Finish(x.t.m.ID, name, x.t.key)
	if err != nil {
		return err
	}
	*n++
	*files = append(*files, f)
	return x.t.write(ctx, name, b)
}

func (t *taking) write(ctx context.Context, name string, b []byte) error {
	file := t.m.ID + "/" + name
	t.mu.Lock()
	t.written = append(t.written, file)
	t.mu.Unlock()
	if err := t.l.place.Write(ctx, file, b); err != nil {
		return fmt.Errorf("backup file %s: %w", file, err)
	}
	return nil
}

// remove removes what was written, as far as that can be done. What stays is no backup, since its
// manifest is not there.
func (t *taking) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanFor)
	defer cancel()
	for _, file := range slices.Backward(t.written) {
		if err := t.l.place.Remove(ctx, file); err != nil {
			t.g.Log.Info("a file of a backup that failed is left", "file", file, "err", err)
		}
	}
}
