package ddl

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/ddl/placing"
	"github.com/godwitdb/godwit/sql/ddl/sharding"
	"github.com/godwitdb/godwit/sql/schema"
)

// Shards of one table alone (docs/protocol.md, SPLIT-1 to SPLIT-4):
//
//	ALTER TABLE t SPLIT INTO n SHARDS
//	ALTER TABLE t UNSPLIT [ALL]    (it shares the shards of the cluster, or its placement, again)
//	EXPLAIN ALTER TABLE t SPLIT INTO n SHARDS
//	CREATE TABLE t (...) SPLIT INTO n SHARDS
//	SHOW SHARDS [FROM [TABLE] t]
//
// YugabyteDB has SPLIT INTO n TABLETS, which is understood too, and CockroachDB UNSPLIT.

// parseSplit parses what changes the number of a table's own shards, says what that would cost, or
// shows shards; nil if it does none of that.
func parseSplit(q string) *PlacementStatement {
	o := sharding.Parse(q)
	if o == nil {
		return nil
	}
	at := func(kind string) sqlparser.AuthInformation {
		return sqlparser.AuthInformation{AuthType: kind, TargetType: sqlparser.AuthTargetType_SingleTableIdentifier,
			TargetNames: []string{o.DB, o.Table}}
	}
	st := &PlacementStatement{Name: "ALTER TABLE SPLIT", Auth: at(sqlparser.AuthType_ALTER), Schema: types.OkResultSchema,
		run: func(ctx *sql.Context, g *Env) ([]sql.Row, error) {
			return []sql.Row{{types.NewOkResult(0)}}, g.SplitTable(ctx, o)
		}}
	switch {
	case o.Explain:
		st.Name, st.Reads, st.Schema = "EXPLAIN ALTER TABLE SPLIT", true, sharding.CostSchema()
		st.run = func(ctx *sql.Context, g *Env) ([]sql.Row, error) { return g.explainSplit(ctx, o) }
	case o.Show:
		st.Name, st.Reads, st.Schema = "SHOW SHARDS", true, sharding.Schema()
		st.run = func(ctx *sql.Context, g *Env) ([]sql.Row, error) { return g.showShards(ctx, o) }
		st.Auth = at(sqlparser.AuthType_SELECT)
		if o.Table == "" {
			st.Auth = sqlparser.AuthInformation{AuthType: sqlparser.AuthType_PROCESS, TargetType: sqlparser.AuthTargetType_Global}
		}
	}
	return st
}

var errNoShards = schema.Invalid("this server does not know its cluster: its tables have no shards of their own")

// SplitTable gives a table so many shards of its own, or has it share those of others: its rows are
// written again in the other shards.
func (g *Env) SplitTable(ctx *sql.Context, o *sharding.Order) error {
	t, err := g.Lookup(ctx, o.DB, o.Table)
	switch {
	case err != nil:
		return err
	case g.Nodes == nil:
		return errNoShards
	}
	if _, err := o.Of(t.Def.Desc.Locality); err != nil {
		return err
	}
	return g.rewriteAs(ctx, o.DB, o.Table, o.Kind(), func(l schema.Locality) schema.Locality {
		l.Split = o.N
		return l
	})
}

// ownShards are the shards that a table will have for itself.
type ownShards struct {
	split  int
	behind map[base.PlacementID]int
}

// ownShards finds or makes the shards that a table will have for itself when its locality is
// changed from old. It is called before the statement holds anything, since they take a while.
func (g *Env) ownShards(ctx context.Context, old schema.Locality, as func(schema.Locality) schema.Locality) (own ownShards, err error) {
	l := as(old)
	placing.Settle(g.DB.Topology(), &l)
	if l.Split == 0 || !l.Splits() || g.Nodes == nil {
		return own, nil
	}
	if old.Split == l.Split {
		own = ownShards{l.Split, sharding.Behind(old)}
		if _, err := l.WithOwn(own.split, own.behind); err == nil {
			return own, nil
		}
	}
	own.split = l.Split
	own.behind, err = g.OwnFor(ctx, l, own.split, nil)
	return own, err
}

// OwnFor finds or makes so many shards in each placement of a table that no other one has, nor any
// that taken names. Nothing breaks if two tables get the same shards at the same time: they share
// their groups then, as tables without shards of their own do.
func (g *Env) OwnFor(ctx context.Context, l schema.Locality, shards int, taken []int) (map[base.PlacementID]int, error) {
	snap, err := g.Catalog.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	var places []base.PlacementID
	for _, p := range l.Families() {
		places = append(places, p.ID)
	}
	return g.Nodes.OwnShards(ctx, places, shards, sharding.Taken(snap, taken))
}

// of is a locality with these shards, if tables like it have any, and in the copy sets of its
// placement.
func (own ownShards) of(t *base.Topology, l schema.Locality) (schema.Locality, error) {
	placing.Settle(t, &l)
	if l.Splits() && l.Split != own.split {
		return l, base.Errorf(base.CodeSchemaChanged, "the table was split by somebody else meanwhile: try again")
	}
	return l.WithOwn(own.split, own.behind)
}

// splitNew gives a new table the shards that its definition asks for.
func (g *Env) splitNew(ctx context.Context, d *schema.TableDesc) error {
	if err := d.Locality.Check(); err != nil { // the database may say that its tables are asynchronous
		return err
	}
	own, err := g.ownShards(ctx, schema.Locality{}, func(schema.Locality) schema.Locality { return d.Locality })
	if err == nil {
		d.Locality, err = own.of(g.DB.Topology(), d.Locality)
	}
	d.Shards = d.Locality.ShardCount(g.DB.Topology().Shards)
	return err
}

// Split gives a table so many shards of its own without a statement that waits for it: if it fails
// once it has begun, it is gone on with, here or elsewhere. Tables that would be moved with their
// writers waiting are refused.
func (g *Env) Split(ctx context.Context, id base.TableID, n int) error {
	snap, err := g.Catalog.Fresh(ctx)
	if err != nil {
		return err
	}
	t := snap.ByID[id]
	switch {
	case t == nil || t.Prev != nil:
		return base.Errorf(base.CodeInvalid, "the table was dropped, or is another one by now")
	case g.Nodes == nil:
		return errNoShards
	case !g.online(t.Desc):
		return base.Errorf(base.CodeInvalid, "table %s.%s has indexes that are copied with its writers waiting", t.Desc.DB, t.Desc.Name)
	}
	o := &sharding.Order{Into: true, N: n}
	l, err := o.Of(t.Desc.Locality)
	if err != nil {
		return err
	}
	own, err := g.ownShards(ctx, t.Desc.Locality, func(schema.Locality) schema.Locality { return l })
	if err != nil {
		return err
	}
	if l, err = own.of(g.DB.Topology(), l); err != nil {
		return err
	}
	next, err := g.beginCopy(ctx, t.Desc.DB, t.Desc.Name, o.Kind(), l)
	if err == nil {
		_, err = g.Copying(ctx, nil, next)
	}
	return err
}

// explainSplit is what SplitTable would do.
func (g *Env) explainSplit(ctx *sql.Context, o *sharding.Order) ([]sql.Row, error) {
	t, err := g.Lookup(ctx, o.DB, o.Table)
	switch {
	case err != nil:
		return nil, err
	case g.Nodes == nil:
		return nil, errNoShards
	}
	l, err := o.Of(t.Def.Desc.Locality)
	if err != nil {
		return nil, err
	}
	s := sharding.Cost(g.DB.Topology(), t.Def, l, o, g.Nodes.Shards(ctx, t.Def.Desc.ID, t.Def.Shards()))
	if sample, _ := g.Stats.Sample(t.Def); sample != nil {
		s.Estimate(sample.Rows, sample.RowBytes, len(t.Def.Indexes))
	}
	return []sql.Row{s.Row()}, nil
}

// showShards shows all shards, or those of a table.
func (g *Env) showShards(ctx *sql.Context, o *sharding.Order) ([]sql.Row, error) {
	if g.Nodes == nil {
		return nil, errNoShards
	}
	topo := g.DB.Topology()
	owners := sharding.Owners(g.Catalog.Loaded(), func(t *schema.Table) bool { return g.Sees(ctx, t.Desc.DB, t.Desc.Name) })
	if o.Table == "" {
		return sharding.Rows(topo, g.Nodes.Shards(ctx, 0, topo.DataShards()), owners, -1), nil
	}
	t, err := g.Lookup(ctx, o.DB, o.Table)
	if err != nil {
		return nil, err
	}
	shards, each := t.Def.Shards(), int64(-1)
	if sample, _ := g.Stats.Sample(t.Def); sample != nil {
		each = int64(sample.Rows) / int64(len(shards))
	}
	return sharding.Rows(topo, g.Nodes.Shards(ctx, t.Def.Desc.ID, shards), owners, each), nil
}
