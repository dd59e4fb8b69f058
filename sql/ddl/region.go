package ddl

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

const regionRE = "('[^']+'|\"[^\"]+\"|`[^`]+`|[\\w.-]+)"

var (
	reAlterCluster = regexp.MustCompile(`(?is)^ALTER\s+CLUSTER\s+(ADD|DROP)\b`) // others are of package server
	reDropRegion   = regexp.MustCompile(`(?is)^ALTER\s+CLUSTER\s+DROP\s+REGION\s+(IF\s+EXISTS\s+)?` + regionRE +
		`(?:\s+INTO\s+` + regionRE + `)?$`)
)

// parseCluster parses ALTER CLUSTER DROP REGION [IF EXISTS] name [INTO name]; nil if it is none.
func parseCluster(q string) *PlacementStatement {
	if !reAlterCluster.MatchString(q) {
		return nil
	}
	m := reDropRegion.FindStringSubmatch(q)
	return &PlacementStatement{Name: "ALTER CLUSTER", Schema: types.OkResultSchema,
		Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_SUPER, TargetType: sqlparser.AuthTargetType_Global},
		run: func(ctx *sql.Context, g *Env) ([]sql.Row, error) {
			switch {
			case m == nil:
				return nil, schema.Invalid("what can be changed so is ALTER CLUSTER DROP REGION name [INTO name]; a region is added by a " +
					"node that is started there, and settings are changed by SET CLUSTER SETTING")
			case g.Nodes == nil:
				return nil, schema.Invalid("this server does not know its cluster: it has no regions to drop")
			}
			name, into := strings.Trim(m[2], "'\"`"), strings.Trim(m[3], "'\"`")
			if m[1] != "" && g.DB.Topology().RegionByName(name) == 0 {
				ctx.Warn(1051, "there is no region %s", name)
				return []sql.Row{{types.NewOkResult(0)}}, nil
			}
			to, err := g.Nodes.DropRegion(ctx, name, into)
			if err != nil {
				return nil, schema.ClientError(err)
			}
			ctx.Warn(1105, "region %s is being dropped, and its rows move to %s; SHOW REGIONS shows how far that is", name, to)
			return []sql.Row{{types.NewOkResult(0)}}, nil
		}}
}
