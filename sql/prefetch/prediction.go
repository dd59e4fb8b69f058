package prefetch

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

const (
	aheadSpans = 1 << 14 // ranges of indexes looked into in one step
	aheadDepth = 15      // how deep the engine follows foreign keys
	aheadTasks = 1 << 16 // rows of one level
)

// rowTask is one row that is going to be changed.
type rowTask struct {
	st       *table.Table
	fk       *plan.ForeignKeyEditor // nil: no foreign keys
	old, row sql.Row                // nil: inserted; deleted
	// the row's new keys in primary key and unique indexes will be looked at
	keys bool
	// what becomes of a row that is in the way; may be nil
	exists func(f *prediction, existing sql.Row) []rowTask
}

// wantedLookup is a lookup that is going to be made.
type wantedLookup struct {
	st    *table.Table
	x     *schema.Index // nil: the primary key
	lock  kv.LockMode
	key   base.Key // or
	spans []base.Span
	then  func(f *prediction, row sql.Row) []rowTask // what becomes of the rows found; may be nil
}

// prediction finds out the read set of changes of rows, and has it read.
type prediction struct {
	tx      *session.Txn
	regions []base.Region
	seen    map[string]bool
	will    map[string]sql.Row // what becomes of rows, by primary key
	words   map[*schema.Table]*wordNotes
	blind   bool // see readPlan
}

// latest is what has become of a row when the statement gets to it again.
func (f *prediction) latest(ctx *sql.Context, t *schema.Table, row sql.Row) sql.Row {
	if ref, err := t.RefOf(ctx, row); err == nil && len(t.PK) > 0 {
		if next := f.will[string(t.RowKey(ref))]; next != nil {
			return next
		}
	}
	return row
}

func (f *prediction) becomes(ctx *sql.Context, t *schema.Table, row, next sql.Row) {
	if ref, err := t.RefOf(ctx, row); err == nil && len(t.PK) > 0 {
		if f.will == nil {
			f.will = map[string]sql.Row{}
		}
		f.will[string(t.RowKey(ref))] = next
	}
}

// run goes level by level: the rows of the statement, those that refer to them, and so on.
func (f *prediction) run(ctx *sql.Context, tasks []rowTask) error {
	for depth := 0; len(tasks) > 0 && depth <= aheadDepth; depth++ {
		var next []rowTask
		var wants []wantedLookup
		spans := 0
		for i, t := range tasks {
			for _, w := range f.wants(ctx, t) {
				wants = append(wants, w)
				spans += max(1, len(w.spans))
			}
			if spans < aheadSpans && i < len(tasks)-1 {
				continue
			}
			if depth == 0 && len(tasks) == 1 && len(wants) == 1 && wants[0].then == nil {
				return nil // nothing to put together
			}
			// What is locked exclusively anyhow is not locked twice.
			for _, lock := range []kv.LockMode{kv.LockExclusive, kv.LockShared} {
				more, ok, err := f.fetch(ctx, wants, lock)
				if err != nil || !ok {
					return err
				}
				next = append(next, more...)
			}
			wants, spans = wants[:0], 0
		}
		tasks = next[:min(len(next), aheadTasks)]
	}
	return nil
}

// wants are the lookups that the change of a row leads to.
func (f *prediction) wants(ctx *sql.Context, t rowTask) (out []wantedLookup) {
	if t.row != nil && t.keys {
		out = f.newKeys(ctx, t)
	}
	if t.st != nil && t.st.Def.HasFulltext() && len(f.regions) > 1 {
		out = append(out, f.fulltext(ctx, t)...)
	}
	if t.fk == nil {
		return out
	}
	if t.row != nil {
		for _, r := range t.fk.References {
			if t.old == nil || differ(ctx, t.fk.Schema, t.old, t.row, r.RowMapper.IndexPositions) {
				out = f.lookup(ctx, out, &r.RowMapper, t.row, kv.LockShared, nil)
			}
		}
	}
	if t.old == nil || t.row == nil && f.gone(ctx, t) {
		return out
	}
	return f.children(ctx, out, t)
}

// children adds the look-ups of the rows that refer to one that is changed or deleted.
func (f *prediction) children(ctx *sql.Context, out []wantedLookup, t rowTask) []wantedLookup {
	for i := range t.fk.RefActions {
		a := &t.fk.RefActions[i]
		action := a.ForeignKey.OnDelete
		if t.row != nil {
			if changed, err := t.fk.ColumnsUpdated(ctx, *a, t.old, t.row); err != nil || !changed {
				continue
			}
			action = a.ForeignKey.OnUpdate
		}
		out = f.lookup(ctx, out, a.RowMapper, t.old, kv.LockExclusive, follow(a, action, t.row))
	}
	return out
}

// gone reports whether the deletion of the row was looked at before: foreign keys may form cycles.
func (f *prediction) gone(ctx *sql.Context, t rowTask) bool {
	if t.st == nil || len(t.st.Def.PK) == 0 {
		return false
	}
	ref, err := t.st.Def.RefOf(ctx, t.old)
	name := "gone" + string(t.st.Def.RowKey(ref))
	if err != nil || f.seen[name] {
		return err == nil
	}
	f.seen[name] = true
	return false
}

// follow says what becomes of the rows that refer to one that is deleted, or updated to row.
func follow(a *plan.ForeignKeyRefActionData, action sql.ForeignKeyReferentialAction, row sql.Row) func(*prediction,
	sql.Row) []rowTask {
	e := RowEditor(a.Editor.Editor)
	if e == nil {
		return nil
	}
	task := rowTask{st: e.Table, fk: a.Editor, keys: true}
	switch action {
	case sql.ForeignKeyReferentialAction_Cascade:
		if row == nil && len(a.Editor.RefActions) == 0 && !e.Def.HasFulltext() {
			return nil
		}
	case sql.ForeignKeyReferentialAction_SetNull:
		row = nil
	default:
		return nil
	}
	return func(_ *prediction, child sql.Row) []rowTask {
		t := task
		t.old = child
		if action == sql.ForeignKeyReferentialAction_SetNull || row != nil {
			t.row = child.Copy()
			for i, p := range a.ChildParentMapping {
				if p < 0 {
					continue
				}
				if t.row[i] = nil; row != nil {
					t.row[i] = row[p]
				}
			}
		}
		return []rowTask{t}
	}
}

// RowEditor is our editor below those of full-text indexes.
func RowEditor(e any) *table.Editor {
	switch e := e.(type) {
	case *table.Editor:
		return e
	case *aheadEditor:
		return e.e
	case fulltext.MultiTableEditor:
		return RowEditor(e.PrimaryEditor())
	}
	return nil
}

// fulltext are the lookups in the tables behind full-text indexes.
func (f *prediction) fulltext(ctx *sql.Context, t rowTask) (out []wantedLookup) {
	n := f.words[t.st.Def]
	if n == nil {
		var err error
		if n, err = newWordNotes(ctx, t.st); err != nil {
			return nil
		}
		if f.words == nil {
			f.words = map[*schema.Table]*wordNotes{}
		}
		f.words[t.st.Def] = n
	}
	if t.old != nil {
		out = n.of(ctx, t.old, false)
	}
	if t.row != nil {
		out = append(out, n.of(ctx, t.row, !f.blind)...)
	}
	return out
}

func differ(ctx *sql.Context, sch sql.Schema, a, b sql.Row, at []int) bool {
	return slices.ContainsFunc(at, func(i int) bool {
		c, err := sch[i].Type.Compare(ctx, a[i], b[i])
		return err != nil || c != 0
	})
}

// newKeys are the keys that must be absent for the row.
func (f *prediction) newKeys(ctx *sql.Context, t rowTask) (out []wantedLookup) {
	tab := t.st.Def
	var ref, was schema.RowRef
	var err error
	if len(tab.PK) > 0 {
		if ref, err = tab.RefOf(ctx, t.row); err != nil {
			return nil
		}
		key := tab.RowKey(ref)
		if t.old != nil {
			if was, err = tab.RefOf(ctx, t.old); err != nil {
				return nil
			}
		}
		if t.old == nil || key.Compare(tab.RowKey(was)) != 0 {
			out = append(out, wantedLookup{st: t.st, lock: kv.LockExclusive, key: key, then: t.exists})
		}
	}
	for _, x := range tab.Indexes {
		if !x.Desc.Stored() || !x.Desc.Unique() || x.HasNull(t.row) {
			continue
		}
		key, _, err := tab.IndexEntry(ctx, x, t.row, ref, 0)
		if err != nil {
			continue
		}
		if t.old != nil {
			if k, _, err := tab.IndexEntry(ctx, x, t.old, was, 0); err != nil || k.Compare(key) == 0 {
				continue
			}
		}
		out = append(out, wantedLookup{st: t.st, x: x, lock: kv.LockExclusive, key: key, then: t.exists})
	}
	return out
}

// lookupNote takes the place of an editor in a foreign key and notes the lookup that is made for a
// row.
type lookupNote struct {
	sql.ForeignKeyEditor
	l *sql.IndexLookup
}

// IndexedAccess implements sql.ForeignKeyEditor.
func (n *lookupNote) IndexedAccess(_ *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	n.l = &l
	return noRows{}
}

type noRows struct{ sql.IndexedTable }

func (noRows) LookupPartitions(*sql.Context, sql.IndexLookup) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(), nil
}

// lookup adds the lookup that a foreign key makes for a row.
func (f *prediction) lookup(ctx *sql.Context, out []wantedLookup, m *plan.ForeignKeyRowMapper, row sql.Row,
	lock kv.LockMode, then func(*prediction, sql.Row) []rowTask) []wantedLookup {
	e := RowEditor(m.Updater)
	if e == nil {
		return out
	}
	note := &lookupNote{}
	noted := *m
	noted.Updater = note
	if _, err := noted.GetIter(ctx, row, false); err != nil || note.l == nil {
		return out
	}
	i, ok := note.l.Index.(*schema.EngineIndex)
	ranges, rok := note.l.Ranges.(sql.MySQLRangeCollection)
	if !ok || !rok || len(ranges) != 1 || i.Index != nil && !i.Index.Desc.Stored() {
		return out
	}
	k, err := i.KeyRangeOf(ctx, ranges[0])
	if err != nil || k.Empty {
		return out
	}
	name := string(rune(lock)) + i.Def.Desc.DB + "\x00" + i.Def.Desc.Name + "\x00" + schema.LookupName(i, k)
	if then == nil { // what becomes of the rows may differ from row to row
		if f.seen[name] {
			return out
		}
		f.seen[name] = true
	}
	w := wantedLookup{st: e.Table, x: i.Index, lock: lock, then: then}
	if k.Point && i.IsUnique() {
		w.key = i.PointKey(k)
	} else {
		w.spans = i.Spans(f.regions, k)
	}
	return append(out, w)
}

// fetch reads what is wanted under one lock, first keys and entries of indexes, then the rows that
// these name. ok is false if it is too much.
func (f *prediction) fetch(ctx *sql.Context, all []wantedLookup, lock kv.LockMode) (next []rowTask, ok bool, err error) {
	var wants []wantedLookup
	var keys []base.Key
	var spans []base.Span
	for _, w := range all {
		if w.lock != lock {
			continue
		}
		wants = append(wants, w)
		if spans = append(spans, w.spans...); w.key != nil {
			keys = append(keys, w.key)
		}
	}
	if len(wants) == 0 {
		return nil, true, nil
	}
	if ok, err = f.ahead(ctx, keys, spans, lock); !ok || err != nil {
		return nil, ok, err
	}
	found, err := f.found(ctx, wants, keys, lock)
	if err != nil {
		return nil, false, err
	}
	rows, err := rowsNamed(wants, found)
	if err != nil {
		return nil, false, err
	}
	if ok, err = f.ahead(ctx, rows, nil, lock); !ok || err != nil {
		return nil, ok, err
	}
	for i, w := range wants {
		if w.then == nil || len(found[i]) == 0 {
			continue
		}
		more, err := f.follow(ctx, w, found[i], lock)
		if err != nil {
			return nil, false, err
		}
		next = append(next, more...)
	}
	return next, true, nil
}

// rowsNamed replaces the index entries found by the keys of the rows that they name, and returns
// these keys.
func rowsNamed(wants []wantedLookup, found [][]kv.Row) (rows []base.Key, err error) {
	for i, w := range wants {
		if w.x == nil {
			continue
		}
		for j, e := range found[i] {
			ref, err := w.x.EntryRef(e.Key, e.Value)
			if err != nil {
				return nil, schema.ClientError(err)
			}
			found[i][j] = kv.Row{Key: w.st.Def.RowKey(ref)}
			rows = append(rows, found[i][j].Key)
		}
	}
	return rows, nil
}

// follow says what becomes of the rows that a look-up has found; of an index these are keys only.
func (f *prediction) follow(ctx *sql.Context, w wantedLookup, found []kv.Row, lock kv.LockMode) (next []rowTask, err error) {
	if w.x != nil {
		keys := make([]base.Key, len(found))
		for i, r := range found {
			keys[i] = r.Key
		}
		if found, err = f.tx.KV.Get(f.tx.Session.KVContext(ctx), keys, lock); err != nil {
			return nil, f.tx.Fail(err)
		}
	}
	for _, r := range found {
		if r.Value == nil {
			continue
		}
		row := make(sql.Row, len(w.st.Def.Cols))
		if err := w.st.Def.DecodeRow(ctx, r.Value, row); err != nil {
			return nil, schema.ClientError(err)
		}
		next = append(next, w.then(f, row)...)
	}
	return next, nil
}

func (f *prediction) ahead(ctx *sql.Context, keys []base.Key, spans []base.Span, lock kv.LockMode) (bool, error) {
	if len(keys)+len(spans) == 0 {
		return true, nil
	}
	ok, err := f.tx.KV.Ahead(f.tx.Session.KVContext(ctx), keys, spans, lock)
	if err != nil {
		return false, f.tx.Fail(err)
	}
	return ok, nil
}

// found are the rows and entries that there are of each lookup, with what the transaction has
// written.
func (f *prediction) found(ctx *sql.Context, wants []wantedLookup, keys []base.Key, lock kv.LockMode) ([][]kv.Row, error) {
	out := make([][]kv.Row, len(wants))
	kctx := f.tx.Session.KVContext(ctx)
	points, err := f.tx.KV.Get(kctx, keys, lock)
	if err != nil {
		return nil, f.tx.Fail(err)
	}
	for i, w := range wants {
		if w.key != nil {
			if points[0].Value != nil {
				out[i] = points[:1:1]
			}
			points = points[1:]
			continue
		}
		if w.x == nil && w.then == nil {
			continue // locked, and nothing follows
		}
		for req := (&kv.ScanRequest{Spans: w.spans, Lock: lock, MaxBytes: table.BatchBytes}); req != nil; {
			res, err := f.tx.KV.Scan(kctx, *req)
			if err != nil {
				return nil, f.tx.Fail(err)
			}
			out[i] = append(out[i], res.Rows...)
			req = res.Next
		}
	}
	return out, nil
}
