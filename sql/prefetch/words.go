package prefetch

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// The engine keeps a full-text index in tables: it counts the rows that are alike, and for each
// word where it stands, how often in the row and in how many rows. The counts are read before they
// are written, one lookup for each word. All these keys follow from the row alone: they are noted
// by running the engine's own editor over tables that note what is asked of them, and read
// together.

// wordNotes are the keys that rows of a table with full-text indexes lead to.
type wordNotes struct {
	editors []sql.TableEditor
	want    []wantedLookup
	seen    map[string]bool
	inserts bool // keys that must be absent as well
}

func newWordNotes(ctx *sql.Context, t *table.Table) (*wordNotes, error) {
	n := &wordNotes{seen: map[string]bool{}}
	var err error
	n.editors, err = t.FulltextOver(ctx, func(t *table.Table) fulltext.EditableTable { return &notedTable{t, n} }, "")
	return n, err
}

// of are the lookups that a row leads to when it comes, or goes; those noted before are not among
// them.
func (n *wordNotes) of(ctx *sql.Context, row sql.Row, inserts bool) []wantedLookup {
	n.want, n.inserts = nil, inserts
	for _, e := range n.editors {
		if err := e.Insert(ctx, row); err != nil {
			return nil // the editor itself will report it
		}
	}
	return n.want
}

func (n *wordNotes) note(st *table.Table, key base.Key) {
	if !n.seen[string(key)] {
		n.seen[string(key)] = true
		n.want = append(n.want, wantedLookup{st: st, lock: kv.LockExclusive, key: key})
	}
}

// notedTable is one of the tables behind a full-text index, empty and never changed.
type notedTable struct {
	*table.Table
	n *wordNotes
}

// Inserter implements sql.InsertableTable.
func (t *notedTable) Inserter(*sql.Context) sql.RowInserter { return &noteEditor{t.Table, t.n} }

// noteEditor notes the keys of the rows inserted and looked up.
type noteEditor struct {
	*table.Table
	n *wordNotes
}

var (
	_ sql.TableEditor      = (*noteEditor)(nil)
	_ sql.ForeignKeyEditor = (*noteEditor)(nil)
)

func (e *noteEditor) StatementBegin(*sql.Context)                 {}
func (e *noteEditor) DiscardChanges(*sql.Context, error) error    { return nil }
func (e *noteEditor) StatementComplete(*sql.Context) error        { return nil }
func (e *noteEditor) Update(*sql.Context, sql.Row, sql.Row) error { return nil }
func (e *noteEditor) Delete(*sql.Context, sql.Row) error          { return nil }
func (e *noteEditor) Close(*sql.Context) error                    { return nil }

// Insert implements sql.RowInserter.
func (e *noteEditor) Insert(ctx *sql.Context, row sql.Row) error {
	if !e.n.inserts {
		return nil
	}
	ref, err := e.Def.RefOf(ctx, row)
	if err == nil {
		e.n.note(e.Table, e.Def.RowKey(ref))
	}
	return err
}

// IndexedAccess implements sql.ForeignKeyEditor.
func (e *noteEditor) IndexedAccess(ctx *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	i, ok := l.Index.(*schema.EngineIndex)
	ranges, rok := l.Ranges.(sql.MySQLRangeCollection)
	if ok && rok && len(ranges) == 1 {
		if k, err := i.KeyRangeOf(ctx, ranges[0]); err == nil && k.Point && !k.Empty {
			e.n.note(e.Table, i.PointKey(k))
		}
	}
	return noRows{}
}

// aheadEditor reads all that a changed row leads to in full-text indexes together. Where the rows
// of a statement were looked at before, all of it is at hand.
type aheadEditor struct {
	fulltext.MultiTableEditor
	e     *table.Editor
	notes *wordNotes
	kept  bool
}

func (a *aheadEditor) ahead(ctx *sql.Context, old, row sql.Row) error {
	if a.e.Err != nil {
		return a.e.Err
	}
	if _, err := a.e.Txn.Begin(ctx); err != nil {
		return err
	}
	a.e.Note()
	if a.notes == nil {
		var err error
		if a.notes, err = newWordNotes(ctx, a.e.Table); err != nil {
			return err
		}
	}
	if !a.kept {
		a.kept = true
		a.e.Txn.Session.UseAhead()
	}
	var want []wantedLookup
	if old != nil {
		want = a.notes.of(ctx, old, false)
	}
	if row != nil {
		want = append(want, a.notes.of(ctx, row, !a.e.Blind)...)
	}
	keys := make([]base.Key, len(want))
	for i, w := range want {
		keys[i] = w.key
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := a.e.Txn.KV.Ahead(a.e.Txn.Session.KVContext(ctx), keys, nil, kv.LockExclusive); err != nil {
		return a.e.Txn.Fail(err)
	}
	return nil
}

// Insert implements sql.RowInserter.
func (a *aheadEditor) Insert(ctx *sql.Context, row sql.Row) error {
	if err := a.ahead(ctx, nil, row); err != nil {
		return err
	}
	return a.MultiTableEditor.Insert(ctx, row)
}

// Update implements sql.RowUpdater.
func (a *aheadEditor) Update(ctx *sql.Context, old, row sql.Row) error {
	if err := a.ahead(ctx, old, row); err != nil {
		return err
	}
	return a.MultiTableEditor.Update(ctx, old, row)
}

// Delete implements sql.RowDeleter.
func (a *aheadEditor) Delete(ctx *sql.Context, row sql.Row) error {
	if err := a.ahead(ctx, row, nil); err != nil {
		return err
	}
	return a.MultiTableEditor.Delete(ctx, row)
}

// Close implements sql.Closer.
func (a *aheadEditor) Close(ctx *sql.Context) error {
	if a.kept {
		a.kept = false
		a.e.Txn.Session.ForgetAhead()
	}
	return a.MultiTableEditor.Close(ctx)
}
