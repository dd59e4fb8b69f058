package ddl

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/ddl/like"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// Temporary tables are kept by their session (sql/session/temporary.go). CREATE and DROP TEMPORARY
// TABLE do not commit the transaction, all other changes of a temporary table do, as in MySQL. They
// have no entry in the catalog, so nothing is locked, and no other session waits.

var _ sql.TemporaryTableCreator = (*database)(nil)

// temporary is a temporary table of the session by name; nil if there is none.
func (d *database) temporary(ctx *sql.Context, name string) *schema.Table {
	if s := session.Of(ctx); s != nil {
		return s.Temporary(d.name, name)
	}
	return nil
}

// CreateTemporaryTable implements sql.TemporaryTableCreator.
func (d *database) CreateTemporaryTable(ctx *sql.Context, name string, sch sql.PrimaryKeySchema, coll sql.CollationID) error {
	s := session.Of(ctx)
	if s == nil {
		return base.Errorf(base.CodeInvalid, "temporary tables need a session")
	}
	if s.Temporary(d.name, name) != nil {
		return sql.ErrTableAlreadyExists.New(name)
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	if snap.Database(d.name) == nil {
		return sql.ErrDatabaseNotFound.New(d.name)
	}
	opts := s.Stmt.Create
	s.Stmt.Create = session.TableOptions{}
	if err := refusedOfTemporary(ctx, s, snap); err != nil {
		return err
	}
	desc, err := d.g.describeTable(d.name, name, sch, coll, opts.Comment)
	if err != nil {
		return err
	}
	like.Times(ctx, snap, desc, sch.Schema)
	desc.Locality, desc.Shards = schema.Locality{Kind: schema.Temporary}, 1
	desc.ID = session.NewTemporaryID()
	desc.AutoKey = uint64(desc.ID)
	t, err := schema.NewTable(desc)
	if err != nil {
		return err
	}
	s.PutTemporary(nil, t)
	return nil
}

// refusedOfTemporary refuses what a CREATE TEMPORARY TABLE cannot have, before anything is made.
func refusedOfTemporary(ctx *sql.Context, s *session.Session, snap *schema.Snapshot) error {
	tree, _ := s.Stmt.Tree.(*sqlparser.DDL)
	if tree == nil {
		return nil
	}
	if tree.OptLike != nil {
		for _, from := range like.Tables(s, snap) {
			if from.HasFulltext() {
				return errTemporaryFulltext
			}
		}
	}
	if tree.TableSpec == nil {
		return nil
	}
	for _, o := range tree.TableSpec.TableOpts {
		if strings.EqualFold(o.Name, LocalityOption) {
			return schema.Invalid("a temporary table is kept by its session: it has no LOCALITY and no REPLICATION")
		}
	}
	for _, c := range tree.TableSpec.Constraints {
		if _, fk := c.Details.(*sqlparser.ForeignKeyDefinition); fk {
			return errTemporaryForeignKey
		}
	}
	for _, x := range tree.TableSpec.Indexes {
		switch {
		case x.Info.Fulltext:
			return errTemporaryFulltext
		case x.Info.Primary:
			for _, c := range x.Columns {
				if c.Length != nil {
					return sql.ErrUnsupportedIndexPrefix.New(c.Column.String())
				}
			}
		}
	}
	return nil
}

var (
	errTemporaryForeignKey = mysql.NewSQLError(1215, "HY000", "Cannot add foreign key constraint: temporary tables have none")
	errTemporaryFulltext   = mysql.NewSQLError(1796, "HY000", "Cannot create FULLTEXT index on temporary InnoDB table")
)

// dropTemporary does DROP TABLE, or DROP TEMPORARY TABLE, of a temporary table. done is false if
// the statement is about a stored one.
func (d *database) dropTemporary(ctx *sql.Context, name string) (done bool, err error) {
	s := session.Of(ctx)
	if s == nil {
		return false, nil
	}
	if t := s.Temporary(d.name, name); t != nil {
		s.DropTemporary(t)
		return true, nil
	}
	if tree, _ := s.Stmt.Tree.(*sqlparser.DDL); tree != nil && tree.Temporary {
		return true, sql.ErrUnknownTable.New(name)
	}
	return false, nil
}

// dropsNoTemporary reports whether the statement is DROP TEMPORARY TABLE IF EXISTS and a table is
// no temporary one: the engine would refuse it where MySQL has a note.
func dropsNoTemporary(s *session.Session, db, name string) bool {
	if s == nil {
		return false
	}
	tree, _ := s.Stmt.Tree.(*sqlparser.DDL)
	return tree != nil && tree.Temporary && tree.IfExists && strings.EqualFold(tree.Action, sqlparser.DropStr) &&
		s.Temporary(db, name) == nil
}

// renameTemporary does ALTER TABLE ... RENAME of a temporary table. done is false if the statement
// is about a stored one, as RENAME TABLE always is.
func (d *database) renameTemporary(ctx *sql.Context, oldName, newName string) (done bool, err error) {
	t := d.temporary(ctx, oldName)
	if t == nil {
		return false, nil
	}
	if tree, ok := session.Of(ctx).Stmt.Tree.(*sqlparser.DDL); ok && strings.EqualFold(tree.Action, sqlparser.RenameStr) {
		return false, nil
	}
	if o := d.temporary(ctx, newName); o != nil && o != t {
		return true, sql.ErrTableAlreadyExists.New(newName)
	}
	m, desc, err := New(d.g, t).change(ctx)
	if err != nil {
		return true, err
	}
	desc.Name = newName
	_, err = m.putTable(desc)
	return true, err
}

// changingTemporary begins a change of a temporary table. It commits the transaction, unless the
// statement has begun to change temporary tables already.
func (t *Table) changingTemporary(ctx *sql.Context) (*mutation, *schema.TableDesc, error) {
	s := session.Of(ctx)
	cur := s.Temporary(t.Def.Desc.DB, t.Name())
	if cur == nil {
		return nil, nil, sql.ErrTableNotFound.New(t.Name())
	}
	tx, err := s.Started(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !s.Defines() {
		if tx.KV != nil || tx.ReadOnly {
			if err := s.Restart(ctx, tx); err != nil {
				return nil, nil, err
			}
		}
		tx.Ends = true
		s.BeginDefinitions()
	}
	s.Stmt.Writes, s.Stmt.Planned = true, true
	k, err := tx.Begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &mutation{g: t.g, s: s, txn: tx, kv: k, temporary: cur}, cur.Desc.Clone(), nil
}

// temporarySpan is where the rows of a temporary table, and the entries of its indexes, lie.
func temporarySpan(t *schema.Table) base.Span {
	return base.Span{Start: base.IndexPrefix(t.Shards()[0], t.Desc.ID, 0, 0),
		End: base.IndexPrefix(t.Shards()[0], t.Desc.ID+1, 0, 0)}
}

// discardTemporary removes the entries of an index of a temporary table.
func (m *mutation) discardTemporary(d *schema.TableDesc, x *schema.IndexDesc) {
	p := base.IndexPrefix(m.temporary.Shards()[0], d.ID, x.Key(), 0)
	m.txn.DiscardTemporary(base.Span{Start: p, End: p.PrefixEnd()})
}

// fillTemporary writes the entries of a new index for the rows that there are.
func (t *Table) fillTemporary(ctx *sql.Context, m *mutation, id base.IndexID) (err error) {
	defer func() {
		if err != nil {
			m.s.UndoDefinitions()
		}
	}()
	cur := m.temporary
	var x *schema.Index
	for _, i := range cur.Indexes {
		if i.Desc.ID == id {
			x = i
		}
	}
	kctx := m.s.KVContext(ctx)
	p := base.IndexPrefix(cur.Shards()[0], cur.Desc.ID, 0, 0)
	req := &kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}, Limit: table.FlushRows}
	for req != nil {
		res, err := m.kv.Scan(kctx, *req)
		if err != nil {
			return m.txn.Fail(err)
		}
		es, err := t.entriesOf(kctx, cur, x, res.Rows)
		if err != nil {
			return schema.ClientError(err)
		}
		taken, err := takenBy(kctx, m.kv, es)
		if err != nil {
			return m.txn.Fail(err)
		}
		if taken != nil {
			return session.DuplicateKey(m.s, cur, x, taken, nil)
		}
		for _, e := range es {
			m.kv.Put(e.Key, e.Value, 0)
		}
		if err := m.txn.Full(cur); err != nil {
			return err
		}
		req = res.Next
	}
	return nil
}

// temporaryRewriter writes the rows of a temporary table again under a new id.
type temporaryRewriter struct {
	t    *Table
	m    *mutation
	desc *schema.TableDesc
	e    *table.Editor
	err  error
}

func (t *Table) rewriteTemporary(m *mutation, d *schema.TableDesc) (sql.RowInserter, error) {
	d.ID = session.NewTemporaryID()
	redefineIndexes(d)
	nt, err := schema.NewTable(d)
	if err != nil {
		return nil, err
	}
	return &temporaryRewriter{t: t, m: m, desc: d, e: table.New(t.g.Env, nt).EditorIn(m.txn)}, nil
}

// StatementBegin implements sql.RowInserter.
func (r *temporaryRewriter) StatementBegin(*sql.Context) {}

// StatementComplete implements sql.RowInserter.
func (r *temporaryRewriter) StatementComplete(*sql.Context) error { return nil }

// DiscardChanges implements sql.RowInserter.
func (r *temporaryRewriter) DiscardChanges(_ *sql.Context, err error) error {
	r.err = err
	r.e.Drop()
	r.m.s.UndoDefinitions()
	return nil
}

// Insert implements sql.RowInserter.
func (r *temporaryRewriter) Insert(ctx *sql.Context, row sql.Row) error { return r.e.Insert(ctx, row) }

// Close implements sql.Closer: the new rows take the place of the old ones.
func (r *temporaryRewriter) Close(ctx *sql.Context) error {
	if r.err != nil {
		return nil
	}
	if err := r.e.Flush(ctx); err != nil {
		r.m.s.UndoDefinitions()
		return err
	}
	old := r.t.Def
	if err := r.t.done(r.m, r.desc); err != nil {
		return err
	}
	r.m.discard(old)
	return nil
}

// viewOverTemporary is MySQL's refusal of a view whose query names a temporary table; nil if it
// names none.
func (d *database) viewOverTemporary(ctx *sql.Context) error {
	s := session.Of(ctx)
	if s == nil || !s.HasTemporary() {
		return nil
	}
	tree, _ := s.Stmt.Tree.(*sqlparser.DDL)
	if tree == nil || tree.ViewSpec == nil {
		return nil
	}
	var found error
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		name, ok := n.(sqlparser.TableName)
		if !ok {
			return found == nil, nil
		}
		db := name.DbQualifier.String()
		if db == "" {
			db = s.GetCurrentDatabase()
		}
		if found == nil && s.Temporary(db, name.Name.String()) != nil {
			found = mysql.NewSQLError(1352, "HY000", "View's SELECT refers to a temporary table '%s'", name.Name.String())
		}
		return found == nil, nil
	}, tree.ViewSpec.ViewExpr)
	return found
}

// viewHidden refuses a view whose text may name a temporary table. A view is about stored tables,
// and what it is made of is looked up by name.
func (d *database) viewHidden(ctx *sql.Context, o *schema.ObjectDesc) error {
	s := session.Of(ctx)
	if s == nil || !s.HasTemporary() || !schema.Mentions(o.View.TextDefinition, s.TemporaryIn(d.name)) {
		return nil
	}
	return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'views over tables that temporary "+
		"tables hide': view %s names one, drop or rename the temporary table", o.Name)
}
