package schema

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
//	TabCatalog           IxDatabase  lower(db)               DatabaseDesc
//	TabCatalog           ixTable     lower(db), lower(name)  TableDesc
//	TabCatalog           IxView ...  lower(db), lower(name)  ObjectDesc
//	TabCatalog           IxGarbage   table id, index id      garbageDesc (package ddl)
//	TabCounter           0           "table id" or table id  8 bytes: the next value
//	TabPrivileges        0           "users"                 blob of mysql_db
//	TabSettings          0           name                    text of the value
//	tabLocks             0           lower(db), lower(name)  none: only its lock matters
var (
	TabCatalog    = base.CatalogTable
	TabCounter    = base.MakeTableID(3, 0)
	TabPrivileges = base.MakeTableID(4, 0)
	TabSettings   = base.MakeTableID(5, 0)
	tabLocks      = base.MakeTableID(11, 0)
)

// UsersKey is the key of users and grants.
var UsersKey = base.AppendBytes(base.IndexPrefix(base.MetaShard, TabPrivileges, 0, 0), []byte("users"))

// The kinds of catalog objects, each an index of the catalog.
const (
	IxDatabase base.IndexID = iota
	ixTable
	IxView
	IxTrigger
	IxProcedure
	IxEvent
	IxGarbage
	IxFunction
	ixEnd
	// IxPlacement has no rows: who makes a table in a placement locks the key of its name.
	IxPlacement
)

// objectKinds are the kinds of objects that are stored as their texts.
var objectKinds = []base.IndexID{IxView, IxTrigger, IxProcedure, IxEvent, IxFunction}

// FirstTableSeq is the sequence number of the first user table; ids below 100 are the system's.
const FirstTableSeq = 100

// LockKey is the key that LOCK TABLES locks for a table.
func LockKey(db, name string) base.Key {
	k := base.IndexPrefix(base.MetaShard, tabLocks, 0, 0)
	for _, n := range []string{db, name} {
		k = base.AppendBytes(k, []byte(strings.ToLower(n)))
	}
	return k
}

// CatalogKey is the key of a catalog object; names are compared without case.
func CatalogKey(ix base.IndexID, names ...string) base.Key {
	k := base.IndexPrefix(base.MetaShard, TabCatalog, ix, 0)
	for _, n := range names {
		k = base.AppendBytes(k, []byte(strings.ToLower(n)))
	}
	return k
}

// TableKey is the key of a table's descriptor.
func TableKey(db, name string) base.Key { return CatalogKey(ixTable, db, name) }

func catalogSpan() base.Span { return base.CatalogSpan }

// IndexSpan is where the catalog objects of one kind lie.
func IndexSpan(ix base.IndexID) base.Span {
	p := base.IndexPrefix(base.MetaShard, TabCatalog, ix, 0)
	return base.Span{Start: p, End: p.PrefixEnd()}
}

// ObjectDesc is a view, trigger, procedure, function or event.
type ObjectDesc struct {
	V         int                         `json:"v"`
	DB        string                      `json:"db"`
	Name      string                      `json:"name"`
	Seq       uint64                      `json:"seq"` // order of creation
	View      *sql.ViewDefinition         `json:"view,omitempty"`
	Trigger   *sql.TriggerDefinition      `json:"trigger,omitempty"`
	Procedure *sql.StoredProcedureDetails `json:"procedure,omitempty"`
	Event     *sql.EventDefinition        `json:"event,omitempty"`
	Function  *RoutineDesc                `json:"function,omitempty"`
	// Definer is the account with whose rights a view is read, or a program executed; nil: with
	// those of the user.
	Definer *Account `json:"definer,omitempty"`
	// Region is where an event was made.
	Region base.RegionID `json:"region,omitempty"`
}

// Format is the version of a descriptor.
func (o *ObjectDesc) Format() int {
	if o.Function != nil {
		return functionVersion
	}
	return DescVersion
}

// RoutineDesc is a stored function.
type RoutineDesc struct {
	// Text is the CREATE FUNCTION. The characteristics that count are those below, which ALTER
	// FUNCTION may have changed.
	Text string `json:"text"`
	// Access is what the function says that it does with data: CONTAINS SQL, NO SQL, READS SQL DATA
	// or MODIFIES SQL DATA.
	Access        string `json:"access"`
	Deterministic bool   `json:"deterministic,omitempty"`
	Comment       string `json:"comment,omitempty"`
	// Made is the account of the DEFINER clause, else of the user who made the function. It is also
	// known if the function is executed with the rights of its caller, and has no Definer.
	Made              Account   `json:"made"`
	Created, Modified time.Time `json:",omitzero"`
	SQLMode           string    `json:"sql_mode"`
	// Charset and Connection are character_set_client and collation_connection of that time.
	// Collation is that of the database: variables have it that name no collation.
	Charset    string `json:"charset"`
	Connection string `json:"connection"`
	Collation  string `json:"collation"`
}

// Account is what MySQL calls 'name'@'host'.
type Account struct {
	Name string `json:"name"`
	Host string `json:"host"`
}

// Database is one database of a snapshot.
type Database struct {
	Desc   *DatabaseDesc
	Tables map[string]*Table // by lower name
	// Objects by kind and lower name
	Objects map[base.IndexID]map[string]*ObjectDesc
	// ReferencedBy are the foreign keys that point to a table of this database, by its lower name.
	ReferencedBy map[string][]sql.ForeignKeyConstraint
}

// FulltextTables are the lower names of the tables that the engine makes for full-text indexes.
func (d *Database) FulltextTables() map[string]bool {
	out := map[string]bool{}
	for _, t := range d.Tables {
		for _, x := range t.Indexes {
			if f := x.Desc.Fulltext; f != nil {
				for _, n := range []string{f.Config, f.Position, f.DocCount, f.GlobalCount, f.RowCount} {
					out[strings.ToLower(n)] = true
				}
			}
		}
	}
	return out
}

func (d *Database) clone() *Database {
	c := *d
	c.Tables = maps.Clone(d.Tables)
	c.Objects = map[base.IndexID]map[string]*ObjectDesc{}
	for k, m := range d.Objects {
		c.Objects[k] = maps.Clone(m)
	}
	c.ReferencedBy = maps.Clone(d.ReferencedBy)
	return &c
}

// Snapshot is the catalog at one time; immutable.
type Snapshot struct {
	Changed   base.Timestamp // newest change in it
	At        base.Timestamp // it was complete up to here when loaded
	Databases map[string]*Database
	ByID      map[base.TableID]*Table
}

// Database is a database by name, nil if there is none.
func (s *Snapshot) Database(name string) *Database { return s.Databases[strings.ToLower(name)] }

// View is a view by name, nil if there is none.
func (s *Snapshot) View(db, name string) *ObjectDesc {
	if d := s.Database(db); d != nil {
		return d.Objects[IxView][strings.ToLower(name)]
	}
	return nil
}

// InOrder are all databases by name.
func (s *Snapshot) InOrder() (out []*Database) {
	for _, name := range slices.Sorted(maps.Keys(s.Databases)) {
		out = append(out, s.Databases[name])
	}
	return out
}

// Table is a table by name, nil if there is none.
func (s *Snapshot) Table(db, name string) *Table {
	if d := s.Database(db); d != nil {
		return d.Tables[strings.ToLower(name)]
	}
	return nil
}

// Catalog caches the newest snapshot of one gateway.
type Catalog struct {
	db kv.DB
	// loading is held while the catalog is loaded: a channel, so that statements that wait for it
	// can give up with their client.
	loading chan struct{}
	snap    atomic.Pointer[Snapshot]
}

// NewCatalog is the catalog that db stores, not read yet.
func NewCatalog(db kv.DB) *Catalog { return &Catalog{db: db, loading: make(chan struct{}, 1)} }

// lock waits for the right to load; unlock gives it back.
func (c *Catalog) lock(ctx context.Context) error {
	select {
	case c.loading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ClientError(base.Errorf(base.CodeCanceled, "the statement was ended while it waited for the catalog: %v",
			ctx.Err()))
	}
}

func (c *Catalog) unlock() { <-c.loading }

// Current is the newest snapshot that the local meta replica has.
func (c *Catalog) Current(ctx context.Context) (*Snapshot, error) {
	if s := c.snap.Load(); s != nil {
		changed, complete := c.db.MetaVersion(catalogSpan())
		if changed <= s.Changed {
			return c.confirm(s, complete), nil
		}
		if complete <= s.At {
			return s, nil // the change lies ahead of what may be read yet
		}
	}
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	old := c.snap.Load()
	changed, complete := c.db.MetaVersion(catalogSpan())
	if old != nil && changed <= old.Changed {
		return c.confirm(old, complete), nil
	}
	if old != nil && complete <= old.At {
		return old, nil
	}
	return c.load(ctx, old, complete)
}

// Loaded is the newest snapshot loaded so far; nil if there is none.
func (c *Catalog) Loaded() *Snapshot { return c.snap.Load() }

// confirmEvery is how old the word may be up to when a snapshot is known to hold.
const confirmEvery = 500 * time.Millisecond

// confirm notes that nothing has changed up to a timestamp. What holds a definition (kv.Txn.Pin)
// from long ago cannot be checked any more once old versions have been collected.
func (c *Catalog) confirm(s *Snapshot, complete base.Timestamp) *Snapshot {
	if complete < s.At.Add(confirmEvery) {
		return s
	}
	n := *s
	n.At = complete
	if !c.snap.CompareAndSwap(s, &n) {
		return c.snap.Load() // as new as ours, or newer
	}
	return &n
}

// Fresh is a snapshot that has every change acknowledged anywhere before the call.
func (c *Catalog) Fresh(ctx context.Context) (*Snapshot, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	old := c.snap.Load()
	s, err := LoadSnapshot(ctx, c.db, old, 0)
	if err == nil && (old == nil || s.At > old.At) {
		c.snap.Store(s)
	}
	return s, err
}

func (c *Catalog) load(ctx context.Context, old *Snapshot, at base.Timestamp) (*Snapshot, error) {
	s, err := LoadSnapshot(ctx, c.db, old, at)
	if err == nil {
		c.snap.Store(s)
	}
	return s, err
}

// LoadSnapshot reads the catalog at a timestamp (0: now); objects of old that did not change are
// reused.
func LoadSnapshot(ctx context.Context, db kv.DB, old *Snapshot, at base.Timestamp) (*Snapshot, error) {
	t := db.Begin(kv.Options{ReadOnly: true, ReadTS: at})
	defer t.Rollback(ctx)
	b := &snapshotBuilder{old: old, snap: &Snapshot{Databases: map[string]*Database{}, ByID: map[base.TableID]*Table{}}}
	for ix := base.IndexID(0); ix < ixEnd; ix++ {
		req := &kv.ScanRequest{Spans: []base.Span{IndexSpan(ix)}}
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
	b.snap.At = t.ReadTimestamp()
	if changed, complete := db.MetaVersion(catalogSpan()); complete <= b.snap.At || changed <= b.snap.At {
		// Deletions count as changes too, but leave no row to see.
		b.snap.Changed = max(b.snap.Changed, min(changed, b.snap.At))
	}
	b.link()
	return b.snap, nil
}

type snapshotBuilder struct {
	old  *Snapshot
	snap *Snapshot
}

func (b *snapshotBuilder) add(ix base.IndexID, r kv.Row) error {
	b.snap.Changed = max(b.snap.Changed, r.TS)
	switch ix {
	case IxDatabase:
		d, err := unmarshal(r.Value, func(d *DatabaseDesc) int { return d.V })
		if err != nil {
			return err
		}
		b.snap.Databases[strings.ToLower(d.Name)] = NewDatabase(d)
	case ixTable:
		d, err := unmarshal(r.Value, func(d *TableDesc) int { return d.V })
		if err != nil {
			return err
		}
		if b.old != nil {
			if t := b.old.Table(d.DB, d.Name); t != nil && t.TS == r.TS && t.TS != 0 {
				b.putTable(t)
				return nil
			}
		}
		t, err := NewTable(d)
		if err != nil {
			return base.Errorf(base.CodeCorrupt, "table %s.%s: %v", d.DB, d.Name, err)
		}
		t.TS = r.TS
		if t.Next != nil {
			t.Next.TS = r.TS
		}
		b.putTable(t)
	case IxGarbage:
	default:
		o, err := unmarshal(r.Value, func(o *ObjectDesc) int { return o.V })
		if err != nil {
			return err
		}
		if db := b.snap.Database(o.DB); db != nil {
			db.Objects[ix][strings.ToLower(o.Name)] = o
		}
	}
	return nil
}

// NewDatabase is a database without tables and objects.
func NewDatabase(d *DatabaseDesc) *Database {
	db := &Database{Desc: d, Tables: map[string]*Table{}, Objects: map[base.IndexID]map[string]*ObjectDesc{}}
	for _, ix := range objectKinds {
		db.Objects[ix] = map[string]*ObjectDesc{}
	}
	return db
}

func (b *snapshotBuilder) putTable(t *Table) {
	if db := b.snap.Database(t.Desc.DB); db != nil {
		db.Tables[strings.ToLower(t.Desc.Name)] = t
		b.snap.index(t)
	}
}

// index makes a table, and its successor, known by id.
func (s *Snapshot) index(t *Table) {
	s.ByID[t.Desc.ID] = t
	if t.Next != nil {
		s.ByID[t.Next.Desc.ID] = t.Next
	}
}

func (b *snapshotBuilder) link() { b.snap.Link() }

// Link computes which foreign keys refer to each table.
func (s *Snapshot) Link() {
	for _, db := range s.Databases {
		db.ReferencedBy = map[string][]sql.ForeignKeyConstraint{}
	}
	for _, db := range s.Databases {
		for _, name := range slices.Sorted(maps.Keys(db.Tables)) {
			for _, fk := range db.Tables[name].Desc.FKs {
				if parent := s.Database(fk.ParentDatabase); parent != nil {
					p := strings.ToLower(fk.ParentTable)
					parent.ReferencedBy[p] = append(parent.ReferencedBy[p], fk)
				}
			}
		}
	}
}

// With returns a copy of the snapshot with changes made by fn to a cloned database.
func (s *Snapshot) With(db string, fn func(*Database)) *Snapshot {
	c := &Snapshot{Changed: s.Changed, At: s.At, Databases: maps.Clone(s.Databases), ByID: s.ByID}
	if d := c.Database(db); d != nil {
		d = d.clone()
		c.Databases[strings.ToLower(db)] = d
		fn(d)
	}
	for k, d := range c.Databases {
		c.Databases[k] = d.clone()
	}
	c.ByID = map[base.TableID]*Table{}
	for _, d := range c.Databases {
		for _, t := range d.Tables {
			c.index(t)
		}
	}
	c.Link()
	return c
}

// ObjectsInOrder lists objects of a kind in the order of creation.
func (d *Database) ObjectsInOrder(ix base.IndexID) []*ObjectDesc {
	out := slices.Collect(maps.Values(d.Objects[ix]))
	slices.SortFunc(out, func(a, b *ObjectDesc) int {
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

// ObjectSeq orders objects by creation: time is enough.
func ObjectSeq() uint64 { return uint64(time.Now().UnixNano()) }
