package sqlfront

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Keys of the meta shard that belong to this package. All catalog objects are
// in one table so that one [kv.DB.MetaVersion] tells whether any has changed; what
// changes often is elsewhere.
//
//	table                index       columns                 value
//	tabCatalog           ixDatabase  lower(db)               dbDesc
//	tabCatalog           ixTable     lower(db), lower(name)  tableDesc
//	tabCatalog           ixView ...  lower(db), lower(name)  objectDesc
//	tabCatalog           ixGarbage   table id, index id      garbageDesc
//	tabCounter           0           "table id" or table id  counterDesc
//	tabPrivileges        0           "users"                 blob of mysql_db
//	tabSettings          0           name                    text of the value
var (
	tabCatalog    = base.MakeTableID(2, 0)
	tabCounter    = base.MakeTableID(3, 0)
	tabPrivileges = base.MakeTableID(4, 0)
	tabSettings   = base.MakeTableID(5, 0)
)

const (
	ixDatabase base.IndexID = iota
	ixTable
	ixView
	ixTrigger
	ixProcedure
	ixEvent
	ixGarbage
	ixEnd
)

// firstTableSeq is the sequence number of the first user table; ids below 100 are the system's.
const firstTableSeq = 100

func catalogKey(ix base.IndexID, names ...string) base.Key {
	k := base.IndexPrefix(base.MetaShard, tabCatalog, ix, 0)
	for _, n := range names {
		k = base.AppendBytes(k, []byte(strings.ToLower(n)))
	}
	return k
}

func tableKey(db, name string) base.Key { return catalogKey(ixTable, db, name) }

func catalogSpan() base.Span {
	return base.Span{
		Start: base.IndexPrefix(base.MetaShard, tabCatalog, 0, 0),
		End:   base.IndexPrefix(base.MetaShard, tabCatalog+1, 0, 0),
	}
}

func indexSpan(ix base.IndexID) base.Span {
	p := base.IndexPrefix(base.MetaShard, tabCatalog, ix, 0)
	return base.Span{Start: p, End: p.PrefixEnd()}
}

// objectDesc is a view, trigger, procedure or event.
type objectDesc struct {
	V         int                         `json:"v"`
	DB        string                      `json:"db"`
	Name      string                      `json:"name"`
	Seq       uint64                      `json:"seq"` // order of creation
	View      *sql.ViewDefinition         `json:"view,omitempty"`
	Trigger   *sql.TriggerDefinition      `json:"trigger,omitempty"`
	Procedure *sql.StoredProcedureDetails `json:"procedure,omitempty"`
	Event     *sql.EventDefinition        `json:"event,omitempty"`
}

// database is one database of a snapshot.
type database struct {
	desc   *dbDesc
	tables map[string]*table // by lower name
	// objects by kind and lower name
	objects map[base.IndexID]map[string]*objectDesc
	// referencedBy are the foreign keys that point to a table of this database, by its lower name.
	referencedBy map[string][]sql.ForeignKeyConstraint
}

func (d *database) clone() *database {
	c := *d
	c.tables = maps.Clone(d.tables)
	c.objects = map[base.IndexID]map[string]*objectDesc{}
	for k, m := range d.objects {
		c.objects[k] = maps.Clone(m)
	}
	c.referencedBy = maps.Clone(d.referencedBy)
	return &c
}

// snapshot is the catalog at one time; immutable.
type snapshot struct {
	changed base.Timestamp // newest change in it
	at      base.Timestamp // it was complete up to here when loaded
	dbs     map[string]*database
	byID    map[base.TableID]*table
}

func (s *snapshot) db(name string) *database { return s.dbs[strings.ToLower(name)] }

func (s *snapshot) table(db, name string) *table {
	if d := s.db(db); d != nil {
		return d.tables[strings.ToLower(name)]
	}
	return nil
}

// catalog caches the newest snapshot of one gateway.
type catalog struct {
	db kv.DB
	// loading is held by the one who loads: a channel, so that those who wait can give up with their client.
	loading chan struct{}
	snap    atomic.Pointer[snapshot]
}

func newCatalog(db kv.DB) *catalog { return &catalog{db: db, loading: make(chan struct{}, 1)} }

// lock waits for the right to load; unlock gives it back.
func (c *catalog) lock(ctx context.Context) error {
	select {
	case c.loading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return clientError(base.Errorf(base.CodeCanceled, "the statement was ended while it waited for the catalog: %v", ctx.Err()))
	}
}

func (c *catalog) unlock() { <-c.loading }

// current is the newest snapshot that the local meta replica has.
func (c *catalog) current(ctx context.Context) (*snapshot, error) {
	if s := c.snap.Load(); s != nil {
		if changed, complete := c.db.MetaVersion(catalogSpan()); changed <= s.changed {
			return c.confirm(s, complete), nil
		}
	}
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	old := c.snap.Load()
	changed, complete := c.db.MetaVersion(catalogSpan())
	if old != nil && changed <= old.changed {
		return c.confirm(old, complete), nil
	}
	return c.load(ctx, old, complete)
}

// confirmEvery is how old the word may be up to when a snapshot is known to hold.
const confirmEvery = 500 * time.Millisecond

// confirm notes that nothing has changed up to a timestamp. What holds a definition (kv.Txn.Pin) from long ago
// cannot be checked any more once old versions have been collected.
func (c *catalog) confirm(s *snapshot, complete base.Timestamp) *snapshot {
	if complete < s.at.Add(confirmEvery) {
		return s
	}
	n := *s
	n.at = complete
	if !c.snap.CompareAndSwap(s, &n) {
		return c.snap.Load() // as new as ours, or newer
	}
	return &n
}

// fresh is a snapshot that has every change acknowledged anywhere before the call.
func (c *catalog) fresh(ctx context.Context) (*snapshot, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	old := c.snap.Load()
	s, err := loadSnapshot(ctx, c.db, old, 0)
	if err == nil && (old == nil || s.at > old.at) {
		c.snap.Store(s)
	}
	return s, err
}

func (c *catalog) load(ctx context.Context, old *snapshot, at base.Timestamp) (*snapshot, error) {
	s, err := loadSnapshot(ctx, c.db, old, at)
	if err == nil {
		c.snap.Store(s)
	}
	return s, err
}

// loadSnapshot reads the catalog at a timestamp (0: now); objects of old that did not change are reused.
func loadSnapshot(ctx context.Context, db kv.DB, old *snapshot, at base.Timestamp) (*snapshot, error) {
	t := db.Begin(kv.Options{ReadOnly: true, ReadTS: at})
	defer t.Rollback(ctx)
	b := &snapshotBuilder{old: old, snap: &snapshot{dbs: map[string]*database{}, byID: map[base.TableID]*table{}}}
	for ix := base.IndexID(0); ix < ixEnd; ix++ {
		req := &kv.ScanRequest{Spans: []base.Span{indexSpan(ix)}}
		for req != nil {
			res, err := t.Scan(ctx, *req)
			if err != nil {
				return nil, err
			}
			for _, r := range res.Rows {
				if err := b.add(ix, r); err != nil {
					return nil, err
				}
			}
			req = res.Next
		}
	}
	b.snap.at = t.ReadTimestamp()
	if changed, complete := db.MetaVersion(catalogSpan()); complete <= b.snap.at || changed <= b.snap.at {
		// Deletions count as changes too, but leave no row to see.
		b.snap.changed = max(b.snap.changed, min(changed, b.snap.at))
	}
	b.link()
	return b.snap, nil
}

type snapshotBuilder struct {
	old  *snapshot
	snap *snapshot
}

func (b *snapshotBuilder) add(ix base.IndexID, r kv.Row) error {
	b.snap.changed = max(b.snap.changed, r.TS)
	switch ix {
	case ixDatabase:
		d, err := unmarshal(r.Value, func(d *dbDesc) int { return d.V })
		if err != nil {
			return err
		}
		b.snap.dbs[strings.ToLower(d.Name)] = newDatabase(d)
	case ixTable:
		d, err := unmarshal(r.Value, func(d *tableDesc) int { return d.V })
		if err != nil {
			return err
		}
		if b.old != nil {
			if t := b.old.table(d.DB, d.Name); t != nil && t.ts == r.TS && t.ts != 0 {
				b.putTable(t)
				return nil
			}
		}
		t, err := newTable(d)
		if err != nil {
			return base.Errorf(base.CodeCorrupt, "table %s.%s: %v", d.DB, d.Name, err)
		}
		t.ts = r.TS
		if t.next != nil {
			t.next.ts = r.TS
		}
		b.putTable(t)
	case ixGarbage:
	default:
		o, err := unmarshal(r.Value, func(o *objectDesc) int { return o.V })
		if err != nil {
			return err
		}
		if db := b.snap.db(o.DB); db != nil {
			db.objects[ix][strings.ToLower(o.Name)] = o
		}
	}
	return nil
}

func newDatabase(d *dbDesc) *database {
	db := &database{desc: d, tables: map[string]*table{}, objects: map[base.IndexID]map[string]*objectDesc{}}
	for ix := ixView; ix <= ixEvent; ix++ {
		db.objects[ix] = map[string]*objectDesc{}
	}
	return db
}

func (b *snapshotBuilder) putTable(t *table) {
	if db := b.snap.db(t.desc.DB); db != nil {
		db.tables[strings.ToLower(t.desc.Name)] = t
		b.snap.index(t)
	}
}

// index makes a table, and its successor, known by id.
func (s *snapshot) index(t *table) {
	s.byID[t.desc.ID] = t
	if t.next != nil {
		s.byID[t.next.desc.ID] = t.next
	}
}

func (b *snapshotBuilder) link() { b.snap.link() }

// link computes who references whom.
func (s *snapshot) link() {
	for _, db := range s.dbs {
		db.referencedBy = map[string][]sql.ForeignKeyConstraint{}
	}
	for _, db := range s.dbs {
		for _, name := range slices.Sorted(maps.Keys(db.tables)) {
			for _, fk := range db.tables[name].desc.FKs {
				if parent := s.db(fk.ParentDatabase); parent != nil {
					p := strings.ToLower(fk.ParentTable)
					parent.referencedBy[p] = append(parent.referencedBy[p], fk)
				}
			}
		}
	}
}

// with returns a copy of the snapshot with changes made by fn to a cloned database.
func (s *snapshot) with(db string, fn func(*database)) *snapshot {
	c := &snapshot{changed: s.changed, at: s.at, dbs: maps.Clone(s.dbs), byID: s.byID}
	if d := c.db(db); d != nil {
		d = d.clone()
		c.dbs[strings.ToLower(db)] = d
		fn(d)
	}
	for k, d := range c.dbs {
		c.dbs[k] = d.clone()
	}
	c.byID = map[base.TableID]*table{}
	for _, d := range c.dbs {
		for _, t := range d.tables {
			c.index(t)
		}
	}
	c.link()
	return c
}

// objectsOf lists objects of a kind in the order of creation.
func (d *database) objectsOf(ix base.IndexID) []*objectDesc {
	out := slices.Collect(maps.Values(d.objects[ix]))
	slices.SortFunc(out, func(a, b *objectDesc) int {
		if a.Seq != b.Seq {
			if a.Seq < b.Seq {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// objectSeq orders objects by creation: time is enough.
func objectSeq() uint64 { return uint64(time.Now().UnixNano()) }
