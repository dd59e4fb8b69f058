package sqlfront

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// ShouldRewriteTable implements sql.RewritableTable: dropped, moved and renamed columns are a
// matter of the descriptor; another type or another primary key is not.
func (t *sqlTable) ShouldRewriteTable(_ *sql.Context, o, n sql.PrimaryKeySchema, oc, nc *sql.Column) bool {
	if len(o.PkOrdinals) != len(n.PkOrdinals) {
		return true
	}
	for i, p := range o.PkOrdinals {
		was, is := o.Schema[p], n.Schema[n.PkOrdinals[i]]
		if !lowerEq(was.Name, is.Name) && !(oc != nil && nc != nil && lowerEq(was.Name, oc.Name) && lowerEq(is.Name, nc.Name)) {
			return true
		}
	}
	if oc == nil || nc == nil {
		return false
	}
	return !isWidening(oc.Type, nc.Type) || oc.Virtual != nc.Virtual
}

// rewriter writes the rows of a table again under a new table id that nobody knows until
// the descriptor is committed. The transaction holds shared locks on all old rows and
// gaps meanwhile, so writers wait and readers go on. The new rows go in by
// transactions of their own, of bounded size.
type rewriter struct {
	t     *sqlTable
	m     *mutation
	nt    *table
	desc  *tableDesc
	batch []rewritten
	err   error
	job   *job
}

// rewriteRows is the size of a batch; below flushRows, so that the editor keeps a batch together.
const rewriteRows = flushRows / 2

type rewritten struct {
	row  sql.Row
	home homeOf
}

// homeOf is where a row lives, and whether it has to stay there.
type homeOf struct {
	region base.RegionID
	pinned bool
}

// RewriteInserter implements sql.RewritableTable.
func (t *sqlTable) RewriteInserter(ctx *sql.Context, o, n sql.PrimaryKeySchema, oc, nc *sql.Column, idxCols []sql.IndexColumn) (sql.RowInserter, error) {
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
	if old.Locality.Kind == multi {
		return nil, errMultiRewrite(old.Name)
	}
	t.acc.lock, t.acc.keepHomes = kv.LockShared, true
	t.acc.target, t.acc.whole = false, false
	d := old.clone()
	d.Cols, d.PK, d.Dropped = nil, nil, nil
	for _, c := range n.Schema {
		was := c.Name
		if nc != nil && oc != nil && lowerEq(c.Name, nc.Name) {
			was = oc.Name
		}
		var cd columnDesc
		if i := old.colByName(was); i >= 0 {
			cd = old.Cols[i]
			cd.Missing = nil
		} else {
			d.NextCol++
			cd.ID = d.NextCol
		}
		if i := old.colByName(was); i >= 0 && !(nc != nil && lowerEq(c.Name, nc.Name)) {
			cd.Nullable = c.Nullable && !c.PrimaryKey
		} else if err := cd.redefine(c); err != nil {
			return nil, err
		}
		d.Cols = append(d.Cols, cd)
	}
	for _, p := range n.PkOrdinals {
		d.Cols[p].Nullable = false
		d.PK = append(d.PK, d.Cols[p].ID)
	}
	return t.rewrite(ctx, m, d, "ALTER TABLE")
}

// rewrite prepares the new table; indexes over columns that are gone go too, the classes of the others are decided anew.
func (t *sqlTable) rewrite(ctx *sql.Context, m *mutation, d *tableDesc, kind string) (*rewriter, error) {
	var err error
	region := t.t.desc.ID.Region()
	if d.Locality.Kind == byTable {
		region = d.Locality.Region
	}
	if d.ID, err = m.newTableID(ctx, region); err != nil {
		return nil, err
	}
	d.Shards = t.g.db.Topology().Shards
	d.Indexes = slices.DeleteFunc(slices.Clone(d.Indexes), func(x indexDesc) bool {
		return slices.ContainsFunc(x.Cols, func(c indexCol) bool { return d.col(c.Col) < 0 })
	})
	for i := range d.Indexes {
		d.Indexes[i].Class = d.classFor(d.Indexes[i].Cols, d.Indexes[i].Constraint)
	}
	nt, err := newTable(d)
	if err != nil {
		return nil, err
	}
	// If this node dies now, what it has written is found and removed.
	if err := t.g.noteGarbage(ctx, nt); err != nil {
		return nil, m.txn.fail(err)
	}
	return &rewriter{t: t, m: m, nt: nt, desc: d, job: t.g.jobs.begin(ctx, kind, t.t)}, nil
}

func (r *rewriter) StatementBegin(*sql.Context)                  {}
func (r *rewriter) DiscardChanges(_ *sql.Context, e error) error { r.err = e; r.job.end(e); return nil }
func (r *rewriter) StatementComplete(*sql.Context) error         { return nil }

// Insert implements sql.RowInserter.
func (r *rewriter) Insert(ctx *sql.Context, row sql.Row) error {
	// Rows come in the order in which they are read, and stay where they are at home.
	home := r.m.txn.lastHome
	if r.desc.Locality.Kind != byRow {
		home.region = r.desc.home()
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
	s := sessionOf(ctx)
	var clash error
	var pins []base.Key
	var homes []base.RegionID
	_, err := kv.Run(s.kvctx(ctx), r.t.g.db, kv.Options{Trace: s.trace}, func(k kv.Txn) error {
		clash, pins, homes = nil, nil, nil
		side := &Txn{s: s, kv: k}
		e := &editor{sqlTable: newSQLTable(r.t.g, r.nt), tx: side, noted: true}
		for _, row := range rows {
			if err := e.Insert(ctx, row.row); err != nil {
				return err
			}
			c := e.ops[len(e.ops)-1]
			if row.home.region != 0 {
				c.setHome(e, row.home.region)
			}
			if row.home.pinned && len(c.ins) > 0 {
				pins = append(pins, c.ins[0].key)
				homes = append(homes, row.home.region)
			}
		}
		if clash = e.flush(ctx); clash != nil && side.raw != nil {
			clash = nil
			return side.raw
		}
		return clash
	})
	if err == nil && len(pins) > 0 && r.desc.Locality.Kind != global {
		_, err = kv.Run(s.kvctx(ctx), r.t.g.db, kv.Options{Trace: s.trace}, func(k kv.Txn) error {
			if _, err := k.Get(s.kvctx(ctx), pins, kv.LockExclusive); err != nil {
				return err
			}
			for i, key := range pins {
				k.Move(key, homes[i], kv.MoveOptions{Pin: kv.PinOn})
			}
			return nil
		})
	}
	if clash == nil {
		clash = clientError(err)
	}
	if clash != nil {
		r.job.end(clash)
		return clash
	}
	r.job.did(ctx, r.t.t, len(rows))
	return nil
}

// setHome gives a new row the home its old version has.
func (c *change) setHome(e *editor, home base.RegionID) {
	for i := range c.ins {
		c.ins[i].home = home
	}
	for i := range c.puts {
		c.puts[i].home = home
	}
	for _, x := range e.t.indexes {
		if x.desc.Class != classByHome || !x.desc.stored() {
			continue
		}
		for i := range c.puts {
			if c.puts[i].key.Index() == x.desc.key() {
				c.puts[i].key[base.IndexPrefixLen] = byte(home)
			}
		}
	}
}

// Close implements sql.Closer: the new table takes the place of the old one when the transaction commits.
func (r *rewriter) Close(ctx *sql.Context) (err error) {
	if r.err != nil {
		r.job.end(r.err)
		return nil
	}
	defer func() { r.job.end(err) }()
	if err := r.flush(ctx); err != nil {
		return err
	}
	if r.desc.Locality.Async && r.t.g.cluster != nil {
		// Rows that were synchronous must not be lost as they become asynchronous.
		if err := r.t.g.cluster.AwaitHeld(ctx); err != nil {
			return clientError(err)
		}
	}
	old := r.t.t
	nt, err := r.m.putTable(r.desc)
	if err != nil {
		return err
	}
	r.m.keepNew(r.desc.ID)
	r.m.discard(old)
	r.t.t, r.t.full = nt, nt.schema()
	for _, x := range nt.indexes {
		if x.desc.Fulltext != nil {
			return fulltext.RebuildTables(ctx, newSQLTable(r.t.g, nt), &sqlDatabase{r.t.g, nt.desc.DB})
		}
	}
	return nil
}
