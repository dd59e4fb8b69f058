package server

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/infoschema"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// What a user may see of the statements and definitions of others.

func (g *gateway) rights(ctx *sql.Context) rights.Set {
	return rights.Of(ctx, g.engine.Analyzer.Catalog.MySQLDb)
}

// engineBuilds has the engine build a node that the builder changes the rows of.
func (b *builder) engineBuilds(ctx *sql.Context, s *session.Session, n sql.Node, row sql.Row) (sql.RowIter, error) {
	s.Stmt.Explained = n
	return b.base.ExecBuilder.Build(ctx, n, row)
}

// showProcessUser is the column with the user.
const showProcessUser = 1

// buildSeen builds what shows something of others; a nil iterator leaves the node to the engine.
func (b *builder) buildSeen(ctx *sql.Context, s *session.Session, n sql.Node, row sql.Row) (sql.RowIter, error) {
	if s.Stmt.Explained == n {
		return nil, nil
	}
	switch n := n.(type) {
	case *plan.Kill:
		return nil, b.g.mayKill(ctx, n.ConnID)
	case *plan.ShowProcessList:
		it, err := b.engineBuilds(ctx, s, n, row)
		if err != nil {
			return nil, err
		}
		return rights.OwnThreads(ctx, b.base.Catalog.MySQLDb, it, showProcessUser), nil
	case *plan.Grant:
		return b.changer(ctx, s, row).Grant(ctx, n)
	case *plan.Revoke:
		return b.changer(ctx, s, row).Revoke(ctx, n)
	case *plan.ShowDatabases:
		return rights.ShowDatabases(ctx, b.base.Catalog.MySQLDb, n)
	case *plan.ShowGrants:
		return rights.ShowGrants(ctx, b.base.Catalog.MySQLDb, n)
	case *plan.ShowColumns:
		return b.shownColumns(ctx, s, n, n.Child, 0)
	case *plan.ShowIndexes:
		return b.shownColumns(ctx, s, n, n.Child, 4)
	case *plan.ShowTables:
		return b.shownTables(ctx, s, n, row)
	case *plan.ShowTriggers:
		return b.engineBuilds(ctx, s, b.g.rights(ctx).ShowTriggers(n), row)
	case *plan.ShowCreateTrigger:
		return nil, b.g.maySeeTrigger(ctx, n)
	case *plan.ShowEvents:
		return nil, b.g.maySeeEvents(ctx, n.Database().Name())
	case *plan.ShowCreateEvent:
		return nil, b.g.maySeeEvents(ctx, n.Database().Name())
	case *plan.AnalyzeTable:
		return analyzed(ctx, n), nil
	}
	return nil, nil
}

// analyzed answers ANALYZE TABLE, with the database before the name of each table as MySQL does.
func analyzed(ctx *sql.Context, n *plan.AnalyzeTable) sql.RowIter {
	var rows []sql.Row
	for _, t := range n.Tables {
		db := ctx.GetCurrentDatabase()
		if own := table.Of(t); own != nil {
			db = own.Database()
		}
		row := sql.Row{db + "." + t.Name(), "analyze", "status", "OK"}
		if err := n.Stats.AnalyzeTable(ctx, t, db); err != nil {
			row[2], row[3] = "Error", err.Error()
		}
		rows = append(rows, row)
	}
	return sql.RowsToRowIter(rows...)
}

func (b *builder) changer(ctx *sql.Context, s *session.Session, row sql.Row) rights.Changer {
	return rights.Changer{Catalog: b.base.Catalog, Engine: func(n sql.Node) error {
		_, err := b.engineBuilds(ctx, s, n, row)
		return err
	}}
}

// shownColumns shows the columns of a table, or its keys, that the user may see.
func (b *builder) shownColumns(ctx *sql.Context, s *session.Session, n, of sql.Node, at int) (sql.RowIter, error) {
	it, err := b.describes(ctx, s, n)
	show, ok := s.Stmt.Tree.(*sqlparser.Show)
	if err != nil || !ok {
		return it, err
	}
	db := rights.DatabaseOf(ctx, show.Table.DbQualifier.String())
	if show.Database != "" {
		db = show.Database
	}
	if t, ok := of.(*plan.ResolvedTable); ok && t.SqlDatabase != nil {
		db = t.SqlDatabase.Name()
	}
	if strings.EqualFold(db, sql.InformationSchemaDatabaseName) {
		return it, nil
	}
	if mine := b.g.rights(ctx); !mine.Sees(db, show.Table.Name.String()) {
		return nil, rights.Refusal(ctx, "SELECT", show.Table.Name.String())
	}
	return b.g.rights(ctx).ShownColumns(db, show.Table.Name.String(), it, at), nil
}

// maySeeEvents asks for the EVENT privilege of a database.
func (g *gateway) maySeeEvents(ctx *sql.Context, db string) error {
	if g.rights(ctx).SeesEvents(db) {
		return nil
	}
	me := ctx.Client()
	return mysql.NewSQLError(1044, "42000", "Access denied for user '%s'@'%s' to database '%s'", me.User, me.Address, db)
}

// describes builds what says something of a table.
func (b *builder) describes(ctx *sql.Context, s *session.Session, n sql.Node) (sql.RowIter, error) {
	var rows []sql.Row
	ours := false
	switch n := n.(type) {
	case *plan.ShowColumns:
		rows, ours = infoschema.Columns(ctx, n, b.g.rights(ctx))
	case *plan.ShowIndexes:
		rows, ours = infoschema.Indexes(n)
		if show, ok := s.Stmt.Tree.(*sqlparser.Show); ok && ours && show.ShowIndexFilterOpt != nil {
			var err error
			if rows, err = infoschema.Where(ctx, b.base.Catalog, n.Schema(ctx), rows, show.ShowIndexFilterOpt); err != nil {
				return nil, err
			}
		}
	}
	if ours {
		return sql.RowsToRowIter(rows...), nil
	}
	return b.engineBuilds(ctx, s, n, nil)
}

// shownTables is SHOW TABLES of information_schema, whose tables are system views with names in
// upper case.
func (b *builder) shownTables(ctx *sql.Context, s *session.Session, n *plan.ShowTables, row sql.Row) (sql.RowIter, error) {
	if !strings.EqualFold(n.Database().Name(), sql.InformationSchemaDatabaseName) {
		return nil, nil
	}
	it, err := b.engineBuilds(ctx, s, n, row)
	if err != nil {
		return nil, err
	}
	rows, err := sql.RowIterToRows(ctx, it)
	for i, r := range rows {
		name, _ := r[0].(string)
		rows[i] = sql.Row{strings.ToUpper(name)}
		if n.Full {
			rows[i] = append(rows[i], "SYSTEM VIEW")
		}
	}
	return sql.RowsToRowIter(rows...), err
}

// maySeeTrigger asks for the TRIGGER privilege of the table.
func (g *gateway) maySeeTrigger(ctx *sql.Context, n *plan.ShowCreateTrigger) error {
	d, ok := n.Database().(sql.TriggerDatabase)
	if !ok {
		return nil
	}
	all, err := d.GetTriggers(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		if strings.EqualFold(t.Name, n.TriggerName) && !g.rights(ctx).Table(n.Database().Name(),
			schema.TriggerTable(t.CreateStatement), sql.PrivilegeType_Trigger) {
			return rights.ErrNeeds("TRIGGER")
		}
	}
	return nil
}

// mayKill lets everybody end its own threads, and those with CONNECTION_ADMIN all.
func (g *gateway) mayKill(ctx *sql.Context, id uint32) error {
	v, ok := g.sessions.Load(id)
	if !ok {
		return mysql.NewSQLError(1094, "HY000", "Unknown thread id: %d", id)
	}
	if v.(*session.Session).Client().User != ctx.Client().User && !g.rights(ctx).Dynamic(rights.ConnectionAdmin) {
		return mysql.NewSQLError(1095, "HY000", "You are not owner of thread %d", id)
	}
	return nil
}

// body executes the body of a trigger with the rights of its definer.
func (b *builder) body(ctx *sql.Context, s *session.Session, n *plan.TriggerBeginEndBlock, row sql.Row) (sql.RowIter, error) {
	if s.Running == n {
		return nil, nil
	}
	return rights.RunBody(ctx, b.base.Catalog, s, n, func() (sql.RowIter, error) {
		outer := s.Running
		defer func() { s.Running = outer }()
		s.Running = n
		return b.base.ExecBuilder.Build(ctx, n, row)
	})
}

// call executes a procedure with the rights of its definer. The engine binds its statements while
// it builds the call.
func (b *builder) call(ctx *sql.Context, s *session.Session, n *plan.Call, row sql.Row) (sql.RowIter, error) {
	if n.Procedure == nil || n.Procedure.ExternalProc != nil || n.Database() == nil {
		return nil, nil
	}
	db, name := n.Database().Name(), n.Procedure.Name
	v, err := s.GetSessionVariable(ctx, "max_sp_recursion_depth")
	if err != nil {
		return nil, err
	}
	recursions, _ := v.(int64)
	end, err := s.EnterProcedure(db, name, int(recursions))
	if err != nil {
		return nil, err
	}
	defer end()
	definer, err := b.g.ProcedureDefiner(ctx, db, name)
	if err != nil {
		return nil, err
	}
	outer := s.Calling
	defer func() { s.Calling = outer }()
	s.Calling = n
	if definer != nil {
		set, err := rights.OfAccount(b.base.Catalog.MySQLDb, definer.Name, definer.Host)
		if err != nil {
			return nil, err
		}
		defer rights.With(ctx, b.base.Catalog.MySQLDb, set)()
	}
	return b.base.ExecBuilder.Build(ctx, n, row)
}
