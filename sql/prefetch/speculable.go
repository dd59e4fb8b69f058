package prefetch

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/table"
)

// inspectAll shows all nodes and expressions of a plan, those of subqueries and of the sources of
// INSERTs too.
func inspectAll(ctx *sql.Context, n sql.Node, node func(sql.Node), expr func(sql.Expression)) {
	transform.InspectWithOpaque(ctx, n, func(ctx *sql.Context, n sql.Node) bool {
		if n == nil {
			return false
		}
		node(n)
		if ins, ok := n.(*plan.InsertInto); ok && ins.Source != nil {
			inspectAll(ctx, ins.Source, node, expr)
		}
		if x, ok := n.(sql.Expressioner); ok {
			for _, e := range x.Expressions() {
				sql.Inspect(ctx, e, func(ctx *sql.Context, e sql.Expression) bool {
					if e == nil {
						return false
					}
					expr(e)
					if x, ok := e.(sql.ExpressionWithNodes); ok {
						for _, n := range x.NodeChildren() {
							inspectAll(ctx, n, node, expr)
						}
					}
					return true
				})
			}
		}
		return true
	})
}

// sideEffects are functions that are called no more often than the client asks.
var sideEffects = map[string]bool{
	"sleep": true, "get_lock": true, "release_lock": true, "release_all_locks": true, "benchmark": true, "load_file": true,
}

// speculable reports whether the body of a trigger has no effects but on rows and variables, and
// collects the tables that it writes.
func speculable(ctx *sql.Context, body sql.Node, written map[base.TableID]bool) bool {
	ok := true
	inspectAll(ctx, body, func(n sql.Node) {
		ok = ok && harmless(n)
		switch n := n.(type) {
		case *plan.UpdateJoin:
			for _, u := range n.UpdateTargets {
				if d, err := plan.GetUpdatable(u); err == nil {
					if t := table.Of(d); t != nil {
						written[t.Def.Desc.ID] = true
					}
				}
			}
		case *plan.ForeignKeyHandler:
			writtenBy(n.Editor, written)
		}
		if t := targetOf(n); t != nil {
			written[t.Def.Desc.ID] = true
		}
	}, func(e sql.Expression) {
		switch e := e.(type) {
		case *expression.SetField:
			_, sys := e.LeftChild.(*expression.SystemVar)
			ok = ok && !sys
		case sql.FunctionExpression:
			ok = ok && !sideEffects[strings.ToLower(e.FunctionName())]
		}
	})
	return ok
}

// harmless reports whether a statement has no effects but on rows and variables.
func harmless(n sql.Node) bool {
	switch n := n.(type) {
	case *plan.Block, *plan.TriggerBeginEndBlock, *plan.BeginEndBlock: // their statements come by themselves
		return true
	case *plan.Call, *plan.Truncate, *plan.LoadData:
		return false
	case *plan.Into:
		return n.Outfile == "" && n.Dumpfile == ""
	case *plan.UpdateJoin, *plan.ForeignKeyHandler:
		return true
	}
	return !plan.IsDDLNode(n)
}

// writtenBy collects the tables that foreign keys change, through all levels.
func writtenBy(fk *plan.ForeignKeyEditor, written map[base.TableID]bool) {
	for _, a := range fk.RefActions {
		if e := RowEditor(a.Editor.Editor); e != nil && !written[e.Def.Desc.ID] {
			written[e.Def.Desc.ID] = true
			writtenBy(a.Editor, written)
		}
	}
}

// dependsOn reports whether the rows of a plan depend on what triggers may change: variables and
// the like, and the tables that they write.
func dependsOn(ctx *sql.Context, n sql.Node, written map[base.TableID]bool) bool {
	depends := false
	inspectAll(ctx, n, func(n sql.Node) {
		if tn, ok := n.(sql.TableNode); ok {
			t := table.Of(tn.UnderlyingTable())
			depends = depends || t != nil && written[t.Def.Desc.ID]
		}
	}, func(e sql.Expression) {
		switch e := e.(type) {
		case *expression.UserVar:
			depends = true
		case sql.FunctionExpression:
			switch strings.ToLower(e.FunctionName()) {
			case "last_insert_id", "row_count", "found_rows":
				depends = true
			}
		}
	})
	return depends
}
