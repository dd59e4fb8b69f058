package sqlfront

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
)

// sqlDatabase is a database as the engine sees it. It holds a name only: what is in
// it is looked up in the snapshot of the statement.
type sqlDatabase struct {
	g    *gateway
	name string
}

var (
	_ sql.TableCreator        = (*sqlDatabase)(nil)
	_ sql.IndexedTableCreator = (*sqlDatabase)(nil)
	_ sql.TableDropper        = (*sqlDatabase)(nil)
	_ sql.TableRenamer        = (*sqlDatabase)(nil)
	_ sql.CollatedDatabase    = (*sqlDatabase)(nil)
	_ sql.VersionedDatabase   = (*sqlDatabase)(nil)
	_ sql.SchemaValidator     = (*sqlDatabase)(nil)
	_ fulltext.Database       = (*sqlDatabase)(nil)
)

// Name implements sql.Database.
func (d *sqlDatabase) Name() string { return d.name }

func (d *sqlDatabase) look(ctx *sql.Context) (*database, error) {
	db, err := (&provider{d.g}).find(ctx, d.name)
	if err == nil && db == nil {
		err = sql.ErrDatabaseNotFound.New(d.name)
	}
	return db, err
}

// GetTableInsensitive implements sql.Database.
func (d *sqlDatabase) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	s := sessionOf(ctx)
	if s != nil {
		if t := s.txn(); t != nil && t.asOf != 0 && !t.over {
			return d.GetTableInsensitiveAsOf(ctx, name, int64(t.asOf))
		}
	}
	db, err := d.look(ctx)
	if err != nil {
		return nil, false, err
	}
	lower := strings.ToLower(name)
	t := db.tables[lower]
	if t == nil && db.objects[ixView][lower] == nil && lower != "dual" {
		if s != nil {
			snap, err := s.refresh(ctx)
			if err != nil {
				return nil, false, err
			}
			t = snap.table(d.name, name)
		}
	}
	if t == nil {
		h, err := d.g.homesTableOf(db, lower)
		return h, h != nil, err
	}
	st := newSQLTable(d.g, t)
	if s != nil {
		s.noteTable(t)
	}
	if s != nil && (s.truncate || s.call) {
		return truncatable{st}, true, nil
	}
	return st, true, nil
}

// GetTableNames implements sql.Database.
func (d *sqlDatabase) GetTableNames(ctx *sql.Context) ([]string, error) {
	db, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(db.tables))
	for _, t := range db.tables {
		names = append(names, t.desc.Name)
	}
	slices.Sort(names)
	return names, nil
}

// GetTableInsensitiveAsOf implements sql.VersionedDatabase; the schema is that of the time too.
func (d *sqlDatabase) GetTableInsensitiveAsOf(ctx *sql.Context, name string, asOf any) (sql.Table, bool, error) {
	snap, ts, err := d.g.snapshotAsOf(ctx, asOf)
	if err != nil {
		return nil, false, err
	}
	t := snap.table(d.name, name)
	if t == nil {
		return nil, false, nil
	}
	st := newSQLTable(d.g, t)
	st.acc.asOf = ts
	return st, true, nil
}

// GetTableNamesAsOf implements sql.VersionedDatabase.
func (d *sqlDatabase) GetTableNamesAsOf(ctx *sql.Context, asOf any) ([]string, error) {
	snap, _, err := d.g.snapshotAsOf(ctx, asOf)
	if err != nil {
		return nil, err
	}
	db := snap.db(d.name)
	if db == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(db.tables)), nil
}

// ValidateSchema implements sql.SchemaValidator with InnoDB's limit of a row.
func (d *sqlDatabase) ValidateSchema(sch sql.Schema) error {
	return validateRowLength(sch)
}

// GetCollation implements sql.CollatedDatabase.
func (d *sqlDatabase) GetCollation(ctx *sql.Context) sql.CollationID {
	db, err := d.look(ctx)
	if err != nil {
		return sql.Collation_Default
	}
	return db.desc.Collation
}

// SetCollation implements sql.CollatedDatabase.
func (d *sqlDatabase) SetCollation(ctx *sql.Context, coll sql.CollationID) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	key := catalogKey(ixDatabase, d.name)
	if _, err := m.lock(ctx, key); err != nil {
		return err
	}
	desc := *m.snap().db(d.name).desc
	desc.Collation = coll
	return d.describe(m, &desc)
}

// describe changes the descriptor of the database, whose row is locked.
func (d *sqlDatabase) describe(m *mutation, desc *dbDesc) error {
	key := catalogKey(ixDatabase, d.name)
	m.put(key, marshal(desc))
	m.txn.snap = m.snap().with(d.name, func(db *database) { db.desc = desc })
	return nil
}

// CreateTable implements sql.TableCreator.
func (d *sqlDatabase) CreateTable(ctx *sql.Context, name string, sch sql.PrimaryKeySchema, coll sql.CollationID, comment string) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	dbKey := catalogKey(ixDatabase, d.name)
	if m.snap().db(d.name) == nil {
		return sql.ErrDatabaseNotFound.New(d.name)
	}
	m.kv.Pin(m.snap().at, dbKey)
	if ok, err := m.lock(ctx, tableKey(d.name, name)); err != nil {
		return err
	} else if ok {
		return sql.ErrTableAlreadyExists.New(name)
	}
	desc, err := d.g.describeTable(d.name, name, sch, coll, comment)
	if err != nil {
		return err
	}
	region := d.g.db.Region()
	if s := sessionOf(ctx); s != nil {
		if desc.Comment == "" {
			desc.Comment = s.create.comment
		}
		if desc.Locality = s.create.locality; desc.Locality == (locality{}) {
			desc.Locality = d.g.usual
		}
		if s.create.replication == "" && desc.Locality.Kind != global && desc.Locality.Kind != multi {
			desc.Locality.Async = m.snap().db(d.name).desc.Async
		}
		if desc.Locality.Kind == byTable {
			region = desc.Locality.Region
		}
		s.create = tableOptions{}
	}
	if desc.Locality.Async && d.g.db.Topology().Async == 0 {
		if err := d.g.enableAsync(ctx); err != nil {
			return err
		}
	}
	if desc.Locality.Kind == multi {
		if err := d.g.beginEpochs(ctx); err != nil {
			return err
		}
	}
	if desc.ID, err = m.newTableID(ctx, region); err != nil {
		return err
	}
	desc.AutoKey = uint64(desc.ID)
	m.txn.noteMade(desc.ID)
	_, err = m.putTable(desc)
	return err
}

// describeTable makes the descriptor of a new table without an id.
func (g *gateway) describeTable(db, name string, sch sql.PrimaryKeySchema, coll sql.CollationID, comment string) (*tableDesc, error) {
	desc := &tableDesc{
		V: descVersion, DB: db, Name: name, Collation: coll, Comment: comment,
		Shards: g.db.Topology().Shards, NextIndex: 1, Created: time.Now().UTC(),
	}
	for _, c := range sch.Schema {
		if err := desc.addColumn(c, len(desc.Cols)); err != nil {
			return nil, err
		}
	}
	for _, p := range sch.PkOrdinals {
		desc.Cols[p].Nullable = false
		desc.PK = append(desc.PK, desc.Cols[p].ID)
	}
	return desc, nil
}

// CreateIndexedTable implements sql.IndexedTableCreator.
func (d *sqlDatabase) CreateIndexedTable(ctx *sql.Context, name string, sch sql.PrimaryKeySchema, idx sql.IndexDef, coll sql.CollationID) error {
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
func (d *sqlDatabase) DropTable(ctx *sql.Context, name string) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	t := m.snap().table(d.name, name)
	if t == nil {
		return sql.ErrTableNotFound.New(name)
	}
	if err := m.lockTable(ctx, t); err != nil {
		return err
	}
	m.delTable(t)
	m.discard(t)
	return nil
}

// RenameTable implements sql.TableRenamer. Foreign keys that name the table follow, and so do its triggers.
func (d *sqlDatabase) RenameTable(ctx *sql.Context, oldName, newName string) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	t := m.snap().table(d.name, oldName)
	if t == nil {
		return sql.ErrTableNotFound.New(oldName)
	}
	if err := m.lockTable(ctx, t); err != nil {
		return err
	}
	if !strings.EqualFold(oldName, newName) {
		if ok, err := m.lock(ctx, tableKey(d.name, newName)); err != nil {
			return err
		} else if ok {
			return sql.ErrTableAlreadyExists.New(newName)
		}
		m.delTable(t)
	}
	desc := t.desc.clone()
	desc.Name = newName
	if _, err = m.putTable(desc); err != nil {
		return err
	}
	return d.renameTriggers(ctx, m, oldName, newName)
}

// CreateFulltextTableNames implements fulltext.Database.
func (d *sqlDatabase) CreateFulltextTableNames(ctx *sql.Context, table, index string) (fulltext.IndexTableNames, error) {
	names, err := d.GetTableNames(ctx)
	if err != nil {
		return fulltext.IndexTableNames{}, err
	}
	for i := 0; ; i++ {
		prefix := strings.ToLower(fmt.Sprintf("%s_%s_%d", table, index, i))
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(strings.ToLower(n), prefix) }) {
			continue
		}
		return fulltext.IndexTableNames{
			Config: table + "_FTS_CONFIG", Position: prefix + "_FTS_POSITION", DocCount: prefix + "_FTS_DOC_COUNT",
			GlobalCount: prefix + "_FTS_GLOBAL_COUNT", RowCount: prefix + "_FTS_ROW_COUNT",
		}, nil
	}
}

// addColumn puts a column at a position of the schema.
func (t *tableDesc) addColumn(c *sql.Column, at int) error {
	t.NextCol++
	d := columnDesc{
		ID: t.NextCol, Name: c.Name, Nullable: c.Nullable && !c.PrimaryKey, Default: describeExpr(c.Default),
		Generated: describeExpr(c.Generated), OnUpdate: describeExpr(c.OnUpdate), Virtual: c.Virtual,
		AutoInc: c.AutoIncrement, Hidden: c.Hidden, HiddenSystem: c.HiddenSystem, Comment: c.Comment, Extra: c.Extra,
	}
	if err := describeType(&d, c.Type); err != nil {
		return err
	}
	t.Cols = slices.Insert(t.Cols, at, d)
	return nil
}

// objects implement what has a text only: views, triggers, procedures, events.

func (d *sqlDatabase) object(ctx *sql.Context, ix base.IndexID, name string) (*objectDesc, error) {
	db, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	return db.objects[ix][strings.ToLower(name)], nil
}

func (d *sqlDatabase) create(ctx *sql.Context, ix base.IndexID, o *objectDesc, exists func() error) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	if exists != nil {
		if ok, err := m.lock(ctx, catalogKey(ix, o.DB, o.Name)); err != nil {
			return err
		} else if ok {
			return exists()
		}
	}
	o.V = descVersion
	m.putObject(ix, o)
	return nil
}

func (d *sqlDatabase) drop(ctx *sql.Context, ix base.IndexID, name string, missing func() error) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	if ok, err := m.lock(ctx, catalogKey(ix, d.name, name)); err != nil {
		return err
	} else if !ok {
		return missing()
	}
	m.delObject(ix, d.name, name)
	return nil
}

// touch bumps the version of the table a trigger belongs to, so that running
// transactions that do not know the trigger cannot commit.
func (d *sqlDatabase) touch(ctx *sql.Context, table string) error {
	m, err := d.g.mutate(ctx)
	if err != nil {
		return err
	}
	if t := m.snap().table(d.name, table); t != nil {
		if err := m.lockTable(ctx, t); err != nil {
			return err
		}
		_, err = m.putTable(t.desc.clone())
	}
	return err
}
