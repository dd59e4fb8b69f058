package access

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/access/sieve"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

const (
	firstRows = 1024    // rows of the first batch of a scan; the next ones have eight times as many
	mostRows  = 1 << 15 // at most
	mostKeys  = 2048    // of one Get
)

// rows are those of one read of a stored table.
type rows struct {
	s       *Statement
	t       *Table
	read    exec.Read
	src     *table.Source
	dec     *decoder
	entries *entries            // of the index have all that is wanted; nil: rows are read
	index   *schema.EngineIndex // nil: the rows as they lie
	begun   bool
	keys    []base.Key      // of rows, or of entries of a unique index, that are to be read
	req     *kv.ScanRequest // of spans that are to be scanned
	size    int             // rows of the next batch
	left    int64           // rows that are still wanted, with a limit
	pending []kv.Row
	reads   reads
	within  []int     // the placements in which rows can lie that the statement wants; nil: all
	skip    *skipping // with exec.WaitSkip
	// homes: it is t__homes that is read, of which values makes vectors.
	homes  bool
	values *Values
	// computing are the columns that are not stored; nil: none of them is wanted.
	computing *computing
}

// reads is what a read may still ask for, for the announcement.
type reads struct {
	spans []base.Span
	keys  []base.Key
}

// Start implements exec.Source.
func (t *Table) Start(ctx *exec.Ctx, read exec.Read) (exec.Rows, error) {
	if t.st == nil {
		return nil, base.Errorf(base.CodeInvalid, "table %s is not stored", t.Name())
	}
	r := &rows{s: t.s, t: t, read: read, size: firstRows, left: read.Limit}
	if err := r.open(); err != nil {
		return nil, err
	}
	if read.Wait == exec.WaitSkip && r.src.Take != kv.LockNone { // a snapshot locks nothing
		r.skip = &skipping{}
	}
	cols := read.Cols
	var err error
	if r.computing, err = t.computing(cols, ctx.Env); err != nil {
		return nil, err
	} else if r.computing != nil {
		cols = r.computing.cols
	}
	typs := make([]expr.Type, len(cols))
	for i, c := range cols {
		typs[i] = t.cols[c].Type
	}
	r.dec = newDecoder(t.s.ctx, r.src.Table.Def, cols, typs)
	if r.homes = r.src.Table.Def.HomesOf != nil; r.homes {
		r.values = t.NewValues()
	}
	r.entries = r.entriesOf()
	if read.Within != nil && r.src.Table.Def.PartCol() >= 0 {
		if r.within, err = r.t.places(read.Within); err != nil {
			return nil, err
		}
	}
	if r.within != nil && len(r.within) == 0 {
		return r, nil // no placement has such rows
	}
	if err := r.plan(keyer{ctx: t.s.ctx, i: r.index}); err != nil {
		return nil, err
	}
	if !t.asked {
		t.asked = true
		t.s.work.Read(read.Keys == nil && read.Spans == nil, read.Spans != nil && r.req != nil)
	}
	t.s.waiting = append(t.s.waiting, r)
	return r, nil
}

var lockModes = map[exec.Lock]kv.LockMode{exec.LockNone: kv.LockNone, exec.LockShare: kv.LockShared,
	exec.LockUpdate: kv.LockExclusive}

// open begins and pins what the read needs, and chooses its lock.
func (r *rows) open() error {
	st := *r.t.st
	if l := lockModes[r.read.Lock]; l > st.Access.Lock {
		acc := *st.Access
		acc.Lock, acc.Target = l, r.t.target && l == kv.LockExclusive
		st.Access = &acc
	}
	var err error
	if r.src, err = st.Open(r.s.ctx); err != nil {
		return err
	}
	if r.read.Index >= 0 {
		r.index = r.t.byIdx[r.read.Index]
		r.src.Index = r.index.Index
	}
	return nil
}

// plan makes keys or spans of what is asked for.
func (r *rows) plan(k keyer) error {
	switch {
	case r.read.Keys != nil:
		return r.planKeys(k)
	case r.read.Spans != nil && k.i == nil:
		return base.Errorf(base.CodeInvalid, "spans of table %s without an index", r.t.Name())
	case r.read.Spans != nil:
		return r.planSpans(k)
	}
	r.scan([]schema.KeyRange{{}})
	return nil
}

func (r *rows) planKeys(k keyer) error {
	var ranges []schema.KeyRange
	points := true
	b := r.read.Keys
	for _, i := range b.Sel {
		vals := make([]expr.Value, len(b.Cols))
		for j, c := range b.Cols {
			vals[j] = c.At(i)
		}
		kr, err := k.span(exec.Span{Lo: vals, Hi: vals})
		if err != nil {
			return schema.ClientError(err)
		}
		if kr.Empty {
			continue
		}
		points = points && kr.Point
		ranges = append(ranges, kr)
	}
	r.ranges(ranges, points)
	return nil
}

func (r *rows) planSpans(k keyer) error {
	var ranges []schema.KeyRange
	points := true
	for _, s := range r.read.Spans {
		kr, err := k.span(s)
		if err != nil {
			return schema.ClientError(err)
		}
		if kr.Empty {
			continue
		}
		points = points && kr.Point
		ranges = append(ranges, kr)
	}
	r.ranges(ranges, points)
	return nil
}

// ranges reads ranges of the index; points says that each is the key of one row at most.
func (r *rows) ranges(krs []schema.KeyRange, points bool) {
	if len(krs) == 0 {
		return
	}
	krs = joined(krs)
	if !points {
		r.scan(krs)
		return
	}
	for _, k := range krs {
		r.keys = append(r.keys, r.index.PointKey(k))
	}
	if r.read.Reverse {
		slices.Reverse(r.keys)
	}
	r.reads.keys = r.keys
}

// scan reads ranges of the index, or of the rows as they lie.
func (r *rows) scan(krs []schema.KeyRange) {
	def, regions := r.src.Table.Def, r.src.Table.Env.DB.Topology().Regions
	var spans []base.Span
	single := true
	for _, k := range krs {
		k = k.In(r.within)
		var s []base.Span
		if r.index != nil {
			s = r.index.Spans(regions, k)
		} else {
			s = def.RowSpans(k.Parts)
		}
		single = single && len(s) == 1
		spans = append(spans, s...)
	}
	if len(spans) == 0 {
		return
	}
	ordered := r.read.Ordered || r.read.Reverse
	if single && r.read.Reverse {
		slices.Reverse(spans)
	}
	r.src.Scan(spans, ordered && !single, r.read.Reverse)
	r.req = r.src.Request()
	r.req.Lock, r.req.Each = r.lock(), r.read.Each
	r.req.Drops = r.drops(len(krs))
	r.reads.spans = spans
	if len(krs) > 1 { // look-ups, of which all rows are wanted
		r.size = mostRows
	}
}

// drops tells rows that a scan of so many ranges does not want; nil: it cannot be told from their
// bytes, or is not worth it.
func (r *rows) drops(ranges int) kv.Sieve {
	if r.homes || ranges > 1 || r.index != nil && r.index.Index != nil || r.read.Limit > 0 || r.lock() != kv.LockNone ||
		len(r.read.Bounds) == 0 || r.src.Table.Def.Desc.Locality.Kind == schema.MultiMaster {
		return nil
	}
	s := sieve.New(r.src.Table.Def, r.read.Cols, r.read.Bounds, sieve.Epoch{Zero: epoch, NoDate: zeroDate})
	if s == nil {
		return nil
	}
	return s.Drops
}

// Next implements exec.Rows.
func (r *rows) Next(b *expr.Batch) (bool, error) {
	got, err := r.more()
	if err != nil || len(got) == 0 {
		return false, err
	}
	out := b
	if r.computing != nil {
		b = &r.computing.stored
	}
	r.dec.begin(b, len(got))
	if r.skip != nil {
		r.skip.shown = append(r.skip.shown[:0], got...)
	}
	for i := range got {
		if err := r.decode(&got[i], b, i); err != nil {
			return false, schema.ClientError(err)
		}
		got[i] = kv.Row{}
	}
	if r.computing != nil {
		return true, r.computing.fill(out)
	}
	return true, nil
}

// more are the rows of the next batch, as they are stored; none at the end.
func (r *rows) more() ([]kv.Row, error) {
	if !r.begun {
		if err := r.s.announce(r); err != nil {
			return nil, err
		}
		r.begin()
	}
	for len(r.pending) == 0 {
		if r.done() {
			return nil, nil
		}
		if err := r.s.ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.fetch(); err != nil {
			return nil, err
		}
	}
	n := fitting(r.pending[:min(len(r.pending), expr.BatchSize)])
	if r.read.Limit > 0 {
		n = int(min(int64(n), r.left))
		r.left -= int64(n)
	}
	r.s.work.Examined += uint64(n)
	got := r.pending[:n:n]
	r.pending = r.pending[n:]
	return got, nil
}

// batchBytes is about how much a batch of rows has at most: operators ask between batches whether
// they may go on, and need up to 50 ns for a byte of a text.
const batchBytes = 1 << 20

// fitting is how many of the rows, of which there is one at least, make a batch.
func fitting(rows []kv.Row) int {
	size := 0
	for i := range rows {
		if size += len(rows[i].Value); size > batchBytes {
			return max(i, 1)
		}
	}
	return len(rows)
}

// decode makes a row of a batch of what was read.
func (r *rows) decode(got *kv.Row, b *expr.Batch, i int) error {
	if r.entries != nil {
		return r.entries.decode(got, b, i)
	}
	if r.homes {
		return r.home(*got, b, i)
	}
	if err := r.dec.row(got.Value, b, i); err != nil {
		return err
	}
	r.dec.stored(*got, b, i)
	return nil
}

// home makes a row of t__homes of the row that was read.
func (r *rows) home(got kv.Row, b *expr.Batch, i int) error {
	row, err := r.t.st.Env.HomesRow(r.s.ctx, r.src.Table.Def, got)
	if err != nil {
		return err
	}
	for k, c := range r.read.Cols {
		if err := r.values.Put(b.Cols[k], i, c, row[c]); err != nil {
			return err
		}
	}
	return nil
}

// begin notes that the read is under way.
func (r *rows) begin() {
	r.begun = true
	r.s.waiting = slices.DeleteFunc(r.s.waiting, func(o *rows) bool { return o == r })
}

// done reports whether nothing is to come behind what is pending.
func (r *rows) done() bool {
	return r.read.Limit > 0 && r.left <= 0 || len(r.keys) == 0 && r.req == nil
}

// fetch reads the next batch of the store.
func (r *rows) fetch() error {
	var got []kv.Row
	var err error
	switch {
	case len(r.keys) > 0:
		n := min(len(r.keys), mostKeys)
		if got, err = r.get(r.keys[:n]); err != nil {
			return err
		}
		r.keys = r.keys[n:]
	default:
		r.req.Limit = r.size
		switch {
		case r.read.Limit > 0:
			r.req.Limit = int(min(int64(r.size), r.left))
		case r.read.Whole && r.lock() != kv.LockNone:
			// To lock so many rows and no more, an owner has to find out first where they end.
			r.req.Limit, r.req.MaxBytes = 0, table.BatchBytes
		}
		first := r.size == firstRows
		r.size = min(8*r.size, mostRows)
		if r.req.Next = r.size; first || r.read.Limit > 0 || r.lock() != kv.LockNone {
			r.req.Next = 0 // one batch may be enough
		}
		res, err := r.src.KV.Scan(r.kvctx(), *r.req)
		if err != nil {
			return r.src.Txn.Fail(err)
		}
		got, r.req = res.Rows, res.Next
	}
	return r.take(got)
}

// take makes what was read pending. If it was entries of an index, take first reads their rows,
// unless the entries have all that is wanted.
func (r *rows) take(got []kv.Row) error {
	if r.src.Index != nil && r.entries == nil {
		var err error
		if got, err = r.byEntries(got); err != nil {
			return err
		}
	}
	got = slices.DeleteFunc(got, func(k kv.Row) bool { return k.Value == nil })
	if r.skip == nil {
		r.src.Remember(got)
	}
	r.pending = got
	return nil
}

// lock is the lock that rows are read under. It is none with SKIP LOCKED: rows that the filter
// drops must not be locked, so rows.Lock locks the others later.
func (r *rows) lock() kv.LockMode {
	if r.skip != nil {
		return kv.LockNone
	}
	return r.src.Take
}

// kvctx is the context of reads: it says what they do about locks of others.
func (r *rows) kvctx() context.Context {
	ctx := r.src.Kvctx(r.s.ctx)
	switch {
	case r.skip != nil:
		return kv.WithGlance(kv.WithQuiet(ctx), &r.skip.at)
	case r.read.Wait == exec.WaitNot:
		return kv.WithNoWait(ctx)
	}
	return ctx
}

func (r *rows) get(keys []base.Key) ([]kv.Row, error) {
	got, err := r.src.KV.Get(r.kvctx(), keys, r.lock())
	if err != nil {
		return nil, r.src.Txn.Fail(err)
	}
	return got, nil
}

// byEntries reads the rows that entries of an index name.
func (r *rows) byEntries(entries []kv.Row) ([]kv.Row, error) {
	keys := make([]base.Key, 0, len(entries))
	for _, e := range entries {
		if e.Value == nil {
			continue
		}
		ref, err := r.src.Index.EntryRef(e.Key, e.Value)
		if err != nil {
			return nil, schema.ClientError(err)
		}
		keys = append(keys, r.src.Table.Def.RowKey(ref))
	}
	out := make([]kv.Row, 0, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), mostKeys)
		got, err := r.get(keys[:n])
		if err != nil {
			return nil, err
		}
		out, keys = append(out, got...), keys[n:]
	}
	return out, nil
}

// Close implements exec.Rows.
func (r *rows) Close() error {
	r.begin()
	r.pending, r.keys, r.req = nil, nil, nil
	return nil
}
