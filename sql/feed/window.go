package feed

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// window is a period that is being delivered: one without a change of the catalog, or the moment of
// one.
type window struct {
	r        *Reader
	from, to base.Timestamp
	tables   map[base.TableID]*schema.Table
	left     []version // by timestamp and key
	// stream is what is still to be read of a transaction that is too large to be kept: all of the
	// window is one then.
	stream []base.Span
	// The rest is of a moment at which the catalog changed.
	is       *schema.Snapshot
	defs     []Definition
	moved    map[base.TableID]bool // tables that have just taken the place of others
	fill     []*schema.Table       // whose rows are still to come
	at       []base.Span           // where those of the first one are; nil: it has not been begun
	told     bool                  // the definitions have been delivered
	finished bool                  // all of the moment has been

	begun base.Timestamp // of the transaction that the newest part belongs to, if that was not the last
}

// version is one of a row.
type version struct {
	kv.Row
	// before is the version that it replaces, if that is of the window, too; else it is to be read.
	before *version
}

// open gathers a window that ends at to, or before if there is too much.
func (r *Reader) open(ctx context.Context, to base.Timestamp) (*window, error) {
	w := &window{r: r, from: r.from, to: to, tables: r.tables}
	if len(r.moments) > 0 && r.moments[0] == to {
		is, err := schema.LoadSnapshot(kv.WithPatience(ctx, kv.NewPatience()), r.env.DB, r.snap, to)
		if err != nil {
			return nil, err
		}
		w.is, w.tables = is, r.choose(is)
		r.compare(w)
	}
	g := &gathering{to: to, from: w.from}
	if err := g.read(ctx, w); err != nil {
		return nil, err
	}
	w.to, w.left = g.to, g.sorted()
	if g.huge == w.to {
		w.stream = w.spans()
	}
	return w, nil
}

// gathering is the versions of a window that have been read.
type gathering struct {
	from  base.Timestamp
	mu    sync.Mutex
	to    base.Timestamp
	all   []version
	bytes int
	// huge is the end of the window, if all that was found has this timestamp and is too much to be
	// kept; nothing is kept of it then. 0: it is not so.
	huge base.Timestamp
}

func (g *gathering) upTo() base.Timestamp {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.to
}

func size(v *version) int { return len(v.Key) + len(v.Value) + 96 }

// add keeps a version. If there are too many, the window ends earlier: what lies behind is read
// again with the next one.
func (g *gathering) add(row *kv.Row) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case row.TS > g.to || row.TS == g.huge:
		return
	case g.huge != 0: // something comes before it
		g.to, g.huge = g.huge.Prev(), 0
	}
	v := version{Row: *row}
	g.all, g.bytes = append(g.all, v), g.bytes+size(&v)
	for g.bytes > keptBytes && g.huge == 0 {
		if !g.cut() {
			g.huge, g.all, g.bytes = g.to, nil, 0
		}
	}
}

// cut ends the window earlier; false: it has one timestamp.
func (g *gathering) cut() bool {
	all := make([]base.Timestamp, len(g.all))
	for i := range g.all {
		all[i] = g.all[i].TS
	}
	slices.Sort(all)
	to := all[len(all)/2]
	if to >= all[len(all)-1] {
		i, _ := slices.BinarySearch(all, to)
		if i == 0 {
			g.to = to
			return false
		}
		to = all[i-1]
	}
	g.to = to
	g.all = slices.DeleteFunc(g.all, func(v version) bool { return v.TS > to })
	g.bytes = 0
	for i := range g.all {
		g.bytes += size(&g.all[i])
	}
	return true
}

// read reads all shards of the tables of the window. One that was dropped went with its rows.
func (g *gathering) read(ctx context.Context, w *window) error {
	shards := map[base.ShardID][]base.Span{}
	for _, s := range w.spans() {
		shards[s.Start.Shard()] = append(shards[s.Start.Shard()], s)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, s := range slices.Sorted(maps.Keys(shards)) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := w.r.changes(ctx, shards[s], w.from, g.upTo, g.add); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// spans are those of the tables that are there before and after the window, in the order in which
// their rows are delivered.
func (w *window) spans() (out []base.Span) {
	for _, id := range slices.Sorted(maps.Keys(w.tables)) {
		if w.r.tables[id] == nil && !w.moved[id] {
			continue // its rows come as a whole, or not at all
		}
		for _, s := range slices.Sorted(slices.Values(w.tables[id].Shards())) {
			p := base.IndexPrefix(s, id, 0, 0)
			out = append(out, base.Span{Start: p, End: p.PrefixEnd()})
		}
	}
	return out
}

// fillLeft reads more of a transaction that is too large to be kept. What it reads of one span is
// in the order of keys, with one version of each.
func (w *window) fillLeft(ctx context.Context, stream []base.Span) (left []version, rest []base.Span, err error) {
	for len(left) == 0 && len(stream) > 0 {
		res, err := w.r.env.DB.Changes(kv.WithQuiet(ctx),
			kv.ChangesRequest{Spans: stream[:1], Since: w.from, UpTo: w.to, MaxBytes: pageBytes})
		if err != nil {
			return nil, nil, err
		}
		for i := range res.Rows {
			left = append(left, version{Row: res.Rows[i]})
		}
		stream = append(slices.Clone(res.Next), stream[1:]...)
	}
	return left, stream, nil
}

// more reports whether rows are still to be delivered.
func (w *window) more() bool { return len(w.left) > 0 || len(w.stream) > 0 }

// spansAtOnce is how many ranges one request may have.
const spansAtOnce = 256

// changes calls fn for all versions of a period. Its end may come nearer meanwhile.
func (r *Reader) changes(ctx context.Context, spans []base.Span, since base.Timestamp, upTo func() base.Timestamp, fn func(*kv.Row)) error {
	for len(spans) > 0 {
		n := min(len(spans), spansAtOnce)
		began := time.Now()
		res, err := r.env.DB.Changes(kv.WithQuiet(ctx), kv.ChangesRequest{Spans: spans[:n], Since: since, UpTo: upTo(), MaxBytes: pageBytes})
		if err != nil {
			return err
		}
		r.work.Add(int64(time.Since(began) - res.Waited))
		for w := r.waited.Load(); int64(res.Waited) > w && !r.waited.CompareAndSwap(w, int64(res.Waited)); w = r.waited.Load() {
		}
		for i := range res.Rows {
			fn(&res.Rows[i])
		}
		spans = append(res.Next, spans[n:]...)
	}
	return nil
}

// sorted are the versions by timestamp and key. Shards that were read before the window was cut
// have none behind it.
func (g *gathering) sorted() []version {
	out := slices.DeleteFunc(g.all, func(v version) bool { return v.TS > g.to })
	slices.SortFunc(out, func(a, b version) int {
		return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(a.Key.Table(), b.Key.Table()), a.Key.Compare(b.Key))
	})
	last := map[string]*version{}
	for i := range out {
		out[i].before = last[string(out[i].Key)]
		last[string(out[i].Key)] = &out[i]
	}
	return out
}

// over reports whether all of the window has been delivered.
func (w *window) over() bool {
	return !w.more() && (w.is == nil || w.finished)
}

// resolved is up to when all has been delivered.
func (w *window) resolved() base.Timestamp {
	if len(w.left) == 0 || len(w.stream) > 0 || w.is != nil {
		return w.from
	}
	return max(w.from, w.left[0].TS.Prev())
}

// next delivers about nextBytes.
func (w *window) next(ctx context.Context) (txs []Tx, err error) {
	if w.is != nil {
		return w.moment(ctx)
	}
	return w.rows(ctx)
}

// rows delivers row changes. It changes the window only if it succeeds.
func (w *window) rows(ctx context.Context) (txs []Tx, err error) {
	left, stream, bytes := w.left, w.stream, 0
	if w.begun != 0 && w.more() {
		txs = []Tx{{TS: w.begun}}
	}
	for bytes < nextBytes {
		if len(left) == 0 {
			if left, stream, err = w.fillLeft(ctx, stream); err != nil {
				return nil, err
			}
			if len(left) == 0 {
				break
			}
		}
		n := min(len(left), beforeRows)
		changes, b, err := w.images(ctx, left[:n])
		if err != nil {
			return nil, err
		}
		for i, c := range changes {
			if c == nil {
				continue
			}
			if ts := left[i].TS; len(txs) == 0 || txs[len(txs)-1].TS != ts {
				txs = append(txs, Tx{TS: ts})
			}
			last := &txs[len(txs)-1]
			last.Changes = append(last.Changes, *c)
		}
		left, bytes = left[n:], bytes+b
	}
	w.left, w.stream, w.begun = left, stream, 0
	if n := len(txs); n > 0 && (len(stream) > 0 || len(left) > 0 && txs[n-1].TS == left[0].TS) {
		txs[n-1].More, w.begun = true, txs[n-1].TS
	}
	return txs, nil
}

// images makes changes of versions; nil is no change. bytes is how large they are.
func (w *window) images(ctx context.Context, vs []version) (out []*Change, bytes int, err error) {
	var keys []base.Key
	for i := range vs {
		if vs[i].before == nil {
			keys = append(keys, vs[i].Key)
		}
	}
	before := map[string]kv.Row{}
	if len(keys) > 0 {
		err := w.r.at(ctx, w.from, func(ctx context.Context, t kv.Txn) error {
			rows, err := t.Get(ctx, keys, kv.LockNone)
			for i := range rows {
				before[string(keys[i])] = rows[i]
			}
			return err
		})
		if err != nil {
			return nil, 0, err
		}
	}
	out = make([]*Change, len(vs))
	for i := range vs {
		v := &vs[i]
		was := before[string(v.Key)]
		if v.before != nil {
			was = v.before.Row
		}
		bytes += size(v) + len(was.Value)
		if (v.Value == nil) == (was.Value == nil) && string(v.Value) == string(was.Value) {
			continue
		}
		t := w.tables[v.Key.Table()]
		c := &Change{Table: t, Key: v.Key, Home: v.Home}
		if c.Before, err = w.r.decode(ctx, t, was.Value); err == nil {
			c.After, err = w.r.decode(ctx, t, v.Value)
		}
		if err != nil {
			return nil, 0, err
		}
		out[i] = c
	}
	return out, bytes, nil
}

// at reads one snapshot, from the replicas near this node, and counts as no use of the rows.
func (r *Reader) at(ctx context.Context, ts base.Timestamp, fn func(context.Context, kv.Txn) error) error {
	ctx = kv.WithQuiet(ctx)
	_, err := kv.Run(ctx, r.env.DB, kv.Options{ReadOnly: true, ReadTS: ts}, func(t kv.Txn) error {
		return fn(kv.WithPatience(ctx, kv.NewPatience()), t)
	})
	return err
}

// decode is a row of a value; nil for nil.
func (r *Reader) decode(ctx context.Context, t *schema.Table, value []byte) (sql.Row, error) {
	if value == nil {
		return nil, nil
	}
	row := make(sql.Row, len(t.Cols))
	if err := t.DecodeRow(ctx, value, row); err != nil {
		return nil, err
	}
	return row, r.computed(t, row)
}

// moment delivers what belongs to a moment at which the catalog changed: definitions, rows that
// were committed at the same time, and the rows of new tables.
func (w *window) moment(ctx context.Context) ([]Tx, error) {
	done := func() bool {
		w.finished = !w.more() && len(w.fill) == 0
		return w.finished
	}
	part := Tx{TS: w.to}
	switch {
	case !w.told:
		w.told = true
		if done() && len(w.defs) == 0 {
			return nil, nil
		}
		part.Definitions = w.defs
	case w.more():
		txs, err := w.rows(ctx)
		if err != nil {
			return nil, err
		}
		for _, tx := range txs { // all have one timestamp
			part.Changes = append(part.Changes, tx.Changes...)
		}
	case len(w.fill) > 0:
		var err error
		if part.Changes, err = w.page(ctx); err != nil {
			return nil, err
		}
	}
	part.More = !done()
	return []Tx{part}, nil
}

// page reads rows of the first new table.
func (w *window) page(ctx context.Context) (out []Change, err error) {
	t := w.fill[0]
	spans := w.at
	if spans == nil {
		for _, s := range t.Shards() {
			p := base.IndexPrefix(s, t.Desc.ID, 0, 0)
			spans = append(spans, base.Span{Start: p, End: p.PrefixEnd()})
		}
	}
	var res kv.ScanResult
	err = w.r.at(ctx, w.to, func(ctx context.Context, k kv.Txn) (err error) {
		res, err = k.Scan(ctx, kv.ScanRequest{Spans: spans[:1], MaxBytes: pageBytes})
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range res.Rows {
		c := Change{Table: t, Key: res.Rows[i].Key, Home: res.Rows[i].Home}
		if c.After, err = w.r.decode(ctx, t, res.Rows[i].Value); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if res.Next != nil && len(res.Rows) > 0 {
		spans[0] = base.Span{Start: res.Rows[len(res.Rows)-1].Key.Next(), End: spans[0].End}
	} else {
		spans = spans[1:]
	}
	if w.at = spans; len(spans) == 0 {
		w.at, w.fill = nil, w.fill[1:]
	}
	return out, nil
}
