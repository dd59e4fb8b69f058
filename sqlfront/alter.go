package sqlfront

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
)

// change begins a schema change of the table: m and a clone of the newest descriptor to alter. It is refused while the
// table gets a successor.
func (t *sqlTable) change(ctx *sql.Context) (*mutation, *tableDesc, error) {
	m, d, err := t.changing(ctx)
	if err == nil && d.Next != nil {
		return nil, nil, clientError(busy(d))
	}
	return m, d, err
}

func (t *sqlTable) changing(ctx *sql.Context) (*mutation, *tableDesc, error) {
	m, err := t.g.mutate(ctx)
	if err != nil {
		return nil, nil, err
	}
	cur := m.snap().table(t.t.desc.DB, t.Name())
	if cur == nil {
		return nil, nil, sql.ErrTableNotFound.New(t.Name())
	}
	if err := m.lockTable(ctx, cur); err != nil {
		return nil, nil, err
	}
	return m, cur.desc.clone(), nil
}

// done writes the altered descriptor; the table object shows it from now on.
func (t *sqlTable) done(m *mutation, d *tableDesc) error {
	nt, err := m.putTable(d)
	if err != nil {
		return err
	}
	t.t, t.full = nt, nt.schema()
	return nil
}

// AddColumn implements sql.AlterableTable: the descriptor changes, no row does.
// Rows written before have the default that a constant expression gives now.
func (t *sqlTable) AddColumn(ctx *sql.Context, c *sql.Column, order *sql.ColumnOrder) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	at, err := d.position(order, len(d.Cols))
	if err != nil {
		return err
	}
	if err := d.addColumn(c, at); err != nil {
		return err
	}
	if !c.Virtual {
		if err := d.Cols[at].setMissing(ctx, c); err != nil {
			return err
		}
	}
	return t.done(m, d)
}

// setMissing notes the value of the column in rows that do not have it.
func (d *columnDesc) setMissing(ctx *sql.Context, c *sql.Column) error {
	var v any
	var err error
	switch {
	case c.Default != nil:
		if v, err = c.Default.Eval(ctx, nil); err != nil {
			return err
		}
	case !c.Nullable:
		v = c.Type.Zero()
	}
	if v == nil {
		return nil
	}
	if v, _, err = c.Type.Convert(ctx, v); err != nil {
		return err
	}
	col, err := newColumn(d)
	if err != nil {
		return err
	}
	d.Missing, err = col.appendPayload(ctx, nil, v)
	return err
}

// position is where a column goes; old is where it goes without an order.
func (d *tableDesc) position(order *sql.ColumnOrder, old int) (int, error) {
	switch {
	case order == nil:
		return old, nil
	case order.First:
		return 0, nil
	}
	i := d.colByName(order.AfterColumn)
	if i < 0 {
		return 0, sql.ErrTableColumnNotFound.New(d.Name, order.AfterColumn)
	}
	return i + 1, nil
}

// DropColumn implements sql.AlterableTable: rows keep the bytes, nobody reads them.
func (t *sqlTable) DropColumn(ctx *sql.Context, name string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := d.colByName(name)
	if i < 0 {
		return sql.ErrTableColumnNotFound.New(t.Name(), name)
	}
	id := d.Cols[i].ID
	if slices.Contains(d.PK, id) {
		return base.Errorf(base.CodeInvalid, "column %s is part of the primary key: change the key first", name)
	}
	k, err := newColumn(&d.Cols[i])
	if err != nil {
		return err
	}
	if !d.Cols[i].Virtual {
		if d.Dropped == nil {
			d.Dropped = map[uint32]kind{}
		}
		d.Dropped[id] = k.kind
	}
	d.Cols = slices.Delete(d.Cols, i, i+1)
	d.Indexes = slices.DeleteFunc(d.Indexes, func(x indexDesc) bool {
		if !slices.ContainsFunc(x.Cols, func(c indexCol) bool { return c.Col == id }) {
			return false
		}
		m.discardIndex(d, &x)
		return true
	})
	return t.done(m, d)
}

// ModifyColumn implements sql.AlterableTable for changes that need no rewrite (see ShouldRewriteTable).
func (t *sqlTable) ModifyColumn(ctx *sql.Context, name string, c *sql.Column, order *sql.ColumnOrder) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := d.colByName(name)
	if i < 0 {
		return sql.ErrTableColumnNotFound.New(t.Name(), name)
	}
	nd := d.Cols[i]
	if c.AutoIncrement && !nd.AutoInc && d.Locality.Kind == multi {
		return invalid("a column of a MULTI MASTER table cannot become AUTO_INCREMENT: make a new table")
	}
	if c.AutoIncrement && !nd.AutoInc {
		if err := t.startCounter(ctx, m, d, i); err != nil {
			return err
		}
	}
	if err := nd.redefine(c); err != nil {
		return err
	}
	if slices.Contains(d.PK, nd.ID) {
		nd.Nullable = false
	}
	d.Cols = slices.Delete(d.Cols, i, i+1)
	at, err := d.position(order, i)
	if err != nil {
		return err
	}
	d.Cols = slices.Insert(d.Cols, at, nd)
	return t.done(m, d)
}

// redefine takes over a new definition of a column; the id and the stored values stay.
func (d *columnDesc) redefine(c *sql.Column) error {
	d.Name, d.Nullable = c.Name, c.Nullable && !c.PrimaryKey
	d.Default, d.Generated, d.OnUpdate = describeExpr(c.Default), describeExpr(c.Generated), describeExpr(c.OnUpdate)
	d.Virtual, d.AutoInc, d.Hidden, d.HiddenSystem = c.Virtual, c.AutoIncrement, c.Hidden, c.HiddenSystem
	d.Comment, d.Extra = c.Comment, c.Extra
	return describeType(d, c.Type)
}

// CreateCheck implements sql.CheckAlterableTable.
func (t *sqlTable) CreateCheck(ctx *sql.Context, c *sql.CheckDefinition) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	n := *c
	for i := 1; n.Name == ""; i++ {
		name := d.Name + "_chk_" + itoa(i)
		if !slices.ContainsFunc(d.Checks, func(c sql.CheckDefinition) bool { return lowerEq(c.Name, name) }) {
			n.Name = name
		}
	}
	if slices.ContainsFunc(d.Checks, func(c sql.CheckDefinition) bool { return lowerEq(c.Name, n.Name) }) {
		return sql.ErrForeignKeyDuplicateName.New(n.Name)
	}
	d.Checks = append(d.Checks, n)
	return t.done(m, d)
}

// DropCheck implements sql.CheckAlterableTable.
func (t *sqlTable) DropCheck(ctx *sql.Context, name string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	n := len(d.Checks)
	d.Checks = slices.DeleteFunc(d.Checks, func(c sql.CheckDefinition) bool { return lowerEq(c.Name, name) })
	if len(d.Checks) == n {
		return base.Errorf(base.CodeInvalid, "check '%s' was not found on the table", name)
	}
	return t.done(m, d)
}

// GetChecks implements sql.CheckTable.
func (t *sqlTable) GetChecks(*sql.Context) ([]sql.CheckDefinition, error) {
	return slices.Clone(t.t.desc.Checks), nil
}

// ModifyStoredCollation implements sql.CollationAlterableTable: keys hold collation weights.
func (t *sqlTable) ModifyStoredCollation(*sql.Context, sql.CollationID) error {
	return base.Errorf(base.CodeInvalid, "CONVERT TO CHARACTER SET is not supported: modify the columns one by one")
}

// ModifyDefaultCollation implements sql.CollationAlterableTable.
func (t *sqlTable) ModifyDefaultCollation(ctx *sql.Context, c sql.CollationID) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	d.Collation = c
	return t.done(m, d)
}

// ModifyComment implements sql.CommentAlterableTable.
func (t *sqlTable) ModifyComment(ctx *sql.Context, c string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	d.Comment = c
	return t.done(m, d)
}

// Foreign keys are kept by the child table. A change bumps the parent's version too:
// transactions that change parent rows must know who references them.

// GetDeclaredForeignKeys implements sql.ForeignKeyTable.
func (t *sqlTable) GetDeclaredForeignKeys(ctx *sql.Context) ([]sql.ForeignKeyConstraint, error) {
	cur, err := t.newest(ctx)
	if err != nil {
		return nil, err
	}
	fks := cur.desc.clone().FKs
	if cur.desc.Locality.Kind == multi {
		snap, err := (&provider{t.g}).snapshotOf(ctx)
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
func (t *sqlTable) GetReferencedForeignKeys(ctx *sql.Context) ([]sql.ForeignKeyConstraint, error) {
	snap, err := (&provider{t.g}).snapshotOf(ctx)
	if err != nil {
		return nil, err
	}
	db := snap.db(t.t.desc.DB)
	if db == nil {
		return nil, nil
	}
	var out []sql.ForeignKeyConstraint
	for _, fk := range db.referencedBy[strings.ToLower(t.Name())] {
		fk.Columns, fk.ParentColumns = slices.Clone(fk.Columns), slices.Clone(fk.ParentColumns)
		if t.t.desc.Locality.Kind == multi {
			t.g.resolve(ctx, snap, &fk)
		}
		out = append(out, fk)
	}
	return out, nil
}

// newest is the table as the statement sees it now, also after its own changes.
func (t *sqlTable) newest(ctx *sql.Context) (*table, error) {
	if t.acc.asOf != 0 {
		return t.t, nil
	}
	snap, err := (&provider{t.g}).snapshotOf(ctx)
	if err != nil {
		return nil, err
	}
	if cur := snap.table(t.t.desc.DB, t.Name()); cur != nil {
		return cur, nil
	}
	return t.t, nil
}

// AddForeignKey implements sql.ForeignKeyTable.
func (t *sqlTable) AddForeignKey(ctx *sql.Context, fk sql.ForeignKeyConstraint) error {
	if fk.OnUpdate == sql.ForeignKeyReferentialAction_SetDefault || fk.OnDelete == sql.ForeignKeyReferentialAction_SetDefault {
		return sql.ErrForeignKeySetDefault.New() // as InnoDB
	}
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	for _, o := range m.snap().db(d.DB).tables {
		for _, k := range o.desc.FKs {
			if lowerEq(k.Name, fk.Name) {
				return sql.ErrForeignKeyDuplicateName.New(fk.Name)
			}
		}
	}
	d.FKs = append(d.FKs, fk)
	if err := t.done(m, d); err != nil {
		return err
	}
	return t.touchParent(ctx, m, fk)
}

func (t *sqlTable) touchParent(ctx *sql.Context, m *mutation, fk sql.ForeignKeyConstraint) error {
	p := m.snap().table(fk.ParentDatabase, fk.ParentTable)
	if p == nil || lowerEq(fk.ParentTable, t.Name()) && lowerEq(fk.ParentDatabase, t.t.desc.DB) {
		return nil
	}
	if err := m.lockTable(ctx, p); err != nil {
		return err
	}
	_, err := m.putTable(p.desc.clone())
	return err
}

// DropForeignKey implements sql.ForeignKeyTable.
func (t *sqlTable) DropForeignKey(ctx *sql.Context, name, _, _ string) error {
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(d.FKs, func(k sql.ForeignKeyConstraint) bool { return lowerEq(k.Name, name) })
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
func (t *sqlTable) UpdateForeignKey(ctx *sql.Context, name string, fk sql.ForeignKeyConstraint) error {
	m, err := t.g.mutate(ctx)
	if err != nil {
		return err
	}
	// The engine renames the table first and then corrects the keys, or the other way round.
	cur := m.snap().table(fk.Database, fk.Table)
	if cur == nil {
		cur = m.snap().table(t.t.desc.DB, t.Name())
	}
	if cur == nil {
		return sql.ErrTableNotFound.New(t.Name())
	}
	if err := m.lockTable(ctx, cur); err != nil {
		return err
	}
	d := cur.desc.clone()
	d.FKs = slices.DeleteFunc(d.FKs, func(k sql.ForeignKeyConstraint) bool { return lowerEq(k.Name, name) })
	for _, o := range m.snap().db(d.DB).tables {
		for _, k := range o.desc.FKs {
			if lowerEq(k.Name, fk.Name) && !lowerEq(k.Name, name) {
				return sql.ErrForeignKeyDuplicateName.New(fk.Name)
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
func (t *sqlTable) CreateIndexForForeignKey(ctx *sql.Context, def sql.IndexDef) error {
	return t.CreateIndex(ctx, def)
}

// truncatable is the table for a TRUNCATE statement only: the engine would turn a
// DELETE without WHERE into a TRUNCATE too, which commits and cannot be rolled back.
type truncatable struct{ *sqlTable }

var _ sql.TruncateableTable = truncatable{}

// Truncate implements sql.TruncateableTable: the table gets a new, empty id.
func (t truncatable) Truncate(ctx *sql.Context) (int, error) {
	m, d, err := t.change(ctx)
	if err != nil {
		return 0, err
	}
	m.discard(t.t)
	if d.ID, err = m.newTableID(ctx, t.t.desc.ID.Region()); err != nil {
		return 0, err
	}
	d.AutoKey = uint64(d.ID)
	d.Shards = t.g.db.Topology().Shards
	return 0, t.done(m, d)
}

// isWidening reports whether values of the old type are stored and ordered alike in the new one.
func isWidening(o, n sql.Type) bool {
	var od, nd columnDesc
	if describeType(&od, o) != nil || describeType(&nd, n) != nil {
		return false
	}
	if od.Type == nd.Type && od.Collation == nd.Collation && slices.Equal(od.Values, nd.Values) && od.srid() == nd.srid() {
		return true
	}
	oc, err1 := newColumn(&od)
	nc, err2 := newColumn(&nd)
	if err1 != nil || err2 != nil || oc.kind != nc.kind {
		return false
	}
	switch oc.kind {
	case kindInt, kindUint:
		if types.IsEnum(o) || types.IsEnum(n) || types.IsSet(o) || types.IsSet(n) || types.IsBit(o) || types.IsBit(n) ||
			types.IsYear(o) || types.IsYear(n) {
			return false
		}
		return oc.bits <= nc.bits && strings.Contains(n.String(), "int") && !(oc.bits == nc.bits)
	case kindString, kindBytes:
		os, ok1 := o.(sql.StringType)
		ns, ok2 := n.(sql.StringType)
		return ok1 && ok2 && os.Type() == ns.Type() && types.IsTextOnly(o) == types.IsTextOnly(n) && !isFixedBinary(o) &&
			!isFixedBinary(n) && oc.coll == nc.coll && os.MaxCharacterLength() <= ns.MaxCharacterLength()
	}
	return false
}

// srid is the spatial reference of the type, -1 if none is given.
func (d *columnDesc) srid() int64 {
	if d.SRID == nil {
		return -1
	}
	return int64(*d.SRID)
}

func isFixedBinary(t sql.Type) bool { return strings.HasPrefix(t.String(), "binary") }
