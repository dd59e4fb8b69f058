package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/computed"
	"github.com/godwitdb/godwit/sql/backup/decode"
	"github.com/godwitdb/godwit/sql/backup/merge"
	"github.com/godwitdb/godwit/sql/backup/parallel"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

const (
	// writeAtOnce is how many streams are restored at the same time; fewer if many backups build on
	// each other, since each stream then keeps a piece of each backup in memory.
	writeAtOnce = 4
	mostPieces  = 32
	// flushAtOnce is how many batches are being written at the same time: over an ocean each takes
	// a round trip or two, in which others can go along.
	flushAtOnce = 8
	// A batch is a transaction: of so many rows, or bytes.
	batchRows  = 512
	batchBytes = 1 << 20
	// ambiguousTries is how often a batch is written whose outcome is unknown: it does no harm.
	ambiguousTries = 10
)

// noteEvery is after how many rows a stream waits until they are there, and notes that. Tests have
// fewer.
var noteEvery int64 = 32 * batchRows

// restore runs RESTORE.
func (g *Env) restore(ctx *sql.Context, s *session.Session, st *Statement, l *library) (rows []sql.Row, err error) {
	v, ts, err := l.at(ctx, g, st)
	if err != nil {
		return nil, err
	}
	o := st.order()
	o.Backup, o.Moment = v.ID, ts
	o.AnyDefiner = g.Rights(ctx).Dynamic(rights.SetUserID)
	// What can be refused is refused before there is a job.
	p, err := l.plan(ctx, g, o, ctx.Client().User)
	if err != nil {
		return nil, err
	}
	if p.users != nil && !g.Rights(ctx).Global(sql.PrivilegeType_Super) {
		return nil, rights.ErrNeeds("SUPER") // it makes accounts
	}
	if err := p.vacant(ctx); err != nil {
		return nil, err
	}
	return g.submit(ctx, s, st, o, l.keys)
}

// plan reads the backups of an order, and plans what is made of them.
func (l *library) plan(ctx context.Context, g *Env, o *order, user string) (*plan, error) {
	v, err := l.volume(ctx, o.Backup)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, &archive.FileError{File: o.Backup + "/" + archive.ManifestName, Why: "it is missing"}
	}
	if o.Moment <= v.Timestamp {
		srcs, err := l.sources(ctx, v)
		if err != nil {
			return nil, err
		}
		return g.plan(o, srcs, user)
	}
	srcs, to, short, err := l.logs(ctx, v, o.Moment)
	if err != nil {
		return nil, err
	}
	if to < o.Moment {
		return nil, short.l.in(&archive.FileError{File: archive.LogFolder(to), Why: "the log of changes ends at " + moment(to) + " now"})
	}
	return g.plan(o, srcs, user)
}

// restore does the restore of a job.
func (w *work) restore(ctx context.Context) (end outcome) {
	p, err := w.l.plan(ctx, w.g, w.o, w.user)
	if err != nil {
		return outcome{err: err}
	}
	ts, err := w.carryOut(ctx, p)
	if err != nil {
		return outcome{err: err}
	}
	if len(p.v.Skipped) > 0 {
		p.note("not in the backup: %s", strings.Join(p.v.Skipped, ", "))
	}
	return outcome{ts: ts, rows: []sql.Row{{p.v.ID, moment(p.o.Moment), int64(len(p.tables)), p.rows,
		strings.Join(p.notes, "; ")}}}
}

// carryOut does what is planned.
func (w *work) carryOut(ctx context.Context, p *plan) (base.Timestamp, error) {
	p.work = w
	if err := p.vacant(ctx); err != nil {
		return 0, err
	}
	w.job.Total(p.rows)
	return p.run(ctx)
}

// at is the backup, and the segments behind it, that lead to the moment that the statement names,
// or else to the latest one.
func (l *library) at(ctx *sql.Context, g *Env, st *Statement) (v *volume, ts base.Timestamp, err error) {
	if st.asOf != nil {
		if ts, err = g.TimeAsOf(ctx, st.asOf); err != nil {
			return nil, 0, err
		}
		ts -= ts % 1000
	}
	return l.reach(ctx, ts)
}

// vacant refuses names that are taken, before anything is written. The transaction that writes the
// definitions looks again.
func (p *plan) vacant(ctx context.Context) error {
	snap, err := p.g.Catalog.Fresh(ctx)
	if err != nil {
		return err
	}
	if p.v.Whole && p.o.whole() && len(snap.Databases) > 0 {
		return schema.Invalid("a whole cluster is restored into one without databases: drop them, or restore single databases")
	}
	for _, d := range p.dbs {
		if snap.Database(d.Name) != nil {
			return schema.Invalid("database " + d.Name + " exists: drop it, or restore under another name (AS)")
		}
	}
	for _, t := range p.tables {
		if len(p.dbs) > 0 {
			break
		}
		db := snap.Database(t.desc.DB)
		if db != nil && p.o.Replaces != 0 {
			if p.replaced = db.Tables[strings.ToLower(t.desc.Name)]; !p.replaces(p.replaced) {
				return errReplaced
			}
			continue
		}
		switch {
		case db == nil:
			return sql.ErrDatabaseNotFound.New(t.desc.DB)
		case db.Tables[strings.ToLower(t.desc.Name)] != nil || db.Objects[schema.IxView][strings.ToLower(t.desc.Name)] != nil:
			return schema.Invalid("table " + t.desc.DB + "." + t.desc.Name + " exists: drop it, or restore under another name (AS)")
		}
	}
	return p.referenced(snap)
}

// run writes the rows, and then shows everything at once.
func (p *plan) run(ctx context.Context) (ts base.Timestamp, err error) {
	async := slices.ContainsFunc(p.tables, func(t *planned) bool { return t.desc.Locality.Async })
	if async {
		if p.g.Nodes == nil {
			return 0, schema.Invalid("this server does not know its cluster: it can make no asynchronous tables")
		}
		if err := p.g.Nodes.EnableAsync(ctx); err != nil {
			return 0, err
		}
	}
	p.far = &progress{Going: map[int]reached{}}
	resumed, err := p.lease.Restore(p.far)
	if err != nil {
		return 0, err
	}
	made, err := p.reserve(ctx, resumed)
	if err != nil {
		return 0, err
	}
	defer p.stayReserved(ctx, made)()
	err = p.fill(ctx)
	if err == nil && async {
		// Rows are asynchronous now: others must have them before the restore counts as done.
		err = p.g.Nodes.AwaitHeld(ctx)
	}
	if err == nil {
		ts, err = p.publish(ctx, made)
	}
	if c := context.Cause(ctx); err != nil && !errors.Is(c, job.ErrLost) && !errors.Is(c, errClosing) {
		// What has been shown after all, by a commit of unknown outcome, stays.
		off, cancel := afterwards(ctx)
		defer cancel()
		if aerr := p.g.Abandon(kv.WithPatience(off, kv.NewPatience()), made); aerr != nil {
			p.g.Log.Warn("rows of a restore that failed are removed later", "err", aerr)
		}
	}
	return ts, err
}

// progress is how far a restore has come: the checkpoint of its job.
type progress struct {
	mu sync.Mutex
	// IDs are those of the tables, in the order of the plan.
	IDs []base.TableID `json:"ids"`
	// Own are, by the numbers of tables in the plan, the shards that these have for themselves.
	Own map[int]map[base.PlacementID]int `json:"own,omitempty"`
	// Ended has a bit for each stream, in the order of the plan, whose rows are all there.
	Ended []byte `json:"ended,omitempty"`
	// Going says of the others how far they are.
	Going map[int]reached `json:"going,omitempty"`
	// Replayed is how far the log of changes has been applied.
	Replayed base.Timestamp `json:"replayed,omitempty"`
}

// reached is how far a stream is: all rows up to a key are there.
type reached struct {
	PK   []byte `json:"pk"`
	Rows int64  `json:"rows"`
}

// at is how far a stream is.
func (f *progress) at(i int) (r reached, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Going[i], i/8 < len(f.Ended) && f.Ended[i/8]&(1<<(i%8)) != 0
}

// reach notes how far a stream is, for the checkpoint of the job.
func (p *plan) reach(i int, r reached, ended bool) error {
	f := p.far
	f.mu.Lock()
	defer f.mu.Unlock()
	if ended {
		for len(f.Ended) <= i/8 {
			f.Ended = append(f.Ended, 0)
		}
		f.Ended[i/8] |= 1 << (i % 8)
		delete(f.Going, i)
	} else {
		f.Going[i] = r
	}
	return p.lease.Checkpoint(f)
}

// reserve takes ids for the tables, unless a node before has done so.
func (p *plan) reserve(ctx context.Context, resumed bool) (made []*schema.Table, err error) {
	var regions []base.RegionID
	for _, t := range p.tables {
		r := kv.HomeRegion(p.g.DB)
		if t.desc.Locality.Kind == schema.ByTable {
			r = t.desc.Locality.Region
		}
		regions = append(regions, t.desc.Locality.Placed.HomeOf(r))
	}
	ids := p.far.IDs
	if !resumed {
		if ids, err = p.g.NewTableIDs(ctx, regions); err != nil {
			return nil, err
		}
	}
	if len(ids) != len(p.tables) {
		return nil, schema.Invalid("the backup is not what it was when the restore began: begin it again")
	}
	if err := p.split(ctx, resumed); err != nil {
		return nil, err
	}
	for i, t := range p.tables {
		t.desc.ID, t.desc.AutoKey = ids[i], uint64(ids[i])
		if topo, needs := p.g.DB.Topology(), t.desc.KeysSince(); !topo.Allows(needs) {
			return nil, topo.NotYet(fmt.Sprintf("to restore table %s.%s as it was backed up", t.desc.DB, t.desc.Name), needs)
		}
		if t.def, err = schema.NewTable(t.desc); err != nil {
			return nil, err
		}
		made = append(made, t.def)
	}
	if resumed {
		return made, p.g.StayReserved(ctx, made)
	}
	if err := p.g.Reserve(ctx, made); err != nil {
		return nil, err
	}
	p.far.IDs = ids
	if err := p.lease.Checkpoint(p.far); err != nil {
		return nil, err
	}
	return made, p.lease.Renew(ctx) // a node that goes on writes under these ids
}

// split gives the tables shards of their own that had some: of a restore that goes on, those that
// it has written to, and none if it began before the cluster had any.
func (p *plan) split(ctx context.Context, resumed bool) (err error) {
	if !resumed {
		p.far.Own = map[int]map[base.PlacementID]int{}
	}
	var taken []int
	for i, t := range p.tables {
		own := p.far.Own[i]
		if t.split == 0 || resumed && own == nil {
			continue
		}
		if own == nil {
			if own, err = p.g.OwnFor(ctx, t.desc.Locality, t.split, taken); err != nil {
				return err
			}
			p.far.Own[i] = own
		}
		for _, before := range own {
			taken = append(taken, before)
		}
		if t.desc.Locality, err = t.desc.Locality.WithOwn(t.split, own); err != nil {
			return err
		}
		t.desc.Shards = t.split
		t.desc.V = t.desc.Format()
	}
	return nil
}

// stayReserved says now and then that the rows are still being written, until the function that it
// returns is called.
func (p *plan) stayReserved(ctx context.Context, made []*schema.Table) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(ddl.ReserveEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := p.g.StayReserved(kv.WithPatience(ctx, kv.NewPatience()), made); err != nil && ctx.Err() == nil {
				p.g.Log.Warn("the tables of a restore could not be reserved for longer yet", "err", err)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// fill writes the rows of all tables.
func (p *plan) fill(ctx context.Context) error {
	var todo []*filling
	slots := make(chan struct{}, flushAtOnce)
	session := p.session(ctx)
	for _, t := range p.tables {
		eval, err := p.g.virtual(session, t.def)
		if err != nil {
			return err
		}
		for _, src := range p.srcs {
			for _, s := range src.streams(t.was.ID) {
				todo = append(todo, &filling{p: p, t: t, src: src, eval: eval, slots: slots, shard: s.Shard, at: len(todo), rowsOnly: p.behind()})
			}
		}
	}
	// Regions are looked up here: the notes are not for several goroutines.
	homes := map[base.RegionID]base.RegionID{}
	for r := range p.v.Regions {
		homes[r] = p.homeOf(r)
	}
	longest := 0
	for _, s := range p.srcs {
		longest = max(longest, len(s.chain))
	}
	atOnce := max(1, min(writeAtOnce, mostPieces/longest))
	err := parallel.Each(ctx, len(todo), atOnce, func(ctx context.Context, i int) error {
		todo[i].homes = homes
		return todo[i].run(ctx)
	})
	if err == nil && p.behind() {
		if err = p.replay(ctx, homes, slots); err == nil {
			err = p.index(ctx, session, slots, len(todo))
		}
	}
	for _, f := range todo {
		for r := range f.elsewhere {
			p.region(r)
		}
	}
	return err
}

// homeOf is region, without a note.
func (p *plan) homeOf(was base.RegionID) base.RegionID {
	if here := p.here(was); here != 0 {
		return here
	}
	return kv.HomeRegion(p.g.DB)
}

// filling is a stream of rows that is being written.
type filling struct {
	p  *plan
	t  *planned
	at int // in the order of the plan
	// src is where the rows are read; nil: they are in the cluster already.
	src *source
	// rowsOnly writes no index entries and no pins: there is a log of changes to be applied.
	rowsOnly bool
	shard    base.ShardID
	homes    map[base.RegionID]base.RegionID
	eval     func(sql.Row) error // computes virtual columns that are in indexes; nil: there are none

	slots  chan struct{} // of batches that are being written, of all streams
	writes sync.WaitGroup
	failed context.CancelCauseFunc // ends the stream

	elsewhere map[base.RegionID]bool // regions of rows that do not exist here
	batches   map[base.RegionID]*batch
	rows      int64
	noted     int64 // rows when it was last noted how far the stream is
}

// batch are rows of one home: a transaction that writes to several waits for the slowest.
type batch struct {
	home   base.RegionID
	writes []schema.Write
	pins   []base.Key
	rows   int
	bytes  int
}

// run merges what the backups of the chain say of the stream. The newest that has a key counts.
func (f *filling) run(ctx context.Context) error {
	f.batches, f.elsewhere = map[base.RegionID]*batch{}, map[base.RegionID]bool{}
	from, ended := f.p.far.at(f.at)
	if ended {
		return nil
	}
	f.rows, f.noted = from.Rows, from.Rows
	ctx, f.failed = context.WithCancelCause(ctx)
	defer f.failed(nil)
	err := f.merge(ctx, from.PK)
	if err != nil {
		f.failed(err) // nobody waits for the others
	}
	f.writes.Wait()
	if err = context.Cause(ctx); err != nil {
		return err
	}
	if !f.p.v.live {
		if err := f.counted(); err != nil {
			return err
		}
	}
	return f.p.reach(f.at, reached{}, true)
}

// merge reads the rows behind a key and hands them to batches.
func (f *filling) merge(ctx context.Context, behind []byte) error {
	if f.p.v.live {
		return f.scan(ctx, behind)
	}
	err := f.records(ctx, func(dec *archive.Decoder, rec *archive.Record) error {
		if behind != nil && string(rec.PK) <= string(behind) {
			return nil
		}
		if err := f.row(ctx, dec, rec); err != nil {
			return err
		}
		if f.rows-f.noted >= noteEvery {
			return f.note(ctx, rec.PK)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.flushAll(ctx)
}

// records calls fn for the rows of the stream as the newest backup has them.
func (f *filling) records(ctx context.Context, fn func(*archive.Decoder, *archive.Record) error) error {
	cursors, err := f.cursors(ctx)
	if err != nil {
		return err
	}
	m := &merge.Rows{Cursors: cursors}
	for {
		if err := m.Next(ctx); err != nil || m.Done {
			return err
		}
		if err := fn(m.Dec, &m.Rec); err != nil {
			return err
		}
	}
}

// note waits for all rows so far, and notes that they are there.
func (f *filling) note(ctx context.Context, pk []byte) error {
	if err := f.flushAll(ctx); err != nil {
		return err
	}
	f.writes.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f.noted = f.rows
	return f.p.reach(f.at, reached{pk, f.rows}, false)
}

func (f *filling) flushAll(ctx context.Context) error {
	for _, b := range f.batches {
		if err := f.flush(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// counted compares how many rows the stream has with what the newest backup says.
func (f *filling) counted() error {
	want := int64(0)
	if s := f.src.top().byID[f.t.was.ID].Stream(f.shard); s != nil {
		want = s.Number()
	}
	if f.rows != want {
		return f.src.l.in(f.src.top().bad("shard %d of table %s.%s has %d rows, and should have %d: backups that it builds on are not "+
			"what they were", f.shard, f.t.was.DB, f.t.was.Name, f.rows, want))
	}
	return nil
}

// cursors are those of the newest backup and of those that it builds on, up to one that stands
// alone for this table, the oldest first, each at its first record.
func (f *filling) cursors(ctx context.Context) (out []*merge.Cursor, err error) {
	for _, v := range slices.Backward(f.src.chain) {
		at := v.byID[f.t.was.ID]
		s := at.Stream(f.shard)
		if s == nil {
			return nil, v.l.in(v.bad("table %s.%s, on which a later backup builds, is not in it", f.t.was.DB, f.t.was.Name))
		}
		c := v.cursor(s, archive.RowPiece)
		if err := c.Next(ctx); err != nil {
			return nil, err
		}
		out = append(out, c)
		if at.Alone {
			slices.Reverse(out)
			return out, nil
		}
	}
	return nil, f.src.chain[0].bad("it does not have table %s.%s as a whole", f.t.was.DB, f.t.was.Name)
}

// row adds a row with its index entries to the batch of its home.
func (f *filling) row(ctx context.Context, dec *archive.Decoder, r *archive.Record) error {
	row, _, err := decode.Row(ctx, f.t.old, dec, r)
	if err != nil {
		return err
	}
	if f.eval != nil {
		if err := f.eval(row); err != nil {
			return dec.Bad("a generated column of table %s.%s cannot be computed: %v", f.t.was.DB, f.t.was.Name, err)
		}
	}
	def := f.t.def
	ref, err := def.RefIn(ctx, row, schema.RowRef{PK: r.PK})
	if err != nil {
		return err
	}
	home := def.HomeFor(ref.Shard, f.home(r.Home))
	if f.rowsOnly {
		return f.add(ctx, home, false, []schema.Write{{Key: def.RowKey(ref), Value: r.Value, Home: home}})
	}
	ws, err := def.RowWrites(ctx, row, r.Value, ref, home)
	if err != nil {
		return dec.Bad("a row of table %s.%s has no place in an index: %v", f.t.was.DB, f.t.was.Name, err)
	}
	return f.add(ctx, home, r.Pinned, ws)
}

// add adds what is written of a row to the batch of its home.
func (f *filling) add(ctx context.Context, home base.RegionID, pinned bool, ws []schema.Write) error {
	b := f.batches[home]
	if b == nil {
		b = &batch{home: home}
		f.batches[home] = b
	}
	b.writes = append(b.writes, ws...)
	for _, w := range ws {
		b.bytes += len(w.Key) + len(w.Value)
	}
	if pinned && home != 0 {
		b.pins = append(b.pins, ws[0].Key)
	}
	f.rows++
	if b.rows++; b.rows < batchRows && b.bytes < batchBytes {
		return nil
	}
	return f.flush(ctx, b)
}

// home is where a row of a region is at home here.
func (f *filling) home(was base.RegionID) base.RegionID {
	if was == 0 {
		return kv.HomeRegion(f.p.g.DB)
	}
	here, known := f.homes[was]
	if !known || f.p.g.DB.Topology().RegionName(here) != f.p.v.Regions[was] {
		f.elsewhere[was] = true
	}
	if !known {
		return kv.HomeRegion(f.p.g.DB)
	}
	return here
}

// flush has a batch written while the stream goes on, and empties it. An error ends the stream.
func (f *filling) flush(ctx context.Context, b *batch) error {
	if b.rows == 0 {
		return nil
	}
	select {
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	full := *b
	*b = batch{home: b.home}
	if err := f.p.g.Pace.Wait(ctx, full.bytes); err != nil {
		<-f.slots
		return err
	}
	f.writes.Go(func() {
		defer func() { <-f.slots }()
		if err := f.put(ctx, &full); err != nil {
			f.failed(err)
			return
		}
		f.p.job.Did(full.rows)
	})
	return nil
}

// put writes a batch in a transaction, and then sets pins in another one. Nobody sees the rows yet,
// and each key is written once, so that both can be repeated.
func (f *filling) put(ctx context.Context, b *batch) error {
	err := f.write(ctx, func(_ context.Context, k kv.Txn) error {
		for _, w := range b.writes {
			k.Put(w.Key, w.Value, w.Home)
		}
		return nil
	})
	if err != nil || len(b.pins) == 0 {
		return err
	}
	return f.write(ctx, func(ctx context.Context, k kv.Txn) error {
		rows, err := k.Get(ctx, b.pins, kv.LockExclusive)
		for _, r := range rows {
			k.Move(r.Key, b.home, kv.MoveOptions{Pin: kv.PinOn})
		}
		return err
	})
}

func (f *filling) write(ctx context.Context, fn func(context.Context, kv.Txn) error) (err error) {
	for range ambiguousTries {
		_, err = kv.Run(ctx, f.p.g.DB, kv.Options{}, func(k kv.Txn) error {
			return fn(kv.WithPatience(ctx, kv.NewPatience()), k)
		})
		if base.CodeOf(err) != base.CodeAmbiguous {
			return err
		}
	}
	return err
}

// publish writes all definitions in one transaction.
func (p *plan) publish(ctx context.Context, made []*schema.Table) (base.Timestamp, error) {
	ts, err := kv.Run(ctx, p.g.DB, kv.Options{}, func(k kv.Txn) error {
		ctx := kv.WithPatience(ctx, kv.NewPatience())
		if err := p.stillVacant(ctx, k); err != nil {
			return err
		}
		for _, d := range p.dbs {
			k.Put(schema.CatalogKey(schema.IxDatabase, d.Name), schema.Marshal(d), 0)
		}
		if err := ddl.Keep(ctx, k, made); err != nil {
			return err
		}
		for _, t := range p.tables {
			k.Put(t.def.Key, schema.Marshal(t.desc), 0)
			if t.from.Counter > 0 {
				k.Put(table.CounterKey(t.desc.AutoKey), base.AppendUint64(nil, t.from.Counter), 0)
			}
		}
		for _, o := range p.objects {
			k.Put(schema.CatalogKey(o.kind, o.DB, o.Name), schema.Marshal(o.ObjectDesc), 0)
		}
		if p.users != nil {
			k.Put(schema.UsersKey, p.users, 0)
		}
		return p.lease.FinishIn(ctx, k, nil) // nobody restores it a second time
	})
	if err != nil {
		return 0, err
	}
	_, err = p.g.Catalog.Fresh(ctx)
	return ts, err
}

// stillVacant locks all names, and sees that they are as the plan took them to be.
func (p *plan) stillVacant(ctx context.Context, k kv.Txn) error {
	var keys []base.Key
	var what []string
	add := func(key base.Key, name string) { keys, what = append(keys, key), append(what, name) }
	for _, d := range p.dbs {
		add(schema.CatalogKey(schema.IxDatabase, d.Name), "database "+d.Name)
	}
	for _, t := range p.tables {
		add(t.def.Key, "table "+t.desc.DB+"."+t.desc.Name)
	}
	for _, o := range p.objects {
		add(schema.CatalogKey(o.kind, o.DB, o.Name), o.DB+"."+o.Name)
	}
	absent := len(keys)
	for _, t := range p.tables { // the databases of single tables stay while those are made
		if len(p.dbs) == 0 {
			add(schema.CatalogKey(schema.IxDatabase, t.desc.DB), t.desc.DB)
		}
	}
	rows, err := k.Get(ctx, keys, kv.LockExclusive)
	if err != nil {
		return err
	}
	for i, r := range rows {
		switch {
		case i < absent && r.Value != nil && p.o.Replaces != 0:
			if err := p.discard(k, r.Value); err != nil {
				return err
			}
		case i < absent && r.Value != nil:
			return schema.Invalid(what[i] + " was made by somebody else during the restore, which is called off")
		case i >= absent && r.Value == nil:
			return sql.ErrDatabaseNotFound.New(what[i])
		}
	}
	return nil
}

// virtual makes what computes the virtual columns of rows that indexes have; nil if none has.
func (g *Env) virtual(ctx *sql.Context, t *schema.Table) (func(sql.Row) error, error) {
	if !computed.Indexed(t) {
		return nil, nil
	}
	return g.Computed(ctx, t)
}

// Computed makes what computes the virtual columns of rows.
func (g *Env) Computed(ctx *sql.Context, t *schema.Table) (func(sql.Row) error, error) {
	return computed.Of(ctx, t, g.Resolve)
}
