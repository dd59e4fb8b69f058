package ddl

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// LocalityText is the locality in the syntax that sets it.
func (g *Env) LocalityText(l schema.Locality) string {
	return l.Text(g.DB.Topology().RegionName)
}

// Lookup finds a table by an optional database name.
func (g *Env) Lookup(ctx *sql.Context, db, tab string) (*Table, error) {
	if db == "" {
		if db = ctx.GetCurrentDatabase(); db == "" {
			return nil, sql.ErrNoDatabaseSelected.New()
		}
	}
	d, err := (&Provider{g}).Database(ctx, db)
	if err != nil {
		return nil, err
	}
	t, ok, err := d.GetTableInsensitive(ctx, tab)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, sql.ErrTableNotFound.New(tab)
	}
	if own := table.Of(t); own != nil && own.IsTemporary() {
		return nil, schema.Invalid("temporary table " + tab + " is kept by its session: it has no locality and no replicas")
	} else if own != nil {
		return &Table{Table: own, g: g}, nil
	}
	return nil, schema.Invalid(db + "." + tab + " is not stored: it has no locality")
}

// SetLocality changes where the rows of a table live.
func (g *Env) SetLocality(ctx *sql.Context, db, table string, l schema.Locality) error {
	return g.rewriteAs(ctx, db, table, "SET LOCALITY "+g.LocalityText(l), func(old schema.Locality) schema.Locality {
		l.Async = old.Async && l.Kind != schema.MultiMaster
		l.Placed, l.Parts, l.Split = old.Placed, old.Parts, old.Split
		return l
	})
}

// rewriteAs writes the rows of a table again under a new table id, because the id names the owner
// of the gaps, GLOBAL tables are in another shard, and asynchronous ones in other shards than
// synchronous ones.
func (g *Env) rewriteAs(ctx *sql.Context, db, table, kind string, as func(old schema.Locality) schema.Locality) (err error) {
	t, err := g.Lookup(ctx, db, table)
	if err != nil {
		return err
	}
	own, err := g.ownShards(ctx, t.Def.Desc.Locality, as)
	if err != nil {
		return schema.ClientError(err)
	}
	m, d, err := t.changing(ctx)
	if err != nil {
		return err
	}
	l, err := own.of(g.DB.Topology(), as(d.Locality))
	if err != nil {
		return schema.ClientError(err)
	}
	switch {
	case d.Next != nil && d.Locality.Same(l):
		m.txn.Rollback()
		m.txn.Reset()
		return schema.ClientError(g.callOff(m.s.KVContext(ctx), d.Next.ID))
	case d.Next != nil:
		return schema.ClientError(busy(d))
	case d.Locality.Same(l):
		return nil
	}
	if err := l.Check(); err != nil {
		return err
	}
	if err := t.mayTurn(m, d, l); err != nil {
		return err
	}
	next := d.Clone()
	next.Locality, next.Next = l, nil
	if err := m.contained(next); err != nil {
		return err
	}
	if _, err := schema.NewTable(next); err != nil {
		return err
	}
	if l.Kind == schema.MultiMaster {
		// Its rows cannot be kept up along with those of another table: writers wait for the copy.
		if err := t.g.beginEpochs(ctx); err != nil {
			return err
		}
	} else if g.online(d) {
		return g.copyTable(ctx, t, kind, l)
	}
	if err := g.keepPlaces(m.s.KVContext(ctx), m.kv, l); err != nil {
		return m.txn.Fail(err)
	}
	t.Def = m.snap().Table(t.Def.Desc.DB, t.Name())
	d.Locality = l
	t.Access.Lock, t.Access.KeepHomes = kv.LockShared, true
	w, err := t.rewrite(ctx, m, d, kind)
	if err != nil {
		return err
	}
	defer func() { w.job.end(err) }()
	return t.copyInto(ctx, w)
}

// copyInto passes all rows of the table to a rewriter, and ends it.
func (t *Table) copyInto(ctx *sql.Context, w *rewriter) error {
	it, err := t.ScanAll(ctx)
	if err != nil {
		return err
	}
	for {
		row, err := it.Next(ctx)
		if err == io.EOF {
			return w.Close(ctx)
		}
		if err != nil {
			return err
		}
		if err := w.Insert(ctx, row); err != nil {
			return err
		}
	}
}

// enableAsync makes sure that there are shards for asynchronous tables.
func (g *Env) enableAsync(ctx *sql.Context) error {
	if g.Nodes == nil {
		return schema.Invalid("this server does not know its cluster: it can make no asynchronous tables")
	}
	return g.Nodes.EnableAsync(ctx)
}

// SetReplication changes how a table replicates: its rows are written again in shards of the other
// kind.
func (g *Env) SetReplication(ctx *sql.Context, db, table string, async bool) error {
	kind := "SET REPLICATION SYNC"
	if async {
		kind = "SET REPLICATION ASYNC"
		if err := g.enableAsync(ctx); err != nil {
			return err
		}
	}
	return g.rewriteAs(ctx, db, table, kind, func(l schema.Locality) schema.Locality {
		l.Async = async
		return l
	})
}

// SetDefaultReplication says how new tables of a database replicate.
func (g *Env) SetDefaultReplication(ctx *sql.Context, name string, async bool) error {
	if async {
		if err := g.enableAsync(ctx); err != nil {
			return err
		}
	}
	db, err := (&Provider{g}).Database(ctx, name)
	if err != nil {
		return err
	}
	own, ok := db.(*database)
	if !ok {
		return schema.Invalid("the tables of database " + name + " are not stored")
	}
	m, err := g.mutate(ctx)
	if err != nil {
		return err
	}
	if _, err := m.lock(ctx, schema.CatalogKey(schema.IxDatabase, own.name)); err != nil {
		return err
	}
	cur := m.snap().Database(own.name)
	if cur == nil {
		return sql.ErrDatabaseNotFound.New(name)
	}
	desc := *cur.Desc
	desc.Async = async
	if len(cur.Tables) > 0 {
		ctx.Warn(1105, "tables that %s has stay as they are: ALTER TABLE ... SET REPLICATION changes one", cur.Desc.Name)
	}
	return own.describe(m, &desc)
}
