package sqlfront

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
)

const (
	firstBatch = 128 // rows of the first batch of a scan; it grows fourfold
	maxBatch   = 1 << 15
	batchBytes = 4 << 20
	getBatch   = 512 // keys of one Get
)

// rowSource yields the rows of a table that a read asks for, batch by batch.
type rowSource struct {
	st   *sqlTable
	tx   *Txn
	kv   kv.Txn
	lock kv.LockMode // that the statement asks for
	take kv.LockMode // that kv is asked for
	x    *index      // nil: keys and rows are those of the primary key

	keys  []base.Key // point reads left
	req   *kv.ScanRequest
	limit int

	check  sql.Expression // over full rows; may be nil
	buf    []sql.Row
	homes  []homeOf // of the rows in buf, with keepHomes
	exists bool     // only whether there is a row matters; values are not decoded
	whole  bool     // read to the end at the first Next
	want   []bool   // by position, the columns that matter; nil: all. Not with check
}

// open prepares a read of the table: transaction, pin, lock.
func (t *sqlTable) open(ctx *sql.Context) (*rowSource, error) {
	s := sessionOf(ctx)
	if s == nil {
		return nil, base.Errorf(base.CodeInvalid, "reading table %s needs a session", t.Name())
	}
	tx := s.txn()
	if tx == nil {
		// The engine reads outside of a transaction in a few places (SHOW, checks of DDL).
		nt, err := s.StartTransaction(ctx, sql.ReadWrite)
		if err != nil {
			return nil, err
		}
		ctx.SetTransaction(nt)
		tx = nt.(*Txn)
	}
	src := &rowSource{st: t, tx: tx, limit: firstBatch, whole: t.acc.whole}
	if t.t.desc.Locality.Kind == multi && (t.acc.asOf != 0 || tx.asOf != 0) {
		return nil, invalid("table " + t.Name() + " is MULTI MASTER: it cannot be read AS OF a time")
	}
	if t.acc.asOf != 0 {
		src.kv = tx.at(t.acc.asOf)
		return src, nil
	}
	s.noteTable(t.t)
	k, err := tx.begun(ctx)
	if err != nil {
		return nil, err
	}
	if at := k.ReadTimestamp(); tx.snapshot && at != 0 && t.t.ts > at && tx.snap == nil {
		// Both rules of GaussDB-Global: a definition is in effect at the snapshot, or the table is not read at it.
		return nil, tx.fail(base.Errorf(base.CodeSchemaChanged, "table %s was changed after the snapshot of the transaction", t.Name()))
	}
	if !t.acc.target {
		if err := tx.flush(ctx, &t.t.desc.ID); err != nil {
			return nil, err
		}
	}
	snap, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if cur := snap.table(t.t.desc.DB, t.Name()); tx.snap != nil && cur != nil && cur != t.t && t.cols == nil && src.x == nil {
		// The statement has changed the table itself and reads it again with an old object.
		c := *t
		c.t = cur
		src.st = &c
	}
	tx.pin(snap, t.t)
	src.kv, src.lock = k, tx.lockFor(t.acc)
	src.take = src.lock
	if t.t.desc.Locality.Kind == multi {
		if err := tx.hold(ctx, t.t); err != nil {
			return nil, err
		}
		src.take = tx.validates(t.acc, src.lock)
	}
	return src, nil
}

// scanAll reads the whole table, in the order of the primary key.
func (t *sqlTable) scanAll(ctx *sql.Context) (sql.RowIter, error) {
	src, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	var spans []base.Span
	for _, s := range t.t.shards() {
		p := base.IndexPrefix(s, t.t.desc.ID, 0, 0)
		spans = append(spans, base.Span{Start: p, End: p.PrefixEnd()})
	}
	src.scan(spans, true, false)
	return src, nil
}

func (r *rowSource) scan(spans []base.Span, merge, reverse bool) {
	r.req = &kv.ScanRequest{Spans: spans, Merge: merge, Reverse: reverse, Lock: r.take, MaxBytes: batchBytes}
	if merge {
		r.req.Suffix = r.x.prefixLen()
		if r.x == nil || r.x.desc.Class != classByHome {
			r.req.Suffix = base.ShardPrefixLen
		}
	}
}

// scanLookup reads what an index lookup asks for.
func (t *sqlTable) scanLookup(ctx *sql.Context, l sql.IndexLookup) (sql.RowIter, error) {
	i, ok := l.Index.(*sqlIndex)
	if !ok || i.x != nil && !i.x.desc.stored() {
		return t.scanSpecial(ctx, l)
	}
	// The index may come from a table object of another statement phase; its
	// positions are those of the same descriptor.
	ranges, ok := l.Ranges.(sql.MySQLRangeCollection)
	if !ok {
		return nil, base.Errorf(base.CodeInvalid, "unexpected range type %T", l.Ranges)
	}
	if t.acc.fetched != nil && len(ranges) == 1 {
		if k, err := i.keyRangeOf(ctx, ranges[0]); err == nil && !k.loose {
			if rows, ok := t.acc.fetched[lookupName(i, k)]; ok {
				return sql.RowsToRowIter(rows...), nil
			}
		}
	}
	src, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	src.x = i.x
	krs := make([]keyRange, 0, len(ranges))
	points, loose := true, false
	for _, r := range ranges {
		k, err := i.keyRangeOf(ctx, r)
		if err != nil {
			return nil, err
		}
		if k.empty {
			continue
		}
		krs = append(krs, k)
		points = points && k.point && i.IsUnique()
		loose = loose || k.loose
	}
	if loose && !t.t.virtual {
		if src.check, err = expression.NewRangeFilterExpr(ctx, i.fields(), ranges); err != nil {
			return nil, err
		}
	}
	if len(krs) == 0 {
		return src, nil
	}
	// The ranges come in no order, but the index promises one. They are disjoint as
	// conditions, but what is read for two of them may overlap.
	slices.SortFunc(krs, func(a, b keyRange) int { return bytes.Compare(a.lo, b.lo) })
	if !points {
		krs = joinOverlaps(krs)
	}
	if points {
		for _, k := range krs {
			src.keys = append(src.keys, i.pointKey(k))
		}
		if l.IsReverse {
			slices.Reverse(src.keys)
		}
		return src, nil
	}
	var spans []base.Span
	single := true
	for _, k := range krs {
		s := i.spans(t.g.db.Topology().Regions, k)
		single = single && len(s) == 1
		spans = append(spans, s...)
	}
	if single && l.IsReverse {
		slices.Reverse(spans)
	}
	src.scan(spans, !single, l.IsReverse)
	return src, nil
}

// joinOverlaps makes sorted ranges disjoint.
func joinOverlaps(krs []keyRange) []keyRange {
	out := krs[:1]
	for _, k := range krs[1:] {
		last := &out[len(out)-1]
		if last.hi != nil && bytes.Compare(last.hi, k.lo) <= 0 {
			out = append(out, k)
			continue
		}
		if last.hi != nil && (k.hi == nil || bytes.Compare(k.hi, last.hi) > 0) {
			last.hi = k.hi
		}
		if !bytes.Equal(last.first, k.first) {
			last.first = nil
		}
	}
	return out
}

// pointKey is the key of a point in a unique index or the primary key.
func (i *sqlIndex) pointKey(k keyRange) base.Key {
	if i.x == nil {
		return append(base.IndexPrefix(i.t.shardOf(k.first), i.t.desc.ID, 0, 0), k.lo...)
	}
	return append(base.IndexPrefix(i.t.shardOf(k.first), i.t.desc.ID, i.x.desc.key(), 0), k.lo...)
}

// Next implements sql.RowIter.
func (r *rowSource) Next(ctx *sql.Context) (sql.Row, error) {
	for len(r.buf) == 0 {
		if len(r.keys) == 0 && r.req == nil {
			return nil, io.EOF
		}
		if err := r.fill(ctx); err != nil {
			return nil, err
		}
	}
	row := r.buf[0]
	r.buf[0] = nil
	r.buf = r.buf[1:]
	if len(r.homes) > 0 {
		r.tx.lastHome, r.homes = r.homes[0], r.homes[1:]
	}
	return row, nil
}

// Close implements sql.RowIter.
func (r *rowSource) Close(*sql.Context) error {
	r.buf, r.keys, r.req = nil, nil, nil
	return nil
}

// fill reads a batch, or everything if the statement changes the table.
func (r *rowSource) fill(ctx *sql.Context) error {
	for {
		rows, err := r.batch(ctx)
		if err != nil {
			return err
		}
		if err := r.decode(ctx, rows); err != nil {
			return err
		}
		if !r.whole || len(r.keys) == 0 && r.req == nil {
			return nil
		}
	}
}

// kvctx is the context for reads: to see where rows live is no use of them.
func (r *rowSource) kvctx(ctx *sql.Context) context.Context {
	if r.st.t.of != nil {
		return kv.WithQuiet(r.tx.s.kvctx(ctx))
	}
	return r.tx.s.kvctx(ctx)
}

// batch reads the kv rows of the next batch.
func (r *rowSource) batch(ctx *sql.Context) ([]kv.Row, error) {
	var entries []kv.Row
	var err error
	if len(r.keys) > 0 {
		n := min(len(r.keys), getBatch)
		if entries, err = r.get(ctx, r.keys[:n]); err != nil {
			return nil, err
		}
		r.keys = r.keys[n:]
	} else {
		r.req.Limit = r.limit
		r.limit = min(4*r.limit, maxBatch)
		res, err := r.kv.Scan(r.kvctx(ctx), *r.req)
		if err != nil {
			return nil, r.tx.fail(err)
		}
		entries, r.req = res.Rows, res.Next
	}
	if r.x == nil {
		return entries, nil
	}
	rows := make([]kv.Row, 0, len(entries))
	keys := make([]base.Key, 0, min(len(entries), getBatch))
	for i, e := range entries {
		if e.Value != nil {
			ref, err := r.x.entryRef(e.Key, e.Value)
			if err != nil {
				return nil, clientError(err)
			}
			keys = append(keys, r.st.t.rowKey(ref))
		}
		if len(keys) == getBatch || i == len(entries)-1 && len(keys) > 0 {
			got, err := r.get(ctx, keys)
			if err != nil {
				return nil, err
			}
			rows = append(rows, got...)
			keys = keys[:0:0]
		}
	}
	return rows, nil
}

func (r *rowSource) get(ctx *sql.Context, keys []base.Key) ([]kv.Row, error) {
	rows, err := r.kv.Get(r.kvctx(ctx), keys, r.take)
	if err != nil {
		return nil, r.tx.fail(err)
	}
	return rows, nil
}

// decode turns kv rows into rows of the table and appends them to the buffer.
func (r *rowSource) decode(ctx *sql.Context, rows []kv.Row) error {
	t := r.st
	width := len(t.t.cols)
	for _, kr := range rows {
		if kr.Value == nil {
			continue
		}
		if t.t.of != nil {
			if err := r.home(ctx, kr); err != nil {
				return err
			}
			continue
		}
		row := make(sql.Row, width)
		if r.exists && r.check == nil {
			r.buf = append(r.buf, row)
			continue
		}
		if err := t.t.decodeCols(ctx, kr.Value, row, r.want); err != nil {
			return clientError(err)
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
		if t.acc.keepHomes {
			r.homes = append(r.homes, homeOf{kr.Home, kr.Label.Pinned()})
		}
		if t.cols != nil {
			p := make(sql.Row, len(t.cols))
			for i, c := range t.cols {
				p[i] = row[c]
			}
			row = p
		}
		r.buf = append(r.buf, row)
	}
	return nil
}

// home appends a row of t__homes.
func (r *rowSource) home(ctx *sql.Context, kr kv.Row) error {
	row, err := r.st.g.homesRow(ctx, r.st.t, kr)
	if err != nil {
		return clientError(err)
	}
	if r.check != nil {
		if ok, err := r.check.Eval(ctx, row); err != nil || !sql.IsTrue(ok) {
			return err
		}
	}
	if r.lock == kv.LockExclusive {
		if r.tx.located == nil {
			r.tx.located = map[string]kv.Row{}
		}
		r.tx.located[string(kr.Key)] = kr
	}
	if cols := r.st.cols; cols != nil {
		p := make(sql.Row, len(cols))
		for i, c := range cols {
			p[i] = row[c]
		}
		row = p
	}
	r.buf = append(r.buf, row)
	return nil
}

// remember keeps what a later change of the row needs and the row does not say.
func (r *rowSource) remember(ctx *sql.Context, kr kv.Row, row sql.Row) {
	if kr.Advice != 0 {
		r.tx.noteAdvice(kr)
	}
	if r.st.t.byHome() {
		r.tx.noteHome(kr.Key, kr.Home)
	}
	if len(r.st.t.pk) == 0 {
		if enc, err := r.st.t.appendRow(ctx, nil, row); err == nil {
			r.tx.noteHidden(r.st.t, enc, refOfKey(kr.Key))
		}
	}
}

// byHome reports whether an index of the table is keyed by home.
func (t *table) byHome() bool {
	for _, x := range t.indexes {
		if x.desc.Class == classByHome && x.desc.stored() {
			return true
		}
	}
	return false
}

// SetReferenceCheck implements sql.ReferenceChecker: a foreign key asks whether a parent exists.
func (t *indexedTable) SetReferenceCheck() error {
	acc := *t.acc
	acc.lock, acc.whole = kv.LockShared, false
	t.acc = &acc
	return nil
}

// scanSpecial answers spatial and vector indexes by reading the table.
func (t *sqlTable) scanSpecial(ctx *sql.Context, l sql.IndexLookup) (sql.RowIter, error) {
	all := *t
	all.cols = nil
	it, err := all.scanAll(ctx)
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
	i, iok := l.Index.(*sqlIndex)
	if !ok || !iok || len(ranges) == 0 {
		return t.project(it), nil
	}
	lo, lok := sql.GetMySQLRangeCutKey(ranges[0][0].LowerBound).(types.Point)
	hi, hok := sql.GetMySQLRangeCutKey(ranges[0][0].UpperBound).(types.Point)
	if !lok || !hok {
		return nil, sql.ErrInvalidGISData.New()
	}
	return t.project(&boxIter{RowIter: it, pos: i.pos[0], lo: lo, hi: hi}), nil
}

// project applies the projection of the table to full rows.
func (t *sqlTable) project(it sql.RowIter) sql.RowIter {
	if t.cols == nil {
		return it
	}
	return &projectIter{it, t.cols}
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
