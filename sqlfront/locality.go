package sqlfront

import (
	"fmt"
	"io"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

func invalid(msg string) error { return clientError(base.Errorf(base.CodeInvalid, "%s", msg)) }

func regionsSchema() sql.Schema {
	s := textSchema("region", "nodes")
	s[1].Type = types.Int64
	return s
}

// showRegions lists the regions and their nodes.
func (g *gateway) showRegions(*sql.Context) ([]sql.Row, error) {
	t := g.db.Topology()
	var out []sql.Row
	for _, r := range t.Regions {
		n := int64(0)
		for _, nd := range t.Nodes {
			if nd.Region == r.ID && !nd.Gone {
				n++
			}
		}
		out = append(out, sql.Row{r.Name, n})
	}
	return out, nil
}

// localityText is the locality in the syntax that sets it.
func (g *gateway) localityText(l locality) string {
	switch l.Kind {
	case byTable:
		return fmt.Sprintf("REGIONAL BY TABLE IN '%s'", g.db.Topology().RegionName(l.Region))
	case global:
		return "GLOBAL"
	case multi:
		return "MULTI MASTER"
	}
	return "REGIONAL BY ROW"
}

// lookup finds a table by an optional database name.
func (g *gateway) lookup(ctx *sql.Context, db, table string) (*sqlTable, error) {
	if db == "" {
		if db = ctx.GetCurrentDatabase(); db == "" {
			return nil, sql.ErrNoDatabaseSelected.New()
		}
	}
	d, err := (&provider{g}).Database(ctx, db)
	if err != nil {
		return nil, err
	}
	t, ok, err := d.GetTableInsensitive(ctx, table)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, sql.ErrTableNotFound.New(table)
	}
	if own := tableOf(t); own != nil {
		return own, nil
	}
	return nil, invalid(db + "." + table + " is not stored: it has no locality")
}

func (g *gateway) showLocality(ctx *sql.Context, db, table string) ([]sql.Row, error) {
	t, err := g.lookup(ctx, db, table)
	if err != nil {
		return nil, err
	}
	return []sql.Row{{t.Name(), g.localityText(t.t.desc.Locality)}}, nil
}

// setLocality changes where the rows of a table live.
func (g *gateway) setLocality(ctx *sql.Context, db, table string, l locality) error {
	return g.rewriteAs(ctx, db, table, "SET LOCALITY "+g.localityText(l), func(old locality) locality {
		l.Async = old.Async && l.Kind != multi
		return l
	})
}

// rewriteAs writes the rows of a table again under a new table id, because the id names who owns the
// gaps, GLOBAL tables are in another shard, and asynchronous ones in other shards than synchronous ones.
func (g *gateway) rewriteAs(ctx *sql.Context, db, table, kind string, as func(old locality) locality) (err error) {
	t, err := g.lookup(ctx, db, table)
	if err != nil {
		return err
	}
	m, d, err := t.changing(ctx)
	if err != nil {
		return err
	}
	l := as(d.Locality)
	switch {
	case d.Next != nil && d.Locality == l:
		m.txn.rollback()
		*m.txn = Txn{s: m.s}
		return clientError(g.callOff(m.s.kvctx(ctx), d.Next.ID))
	case d.Next != nil:
		return clientError(busy(d))
	case d.Locality == l:
		return nil
	}
	if err := l.check(); err != nil {
		return err
	}
	if err := t.mayTurn(m, d, l); err != nil {
		return err
	}
	if l.Kind == multi {
		// Its rows cannot be kept up along with those of another table: writers wait for the copy.
		if err := t.g.beginEpochs(ctx); err != nil {
			return err
		}
	} else if g.online(d) {
		return g.copyTable(ctx, t, kind, l)
	}
	t.t = m.snap().table(t.t.desc.DB, t.Name())
	d.Locality = l
	t.acc.lock, t.acc.keepHomes = kv.LockShared, true
	w, err := t.rewrite(ctx, m, d, kind)
	if err != nil {
		return err
	}
	defer func() { w.job.end(err) }()
	it, err := t.scanAll(ctx)
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

func costSchema() sql.Schema {
	s := textSchema("statement", "wan_round_trips", "wan_messages", "wan_bytes", "rows_moved", "milliseconds")
	s[1].Type, s[2].Type, s[3].Type, s[4].Type, s[5].Type = types.Float64, types.Int64, types.Int64, types.Int64, types.Float64
	return s
}

// showCost shows what the statement before this one cost on the WAN.
func showCost(ctx *sql.Context) ([]sql.Row, error) {
	s := sessionOf(ctx)
	if s == nil {
		return nil, nil
	}
	c := s.lastCost
	return []sql.Row{{c.Kind, float64(c.Hops) / 2, c.Messages, c.Bytes, c.Moves, float64(c.Elapsed) / float64(time.Millisecond)}}, nil
}
