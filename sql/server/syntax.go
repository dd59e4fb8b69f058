package server

import (
	"context"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup"
	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Statements that are not MySQL's, in the syntax of CockroachDB where it has one:
//
//	ALTER TABLE t SET LOCALITY {REGIONAL BY ROW | REGIONAL BY TABLE [IN {'region' | PRIMARY
//	   REGION}] | GLOBAL | MULTI MASTER}
//	CREATE TABLE t (...) LOCALITY ...
//	SHOW REGIONS [FROM CLUSTER]
//	SHOW LOCALITY FROM t
//	SHOW CLUSTER SETTINGS, SHOW CLUSTER SETTING name, SET CLUSTER SETTING name = value
//	SHOW JOBS                    (also SHOW GODWIT JOBS)
//	SHOW GODWIT STATEMENT COST
//	SHOW GODWIT topic            (a table of the database godwit)
//	SET TRANSACTION ISOLATION LEVEL level     (of the next transaction only, as in MySQL)
//	BACKUP, RESTORE, SHOW BACKUP, VERIFY BACKUP   (package backup)
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
	reSysTime  = regexp.MustCompile(`(?i)\bAS\s+OF\s+(?:SYSTEM\s+TIME|TIMESTAMP)\b`)
)

// own parses a statement that is not MySQL's; nil if it is none of them.
func (p *parser) own(query string) sqlparser.Statement {
	q := strings.TrimSpace(query)
	if st := backup.Parse(q); st != nil { // package backup asks for the privilege itself
		return inject(ignoreAuth, &ownNode{g: p.g, name: st.Name(), sch: st.Schema(), writes: true,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return p.g.backups.Run(ctx, st) }})
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
		return inject(processAuth, &ownNode{g: p.g, name: "SHOW JOBS", sch: jobTopic.schema(), run: p.g.showJobs})
	case reGodwit.MatchString(q):
		return p.godwit(strings.ToLower(strings.Join(strings.Fields(reGodwit.FindStringSubmatch(q)[1]), " ")))
	}
	return nil
}

func unquote(s string) string { return strings.Trim(s, "`'\"") }

// rewriteText brings CockroachDB's AS OF SYSTEM TIME to the engine's AS OF.
func rewriteText(q string) string {
	q = quoteAccount(quoteAfter(rewriteAsOf(ddl.RewriteCreate(unwrap(plainComments(q))))))
	// a statement may have a megabyte
	if !base.ContainsFold(q, "SYSTEM") && !base.ContainsFold(q, "TIMESTAMP") || !reSysTime.MatchString(q) {
		return q
	}
	return reSysTime.ReplaceAllString(q, "AS OF")
}

// plainComments makes comments for MariaDB alone, with which its dumps begin, comments for
// everybody.
func plainComments(q string) string {
	for at := 0; ; {
		rest := strings.TrimLeft(q[at:], " \t\r\n")
		at = len(q) - len(rest)
		end := strings.Index(rest, "*/")
		if !strings.HasPrefix(rest, "/*M!") || end < 0 {
			return q
		}
		q = q[:at] + "/*" + q[at+len("/*M!"):]
		at += end
	}
}

// unwrap takes what a statement that begins with an executable comment, as those of a dump do, has
// in such comments out of them. The text of a trigger or view is stored as it comes, and the next
// dump would wrap it again.
func unwrap(q string) string {
	if !strings.HasPrefix(strings.TrimLeft(q, " \t\r\n"), "/*!") {
		return q
	}
	var b strings.Builder
	for i := 0; i < len(q); {
		switch c := q[i]; {
		case c == '\'' || c == '"' || c == '`':
			j := quotedEnd(q, i)
			b.WriteString(q[i:j])
			i = j
		case strings.HasPrefix(q[i:], "/*!"):
			for i += len("/*!"); i < len(q) && q[i] >= '0' && q[i] <= '9'; i++ {
			}
		case strings.HasPrefix(q[i:], "/*"): // an ordinary comment stays
			j := strings.Index(q[i+2:], "*/")
			if j < 0 {
				return q
			}
			b.WriteString(q[i : i+2+j+2])
			i += 2 + j + 2
		case strings.HasPrefix(q[i:], "*/"):
			i += 2
		default:
			b.WriteByte(c)
			i++
		}
	}
	return strings.TrimSpace(b.String())
}

// quotedEnd is where the quoted text that begins at i ends.
func quotedEnd(q string, i int) int {
	quote := q[i]
	for i++; i < len(q) && q[i] != quote; i++ {
		if q[i] == '\\' && quote != '`' {
			i++
		}
	}
	return min(i+1, len(q))
}

var reAfter = regexp.MustCompile("(?is)'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|/\\*.*?\\*/|" +
	"\\bAFTER\\s+([a-z_][a-z_0-9$]*)")

// quoteAfter quotes the name of the column behind which ALTER TABLE puts another: the engine takes
// no keyword there, and status, name and type are keywords.
func quoteAfter(q string) string {
	if bound.Kind(q) != "alter" || !base.ContainsFold(q, "AFTER") {
		return q
	}
	return reAfter.ReplaceAllStringFunc(q, func(m string) string {
		if name := reAfter.FindStringSubmatch(m)[1]; name != "" {
			return strings.TrimSuffix(m, name) + "`" + name + "`"
		}
		return m
	})
}

var reAccount = regexp.MustCompile(`(?is)^(\s*(?:(?:CREATE|DROP|ALTER)\s+(?:USER|ROLE)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?|` +
	`GRANT\s[^;]*\sTO\s+|REVOKE\s[^;]*\sFROM\s+|SHOW\s+GRANTS\s+FOR\s+))([a-z_][\w$]*)`)

// quoteAccount quotes the name of a user, as quoteAfter does that of a column.
func quoteAccount(q string) string {
	m := reAccount.FindStringSubmatchIndex(q)
	if m == nil || strings.EqualFold(q[m[4]:m[5]], "CURRENT_USER") {
		return q
	}
	return q[:m[4]] + "`" + q[m[4]:m[5]] + "`" + q[m[5]:]
}

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
		l.Region = g.DB.Region()
		if name != "" && !strings.HasPrefix(strings.ToUpper(name), "PRIMARY") {
			if l.Region = g.DB.Topology().RegionByName(name); l.Region == 0 {
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
		return inject(ignoreAuth, &ownNode{g: p.g, name: "SHOW GODWIT STATEMENT COST", sch: costSchema(), run: showCost})
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

// renameIsolation lets SET know the variable by its old name, too, and SET SESSION TRANSACTION READ
// ONLY as the assignment that it is.
func renameIsolation(stmt sqlparser.Statement) {
	set, ok := stmt.(*sqlparser.Set)
	if !ok {
		return
	}
	for _, e := range set.Exprs {
		if v, ok := e.Expr.(*sqlparser.SQLVal); ok && e.Scope != sqlparser.SetScope_None &&
			strings.EqualFold(e.Name.Name.String(), sqlparser.TransactionStr) {
			switch string(v.Val) {
			case sqlparser.TxReadOnly:
				e.Name, e.Expr = sqlparser.NewColName(session.ReadOnlyVar), sqlparser.NewIntVal([]byte("1"))
			case sqlparser.TxReadWrite:
				e.Name, e.Expr = sqlparser.NewColName(session.ReadOnlyVar), sqlparser.NewIntVal([]byte("0"))
			}
		}
		if n := e.Name.Name.String(); strings.HasSuffix(strings.ToLower(n), session.OldIsolationVar) {
			e.Name.Name = sqlparser.NewColIdent(n[:len(n)-len(session.OldIsolationVar)] + session.IsolationVar)
		}
	}
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

const asOfForms = `AS\s+OF\s+(?:TIMESTAMP|SYSTEM\s+TIME)\s+(.+?)[;\s]*$`

var (
	reStartAsOf = regexp.MustCompile(`(?is)^\s*START\s+TRANSACTION\s+READ\s+ONLY\s*,?\s*` + asOfForms)
	reNextAsOf  = regexp.MustCompile(`(?is)^\s*SET\s+TRANSACTION\s+READ\s+ONLY\s*,?\s*` + asOfForms)
)

// rewriteAsOf brings TiDB's transactions in the past to assignments, so that the time may be any
// expression.
func rewriteAsOf(q string) string {
	if len(q) > 4096 || !base.ContainsFold(q, "TRANSACTION") {
		return q
	}
	if m := reStartAsOf.FindStringSubmatch(q); m != nil {
		return "SET @@SESSION." + session.StartAsOfVar + " = (" + m[1] + ")"
	}
	if m := reNextAsOf.FindStringSubmatch(q); m != nil {
		return "SET @@SESSION." + session.NextAsOfVar + " = (" + m[1] + ")"
	}
	return q
}
