package ddl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/ddl/like"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// database is a database as the engine sees it. It holds a name only: what is in
// it is looked up in the snapshot of the statement.
type database struct {
	g    *Env
	name string
}

var (
	_ sql.TableCreator        = (*database)(nil)
	_ sql.IndexedTableCreator = (*database)(nil)
	_ sql.TableDropper        = (*database)(nil)
	_ sql.TableRenamer        = (*database)(nil)
	_ sql.CollatedDatabase    = (*database)(nil)
	_ sql.VersionedDatabase   = (*database)(nil)
	_ sql.SchemaValidator     = (*database)(nil)
	_ fulltext.Database       = (*database)(nil)
)

// Name implements sql.Database.
func (d *database) Name() string { return d.name }

func (d *database) look(ctx *sql.Context) (*schema.Database, error) {
	db, err := (&Provider{d.g}).Find(ctx, d.name)
	if err == nil && db == nil {
		err = sql.ErrDatabaseNotFound.New(d.name)
	}
	return db, err
}

// GetTableInsensitive implements sql.Database.
func (d *database) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	s := session.Of(ctx)
	if s != nil {
		if t := s.Txn(); t != nil && t.AsOf != 0 && !t.Over {
			return d.GetTableInsensitiveAsOf(ctx, name, int64(t.AsOf))
		}
	}
	if dropsNoTemporary(s, d.name, name) {
		return nil, false, nil
	}
	db, err := d.look(ctx)
	if err != nil {
		return nil, false, err
	}
	lower := strings.ToLower(name)
	t := db.Tables[lower]
	if t == nil && s != nil && db.Objects[schema.IxView][lower] == nil && lower != "dual" {
		snap, err := s.Refresh(ctx)
		if err != nil {
			return nil, false, err
		}
		t = snap.Table(d.name, name)
	}
	if t == nil {
		h, err := d.g.HomesTable(db, lower)
		return h, h != nil, err
	}
	return d.open(s, t), true, nil
}

// open is a table for a statement of a session, if there is one.
func (d *database) open(s *session.Session, t *schema.Table) sql.Table {
	st := New(d.g, t)
	if s == nil {
		return st
	}
	s.NoteTable(t)
	if s.Stmt.Truncate || s.Stmt.Call {
		return truncatable{st}
	}
	return st
}

// stored is the database without the temporary tables of the session.
func (d *database) stored(ctx *sql.Context) (*schema.Database, error) {
	if s := session.Of(ctx); s != nil && s.HasTemporary() {
		snap, err := s.Stored(ctx)
		if err != nil {
			return nil, err
		}
		if db := snap.Database(d.name); db != nil {
			return db, nil
		}
	}
	return d.look(ctx)
}

// GetTableNames implements sql.Database. Neither temporary tables are shown nor those that the
// engine makes for full-text indexes.
func (d *database) GetTableNames(ctx *sql.Context) ([]string, error) {
	db, err := d.stored(ctx)
	if err != nil {
		return nil, err
	}
	helpers := db.FulltextTables()
	names := make([]string, 0, len(db.Tables))
	for lower, t := range db.Tables {
		if !helpers[lower] {
			names = append(names, t.Desc.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// GetTableInsensitiveAsOf implements sql.VersionedDatabase; the schema is that of the time too.
func (d *database) GetTableInsensitiveAsOf(ctx *sql.Context, name string, asOf any) (sql.Table, bool, error) {
	snap, ts, err := d.g.SnapshotAsOf(ctx, asOf)
	if err != nil {
		return nil, false, err
	}
	t := snap.Table(d.name, name)
	if t == nil {
		return nil, false, nil
	}
	st := New(d.g, t)
	st.Access.AsOf = ts
	return st, true, nil
}

// GetTableNamesAsOf implements sql.VersionedDatabase.
func (d *database) GetTableNamesAsOf(ctx *sql.Context, asOf any) ([]string, error) {
	snap, _, err := d.g.SnapshotAsOf(ctx, asOf)
	if err != nil {
		return nil, err
	}
	db := snap.Database(d.name)
	if db == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(db.Tables)), nil
}

// ValidateSchema implements sql.SchemaValidator with InnoDB's limit of a row.
func (d *database) ValidateSchema(sch sql.Schema) error {
	return table.ValidateRowLength(sch)
}

// GetCollation implements sql.CollatedDatabase.
func (d *database) GetCollation(ctx *sql.Context) sql.CollationID {
	db, err := d.look(ctx)
	if err != nil {
		return sql.Collation_Default
	}
	return db.Desc.Collation
}

// SetCollation implements sql.CollatedDatabase.
func (d *database) SetCollation(ctx *sql.Context, coll sql.CollationID) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	key := schema.CatalogKey(schema.IxDatabase, d.name)
	if _, err := m.lock(ctx, key); err != nil {
		return err
	}
	desc := *m.snap().Database(d.name).Desc
	desc.Collation = coll
	return d.describe(m, &desc)
}

// describe changes the descriptor of the database, whose row is locked.
func (d *database) describe(m *mutation, desc *schema.DatabaseDesc) error {
	key := schema.CatalogKey(schema.IxDatabase, d.name)
	m.put(key, schema.Marshal(desc))
	m.txn.Schema = m.snap().With(d.name, func(db *schema.Database) { db.Desc = desc })
	return nil
}

// CreateTable implements sql.TableCreator.
func (d *database) CreateTable(ctx *sql.Context, name string, sch sql.PrimaryKeySchema, coll sql.CollationID,
	comment string) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	dbKey := schema.CatalogKey(schema.IxDatabase, d.name)
	if m.snap().Database(d.name) == nil {
		return sql.ErrDatabaseNotFound.New(d.name)
	}
	m.kv.Pin(m.snap().At, dbKey)
	if ok, err := m.lock(ctx, schema.TableKey(d.name, name)); err != nil {
		return err
	} else if ok {
		if s := session.Of(ctx); s != nil {
			if t, ok := s.Stmt.Tree.(*sqlparser.DDL); ok && t.IfNotExists {
				note(ctx, 1050, "Table '"+name+"' already exists")
			}
		}
		return sql.ErrTableAlreadyExists.New(name)
	}
	desc, err := d.g.describeTable(d.name, name, sch, coll, comment)
	if err != nil {
		return err
	}
	like.Times(ctx, m.snap(), desc, sch.Schema)
	region, err := d.place(ctx, m, desc)
	if err != nil {
		return err
	}
	if desc.Locality.Async && d.g.DB.Topology().Async == 0 {
		if err := d.g.enableAsync(ctx); err != nil {
			return err
		}
	}
	if desc.Locality.Kind == schema.MultiMaster {
		if err := d.g.beginEpochs(ctx); err != nil {
			return err
		}
	}
	if desc.ID, err = m.newTableID(ctx, region); err != nil {
		return err
	}
	desc.AutoKey = uint64(desc.ID)
	m.txn.NoteMade(desc.ID)
	_, err = m.putTable(desc)
	return err
}

// place completes a descriptor by the options of the statement, and returns the region whose
// tables' ids the table gets.
func (d *database) place(ctx *sql.Context, m *mutation, desc *schema.TableDesc) (base.RegionID, error) {
	s := session.Of(ctx)
	if s == nil {
		return kv.HomeRegion(d.g.DB), nil
	}
	opts := s.Stmt.Create
	s.Stmt.Create = session.TableOptions{}
	if desc.Comment == "" {
		desc.Comment = opts.Comment
	}
	if desc.Locality = opts.Locality; desc.Locality.Same(schema.Locality{}) {
		desc.Locality = d.g.Usual
	}
	if opts.Replication == "" && desc.Locality.Kind != schema.Global && desc.Locality.Kind != schema.MultiMaster {
		desc.Locality.Async = m.snap().Database(d.name).Desc.Async
	}
	if err := d.placeNew(ctx, m, desc, opts.Placement); err != nil {
		return 0, err
	}
	if err := d.g.splitNew(ctx, desc); err != nil {
		return 0, schema.ClientError(err)
	}
	if desc.Locality.Kind == schema.ByTable {
		return desc.Locality.Region, nil
	}
	return desc.Locality.Placed.HomeOf(kv.HomeRegion(d.g.DB)), nil
}

// fit keeps out of a descriptor what old has not and nodes of the cluster may not know yet.
func (g *Env) fit(desc, old *schema.TableDesc) {
	desc.Fit(old, g.DB.Topology().Acts())
}

// describeTable makes the descriptor of a new table without an id.
func (g *Env) describeTable(db, name string, sch sql.PrimaryKeySchema, coll sql.CollationID,
	comment string) (*schema.TableDesc, error) {
	desc := &schema.TableDesc{
		V: schema.DescVersion, DB: db, Name: name, Collation: coll, Comment: comment,
		Shards: g.DB.Topology().Shards, NextIndex: 1, Created: time.Now().UTC(),
	}
	for _, c := range sch.Schema {
		if err := desc.AddColumn(c, len(desc.Cols)); err != nil {
			return nil, err
		}
	}
	g.fit(desc, nil)
	for _, p := range sch.PkOrdinals {
		desc.Cols[p].Nullable = false
		desc.PK = append(desc.PK, desc.Cols[p].ID)
	}
	return desc, nil
}

// CreateIndexedTable implements sql.IndexedTableCreator.
func (d *database) CreateIndexedTable(ctx *sql.Context, name string, sch sql.PrimaryKeySchema, idx sql.IndexDef,
	coll sql.CollationID) error {
	for _, c := range idx.Columns {
		i := sch.Schema.IndexOfColName(c.Name)
		if i < 0 {
			return sql.ErrColumnNotFound.New(c.Name)
		}
		if col := sch.Schema[i]; col.PrimaryKey && types.IsText(col.Type) && c.Length > 0 {
			return sql.ErrUnsupportedIndexPrefix.New(col.Name)
		}
	}
	return d.CreateTable(ctx, name, sch, coll, "")
}

// DropTable implements sql.TableDropper.
func (d *database) DropTable(ctx *sql.Context, name string) error {
	if done, err := d.dropTemporary(ctx, name); done {
		return err
	}
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	t := m.snap().Table(d.name, name)
	if t == nil {
		return sql.ErrTableNotFound.New(name)
	}
	if err := m.lockTable(ctx, t); err != nil {
		return err
	}
	m.delTable(t)
	m.discard(t)
	return d.dropFulltext(ctx, m, t)
}

// dropFulltext drops the tables that the engine has made for the full-text indexes of a table that
// is gone.
func (d *database) dropFulltext(ctx *sql.Context, m *mutation, of *schema.Table) error {
	for _, x := range of.Indexes {
		f := x.Desc.Fulltext
		if f == nil {
			continue
		}
		for _, name := range []string{f.Config, f.Position, f.DocCount, f.GlobalCount, f.RowCount} {
			t := m.snap().Table(d.name, name)
			if t == nil {
				continue // indexes of one table have one table of their configuration
			}
			if err := m.lockTable(ctx, t); err != nil {
				return err
			}
			m.delTable(t)
			m.discard(t)
		}
	}
	return nil
}

// RenameTable implements sql.TableRenamer. Foreign keys that name the table follow, and so do its
// triggers.
func (d *database) RenameTable(ctx *sql.Context, oldName, newName string) error {
	if done, err := d.renameTemporary(ctx, oldName, newName); done {
		return err
	}
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	t := m.snap().Table(d.name, oldName)
	if t == nil {
		return sql.ErrTableNotFound.New(oldName)
	}
	if err := m.lockTable(ctx, t); err != nil {
		return err
	}
	if !strings.EqualFold(oldName, newName) {
		if ok, err := m.lock(ctx, schema.TableKey(d.name, newName)); err != nil {
			return err
		} else if ok {
			return sql.ErrTableAlreadyExists.New(newName)
		}
		m.delTable(t)
	}
	desc := t.Desc.Clone()
	desc.Name = newName
	if _, err = m.putTable(desc); err != nil {
		return err
	}
	return d.renameTriggers(ctx, m, oldName, newName)
}

// CreateFulltextTableNames implements fulltext.Database.
func (d *database) CreateFulltextTableNames(ctx *sql.Context, table, index string) (fulltext.IndexTableNames, error) {
	if d.temporary(ctx, table) != nil {
		return fulltext.IndexTableNames{}, errTemporaryFulltext
	}
	db, err := d.stored(ctx)
	if err != nil {
		return fulltext.IndexTableNames{}, err
	}
	names := slices.Collect(maps.Keys(db.Tables))
	for i := 0; ; i++ {
		prefix := strings.ToLower(fmt.Sprintf("%s_%s_%d", table, index, i))
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) }) {
			continue
		}
		return fulltext.IndexTableNames{
			Config: table + "_FTS_CONFIG", Position: prefix + "_FTS_POSITION", DocCount: prefix + "_FTS_DOC_COUNT",
			GlobalCount: prefix + "_FTS_GLOBAL_COUNT", RowCount: prefix + "_FTS_ROW_COUNT",
		}, nil
	}
}

// objects implement what has a text only: views, triggers, procedures, functions, events.

func (d *database) object(ctx *sql.Context, ix base.IndexID, name string) (*schema.ObjectDesc, error) {
	db, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	return db.Objects[ix][strings.ToLower(name)], nil
}

func (d *database) create(ctx *sql.Context, ix base.IndexID, o *schema.ObjectDesc, exists func() error) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	if exists != nil {
		if ok, err := m.lock(ctx, schema.CatalogKey(ix, o.DB, o.Name)); err != nil {
			return err
		} else if ok {
			return exists()
		}
	}
	o.V = o.Format()
	m.putObject(ix, o)
	return nil
}

func (d *database) drop(ctx *sql.Context, ix base.IndexID, name string, missing func() error) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	if ok, err := m.lock(ctx, schema.CatalogKey(ix, d.name, name)); err != nil {
		return err
	} else if !ok {
		return missing()
	}
	m.delObject(ix, d.name, name)
	return nil
}

// touch bumps the version of the table a trigger belongs to, so that running
// transactions that do not know the trigger cannot commit.
func (d *database) touch(ctx *sql.Context, table string) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	if t := m.snap().Table(d.name, table); t != nil {
		if err := m.lockTable(ctx, t); err != nil {
			return err
		}
		_, err = m.putTable(t.Desc.Clone())
	}
	return err
}
