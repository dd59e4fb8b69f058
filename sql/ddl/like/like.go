// Package like gives a table that is made LIKE another one what the engine does not copy.
package like

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Indexes goes around the engine's check of a CREATE TABLE: the indexes of one LIKE another
// table get what the engine does not copy, which is their kind, where they are neither unique nor
// plain, and how much of a column they take.
func Indexes(check analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		c, ok := n.(*plan.CreateTable)
		s := session.Of(ctx)
		if !ok || s == nil {
			return check(ctx, a, n, scope, sel, flags)
		}
		snap, err := s.Snapshot(ctx)
		if err != nil {
			return n, transform.SameTree, err
		}
		for _, from := range Tables(s, snap) {
			for _, x := range c.Indexes() {
				if d := from.Desc.Index(x.Name); d != nil && len(d.Cols) == len(x.Columns) {
					x.Constraint = d.Constraint
					for i := range x.Columns {
						x.Columns[i].Length = d.Cols[i].Length
					}
				}
			}
		}
		return check(ctx, a, n, scope, sel, flags)
	}
}

// Tables are the tables that the statement of a session makes another one like. The first
// one that has a column or an index counts: it is the last.
func Tables(s *session.Session, snap *schema.Snapshot) (out []*schema.Table) {
	tree, _ := s.Stmt.Tree.(*sqlparser.DDL)
	if tree == nil || tree.OptLike == nil {
		return nil
	}
	for i := len(tree.OptLike.LikeTables) - 1; i >= 0; i-- {
		like := tree.OptLike.LikeTables[i]
		db := like.DbQualifier.String()
		if db == "" {
			db = s.GetCurrentDatabase()
		}
		from := s.Temporary(db, like.Name.String())
		if from == nil {
			from = snap.Table(db, like.Name.String())
		}
		if from != nil {
			out = append(out, from)
		}
	}
	return out
}

// Times gives the TIMEs of a table that is made LIKE others the digits that they have there.
func Times(ctx *sql.Context, snap *schema.Snapshot, desc *schema.TableDesc, sch sql.Schema) {
	s := session.Of(ctx)
	if s == nil {
		return
	}
	for _, from := range Tables(s, snap) {
		for i, c := range sch {
			if at := from.Desc.ColByName(c.Name); at >= 0 && types.IsTimespan(c.Type) &&
				from.Cols[at].Kind == schema.KindTimespan {
				desc.Cols[i].Type = from.Desc.Cols[at].Type
			}
		}
	}
}
