package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/wire"
)

// FlushRows is how many changed rows an editor gathers before it checks their keys in one go.
const FlushRows = 512

// rowsUnasked is how many rows an editor writes before it asks again.
const rowsUnasked = 16

// Editor applies the changes of one statement to one table. Changes are gathered and
// sent to the kv transaction in batches, so that the keys which must be absent are
// read together and no row costs a trip of its own.
type Editor struct {
	*Table
	Txn   *session.Txn // its kv transaction may be replaced by a schema change: never keep that
	save  int          // savepoint at the beginning of the statement
	saved bool
	ops   []change
	Err   error // from opening; reported by the first change
	// How duplicates are found, noted at the first change: a statement
	// in a trigger or procedure sets its own in the session meanwhile.
	noted         bool
	Blind, perRow bool
	// what the next Update makes of its row, if it depends on nothing else
	Patch *wire.Patch
	hold  bool // send nothing before the statement ends: it still reads the table
	// Most is how many changed rows are gathered before they are sent; 0: FlushRows.
	Most int
	// Ask says every few rows that are written whether the statement may go on, and waits until it
	// may; nil: nobody does. Rows of a transaction that lie in files take long.
	Ask  func() error
	room int                   // bytes of the last row, and some more
	keys []session.InsertedKey // room for those of a row
}

// Note keeps how duplicates are found: a statement in a trigger or procedure sets its own facts in
// the session meanwhile.
func (e *Editor) Note() {
	if !e.noted {
		e.noted, e.Blind, e.perRow, e.hold = true, e.Txn.Session.Stmt.Blind, e.Txn.Session.Stmt.PerRow, e.Txn.Session.Stmt.Hold
	}
}

// change is one row changed.
type change struct {
	row  sql.Row // new, nil for deletes
	dels []base.Key
	puts []schema.Write
	ins  []insert
	// moves are keys that go with the row to another home.
	moves []base.Key
	to    base.RegionID
	// what makes the first of puts of the row as it was, if that depends on nothing else
	patch *wire.Patch
	ref   schema.RowRef
	was   formerRow // of tables with a successor
	// byValue: the row was found by its value, as it has no key (session.Txn.NoteHidden).
	byValue bool
}

type insert struct {
	schema.Write
	x *schema.Index // nil: the row
}

var (
	_ sql.TableEditor         = (*Editor)(nil)
	_ sql.ForeignKeyEditor    = (*Editor)(nil)
	_ sql.AutoIncrementSetter = (*Editor)(nil)
)

// Editor is an editor of the table in the transaction of the session. An error is reported by its
// first change.
func (t *Table) Editor(ctx *sql.Context) *Editor {
	e := &Editor{Table: t}
	s := session.Of(ctx)
	if s == nil {
		e.Err = base.Errorf(base.CodeInvalid, "changing table %s needs a session", t.Name())
		return e
	}
	if t.Access.AsOf != 0 {
		e.Err = fmt.Errorf("table %s is read AS OF a time and cannot be changed", t.Name())
		return e
	}
	tx, err := s.Started(ctx)
	if err != nil {
		e.Err = err
		return e
	}
	e.Txn = tx
	if tx.ReadOnly && !t.IsTemporary() {
		e.Err = sql.ErrReadOnlyTransaction.New()
		return e
	}
	s.Stmt.Writes = true
	if _, e.Err = tx.Begin(ctx); e.Err != nil {
		return e
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		e.Err = err
		return e
	}
	if e.Err = t.LinksHidden(s, snap); e.Err != nil {
		return e
	}
	tx.Pin(snap, t.Def)
	if t.Def.Desc.Locality.Kind == schema.MultiMaster {
		e.Err = tx.HoldMultiMaster(ctx, t.Def)
	}
	return e
}

// Inserter implements sql.InsertableTable.
func (t *Table) Inserter(ctx *sql.Context) sql.RowInserter { return t.wrapped(ctx) }

// Updater implements sql.UpdatableTable.
func (t *Table) Updater(ctx *sql.Context) sql.RowUpdater { return t.wrapped(ctx) }

// Replacer implements sql.ReplaceableTable.
func (t *Table) Replacer(ctx *sql.Context) sql.RowReplacer { return t.wrapped(ctx) }

// Deleter implements sql.DeletableTable.
func (t *Table) Deleter(ctx *sql.Context) sql.RowDeleter { return t.wrapped(ctx) }

// AutoIncrementSetter implements sql.AutoIncrementTable.
func (t *Table) AutoIncrementSetter(ctx *sql.Context) sql.AutoIncrementSetter {
	return t.Editor(ctx)
}

// GetForeignKeyEditor implements sql.ForeignKeyTable.
func (t *Table) GetForeignKeyEditor(ctx *sql.Context) sql.ForeignKeyEditor {
	if e, ok := t.wrapped(ctx).(sql.ForeignKeyEditor); ok {
		return e
	}
	return t.Editor(ctx)
}

// StatementBegin implements sql.EditOpenerCloser.
func (e *Editor) StatementBegin(ctx *sql.Context) {
	if e.Err != nil {
		return
	}
	if _, e.Err = e.Txn.Begin(ctx); e.Err != nil {
		return
	}
	if e.Err = e.Txn.Flush(ctx, nil); e.Err != nil {
		return
	}
	e.Note()
	e.save, e.saved = e.Txn.Mark(), true
}

// DiscardChanges implements sql.EditOpenerCloser.
func (e *Editor) DiscardChanges(*sql.Context, error) error {
	e.ops = nil
	e.unlist()
	if e.Txn != nil && e.IsTemporary() {
		e.Txn.Session.UndoDefinitions() // of CREATE TEMPORARY TABLE ... SELECT
	}
	if e.saved && !e.Txn.Over {
		e.Txn.RollbackToMark(e.save)
	}
	if e.Txn != nil && e.alone() && !e.perRow && !e.Txn.Session.Nested() {
		// The engine forgets to end an autocommit transaction whose statement failed.
		e.Txn.Discarded = true
	}
	return nil
}

// alone reports whether the statement is a transaction of its own. In a session with autocommit = 0
// none is, although the engine knows no START TRANSACTION there.
func (e *Editor) alone() bool {
	return !e.Txn.Session.GetIgnoreAutoCommit() && e.Txn.Session.Autocommit()
}

// StatementComplete implements sql.EditOpenerCloser.
func (e *Editor) StatementComplete(ctx *sql.Context) error {
	if e.Err != nil {
		return e.Err
	}
	// A statement may change several tables, by foreign keys; their editors complete in any order.
	err := e.Txn.Flush(ctx, nil)
	if err != nil {
		e.Txn.DropChanges()
		_ = e.DiscardChanges(ctx, err)
	}
	return err
}

// Close implements sql.Closer.
func (e *Editor) Close(ctx *sql.Context) error {
	if e.Err != nil {
		return e.Err
	}
	if e.Txn.Over {
		return nil
	}
	return e.Flush(ctx)
}

// IndexedAccess implements sql.ForeignKeyEditor: the rows found may be changed through the editor.
func (e *Editor) IndexedAccess(_ *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	c := *e.Table
	c.Access = &Access{Lock: kv.LockExclusive, Whole: true}
	return &Indexed{&c, l}
}

func (e *Editor) unlist() {
	if e.Txn != nil {
		e.Txn.DropEditor(e)
	}
}

// add gathers a change and sends what is gathered when it is enough.
func (e *Editor) add(ctx *sql.Context, c change) error {
	if len(e.ops) == 0 {
		e.Txn.AddEditor(e)
	}
	e.Note()
	e.Txn.Session.Reach(e.Def.Desc.DB, e.Def.Desc.Name)
	e.ops = append(e.ops, c)
	if e.perRow || len(e.ops) >= cmp.Or(e.Most, FlushRows) && !e.hold {
		return e.Flush(ctx)
	}
	return nil
}

// change is room for the next change: that of one that was sent.
func (e *Editor) change() change {
	if n := len(e.ops); n < cap(e.ops) {
		return e.ops[:n+1][n].emptied()
	}
	return change{}
}

// emptied is a change of nothing with the room of this one.
func (c *change) emptied() change {
	clear(c.dels)
	clear(c.puts)
	clear(c.ins)
	return change{dels: c.dels[:0], puts: c.puts[:0], ins: c.ins[:0]}
}

// rowHome is the home for the index entries of a new row.
func (e *Editor) rowHome(s base.ShardID) base.RegionID {
	if h := e.Def.Desc.Home(); h != 0 {
		return h
	}
	return e.Def.HomeFor(s, cmp.Or(e.Txn.Home, e.Txn.Session.Home()))
}

// newHome is the home for the index entries of a row that gets a key. A row that the transaction
// has deleted is there until it commits, and keeps its home when it is written again (kv.Writer),
// so its entries must be where whoever finds that row looks for them.
func (e *Editor) newHome(key base.Key) base.RegionID {
	if e.Def.ByHome() {
		if h, ok := e.Txn.HomeOf(key); ok {
			return h
		}
	}
	return e.rowHome(key.Shard())
}

// noteGone remembers the home of a row that is deleted, for newHome.
func (e *Editor) noteGone(key base.Key, home base.RegionID) {
	if e.Def.ByHome() && home != 0 && home != e.rowHome(key.Shard()) {
		e.Txn.NoteHome(key, home)
	}
}

// Insert implements sql.RowInserter.
func (e *Editor) Insert(ctx *sql.Context, row sql.Row) error {
	if e.Err != nil {
		return e.Err
	}
	if err := e.ready(ctx, row); err != nil {
		return err
	}
	var err error
	if e.Txn.Session.Stmt.Zone != nil {
		if row, err = e.inUTC(ctx, row); err != nil {
			return err
		}
	}
	row = e.Def.AsKept(row)
	c := e.change()
	c.row = row.Copy()
	if len(e.Def.PK) > 0 {
		c.ref, err = e.Def.RefOf(ctx, row)
	} else {
		c.ref = e.Def.HiddenRef(e.Env.rowIDs.next())
	}
	if err != nil {
		return schema.ClientError(err)
	}
	value, err := e.encode(ctx, row)
	if err != nil {
		return schema.ClientError(err)
	}
	key := e.Def.RowKey(c.ref)
	home := e.newHome(key)
	c.ins = append(c.ins, insert{schema.Write{Key: key, Value: value, Home: e.Def.Desc.Home()}, nil})
	for _, x := range e.Def.Indexes {
		if !x.Desc.Stored() {
			continue
		}
		k, v, err := e.Def.IndexEntry(ctx, x, row, c.ref, home)
		if err != nil {
			return schema.ClientError(err)
		}
		e.entry(&c, x, k, v, home, row)
	}
	return e.add(ctx, c)
}

// encode is the row as it is stored, in memory of about its size: rows of a statement mostly are
// about as long as the one before.
func (e *Editor) encode(ctx *sql.Context, row sql.Row) ([]byte, error) {
	value, err := e.Def.AppendRow(ctx, make([]byte, 0, e.room), row)
	e.room = len(value) + len(value)/16
	return value, err
}

// entry adds an index entry to a change: one that must be absent if the index is unique.
func (e *Editor) entry(c *change, x *schema.Index, k base.Key, v []byte, home base.RegionID, row sql.Row) {
	if home = e.Def.HomeAt(k, home); x.Desc.Class == schema.ClassGlobal {
		home = 0
	}
	if x.Desc.Unique() && !x.HasNull(row) {
		c.ins = append(c.ins, insert{schema.Write{Key: k, Value: v, Home: home}, x})
		return
	}
	c.puts = append(c.puts, schema.Write{Key: k, Value: v, Home: home})
}

// ready checks a row and that there is a kv transaction to change it in.
func (e *Editor) ready(ctx *sql.Context, row sql.Row) error {
	if _, err := e.Txn.Begin(ctx); err != nil {
		return err
	}
	if len(row) != len(e.Def.Cols) {
		return sql.ErrUnexpectedRowLength.New(len(e.Def.Cols), len(row))
	}
	return nil
}

// locate finds where an existing row is and its home, if an index needs to know it.
func (e *Editor) locate(ctx *sql.Context, row sql.Row) (ref schema.RowRef, home base.RegionID, err error) {
	if len(e.Def.PK) > 0 {
		if ref, err = e.Def.RefOf(ctx, row); err != nil {
			return ref, 0, schema.ClientError(err)
		}
	} else {
		enc, err := e.Def.AppendRow(ctx, nil, row)
		if err != nil {
			return ref, 0, schema.ClientError(err)
		}
		var ok bool
		if ref, ok = e.Txn.TakeHidden(e.Def, enc); !ok {
			return ref, 0, sql.ErrDeleteRowNotFound.New()
		}
	}
	home, err = e.homeOf(ctx, e.Def.RowKey(ref))
	return ref, home, err
}

// homeOf is the home of an existing row, if an index needs to know it.
func (e *Editor) homeOf(ctx *sql.Context, key base.Key) (home base.RegionID, err error) {
	if !e.Def.ByHome() {
		return 0, nil
	}
	if h, ok := e.Txn.HomeOf(key); ok {
		return h, nil
	}
	if err := e.Flush(ctx); err != nil {
		return 0, err
	}
	rows, err := e.Txn.KV.Get(e.Txn.Session.KVContext(ctx), []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return 0, e.Txn.Fail(err)
	}
	home = rows[0].Home
	if home == 0 {
		home = e.rowHome(key.Shard())
	}
	e.Txn.NoteHome(key, home)
	return home, nil
}

// locateAt is locate for a row as the statement has read it for update, which knows key and home.
func (e *Editor) locateAt(ctx *sql.Context, at kv.Row, row sql.Row) (ref schema.RowRef, home base.RegionID, err error) {
	ref = schema.RefOfKey(at.Key)
	if len(e.Def.PK) == 0 {
		if err := e.Txn.ForgetHidden(ctx, e.Def, row, ref); err != nil {
			return ref, 0, schema.ClientError(err)
		}
	}
	if e.Def.ByHome() {
		home = cmp.Or(at.Home, e.rowHome(ref.Shard))
	}
	return ref, home, nil
}

// Delete implements sql.RowDeleter.
func (e *Editor) Delete(ctx *sql.Context, row sql.Row) error {
	if e.Err != nil {
		return e.Err
	}
	if err := e.ready(ctx, row); err != nil {
		return err
	}
	ref, home, err := e.locate(ctx, row)
	if err != nil {
		return err
	}
	return e.deleteRow(ctx, ref, home, row)
}

// DeleteAt is Delete of a row that the statement has read for update.
func (e *Editor) DeleteAt(ctx *sql.Context, at kv.Row, row sql.Row) error {
	if e.Err != nil {
		return e.Err
	}
	if err := e.ready(ctx, row); err != nil {
		return err
	}
	ref, home, err := e.locateAt(ctx, at, row)
	if err != nil {
		return err
	}
	return e.deleteRow(ctx, ref, home, row)
}

func (e *Editor) deleteRow(ctx *sql.Context, ref schema.RowRef, home base.RegionID, row sql.Row) error {
	c := e.change()
	c.ref, c.dels = ref, append(c.dels, e.Def.RowKey(ref))
	e.noteGone(c.dels[0], home)
	if e.Def.Next != nil {
		c.was = formerRow{row.Copy(), ref}
	}
	for _, x := range e.Def.Indexes {
		if !x.Desc.Stored() {
			continue
		}
		k, _, err := e.Def.IndexEntry(ctx, x, row, ref, home)
		if err != nil {
			return schema.ClientError(err)
		}
		c.dels = append(c.dels, k)
	}
	return e.add(ctx, c)
}

// Update implements sql.RowUpdater.
func (e *Editor) Update(ctx *sql.Context, old, row sql.Row) error {
	if e.Err != nil {
		return e.Err
	}
	if err := e.ready(ctx, row); err != nil {
		return err
	}
	ref, home, err := e.locate(ctx, old)
	if err != nil {
		return err
	}
	return e.updateAt(ctx, ref, home, old, row, true)
}

// UpdateAt is Update of a row that the statement has read for update.
func (e *Editor) UpdateAt(ctx *sql.Context, at kv.Row, old, row sql.Row) error {
	if e.Err != nil {
		return e.Err
	}
	if err := e.ready(ctx, row); err != nil {
		return err
	}
	ref, home, err := e.locateAt(ctx, at, old)
	if err != nil {
		return err
	}
	return e.updateAt(ctx, ref, home, old, row, false)
}

// updateAt gathers the change of the row at ref.
func (e *Editor) updateAt(ctx *sql.Context, ref schema.RowRef, home base.RegionID, old, row sql.Row, byValue bool) error {
	row = e.Def.AsKept(row)
	c := e.change()
	c.row, c.byValue = row.Copy(), byValue
	if e.Def.Next != nil {
		c.was = formerRow{old.Copy(), ref}
	}
	value, err := e.encode(ctx, row)
	if err != nil {
		return schema.ClientError(err)
	}
	c.ref = ref
	if len(e.Def.PK) > 0 && !e.Def.SameKey(old, row) {
		if c.ref, err = e.Def.RefOf(ctx, row); err != nil {
			return schema.ClientError(err)
		}
	}
	newHome := e.updateRow(&c, ref, home, value)
	for _, x := range e.Def.Indexes {
		if !x.Desc.Stored() {
			continue
		}
		if err := e.updateEntry(ctx, &c, x, old, ref, home, newHome); err != nil {
			return err
		}
	}
	return e.add(ctx, c)
}

// updateRow adds to a change what becomes of the row itself, which was at ref and lives at home,
// and returns the home for its index entries.
func (e *Editor) updateRow(c *change, ref schema.RowRef, home base.RegionID, value []byte) (newHome base.RegionID) {
	oldKey := e.Def.RowKey(ref)
	if !c.ref.Is(ref) {
		c.dels = append(c.dels, oldKey)
		e.noteGone(oldKey, home)
		key := e.Def.RowKey(c.ref)
		c.ins = append(c.ins, insert{schema.Write{Key: key, Value: value, Home: e.Def.Desc.Home()}, nil})
		return e.newHome(key)
	}
	c.puts, c.patch = append(c.puts, schema.Write{Key: oldKey, Value: value, Home: home}), e.Patch
	to := e.Txn.Advice[string(oldKey)]
	if to == 0 || e.Def.Desc.Locality.Kind != schema.ByRow {
		return home
	}
	// The row comes along with this write: it is at home where it is used. Entries keyed by home
	// would make that a commit in that region, too: a trip more where the statement was forwarded
	// from there. Then the owner, whose advice is not taken, moves the row afterwards.
	if e.Def.ByHome() && to != e.Env.DB.Region() {
		return home
	}
	c.to = to
	c.moves = append(c.moves, oldKey)
	e.Txn.Moved(oldKey, to)
	return to
}

// updateEntry adds to a change what becomes of an index entry of the row, which was at ref.
func (e *Editor) updateEntry(ctx *sql.Context, c *change, x *schema.Index, old sql.Row, ref schema.RowRef, home,
	newHome base.RegionID) error {
	moved := !c.ref.Is(ref)
	if !moved && c.to == 0 && x.Same(old, c.row) {
		return nil
	}
	was, _, err := e.Def.IndexEntry(ctx, x, old, ref, home)
	if err != nil {
		return schema.ClientError(err)
	}
	key, value, err := e.Def.IndexEntry(ctx, x, c.row, c.ref, newHome)
	if err != nil {
		return schema.ClientError(err)
	}
	switch {
	case was.Compare(key) != 0:
		c.dels = append(c.dels, was)
		e.entry(c, x, key, value, newHome, c.row)
	case moved:
		c.puts = append(c.puts, schema.Write{Key: key, Value: value, Home: e.Def.HomeAt(key, newHome)}) // the entry names another row now
	case c.to != 0:
		c.moves = append(c.moves, key)
	}
	return nil
}

// TableID implements session.Editor.
func (e *Editor) TableID() base.TableID { return e.Def.Desc.ID }

// Drop implements session.Editor.
func (e *Editor) Drop() { e.ops = nil }

// Flush sends the gathered changes to the kv transaction. Unless the statement
// may leave duplicates to Commit, the keys that must be absent are locked and read first.
func (e *Editor) Flush(ctx *sql.Context) error {
	ops := e.ops
	e.ops = nil
	e.unlist()
	if len(ops) == 0 {
		return nil
	}
	if _, err := e.Txn.Begin(ctx); err != nil {
		return err
	}
	if err := e.unmixed(); err != nil {
		return err
	}
	blind := e.Blind
	if !blind {
		if err := e.lockInserts(ctx, ops); err != nil {
			return err
		}
	}
	m, err := e.mirror(ctx, ops)
	if err != nil {
		return err
	}
	rows := 0
	for i := range ops {
		if i%rowsUnasked == 0 && e.Ask != nil {
			if err := e.Ask(); err != nil {
				return err
			}
		}
		if err := e.apply(ctx, &ops[i], blind); err != nil {
			return err
		}
		if m != nil {
			if err := m.apply(ctx, &ops[i]); err != nil {
				return err
			}
		}
		if ops[i].row != nil && len(ops[i].dels) == 0 && len(ops[i].ins) > 0 {
			rows++
		}
	}
	if e.ops == nil { // the next changes have the same room
		for i := range ops {
			ops[i] = ops[i].emptied()
		}
		e.ops = ops[:0]
	}
	if e.IsTemporary() {
		return e.Txn.Full(e.Def)
	}
	if e.Txn.Session.Speculation == nil {
		e.Env.Stats.add(e.Def.Desc.ID, rows)
	}
	return e.Txn.Account()
}

// absenter is a kv transaction that takes keys to be absent as long as it does not know: that of a
// speculative execution.
type absenter interface {
	// Absent notes keys that are going to be inserted and returns those that it knows about.
	Absent(keys []base.Key) (known []base.Key)
}

func (e *Editor) lockInserts(ctx *sql.Context, ops []change) error {
	var keys []base.Key
	for i := range ops {
		for _, in := range ops[i].ins {
			if in.x != nil || len(e.Def.PK) > 0 {
				keys = append(keys, in.Key)
			}
		}
	}
	if r, ok := e.Txn.KV.(absenter); ok {
		keys = r.Absent(keys)
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := e.Txn.KV.Get(e.Txn.Session.KVContext(ctx), keys, kv.LockExclusive)
	if err != nil {
		return e.Txn.Fail(err)
	}
	return nil
}

func (e *Editor) apply(ctx *sql.Context, c *change, blind bool) error {
	mark := -1
	if e.perRow {
		mark = e.Txn.Mark() // the statement goes on after a duplicate: leave nothing of the row
	}
	for _, k := range c.dels {
		e.Txn.KV.Delete(k)
	}
	for _, in := range c.ins {
		if err := e.Txn.KV.Insert(in.Key, in.Value, in.Home); err != nil {
			return e.notInserted(ctx, c, in, mark, err)
		}
	}
	if blind && len(c.ins) > 0 {
		if err := e.noteInserted(ctx, c); err != nil {
			return err
		}
	}
	for i, w := range c.puts {
		if i == 0 && c.patch != nil {
			e.Txn.KV.Update(w.Key, w.Value, c.patch)
			continue
		}
		e.Txn.KV.Put(w.Key, w.Value, w.Home)
	}
	for _, k := range c.moves {
		// Entries keyed by home have been written for the new one: then the row must move with
		// them.
		e.Txn.KV.Move(k, e.Def.HomeAt(k, c.to), kv.MoveOptions{Soft: !e.Def.ByHome()})
	}
	if len(e.Def.PK) == 0 && c.row != nil && c.byValue {
		// A later part of the statement may change the row again.
		enc, err := e.Def.AppendRow(ctx, nil, c.row)
		if err != nil {
			return schema.ClientError(err)
		}
		e.Txn.NoteHidden(e.Def, enc, c.ref)
	}
	return nil
}

// noteInserted keeps what an error of the commit says about a change: a key of it was there.
func (e *Editor) noteInserted(ctx *sql.Context, c *change) error {
	in := session.Inserted{Table: e.Def, Row: c.row, Keys: e.keys[:0]}
	for _, i := range c.ins {
		if i.x == nil {
			in.Value = i.Value
		}
		if i.x != nil || len(e.Def.PK) > 0 { // ids of rows are unique
			in.Keys = append(in.Keys, session.InsertedKey{Key: i.Key, Index: i.x})
		}
	}
	if e.keys = in.Keys; len(in.Keys) == 0 {
		return nil
	}
	if in.Value == nil { // the row was there, and an entry is new
		in.Value = c.puts[0].Value
	}
	return e.Txn.NoteInserted(ctx, &in)
}

// notInserted reports why a key could not be inserted, after it has dropped what the change has
// done since a mark (-1: nothing).
func (e *Editor) notInserted(ctx *sql.Context, c *change, in insert, mark int, err error) error {
	if base.CodeOf(err) != base.CodeExists {
		return e.Txn.Fail(err)
	}
	existing, err := e.existing(ctx, in)
	if mark >= 0 {
		e.Txn.RollbackToMark(mark)
	}
	if err != nil {
		return err
	}
	return session.DuplicateKey(e.Txn.Session, e.Def, in.x, c.row, existing)
}

// existing reads the row that has the key of an insert.
func (e *Editor) existing(ctx *sql.Context, in insert) (sql.Row, error) {
	key := in.Key
	if in.x != nil {
		rows, err := e.Txn.KV.Get(e.Txn.Session.KVContext(ctx), []base.Key{key}, kv.LockExclusive)
		if err != nil {
			return nil, e.Txn.Fail(err)
		}
		ref, err := in.x.EntryRef(key, rows[0].Value)
		if err != nil {
			return nil, schema.ClientError(err)
		}
		key = e.Def.RowKey(ref)
	}
	rows, err := e.Txn.KV.Get(e.Txn.Session.KVContext(ctx), []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return nil, e.Txn.Fail(err)
	}
	row := make(sql.Row, len(e.Def.Cols))
	if err := e.Def.DecodeRow(ctx, rows[0].Value, row); err != nil {
		return nil, schema.ClientError(err)
	}
	if e.Def.ByHome() && rows[0].Home != 0 {
		e.Txn.NoteHome(key, rows[0].Home)
	}
	if len(e.Def.PK) == 0 {
		if enc, err := e.Def.AppendRow(context.Background(), nil, row); err == nil {
			e.Txn.NoteHidden(e.Def, enc, schema.RefOfKey(key))
		}
	}
	return row, nil
}

// RowIDs makes the ids of rows without a primary key: unique without
// coordination, because they hold the node's id, which is never reused, and rising in time.
type RowIDs struct {
	mu   sync.Mutex
	node base.NodeID
	last uint64
}

// next has 14 bits of node and 50 bits of microseconds since 2024, which last for 35 years.
func (r *RowIDs) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	const epoch = 1704067200e6
	r.last = max(r.last+1, uint64(time.Now().UnixMicro()-epoch))
	return uint64(r.node)<<50 | r.last&(1<<50-1)
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// unmixed refuses to write MULTI MASTER and other tables in one transaction.
func (e *Editor) unmixed() error {
	k, ok := e.Txn.KV.(kv.EpochTxn)
	if !ok || e.IsTemporary() {
		return nil
	}
	epochs, others := k.Buffered()
	if _, made := e.Txn.Made[e.Def.Desc.ID]; made && e.Def.Desc.Locality.Kind == schema.MultiMaster {
		return schema.Invalid("a MULTI MASTER table cannot be filled by the statement that creates it: create it first")
	}
	if e.Def.Desc.Locality.Kind == schema.MultiMaster && others || e.Def.Desc.Locality.Kind != schema.MultiMaster && epochs {
		return schema.Invalid("a transaction cannot write MULTI MASTER tables and others: commit in between")
	}
	return nil
}

// SetAutoIncrementValue implements sql.AutoIncrementSetter, which the engine's editors demand. A
// counter is set by a change of the definition (package ddl).
func (e *Editor) SetAutoIncrementValue(*sql.Context, uint64) error {
	return schema.Invalid("the AUTO_INCREMENT counter of table " + e.Name() + " is set by ALTER TABLE only")
}

// EditorIn is an editor in a transaction of its own, which leaves duplicates neither to Commit nor
// to the statement.
func (t *Table) EditorIn(tx *session.Txn) *Editor {
	return &Editor{Table: t, Txn: tx, noted: true}
}

// PlaceLast gives the row inserted last, and its index entries, a home; 0 leaves them where they
// are. It returns the key of the row.
func (e *Editor) PlaceLast(home base.RegionID) base.Key {
	c := &e.ops[len(e.ops)-1]
	if home != 0 {
		c.setHome(e, home)
	}
	return c.ins[0].Key
}

// setHome gives a new row the home its old version has.
func (c *change) setHome(e *Editor, home base.RegionID) {
	for i := range c.ins {
		c.ins[i].Home = e.Def.HomeAt(c.ins[i].Key, home)
	}
	for i := range c.puts {
		c.puts[i].Home = e.Def.HomeAt(c.puts[i].Key, home)
	}
	for _, x := range e.Def.Indexes {
		if x.Desc.Class != schema.ClassByHome || !x.Desc.Stored() {
			continue
		}
		for i := range c.puts {
			if c.puts[i].Key.Index() == x.Desc.Key() {
				c.puts[i].Key[base.IndexPrefixLen] = byte(home)
			}
		}
	}
}
