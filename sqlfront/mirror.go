package sqlfront

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// A table whose rows have to live under other keys, because it becomes asynchronous, say, gets a successor: a table with
// the same columns and indexes and another id, which its descriptor names. From then on every transaction that changes a row
// changes it in both, and rows that were there before are copied beside (copytable.go). When all are there, the descriptor takes the
// successor's id. Writers wait for nothing but a batch of the copy that holds their row.
//
//	Invariant: the successor has some of the table's rows, each as it is there, and exactly their index entries.
//
// It holds because whoever writes to the successor, writer or copier, holds the lock of the row in the table itself, and has pinned
// the descriptor.

// nextDesc describes the successor of a table. It is replaced, never changed.
type nextDesc struct {
	ID       base.TableID `json:"id"`
	Locality locality     `json:"locality"`
	Shards   int          `json:"shards"`
	Kind     string       `json:"kind"` // the statement
	Node     base.NodeID  `json:"node"` // that copies the rows
	Since    time.Time    `json:"since"`
}

// successor is the descriptor as it will be when the successor has taken the table's place.
func (t *tableDesc) successor() *tableDesc {
	d := t.clone()
	d.ID, d.Locality, d.Shards, d.Next = t.Next.ID, t.Next.Locality, t.Next.Shards, nil
	for i := range d.Indexes {
		d.Indexes[i].Class = d.classFor(d.Indexes[i].Cols, d.Indexes[i].Constraint)
	}
	return d
}

// formerRow is a row before a change.
type formerRow struct {
	row sql.Row // nil: there was none
	ref rowRef
}

// mirror repeats changes of a table in its successor.
type mirror struct {
	e *editor
	t *table // the successor
	// homes of the rows that the successor has, of those that are going to be changed, by row key.
	homes map[string]base.RegionID
}

// refIn is where another table, with the same primary key, has the row.
func (t *table) refIn(ctx context.Context, row sql.Row, r rowRef) (rowRef, error) {
	if len(t.pk) > 0 {
		return t.refOf(ctx, row)
	}
	return rowRef{t.shardOf(r.pk), r.pk}, nil // a hidden id
}

// mirror locks the rows of the successor that changes concern, and looks which of them it has.
func (e *editor) mirror(ctx *sql.Context, ops []change) (*mirror, error) {
	if e.t.next == nil {
		return nil, nil
	}
	m := &mirror{e, e.t.next, map[string]base.RegionID{}}
	var keys []base.Key
	seen := map[string]bool{}
	add := func(row sql.Row, r rowRef) error {
		if row == nil {
			return nil
		}
		ref, err := m.t.refIn(ctx, row, r)
		if err != nil {
			return err
		}
		if k := m.t.rowKey(ref); !seen[string(k)] {
			seen[string(k)] = true
			keys = append(keys, k)
		}
		return nil
	}
	for i := range ops {
		if err := add(ops[i].was.row, ops[i].was.ref); err != nil {
			return nil, clientError(err)
		}
		if err := add(ops[i].row, ops[i].ref); err != nil {
			return nil, clientError(err)
		}
	}
	rows, err := e.tx.kv.Get(e.tx.s.kvctx(ctx), keys, kv.LockExclusive)
	if err != nil {
		return nil, e.tx.fail(err)
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
	k := m.e.tx.kv
	drop := map[string]base.Key{}
	var was base.Key
	if c.was.row != nil {
		ref, err := m.t.refIn(ctx, c.was.row, c.was.ref)
		if err != nil {
			return clientError(err)
		}
		was = m.t.rowKey(ref)
		if home, ok := m.homes[string(was)]; ok {
			ws, err := m.t.rowWrites(ctx, c.was.row, nil, ref, home)
			if err != nil {
				return clientError(err)
			}
			for _, w := range ws {
				drop[string(w.key)] = w.key
			}
		}
	}
	var put []write
	if c.row != nil {
		ref, err := m.t.refIn(ctx, c.row, c.ref)
		if err != nil {
			return clientError(err)
		}
		key := m.t.rowKey(ref)
		home, ok := m.homes[string(key)]
		if !ok {
			if was.Compare(key) == 0 {
				return nil // it has not been copied yet: it will be, as it is then, with its home and pin
			}
			home = m.t.homeFor(m.e.rowHome())
		}
		value, err := m.t.appendRow(ctx, nil, c.row)
		if err != nil {
			return clientError(err)
		}
		if put, err = m.t.rowWrites(ctx, c.row, value, ref, home); err != nil {
			return clientError(err)
		}
		m.homes[string(key)] = home
	}
	for _, w := range put {
		delete(drop, string(w.key))
	}
	for _, key := range slices.Sorted(maps.Keys(drop)) {
		k.Delete(drop[key])
		delete(m.homes, key)
	}
	for _, w := range put {
		k.Put(w.key, w.value, w.home)
	}
	return nil
}

// homeFor is the home that a row from a home gets in the table.
func (t *table) homeFor(home base.RegionID) base.RegionID {
	switch t.desc.Locality.Kind {
	case global:
		return 0
	case byTable:
		return t.desc.Locality.Region
	}
	return home
}

// rowWrites are the row and its index entries.
func (t *table) rowWrites(ctx context.Context, row sql.Row, value []byte, ref rowRef, home base.RegionID) ([]write, error) {
	ws := []write{{t.rowKey(ref), value, home}}
	for _, x := range t.indexes {
		if !x.desc.stored() {
			continue
		}
		k, v, err := t.indexEntry(ctx, x, row, ref, home)
		if err != nil {
			return nil, err
		}
		ws = append(ws, write{k, v, home})
	}
	return ws, nil
}
