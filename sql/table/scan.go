package table

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/iters"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

const (
	firstBatch = 128 // rows of the first batch of a scan; it grows fourfold
	maxBatch   = 1 << 15
	// BatchBytes is the most of a table that one ScanRequest brings, in bytes.
	BatchBytes = 4 << 20
	GetBatch   = 512 // keys of one Get
)

// Source yields the rows of a table that a read asks for, batch by batch.
type Source struct {
	Table *Table
	Txn   *session.Txn
	KV    kv.Txn
	lock  kv.LockMode   // that the statement asks for
	Take  kv.LockMode   // that kv is asked for
	Index *schema.Index // nil: keys and rows are those of the primary key

	keys  []base.Key // point reads left
	req   *kv.ScanRequest
	Limit int

	check  sql.Expression // over full rows; may be nil
	Buf    []sql.Row
	homes  []session.RowHome // of the rows in Buf, with KeepHomes
	exists bool              // only whether there is a row matters; values are not decoded
	Whole  bool              // read to the end at the first Next
	Want   []bool            // by position, the columns that matter; nil: all. Not with check
}

// Open prepares a read of the table: transaction, pin, lock.
func (t *Table) Open(ctx *sql.Context) (*Source, error) {
	s := session.Of(ctx)
	if s == nil {
		return nil, base.Errorf(base.CodeInvalid, "reading table %s needs a session", t.Name())
	}
	// The engine reads outside of a transaction in a few places (SHOW, checks of DDL).
	tx, err := s.Started(ctx)
	if err != nil {
		return nil, err
	}
	s.Reach(t.Def.Desc.DB, t.Def.Desc.Name)
	src := &Source{Table: t, Txn: tx, Limit: firstBatch, Whole: t.Access.Whole}
	multiMaster := t.Def.Desc.Locality.Kind == schema.MultiMaster
	if multiMaster && (t.Access.AsOf != 0 || tx.AsOf != 0) {
		return nil, schema.Invalid("table " + t.Name() + " is MULTI MASTER: it cannot be read AS OF a time")
	}
	if t.Access.AsOf != 0 {
		src.KV = tx.At(t.Access.AsOf)
		return src, nil
	}
	s.NoteTable(t.Def)
	if src.KV, err = tx.Begin(ctx); err != nil {
		return nil, err
	}
	if err := t.inEffect(tx); err != nil {
		return nil, err
	}
	if !t.Access.Target {
		if err := tx.Flush(ctx, &t.Def.Desc.ID); err != nil {
			return nil, err
		}
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	src.Table = t.changed(tx, snap)
	tx.Pin(snap, t.Def)
	src.lock = tx.LockFor(t.Access.Lock)
	if t.IsTemporary() { // rows that are changed are remembered in READ ONLY transactions, too
		src.lock = t.Access.Lock
	}
	src.Take = src.lock
	if multiMaster {
		if err := tx.HoldMultiMaster(ctx, t.Def); err != nil {
			return nil, err
		}
		src.Take = tx.Validates(t.Access.Lock, src.lock, t.Access.Target)
	}
	return src, nil
}

// inEffect checks both rules of GaussDB-Global: a definition is in effect at the snapshot of the
// transaction, or the table is not read at it.
func (t *Table) inEffect(tx *session.Txn) error {
	if at := tx.KV.ReadTimestamp(); tx.Snapshot && at != 0 && t.Def.TS > at && tx.Schema == nil {
		return tx.Fail(base.Errorf(base.CodeSchemaChanged, "table %s was changed after the snapshot of the transaction",
			t.Name()))
	}
	return nil
}

// changed is the table as the transaction sees it: a statement that has changed the table itself
// reads it again with an old object.
func (t *Table) changed(tx *session.Txn, snap *schema.Snapshot) *Table {
	if tx.Schema == nil && !tx.Session.Defines() || t.Columns != nil {
		return t
	}
	cur := snap.Table(t.Def.Desc.DB, t.Name())
	if cur == nil || cur == t.Def || cur.Desc.Temporary() != t.IsTemporary() {
		return t
	}
	c := *t
	c.Def = cur
	return &c
}

// ScanAll reads the whole table, in the order of the primary key.
func (t *Table) ScanAll(ctx *sql.Context) (sql.RowIter, error) {
	src, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	src.Scan(spansOf(t.Def), true, false)
	return src, nil
}

// Scan has the source read spans. merge makes one order of them by what follows the shard.
func (r *Source) Scan(spans []base.Span, merge, reverse bool) {
	r.req = &kv.ScanRequest{Spans: spans, Merge: merge, Reverse: reverse, Lock: r.Take, MaxBytes: BatchBytes}
	if merge {
		r.req.Suffix = r.Index.PrefixLen()
		if (r.Index == nil || r.Index.Desc.Class != schema.ClassByHome) && !r.Table.Def.Begun() {
			r.req.Suffix = base.ShardPrefixLen
		}
	}
}

// Request is the scan that goes on, nil if there is none. Its limit is the caller's.
func (r *Source) Request() *kv.ScanRequest { return r.req }

// Remember keeps what later changes of rows need that were read for update.
func (r *Source) Remember(rows []kv.Row) {
	if r.lock != kv.LockExclusive {
		return
	}
	for _, kr := range rows {
		r.note(kr)
	}
}

// note keeps where a row lives, and where the policy of homes would have it.
func (r *Source) note(kr kv.Row) {
	if kr.Advice != 0 {
		r.Txn.NoteAdvice(kr)
	}
	if r.Table.Def.ByHome() {
		r.Txn.NoteHome(kr.Key, kr.Home)
	}
}

// scanLookup reads what an index lookup asks for.
func (t *Table) scanLookup(ctx *sql.Context, l sql.IndexLookup) (sql.RowIter, error) {
	i, ok := l.Index.(*schema.EngineIndex)
	if !ok || i.Index != nil && !i.Index.Desc.Stored() {
		return t.scanSpecial(ctx, l)
	}
	// The index may come from a table object of another statement phase; its
	// positions are those of the same descriptor.
	ranges, ok := l.Ranges.(sql.MySQLRangeCollection)
	if !ok {
		return nil, base.Errorf(base.CodeInvalid, "unexpected range type %T", l.Ranges)
	}
	if rows, ok := t.Access.fetched(ctx, i, ranges); ok {
		return sql.RowsToRowIter(rows...), nil
	}
	src, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	src.Index = i.Index
	krs, points, loose, err := keyRangesOf(ctx, i, ranges)
	if err != nil {
		return nil, err
	}
	if loose && !t.Def.Virtual {
		if src.check, err = expression.NewRangeFilterExpr(ctx, i.Fields(), ranges); err != nil {
			return nil, err
		}
	}
	switch {
	case len(krs) == 0:
	case points:
		for _, k := range krs {
			src.keys = append(src.keys, i.PointKey(k))
		}
		if l.IsReverse {
			slices.Reverse(src.keys)
		}
	default:
		src.scanRanges(i, joinOverlaps(krs), l.IsReverse)
	}
	return src, nil
}

// fetched are the rows of a look-up that was made ahead of time.
func (a *Access) fetched(ctx *sql.Context, i *schema.EngineIndex, ranges sql.MySQLRangeCollection) ([]sql.Row, bool) {
	if a.Fetched == nil || len(ranges) != 1 {
		return nil, false
	}
	k, err := i.KeyRangeOf(ctx, ranges[0])
	if err != nil || k.Loose {
		return nil, false
	}
	rows, ok := a.Fetched[schema.LookupName(i, k)]
	return rows, ok
}

// keyRangesOf translates the ranges of a look-up, sorted: they come in no order, but the index
// promises one. points says that all are keys of at most one row, loose that the rows of some must
// be checked against the condition.
func keyRangesOf(ctx *sql.Context, i *schema.EngineIndex, ranges sql.MySQLRangeCollection) (krs []schema.KeyRange,
	points, loose bool, err error) {
	krs = make([]schema.KeyRange, 0, len(ranges))
	points = true
	for _, r := range ranges {
		k, err := i.KeyRangeOf(ctx, r)
		if err != nil {
			return nil, false, false, err
		}
		if k.Empty {
			continue
		}
		krs = append(krs, k)
		points = points && k.Point && i.IsUnique()
		loose = loose || k.Loose
	}
	slices.SortFunc(krs, func(a, b schema.KeyRange) int { return bytes.Compare(a.Lo, b.Lo) })
	return krs, points, loose, nil
}

// scanRanges reads ranges of an index, which are sorted and disjoint.
func (r *Source) scanRanges(i *schema.EngineIndex, krs []schema.KeyRange, reverse bool) {
	var spans []base.Span
	single := true
	for _, k := range krs {
		s := i.Spans(r.Table.Env.DB.Topology().Regions, k)
		single = single && len(s) == 1
		spans = append(spans, s...)
	}
	if single && reverse {
		slices.Reverse(spans)
	}
	r.Scan(spans, !single, reverse)
}

// joinOverlaps makes sorted ranges disjoint: they are so as conditions, but what is read for two of
// them may overlap.
func joinOverlaps(krs []schema.KeyRange) []schema.KeyRange {
	out := krs[:1]
	for _, k := range krs[1:] {
		last := &out[len(out)-1]
		if last.Hi != nil && bytes.Compare(last.Hi, k.Lo) <= 0 {
			out = append(out, k)
			continue
		}
		if last.Hi != nil && (k.Hi == nil || bytes.Compare(k.Hi, last.Hi) > 0) {
			last.Hi = k.Hi
		}
		if !bytes.Equal(last.First, k.First) {
			last.First = nil
		}
		if !slices.Equal(last.Parts, k.Parts) {
			last.Parts = nil
		}
	}
	return out
}

// Next implements sql.RowIter.
func (r *Source) Next(ctx *sql.Context) (sql.Row, error) {
	for len(r.Buf) == 0 {
		if len(r.keys) == 0 && r.req == nil {
			return nil, io.EOF
		}
		if err := r.Fill(ctx); err != nil {
			return nil, err
		}
	}
	row := r.Buf[0]
	r.Buf[0] = nil
	r.Buf = r.Buf[1:]
	if len(r.homes) > 0 {
		r.Txn.LastHome, r.homes = r.homes[0], r.homes[1:]
	}
	return row, nil
}

// Close implements sql.RowIter.
func (r *Source) Close(*sql.Context) error {
	r.Buf, r.keys, r.req = nil, nil, nil
	return nil
}

// Fill reads a batch, or everything if the statement changes the table.
func (r *Source) Fill(ctx *sql.Context) error {
	for {
		rows, err := r.batch(ctx)
		if err != nil {
			return err
		}
		if err := r.Decode(ctx, rows); err != nil {
			return err
		}
		if !r.Whole || len(r.keys) == 0 && r.req == nil {
			return nil
		}
	}
}

// Kvctx is the context for reads: to see where rows live is no use of them.
func (r *Source) Kvctx(ctx *sql.Context) context.Context {
	if r.Table.Def.HomesOf != nil {
		return kv.WithQuiet(r.Txn.Session.KVContext(ctx))
	}
	return r.Txn.Session.KVContext(ctx)
}

// batch reads the kv rows of the next batch.
func (r *Source) batch(ctx *sql.Context) ([]kv.Row, error) {
	var entries []kv.Row
	var err error
	if len(r.keys) > 0 {
		n := min(len(r.keys), GetBatch)
		if entries, err = r.Get(ctx, r.keys[:n]); err != nil {
			return nil, err
		}
		r.keys = r.keys[n:]
	} else {
		r.req.Limit = r.Limit
		r.Limit = min(4*r.Limit, maxBatch)
		res, err := r.KV.Scan(r.Kvctx(ctx), *r.req)
		if err != nil {
			return nil, r.Txn.Fail(err)
		}
		entries, r.req = res.Rows, res.Next
	}
	if r.Index == nil {
		return entries, nil
	}
	rows := make([]kv.Row, 0, len(entries))
	keys := make([]base.Key, 0, min(len(entries), GetBatch))
	for i, e := range entries {
		if e.Value != nil {
			ref, err := r.Index.EntryRef(e.Key, e.Value)
			if err != nil {
				return nil, schema.ClientError(err)
			}
			keys = append(keys, r.Table.Def.RowKey(ref))
		}
		if len(keys) == GetBatch || i == len(entries)-1 && len(keys) > 0 {
			got, err := r.Get(ctx, keys)
			if err != nil {
				return nil, err
			}
			rows = append(rows, got...)
			keys = keys[:0:0]
		}
	}
	return rows, nil
}

// Get reads rows or entries by key, under the lock of the read.
func (r *Source) Get(ctx *sql.Context, keys []base.Key) ([]kv.Row, error) {
	rows, err := r.KV.Get(r.Kvctx(ctx), keys, r.Take)
	if err != nil {
		return nil, r.Txn.Fail(err)
	}
	return rows, nil
}

// Decode turns kv rows into rows of the table and appends them to the buffer.
func (r *Source) Decode(ctx *sql.Context, rows []kv.Row) error {
	t := r.Table
	width := len(t.Def.Cols)
	for _, kr := range rows {
		if kr.Value == nil {
			continue
		}
		if t.Def.HomesOf != nil {
			if err := r.home(ctx, kr); err != nil {
				return err
			}
			continue
		}
		row := make(sql.Row, width)
		if r.exists && r.check == nil {
			r.Buf = append(r.Buf, row)
			continue
		}
		if err := t.Def.DecodeCols(ctx, kr.Value, row, r.Want); err != nil {
			return schema.ClientError(err)
		}
		if r.check != nil {
			ok, err := r.check.Eval(ctx, row)
			if err != nil {
				return err
			}
			if !sql.IsTrue(ok) {
				continue
			}
		}
		if r.lock == kv.LockExclusive {
			r.remember(ctx, kr, row)
		}
		if t.Access.KeepHomes {
			r.homes = append(r.homes, session.RowHome{Region: kr.Home, Pinned: kr.Label.Pinned()})
		}
		if t.Columns != nil {
			p := make(sql.Row, len(t.Columns))
			for i, c := range t.Columns {
				p[i] = row[c]
			}
			row = p
		}
		r.Buf = append(r.Buf, row)
	}
	return nil
}

// home appends a row of t__homes.
func (r *Source) home(ctx *sql.Context, kr kv.Row) error {
	row, err := r.Table.Env.HomesRow(ctx, r.Table.Def, kr)
	if err != nil {
		return schema.ClientError(err)
	}
	if r.check != nil {
		if ok, err := r.check.Eval(ctx, row); err != nil || !sql.IsTrue(ok) {
			return err
		}
	}
	if r.lock == kv.LockExclusive {
		if r.Txn.Located == nil {
			r.Txn.Located = map[string]kv.Row{}
		}
		r.Txn.Located[string(kr.Key)] = kr
	}
	if cols := r.Table.Columns; cols != nil {
		p := make(sql.Row, len(cols))
		for i, c := range cols {
			p[i] = row[c]
		}
		row = p
	}
	r.Buf = append(r.Buf, row)
	return nil
}

// remember keeps what a later change of the row needs and the row does not say.
func (r *Source) remember(ctx *sql.Context, kr kv.Row, row sql.Row) {
	r.note(kr)
	if len(r.Table.Def.PK) == 0 {
		if enc, err := r.Table.Def.AppendRow(ctx, nil, row); err == nil {
			r.Txn.NoteHidden(r.Table.Def, enc, schema.RefOfKey(kr.Key))
		}
	}
}

// SetReferenceCheck implements sql.ReferenceChecker: a foreign key asks whether a parent exists.
func (t *Indexed) SetReferenceCheck() error {
	acc := *t.Access
	acc.Lock, acc.Whole = kv.LockShared, false
	t.Access = &acc
	return nil
}

// scanSpecial answers spatial and vector indexes by reading the table.
func (t *Table) scanSpecial(ctx *sql.Context, l sql.IndexLookup) (sql.RowIter, error) {
	all := *t
	all.Columns = nil
	it, err := all.ScanAll(ctx)
	if err != nil {
		return nil, err
	}
	if o := l.VectorOrderAndLimit; o.OrderBy != nil {
		sf := sql.SortFields{{Column: o.OrderBy, Order: sql.Ascending}}
		if o.Limit == nil {
			return iters.NewSortIter(sf, it), nil
		}
		n, err := iters.GetInt64Value(ctx, o.Limit)
		if err != nil {
			return nil, err
		}
		return iters.NewTopRowsIter(sf, n, o.CalcFoundRows, it, 0), nil
	}
	ranges, ok := l.Ranges.(sql.MySQLRangeCollection)
	i, iok := l.Index.(*schema.EngineIndex)
	if !ok || !iok || len(ranges) == 0 {
		return t.project(it), nil
	}
	lo, lok := sql.GetMySQLRangeCutKey(ranges[0][0].LowerBound).(types.Point)
	hi, hok := sql.GetMySQLRangeCutKey(ranges[0][0].UpperBound).(types.Point)
	if !lok || !hok {
		return nil, sql.ErrInvalidGISData.New()
	}
	return t.project(&boxIter{RowIter: it, pos: i.Positions[0], lo: lo, hi: hi}), nil
}

// project applies the projection of the table to full rows.
func (t *Table) project(it sql.RowIter) sql.RowIter {
	if t.Columns == nil {
		return it
	}
	return &projectIter{it, t.Columns}
}

type projectIter struct {
	sql.RowIter
	cols []int
}

func (p *projectIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := p.RowIter.Next(ctx)
	if err != nil {
		return nil, err
	}
	out := make(sql.Row, len(p.cols))
	for i, c := range p.cols {
		out[i] = row[c]
	}
	return out, nil
}

// boxIter keeps rows whose geometry may meet a box.
type boxIter struct {
	sql.RowIter
	pos    int
	lo, hi types.Point
}

func (b *boxIter) Next(ctx *sql.Context) (sql.Row, error) {
	for {
		row, err := b.RowIter.Next(ctx)
		if err != nil {
			return nil, err
		}
		g, err := types.UnwrapGeometry(ctx, row[b.pos])
		if err != nil {
			return nil, sql.ErrInvalidGISData.New()
		}
		minX, minY, maxX, maxY := g.BBox()
		if minX <= b.hi.X && b.lo.X <= maxX && minY <= b.hi.Y && b.lo.Y <= maxY {
			return row, nil
		}
	}
}
