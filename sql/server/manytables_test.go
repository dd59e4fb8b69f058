package server

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/wire"
)

// slowDB is a store whose scans in the background do not end before they are let go.
type slowDB struct {
	*memkv.DB
	let       chan struct{}
	held, top atomic.Int64
	all       atomic.Int64
}

// Begin implements kv.DB.
func (d *slowDB) Begin(o kv.Options) kv.Txn { return &slowTxn{d.DB.Begin(o), d} }

type slowTxn struct {
	t kv.Txn
	d *slowDB
}

func (t *slowTxn) ID() base.TxnID { return t.t.ID() }
func (t *slowTxn) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	return t.t.Get(ctx, keys, lock)
}
func (t *slowTxn) Ahead(ctx context.Context, keys []base.Key, spans []base.Span, lock kv.LockMode) (bool, error) {
	return t.t.Ahead(ctx, keys, spans, lock)
}
func (t *slowTxn) Kept(span base.Span, lock kv.LockMode) bool   { return t.t.Kept(span, lock) }
func (t *slowTxn) Forget()                                      { t.t.Forget() }
func (t *slowTxn) Put(k base.Key, v []byte, home base.RegionID) { t.t.Put(k, v, home) }
func (t *slowTxn) Insert(k base.Key, v []byte, home base.RegionID) error {
	return t.t.Insert(k, v, home)
}
func (t *slowTxn) Delete(k base.Key)                          { t.t.Delete(k) }
func (t *slowTxn) Wrote() bool                                { return t.t.Wrote() }
func (t *slowTxn) Update(k base.Key, v []byte, p *wire.Patch) { t.t.Update(k, v, p) }
func (t *slowTxn) Draft(ctx context.Context, k base.Key) (kv.Row, bool, error) {
	return t.t.Draft(ctx, k)
}
func (t *slowTxn) Move(k base.Key, to base.RegionID, o kv.MoveOptions) { t.t.Move(k, to, o) }
func (t *slowTxn) Fence(k base.Key, to base.RegionID)                  { t.t.Fence(k, to) }
func (t *slowTxn) Pin(ts base.Timestamp, keys ...base.Key)             { t.t.Pin(ts, keys...) }
func (t *slowTxn) Savepoint() int                                      { return t.t.Savepoint() }
func (t *slowTxn) RollbackTo(savepoint int)                            { t.t.RollbackTo(savepoint) }
func (t *slowTxn) ReadTimestamp() base.Timestamp                       { return t.t.ReadTimestamp() }
func (t *slowTxn) NextSnapshot()                                       { t.t.NextSnapshot() }
func (t *slowTxn) Commit(ctx context.Context) (base.Timestamp, error)  { return t.t.Commit(ctx) }
func (t *slowTxn) Rollback(ctx context.Context)                        { t.t.Rollback(ctx) }

// Scan implements kv.Txn.
func (t *slowTxn) Scan(ctx context.Context, r kv.ScanRequest) (kv.ScanResult, error) {
	if kv.Quiet(ctx) {
		d := t.d
		d.all.Add(1)
		d.top.Store(max(d.top.Load(), d.held.Add(1)))
		select {
		case <-d.let:
		case <-ctx.Done():
		}
		d.held.Add(-1)
	}
	return t.t.Scan(ctx, r)
}

// TestInformationSchemaOfManyTables: what asks for all tables of a node neither starts work for
// each of them nor keeps much. The tables are made in the catalog, as copies of one.
func TestInformationSchemaOfManyTables(t *testing.T) {
	const tables = 2000
	db := &slowDB{DB: memkv.New(4, "eu", "us"), let: make(chan struct{})}
	s, c := startServer(t, db, func(cfg *Config) { cfg.Memory = 64 << 20 })
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20), KEY (b))")
	first := s.g.Catalog.Loaded().Table("test", "t").Desc
	_, err := kv.Run(t.Context(), db, kv.Options{}, func(k kv.Txn) error {
		for i := range tables - 1 {
			d := *first
			d.Name, d.ID = fmt.Sprint("copy", i), first.ID+1000+base.TableID(i)
			k.Put(schema.TableKey(d.DB, d.Name), schema.Marshal(&d), 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	k := conn(t, c)
	before := runtime.NumGoroutine()
	for _, q := range []string{
		"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'test'",
		"SELECT COUNT(DISTINCT table_name) FROM information_schema.columns WHERE table_schema = 'test'",
		"SELECT COUNT(DISTINCT table_name) FROM information_schema.statistics WHERE table_schema = 'test'",
		"SELECT COUNT(DISTINCT table_name) FROM information_schema.table_constraints WHERE table_schema = 'test'",
		"SELECT COUNT(*) FROM information_schema.tables x JOIN information_schema.tables y USING (table_schema, table_name, table_rows) " +
			"WHERE x.table_schema = 'test'",
	} {
		expect(t, k, q, fmt.Sprint(tables))
		if n := runtime.NumGoroutine() - before; n > 50 {
			t.Errorf("%s: %d goroutines more", q, n)
		}
		if n := s.g.query.Memory().Used(); n > 1<<20 {
			t.Errorf("%s: %d bytes are kept", q, n)
		}
	}
	if n := len(query(t, k, "SHOW TABLE STATUS")); n != tables {
		t.Errorf("SHOW TABLE STATUS: %d rows", n)
	}
	if n := db.top.Load(); n == 0 || n > 4 {
		t.Errorf("%d tables are read at once for the planner, want 1 to 4", n)
	}
	close(db.let)
	eventually(t, "the planner knows what it was asked for", func() bool { return db.held.Load() == 0 })
	if n := db.all.Load(); n > tables/2 {
		t.Errorf("%d scans, though few may wait", n)
	}
	// The planner goes on: tables that are asked for later are read.
	exec(t, c, "CREATE TABLE late (a INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO late VALUES (1), (2), (3)")
	eventually(t, "the rows of a new table are counted", func() bool {
		return query(t, k, "SELECT table_rows FROM information_schema.tables WHERE table_name = 'late'")[0] == "3"
	})
}
