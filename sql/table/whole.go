package table

import (
	"cmp"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// What a row of a program comes to (kv.Program): the same keys that an editor writes, without a
// transaction to write them in. The table has a primary key and no successor, and nothing but its
// indexes follows its rows.

// InsertWrites is what a program writes to insert a row, the row itself first.
func (t *Table) InsertWrites(ctx *sql.Context, row sql.Row, source base.RegionID) ([]kv.ProgramWrite, error) {
	row = t.Def.AsKept(row)
	ref, err := t.Def.RefOf(ctx, row)
	if err != nil {
		return nil, schema.ClientError(err)
	}
	value, err := t.Def.AppendRow(ctx, nil, row)
	if err != nil {
		return nil, schema.ClientError(err)
	}
	key := t.Def.RowKey(ref)
	out := []kv.ProgramWrite{{Key: key, Value: value, Home: t.Def.Desc.Home(), Absent: true}}
	home := cmp.Or(t.Def.Desc.Home(), t.Def.HomeFor(key.Shard(), source))
	for _, x := range t.Def.Indexes {
		if !x.Desc.Stored() {
			continue
		}
		k, v, err := t.Def.IndexEntry(ctx, x, row, ref, home)
		if err != nil {
			return nil, schema.ClientError(err)
		}
		w := kv.ProgramWrite{Key: k, Value: v, Home: t.Def.HomeAt(k, home), Absent: x.Desc.Unique() && !x.HasNull(row)}
		if x.Desc.Class == schema.ClassGlobal {
			w.Home = 0
		}
		out = append(out, w)
	}
	return out, nil
}

// EntriesOf are the keys of the entries that the indexes have of a row.
func (t *Table) EntriesOf(ctx *sql.Context, at kv.Row, source base.RegionID) (out []base.Key, err error) {
	row := make(sql.Row, len(t.Def.Cols))
	if err := t.Def.DecodeRow(ctx, at.Value, row); err != nil {
		return nil, schema.ClientError(err)
	}
	ref := schema.RefOfKey(at.Key)
	home := base.RegionID(0)
	if t.Def.ByHome() {
		home = cmp.Or(at.Home, t.Def.Desc.Home(), t.Def.HomeFor(ref.Shard, source))
	}
	for _, x := range t.Def.Indexes {
		if !x.Desc.Stored() {
			continue
		}
		k, _, err := t.Def.IndexEntry(ctx, x, row, ref, home)
		if err != nil {
			return nil, schema.ClientError(err)
		}
		out = append(out, k)
	}
	return out, nil
}

// Inserted counts rows that a program has inserted, for the planner.
func (t *Table) Inserted(rows int) { t.Env.Stats.add(t.Def.Desc.ID, rows) }
