package backup

import (
	"context"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/decode"
	"github.com/godwitdb/godwit/sql/backup/parallel"
	"github.com/godwitdb/godwit/sql/backup/residence"
	"github.com/godwitdb/godwit/sql/schema"
)

// A restore to a moment behind a backup has three steps. The rows of the backup are written,
// without index entries. The log of changes is applied to them, in its order. Then index entries
// are made of the rows that are there: so nobody has to know which entries an older version of a
// row had.

// replayBytes is how much of the log is gathered, the newest version of each row, before it is
// written.
const replayBytes = 16 << 20

// change is what the log says of a row, as it is newest.
type change struct {
	t     *planned
	shard base.ShardID // where the row was
	pk    []byte
	rec   archive.Record
	dec   *archive.Decoder
}

// replay applies the log.
func (p *plan) replay(ctx context.Context, homes map[base.RegionID]base.RegionID, slots chan struct{}) error {
	byID := map[base.TableID]*planned{}
	for _, t := range p.tables {
		byID[t.was.ID] = t
	}
	r := &replaying{p: p, f: &filling{p: p, homes: homes, elsewhere: map[base.RegionID]bool{}}, slots: slots}
	defer func() {
		for was := range r.f.elsewhere {
			p.region(was)
		}
	}()
	r.forget()
	for _, w := range p.windows() {
		if w.to <= p.far.Replayed {
			continue
		}
		for _, s := range w.segments {
			if err := r.read(ctx, &w, s, byID); err != nil {
				return s.l.in(err)
			}
		}
		if r.bytes >= replayBytes {
			if err := r.apply(ctx); err != nil {
				return err
			}
		}
		if r.bytes == 0 {
			if err := p.replayed(w.to); err != nil {
				return err
			}
		}
	}
	if err := r.apply(ctx); err != nil {
		return err
	}
	log := p.srcs[0].log
	return p.replayed(log[len(log)-1].To)
}

// read notes the versions of a segment that belong to a window.
func (r *replaying) read(ctx context.Context, w *window, s *segment, byID map[base.TableID]*planned) error {
	p := r.p
	several := len(p.srcs) > 1
	for _, f := range s.Pieces {
		err := s.each(ctx, f, func(d *archive.Decoder, rec *archive.Record, shard base.ShardID, table base.TableID, pk []byte) error {
			t := byID[table]
			switch {
			case t == nil, !p.applies(rec.TS, table), several && !w.has(s, rec.TS, table):
			default:
				r.note(&change{t, shard, pk, *rec, d})
			}
			return nil
		})
		if err != nil {
			return err
		}
		// All versions of a row within the window are in one piece, unless it has come from another
		// region.
		if !several && r.bytes >= replayBytes {
			if err := r.apply(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// applies reports whether a version is to be applied: it is not behind the moment, and the backup
// does not have it.
func (p *plan) applies(ts base.Timestamp, t base.TableID) bool {
	return ts <= p.o.Moment && (p.base.byID[t] == nil || ts > p.base.Timestamp)
}

// replayed notes how far the log has been applied.
func (p *plan) replayed(to base.Timestamp) error {
	p.far.mu.Lock()
	defer p.far.mu.Unlock()
	p.far.Replayed = max(p.far.Replayed, to)
	return p.lease.Checkpoint(p.far)
}

// replaying gathers changes.
type replaying struct {
	p       *plan
	f       *filling // knows homes
	slots   chan struct{}
	changes map[string]*change
	bytes   int
}

func (r *replaying) forget() { r.changes, r.bytes = map[string]*change{}, 0 }

// note keeps the newest version of a row.
func (r *replaying) note(c *change) {
	k := string(c.rec.PK[:len(c.rec.PK)-8])
	if was := r.changes[k]; was != nil && was.rec.TS >= c.rec.TS {
		return
	}
	r.changes[k] = c
	r.bytes += len(k) + len(c.rec.Value) + 64
}

// apply writes what was gathered, in batches of a home, and waits until all is there: what comes
// next may be newer versions of the same rows.
func (r *replaying) apply(ctx context.Context) error {
	batches := map[base.RegionID][]*change{}
	var todo [][]*change
	for _, c := range r.changes {
		home := c.t.def.HomeFor(c.shard, r.f.home(c.rec.Home))
		b := append(batches[home], c)
		if len(b) >= batchRows/2 {
			todo, b = append(todo, b), nil
		}
		batches[home] = b
	}
	for _, b := range batches {
		if len(b) > 0 {
			todo = append(todo, b)
		}
	}
	r.forget()
	return parallel.Each(ctx, len(todo), flushAtOnce, func(ctx context.Context, i int) error { return r.put(ctx, todo[i]) })
}

// put writes changes in a transaction. Rows that were there before may have another home, or
// another pin: they are moved in a second one. Both can be repeated.
func (r *replaying) put(ctx context.Context, list []*change) error {
	var keys []base.Key
	var of []*change
	type write struct {
		key base.Key
		c   *change
	}
	var writes []write
	bytes := 0
	for _, c := range list {
		where, err := c.keys(ctx)
		if err != nil {
			return err
		}
		for _, k := range where {
			writes = append(writes, write{k, c})
			bytes += len(k) + len(c.rec.Value)
		}
		if !c.rec.Deleted && c.t.def.HomeFor(where[0].Shard(), 1) != 0 {
			keys, of = append(keys, where[0]), append(of, c)
		}
	}
	if err := r.p.g.Pace.Wait(ctx, bytes); err != nil {
		return err
	}
	home := func(c *change, k base.Key) base.RegionID { return c.t.def.HomeFor(k.Shard(), r.home(c)) }
	err := r.f.write(ctx, func(_ context.Context, k kv.Txn) error {
		for _, w := range writes {
			if w.c.rec.Deleted {
				k.Delete(w.key)
			} else {
				k.Put(w.key, w.c.rec.Value, home(w.c, w.key))
			}
		}
		return nil
	})
	if err != nil || len(keys) == 0 {
		return err
	}
	return r.f.write(ctx, func(ctx context.Context, k kv.Txn) error {
		rows, err := k.Get(ctx, keys, kv.LockExclusive)
		if err != nil {
			return err
		}
		for i, row := range rows {
			to, pin := home(of[i], row.Key), kv.PinOff
			if of[i].rec.Pinned {
				pin = kv.PinOn
			}
			if row.Value != nil && (row.Home != to || row.Label.Pinned() != of[i].rec.Pinned) {
				k.Move(row.Key, to, kv.MoveOptions{Pin: pin})
			}
		}
		return nil
	})
}

// home is where the row of a change is at home here. Regions that do not exist here were noted
// before.
func (r *replaying) home(c *change) base.RegionID {
	if here, ok := r.f.homes[c.rec.Home]; ok {
		return here
	}
	return kv.HomeRegion(r.p.g.DB)
}

// keys are where the row of a change may be here. Of a deleted row only the key is known. If this
// cluster has other shards, the row may be in any of them.
func (c *change) keys(ctx context.Context) ([]base.Key, error) {
	def := c.t.def
	if !c.rec.Deleted {
		if _, _, err := decode.Row(ctx, c.t.old, c.dec, &archive.Record{PK: c.pk, Value: c.rec.Value}); err != nil {
			return nil, err
		}
		row := make(sql.Row, len(def.Cols))
		if err := def.DecodeRow(ctx, c.rec.Value, row); err != nil {
			return nil, err
		}
		ref, err := def.RefIn(ctx, row, schema.RowRef{PK: c.pk})
		if err != nil {
			return nil, err
		}
		return []base.Key{def.RowKey(ref)}, nil
	}
	if len(def.PK) <= 1 && !def.Begun() {
		return []base.Key{def.RowKey(schema.RowRef{Shard: def.ShardOf(c.pk), PK: c.pk})}, nil
	}
	if c.t.old.Desc.Shards == def.Desc.Shards && c.t.old.Desc.Locality.Async == def.Desc.Locality.Async &&
		slices.Equal(residence.Placements(c.t.old.Desc), residence.Placements(def.Desc)) {
		return []base.Key{def.RowKey(schema.RowRef{Shard: c.shard, PK: c.pk})}, nil
	}
	var out []base.Key
	for _, s := range def.Shards() {
		out = append(out, def.RowKey(schema.RowRef{Shard: s, PK: c.pk}))
	}
	return out, nil
}

// index makes the index entries of all rows, and counts them. first is the number of the first of
// its streams in the checkpoint.
func (p *plan) index(ctx context.Context, session *sql.Context, slots chan struct{}, first int) error {
	var todo []*filling
	for _, t := range p.tables {
		eval, err := p.g.virtual(session, t.def)
		if err != nil {
			return err
		}
		for _, s := range t.def.Shards() {
			todo = append(todo, &filling{p: p, t: t, eval: eval, slots: slots, shard: s, at: first + len(todo)})
		}
	}
	p.job.Total(0)
	ts := p.g.DB.Clock()
	rows := make([]int64, len(todo))
	err := parallel.Each(ctx, len(todo), writeAtOnce, func(ctx context.Context, i int) error {
		err := todo[i].entries(ctx, ts)
		rows[i] = todo[i].rows
		return err
	})
	p.rows = 0
	for _, n := range rows {
		p.rows += n
	}
	return err
}

// entries makes the index entries of the rows of a shard, as they are at a timestamp.
func (f *filling) entries(ctx context.Context, ts base.Timestamp) error {
	f.batches = map[base.RegionID]*batch{}
	from, ended := f.p.far.at(f.at)
	if ended {
		f.rows = from.Rows
		return nil
	}
	ctx, f.failed = context.WithCancelCause(ctx)
	defer f.failed(nil)
	p := f.t.def.Prefix(f.shard, 0, 0)
	span := base.Span{Start: p, End: p.PrefixEnd()}
	for span.Start != nil {
		rows, next, err := f.p.g.page(ctx, ts, span)
		for i := range rows {
			if err == nil {
				err = f.entry(ctx, &rows[i])
			}
		}
		if err != nil {
			f.failed(err)
			break
		}
		span.Start = next
	}
	if err := f.flushAll(ctx); err != nil {
		f.failed(err)
	}
	f.writes.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return f.p.reach(f.at, reached{}, true)
}

// entry adds the index entries of a row to the batch of its home.
func (f *filling) entry(ctx context.Context, r *kv.Row) error {
	def := f.t.def
	row := make(sql.Row, len(def.Cols))
	if err := def.DecodeRow(ctx, r.Value, row); err != nil {
		return err
	}
	if f.eval != nil {
		if err := f.eval(row); err != nil {
			return schema.Invalid("a generated column of table " + def.Desc.DB + "." + def.Desc.Name + " cannot be computed: " + err.Error())
		}
	}
	ws, err := def.RowWrites(ctx, row, r.Value, schema.RefOfKey(r.Key), r.Home)
	if err != nil {
		return err
	}
	if len(ws) == 1 {
		f.rows++
		f.p.job.Did(1)
		return nil
	}
	return f.add(ctx, r.Home, false, ws[1:])
}
