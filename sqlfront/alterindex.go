package sqlfront

import (
	"slices"
	"strconv"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/vector"
	"github.com/dolthub/go-mysql-server/sql/fulltext"

	"github.com/godwitdb/godwit/base"
)

func itoa(i int) string { return strconv.Itoa(i) }

// defineIndex adds an index to a descriptor.
func (d *tableDesc) defineIndex(def sql.IndexDef, state indexState) (*indexDesc, error) {
	x := indexDesc{
		ID: base.IndexID(d.NextIndex), Name: def.Name, Constraint: def.Constraint, Comment: def.Comment, State: state,
	}
	if x.Name == "" {
		for _, c := range def.Columns {
			x.Name += c.Name + "_"
		}
	}
	if d.index(x.Name) != nil {
		return nil, sql.ErrDuplicateKey.New(x.Name)
	}
	for _, c := range def.Columns {
		i := d.colByName(c.Name)
		if i < 0 {
			return nil, sql.ErrKeyColumnDoesNotExist.New(c.Name)
		}
		col, err := newColumn(&d.Cols[i])
		if err != nil {
			return nil, err
		}
		if x.stored() && !indexable(col) {
			return nil, base.Errorf(base.CodeInvalid, "column %s of type %s cannot be in an index", c.Name, col.typ)
		}
		x.Cols = append(x.Cols, indexCol{d.Cols[i].ID, c.Length})
	}
	if d.Locality.Kind == multi && !x.stored() {
		return nil, invalid("MULTI MASTER tables have ordinary and unique indexes only")
	}
	x.Class = d.classFor(x.Cols, x.Constraint)
	d.NextIndex++
	d.Indexes = append(d.Indexes, x)
	return &d.Indexes[len(d.Indexes)-1], nil
}

// CreateIndex implements sql.IndexAlterableTable. An index of a table that has rows
// is built online: published for writers first, filled by small transactions, then shown to readers.
func (t *sqlTable) CreateIndex(ctx *sql.Context, def sql.IndexDef) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	fresh := t.isNew(m)
	state := indexPublic
	if !fresh && (def.Constraint == sql.IndexConstraint_None || def.Constraint == sql.IndexConstraint_Unique) {
		state = indexWriteOnly
	}
	x, err := d.defineIndex(def, state)
	if err != nil {
		return err
	}
	if state != indexPublic && d.Locality.Kind == multi && t.g.indexesVirtual(d, x) {
		return invalid("a MULTI MASTER table cannot get an index over a virtual column: make the column STORED, or the index with the table")
	}
	if state == indexPublic || t.g.indexesVirtual(d, x) {
		// Values of virtual columns come from the engine (BuildIndex).
		x.State = indexPublic
		return t.done(m, d)
	}
	if err := t.done(m, d); err != nil {
		return err
	}
	return t.buildOnline(ctx, m, x.ID)
}

// indexesVirtual reports whether a column of the index is not stored.
func (g *gateway) indexesVirtual(d *tableDesc, x *indexDesc) bool {
	return slices.ContainsFunc(x.Cols, func(c indexCol) bool { return d.Cols[d.col(c.Col)].Virtual })
}

// isNew reports whether the table was made by this transaction, so that nobody else knows it.
func (t *sqlTable) isNew(m *mutation) bool {
	_, ok := m.txn.made[t.t.desc.ID]
	return ok
}

// ShouldBuildIndex implements sql.IndexBuildingTable: only indexes over virtual columns need the engine.
func (t *sqlTable) ShouldBuildIndex(ctx *sql.Context, def sql.IndexDef) (bool, error) {
	cur, err := t.newest(ctx)
	if err != nil {
		return false, err
	}
	x := cur.desc.index(def.Name)
	return x != nil && x.stored() && t.g.indexesVirtual(cur.desc, x), nil
}

// BuildIndex implements sql.IndexBuildingTable.
func (t *sqlTable) BuildIndex(ctx *sql.Context, def sql.IndexDef) (sql.RowInserter, error) {
	cur, err := t.newest(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range cur.indexes {
		if lowerEq(x.desc.Name, def.Name) {
			if !t.g.indexesVirtual(cur.desc, x.desc) {
				return nothing{}, nil // CreateIndex has built it; the engine asks for every unique index
			}
			return &indexFiller{editor: newSQLTable(t.g, cur).editor(ctx), x: x}, nil
		}
	}
	return nil, sql.ErrIndexNotFound.New(def.Name)
}

// nothing takes rows and does nothing.
type nothing struct{}

func (nothing) StatementBegin(*sql.Context)              {}
func (nothing) DiscardChanges(*sql.Context, error) error { return nil }
func (nothing) StatementComplete(*sql.Context) error     { return nil }
func (nothing) Insert(*sql.Context, sql.Row) error       { return nil }
func (nothing) Close(*sql.Context) error                 { return nil }

// indexFiller writes the entries of one index for rows that the engine passes.
type indexFiller struct {
	*editor
	x *index
}

// Insert implements sql.RowInserter.
func (f *indexFiller) Insert(ctx *sql.Context, row sql.Row) error {
	if f.err != nil {
		return f.err
	}
	if err := f.ready(ctx, row); err != nil {
		return err
	}
	var c change
	var err error
	var home base.RegionID
	if len(f.t.pk) > 0 {
		if c.ref, _, home, err = f.locate(ctx, row); err != nil {
			return err
		}
	} else {
		return base.Errorf(base.CodeInvalid, "an index over a virtual column needs a primary key")
	}
	c.row = row.Copy()
	k, v, err := f.t.indexEntry(ctx, f.x, row, c.ref, home)
	if err != nil {
		return clientError(err)
	}
	f.entry(&c, f.x, k, v, home, row)
	return f.add(ctx, c)
}

// DropIndex implements sql.IndexAlterableTable.
func (t *sqlTable) DropIndex(ctx *sql.Context, name string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(d.Indexes, func(x indexDesc) bool { return lowerEq(x.Name, name) })
	if i < 0 {
		return sql.ErrIndexNotFound.New(name)
	}
	m.discardIndex(d, &d.Indexes[i])
	d.Indexes = slices.Delete(d.Indexes, i, i+1)
	return t.done(m, d)
}

// RenameIndex implements sql.IndexAlterableTable.
func (t *sqlTable) RenameIndex(ctx *sql.Context, from, to string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	x := d.index(from)
	if x == nil {
		return sql.ErrIndexNotFound.New(from)
	}
	if !lowerEq(from, to) && d.index(to) != nil {
		return sql.ErrDuplicateKey.New(to)
	}
	x.Name = to
	return t.done(m, d)
}

// CreateFulltextIndex implements fulltext.IndexAlterableTable: the engine keeps
// the words in tables of its own.
func (t *sqlTable) CreateFulltextIndex(ctx *sql.Context, def sql.IndexDef, key fulltext.KeyColumns, names fulltext.IndexTableNames) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	x, err := d.defineIndex(def, indexPublic)
	if err != nil {
		return err
	}
	x.Fulltext = &fulltextDesc{
		Config: names.Config, Position: names.Position, DocCount: names.DocCount, GlobalCount: names.GlobalCount,
		RowCount: names.RowCount, KeyType: byte(key.Type), KeyName: key.Name,
	}
	for _, p := range key.Positions {
		x.Fulltext.KeyCols = append(x.Fulltext.KeyCols, d.Cols[p].ID)
	}
	return t.done(m, d)
}

// CreateVectorIndex keeps the definition; the index is answered by sorting the table.
func (t *sqlTable) CreateVectorIndex(ctx *sql.Context, def sql.IndexDef, _ vector.DistanceType) error {
	return t.CreateIndex(ctx, def)
}

// wrapped is the editor of the table, together with those of its full-text indexes.
func (t *sqlTable) wrapped(ctx *sql.Context) sql.TableEditor {
	e := t.editor(ctx)
	if e.err != nil || !t.t.fulltext() {
		return e
	}
	multi, err := t.fulltextEditor(ctx, e)
	if err != nil {
		e.err = err
		return e
	}
	return multi
}

// fulltext reports whether the table has full-text indexes.
func (t *table) fulltext() bool {
	return slices.ContainsFunc(t.indexes, func(x *index) bool { return x.desc.Fulltext != nil })
}

func (t *sqlTable) fulltextEditor(ctx *sql.Context, e *editor) (sql.TableEditor, error) {
	fe, err := t.fulltextOver(ctx, func(t *sqlTable) fulltext.EditableTable { return t })
	if err != nil {
		return nil, err
	}
	m, err := fulltext.CreateMultiTableEditor(ctx, e, fe)
	if err != nil || t.g.noAhead || len(t.g.db.Topology().Regions) == 1 {
		return m, err
	}
	return &aheadEditor{MultiTableEditor: m.(fulltext.MultiTableEditor), e: e}, nil
}

// fulltextOver is the engine's editor of the tables behind the full-text indexes.
func (t *sqlTable) fulltextOver(ctx *sql.Context, over func(*sqlTable) fulltext.EditableTable) (none fulltext.TableEditor, err error) {
	snap, err := (&provider{t.g}).snapshotOf(ctx)
	if err != nil {
		return none, err
	}
	find := func(name string) (fulltext.EditableTable, error) {
		o := snap.table(t.t.desc.DB, name)
		if o == nil {
			return nil, sql.ErrTableNotFound.New(name)
		}
		return over(newSQLTable(t.g, o)), nil
	}
	var sets []fulltext.TableSet
	var config fulltext.EditableTable
	for _, ix := range t.t.sqlIndexes() {
		x := ix.(*sqlIndex)
		if !x.IsFullText() {
			continue
		}
		f := x.x.desc.Fulltext
		set := fulltext.TableSet{Index: x}
		for _, p := range []struct {
			name string
			to   *fulltext.EditableTable
		}{{f.Position, &set.Position}, {f.DocCount, &set.DocCount}, {f.GlobalCount, &set.GlobalCount}, {f.RowCount, &set.RowCount}, {f.Config, &config}} {
			if *p.to, err = find(p.name); err != nil {
				return none, err
			}
		}
		sets = append(sets, set)
	}
	return fulltext.CreateEditor(ctx, t, config, sets...)
}

// CreatePrimaryKey implements sql.PrimaryKeyAlterableTable; the engine rewrites the table instead.
func (t *sqlTable) CreatePrimaryKey(*sql.Context, []sql.IndexColumn) error {
	return base.Errorf(base.CodeInvalid, "a primary key is made by rewriting the table")
}

// DropPrimaryKey implements sql.PrimaryKeyAlterableTable; the engine rewrites the table instead.
func (t *sqlTable) DropPrimaryKey(*sql.Context) error {
	return base.Errorf(base.CodeInvalid, "a primary key is dropped by rewriting the table")
}
