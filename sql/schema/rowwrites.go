package schema

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// KeysOf are the keys of another table's rows in the table.
func (t *Table) KeysOf(ctx context.Context, rows []kv.Row) ([]base.Key, error) {
	keys := make([]base.Key, len(rows))
	row := make(sql.Row, len(t.Cols))
	for i, r := range rows {
		if len(t.PK) > 0 {
			if err := t.DecodeRow(ctx, r.Value, row); err != nil {
				return nil, err
			}
		}
		ref, err := t.RefIn(ctx, row, RefOfKey(r.Key))
		if err != nil {
			return nil, err
		}
		keys[i] = t.RowKey(ref)
	}
	return keys, nil
}

// Write is a key with the value that it gets, and its home.
type Write struct {
	Key   base.Key
	Value []byte
	Home  base.RegionID
}

// MoveRow makes a region the home of a row, which is read under an exclusive lock, and of its index
// entries: those keyed by home are written anew, the others move as they are.
func (t *Table) MoveRow(ctx context.Context, tx kv.Txn, kr kv.Row, to base.RegionID, opts kv.MoveOptions) error {
	row := make(sql.Row, len(t.Cols))
	if err := t.DecodeRow(ctx, kr.Value, row); err != nil {
		return err
	}
	ref := RefOfKey(kr.Key)
	if t.ByHome() {
		opts.Soft = false // entries and row move together or not at all
	}
	entry := kv.MoveOptions{Soft: opts.Soft, Reason: opts.Reason}
	if kr.Home != to {
		for _, x := range t.Indexes {
			if !x.Desc.Stored() || x.Desc.Class == ClassGlobal {
				continue
			}
			k, _, err := t.IndexEntry(ctx, x, row, ref, kr.Home)
			if err != nil {
				return err
			}
			if x.Desc.Class != ClassByHome {
				tx.Move(k, t.HomeAt(k, to), entry)
				continue
			}
			nk, nv, err := t.IndexEntry(ctx, x, row, ref, to)
			if err != nil {
				return err
			}
			tx.Delete(k)
			tx.Put(nk, nv, to)
		}
	}
	tx.Move(kr.Key, to, opts)
	return nil
}

// RefIn is where another table, with the same primary key, has the row.
func (t *Table) RefIn(ctx context.Context, row sql.Row, r RowRef) (RowRef, error) {
	if len(t.PK) > 0 {
		return t.RefOf(ctx, row)
	}
	return RowRef{t.ShardOf(r.PK), r.PK}, nil // a hidden id
}

// RowWrites are the row and its index entries.
func (t *Table) RowWrites(ctx context.Context, row sql.Row, value []byte, ref RowRef, home base.RegionID) ([]Write, error) {
	ws := []Write{{t.RowKey(ref), value, home}}
	for _, x := range t.Indexes {
		if !x.Desc.Stored() {
			continue
		}
		k, v, err := t.IndexEntry(ctx, x, row, ref, home)
		if err != nil {
			return nil, err
		}
		ws = append(ws, Write{k, v, t.HomeAt(k, home)})
	}
	return ws, nil
}
