package backup

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/residence"
	"github.com/godwitdb/godwit/sql/backup/sanity"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

const (
	readAtOnce = 4 // streams that are read at the same time, at most
	cleanFor   = 30 * time.Second
	// longestChain bounds how many backups build on each other: a restore reads them side by side.
	longestChain = 100
)

// taking is a backup that is being taken.
type taking struct {
	*work
	mu     sync.Mutex // of m, while streams are written
	m      *archive.Manifest
	key    *archive.Key
	parent *volume // nil: the backup stands alone
	// parts is how far others have come with streams, by their names; nil: nobody has begun.
	parts map[string]*archive.Part
	by    *residence.Sorting // nil: all rows go to one place
	// chain is the parent with what it builds on, once a list of its keys was asked for; lists is
	// held while such a list is put together of many backups.
	chain    []*volume
	chainErr error
	lists    sync.Mutex
}

// backup runs BACKUP.
func (g *Env) backup(ctx *sql.Context, s *session.Session, st *Statement, l *library) (rows []sql.Row, err error) {
	o := st.order()
	if err := g.settle(o); err != nil {
		return nil, err
	}
	if _, err = l.keys.New(); err != nil {
		return nil, err
	}
	if o.Moment, err = g.moment(ctx, st); err != nil {
		return nil, err
	}
	h, err := g.prepare(ctx, o, l, st.incremental)
	if err != nil {
		return nil, err
	}
	defer g.release(ctx, h)
	return g.submit(ctx, s, st, o, l.keys)
}

// prepare finds what a backup builds on, and makes its folder. The job takes a hold of its own;
// until then the one that prepare returns keeps what it has to read.
func (g *Env) prepare(ctx context.Context, o *order, l *library, incremental bool) (*hold.Hold, error) {
	from := o.Moment
	if incremental {
		parent, err := l.parent(ctx, g, o)
		if err != nil {
			return nil, err
		}
		if parent.key != nil { // one passphrase, one key: making another one takes a while
			l.keys = archive.KeyringOf([]archive.Secret{parent.key.Secret()})
		}
		o.Parent, from = parent.ID, min(from, parent.Timestamp)
	}
	o.Backup = archive.NewID(o.Moment)
	h, err := hold.Take(ctx, g.DB, from, "BACKUP "+o.target())
	if err != nil {
		return nil, err
	}
	if err := l.mark(ctx, o); err != nil {
		g.release(ctx, h)
		return nil, err
	}
	return h, nil
}

// mark makes the folder of a backup.
func (l *library) mark(ctx context.Context, o *order) error {
	file := o.Backup + "/" + markName
	if err := l.place.Write(ctx, file, []byte("a backup begins here; it is complete once there is a manifest\n")); err != nil {
		return fmt.Errorf("backup file %s: %w", file, err)
	}
	return nil
}

// backup takes the backup of a job.
func (w *work) backup(ctx context.Context) (end outcome) {
	t := &taking{work: w, key: w.l.keys.Any()}
	v, err := w.l.volume(ctx, w.o.Backup)
	switch {
	case err != nil:
		return outcome{err: err}
	case v != nil: // the node before has not come to say so
		t.m = v.Manifest
		if w.o.Part != nil {
			if err := w.again(ctx, t); err != nil {
				return outcome{err: err}
			}
		}
	default:
		if err := t.run(ctx); err != nil {
			if c := context.Cause(ctx); !errors.Is(c, job.ErrLost) && !errors.Is(c, errClosing) {
				t.remove(ctx)
			}
			return outcome{err: err}
		}
	}
	t.tidy(ctx)
	if w.o.Keep > 0 && w.o.Part == nil {
		if err := w.retain(ctx); err != nil {
			return outcome{err: fmt.Errorf("the backup is complete, but older ones could not be removed: %w", err)}
		}
	}
	files := 0
	t.m.Files(func(archive.File) { files++ })
	for _, p := range t.m.Places {
		files += int(p.Files)
	}
	return outcome{ts: w.o.Moment, rows: []sql.Row{{t.m.ID, moment(w.o.Moment), int64(len(t.m.Tables)), t.m.Rows(),
		int64(files), t.m.Bytes(), strings.Join(t.m.Skipped, ", ")}}}
}

// run reads the snapshot under a hold, and writes all files.
func (t *taking) run(ctx context.Context) error {
	from, err := t.o.Moment, error(nil)
	if t.o.Parent != "" {
		if t.parent, err = t.l.volume(ctx, t.o.Parent); err != nil {
			return err
		}
		if t.parent == nil {
			return &archive.FileError{File: t.o.Parent + "/" + archive.ManifestName, Why: "it has gone while a backup was taken that builds on it"}
		}
		from = min(from, t.parent.Timestamp)
	}
	h, err := hold.Take(ctx, t.g.DB, from, "BACKUP "+t.o.target())
	if err != nil {
		return err
	}
	defer t.g.keep(ctx, h)()
	if t.lease.Term() > 1 {
		if err := t.readParts(ctx); err != nil {
			return err
		}
	}
	return t.take(ctx)
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
	stop := job.Regularly(ctx, hold.Every, func(ctx context.Context) bool {
		if err := h.Renew(kv.WithPatience(ctx, kv.NewPatience())); err != nil && ctx.Err() == nil {
			g.Log.Warn("the snapshot of a backup could not be held for longer yet", "err", err)
		}
		return true
	})
	return func() {
		stop()
		g.release(ctx, h)
	}
}

func (g *Env) release(ctx context.Context, h *hold.Hold) {
	ctx, done := afterwards(ctx)
	defer done()
	if err := h.Release(kv.WithPatience(ctx, kv.NewPatience())); err != nil {
		g.Log.Warn("the snapshot of a backup is kept until its hold ends", "in", hold.Lasts, "err", err)
	}
}

// parent is the backup that an incremental one builds on.
func (l *library) parent(ctx context.Context, g *Env, o *order) (*volume, error) {
	v, _, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case v == nil:
		return nil, schema.Invalid("there is no complete backup in that place to build on: leave out INCREMENTAL for the first one")
	case v.Target != o.target():
		return nil, schema.Invalid("the newest backup in that place is of " + v.Target + ", this one would be of " + o.target() +
			": keep them in places of their own")
	case !v.samePlaces(o):
		return nil, schema.Invalid("the newest backup in that place has other places of regions: an incremental one has the same, so " +
			"take a full one first")
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
func (t *taking) take(ctx context.Context) error {
	if t.parent != nil && t.o.Moment <= t.parent.Timestamp {
		return schema.Invalid("the newest backup there is of " + moment(t.parent.Timestamp) + ", which is not before " +
			moment(t.o.Moment) + ": an incremental backup is of a later moment")
	}
	snap, err := schema.LoadSnapshot(ctx, t.g.DB, nil, t.o.Moment)
	if err != nil {
		return err
	}
	if t.by, err = t.g.sorting(t.o); err != nil {
		return err
	}
	kids, err := t.dispatch(ctx)
	if err != nil {
		return err
	}
	topo := t.g.DB.Topology()
	t.m = &archive.Manifest{ID: t.o.Backup, Target: t.o.target(), Timestamp: t.o.Moment, Cluster: topo.ClusterID,
		Started: t.lease.Record().Started.Time(), Regions: map[base.RegionID]string{}}
	t.m.Whole = t.o.whole()
	for _, r := range topo.Regions {
		t.m.Regions[r.ID] = r.Name
	}
	if t.parent != nil {
		t.m.Parent = t.parent.ID
	}
	tables, err := t.choose(snap)
	if err != nil {
		return err
	}
	if t.o.Part != nil { // the main place has what is not in rows
		t.m.Region, t.m.Main, t.m.Databases, t.m.Objects = t.o.Part.Region, t.o.Part.Main, nil, nil
	} else if err := t.state(ctx, tables); err != nil {
		return err
	}
	if err := t.streams(ctx, tables); err != nil {
		return err
	}
	if err := kids.await(ctx, true); err != nil {
		return err
	}
	t.m.Places = kids.places()
	total := t.m.Rows()
	if t.parent != nil { // it has read less than it has
		total, _ = t.job.Progress()
	}
	t.job.Total(total)
	if !t.o.SkipVerify {
		v := &volume{Manifest: t.m, l: t.l, key: t.key}
		if _, err := v.verify(ctx, func(err error) error { return err }); err != nil {
			return err
		}
	}
	t.m.Finished = time.Now().UTC()
	b, err := t.m.Encode(t.key)
	if err != nil {
		return err
	}
	if err := t.write(ctx, archive.ManifestName, b); err != nil || t.o.Part == nil {
		return err
	}
	return t.finish(ctx, b)
}

// again tells the result of a part that a node before has written.
func (w *work) again(ctx context.Context, t *taking) error {
	b, err := w.l.place.Read(ctx, t.m.ID+"/"+archive.ManifestName, mostManifestFile)
	if err != nil {
		return err
	}
	return t.finish(ctx, b)
}

// choose fills the manifest with the definitions of what is backed up, and returns its tables.
func (t *taking) choose(snap *schema.Snapshot) ([]*schema.Table, error) {
	c, err := chosen(t.o, snap)
	if err != nil {
		return nil, err
	}
	if c.by = t.by; !t.o.SkipMultiMaster {
		c.here = t.g.DB.Region()
	}
	tables, multi := c.tables()
	if len(multi) > 0 && !t.o.SkipMultiMaster {
		return nil, noMultiMaster(multi)
	}
	t.m.Skipped = multi
	t.m.Databases, t.m.Objects = c.databases(), c.objects()
	for _, d := range tables {
		t.m.Tables = append(t.m.Tables, archive.Table{Desc: schema.Marshal(sanity.Stored(d.Desc))})
	}
	return tables, nil
}

func noMultiMaster(tables []string) error {
	return schema.Invalid("MULTI MASTER tables have no reads of the past, and so no backup: " + strings.Join(tables, ", ") +
		". (Tables with a placement get into a backup in which a region of each of their placements has a place of its own: INTO 'place' PLACES " +
		"('region' = 'place', ...). Without PLACES a BACKUP at a node that is in all of these reads them, no schedule and no log.) Or leave them out: WITH SKIP_MULTI_MASTER")
}

// choice is what of a catalog is backed up.
type choice struct {
	// here is the region of the node that reads rows; 0: none that may read tables with a
	// placement.
	here  base.RegionID
	by    *residence.Sorting // nil: all rows go to one place
	snap  *schema.Snapshot
	whole map[string]bool            // databases, by lower name
	parts map[string]map[string]bool // tables of others
}

// chosen is what an order names. What it names must be there.
func chosen(o *order, snap *schema.Snapshot) (*choice, error) {
	c := &choice{snap: snap, whole: map[string]bool{}, parts: map[string]map[string]bool{}}
	for _, d := range o.Databases {
		if snap.Database(d) == nil {
			return nil, sql.ErrDatabaseNotFound.New(d)
		}
		c.whole[strings.ToLower(d)] = true
	}
	for _, n := range o.Tables {
		if err := c.table(n); err != nil {
			return nil, err
		}
	}
	if o.whole() {
		for d := range snap.Databases {
			c.whole[d] = true
		}
	}
	return c, nil
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
	for _, name := range append(sanity.FulltextTables(t.Desc), t.Desc.Name) {
		c.parts[db][strings.ToLower(name)] = true
	}
	return nil
}

// tables are those chosen, in the order of their names; multi are MULTI MASTER, or have a placement
// in which this node is not.
func (c *choice) tables() (out []*schema.Table, multi []string) {
	for _, name := range slices.Sorted(maps.Keys(c.snap.Databases)) {
		db := c.snap.Databases[name]
		for _, tn := range slices.Sorted(maps.Keys(db.Tables)) {
			switch t := db.Tables[tn]; {
			case !c.whole[name] && !c.parts[name][tn]:
			case t.Desc.Locality.Kind == schema.MultiMaster, slices.ContainsFunc(residence.Placements(t.Desc), c.unreadable):
				multi = append(multi, residence.Unread(t.Desc))
			default:
				out = append(out, t)
			}
		}
	}
	return out, multi
}

// unreadable reports whether rows of a placement have no place to go to.
func (c *choice) unreadable(p base.Placed) bool {
	if c.by != nil {
		return p.ID != 0 && c.by.Deputy(p) == 0
	}
	return !p.Allows(c.here)
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
