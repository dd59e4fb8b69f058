package ddl

import (
	"slices"
	"sort"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/function"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Provider shows the catalog to the engine.
type Provider struct {
	Env *Env
}

var (
	_ sql.CollatedDatabaseProvider = (*Provider)(nil)
	_ sql.MutableDatabaseProvider  = (*Provider)(nil)
	_ sql.FunctionProvider         = (*Provider)(nil)
)

// NewProvider shows the catalog of a gateway.
func NewProvider(env *Env) *Provider { return &Provider{env} }

// Function implements sql.FunctionProvider. The engine asks here before it looks at its own.
func (p *Provider) Function(ctx *sql.Context, name string) (sql.Function, bool) {
	if f := p.Env.Functions[strings.ToLower(name)]; f != nil {
		return f, true
	}
	f, ok := function.Lookup(name)
	if !ok && p.Env.Stored != nil && !function.Native(name) && !definesTable(ctx) {
		return p.Env.Stored(ctx, name)
	}
	return f, ok
}

// definesTable reports whether the statement defines a table, whose expressions cannot call stored
// functions.
func definesTable(ctx *sql.Context) bool {
	s := session.Of(ctx)
	if s == nil {
		return false
	}
	switch d := s.Stmt.Tree.(type) {
	case *sqlparser.DDL:
		return d.TableSpec != nil && d.OptSelect == nil
	case *sqlparser.AlterTable:
		return true
	}
	return false
}

// Find looks a database up, and again in a fresh catalog before it says no.
func (p *Provider) Find(ctx *sql.Context, name string) (*schema.Database, error) {
	snap, err := p.Env.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	d := snap.Database(name)
	if s := session.Of(ctx); d == nil && s != nil && name != "" && !builtinDB(name) {
		if snap, err = s.Refresh(ctx); err != nil {
			return nil, err
		}
		d = snap.Database(name)
	}
	return d, nil
}

func builtinDB(name string) bool {
	switch strings.ToLower(name) {
	case "information_schema", "mysql", "performance_schema", "sys", SystemDatabase:
		return true
	}
	return false
}

// errNoDatabase is made once: building its stack for every look-up is measurable.
var errNoDatabase = map[string]error{}

func init() {
	for _, n := range []string{"", "mysql", "information_schema", "performance_schema", "sys"} {
		errNoDatabase[n] = sql.ErrDatabaseNotFound.New(n)
	}
}

// Database implements sql.DatabaseProvider.
func (p *Provider) Database(ctx *sql.Context, name string) (sql.Database, error) {
	if strings.HasPrefix(name, "\x00") { // ours, whatever databases a client has made
		if sys := p.Env.System(name); sys != nil {
			return sys, nil
		}
	}
	d, err := p.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if d == nil {
		if sys := p.Env.System(name); sys != nil {
			return sys, nil
		}
		if err := errNoDatabase[name]; err != nil {
			return nil, err
		}
		return nil, sql.ErrDatabaseNotFound.New(name)
	}
	return &database{g: p.Env, name: d.Desc.Name}, nil
}

// HasDatabase implements sql.DatabaseProvider.
func (p *Provider) HasDatabase(ctx *sql.Context, name string) bool {
	d, err := p.Find(ctx, name)
	return err == nil && (d != nil || p.Env.System(name) != nil)
}

// AllDatabases implements sql.DatabaseProvider.
func (p *Provider) AllDatabases(ctx *sql.Context) []sql.Database {
	snap, err := p.Env.Snapshot(ctx)
	if err != nil {
		return nil
	}
	var out []sql.Database
	for _, d := range snap.Databases {
		out = append(out, &database{g: p.Env, name: d.Desc.Name})
	}
	for _, name := range systemDatabases {
		if sys := p.Env.System(name); sys != nil && snap.Database(name) == nil {
			out = append(out, sys)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name() < out[j].Name() })
	return out
}

// CreateDatabase implements sql.MutableDatabaseProvider.
func (p *Provider) CreateDatabase(ctx *sql.Context, name string) error {
	return p.CreateCollatedDatabase(ctx, name, sql.Collation_Default)
}

// CreateCollatedDatabase implements sql.CollatedDatabaseProvider.
func (p *Provider) CreateCollatedDatabase(ctx *sql.Context, name string, coll sql.CollationID) error {
	if slices.Contains(systemDatabases, strings.ToLower(name)) {
		// also where this server shows no such database: others may
		return sql.ErrDatabaseExists.New(name)
	}
	m, err := p.Env.mutate(ctx)
	if err != nil {
		return err
	}
	key := schema.CatalogKey(schema.IxDatabase, name)
	if ok, err := m.lock(ctx, key); err != nil {
		return err
	} else if ok {
		return sql.ErrDatabaseExists.New(name)
	}
	d := &schema.DatabaseDesc{V: schema.DescVersion, Name: name, Collation: coll, Async: createsAsync(ctx.Query())}
	if d.Async {
		if err := p.Env.enableAsync(ctx); err != nil {
			return err
		}
	}
	m.put(key, schema.Marshal(d))
	snap := m.snap()
	next := snap.With("", nil)
	next.Databases[strings.ToLower(name)] = schema.NewDatabase(d)
	next.Link()
	m.txn.Schema = next
	return nil
}

// DropDatabase implements sql.MutableDatabaseProvider.
func (p *Provider) DropDatabase(ctx *sql.Context, name string) error {
	if d, err := p.Find(ctx, name); err == nil && d == nil && p.Env.System(name) != nil {
		return ErrReadOnlySystem(strings.ToLower(name))
	}
	m, err := p.Env.mutate(ctx)
	if err != nil {
		return err
	}
	key := schema.CatalogKey(schema.IxDatabase, name)
	if ok, err := m.lock(ctx, key); err != nil {
		return err
	} else if !ok {
		return sql.ErrDatabaseNotFound.New(name)
	}
	d := m.snap().Database(name)
	if d == nil {
		return sql.ErrDatabaseNotFound.New(name)
	}
	for _, t := range d.Tables {
		if err := m.lockTable(ctx, t); err != nil {
			return err
		}
		m.del(t.Key)
		m.discard(t)
	}
	for ix, objs := range d.Objects {
		for _, o := range objs {
			m.del(schema.CatalogKey(ix, o.DB, o.Name))
			if ix == schema.IxEvent {
				m.del(schema.EventKey(o.DB, o.Name))
			}
		}
	}
	m.del(key)
	next := m.snap().With("", nil)
	delete(next.Databases, strings.ToLower(name))
	m.txn.Schema = next.With("", nil)
	return nil
}

// mutation is a schema change within the session's transaction.
type mutation struct {
	g   *Env
	s   *session.Session
	txn *session.Txn
	kv  kv.Txn
	// temporary is the temporary table that is changed; nil: the change is one of the catalog.
	temporary *schema.Table
}

// mutate begins a schema change. As in MySQL it first commits what the
// transaction has written.
func (g *Env) mutate(ctx *sql.Context) (*mutation, error) {
	s := session.Of(ctx)
	if s == nil {
		return nil, base.Errorf(base.CodeInvalid, "schema changes need a session")
	}
	t := s.Txn()
	if t == nil || t.Over {
		t = session.NewTxn(s)
		ctx.SetTransaction(t)
	}
	if t.Schema == nil && (t.KV != nil || t.ReadOnly) {
		if err := s.Restart(ctx, t); err != nil {
			return nil, err
		}
	}
	if t.Schema == nil {
		// A change is made to the newest catalog, whatever the statement was planned with.
		snap, err := g.Catalog.Fresh(s.KVContext(ctx))
		if err != nil {
			return nil, t.Fail(err)
		}
		t.Schema = snap
	}
	s.Stmt.Writes, s.Stmt.Planned = true, true
	k, err := t.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &mutation{g: g, s: s, txn: t, kv: k}, nil
}

func (m *mutation) snap() *schema.Snapshot { return m.txn.Schema }

// lock takes the catalog row of a key exclusively and reports whether it exists.
func (m *mutation) lock(ctx *sql.Context, key base.Key) (bool, error) {
	rows, err := m.kv.Get(m.s.KVContext(ctx), []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return false, m.txn.Fail(err)
	}
	return rows[0].Value != nil, nil
}

// lockTable takes a descriptor exclusively; it must still be the one the change was planned with.
func (m *mutation) lockTable(ctx *sql.Context, t *schema.Table) error {
	rows, err := m.kv.Get(m.s.KVContext(ctx), []base.Key{t.Key}, kv.LockExclusive)
	if err != nil {
		return m.txn.Fail(err)
	}
	if rows[0].TS != t.TS || rows[0].Value == nil {
		return m.txn.Fail(base.Errorf(base.CodeSchemaChanged, "table %s was changed by somebody else", t.Desc.Name))
	}
	return nil
}

func (m *mutation) put(key base.Key, value []byte) { m.kv.Put(key, value, 0) }
func (m *mutation) del(key base.Key)               { m.kv.Delete(key) }

// putTable writes a descriptor and shows it to the rest of the transaction.
func (m *mutation) putTable(d *schema.TableDesc) (*schema.Table, error) {
	t, err := schema.NewTable(d)
	if err != nil {
		return nil, err
	}
	if m.temporary != nil {
		m.s.PutTemporary(m.temporary, t)
		m.temporary = t
		return t, nil
	}
	if err := m.unmixed(d); err != nil {
		return nil, err
	}
	if err := m.contained(d); err != nil {
		return nil, err
	}
	if err := reachable(d); err != nil {
		return nil, err
	}
	d.V = d.Format()
	m.put(t.Key, schema.Marshal(d))
	if d.Locality.Kind == schema.MultiMaster {
		m.txn.Declares(d.ID, false)
	}
	m.txn.Schema = m.snap().With(d.DB, func(db *schema.Database) { db.Tables[strings.ToLower(d.Name)] = t })
	return t, nil
}

// delTable removes a descriptor.
func (m *mutation) delTable(t *schema.Table) {
	m.del(t.Key)
	m.txn.Schema = m.snap().With(t.Desc.DB, func(db *schema.Database) { delete(db.Tables, strings.ToLower(t.Desc.Name)) })
}

// putObject writes a view, trigger, procedure or event.
func (m *mutation) putObject(ix base.IndexID, o *schema.ObjectDesc) {
	m.put(schema.CatalogKey(ix, o.DB, o.Name), schema.Marshal(o))
	m.txn.Schema = m.snap().With(o.DB, func(db *schema.Database) { db.Objects[ix][strings.ToLower(o.Name)] = o })
}

func (m *mutation) delObject(ix base.IndexID, db, name string) {
	m.del(schema.CatalogKey(ix, db, name))
	m.txn.Schema = m.snap().With(db, func(d *schema.Database) { delete(d.Objects[ix], strings.ToLower(name)) })
}

// newTableID takes an id in a transaction of its own. Rows are written under the id before the
// schema change commits; if the change fails, no other change may get the same id and find them.
func (m *mutation) newTableID(ctx *sql.Context, region base.RegionID) (id base.TableID, err error) {
	if m.temporary != nil {
		return session.NewTemporaryID(), nil
	}
	kctx := m.s.KVContext(ctx)
	_, err = kv.Run(kctx, m.g.DB, kv.Options{Trace: m.s.Trace}, func(k kv.Txn) (err error) {
		id, err = NextTableID(kctx, k, region)
		return err
	})
	if err != nil {
		return 0, m.txn.Fail(err)
	}
	return id, nil
}

// What SHOW GODWIT topic shows is also a table of the database godwit, so that it can be filtered,
// joined and ordered:
//
//	SELECT to_region, COUNT(*) FROM godwit.moves WHERE table_name = 'shop.carts' GROUP BY
//	   to_region
//
// Nothing of it is stored: a table is what the cluster says when it is read. It needs the PROCESS
// privilege, or SELECT as any database does. A database of that name which a store already holds
// hides it.
const SystemDatabase = "godwit"

// systemDatabases are those whose tables are not stored, and whose names are taken.
var systemDatabases = []string{SystemDatabase, "performance_schema", "sys"}

// ErrReadOnlySystem refuses changes of one of these databases.
func ErrReadOnlySystem(name string) error {
	return schema.Invalid("database " + name + " is Godwit's own: it can only be read")
}
