package table

import (
	"maps"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// A table whose rows have to live under other keys, because it becomes asynchronous, say, gets a
// successor: a table with the same columns and indexes and another id, which its descriptor names.
// From then on every transaction that changes a row changes it in both, and rows that were there
// before are copied beside (copytable.go). When all are there, the descriptor takes the successor's
// id. Writers wait for nothing but a batch of the copy that holds their row.
//
//	Invariant: the successor has some of the table's rows, each as it is there, and exactly their
//	   index entries.
//
// It holds because a transaction that writes to the successor, of a writer or of the copier, holds
// the lock of the row in the table itself, and has pinned the descriptor.

// formerRow is a row before a change.
type formerRow struct {
	row sql.Row // nil: there was none
	ref schema.RowRef
}

// mirror repeats changes of a table in its successor.
type mirror struct {
	e *Editor
	t *schema.Table // the successor
	// homes of the rows that the successor has, of those that are going to be changed, by row key.
	homes map[string]base.RegionID
}

// mirror locks the rows of the successor that changes concern, and looks which of them it has.
func (e *Editor) mirror(ctx *sql.Context, ops []change) (*mirror, error) {
	if e.Def.Next == nil {
		return nil, nil
	}
	m := &mirror{e, e.Def.Next, map[string]base.RegionID{}}
	var keys []base.Key
	seen := map[string]bool{}
	add := func(row sql.Row, r schema.RowRef) error {
		if row == nil {
			return nil
		}
		ref, err := m.t.RefIn(ctx, row, r)
		if err != nil {
			return err
		}
		if k := m.t.RowKey(ref); !seen[string(k)] {
			seen[string(k)] = true
			keys = append(keys, k)
		}
		return nil
	}
	for i := range ops {
		if err := add(ops[i].was.row, ops[i].was.ref); err != nil {
			return nil, schema.ClientError(err)
		}
		if err := add(ops[i].row, ops[i].ref); err != nil {
			return nil, schema.ClientError(err)
		}
	}
	rows, err := e.Txn.KV.Get(e.Txn.Session.KVContext(ctx), keys, kv.LockExclusive)
	if err != nil {
		return nil, e.Txn.Fail(err)
	}
	for _, r := range rows {
		if r.Value != nil {
			m.homes[string(r.Key)] = r.Home
		}
	}
	return m, nil
}

// apply repeats a change that the transaction has taken.
func (m *mirror) apply(ctx *sql.Context, c *change) error {
	k := m.e.Txn.KV
	drop := map[string]base.Key{}
	var was base.Key
	if c.was.row != nil {
		ref, err := m.t.RefIn(ctx, c.was.row, c.was.ref)
		if err != nil {
			return schema.ClientError(err)
		}
		was = m.t.RowKey(ref)
		if home, ok := m.homes[string(was)]; ok {
			ws, err := m.t.RowWrites(ctx, c.was.row, nil, ref, home)
			if err != nil {
				return schema.ClientError(err)
			}
			m.e.noteGone(was, home)
			for _, w := range ws {
				drop[string(w.Key)] = w.Key
			}
		}
	}
	var put []schema.Write
	if c.row != nil {
		ref, err := m.t.RefIn(ctx, c.row, c.ref)
		if err != nil {
			return schema.ClientError(err)
		}
		key := m.t.RowKey(ref)
		home, ok := m.homes[string(key)]
		if !ok {
			if was.Compare(key) == 0 {
				// it has not been copied yet: it will be, as it is then, with its home and pin
				return nil
			}
			home = m.t.HomeFor(ref.Shard, m.e.newHome(key))
		}
		value, err := m.t.AppendRow(ctx, nil, c.row)
		if err != nil {
			return schema.ClientError(err)
		}
		if put, err = m.t.RowWrites(ctx, c.row, value, ref, home); err != nil {
			return schema.ClientError(err)
		}
		m.homes[string(key)] = home
	}
	for _, w := range put {
		delete(drop, string(w.Key))
	}
	for _, key := range slices.Sorted(maps.Keys(drop)) {
		k.Delete(drop[key])
		delete(m.homes, key)
	}
	for _, w := range put {
		k.Put(w.Key, w.Value, w.Home)
	}
	return nil
}
