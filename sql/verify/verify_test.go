package verify

import (
	"context"
	"errors"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/schema"
)

// stored makes a table t (a BIGINT PRIMARY KEY, b BIGINT, KEY (b)) with so many rows and their
// entries.
func stored(t *testing.T, db kv.DB, rows int) *schema.Table {
	t.Helper()
	d := &schema.TableDesc{V: schema.DescVersion, ID: 1601, DB: "d", Name: "t", Shards: 4, NextCol: 2, NextIndex: 1,
		Cols: []schema.ColumnDesc{{ID: 1, Name: "a", Type: "bigint"}, {ID: 2, Name: "b", Type: "bigint", Nullable: true}},
		PK:   []uint32{1}, Indexes: []schema.IndexDesc{{ID: 1, Name: "kb", Cols: []schema.IndexedColumn{{Col: 2}}}}}
	d.Indexes[0].Class = d.ClassFor(d.Indexes[0].Cols, sql.IndexConstraint_None)
	tab, err := schema.NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	tab.TS, err = kv.Run(ctx, db, kv.Options{}, func(k kv.Txn) error {
		k.Put(tab.Key, []byte{1}, 0)
		for i := range rows {
			row := sql.Row{int64(i), int64(i % 7)}
			ref, err := tab.RefOf(ctx, row)
			if err != nil {
				return err
			}
			value, err := tab.AppendRow(ctx, nil, row)
			if err != nil {
				return err
			}
			k.Put(tab.RowKey(ref), value, 1)
			key, value, err := tab.IndexEntry(ctx, tab.Indexes[0], row, ref, 1)
			if err != nil {
				return err
			}
			k.Put(key, value, 1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// counted counts the requests of a transaction, and does something at one of them.
type counted struct {
	txn        Reader
	t          *testing.T
	n, at, max int // requests, the one at which then is called, and rows and keys of the largest one
	then       func()
}

func (c *counted) did(n int) {
	c.max = max(c.max, n)
	if c.n++; c.n == c.at {
		c.then()
	}
}

func (c *counted) Scan(ctx context.Context, q kv.ScanRequest) (kv.ScanResult, error) {
	if q.Lock != kv.LockNone {
		c.t.Error("a check locks rows")
	}
	r, err := c.txn.Scan(ctx, q)
	c.did(len(r.Rows))
	return r, err
}

func (c *counted) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	c.did(len(keys))
	return c.txn.Get(ctx, keys, lock)
}

// TestBatches: a check reads no more at once than a batch, sees one snapshot whatever is written
// meanwhile, and ends when it is told to.
func TestBatches(t *testing.T) {
	db := memkv.New(4, "eu")
	const rows = 3*batchRows + 100
	tab := stored(t, db, rows)
	check := func(ctx context.Context, at int, then func()) (*Result, *counted, error) {
		k := db.Begin(kv.Options{ReadOnly: true})
		defer k.Rollback(context.Background())
		c := &counted{txn: k, t: t, at: at, then: then}
		r, err := Table(ctx, c, db.Topology(), 1, tab)
		return r, c, err
	}
	ctx := context.Background()
	all, c, err := check(ctx, 3, func() {
		_, err := kv.Run(ctx, db, kv.Options{}, func(k kv.Txn) error {
			key, _, err := tab.IndexEntry(ctx, tab.Indexes[0], sql.Row{int64(5), int64(5)}, mustRef(t, tab, 5), 1)
			k.Delete(key)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil || all.Damaged() || all.Rows != rows || all.Indexes[0].Entries != rows {
		t.Fatalf("%+v, %v", all, err)
	}
	if c.max > batchRows {
		t.Errorf("%d rows or keys in one request", c.max)
	}
	now, _, err := check(ctx, 0, nil)
	if err != nil || now.Indexes[0].Missing != 1 || now.Indexes[0].Extra != 0 || now.Indexes[0].Texts[0] != "the row (5) has no entry" {
		t.Errorf("with an entry deleted: %+v, %v", now, err)
	}
	for at := 2; at < c.n-1; at += 7 {
		ctx, cancel := context.WithCancel(ctx)
		_, c, err := check(ctx, at, cancel)
		// The batch that is being compared may be looked up to its end.
		if !errors.Is(err, context.Canceled) && base.CodeOf(err) != base.CodeCanceled || c.n > at+batchRows/batchKeys {
			t.Errorf("cancelled at request %d: %d requests, %v", at, c.n, err)
		}
		cancel()
	}
}

func mustRef(t *testing.T, tab *schema.Table, id int64) schema.RowRef {
	t.Helper()
	ref, err := tab.RefOf(context.Background(), sql.Row{id, nil})
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestChangedDefinition: a check by a definition that is not that of its snapshot is tried again.
func TestChangedDefinition(t *testing.T) {
	db := memkv.New(4, "eu")
	tab := stored(t, db, 3)
	if m, err := Messages(context.Background(), db, tab); err != nil || len(m) != 1 || m[0] != [2]string{"status", "OK"} {
		t.Fatal(m, err)
	}
	tab.TS--
	if _, err := Table(context.Background(), db.Begin(kv.Options{ReadOnly: true}), db.Topology(), 1, tab); !base.Retryable(err) {
		t.Error(err)
	}
}
