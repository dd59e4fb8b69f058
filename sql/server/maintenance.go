package server

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/sql/verify"
)

// Statements of MySQL about tables and the server that the engine does not know:
//
//	CHECK TABLE: compares indexes with rows (package verify)
//	OPTIMIZE TABLE, REPAIR TABLE: the answer of an engine that has no such thing
//	CHECKSUM TABLE: a sum over all rows
//	SHOW OPEN TABLES: none, as tables are not kept open
//	SHOW ENGINE: an error that says what there is instead

var (
	reMaintain = regexp.MustCompile(`(?is)^(CHECK|OPTIMIZE|REPAIR|CHECKSUM)\s+(?:(?:NO_WRITE_TO_BINLOG|LOCAL)\s+)?TABLES?\s+(.+)$`)
	reOfTables = regexp.MustCompile("(?is)^\\s*" + identRE + "\\s*(,)?")
	reCheckHow = regexp.MustCompile(`(?is)^(?:\s*(?:FOR\s+UPGRADE|QUICK|FAST|MEDIUM|EXTENDED|CHANGED|USE_FRM)\s*)*$`)
	reOpen     = regexp.MustCompile(`(?is)^SHOW\s+OPEN\s+TABLES(?:\s+(?:FROM|IN)\s+\S+)?(?:\s+(?:LIKE|WHERE)\s+.+)?$`)
	reEngine   = regexp.MustCompile(`(?is)^SHOW\s+ENGINE\s+\S+\s+(?:STATUS|MUTEX|LOGS)$`)
)

var errEngine = mysql.NewSQLError(errNotSupported, "42000", "SHOW ENGINE is not supported: SHOW GODWIT LOCKS, "+
	"SHOW GODWIT TRANSACTIONS and SHOW GODWIT HEALTH tell what it would")

// maintenance parses such a statement; nil if it is none.
func (p *parser) maintenance(q string) sqlparser.Statement {
	switch {
	case reEngine.MatchString(q):
		return p.refused(errEngine)
	case reOpen.MatchString(q):
		sch := textSchema("Database", "Table", "In_use", "Name_locked")
		sch[2].Type, sch[3].Type = types.Int64, types.Int64
		return inject(ignoreAuth, &ownNode{g: p.g, name: "SHOW OPEN TABLES", sch: sch,
			run: func(*sql.Context) ([]sql.Row, error) { return nil, nil }})
	}
	m := reMaintain.FindStringSubmatch(q)
	if m == nil {
		return nil
	}
	op := strings.ToLower(m[1])
	names, how := tableList(m[2])
	if names == nil || !reCheckHow.MatchString(how) {
		return nil // a syntax error, which the engine words
	}
	if op == "checksum" {
		sch := textSchema("Table", "Checksum")
		sch[1].Type = types.Int64
		quick := base.ContainsFold(how, "QUICK")
		return inject(ignoreAuth, &ownNode{g: p.g, name: "CHECKSUM TABLE", sch: sch,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return p.g.checksums(ctx, names, quick) }})
	}
	return inject(ignoreAuth, &ownNode{g: p.g, name: strings.ToUpper(op) + " TABLE",
		sch: textSchema("Table", "Op", "Msg_type", "Msg_text"),
		run: func(ctx *sql.Context) ([]sql.Row, error) { return p.g.maintain(ctx, op, names) }})
}

// tableName is a table as a statement names it; db may be empty.
type tableName struct{ db, name string }

// tableList reads names with commas between, and returns what follows; no names if the text is no
// list.
func tableList(text string) (names []tableName, rest string) {
	for {
		m := reOfTables.FindStringSubmatch(text)
		if m == nil {
			return nil, ""
		}
		names = append(names, tableName{unquote(m[1]), unquote(m[2])})
		if text = text[len(m[0]):]; m[3] == "" {
			return names, text
		}
	}
}

// readable finds a table that the user may read; nil if there is none, but maybe a view.
func (g *gateway) readable(ctx *sql.Context, n *tableName, also ...sql.PrivilegeType) (t *table.Table, view bool, err error) {
	if n.db == "" {
		if n.db = ctx.GetCurrentDatabase(); n.db == "" {
			return nil, false, sql.ErrNoDatabaseSelected.New()
		}
	}
	if err := g.needs(ctx, n.db, n.name, append(also, sql.PrivilegeType_Select)...); err != nil {
		return nil, false, err
	}
	snap, err := g.Snapshot(ctx)
	if err != nil {
		return nil, false, err
	}
	if t := snap.Table(n.db, n.name); t != nil {
		return table.New(g.tableEnv(), t), false, nil
	}
	return nil, snap.View(n.db, n.name) != nil, nil
}

// needs is the error for a client who lacks one of some privileges for a table.
func (g *gateway) needs(ctx *sql.Context, db, name string, ps ...sql.PrivilegeType) error {
	mine := g.rights(ctx)
	for _, p := range ps {
		if !mine.Table(db, name, p) {
			return rights.Refusal(ctx, strings.ToUpper(p.String()), name)
		}
	}
	return nil
}

// maintain checks tables, and answers other statements as an engine does that has none: the store
// compacts what it has, and checks what it reads, by itself.
func (g *gateway) maintain(ctx *sql.Context, op string, names []tableName) (rows []sql.Row, err error) {
	var also []sql.PrivilegeType
	if op != "check" {
		also = append(also, sql.PrivilegeType_Insert)
	}
	for _, n := range names {
		t, view, err := g.readable(ctx, &n, also...)
		if err != nil {
			return nil, err
		}
		full := n.db + "." + n.name
		say := func(kind, text string) { rows = append(rows, sql.Row{full, op, kind, text}) }
		switch {
		case op == "check" && t != nil && !t.IsTemporary() && t.Def.HomesOf == nil:
			found, err := verify.Messages(session.Of(ctx).KVContext(ctx), g.DB, t.Def)
			if err != nil {
				return nil, err
			}
			for _, m := range found {
				say(m[0], m[1])
			}
		case t != nil:
			say("note", "The storage engine for the table doesn't support "+op)
		case op == "check" && view:
			say("status", "OK")
		default:
			say("Error", "Table '"+full+"' doesn't exist")
			say("status", "Operation failed")
		}
	}
	return rows, nil
}

// checksums are the sums of tables over their rows, in any order: two tables with the same rows and
// the same columns have the same. MySQL's depend on how it stores rows, and are others. quick ones
// are NULL: no sum is kept.
func (g *gateway) checksums(ctx *sql.Context, names []tableName, quick bool) (rows []sql.Row, err error) {
	for _, n := range names {
		t, _, err := g.readable(ctx, &n)
		if err != nil {
			return nil, err
		}
		full := n.db + "." + n.name
		row := sql.Row{full, nil}
		switch {
		case t == nil:
			ctx.Session.Warn(&sql.Warning{Level: "Error", Code: 1146, Message: "Table '" + full + "' doesn't exist"})
		case !quick:
			if row[1], err = t.Checksum(ctx); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}
