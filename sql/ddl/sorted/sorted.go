// Package sorted fills a new index of a table that others go on writing to, in the order of the
// index.
//
// It works in rounds. A round reads rows from one snapshot, without locks. It gathers their entries
// until they are some ten megabytes, sorts them, and writes them in transactions of many entries
// that lie next to each other: each locks one range, and a log-structured store takes them as they
// come. Meanwhile rows change. Their writers keep the index up, but an entry may be written here
// after the writer who was to remove it did not find it. So at its end a round makes sure that all
// writers of before are over (the barrier), asks the log of changes which rows have changed since
// its snapshot, and removes the entries that these rows no longer have.
//
// Why nothing is missed: let E be an entry of the snapshot that its row no longer has once the
// round is over. A transaction W has taken it away, after the snapshot. If W began after the
// barrier, it began after E was written, found it, and removed it. Else W has committed below the
// barrier, because the definition on which it depends has changed there; then the row is among
// the changes, and E is removed here, under the lock of the row.
//
// An entry that should not be there harms nobody: the index is not read before it is published.
// That does not hold for a unique index, which tells writers of duplicates; those are filled
// otherwise.
package sorted

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/sql/schema"
)

// Build is an index to be filled.
type Build struct {
	DB    kv.DB
	Table *schema.Table
	Index *schema.Index
	// Trace is of the reads, and Traces are those of the transactions that write; there is one for
	// each writer. Nil traces count nothing.
	Trace  *obs.Trace
	Traces [Writers]*obs.Trace
	// Barrier changes the definition of the table, if only its version, and returns the timestamp
	// of that: a transaction that depends on an older version commits below it, or not at all.
	Barrier func(ctx context.Context) (base.Timestamp, error)
	// Did is told of rows whose entries are written.
	Did func(rows int)

	want       []bool        // columns of the index
	ChunkBytes int           // of entries that are sorted at once; 0: 32 MiB
	Round      time.Duration // after which a round begins no other chunk; 0: 20 s
	// NoRepair leaves out what a round does at its end, for tests that show what breaks then.
	NoRepair bool
}

const (
	// Writers is how many transactions write at once: while one waits for the disk, another one is
	// worked on.
	Writers = 2
	// batchEntries is how many entries a transaction writes.
	batchEntries = 8192
	// repaired is how many changed rows are looked at in one transaction.
	repaired = 512
	// scanBytes is how much is read at once.
	scanBytes = 2 << 20
	// changesBytes is how much of the changes is read at once.
	changesBytes = 1 << 20
)

// Fits reports whether the index can be filled here: not a unique one, and no table whose changes
// are not told ([kv.DB.Changes]).
func Fits(t *schema.Table, x *schema.Index) bool {
	l := &t.Desc.Locality
	return !x.Desc.Unique() && (l.Kind == schema.ByRow || l.Kind == schema.ByTable) && !l.Async && l.Placed.ID == 0 &&
		l.Parts == nil
}

// Run writes the entries. Its errors are those of package kv; the index is not whole then.
func (b *Build) Run(ctx context.Context) error {
	b.want = make([]bool, len(b.Table.Cols))
	for _, c := range b.Index.Cols {
		b.want[c.Pos] = true
	}
	b.ChunkBytes, b.Round = cmp.Or(b.ChunkBytes, 32<<20), cmp.Or(b.Round, 20*time.Second)
	var rest []base.Span
	for _, shard := range b.Table.Shards() {
		p := b.Table.Prefix(shard, 0, 0)
		rest = append(rest, base.Span{Start: p, End: p.PrefixEnd()})
	}
	for len(rest) > 0 {
		var err error
		if rest, err = b.round(ctx, rest); err != nil {
			return err
		}
	}
	return nil
}

// round fills the entries of the rows in the first of the spans, and returns what is left of them.
func (b *Build) round(ctx context.Context, spans []base.Span) (rest []base.Span, err error) {
	snap := b.DB.Begin(kv.Options{ReadOnly: true, Trace: b.Trace})
	defer snap.Rollback(context.WithoutCancel(ctx))
	if rest, err = b.copy(ctx, snap, spans); err != nil || b.NoRepair {
		return rest, err
	}
	barrier, err := b.Barrier(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range without(spans, rest) {
		if err := b.repair(ctx, snap, s, barrier); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// without are the spans before the rest of them.
func without(spans, rest []base.Span) []base.Span {
	if len(rest) == 0 {
		return spans
	}
	n := len(spans) - len(rest)
	done := slices.Clone(spans[:n])
	if first := spans[n]; first.Start.Compare(rest[0].Start) < 0 {
		done = append(done, base.Span{Start: first.Start, End: rest[0].Start})
	}
	return done
}

// copy writes the entries of rows as they are in the snapshot. Three things are done at once: rows
// are read, entries are made of those before, and those of an earlier chunk are written.
func (b *Build) copy(ctx context.Context, snap kv.Txn, spans []base.Span) (rest []base.Span, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all aside
	defer all.wait()
	chunks, batches, pages := make(chan *chunk), make(chan []schema.Write, Writers), make(chan []kv.Row, 2)
	for _, trace := range b.Traces {
		all.run(func() { b.write(ctx, cancel, batches, trace) })
	}
	all.run(func() {
		defer close(batches)
		divide(ctx, chunks, batches)
	})
	all.run(func() {
		defer close(pages)
		if rest, err = b.read(ctx, snap, spans, pages); err != nil {
			cancel(err)
		}
	})
	b.gather(ctx, cancel, pages, chunks)
	close(chunks)
	all.wait()
	return rest, context.Cause(ctx)
}

// aside runs functions in goroutines. If one of them panics, wait does.
type aside struct {
	sync.WaitGroup
	mu    sync.Mutex
	panic any
}

func (a *aside) run(f func()) {
	a.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.panic = p
			}
		}()
		f()
	})
}

func (a *aside) wait() {
	a.Wait()
	if p := a.panic; p != nil {
		a.panic = nil
		panic(p)
	}
}

// read reads rows of the spans for the time of a round, and returns what is left of them.
func (b *Build) read(ctx context.Context, snap kv.Txn, spans []base.Span, pages chan<- []kv.Row) ([]base.Span, error) {
	until := time.Now().Add(b.Round)
	for req := (&kv.ScanRequest{Spans: spans, MaxBytes: scanBytes}); req != nil; {
		res, err := snap.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		select {
		case pages <- res.Rows:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if req = res.Next; req != nil && time.Now().After(until) {
			return req.Spans, nil
		}
	}
	return nil, nil
}

// gather makes chunks of the entries of the rows.
func (b *Build) gather(ctx context.Context, cancel context.CancelCauseFunc, pages <-chan []kv.Row, chunks chan<- *chunk) {
	c := &chunk{}
	hand := func() {
		select {
		case chunks <- c:
		case <-ctx.Done():
		}
		c = &chunk{}
	}
	for rows := range pages {
		if ctx.Err() != nil {
			continue
		}
		if err := b.entries(ctx, c, rows); err != nil {
			cancel(err)
		}
		b.Did(len(rows))
		if c.bytes >= b.ChunkBytes {
			hand()
		}
	}
	hand()
}

// divide sorts chunks, and makes batches of them.
func divide(ctx context.Context, chunks <-chan *chunk, batches chan<- []schema.Write) {
	for c := range chunks {
		for c.sort(); len(c.entries) > 0; {
			select {
			case batches <- c.take(batchEntries):
			case <-ctx.Done():
				return
			}
		}
	}
}

// write writes batches, each in a transaction.
func (b *Build) write(ctx context.Context, cancel context.CancelCauseFunc, batches <-chan []schema.Write, trace *obs.Trace) {
	for batch := range batches {
		if err := b.put(ctx, batch, trace); err != nil {
			cancel(err)
			return
		}
	}
}

// entries adds those of some rows to a chunk.
func (b *Build) entries(ctx context.Context, c *chunk, rows []kv.Row) error {
	row := make(sql.Row, len(b.Table.Cols))
	for i := range rows {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, err := Entry(ctx, b.DB, b.Table, b.Index, &rows[i], row, b.want)
		if err != nil {
			return err
		}
		c.add(e)
	}
	return nil
}

// Entry is the entry of a row in an index. row has room for the columns, and want says which ones
// the index has.
func Entry(ctx context.Context, db kv.DB, t *schema.Table, x *schema.Index, r *kv.Row, row sql.Row, want []bool) (
	schema.Write, error) {
	clear(row)
	if err := t.DecodeCols(ctx, r.Value, row, want); err != nil {
		return schema.Write{}, err
	}
	home := r.Home
	if home == 0 {
		home = t.HomeFor(r.Key.Shard(), kv.HomeRegion(db))
	}
	key, value, err := t.IndexEntry(ctx, x, row, schema.RefOfKey(r.Key), home)
	if x.Desc.Class == schema.ClassGlobal {
		home = 0
	}
	return schema.Write{Key: key, Value: value, Home: home}, err
}

// put writes entries that lie next to each other.
func (b *Build) put(ctx context.Context, batch []schema.Write, trace *obs.Trace) error {
	_, err := kv.Run(ctx, b.DB, kv.Options{Trace: trace}, func(k kv.Txn) error {
		// One lock, in place of one for each entry.
		req := &kv.ScanRequest{Lock: kv.LockExclusive,
			Spans: []base.Span{{Start: batch[0].Key, End: batch[len(batch)-1].Key.Next()}}}
		for req != nil {
			res, err := k.Scan(ctx, *req)
			if err != nil {
				return err
			}
			req = res.Next
		}
		for _, e := range batch {
			k.Put(e.Key, e.Value, e.Home)
		}
		return nil
	})
	return err
}

// repair removes entries of rows of a span that have changed since the snapshot.
func (b *Build) repair(ctx context.Context, snap kv.Txn, span base.Span, barrier base.Timestamp) error {
	since := snap.ReadTimestamp()
	var last base.Key
	for spans := []base.Span{span}; len(spans) > 0; {
		res, err := b.DB.Changes(ctx, kv.ChangesRequest{Spans: spans, Since: since, UpTo: barrier, MaxBytes: changesBytes})
		if err != nil {
			return err
		}
		var keys []base.Key
		for i := range res.Rows {
			if k := res.Rows[i].Key; !bytes.Equal(k, last) {
				keys, last = append(keys, k), k
			}
		}
		for some := range slices.Chunk(keys, repaired) {
			if err := b.repairRows(ctx, snap, some); err != nil {
				return err
			}
		}
		spans = res.Next
	}
	return nil
}

// repairRows removes entries that some rows had in the snapshot and no longer have.
func (b *Build) repairRows(ctx context.Context, snap kv.Txn, keys []base.Key) error {
	then, err := snap.Get(ctx, keys, kv.LockNone)
	if err != nil {
		return err
	}
	row := make(sql.Row, len(b.Table.Cols))
	entry := func(r *kv.Row) (base.Key, error) {
		if r.Value == nil {
			return nil, nil
		}
		e, err := Entry(ctx, b.DB, b.Table, b.Index, r, row, b.want)
		return e.Key, err
	}
	_, err = kv.Run(ctx, b.DB, kv.Options{Trace: b.Trace}, func(k kv.Txn) error {
		now, err := k.Get(ctx, keys, kv.LockExclusive)
		if err != nil {
			return err
		}
		for i := range keys {
			had, err := entry(&then[i])
			if err != nil {
				return err
			}
			has, err := entry(&now[i])
			if err != nil {
				return err
			}
			if had != nil && !bytes.Equal(had, has) {
				k.Delete(had)
			}
		}
		return nil
	})
	return err
}
