package sqlfront

import (
	"sort"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// provider shows the catalog to the engine.
type provider struct {
	g *gateway
}

var (
	_ sql.CollatedDatabaseProvider = (*provider)(nil)
	_ sql.MutableDatabaseProvider  = (*provider)(nil)
)

// snapshotOf is the catalog as the statement of ctx sees it.
func (p *provider) snapshotOf(ctx *sql.Context) (*snapshot, error) {
	if s := sessionOf(ctx); s != nil {
		return s.snapshot(ctx)
	}
	snap, err := p.g.catalog.current(ctx)
	return snap, clientError(err)
}

// find looks a database up, and again in a fresh catalog before it says no.
func (p *provider) find(ctx *sql.Context, name string) (*database, error) {
	snap, err := p.snapshotOf(ctx)
	if err != nil {
		return nil, err
	}
	d := snap.db(name)
	if s := sessionOf(ctx); d == nil && s != nil && name != "" && !builtinDB(name) {
		if snap, err = s.refresh(ctx); err != nil {
			return nil, err
		}
		d = snap.db(name)
	}
	return d, nil
}

func builtinDB(name string) bool {
	switch strings.ToLower(name) {
	case "information_schema", "mysql", "performance_schema", systemDB:
		return true
	}
	return false
}

// errNoDatabase is made once: building its stack for every look-up is measurable.
var errNoDatabase = map[string]error{}

func init() {
	for _, n := range []string{"", "mysql", "information_schema", "performance_schema"} {
		errNoDatabase[n] = sql.ErrDatabaseNotFound.New(n)
	}
}

// Database implements sql.DatabaseProvider.
func (p *provider) Database(ctx *sql.Context, name string) (sql.Database, error) {
	d, err := p.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if d == nil {
		if sys := p.systemDatabase(name); sys != nil {
			return sys, nil
		}
		if err := errNoDatabase[name]; err != nil {
			return nil, err
		}
		return nil, sql.ErrDatabaseNotFound.New(name)
	}
	return &sqlDatabase{g: p.g, name: d.desc.Name}, nil
}

// HasDatabase implements sql.DatabaseProvider.
func (p *provider) HasDatabase(ctx *sql.Context, name string) bool {
	d, err := p.find(ctx, name)
	return err == nil && (d != nil || p.systemDatabase(name) != nil)
}

// AllDatabases implements sql.DatabaseProvider.
func (p *provider) AllDatabases(ctx *sql.Context) []sql.Database {
	snap, err := p.snapshotOf(ctx)
	if err != nil {
		return nil
	}
	var out []sql.Database
	for _, d := range snap.dbs {
		out = append(out, &sqlDatabase{g: p.g, name: d.desc.Name})
	}
	if sys := p.systemDatabase(systemDB); sys != nil && snap.db(systemDB) == nil {
		out = append(out, sys)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name() < out[j].Name() })
	return out
}

// CreateDatabase implements sql.MutableDatabaseProvider.
func (p *provider) CreateDatabase(ctx *sql.Context, name string) error {
	return p.CreateCollatedDatabase(ctx, name, sql.Collation_Default)
}

// CreateCollatedDatabase implements sql.CollatedDatabaseProvider.
func (p *provider) CreateCollatedDatabase(ctx *sql.Context, name string, coll sql.CollationID) error {
	if strings.EqualFold(name, systemDB) {
		return sql.ErrDatabaseExists.New(name) // also where this server shows no such database: others may
	}
	m, err := p.g.mutate(ctx)
	if err != nil {
		return err
	}
	key := catalogKey(ixDatabase, name)
	if ok, err := m.lock(ctx, key); err != nil {
		return err
	} else if ok {
		return sql.ErrDatabaseExists.New(name)
	}
	d := &dbDesc{V: descVersion, Name: name, Collation: coll, Async: createsAsync(ctx.Query())}
	if d.Async {
		if err := p.g.enableAsync(ctx); err != nil {
			return err
		}
	}
	m.put(key, marshal(d))
	snap := m.snap()
	next := snap.with("", nil)
	next.dbs[strings.ToLower(name)] = newDatabase(d)
	next.link()
	m.txn.snap = next
	return nil
}

// DropDatabase implements sql.MutableDatabaseProvider.
func (p *provider) DropDatabase(ctx *sql.Context, name string) error {
	if d, err := p.find(ctx, name); err == nil && d == nil && p.systemDatabase(name) != nil {
		return errReadOnlySystem()
	}
	m, err := p.g.mutate(ctx)
	if err != nil {
		return err
	}
	key := catalogKey(ixDatabase, name)
	if ok, err := m.lock(ctx, key); err != nil {
		return err
	} else if !ok {
		return sql.ErrDatabaseNotFound.New(name)
	}
	d := m.snap().db(name)
	if d == nil {
		return sql.ErrDatabaseNotFound.New(name)
	}
	for _, t := range d.tables {
		if err := m.lockTable(ctx, t); err != nil {
			return err
		}
		m.del(t.key)
		m.discard(t)
	}
	for ix, objs := range d.objects {
		for _, o := range objs {
			m.del(catalogKey(ix, o.DB, o.Name))
		}
	}
	m.del(key)
	next := m.snap().with("", nil)
	delete(next.dbs, strings.ToLower(name))
	m.txn.snap = next.with("", nil)
	return nil
}

// mutation is a schema change within the session's transaction.
type mutation struct {
	g   *gateway
	s   *Session
	txn *Txn
	kv  kv.Txn
}

// mutate begins a schema change. As in MySQL it first commits what the
// transaction has written.
func (g *gateway) mutate(ctx *sql.Context) (*mutation, error) {
	s := sessionOf(ctx)
	if s == nil {
		return nil, base.Errorf(base.CodeInvalid, "schema changes need a session")
	}
	t := s.txn()
	if t == nil || t.over {
		t = &Txn{s: s}
		ctx.SetTransaction(t)
	}
	if t.snap == nil && (t.kv != nil || t.readOnly) {
		if err := s.restart(ctx, t); err != nil {
			return nil, err
		}
	}
	if t.snap == nil {
		// A change is made to the newest catalog, whatever the statement was planned with.
		snap, err := g.catalog.fresh(s.kvctx(ctx))
		if err != nil {
			return nil, t.fail(err)
		}
		t.snap = snap
	}
	s.writes, s.built = true, true
	k, err := t.begun(ctx)
	if err != nil {
		return nil, err
	}
	return &mutation{g: g, s: s, txn: t, kv: k}, nil
}

// restart commits a transaction and makes it usable again, empty.
func (s *Session) restart(ctx *sql.Context, t *Txn) error {
	if err := t.commit(ctx); err != nil {
		s.leave(ctx)
		return err
	}
	*t = Txn{s: s}
	return nil
}

func (m *mutation) snap() *snapshot { return m.txn.snap }

// lock takes the catalog row of a key exclusively and reports whether it exists.
func (m *mutation) lock(ctx *sql.Context, key base.Key) (bool, error) {
	rows, err := m.kv.Get(m.s.kvctx(ctx), []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return false, m.txn.fail(err)
	}
	return rows[0].Value != nil, nil
}

// lockTable takes a descriptor exclusively; it must still be the one the change was planned with.
func (m *mutation) lockTable(ctx *sql.Context, t *table) error {
	rows, err := m.kv.Get(m.s.kvctx(ctx), []base.Key{t.key}, kv.LockExclusive)
	if err != nil {
		return m.txn.fail(err)
	}
	if rows[0].TS != t.ts || rows[0].Value == nil {
		return m.txn.fail(base.Errorf(base.CodeSchemaChanged, "table %s was changed by somebody else", t.desc.Name))
	}
	return nil
}

func (m *mutation) put(key base.Key, value []byte) { m.kv.Put(key, value, 0) }
func (m *mutation) del(key base.Key)               { m.kv.Delete(key) }

// putTable writes a descriptor and shows it to the rest of the transaction.
func (m *mutation) putTable(d *tableDesc) (*table, error) {
	t, err := newTable(d)
	if err != nil {
		return nil, err
	}
	if err := m.unmixed(d); err != nil {
		return nil, err
	}
	d.V = d.format()
	m.put(t.key, marshal(d))
	if d.Locality.Kind == multi {
		m.txn.declares(d.ID, false)
	}
	m.txn.snap = m.snap().with(d.DB, func(db *database) { db.tables[strings.ToLower(d.Name)] = t })
	return t, nil
}

// delTable removes a descriptor.
func (m *mutation) delTable(t *table) {
	m.del(t.key)
	m.txn.snap = m.snap().with(t.desc.DB, func(db *database) { delete(db.tables, strings.ToLower(t.desc.Name)) })
}

// putObject writes a view, trigger, procedure or event.
func (m *mutation) putObject(ix base.IndexID, o *objectDesc) {
	m.put(catalogKey(ix, o.DB, o.Name), marshal(o))
	m.txn.snap = m.snap().with(o.DB, func(db *database) { db.objects[ix][strings.ToLower(o.Name)] = o })
}

func (m *mutation) delObject(ix base.IndexID, db, name string) {
	m.del(catalogKey(ix, db, name))
	m.txn.snap = m.snap().with(db, func(d *database) { delete(d.objects[ix], strings.ToLower(name)) })
}

// newTableID takes the next table id.
func (m *mutation) newTableID(ctx *sql.Context, region base.RegionID) (base.TableID, error) {
	id, err := nextTableID(m.s.kvctx(ctx), m.kv, region)
	if err != nil {
		return 0, m.txn.fail(err)
	}
	return id, nil
}
