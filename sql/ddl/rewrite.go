package ddl

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/ddl/convert"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// ShouldRewriteTable implements sql.RewritableTable: dropped, moved and renamed columns are a
// matter of the descriptor; another type or another primary key is not.
func (t *Table) ShouldRewriteTable(_ *sql.Context, o, n sql.PrimaryKeySchema, oc, nc *sql.Column) bool {
	if oc != nil && nc == nil {
		// The engine's new schema still has the ordinals of the old key here. DropColumn refuses
		// columns of the key.
		return false
	}
	if len(o.PkOrdinals) != len(n.PkOrdinals) {
		return true
	}
	for i, p := range o.PkOrdinals {
		was, is := o.Schema[p], n.Schema[n.PkOrdinals[i]]
		if !schema.SameName(was.Name, is.Name) && !(oc != nil && nc != nil && schema.SameName(was.Name, oc.Name) &&
			schema.SameName(is.Name, nc.Name)) {
			return true
		}
	}
	if oc == nil || nc == nil {
		return false
	}
	if i := t.Def.Desc.ColByName(oc.Name); i >= 0 && t.Def.Desc.Locality.Kind != schema.MultiMaster &&
		t.Def.Desc.Cols[i].OldKeys(t.g.DB.Topology().Acts()) {
		return true // and its keys are what new tables have
	}
	return !schema.Widens(oc.Type, nc.Type) || oc.Virtual != nc.Virtual
}

// rewriter writes the rows of a table again under a new table id that is not known until
// the descriptor is committed. The transaction holds shared locks on all old rows and
// gaps meanwhile, so writers wait and readers go on. The new rows go in by
// transactions of their own, of bounded size.
type rewriter struct {
	t     *Table
	m     *mutation
	nt    *schema.Table
	desc  *schema.TableDesc
	batch []rewritten
	err   error
	job   *job
}

// rewriteRows is the size of a batch; below FlushRows, so that the editor keeps a batch together.
const rewriteRows = table.FlushRows / 2

type rewritten struct {
	row  sql.Row
	home session.RowHome
}

// RewriteInserter implements sql.RewritableTable.
func (t *Table) RewriteInserter(ctx *sql.Context, o, n sql.PrimaryKeySchema, oc, nc *sql.Column,
	idxCols []sql.IndexColumn) (sql.RowInserter, error) {
	if len(o.PkOrdinals) > 0 && len(n.PkOrdinals) == 0 {
		if err := sql.ValidatePrimaryKeyDrop(ctx, t, o); err != nil {
			return nil, err
		}
	}
	for _, c := range idxCols {
		i := n.Schema.IndexOfColName(c.Name)
		if i < 0 {
			return nil, sql.ErrColumnNotFound.New(c.Name)
		}
		if col := n.Schema[i]; col.PrimaryKey && c.Length > 0 && types.IsText(col.Type) {
			return nil, sql.ErrUnsupportedIndexPrefix.New(col.Name)
		}
	}
	m, old, err := t.change(ctx)
	if err != nil {
		return nil, err
	}
	if old.Locality.Kind == schema.MultiMaster {
		return nil, errMultiMasterRewrite(old.Name)
	}
	t.Access.Lock, t.Access.KeepHomes = kv.LockShared, true
	t.Access.Target, t.Access.Whole = false, false
	d := old.Clone()
	d.Cols, d.PK, d.Dropped = nil, nil, nil
	for _, c := range n.Schema {
		cd, err := rewrittenColumn(d, old, c, oc, nc)
		if err != nil {
			return nil, err
		}
		d.Cols = append(d.Cols, cd)
	}
	if err := t.checkable(d); err != nil {
		return nil, err
	}
	for _, p := range n.PkOrdinals {
		d.Cols[p].Nullable = false
		d.PK = append(d.PK, d.Cols[p].ID)
	}
	if t.made, err = convert.New(ctx, t.Def, d, oc, nc); err != nil {
		return nil, err
	}
	var in sql.RowInserter
	if m.temporary != nil {
		in, err = t.rewriteTemporary(m, d)
	} else {
		in, err = t.rewrite(ctx, m, d, "ALTER TABLE")
	}
	if err != nil || nc == nil {
		return in, err
	}
	return table.Shifted(ctx, in, oc, nc, n.Schema.IndexOfColName(nc.Name))
}

// rewrittenColumn is a column c of the table as it will be: that of old, the new one nc that takes
// the place of oc, or one that is added.
func rewrittenColumn(d, old *schema.TableDesc, c, oc, nc *sql.Column) (cd schema.ColumnDesc, err error) {
	changed := nc != nil && schema.SameName(c.Name, nc.Name)
	was := c.Name
	if changed && oc != nil {
		was = oc.Name
	}
	i := old.ColByName(was)
	if i >= 0 {
		cd = old.Cols[i]
		cd.Missing = nil
	} else {
		d.NextCol++
		cd.ID = d.NextCol
	}
	if i >= 0 && !changed {
		cd.Nullable = c.Nullable && !c.PrimaryKey
		return cd, nil
	}
	if err = cd.Redefine(c); err == nil {
		cd.NewKeys()
	}
	return cd, err
}

// redefineIndexes leaves out indexes over columns that are gone, and decides anew where the entries
// of the others live.
func redefineIndexes(d *schema.TableDesc) {
	d.Indexes = slices.DeleteFunc(slices.Clone(d.Indexes), func(x schema.IndexDesc) bool {
		return slices.ContainsFunc(x.Cols, func(c schema.IndexedColumn) bool { return d.Col(c.Col) < 0 })
	})
	for i := range d.Indexes {
		d.Indexes[i].Class = d.ClassFor(d.Indexes[i].Cols, d.Indexes[i].Constraint)
	}
}

// rewrite prepares the new table; indexes over columns that are gone go too, the classes of the
// others are decided anew.
func (t *Table) rewrite(ctx *sql.Context, m *mutation, d *schema.TableDesc, kind string) (*rewriter, error) {
	var err error
	region := t.Def.Desc.ID.Region()
	if d.Locality.Kind == schema.ByTable {
		region = d.Locality.Region
	}
	region = d.Locality.Placed.HomeOf(region)
	if d.ID, err = m.newTableID(ctx, region); err != nil {
		return nil, err
	}
	d.Shards = d.Locality.ShardCount(t.g.DB.Topology().Shards)
	redefineIndexes(d)
	t.g.fit(d, t.Def.Desc)
	if err := m.contained(d); err != nil { // before a row is written where it may not lie
		return nil, err
	}
	nt, err := schema.NewTable(d)
	if err != nil {
		return nil, err
	}
	// If this node dies now, what it has written is found and removed.
	if err := t.g.noteGarbage(ctx, nt); err != nil {
		return nil, m.txn.Fail(err)
	}
	return &rewriter{t: t, m: m, nt: nt, desc: d, job: t.g.Jobs.Begin(ctx, kind, t.Def)}, nil
}

func (r *rewriter) StatementBegin(*sql.Context)                  {}
func (r *rewriter) DiscardChanges(_ *sql.Context, e error) error { r.err = e; r.job.end(e); return nil }
func (r *rewriter) StatementComplete(*sql.Context) error         { return nil }

// Insert implements sql.RowInserter.
func (r *rewriter) Insert(ctx *sql.Context, row sql.Row) error {
	// Rows come in the order in which they are read, and stay where they are at home.
	home := r.m.txn.LastHome
	if r.desc.Locality.Kind != schema.ByRow {
		home.Region = r.desc.Home()
	}
	r.batch = append(r.batch, rewritten{row.Copy(), home})
	if len(r.batch) >= rewriteRows {
		return r.flush(ctx)
	}
	return nil
}

// flush writes a batch in a transaction of its own.
func (r *rewriter) flush(ctx *sql.Context) error {
	rows := r.batch
	r.batch = nil
	if len(rows) == 0 {
		return nil
	}
	s := session.Of(ctx)
	var clash error
	var pins []base.Key
	var homes []base.RegionID
	_, err := kv.Run(s.KVContext(ctx), r.t.g.DB, kv.Options{Trace: s.Trace}, func(k kv.Txn) error {
		clash, pins, homes = nil, nil, nil
		side := session.NewTxnOver(s, k)
		e := table.New(r.t.g.Env, r.nt).EditorIn(side)
		for _, row := range rows {
			if err := e.Insert(ctx, row.row); err != nil {
				return err
			}
			key := e.PlaceLast(row.home.Region)
			if row.home.Pinned {
				pins = append(pins, key)
				homes = append(homes, row.home.Region)
			}
		}
		if clash = e.Flush(ctx); clash != nil && side.Raw != nil {
			clash = nil
			return side.Raw
		}
		return clash
	})
	if err == nil && len(pins) > 0 && r.desc.Locality.Kind != schema.Global {
		_, err = kv.Run(s.KVContext(ctx), r.t.g.DB, kv.Options{Trace: s.Trace}, func(k kv.Txn) error {
			if _, err := k.Get(s.KVContext(ctx), pins, kv.LockExclusive); err != nil {
				return err
			}
			for i, key := range pins {
				k.Move(key, homes[i], kv.MoveOptions{Pin: kv.PinOn})
			}
			return nil
		})
	}
	if clash == nil {
		clash = schema.ClientError(err)
	}
	if clash != nil {
		r.job.end(clash)
		return clash
	}
	r.job.did(ctx, r.t.Def, len(rows))
	return nil
}

// Close implements sql.Closer: the new table takes the place of the old one when the transaction
// commits.
func (r *rewriter) Close(ctx *sql.Context) (err error) {
	if r.err != nil {
		r.job.end(r.err)
		return nil
	}
	defer func() { r.job.end(err) }()
	if err := r.flush(ctx); err != nil {
		return err
	}
	if r.desc.Locality.Async && r.t.g.Nodes != nil {
		// Rows that were synchronous must not be lost as they become asynchronous.
		if err := r.t.g.Nodes.AwaitHeld(ctx); err != nil {
			return schema.ClientError(err)
		}
	}
	old := r.t.Def
	nt, err := r.m.putTable(r.desc)
	if err != nil {
		return err
	}
	r.m.keepNew(r.desc.ID)
	r.m.discard(old)
	r.t.Def, r.t.Full = nt, nt.Schema()
	for _, x := range nt.Indexes {
		if x.Desc.Fulltext != nil {
			return fulltext.RebuildTables(ctx, New(r.t.g, nt), &database{r.t.g, nt.Desc.DB})
		}
	}
	return nil
}
