package backup

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// FLASHBACK TABLE and UNDROP TABLE are restores whose backup is the cluster itself, as it was: old
// versions of rows, as far as they are kept.

var errReplaced = schema.Invalid("the table was altered or dropped meanwhile, or is being rewritten: run FLASHBACK again")

// startFlashback runs FLASHBACK TABLE and UNDROP TABLE.
func (g *Env) startFlashback(ctx *sql.Context, s *session.Session, st *Statement) ([]sql.Row, error) {
	if len(st.tables) != 1 {
		return nil, schema.Invalid(st.Name() + " is of one table")
	}
	o := st.order()
	o.Verb, o.AnyDefiner = verbFlashback, g.Rights(ctx).Dynamic(rights.SetUserID)
	var err error
	if st.verb == verbUndrop {
		o.Moment, err = g.beforeDrop(ctx, o.Tables[0])
	} else if _, o.Moment, err = g.SnapshotAsOf(ctx, st.asOf); err == nil && o.As == nil {
		err = g.replace(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	h, err := hold.Take(ctx, g.DB, o.Moment, st.Name())
	if err != nil {
		return nil, err
	}
	defer g.release(ctx, h)
	p, err := g.flashPlan(ctx, o, ctx.Client().User)
	if err != nil {
		return nil, err
	}
	if err := p.vacant(ctx); err != nil {
		return nil, err
	}
	return g.submit(ctx, s, st, o, nil)
}

// replace notes the table that takes the order's name at present, if there is one.
func (g *Env) replace(ctx context.Context, o *order) error {
	snap, err := g.Catalog.Fresh(ctx)
	if err != nil {
		return err
	}
	if t := snap.Table(o.Tables[0].DB, o.Tables[0].Table); t != nil {
		o.Replaces = t.Desc.ID
		if t.Desc.Locality.Kind == schema.MultiMaster {
			return noMultiMaster([]string{o.Tables[0].String()})
		}
		if t.Begun() {
			return errParted(o)
		}
	}
	return nil
}

func errParted(o *order) error {
	return schema.Invalid("table " + o.Tables[0].String() + " has PLACEMENT BY, or is spread over a placement in which not " +
		"all regions vote: read it AS OF a time instead, with INSERT ... SELECT")
}

// beforeDrop is the last moment at which there was a table.
func (g *Env) beforeDrop(ctx context.Context, n name) (base.Timestamp, error) {
	key := schema.TableKey(n.DB, n.Table)
	now := g.DB.Clock()
	res, err := g.DB.Changes(ctx, kv.ChangesRequest{Spans: []base.Span{{Start: key, End: key.Next()}}, Since: now.Prev(), UpTo: now, Whole: true})
	switch {
	case err != nil:
		return 0, err
	case len(res.Rows) == 0:
		return 0, sql.ErrTableNotFound.New(n.Table)
	case res.Rows[0].Value != nil:
		return 0, schema.Invalid("table " + n.String() + " exists: FLASHBACK TABLE shows what it was")
	}
	return res.Rows[0].TS.Prev(), nil
}

// flashPlan plans what is made of a table as it was.
func (g *Env) flashPlan(ctx context.Context, o *order, user string) (*plan, error) {
	snap, err := schema.LoadSnapshot(ctx, g.DB, nil, o.Moment)
	if err != nil {
		return nil, err
	}
	topo := g.DB.Topology()
	t := &taking{work: &work{g: g, o: o}, m: &archive.Manifest{ID: "versions", Target: o.target(), Timestamp: o.Moment,
		Cluster: topo.ClusterID, Regions: map[base.RegionID]string{}}}
	for _, r := range topo.Regions {
		t.m.Regions[r.ID] = r.Name
	}
	tables, err := t.choose(snap)
	if err != nil {
		return nil, err
	}
	if len(tables) != 1 {
		return nil, schema.Invalid("table " + o.Tables[0].String() + " has a full-text index: restore it from a backup")
	}
	if tables[0].Begun() {
		return nil, errParted(o)
	}
	if err := t.state(ctx, tables); err != nil {
		return nil, err
	}
	m := &t.m.Tables[0]
	m.Alone, m.Rows = true, int64(g.Stats.Rows(tables[0]))
	for _, s := range tables[0].Shards() {
		m.Streams = append(m.Streams, archive.Stream{Shard: s})
	}
	p, err := g.plan(o, []*source{{chain: []*volume{{Manifest: t.m, live: true}}}}, user)
	if err != nil {
		return nil, err
	}
	now, err := g.Catalog.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	p.objects = slices.DeleteFunc(p.objects, func(x object) bool { // triggers that outlived their table
		db := now.Database(x.DB)
		return db != nil && db.Objects[x.kind][strings.ToLower(x.Name)] != nil
	})
	return p, nil
}

// flashback does the flashback of a job.
func (w *work) flashback(ctx context.Context) outcome {
	h, err := hold.Take(ctx, w.g.DB, w.o.Moment, "FLASHBACK "+w.o.target())
	if err != nil {
		return outcome{err: err}
	}
	defer w.g.keep(ctx, h)()
	p, err := w.g.flashPlan(ctx, w.o, w.user)
	if err != nil {
		return outcome{err: err}
	}
	ts, err := w.carryOut(ctx, p)
	if err != nil {
		return outcome{err: err}
	}
	done, _ := w.job.Progress()
	return outcome{ts: ts, rows: []sql.Row{{moment(w.o.Moment), int64(len(p.tables)), done, strings.Join(p.notes, "; ")}}}
}

// scan reads the rows of a stream behind a key as they were, and hands them to batches.
func (f *filling) scan(ctx context.Context, behind []byte) error {
	p := base.IndexPrefix(f.shard, f.t.was.ID, 0, 0)
	span := base.Span{Start: p, End: p.PrefixEnd()}
	if behind != nil {
		span.Start = append(p.Clone(), behind...).Next()
	}
	dec := archive.Nothing("rows of table " + f.t.was.DB + "." + f.t.was.Name)
	for span.Start != nil {
		rows, next, err := f.p.g.page(ctx, f.p.o.Moment, span)
		if err != nil {
			return err
		}
		for i := range rows {
			r := &rows[i]
			err := f.row(ctx, dec, recordOf(r))
			if err != nil {
				return err
			}
		}
		if n := len(rows); n > 0 && f.rows-f.noted >= noteEvery {
			if err := f.note(ctx, rows[n-1].Key[base.IndexPrefixLen:]); err != nil {
				return err
			}
		}
		span.Start = next
	}
	return f.flushAll(ctx)
}

// replaces reports whether a table is the one whose place is taken, and nothing else is being done
// to it.
func (p *plan) replaces(t *schema.Table) bool {
	return t != nil && t.Desc.ID == p.o.Replaces && t.Desc.Next == nil
}

// discard has the rows of the replaced table removed, in the transaction that replaces its
// definition, which value is.
func (p *plan) discard(k kv.Txn, value []byte) error {
	d := new(schema.TableDesc)
	if err := json.Unmarshal(value, d); err != nil {
		return base.Errorf(base.CodeCorrupt, "the definition of a table cannot be read: %v", err)
	}
	t, err := schema.NewTable(d)
	if err != nil {
		return err
	}
	if !p.replaces(t) {
		return errReplaced
	}
	p.g.Discard(k, t)
	return nil
}
