package ddl

import (
	"fmt"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/vector"
	"github.com/dolthub/go-mysql-server/sql/fulltext"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// CreateIndex implements sql.IndexAlterableTable. An index of a table that has rows is built
// online: published for writers first, filled by small transactions, then shown to readers.
func (t *Table) CreateIndex(ctx *sql.Context, def sql.IndexDef) error {
	return t.createIndex(ctx, def, false)
}

// createIndex is CreateIndex; generated: a foreign key needs the index, and nobody asked for it.
func (t *Table) createIndex(ctx *sql.Context, def sql.IndexDef, generated bool) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	fresh := t.isNew(m) || m.temporary != nil
	built := slices.Clone(m.s.Stmt.Unpublished)
	if len(built) > 0 && !fresh {
		// The statement has done nothing since: they are shown with this one, or not at all.
		m.txn.Rollback()
		m.txn.Reset()
		if m, d, err = t.change(ctx); err != nil {
			return err
		}
	}
	state := schema.IndexPublic
	if !fresh && (def.Constraint == sql.IndexConstraint_None || def.Constraint == sql.IndexConstraint_Unique) {
		state = schema.IndexWriteOnly
	}
	x, err := d.DefineIndex(def, state)
	if err != nil {
		return err
	}
	x.Generated = generated
	warnDuplicate(ctx, d, x)
	if state != schema.IndexPublic && d.Locality.Kind == schema.MultiMaster && t.g.indexesVirtual(d, x) {
		return schema.Invalid("a MULTI MASTER table cannot get an index over a virtual column: " +
			"make the column STORED, or the index with the table")
	}
	if m.temporary != nil && x.Stored() && !t.g.indexesVirtual(d, x) {
		if err := t.done(m, d); err != nil {
			return err
		}
		return t.fillTemporary(ctx, m, x.ID)
	}
	if state == schema.IndexPublic || t.g.indexesVirtual(d, x) {
		// Values of virtual columns come from the engine (BuildIndex).
		x.State = schema.IndexPublic
		m.discardSuperseded(d, x.ID)
		return t.done(m, d)
	}
	x.Builder = t.g.DB.Node()
	t.g.building.Store(indexOf{d.ID, x.ID}, ctx.Context)
	if err := t.done(m, d); err != nil {
		return err
	}
	return t.buildOnline(ctx, m, x.ID, built)
}

// warnDuplicate warns if another index has the same columns.
func warnDuplicate(ctx *sql.Context, d *schema.TableDesc, x *schema.IndexDesc) {
	s := session.Of(ctx)
	if s != nil && slices.ContainsFunc(d.Indexes, func(y schema.IndexDesc) bool {
		return y.Name != x.Name && y.Constraint == x.Constraint && !y.Generated && slices.Equal(y.Cols, x.Cols)
	}) {
		s.BaseSession.Warn(&sql.Warning{Level: "Warning", Code: session.DuplicateIndex,
			Message: fmt.Sprintf("Duplicate index '%s' defined on the table '%s.%s'. This is deprecated and will be "+
				"disallowed in a future release.", x.Name, d.DB, d.Name)})
	}
}

// discardSuperseded drops the indexes that another one makes superfluous.
func (m *mutation) discardSuperseded(d *schema.TableDesc, by base.IndexID) {
	for _, x := range d.TakeSuperseded(by) {
		m.discardIndex(d, &x)
	}
}

// indexesVirtual reports whether a column of the index is not stored.
func (g *Env) indexesVirtual(d *schema.TableDesc, x *schema.IndexDesc) bool {
	return slices.ContainsFunc(x.Cols, func(c schema.IndexedColumn) bool { return d.Cols[d.Col(c.Col)].Virtual })
}

// isNew reports whether this transaction has made the table, so that no other one knows it.
func (t *Table) isNew(m *mutation) bool {
	_, ok := m.txn.Made[t.Def.Desc.ID]
	return ok
}

// ShouldBuildIndex implements sql.IndexBuildingTable: over virtual columns the engine fills it.
func (t *Table) ShouldBuildIndex(ctx *sql.Context, def sql.IndexDef) (bool, error) {
	cur, err := t.Newest(ctx)
	if err != nil {
		return false, err
	}
	x := cur.Desc.Index(def.Name)
	return x != nil && x.Stored() && t.g.indexesVirtual(cur.Desc, x), nil
}

// BuildIndex implements sql.IndexBuildingTable.
func (t *Table) BuildIndex(ctx *sql.Context, def sql.IndexDef) (sql.RowInserter, error) {
	cur, err := t.Newest(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range cur.Indexes {
		if schema.SameName(x.Desc.Name, def.Name) {
			if !t.g.indexesVirtual(cur.Desc, x.Desc) {
				// CreateIndex has built it; the engine asks for every unique index
				return table.Filled{}, nil
			}
			return table.New(t.g.Env, cur).IndexFiller(ctx, x), nil
		}
	}
	return nil, sql.ErrIndexNotFound.New(def.Name)
}

// DropIndex implements sql.IndexAlterableTable.
func (t *Table) DropIndex(ctx *sql.Context, name string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(d.Indexes, func(x schema.IndexDesc) bool { return schema.SameName(x.Name, name) })
	if i < 0 {
		return sql.ErrIndexNotFound.New(name)
	}
	if s := session.Of(ctx); s != nil && slices.Contains(s.Stmt.Shortened, d.Indexes[i].Name) {
		s.Stmt.Place = i
	}
	m.discardIndex(d, &d.Indexes[i])
	d.Indexes = slices.Delete(d.Indexes, i, i+1)
	return t.done(m, d)
}

// RenameIndex implements sql.IndexAlterableTable.
func (t *Table) RenameIndex(ctx *sql.Context, from, to string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	x := d.Index(from)
	if x == nil {
		return sql.ErrIndexNotFound.New(from)
	}
	if !schema.SameName(from, to) && d.Index(to) != nil {
		return sql.ErrDuplicateKey.New(to)
	}
	x.Name = to
	if s := session.Of(ctx); s != nil && slices.Contains(s.Stmt.Shortened, to) && s.Stmt.IndexNames[from] == to {
		at := slices.IndexFunc(d.Indexes, func(x schema.IndexDesc) bool { return x.Name == to })
		moved := d.Indexes[at]
		d.Indexes = slices.Insert(slices.Delete(d.Indexes, at, at+1), s.Stmt.Place, moved)
	}
	return t.done(m, d)
}

// CreateFulltextIndex implements fulltext.IndexAlterableTable: the words lie in tables that the
// engine has made. It fills the index: the engine would fill all of the table once more, and by
// words whatever their parsers.
func (t *Table) CreateFulltextIndex(ctx *sql.Context, def sql.IndexDef, key fulltext.KeyColumns,
	names fulltext.IndexTableNames) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	var parser string
	parser, def.Comment = schema.SplitParser(def.Comment)
	x, err := d.DefineIndex(def, schema.IndexPublic)
	if err != nil {
		return err
	}
	x.Fulltext = &schema.FulltextDesc{
		Config: names.Config, Position: names.Position, DocCount: names.DocCount, GlobalCount: names.GlobalCount,
		RowCount: names.RowCount, KeyType: byte(key.Type), KeyName: key.Name,
		Parser: parser,
	}
	for _, p := range key.Positions {
		x.Fulltext.KeyCols = append(x.Fulltext.KeyCols, d.Cols[p].ID)
	}
	if err := t.done(m, d); err != nil {
		return err
	}
	t.filled = true
	return t.Table.FillFulltext(ctx, def.Name)
}

// CreateVectorIndex keeps the definition; the index is answered by sorting the table.
func (t *Table) CreateVectorIndex(ctx *sql.Context, def sql.IndexDef, _ vector.DistanceType) error {
	return t.CreateIndex(ctx, def)
}

// CreatePrimaryKey implements sql.PrimaryKeyAlterableTable; the engine rewrites the table instead.
func (t *Table) CreatePrimaryKey(*sql.Context, []sql.IndexColumn) error {
	return base.Errorf(base.CodeInvalid, "a primary key is made by rewriting the table")
}

// DropPrimaryKey implements sql.PrimaryKeyAlterableTable; the engine rewrites the table instead.
func (t *Table) DropPrimaryKey(*sql.Context) error {
	return base.Errorf(base.CodeInvalid, "a primary key is dropped by rewriting the table")
}
