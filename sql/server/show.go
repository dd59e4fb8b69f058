package server

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/session"
)

func regionsSchema() sql.Schema {
	s := textSchema("region", "nodes")
	s[1].Type = types.Int64
	return s
}

// showRegions lists the regions and their nodes.
func (g *gateway) showRegions(*sql.Context) ([]sql.Row, error) {
	t := g.DB.Topology()
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

func (g *gateway) showLocality(ctx *sql.Context, db, table string) ([]sql.Row, error) {
	t, err := g.Lookup(ctx, db, table)
	if err != nil {
		return nil, err
	}
	return []sql.Row{{t.Name(), g.LocalityText(t.Def.Desc.Locality)}}, nil
}

func costSchema() sql.Schema {
	s := textSchema("statement", "wan_round_trips", "wan_messages", "wan_bytes", "rows_moved", "milliseconds")
	s[1].Type, s[2].Type, s[3].Type, s[4].Type, s[5].Type = types.Float64, types.Int64, types.Int64, types.Int64, types.Float64
	return s
}

// showCost shows what the statement before this one cost on the WAN.
func showCost(ctx *sql.Context) ([]sql.Row, error) {
	s := session.Of(ctx)
	if s == nil {
		return nil, nil
	}
	c := s.LastCost
	return []sql.Row{{c.Kind, float64(c.Hops) / 2, c.Messages, c.Bytes, c.Moves,
		float64(c.Elapsed) / float64(time.Millisecond)}}, nil
}
