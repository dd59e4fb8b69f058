package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/parallel"
	"github.com/godwitdb/godwit/sql/backup/residence"
	"github.com/godwitdb/godwit/sql/backup/sanity"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// The log of changes: every few seconds a segment with all versions that were committed since the
// one before. Together with a backup it leads to any moment.

const (
	// logEvery is how often a segment is written: what is lost with all regions is little more.
	logEvery = 4 * time.Second
	// mostBehind is how far the log may fall behind, because its place does not answer, before it
	// begins anew. The cluster keeps old versions for that long.
	mostBehind = time.Hour
)

// logMark is the folder of the mark of a log's job.
const logMark = "log-job-"

// startLog runs BACKUP LOG: it makes the job, and does not wait for it.
func (g *Env) startLog(ctx *sql.Context, s *session.Session, st *Statement, l *library) ([]sql.Row, error) {
	o := st.order()
	if err := g.settle(o); err != nil {
		return nil, err
	}
	all, err := job.List(ctx, g.DB)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		was := new(order)
		if r.State == job.Running && r.Kind == string(verbLog) && json.Unmarshal(r.Spec, was) == nil && was.Place == o.Place && was.Part == nil {
			return nil, schema.Invalid(fmt.Sprintf("job %d writes a log of changes to that place already", r.ID))
		}
	}
	if _, err := l.keys.New(); err != nil {
		return nil, err
	}
	o.Moment = g.DB.Clock() + 999
	o.Moment -= o.Moment % 1000
	o.Backup = logMark + archive.NewID(o.Moment)
	snap, err := schema.LoadSnapshot(ctx, g.DB, nil, o.Moment)
	if err != nil {
		return nil, err
	}
	c, err := chosen(o, snap)
	if err != nil {
		return nil, err
	}
	if c.by, err = g.sorting(o); err != nil {
		return nil, err
	}
	if _, multi := c.tables(); len(multi) > 0 && !o.SkipMultiMaster {
		return nil, noMultiMaster(multi)
	}
	if err := l.mark(ctx, o); err != nil {
		return nil, err
	}
	st.detached = true
	return g.submit(ctx, s, st, o, l.keys)
}

// logging is a log that is being written.
type logging struct {
	*work
	key  *archive.Key
	from base.Timestamp // all before is in segments
	last map[base.TableID]*schema.Table
	held time.Time          // when the hold was renewed
	by   *residence.Sorting // nil: all rows go to one place
}

// logTo is the checkpoint of a log.
type logTo struct {
	From base.Timestamp `json:"from"`
}

// log writes segments until the job ends.
func (w *work) log(ctx context.Context) (end outcome) {
	l := &logging{work: w, key: w.l.keys.Any(), from: w.o.Moment}
	var at logTo
	if ok, err := w.lease.Restore(&at); err != nil {
		return outcome{err: err}
	} else if ok {
		l.from = at.From
	}
	err := error(nil)
	if l.by, err = w.g.sorting(w.o); err == nil {
		err = l.run(ctx)
	}
	if c := context.Cause(ctx); !errors.Is(c, job.ErrLost) && !errors.Is(c, errClosing) {
		off, cancel := afterwards(ctx)
		defer cancel()
		_ = w.l.place.Remove(off, w.o.Backup+"/"+markName)
	}
	return outcome{err: err}
}

// run ends with the context, or if the hold cannot be taken. Failures of segments are tried again.
func (l *logging) run(ctx context.Context) error {
	h, err := hold.Take(ctx, l.g.DB, l.from, "BACKUP LOG "+l.o.target())
	if err != nil {
		return err
	}
	defer l.g.release(ctx, h)
	kids, err := l.dispatch(ctx)
	if err == nil {
		err = kids.await(ctx, false)
	}
	if err != nil {
		return err
	}
	l.held = time.Now()
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	soon := make(chan struct{}, 1)
	if l.lease.Term() > 1 { // the log is behind already
		soon <- struct{}{}
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case <-soon:
		}
		if kids != nil && time.Since(kids.last) > hold.Every {
			kids.last = time.Now()
			if _, _, err := kids.look(ctx); base.CodeOf(err) == base.CodeInvalid {
				return err // the log would have a gap
			}
		}
		err := l.segment(ctx)
		if err != nil && ctx.Err() == nil {
			l.g.Log.Warn("a log of changes falls behind", "job", l.lease.ID(), "since", l.from.Time(), "err", err)
			if base.CodeOf(err) == base.CodeTooOld || l.g.DB.Time().Sub(l.from) > mostBehind {
				l.restart()
			}
		}
		h.Advance(l.from)
		if time.Since(l.held) < hold.Every && err == nil {
			continue
		}
		if err := h.Renew(kv.WithPatience(ctx, kv.NewPatience())); err == nil {
			l.held = time.Now()
		} else if ctx.Err() == nil {
			l.g.Log.Warn("the snapshot of a log of changes could not be held for longer yet", "err", err)
		}
	}
}

// restart begins the log anew: what lies between is in no segment, so that moments in it, and
// behind it up to the next backup, cannot be restored.
func (l *logging) restart() {
	now := l.g.DB.Clock() + 999
	now -= now % 1000
	l.g.Log.Error("a log of changes has a gap: take a backup", "job", l.lease.ID(), "from", l.from.Time(), "to", now.Time())
	l.from, l.last = now, nil
}

// segment writes what was committed since the last one.
func (l *logging) segment(ctx context.Context) error {
	to := l.g.DB.Clock() + 999
	to -= to % 1000
	if l.last == nil {
		snap, err := schema.LoadSnapshot(ctx, l.g.DB, nil, l.from)
		if err != nil {
			return err
		}
		c := lenient(l.o, snap)
		c.by = l.by
		tables, _ := c.tables()
		l.last = byID(tables)
	}
	topo := l.g.DB.Topology()
	s := &segmentOf{l: l, folder: archive.LogFolder(to), m: &archive.Segment{ID: archive.NewID(to), Target: l.o.target(),
		Whole: l.o.whole(), Cluster: topo.ClusterID, From: l.from, To: to, Regions: map[base.RegionID]string{}}}
	for _, r := range topo.Regions {
		s.m.Regions[r.ID] = r.Name
	}
	now, err := s.states(ctx)
	if l.o.Part != nil {
		s.m.Region, s.m.States, s.m.Defs, s.m.Skipped = l.o.Part.Region, nil, nil, nil
	} else if err == nil {
		s.m.Places = slices.Sorted(maps.Keys(l.o.Places))
		err = s.counters(ctx)
	}
	if err == nil {
		err = s.versions(ctx)
	}
	if err != nil {
		return err
	}
	b, err := s.m.Encode(s.folder, l.key)
	if err != nil {
		return err
	}
	if err := s.write(ctx, s.m.ID+archive.SegmentSuffix, b); err != nil {
		return err
	}
	l.from, l.last = to, now
	return l.lease.Checkpoint(logTo{to})
}

func byID(tables []*schema.Table) map[base.TableID]*schema.Table {
	out := map[base.TableID]*schema.Table{}
	for _, t := range tables {
		out[t.Desc.ID] = t
	}
	return out
}

// segmentOf is a segment that is being written.
type segmentOf struct {
	l      *logging
	folder string
	m      *archive.Segment
	defs   map[string]int
	// old are the tables of the segment before, or of its states that were there then; fresh the
	// others, whose rows may be older than the segment.
	old, fresh map[base.TableID]*schema.Table
	mu         sync.Mutex // of m.Pieces
}

func (s *segmentOf) write(ctx context.Context, name string, b []byte) error {
	if err := s.l.g.Pace.Wait(ctx, len(b)); err != nil {
		return err
	}
	if err := s.l.l.place.Write(ctx, s.folder+"/"+name, b); err != nil {
		return fmt.Errorf("backup file %s/%s: %w", s.folder, name, err)
	}
	return nil
}

// lenient is what an order names, as far as it is there.
func lenient(o *order, snap *schema.Snapshot) *choice {
	there := *o
	there.Databases = slices.DeleteFunc(slices.Clone(o.Databases), func(d string) bool { return snap.Database(d) == nil })
	there.Tables = slices.DeleteFunc(slices.Clone(o.Tables), func(n name) bool { return snap.Table(n.DB, n.Table) == nil })
	c := &choice{snap: snap, whole: map[string]bool{}, parts: map[string]map[string]bool{}}
	if !o.whole() && there.whole() {
		return c
	}
	if all, err := chosen(&there, snap); err == nil {
		return all
	}
	return c
}

// states notes what was defined from each moment on at which that changed. It returns the tables
// at the end.
func (s *segmentOf) states(ctx context.Context) (now map[base.TableID]*schema.Table, err error) {
	s.old, s.fresh, now = maps.Clone(s.l.last), map[base.TableID]*schema.Table{}, s.l.last
	spans := []base.Span{base.CatalogSpan}
	if s.m.Whole {
		spans = append(spans, base.Span{Start: schema.UsersKey, End: base.Key(schema.UsersKey).Next()})
	}
	moments := map[base.Timestamp]bool{}
	err = s.changes(ctx, spans, false, func(r *kv.Row) error { moments[r.TS] = true; return nil })
	if err != nil {
		return nil, err
	}
	s.defs = map[string]int{}
	for _, at := range slices.Sorted(maps.Keys(moments)) {
		snap, err := schema.LoadSnapshot(ctx, s.l.g.DB, nil, at)
		if err != nil {
			return nil, err
		}
		c := lenient(s.l.o, snap)
		c.by = s.l.by
		tables, multi := c.tables()
		s.m.Skipped, now = multi, byID(tables)
		x := archive.State{At: at}
		for _, d := range c.databases() {
			x.Databases = append(x.Databases, s.def(d))
		}
		for _, t := range tables {
			x.Tables = append(x.Tables, s.def(schema.Marshal(sanity.Stored(t.Desc))))
			if s.l.last[t.Desc.ID] == nil {
				s.fresh[t.Desc.ID] = t
				if s.l.by != nil && s.m.Fresh[t.Desc.ID] == 0 {
					if s.m.Fresh == nil {
						s.m.Fresh = map[base.TableID]base.Timestamp{}
					}
					s.m.Fresh[t.Desc.ID] = at
				}
			}
		}
		for _, o := range c.objects() {
			x.Objects = append(x.Objects, archive.StateObject{Kind: o.Kind, Def: s.def(o.Desc)})
		}
		if s.m.Whole {
			err = s.l.g.at(ctx, at, func(ctx context.Context, k kv.Txn) error {
				rows, err := k.Get(ctx, []base.Key{schema.UsersKey}, kv.LockNone)
				if err == nil {
					x.Users = rows[0].Value
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		s.m.States = append(s.m.States, x)
	}
	return now, nil
}

// def is the position of a definition, which is kept once.
func (s *segmentOf) def(d json.RawMessage) int {
	i, ok := s.defs[string(d)]
	if !ok {
		i = len(s.m.Defs)
		s.defs[string(d)], s.m.Defs = i, append(s.m.Defs, d)
	}
	return i
}

// changes calls fn for all versions of the segment, within spans of one shard.
func (s *segmentOf) changes(ctx context.Context, spans []base.Span, whole bool, fn func(*kv.Row) error) error {
	for len(spans) > 0 {
		res, err := s.l.g.DB.Changes(ctx, kv.ChangesRequest{Spans: spans, Since: s.m.From, UpTo: s.m.To, Whole: whole, MaxBytes: pageBytes})
		if err != nil {
			return err
		}
		for i := range res.Rows {
			if err := fn(&res.Rows[i]); err != nil {
				return err
			}
		}
		spans = res.Next
	}
	return nil
}

// counters notes those of AUTO_INCREMENT that have changed.
func (s *segmentOf) counters(ctx context.Context) error {
	p := base.IndexPrefix(base.MetaShard, schema.TabCounter, 0, 0)
	return s.changes(ctx, []base.Span{{Start: p, End: p.PrefixEnd()}}, false, func(r *kv.Row) error {
		id, rest, err := base.TakeUint64(r.Key[len(p):])
		if err != nil || len(rest) > 0 || r.Value == nil {
			return nil // that of a table that was dropped
		}
		n, err := table.CounterValue(r.Value)
		if err != nil {
			return err
		}
		if s.m.Counters == nil {
			s.m.Counters = map[uint64]uint64{}
		}
		s.m.Counters[id] = max(s.m.Counters[id], n)
		return nil
	})
}

// versions writes the pieces, of several shards side by side.
func (s *segmentOf) versions(ctx context.Context) error {
	type shard struct {
		id         base.ShardID
		old, fresh []base.Span
	}
	shards := map[base.ShardID]*shard{}
	add := func(tables map[base.TableID]*schema.Table, fresh bool) {
		for _, id := range slices.Sorted(maps.Keys(tables)) {
			for _, sh := range s.l.by.Shards(tables[id]) {
				x := shards[sh]
				if x == nil {
					x = &shard{id: sh}
					shards[sh] = x
				}
				p := tables[id].Prefix(sh, 0, 0)
				span := base.Span{Start: p, End: p.PrefixEnd()}
				if fresh {
					x.fresh = append(x.fresh, span)
				} else {
					x.old = append(x.old, span)
				}
			}
		}
	}
	add(s.old, false)
	add(s.fresh, true)
	todo := slices.Sorted(maps.Keys(shards))
	return parallel.Each(ctx, len(todo), readAtOnce, func(ctx context.Context, i int) error {
		x := shards[todo[i]]
		p := &logPiece{s: s, shard: x.id, e: archive.Encoder{Kind: archive.LogPiece}}
		if err := s.changes(ctx, x.old, false, func(r *kv.Row) error { return p.add(ctx, r) }); err != nil {
			return err
		}
		if err := p.flush(ctx); err != nil { // the order of keys begins anew
			return err
		}
		if err := s.changes(ctx, x.fresh, true, func(r *kv.Row) error { return p.add(ctx, r) }); err != nil {
			return err
		}
		return p.flush(ctx)
	})
}

// logPiece gathers versions of one shard.
type logPiece struct {
	s     *segmentOf
	shard base.ShardID
	e     archive.Encoder
	last  base.Key
	n     int
}

// add adds a version. All of one key are in one piece.
func (p *logPiece) add(ctx context.Context, r *kv.Row) error {
	if p.e.Size() >= pieceSize && r.Key.Compare(p.last) != 0 {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	id := r.Key.Table()
	of := cmp.Or(p.s.old[id], p.s.fresh[id])
	if p.last = r.Key; !p.s.l.by.MineIs(of, p.shard, r.Home) {
		return nil
	}
	p.e.Add(&archive.Record{PK: archive.LogKey(p.shard, r.Key.Table(), r.Key[base.IndexPrefixLen:], r.TS), TS: r.TS, Home: r.Home,
		Pinned: r.Label.Pinned(), Deleted: r.Value == nil, Value: r.Value})
	p.s.l.job.Did(1)
	return nil
}

func (p *logPiece) flush(ctx context.Context) error {
	if p.e.Size() == 0 {
		return nil
	}
	name := fmt.Sprintf("%s-s%d-%d%s", p.s.m.ID, p.shard, p.n, archive.LogPiece.Suffix())
	p.n++
	b, f, err := p.e.Finish(p.s.folder, name, p.s.l.key)
	if err != nil {
		return err
	}
	if err := p.s.write(ctx, name, b); err != nil {
		return err
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.m.Pieces = append(p.s.m.Pieces, f)
	return nil
}
