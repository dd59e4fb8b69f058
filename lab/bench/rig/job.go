package rig

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
)

// The kinds of statements.
const (
	OpRead = iota
	OpUpdate
	OpInsert
	OpScan
)

// Op is one statement. It reads or writes all its keys at once. The keys of a scan are the two ends
// of its range.
type Op struct {
	Kind  int
	Keys  []base.Key
	Ago   time.Duration // of the first statement: the age of a reading transaction's snapshot
	Value []byte        // of the rows written; nil: RowValue
}

// Job is a transaction, one statement after the other.
type Job []Op

// Writes reports whether the transaction writes.
func (j Job) Writes() bool {
	return slices.ContainsFunc(j, func(o Op) bool { return o.Kind == OpUpdate || o.Kind == OpInsert })
}

// RunJob runs a transaction as SQL does. It locks rows that it will write when it reads them, and
// moves them here with the write when the home policy advises so. A transaction that only reads
// uses a snapshot: the one at timestamp at, if at is not 0.
func RunJob(ctx context.Context, db kv.DB, j Job, at base.Timestamp, tr *obs.Trace) error {
	writes := j.Writes()
	read := kv.LockNone
	if writes {
		read = kv.LockShared
	}
	opts := kv.Options{ReadOnly: !writes, ReadTS: at, Trace: tr}
	if ago := j[0].Ago; ago > 0 {
		opts.ReadTS = db.Clock().Add(-ago)
	}
	_, err := kv.Run(ctx, db, opts, func(t kv.Txn) error {
		for _, o := range j {
			if err := o.exec(ctx, t, read); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (o Op) exec(ctx context.Context, t kv.Txn, read kv.LockMode) error {
	value := o.Value
	if value == nil {
		value = RowValue
	}
	switch o.Kind {
	case OpInsert:
		for _, k := range o.Keys {
			if err := t.Insert(k, value, 0); err != nil {
				return err
			}
		}
	case OpScan:
		req := &kv.ScanRequest{Spans: []base.Span{{Start: o.Keys[0], End: o.Keys[1]}}, Lock: read}
		for req != nil {
			res, err := t.Scan(ctx, *req)
			if err != nil {
				return err
			}
			req = res.Next
		}
	case OpRead:
		_, err := t.Get(ctx, o.Keys, read)
		return err
	case OpUpdate:
		rows, err := t.Get(ctx, o.Keys, kv.LockExclusive)
		if err != nil {
			return err
		}
		for _, row := range rows {
			t.Put(row.Key, value, 0)
			if row.Advice != 0 {
				t.Move(row.Key, row.Advice, kv.MoveOptions{Soft: true})
			}
		}
	}
	return nil
}

// Key is the key of row b in range a of a table. A range is a user or a warehouse.
func Key(table, a, b int) base.Key {
	k := base.IndexPrefix(1, base.MakeTableID(uint64(100+table), 1), 0, 0)
	return base.AppendInt64(base.AppendInt64(k, int64(a)), int64(b))
}

// Keys are the keys of rows from, from+1, ... of range a: n of them.
func Keys(table, a, from, n int) []base.Key {
	out := make([]base.Key, n)
	for i := range out {
		out[i] = Key(table, a, from+i)
	}
	return out
}

// RowValue is what jobs write as the value of a row, if they do not say otherwise: 100 zero bytes.
var RowValue = make([]byte, 100)
