package server

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

// How tables replicate to the other regions:
//
//	ALTER TABLE t SET REPLICATION {SYNC | ASYNC}
//	CREATE DATABASE d ... REPLICATION {SYNC | ASYNC}
//	ALTER DATABASE d SET REPLICATION {SYNC | ASYNC}     (what new tables are that do not say so)
//	CREATE TABLE t (...) [LOCALITY ...] REPLICATION {SYNC | ASYNC}
//	ALTER CLUSTER PROMOTE REGION 'lost' [IN 'seat'] [FORCE] (disaster: the asynchronous tables of
//	   a lost region)
//	ALTER CLUSTER RETURN REGION 'region'                        (when it is back)

var (
	reTableReplication = regexp.MustCompile("(?is)^ALTER\\s+TABLE\\s+" + identRE + "\\s+SET\\s+REPLICATION\\s+(SYNC|ASYNC)$")
	reDBReplication    = regexp.MustCompile("(?is)^ALTER\\s+(?:DATABASE|SCHEMA)\\s+(`[^`]+`|[\\w$]+)" +
		"\\s+SET\\s+REPLICATION\\s+(SYNC|ASYNC)$")
)

var (
	rePromote = regexp.MustCompile(`(?is)^ALTER\s+CLUSTER\s+PROMOTE\s+REGION\s+('[^']*'|"[^"]*"|[\w.-]+)` +
		`(?:\s+IN\s+('[^']*'|"[^"]*"|[\w.-]+?))?(\s+FORCE)?$`)
	reReturn = regexp.MustCompile(`(?is)^ALTER\s+CLUSTER\s+RETURN\s+REGION\s+('[^']*'|"[^"]*"|[\w.-]+)$`)
)

// promotion parses the statements for disasters.
func (p *parser) promotion(q string) sqlparser.Statement {
	var lost, seat string
	var force, back bool
	if m := rePromote.FindStringSubmatch(q); m != nil {
		lost, seat, force = unquote(m[1]), unquote(m[2]), m[3] != ""
	} else if m := reReturn.FindStringSubmatch(q); m != nil {
		lost, back = unquote(m[1]), true
	} else {
		return nil
	}
	auth := sqlparser.AuthInformation{AuthType: sqlparser.AuthType_SUPER, TargetType: sqlparser.AuthTargetType_Global}
	return inject(auth, &ownNode{
		g: p.g, name: "ALTER CLUSTER PROMOTE", sch: types.OkResultSchema, writes: true,
		run: func(ctx *sql.Context) ([]sql.Row, error) {
			if p.g.cluster == nil {
				return nil, schema.Invalid("this server does not know its cluster")
			}
			return []sql.Row{{types.NewOkResult(0)}}, p.g.cluster.Promote(ctx, lost, seat, force, back)
		},
	})
}

func (p *parser) replication(q string) sqlparser.Statement {
	done := []sql.Row{{types.NewOkResult(0)}}
	if m := reTableReplication.FindStringSubmatch(q); m != nil {
		db, table, async := unquote(m[1]), unquote(m[2]), strings.EqualFold(m[3], "ASYNC")
		return inject(tableAuth(sqlparser.AuthType_ALTER, db, table), &ownNode{
			g: p.g, name: "ALTER TABLE SET REPLICATION", sch: types.OkResultSchema, writes: true,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return done, p.g.SetReplication(ctx, db, table, async) },
		})
	}
	if m := reDBReplication.FindStringSubmatch(q); m != nil {
		db, async := unquote(m[1]), strings.EqualFold(m[2], "ASYNC")
		auth := sqlparser.AuthInformation{
			AuthType:   sqlparser.AuthType_ALTER,
			TargetType: sqlparser.AuthTargetType_DatabaseIdentifiers, TargetNames: []string{db},
		}
		return inject(auth, &ownNode{
			g: p.g, name: "ALTER DATABASE SET REPLICATION", sch: types.OkResultSchema, writes: true,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return done, p.g.SetDefaultReplication(ctx, db, async) },
		})
	}
	return nil
}
