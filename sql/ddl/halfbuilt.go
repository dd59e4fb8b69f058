package ddl

import (
	"context"
	"errors"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// An index is filled by the statement that makes it, and its definition is dropped when that fails
// ([Table.dropFailed]). Where that fails, too, or the node of the statement dies, or the statement
// ends between the last entry and its commit, the definition would stay: not shown, taking its
// name, and kept up by all writers. So nodes look for such.

// indexOf names an index.
type indexOf struct {
	table base.TableID
	index base.IndexID
}

// sweepIndexes drops indexes of a table that this node was to fill and does not, or one that is
// dead.
func (g *Env) sweepIndexes(ctx context.Context, t *schema.Table) {
	for i := range t.Desc.Indexes {
		x := &t.Desc.Indexes[i]
		if x.State == schema.IndexPublic || x.Builder == 0 || g.filled(t.Desc.ID, x) {
			continue
		}
		err := g.dropIndex(ctx, t.Desc.ID, x.ID)
		switch {
		case err == nil:
			g.Log.Info("dropped an index that nobody fills any more", "table", t.Desc.Name, "index", x.Name, "node", x.Builder)
		case ctx.Err() == nil && !errors.Is(err, errCalledOff):
			g.Log.Warn("an index that nobody fills any more could not be dropped yet", "table", t.Desc.Name, "index", x.Name, "err", err)
		}
	}
}

// filled reports whether somebody fills an index, as far as this node knows.
func (g *Env) filled(table base.TableID, x *schema.IndexDesc) bool {
	if x.Builder != g.DB.Node() {
		return g.Nodes == nil || g.Nodes.Live(x.Builder)
	}
	v, ok := g.building.Load(indexOf{table, x.ID})
	return ok && v.(context.Context).Err() == nil
}

// forgetBuilt forgets statements that are over: most of them have published their index.
func (g *Env) forgetBuilt() {
	g.building.Range(func(of, v any) bool {
		if v.(context.Context).Err() != nil {
			g.building.Delete(of)
		}
		return true
	})
}

// dropIndex drops the definition of an index that is not public.
func (g *Env) dropIndex(ctx context.Context, table base.TableID, index base.IndexID) error {
	_, err := g.redefineFound(ctx, func(s *schema.Snapshot) (*schema.Table, error) {
		if t := s.ByID[table]; t != nil && t.Desc.IndexByID(index) != nil {
			return t, nil
		}
		return nil, errCalledOff
	}, func(k kv.Txn, _ *schema.Table, d *schema.TableDesc) error {
		at := slices.IndexFunc(d.Indexes, func(x schema.IndexDesc) bool { return x.ID == index })
		if at < 0 || d.Indexes[at].State == schema.IndexPublic {
			return errCalledOff
		}
		x := &d.Indexes[at]
		k.Put(garbageKey(d.ID, uint64(x.Key())), schema.Marshal(indexGarbage(d, x)), 0)
		d.Indexes = slices.Delete(d.Indexes, at, at+1)
		return nil
	})
	if err == nil {
		g.GC.Kick()
	}
	return err
}
