package server

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/ddl/sharding"
	"github.com/godwitdb/godwit/sql/describe"
	"github.com/godwitdb/godwit/sql/infoschema"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// showCreateDatabase completes SHOW CREATE DATABASE by what new tables are.
func (b *builder) showCreateDatabase(ctx *sql.Context, s *session.Session, n *plan.ShowCreateDatabase,
	row sql.Row) (sql.RowIter, error) {
	if s.Stmt.Explained == n {
		return nil, nil
	}
	db, err := ddl.NewProvider(b.g.Env).Find(ctx, n.Database().Name())
	if err != nil || db == nil || !db.Desc.Async {
		return nil, err
	}
	s.Stmt.Explained = n
	it, err := b.base.ExecBuilder.Build(ctx, n, row)
	if err != nil {
		return nil, err
	}
	return infoschema.WithClause(it, " "+ddl.LocalityMark+"REPLICATION ASYNC */"), nil
}

// createTable keeps for CreateTable of package ddl what the engine does not pass on to it.
func (b *builder) createTable(s *session.Session, n *plan.CreateTable) error {
	s.Stmt.Create = session.TableOptions{}
	if c, ok := n.TableOpts["comment"].(string); ok {
		s.Stmt.Create.Comment = c
	}
	text, _ := n.TableOpts[strings.ToLower(ddl.LocalityOption)].(string)
	if ddl.RePlaced.MatchString(text) {
		m := ddl.RePlacement.FindStringSubmatch(text)
		s.Stmt.Create.Placement, s.Stmt.Create.Replication = m[1], strings.ToUpper(m[3])
		if m[2] != "" {
			l, bad := b.g.parseLocality(m[2])
			if bad != "" {
				return schema.Invalid(bad)
			}
			s.Stmt.Create.Locality = l
		}
		s.Stmt.Create.Locality.Async = s.Stmt.Create.Replication == "ASYNC"
		s.Stmt.Create.Locality.Split = sharding.Count(m[4])
	}
	return s.Stmt.Create.Locality.Check()
}

// showCreate is SHOW CREATE TABLE of our tables.
func (b *builder) showCreate(ctx *sql.Context, s *session.Session, n *plan.ShowCreateTable, row sql.Row) (sql.RowIter, error) {
	rt, ok := n.Child.(*plan.ResolvedTable)
	if show, is := s.Stmt.Tree.(*sqlparser.Show); is && !ok && s.Stmt.Explained != n {
		db, name := rights.DatabaseOf(ctx, show.Table.DbQualifier.String()), show.Table.Name.String()
		if err := b.g.rights(ctx).SeesText(ctx, db, name); err != nil {
			return nil, err
		}
		s.Stmt.Explained = n
		it, err := b.base.ExecBuilder.Build(ctx, n, row)
		return infoschema.CreateView(it, b.g.Catalog.Loaded().View(db, name)), err
	}
	if !ok || s.Stmt.Explained == n {
		return nil, nil
	}
	if rt.SqlDatabase != nil {
		if err := b.g.rights(ctx).SeesWhole(ctx, rt.SqlDatabase.Name(), rt.Name()); err != nil {
			return nil, err
		}
	}
	t := table.Of(rt.Table)
	if t == nil {
		return nil, nil
	}
	return ddl.Once(func(ctx *sql.Context) (sql.Row, error) {
		text, err := b.g.definition(ctx, t)
		return sql.Row{t.Name(), text}, err
	}), nil
}

// definition is the text of SHOW CREATE TABLE, with the locality unless it is the usual one.
func (g *gateway) definition(ctx *sql.Context, t *table.Table) (string, error) {
	fks, err := ddl.New(g.Env, t.Def).GetDeclaredForeignKeys(ctx)
	if err != nil {
		return "", err
	}
	var next uint64
	if t.Def.Desc.AutoIncCol() >= 0 {
		if next, err = t.PeekNextAutoIncrementValue(ctx); err != nil {
			return "", err
		}
	}
	text := describe.Create(ctx, t.Def, fks, next)
	l := t.Def.Desc.Locality
	clause := g.PlacementClause(t)
	if l.Kind != schema.ByRow && l.Kind != schema.Temporary {
		clause = append(clause, "LOCALITY "+g.LocalityText(l))
	}
	if l.Async {
		clause = append(clause, "REPLICATION ASYNC")
	}
	if clause = append(clause, sharding.Clause(l)...); clause != nil {
		text += " " + ddl.LocalityMark + strings.Join(clause, " ") + " */"
	}
	return text, nil
}
