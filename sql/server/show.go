package server

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
)

func regionsSchema() sql.Schema {
	s := textSchema("region", "nodes", "state")
	s[1].Type = types.Int64
	return s
}

// showRegions lists the regions, their nodes, and how far they have come or gone.
func (g *gateway) showRegions(*sql.Context) ([]sql.Row, error) {
	t := g.DB.Topology()
	var out []sql.Row
	for _, r := range t.Present() {
		n := int64(0)
		for _, nd := range t.Nodes {
			if nd.Region == r.ID && !nd.Gone {
				n++
			}
		}
		state := string(r.State)
		if r.State == base.RegionActive {
			state = "active"
		}
		out = append(out, sql.Row{r.Name, n, state})
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
