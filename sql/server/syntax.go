package server

import (
	"context"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/backup"
	"github.com/godwitdb/godwit/sql/bulk"
	"github.com/godwitdb/godwit/sql/changefeed"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/replica"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/statements"
)

// Statements that are not MySQL's, in the syntax of CockroachDB where it has one:
//
//	ALTER TABLE t SET LOCALITY {REGIONAL BY ROW | REGIONAL BY TABLE [IN {'region' | PRIMARY
//	   REGION}] | GLOBAL | MULTI MASTER}
//	CREATE TABLE t (...) LOCALITY ...
//	CREATE PLACEMENT, DROP PLACEMENT, SHOW PLACEMENTS, ... SET PLACEMENT   (sql/ddl/placed.go)
//	SHOW REGIONS [FROM CLUSTER]
//	SHOW LOCALITY FROM t
//	SHOW CLUSTER SETTINGS, SHOW CLUSTER SETTING name, SET CLUSTER SETTING name = value
//	SHOW JOBS                    (also SHOW GODWIT JOBS)
//	SHOW GODWIT STATEMENT COST
//	SHOW GODWIT topic            (a table of the database godwit)
//	SET TRANSACTION ISOLATION LEVEL level     (of the next transaction only, as in MySQL)
//	BACKUP, RESTORE, SHOW BACKUP, VERIFY BACKUP   (package backup)
//	CREATE CHANGEFEED, SHOW CHANGEFEEDS           (package changefeed)
//	IMPORT INTO, EXPORT INTO                      (package bulk)
//	CHANGE REPLICATION SOURCE, START REPLICA and others of MySQL (package replica)
//	... FROM t AS OF SYSTEM TIME time, AS OF TIMESTAMP time      (and what stale.go lists)

const identRE = "(?:(`[^`]+`|[\\w$]+)\\s*\\.\\s*)?(`[^`]+`|[\\w$]+)"

var (
	reLocality = regexp.MustCompile("(?is)^ALTER\\s+TABLE\\s+" + identRE + "\\s+SET\\s+LOCALITY\\s+(.+?)$")
	reByTable  = regexp.MustCompile(`(?is)^REGIONAL\s+BY\s+TABLE(?:\s+IN\s+(PRIMARY\s+REGION|'[^']*'|"[^"]*"|[\w.-]+))?$`)
	reByRow    = regexp.MustCompile(`(?is)^REGIONAL\s+BY\s+ROW$`)
	reGlobal   = regexp.MustCompile(`(?is)^GLOBAL$`)
	reMulti    = regexp.MustCompile(`(?is)^MULTI\s+MASTER$`)
	reRegions  = regexp.MustCompile(`(?is)^SHOW\s+REGIONS(?:\s+FROM\s+CLUSTER)?$`)
	reShowLoc  = regexp.MustCompile("(?is)^SHOW\\s+LOCALITY\\s+FROM\\s+(?:TABLE\\s+)?" + identRE + "$")
	reJobs     = regexp.MustCompile(`(?is)^SHOW\s+(?:GODWIT\s+)?JOBS$`)
	reGodwit   = regexp.MustCompile(`(?is)^SHOW\s+GODWIT\s+([\w ]+?)$`)
)

// own parses a statement that is not MySQL's; nil if it is none of them.
func (p *parser) own(query string) sqlparser.Statement {
	q := strings.TrimSpace(query)
	if st := backup.Parse(q); st != nil { // package backup asks for the privilege itself
		return inject(ignoreAuth, &ownNode{g: p.g, name: st.Name(), sch: st.Schema(), writes: true,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return p.g.backups.Run(ctx, st) }})
	}
	if st := changefeed.Parse(q); st != nil {
		return inject(ignoreAuth, &ownNode{g: p.g, name: st.Name(), sch: st.Schema(), writes: true,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return p.g.feeds.Run(ctx, st) }})
	}
	if st := bulk.Parse(q); st != nil {
		return inject(ignoreAuth, &ownNode{g: p.g, name: st.Name(), sch: st.Schema(), writes: true,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return p.g.bulk.Run(ctx, st) }})
	}
	if st := replica.Parse(q); st != nil {
		return inject(ignoreAuth, &ownNode{g: p.g, name: st.Name(), sch: st.Schema(), writes: st.Writes(),
			run: func(ctx *sql.Context) ([]sql.Row, error) { return p.g.replica.Run(ctx, st) }})
	}
	if stmt := p.maintenance(strings.TrimRight(q, "; \t\r\n")); stmt != nil {
		return stmt
	}
	if st := ddl.ParsePlacement(strings.TrimRight(q, "; \t\r\n")); st != nil {
		return inject(st.Auth, &ownNode{g: p.g, name: st.Name, sch: st.Schema, writes: !st.Reads,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return st.Run(ctx, p.g.Env) }})
	}
	if len(q) == 0 || (q[0]|0x20 != 's' && q[0]|0x20 != 'a') {
		return nil
	}
	q = strings.TrimRight(q, "; \t\r\n")
	if m := reLocality.FindStringSubmatch(q); m != nil {
		return p.locality(unquote(m[1]), unquote(m[2]), strings.TrimSpace(m[3]))
	}
	if stmt := p.replication(q); stmt != nil {
		return stmt
	}
	if stmt := p.promotion(q); stmt != nil {
		return stmt
	}
	if stmt := p.nextLevel(q); stmt != nil {
		return stmt
	}
	if s := p.setRole(q); s != nil {
		return s
	}
	if s := p.clusterSetting(q); s != nil {
		return s
	}
	if s := p.alterUser(q); s != nil {
		return s
	}
	if !strings.EqualFold(q[:min(5, len(q))], "show ") {
		return nil
	}
	if s := p.showBinlog(q); s != nil {
		return s
	}
	switch {
	case reRegions.MatchString(q):
		return inject(ignoreAuth, &ownNode{g: p.g, name: "SHOW REGIONS", sch: regionsSchema(), run: p.g.showRegions})
	case reShowLoc.MatchString(q):
		m := reShowLoc.FindStringSubmatch(q)
		db, t := unquote(m[1]), unquote(m[2])
		return inject(tableAuth(sqlparser.AuthType_SELECT, db, t), &ownNode{
			g: p.g, name: "SHOW LOCALITY", sch: textSchema("table_name", "locality"),
			run: func(ctx *sql.Context) ([]sql.Row, error) { return p.g.showLocality(ctx, db, t) },
		})
	case reJobs.MatchString(q):
		return inject(processAuth, &ownNode{g: p.g, name: "SHOW JOBS", sch: jobTopic.Schema(ddl.SystemDatabase), run: p.g.showJobs})
	case reGodwit.MatchString(q):
		return p.godwit(strings.ToLower(strings.Join(strings.Fields(reGodwit.FindStringSubmatch(q)[1]), " ")))
	}
	return nil
}

func unquote(s string) string { return strings.Trim(s, "`'\"") }

// parseLocality reads what follows LOCALITY; bad says what is wrong with it.
func (g *gateway) parseLocality(text string) (l schema.Locality, bad string) {
	switch {
	case reByRow.MatchString(text):
	case reGlobal.MatchString(text):
		l.Kind = schema.Global
	case reMulti.MatchString(text):
		l.Kind = schema.MultiMaster
	case reByTable.MatchString(text):
		l.Kind = schema.ByTable
		name := unquote(reByTable.FindStringSubmatch(text)[1])
		l.Region = kv.HomeRegion(g.DB)
		if name != "" && !strings.HasPrefix(strings.ToUpper(name), "PRIMARY") {
			if l.Region = g.DB.Topology().HomeByName(name); l.Region == 0 {
				bad = "there is no region '" + name + "': SHOW REGIONS lists them"
			}
		}
	default:
		bad = "unknown locality '" + text + "': use REGIONAL BY ROW, REGIONAL BY TABLE IN 'region', GLOBAL or MULTI MASTER"
	}
	return l, bad
}

func (p *parser) locality(db, table, text string) sqlparser.Statement {
	n := &ownNode{g: p.g, name: "ALTER TABLE SET LOCALITY", sch: types.OkResultSchema, writes: true}
	l, bad := p.g.parseLocality(text)
	n.run = func(ctx *sql.Context) ([]sql.Row, error) {
		if bad != "" {
			return nil, schema.Invalid(bad)
		}
		return []sql.Row{{types.NewOkResult(0)}}, p.g.SetLocality(ctx, db, table, l)
	}
	return inject(tableAuth(sqlparser.AuthType_ALTER, db, table), n)
}

func (p *parser) godwit(topic string) sqlparser.Statement {
	if topic == "statement cost" {
		return inject(ignoreAuth, &ownNode{g: p.g, name: "SHOW GODWIT STATEMENT COST", sch: statements.CostSchema(), run: statements.ShowCost})
	}
	return p.showTopic(topic)
}

var ignoreAuth = sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE}

// processAuth is of what tells about the work of others.
var processAuth = sqlparser.AuthInformation{AuthType: sqlparser.AuthType_PROCESS,
	TargetType: sqlparser.AuthTargetType_Global}

func tableAuth(kind, db, table string) sqlparser.AuthInformation {
	return sqlparser.AuthInformation{
		AuthType: kind, TargetType: sqlparser.AuthTargetType_SingleTableIdentifier, TargetNames: []string{db, table},
	}
}

func inject(a sqlparser.AuthInformation, n *ownNode) sqlparser.Statement {
	return sqlparser.InjectedStatement{Auth: a, Statement: n}
}

// ownNode is a statement of ours as a plan node.
type ownNode struct {
	g      *gateway
	name   string
	sch    sql.Schema
	writes bool
	run    func(*sql.Context) ([]sql.Row, error)
}

var _ sql.ExecSourceRel = (*ownNode)(nil)

// WithResolvedChildren implements sqlparser.Injectable.
func (n *ownNode) WithResolvedChildren(context.Context, []any) (any, error) { return n, nil }

func (n *ownNode) String() string                                           { return n.name }
func (n *ownNode) Resolved() bool                                           { return true }
func (n *ownNode) Schema(*sql.Context) sql.Schema                           { return n.sch }
func (n *ownNode) Children() []sql.Node                                     { return nil }
func (n *ownNode) IsReadOnly() bool                                         { return !n.writes }
func (n *ownNode) WithChildren(*sql.Context, ...sql.Node) (sql.Node, error) { return n, nil }

// RowIter implements sql.ExecSourceRel.
func (n *ownNode) RowIter(ctx *sql.Context, _ sql.Row) (sql.RowIter, error) {
	rows, err := n.run(ctx)
	if err != nil {
		return nil, err
	}
	return sql.RowsToRowIter(rows...), nil
}

func textSchema(names ...string) sql.Schema {
	s := make(sql.Schema, len(names))
	for i, n := range names {
		s[i] = &sql.Column{Name: n, Type: types.LongText, Nullable: true}
	}
	return s
}

// nextLevel parses SET TRANSACTION without a scope: it is for the next transaction only.
func (p *parser) nextLevel(q string) sqlparser.Statement {
	next, ok := session.ParseNext(q)
	if !ok {
		return nil
	}
	return inject(ignoreAuth, &ownNode{g: p.g, name: "SET TRANSACTION", sch: types.OkResultSchema,
		run: func(ctx *sql.Context) ([]sql.Row, error) { return []sql.Row{{types.NewOkResult(0)}}, next.Set(ctx) }})
}
