package sqlfront

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// flushRows is how many changed rows an editor gathers before it checks their keys in one go.
const flushRows = 512

// editor applies the changes of one statement to one table. Changes are gathered and
// sent to the kv transaction in batches, so that the keys which must be absent are
// read together and no row costs a trip of its own.
type editor struct {
	*sqlTable
	tx    *Txn // its kv transaction may be replaced by a schema change: never keep that
	save  int  // savepoint at the beginning of the statement
	saved bool
	ops   []change
	err   error // from opening; reported by the first change
	// How duplicates are found, noted at the first change: a statement
	// in a trigger or procedure sets its own in the session meanwhile.
	noted         bool
	blind, perRow bool
	patch         *wire.Patch // what the next Update makes of its row, if it depends on nothing else
	hold          bool        // send nothing before the statement ends: it still reads the table
}

func (e *editor) note() {
	if !e.noted {
		e.noted, e.blind, e.perRow, e.hold = true, e.tx.s.blind, e.tx.s.perRow, e.tx.s.hold
	}
}

// change is one row changed.
type change struct {
	row  sql.Row // new, nil for deletes
	dels []base.Key
	puts []write
	ins  []insert
	// moves are keys that go with the row to another home.
	moves []base.Key
	to    base.RegionID
	patch *wire.Patch // what makes the first of puts of the row as it was, if that depends on nothing else
	old   []byte      // encoding of the old row, of tables without primary key
	ref   rowRef
	was   formerRow // of tables with a successor
}

type write struct {
	key   base.Key
	value []byte
	home  base.RegionID
}

type insert struct {
	write
	x *index // nil: the row
}

var (
	_ sql.TableEditor         = (*editor)(nil)
	_ sql.ForeignKeyEditor    = (*editor)(nil)
	_ sql.AutoIncrementSetter = (*editor)(nil)
)

func (t *sqlTable) editor(ctx *sql.Context) *editor {
	e := &editor{sqlTable: t}
	s := sessionOf(ctx)
	if s == nil {
		e.err = base.Errorf(base.CodeInvalid, "changing table %s needs a session", t.Name())
		return e
	}
	if t.acc.asOf != 0 {
		e.err = fmt.Errorf("table %s is read AS OF a time and cannot be changed", t.Name())
		return e
	}
	tx := s.txn()
	if tx == nil {
		nt, err := s.StartTransaction(ctx, sql.ReadWrite)
		if err != nil {
			e.err = err
			return e
		}
		ctx.SetTransaction(nt)
		tx = nt.(*Txn)
	}
	e.tx = tx
	s.writes = true
	if _, e.err = tx.begun(ctx); e.err != nil {
		return e
	}
	snap, err := s.snapshot(ctx)
	if err != nil {
		e.err = err
		return e
	}
	tx.pin(snap, t.t)
	if t.t.desc.Locality.Kind == multi {
		e.err = tx.hold(ctx, t.t)
	}
	return e
}

func (t *sqlTable) Inserter(ctx *sql.Context) sql.RowInserter { return t.wrapped(ctx) }
func (t *sqlTable) Updater(ctx *sql.Context) sql.RowUpdater   { return t.wrapped(ctx) }
func (t *sqlTable) Replacer(ctx *sql.Context) sql.RowReplacer { return t.wrapped(ctx) }
func (t *sqlTable) Deleter(ctx *sql.Context) sql.RowDeleter   { return t.wrapped(ctx) }

// AutoIncrementSetter implements sql.AutoIncrementTable.
func (t *sqlTable) AutoIncrementSetter(ctx *sql.Context) sql.AutoIncrementSetter {
	return t.editor(ctx)
}

// GetForeignKeyEditor implements sql.ForeignKeyTable.
func (t *sqlTable) GetForeignKeyEditor(ctx *sql.Context) sql.ForeignKeyEditor {
	if e, ok := t.wrapped(ctx).(sql.ForeignKeyEditor); ok {
		return e
	}
	return t.editor(ctx)
}

// StatementBegin implements sql.EditOpenerCloser.
func (e *editor) StatementBegin(ctx *sql.Context) {
	if e.err != nil {
		return
	}
	if _, e.err = e.tx.begun(ctx); e.err != nil {
		return
	}
	if e.err = e.tx.flush(ctx, nil); e.err != nil {
		return
	}
	e.note()
	e.save, e.saved = e.tx.save(), true
}

// DiscardChanges implements sql.EditOpenerCloser.
func (e *editor) DiscardChanges(*sql.Context, error) error {
	e.ops = nil
	e.unlist()
	if e.saved && !e.tx.over {
		e.tx.rollTo(e.save)
	}
	if e.tx != nil && !e.tx.s.GetIgnoreAutoCommit() && !e.perRow && e.tx.s.triggered == 0 {
		// The engine forgets to end an autocommit transaction whose statement failed.
		e.tx.discarded = true
	}
	return nil
}

// StatementComplete implements sql.EditOpenerCloser.
func (e *editor) StatementComplete(ctx *sql.Context) error {
	if e.err != nil {
		return e.err
	}
	// A statement may change several tables, by foreign keys; their editors complete in any order.
	err := e.tx.flush(ctx, nil)
	if err != nil {
		for _, o := range e.tx.editors {
			o.ops = nil
		}
		e.tx.editors = nil
		_ = e.DiscardChanges(ctx, err)
	}
	return err
}

// Close implements sql.Closer.
func (e *editor) Close(ctx *sql.Context) error {
	if e.err != nil {
		return e.err
	}
	if e.tx.over {
		return nil
	}
	return e.flush(ctx)
}

// IndexedAccess implements sql.ForeignKeyEditor: the rows found may be changed through the editor.
func (e *editor) IndexedAccess(_ *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	c := *e.sqlTable
	c.acc = &access{lock: kv.LockExclusive, whole: true}
	return &indexedTable{&c, l}
}

func (e *editor) unlist() {
	if e.tx != nil {
		e.tx.editors = slices.DeleteFunc(e.tx.editors, func(o *editor) bool { return o == e })
	}
}

// add gathers a change and sends what is gathered when it is enough.
func (e *editor) add(ctx *sql.Context, c change) error {
	if len(e.ops) == 0 {
		e.tx.editors = append(e.tx.editors, e)
	}
	e.note()
	e.ops = append(e.ops, c)
	if e.perRow || len(e.ops) >= flushRows && !e.hold {
		return e.flush(ctx)
	}
	return nil
}

// rowHome is the home for the index entries of a new row.
func (e *editor) rowHome() base.RegionID {
	if h := e.t.desc.home(); h != 0 {
		return h
	}
	return e.tx.s.region()
}

// Insert implements sql.RowInserter.
func (e *editor) Insert(ctx *sql.Context, row sql.Row) error {
	if e.err != nil {
		return e.err
	}
	if err := e.ready(ctx, row); err != nil {
		return err
	}
	c := change{row: row.Copy()}
	var err error
	if len(e.t.pk) > 0 {
		c.ref, err = e.t.refOf(ctx, row)
	} else {
		c.ref = e.t.hiddenRef(e.g.rowIDs.next())
	}
	if err != nil {
		return clientError(err)
	}
	value, err := e.t.appendRow(ctx, nil, row)
	if err != nil {
		return clientError(err)
	}
	home := e.rowHome()
	c.ins = append(c.ins, insert{write{e.t.rowKey(c.ref), value, e.t.desc.home()}, nil})
	for _, x := range e.t.indexes {
		if !x.desc.stored() {
			continue
		}
		k, v, err := e.t.indexEntry(ctx, x, row, c.ref, home)
		if err != nil {
			return clientError(err)
		}
		e.entry(&c, x, k, v, home, row)
	}
	return e.add(ctx, c)
}

// entry adds an index entry to a change: one that must be absent if the index is unique.
func (e *editor) entry(c *change, x *index, k base.Key, v []byte, home base.RegionID, row sql.Row) {
	if x.desc.Class == classGlobal {
		home = 0
	}
	if x.desc.unique() && !x.null(row) {
		c.ins = append(c.ins, insert{write{k, v, home}, x})
		return
	}
	c.puts = append(c.puts, write{k, v, home})
}

// null reports whether an indexed column of the row is NULL.
func (x *index) null(row sql.Row) bool {
	return slices.ContainsFunc(x.cols, func(c indexPos) bool { return row[c.pos] == nil })
}

// ready checks a row and that there is a kv transaction to change it in.
func (e *editor) ready(ctx *sql.Context, row sql.Row) error {
	if _, err := e.tx.begun(ctx); err != nil {
		return err
	}
	if len(row) != len(e.t.cols) {
		return sql.ErrUnexpectedRowLength.New(len(e.t.cols), len(row))
	}
	return nil
}

// locate finds where an existing row is and its home, if an index needs to know it.
func (e *editor) locate(ctx *sql.Context, row sql.Row) (ref rowRef, enc []byte, home base.RegionID, err error) {
	if len(e.t.pk) > 0 {
		if ref, err = e.t.refOf(ctx, row); err != nil {
			return ref, nil, 0, clientError(err)
		}
	} else {
		if enc, err = e.t.appendRow(ctx, nil, row); err != nil {
			return ref, nil, 0, clientError(err)
		}
		var ok bool
		if ref, ok = e.tx.takeHidden(e.t, enc); !ok {
			return ref, nil, 0, sql.ErrDeleteRowNotFound.New()
		}
	}
	if !e.t.byHome() {
		return ref, enc, 0, nil
	}
	key := e.t.rowKey(ref)
	if h, ok := e.tx.homes[string(key)]; ok {
		return ref, enc, h, nil
	}
	if err := e.flush(ctx); err != nil {
		return ref, enc, 0, err
	}
	rows, err := e.tx.kv.Get(e.tx.s.kvctx(ctx), []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return ref, enc, 0, e.tx.fail(err)
	}
	home = rows[0].Home
	if home == 0 {
		home = e.rowHome()
	}
	e.tx.noteHome(key, home)
	return ref, enc, home, nil
}

// Delete implements sql.RowDeleter.
func (e *editor) Delete(ctx *sql.Context, row sql.Row) error {
	if e.err != nil {
		return e.err
	}
	if err := e.ready(ctx, row); err != nil {
		return err
	}
	ref, enc, home, err := e.locate(ctx, row)
	if err != nil {
		return err
	}
	c := change{ref: ref, old: enc, dels: []base.Key{e.t.rowKey(ref)}}
	if e.t.next != nil {
		c.was = formerRow{row.Copy(), ref}
	}
	for _, x := range e.t.indexes {
		if !x.desc.stored() {
			continue
		}
		k, _, err := e.t.indexEntry(ctx, x, row, ref, home)
		if err != nil {
			return clientError(err)
		}
		c.dels = append(c.dels, k)
	}
	return e.add(ctx, c)
}

// Update implements sql.RowUpdater.
func (e *editor) Update(ctx *sql.Context, old, row sql.Row) error {
	if e.err != nil {
		return e.err
	}
	if err := e.ready(ctx, row); err != nil {
		return err
	}
	ref, enc, home, err := e.locate(ctx, old)
	if err != nil {
		return err
	}
	c := change{row: row.Copy(), old: enc}
	if e.t.next != nil {
		c.was = formerRow{old.Copy(), ref}
	}
	value, err := e.t.appendRow(ctx, nil, row)
	if err != nil {
		return clientError(err)
	}
	oldKey, newHome := e.t.rowKey(ref), home
	c.ref = ref
	if len(e.t.pk) > 0 {
		if c.ref, err = e.t.refOf(ctx, row); err != nil {
			return clientError(err)
		}
	}
	if newKey := e.t.rowKey(c.ref); newKey.Compare(oldKey) == 0 {
		c.puts, c.patch = append(c.puts, write{newKey, value, home}), e.patch
		if to := e.tx.advice[string(oldKey)]; to != 0 && e.t.desc.Locality.Kind == byRow && (!e.t.byHome() || to == e.g.db.Region()) {
			// The row comes along with this write: it is at home where it is used. Entries keyed by home would make that a
			// commit in that region, too: a trip more where the statement was forwarded from there, so then
			// the owner, whose advice is not taken, moves the row afterwards.
			c.to, newHome = to, to
			c.moves = append(c.moves, newKey)
			e.tx.moved(oldKey, to)
		}
	} else {
		c.dels = append(c.dels, oldKey)
		newHome = e.rowHome()
		c.ins = append(c.ins, insert{write{newKey, value, e.t.desc.home()}, nil})
	}
	for _, x := range e.t.indexes {
		if !x.desc.stored() {
			continue
		}
		ok, _, err := e.t.indexEntry(ctx, x, old, ref, home)
		if err != nil {
			return clientError(err)
		}
		nk, nv, err := e.t.indexEntry(ctx, x, row, c.ref, newHome)
		if err != nil {
			return clientError(err)
		}
		switch {
		case ok.Compare(nk) != 0:
			c.dels = append(c.dels, ok)
			e.entry(&c, x, nk, nv, newHome, row)
		case c.ref.shard != ref.shard || string(c.ref.pk) != string(ref.pk):
			c.puts = append(c.puts, write{nk, nv, newHome}) // the entry names another row now
		case c.to != 0:
			c.moves = append(c.moves, nk)
		}
	}
	return e.add(ctx, c)
}

// flush sends the gathered changes to the kv transaction. Unless the statement
// may leave duplicates to Commit, the keys that must be absent are locked and read first.
func (e *editor) flush(ctx *sql.Context) error {
	ops := e.ops
	e.ops = nil
	e.unlist()
	if len(ops) == 0 {
		return nil
	}
	if _, err := e.tx.begun(ctx); err != nil {
		return err
	}
	if err := e.unmixed(); err != nil {
		return err
	}
	blind := e.blind
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
	if e.tx.s.rehearsal == nil {
		e.g.stats.add(e.t.desc.ID, rows)
	}
	return nil
}

func (e *editor) lockInserts(ctx *sql.Context, ops []change) error {
	var keys []base.Key
	for i := range ops {
		for _, in := range ops[i].ins {
			if in.x != nil || len(e.t.pk) > 0 {
				keys = append(keys, in.key)
			}
		}
	}
	if r, ok := e.tx.kv.(*rehearsedTxn); ok {
		keys = r.absent(keys)
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := e.tx.kv.Get(e.tx.s.kvctx(ctx), keys, kv.LockExclusive)
	if err != nil {
		return e.tx.fail(err)
	}
	return nil
}

func (e *editor) apply(ctx *sql.Context, c *change, blind bool) error {
	mark := -1
	if e.perRow {
		mark = e.tx.save() // the statement goes on after a duplicate: leave nothing of the row
	}
	for _, k := range c.dels {
		e.tx.kv.Delete(k)
	}
	for _, in := range c.ins {
		if err := e.tx.kv.Insert(in.key, in.value, in.home); err != nil {
			if base.CodeOf(err) != base.CodeExists {
				return e.tx.fail(err)
			}
			existing, gerr := e.existing(ctx, in)
			if mark >= 0 {
				e.tx.rollTo(mark)
			}
			if gerr != nil {
				return gerr
			}
			return dupError(e.tx.s, e.t, in.x, c.row, existing)
		}
		if blind {
			if e.tx.inserted == nil {
				e.tx.inserted = map[string]insertedRow{}
			}
			e.tx.inserted[string(in.key)] = insertedRow{e.t, in.x, c.row}
		}
	}
	for i, w := range c.puts {
		if i == 0 && c.patch != nil {
			e.tx.kv.Update(w.key, w.value, c.patch)
			continue
		}
		e.tx.kv.Put(w.key, w.value, w.home)
	}
	for _, k := range c.moves {
		// Entries keyed by home have been written for the new one: then the row must move with them.
		e.tx.kv.Move(k, c.to, kv.MoveOptions{Soft: !e.t.byHome()})
	}
	if len(e.t.pk) == 0 && c.row != nil {
		// A later statement part may change the row again.
		enc, err := e.t.appendRow(ctx, nil, c.row)
		if err != nil {
			return clientError(err)
		}
		e.tx.noteHidden(e.t, enc, c.ref)
	}
	return nil
}

// existing reads the row that has the key of an insert.
func (e *editor) existing(ctx *sql.Context, in insert) (sql.Row, error) {
	key := in.key
	if in.x != nil {
		rows, err := e.tx.kv.Get(e.tx.s.kvctx(ctx), []base.Key{key}, kv.LockExclusive)
		if err != nil {
			return nil, e.tx.fail(err)
		}
		ref, err := in.x.entryRef(key, rows[0].Value)
		if err != nil {
			return nil, clientError(err)
		}
		key = e.t.rowKey(ref)
	}
	rows, err := e.tx.kv.Get(e.tx.s.kvctx(ctx), []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return nil, e.tx.fail(err)
	}
	row := make(sql.Row, len(e.t.cols))
	if err := e.t.decodeRow(ctx, rows[0].Value, row); err != nil {
		return nil, clientError(err)
	}
	if e.t.byHome() && rows[0].Home != 0 {
		e.tx.noteHome(key, rows[0].Home)
	}
	if len(e.t.pk) == 0 {
		if enc, err := e.t.appendRow(context.Background(), nil, row); err == nil {
			e.tx.noteHidden(e.t, enc, refOfKey(key))
		}
	}
	return row, nil
}

// noteHidden remembers where a row of a table without primary key is.
func (t *Txn) noteHidden(tab *table, enc []byte, ref rowRef) {
	if t.hidden == nil {
		t.hidden = map[string][]rowRef{}
	}
	k := hiddenKey(tab, enc)
	for _, r := range t.hidden[k] {
		if r.shard == ref.shard && string(r.pk) == string(ref.pk) {
			return
		}
	}
	t.hidden[k] = append(t.hidden[k], rowRef{ref.shard, slices.Clone(ref.pk)})
}

func (t *Txn) takeHidden(tab *table, enc []byte) (rowRef, bool) {
	k := hiddenKey(tab, enc)
	refs := t.hidden[k]
	if len(refs) == 0 {
		return rowRef{}, false
	}
	t.hidden[k] = refs[1:]
	return refs[0], true
}

func hiddenKey(tab *table, enc []byte) string { return fmt.Sprintf("%d/%s", tab.desc.ID, enc) }

// rowIDs makes the ids of rows without a primary key: unique without
// coordination, because they hold the node's id, which is never reused, and rising in time.
type rowIDs struct {
	mu   sync.Mutex
	node base.NodeID
	last uint64
}

// next has 14 bits of node and 50 bits of microseconds since 2024, which last for 35 years.
func (r *rowIDs) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	const epoch = 1704067200e6
	r.last = max(r.last+1, uint64(time.Now().UnixMicro()-epoch))
	return uint64(r.node)<<50 | r.last&(1<<50-1)
}
