package ddl

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// change begins a schema change of the table: m and a clone of the newest descriptor to alter. It
// is refused while the table gets a successor.
func (t *Table) change(ctx *sql.Context) (*mutation, *schema.TableDesc, error) {
	m, d, err := t.changing(ctx)
	if err == nil && d.Next != nil {
		return nil, nil, schema.ClientError(busy(d))
	}
	return m, d, err
}

func (t *Table) changing(ctx *sql.Context) (*mutation, *schema.TableDesc, error) {
	if t.IsTemporary() {
		return t.changingTemporary(ctx)
	}
	m, err := t.g.mutate(ctx)
	if err != nil {
		return nil, nil, err
	}
	cur := m.snap().Table(t.Def.Desc.DB, t.Name())
	if cur == nil {
		return nil, nil, sql.ErrTableNotFound.New(t.Name())
	}
	if err := m.lockTable(ctx, cur); err != nil {
		return nil, nil, err
	}
	return m, cur.Desc.Clone(), nil
}

// done writes the altered descriptor; the table object shows it from now on.
func (t *Table) done(m *mutation, d *schema.TableDesc) error {
	t.g.fit(d, t.Def.Desc)
	nt, err := m.putTable(d)
	if err != nil {
		return err
	}
	t.Def, t.Full = nt, nt.Schema()
	m.s.Stmt.Unpublished = nil
	return nil
}

// AddColumn implements sql.AlterableTable: the descriptor changes, no row does.
// Rows written before have the default that a constant expression gives now.
func (t *Table) AddColumn(ctx *sql.Context, c *sql.Column, order *sql.ColumnOrder) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	at, err := d.Position(order, len(d.Cols))
	if err != nil {
		return err
	}
	if err := d.AddColumn(c, at); err != nil {
		return err
	}
	if err := t.checkable(d); err != nil {
		return err
	}
	if !c.Virtual {
		if err := d.Cols[at].SetMissing(ctx, c); err != nil {
			return err
		}
	}
	return t.done(m, d)
}

// DropColumn implements sql.AlterableTable: rows keep the bytes, which are not read any more.
func (t *Table) DropColumn(ctx *sql.Context, name string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := d.ColByName(name)
	if i < 0 {
		return sql.ErrTableColumnNotFound.New(t.Name(), name)
	}
	id := d.Cols[i].ID
	if slices.Contains(d.PK, id) {
		return errKeyColumn
	}
	k, err := schema.NewColumn(&d.Cols[i])
	if err != nil {
		return err
	}
	if !d.Cols[i].Virtual {
		if d.Dropped == nil {
			d.Dropped = map[uint32]schema.Kind{}
		}
		d.Dropped[id] = k.Kind
	}
	d.Cols = slices.Delete(d.Cols, i, i+1)
	d.Indexes = slices.DeleteFunc(d.Indexes, func(x schema.IndexDesc) bool {
		if !slices.ContainsFunc(x.Cols, func(c schema.IndexedColumn) bool { return c.Col == id }) {
			return false
		}
		m.discardIndex(d, &x)
		return true
	})
	return t.done(m, d)
}

// ModifyColumn implements sql.AlterableTable for changes that need no rewrite (see
// ShouldRewriteTable).
func (t *Table) ModifyColumn(ctx *sql.Context, name string, c *sql.Column, order *sql.ColumnOrder) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := d.ColByName(name)
	if i < 0 {
		return sql.ErrTableColumnNotFound.New(t.Name(), name)
	}
	nd := d.Cols[i]
	if c.AutoIncrement && !nd.AutoInc && d.Locality.Kind == schema.MultiMaster {
		return schema.Invalid("a column of a MULTI MASTER table cannot become AUTO_INCREMENT: make a new table")
	}
	if c.AutoIncrement && !nd.AutoInc {
		if err := t.startCounter(ctx, m, d, i); err != nil {
			return err
		}
	}
	if t, ok := c.Type.(sql.TypeWithCollation); ok && t.Collation() == sql.Collation_Unspecified {
		// of a RENAME COLUMN behind a MODIFY of the same column
		if c.Type, err = t.WithNewCollation(d.Collation); err != nil {
			return err
		}
	}
	if err := nd.Redefine(c); err != nil {
		return err
	}
	if slices.Contains(d.PK, nd.ID) {
		nd.Nullable = false
	}
	d.Cols = slices.Delete(d.Cols, i, i+1)
	at, err := d.Position(order, i)
	if err != nil {
		return err
	}
	d.Cols = slices.Insert(d.Cols, at, nd)
	if err := t.checkable(d); err != nil {
		return err
	}
	return t.done(m, d)
}

// checkable refuses a change after which a table has both CHECK constraints and virtual generated
// columns. go-mysql-server writes the rows of such a table, and would not see its constraints. A
// table that has both already may be changed.
func (t *Table) checkable(d *schema.TableDesc) error {
	blind := func(d *schema.TableDesc) bool {
		return len(d.Checks) > 0 && slices.ContainsFunc(d.Cols, func(c schema.ColumnDesc) bool { return c.Virtual })
	}
	if blind(d) && !blind(t.Def.Desc) {
		return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support "+
			"'CHECK constraints of tables with VIRTUAL generated columns': make the columns STORED")
	}
	return nil
}

// CreateCheck implements sql.CheckAlterableTable.
func (t *Table) CreateCheck(ctx *sql.Context, c *sql.CheckDefinition) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	n := *c
	n.Name = checkName(d, n.Name)
	if slices.ContainsFunc(d.Checks, func(c sql.CheckDefinition) bool { return schema.SameName(c.Name, n.Name) }) {
		return mysql.NewSQLError(3822, "HY000", "Duplicate check constraint name '%s'.", n.Name)
	}
	d.Checks = append(d.Checks, n)
	if err := t.checkable(d); err != nil {
		return err
	}
	return t.done(m, d)
}

// checkName is the name of a new constraint: the one that it was given, or the first free one.
func checkName(d *schema.TableDesc, name string) string {
	for i := 1; name == ""; i++ {
		free := d.Name + "_chk_" + strconv.Itoa(i)
		if !slices.ContainsFunc(d.Checks, func(c sql.CheckDefinition) bool { return schema.SameName(c.Name, free) }) {
			name = free
		}
	}
	return name
}

// DropCheck implements sql.CheckAlterableTable.
func (t *Table) DropCheck(ctx *sql.Context, name string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	n := len(d.Checks)
	d.Checks = slices.DeleteFunc(d.Checks, func(c sql.CheckDefinition) bool { return schema.SameName(c.Name, name) })
	if len(d.Checks) == n {
		return mysql.NewSQLError(3821, "HY000", "Check constraint '%s' is not found in the table.", name)
	}
	return t.done(m, d)
}

// ModifyStoredCollation implements sql.CollationAlterableTable: keys hold collation weights.
func (t *Table) ModifyStoredCollation(*sql.Context, sql.CollationID) error {
	return base.Errorf(base.CodeInvalid, "CONVERT TO CHARACTER SET is not supported: modify the columns one by one")
}

// ModifyDefaultCollation implements sql.CollationAlterableTable.
func (t *Table) ModifyDefaultCollation(ctx *sql.Context, c sql.CollationID) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	d.Collation = c
	return t.done(m, d)
}

// ModifyComment implements sql.CommentAlterableTable.
func (t *Table) ModifyComment(ctx *sql.Context, c string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	d.Comment = c
	return t.done(m, d)
}

// Foreign keys are kept by the child table. A change bumps the parent's version too:
// transactions that change parent rows must know which tables refer to them.

// GetDeclaredForeignKeys implements sql.ForeignKeyTable.
func (t *Table) GetDeclaredForeignKeys(ctx *sql.Context) ([]sql.ForeignKeyConstraint, error) {
	cur, err := t.Newest(ctx)
	if err != nil {
		return nil, err
	}
	fks := cur.Desc.Clone().FKs
	if cur.Desc.Locality.Kind == schema.MultiMaster {
		snap, err := t.g.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		for i := range fks {
			t.g.resolve(ctx, snap, &fks[i])
		}
	}
	slices.SortFunc(fks, func(a, b sql.ForeignKeyConstraint) int { return strings.Compare(a.Name, b.Name) })
	return fks, nil
}

// GetReferencedForeignKeys implements sql.ForeignKeyTable.
func (t *Table) GetReferencedForeignKeys(ctx *sql.Context) ([]sql.ForeignKeyConstraint, error) {
	snap, err := t.g.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	db := snap.Database(t.Def.Desc.DB)
	if db == nil {
		return nil, nil
	}
	if err := t.LinksHidden(session.Of(ctx), snap); err != nil {
		return nil, err // the engine would not find the key in the other table
	}
	var out []sql.ForeignKeyConstraint
	for _, fk := range db.ReferencedBy[strings.ToLower(t.Name())] {
		fk.Columns, fk.ParentColumns = slices.Clone(fk.Columns), slices.Clone(fk.ParentColumns)
		if t.Def.Desc.Locality.Kind == schema.MultiMaster {
			t.g.resolve(ctx, snap, &fk)
		}
		out = append(out, fk)
	}
	return out, nil
}

func errForeignKeyName(name string) error {
	return mysql.NewSQLError(1826, "HY000", "Duplicate foreign key constraint name '%s'", name)
}

// AddForeignKey implements sql.ForeignKeyTable. The engine has made an index for the key
// before: one that was built beside writers is there for good, and nobody would publish it.
func (t *Table) AddForeignKey(ctx *sql.Context, fk sql.ForeignKeyConstraint) error {
	err := t.addForeignKey(ctx, fk)
	if err != nil && t.built != 0 {
		if derr := t.dropFailed(ctx, t.built); derr != nil {
			t.g.Log.Warn("the index of a foreign key that is refused remains as write-only", "table", t.Name(), "err", derr)
		}
		t.built = 0
	}
	return err
}

func (t *Table) addForeignKey(ctx *sql.Context, fk sql.ForeignKeyConstraint) error {
	if fk.OnUpdate == sql.ForeignKeyReferentialAction_SetDefault || fk.OnDelete == sql.ForeignKeyReferentialAction_SetDefault {
		return sql.ErrForeignKeySetDefault.New() // as InnoDB
	}
	if s := session.Of(ctx); t.IsTemporary() || s != nil && s.Temporary(fk.ParentDatabase, fk.ParentTable) != nil {
		return errTemporaryForeignKey
	}
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	for _, o := range m.snap().Database(d.DB).Tables {
		for _, k := range o.Desc.FKs {
			if schema.SameName(k.Name, fk.Name) {
				return errForeignKeyName(fk.Name)
			}
		}
	}
	d.FKs = append(d.FKs, fk)
	if err := t.done(m, d); err != nil {
		return err
	}
	return t.touchParent(ctx, m, fk)
}

func (t *Table) touchParent(ctx *sql.Context, m *mutation, fk sql.ForeignKeyConstraint) error {
	p := m.snap().Table(fk.ParentDatabase, fk.ParentTable)
	if p == nil || schema.SameName(fk.ParentTable, t.Name()) && schema.SameName(fk.ParentDatabase, t.Def.Desc.DB) {
		return nil
	}
	if err := m.lockTable(ctx, p); err != nil {
		return err
	}
	_, err := m.putTable(p.Desc.Clone())
	return err
}

// DropForeignKey implements sql.ForeignKeyTable.
func (t *Table) DropForeignKey(ctx *sql.Context, name, _, _ string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(d.FKs, func(k sql.ForeignKeyConstraint) bool { return schema.SameName(k.Name, name) })
	if i < 0 {
		return sql.ErrForeignKeyNotFound.New(name, t.Name())
	}
	fk := d.FKs[i]
	d.FKs = slices.Delete(d.FKs, i, i+1)
	if err := t.done(m, d); err != nil {
		return err
	}
	return t.touchParent(ctx, m, fk)
}

// UpdateForeignKey implements sql.ForeignKeyTable.
func (t *Table) UpdateForeignKey(ctx *sql.Context, name string, fk sql.ForeignKeyConstraint) error {
	m, err := t.g.mutate(ctx)
	if err != nil {
		return err
	}
	// The engine renames the table first and then corrects the keys, or the other way round.
	cur := m.snap().Table(fk.Database, fk.Table)
	if cur == nil {
		cur = m.snap().Table(t.Def.Desc.DB, t.Name())
	}
	if cur == nil {
		return sql.ErrTableNotFound.New(t.Name())
	}
	if err := m.lockTable(ctx, cur); err != nil {
		return err
	}
	d := cur.Desc.Clone()
	d.FKs = slices.DeleteFunc(d.FKs, func(k sql.ForeignKeyConstraint) bool { return schema.SameName(k.Name, name) })
	for _, o := range m.snap().Database(d.DB).Tables {
		for _, k := range o.Desc.FKs {
			if schema.SameName(k.Name, fk.Name) && !schema.SameName(k.Name, name) {
				return errForeignKeyName(fk.Name)
			}
		}
	}
	d.FKs = append(d.FKs, fk)
	if _, err := m.putTable(d); err != nil {
		return err
	}
	return t.touchParent(ctx, m, fk)
}

// CreateIndexForForeignKey implements sql.ForeignKeyTable.
func (t *Table) CreateIndexForForeignKey(ctx *sql.Context, def sql.IndexDef) error {
	return t.createIndex(ctx, def, true)
}

// truncatable is the table for a TRUNCATE statement only: the engine would turn a
// DELETE without WHERE into a TRUNCATE too, which commits and cannot be rolled back.
type truncatable struct{ *Table }

var _ sql.TruncateableTable = truncatable{}

// Truncate implements sql.TruncateableTable: the table gets a new, empty id.
func (t truncatable) Truncate(ctx *sql.Context) (int, error) {
	m, d, err := t.change(ctx)
	if err != nil {
		return 0, err
	}
	m.discard(t.Def)
	if d.ID, err = m.newTableID(ctx, t.Def.Desc.ID.Region()); err != nil {
		return 0, err
	}
	d.AutoKey = uint64(d.ID)
	d.Shards = d.Locality.ShardCount(t.g.DB.Topology().Shards)
	return 0, t.done(m, d)
}
