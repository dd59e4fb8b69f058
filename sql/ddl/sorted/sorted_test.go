package sorted

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/schema"
)

// world is a table t(id, v) with an index on v that is being built.
type world struct {
	*testing.T
	db  kv.DB
	def *schema.Table
	// meta is the key of the definition, on which writers depend.
	meta base.Key
}

func newWorld(t *testing.T) *world {
	d := &schema.TableDesc{ID: base.MakeTableID(1000, 1), DB: "d", Name: "t", Shards: 2,
		Cols: []schema.ColumnDesc{{ID: 1, Name: "id", Type: "int"}, {ID: 2, Name: "v", Type: "int"}}, PK: []uint32{1},
		Indexes: []schema.IndexDesc{{ID: 1, Name: "v", Cols: []schema.IndexedColumn{{Col: 2}}, Class: schema.ClassByHome}}}
	def, err := schema.NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, db: memkv.New(2, "eu"), def: def, meta: base.IndexPrefix(base.MetaShard, 9, 0, 0)}
	w.barrier(t.Context())
	return w
}

// barrier changes the version of the definition.
func (w *world) barrier(ctx context.Context) (base.Timestamp, error) {
	return kv.Run(ctx, w.db, kv.Options{}, func(k kv.Txn) error {
		k.Put(w.meta, []byte("t"), 0)
		return nil
	})
}

// set changes a row, or removes it if v is below 0, and keeps the index up.
func (w *world) set(id, v int32) {
	_, err := kv.Run(w.Context(), w.db, kv.Options{}, func(k kv.Txn) error {
		ctx := w.Context()
		if err := w.pin(ctx, k); err != nil {
			return err
		}
		ref, err := w.def.RefOf(ctx, sql.Row{id, v})
		if err != nil {
			return err
		}
		key := w.def.RowKey(ref)
		rows, err := k.Get(ctx, []base.Key{key}, kv.LockExclusive)
		if err != nil {
			return err
		}
		if old := rows[0].Value; old != nil {
			row := make(sql.Row, 2)
			if err := w.def.DecodeRow(ctx, old, row); err != nil {
				return err
			}
			entry, _, err := w.def.IndexEntry(ctx, w.def.Indexes[0], row, ref, 1)
			if err != nil {
				return err
			}
			k.Delete(entry)
		}
		if v < 0 {
			k.Delete(key)
			return nil
		}
		value, err := w.def.AppendRow(ctx, nil, sql.Row{id, v})
		if err != nil {
			return err
		}
		entry, ev, err := w.def.IndexEntry(ctx, w.def.Indexes[0], sql.Row{id, v}, ref, 1)
		if err != nil {
			return err
		}
		k.Put(key, value, 1)
		k.Put(entry, ev, 1)
		return nil
	})
	if err != nil {
		w.Error(err)
	}
}

// pin makes a transaction depend on the definition as it is.
func (w *world) pin(ctx context.Context, k kv.Txn) error {
	snap := w.db.Begin(kv.Options{ReadOnly: true})
	defer snap.Rollback(ctx)
	if _, err := snap.Get(ctx, []base.Key{w.meta}, kv.LockNone); err != nil {
		return err
	}
	k.Pin(snap.ReadTimestamp(), w.meta)
	return nil
}

func (w *world) scan(index base.IndexID, home base.RegionID) (rows []kv.Row) {
	k := w.db.Begin(kv.Options{ReadOnly: true})
	defer k.Rollback(w.Context())
	for _, s := range w.def.Shards() {
		p := w.def.Prefix(s, index, home)
		for req := (&kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}}); req != nil; {
			res, err := k.Scan(w.Context(), *req)
			if err != nil {
				w.Fatal(err)
			}
			rows, req = append(rows, res.Rows...), res.Next
		}
	}
	return rows
}

// check compares the index with the rows.
func (w *world) check() (missing, stale int) {
	want := map[string]bool{}
	for _, r := range w.scan(0, 0) {
		row := make(sql.Row, 2)
		if err := w.def.DecodeRow(w.Context(), r.Value, row); err != nil {
			w.Fatal(err)
		}
		e, _, err := w.def.IndexEntry(w.Context(), w.def.Indexes[0], row, schema.RefOfKey(r.Key), 1)
		if err != nil {
			w.Fatal(err)
		}
		want[string(e)] = true
	}
	for _, r := range w.scan(w.def.Indexes[0].Desc.Key(), 1) {
		if !want[string(r.Key)] {
			stale++
		}
		delete(want, string(r.Key))
	}
	return len(want), stale
}

// between runs something once the snapshot has been read, and before the first entry is written.
type between struct {
	kv.DB
	once sync.Once
	run  func()
}

func (b *between) Begin(o kv.Options) kv.Txn {
	if !o.ReadOnly {
		b.once.Do(b.run)
	}
	return b.DB.Begin(o)
}

// TestRowsThatChange: rows change, go and come after the snapshot, and before their entries of then
// are written. Without the repair these stay.
func TestRowsThatChange(t *testing.T) {
	for _, broken := range []bool{false, true} {
		w := newWorld(t)
		for id := range int32(1000) {
			w.insertBare(id, id%7)
		}
		db := &between{DB: w.db, run: func() {
			w.set(3, 100)
			w.set(4, -1)
			w.set(2000, 5)
			w.set(5, 100)
			w.set(5, 5) // as it was
		}}
		b := &Build{DB: db, Table: w.def, Index: w.def.Indexes[0], Barrier: w.barrier, Did: func(int) {}, NoRepair: broken}
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		missing, stale := w.check()
		if missing != 0 || (stale != 0) != broken {
			t.Errorf("without repair %v: %d entries are missing, %d are stale", broken, missing, stale)
		}
	}
}

// insertBare adds a row without its entry, as it was before there was the index.
func (w *world) insertBare(id, v int32) {
	_, err := kv.Run(w.Context(), w.db, kv.Options{}, func(k kv.Txn) error {
		ref, err := w.def.RefOf(w.Context(), sql.Row{id, v})
		if err != nil {
			return err
		}
		value, err := w.def.AppendRow(w.Context(), nil, sql.Row{id, v})
		k.Put(w.def.RowKey(ref), value, 1)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
}

// TestBesideWriters builds in chunks of some entries and rounds of one page, beside writers.
func TestBesideWriters(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t)
		for id := range int32(3000) {
			w.insertBare(id, id%50)
		}
		var over atomic.Bool
		var writers sync.WaitGroup
		for n := range 3 {
			writers.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				for !over.Load() {
					w.set(r.Int32N(3200), r.Int32N(50)-5)
				}
			})
		}
		rows := 0
		b := &Build{DB: w.db, Table: w.def, Index: w.def.Indexes[0], Barrier: w.barrier, Did: func(n int) { rows += n },
			ChunkBytes: 20_000, Round: time.Nanosecond}
		err := b.Run(t.Context())
		over.Store(true)
		writers.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if missing, stale := w.check(); missing != 0 || stale != 0 || rows < 1500 {
			t.Errorf("seed %d: of %d rows %d entries are missing, %d are stale", seed, rows, missing, stale)
		}
	}
}

// TestChunk: a chunk gives its entries in order, those of a section together.
func TestChunk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	c := &chunk{}
	var want []string
	for range 5000 {
		k := base.AppendUint64(base.IndexPrefix(base.ShardID(r.IntN(3)), base.MakeTableID(1000, 1), 1, 0), uint64(r.IntN(1<<20)))
		c.add(schema.Write{Key: k})
		want = append(want, string(k))
	}
	c.sort()
	slices.Sort(want)
	var got []string
	batches := 0
	for len(c.entries) > 0 {
		b := c.take(700)
		batches++
		for _, e := range b {
			if string(e.Key.Section()) != string(b[0].Key.Section()) {
				t.Fatal("a batch has entries of two sections")
			}
			got = append(got, string(e.Key))
		}
	}
	if !slices.Equal(got, want) || batches < 8 {
		t.Errorf("%d entries in %d batches are not those in order", len(got), batches)
	}
}

// TestFailure: what fails ends the build, wherever it is.
func TestFailure(t *testing.T) {
	w := newWorld(t)
	for id := range int32(500) {
		w.insertBare(id, id%7)
	}
	ctx, cancel := context.WithCancel(t.Context())
	db := &between{DB: w.db, run: cancel}
	b := &Build{DB: db, Table: w.def, Index: w.def.Indexes[0], Barrier: w.barrier, Did: func(int) {}, ChunkBytes: 1000}
	if err := b.Run(ctx); err == nil {
		t.Error("a build whose statement has ended goes on")
	}
}
